/* pre_smollm.c - the words of SmolLM: every \p{N} is a word of its own; what lies between is cut as
 * by GPT-2, as if the text ended before each number. */
#include "text/splitters/pre_gpt2.h"
#include "text/splitters/pre_splitter.h"

size_t lk_pre_smollm(const uint8_t *text, size_t n, size_t pos) {
    const lk_char c = lk_char_at(text, n, pos);
    if (lk_char_in(c, LK_SET_NUMBER)) {
        return c.next;
    }
    return lk_pre_gpt2_before(text, n, pos, LK_SET_NUMBER | LK_SET_END);
}
