/* api_tokenizer.c - opening a tokenizer from a file; the rest of lk/tokenizer.h is in src/text. */
#include "base/error.h"
#include "lk/tokenizer.h"
#include "model/model_vocab.h"

lk_status lk_tokenizer_open(const char *path, const lk_allocator *allocator, lk_tokenizer **out,
                            lk_error *err) {
    if (out != NULL) {
        *out = NULL;
    }
    if (path == NULL || out == NULL) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE, "lk_tokenizer_open: path or out is missing");
    }
    lk_gguf *gguf = NULL;
    lk_status status = lk_gguf_open(path, allocator, &gguf, err);
    if (status == LK_OK) {
        status = lk_tokenizer_create_from_gguf(gguf, allocator, out, err);
    }
    lk_gguf_close(gguf);
    return status;
}
