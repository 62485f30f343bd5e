/* model_vocab.h - the tokenizer that the metadata of a GGUF file describe. */
#ifndef LK_MODEL_MODEL_VOCAB_H
#define LK_MODEL_MODEL_VOCAB_H

#include "lk/gguf.h"
#include "lk/tokenizer.h"

/* Reads the keys tokenizer.ggml.*; the tokenizer keeps nothing of the file. On success *out is
 * owned by the caller (lk_tokenizer_close), on failure it is NULL. LK_E_NOT_FOUND when the file has
 * no tokenizer. */
lk_status lk_tokenizer_create_from_gguf(const lk_gguf *gguf, const lk_allocator *allocator,
                                        lk_tokenizer **out, lk_error *err);

#endif
