/* chat_prompt.c - a rendered prompt to token ids. */
#include "base/error.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

lk_status lk_chat_prompt_encode(const lk_chat_prompt *prompt, const lk_tokenizer *tokenizer,
                                uint32_t flags, int32_t *ids, size_t capacity, size_t *n_ids,
                                lk_error *err) {
    if (n_ids != NULL) {
        *n_ids = 0;
    }
    if (prompt == NULL) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE, "lk_chat_prompt_encode: the prompt is missing");
    }
    if ((flags & ~(uint32_t)LK_CHAT_PARSE_SPECIAL) != 0) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE, "lk_chat_prompt_encode: unknown flags 0x%lx",
                       (unsigned long)flags);
    }
    const uint8_t *foreign = (flags & LK_CHAT_PARSE_SPECIAL) != 0 ? NULL : prompt->origins;
    return lk_tokenizer_encode_marked(tokenizer, prompt->text, foreign, prompt->n,
                                      LK_TOKENIZE_PARSE_SPECIAL, ids, capacity, n_ids, err);
}
