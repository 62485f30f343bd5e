/* pre_gpt2.c - the words of GPT-2:
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 */
#include "text/splitters/pre_gpt2.h"

#include "text/splitters/pre_splitter.h"

size_t lk_pre_gpt2(const uint8_t *text, size_t n, size_t pos) {
    return lk_pre_gpt2_before(text, n, pos, LK_SET_END);
}
