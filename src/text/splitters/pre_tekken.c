/* pre_tekken.c - the words of Tekken (Mistral Nemo and later): as GPT-4o's without the endings,
 * every digit alone:
 *     [^\r\n\p{L}\p{N}]?U*W+|[^\r\n\p{L}\p{N}]?U+W*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*
 *     |\s*[\r\n]+|\s+(?!\S)|\s+
 */
#include "text/splitters/pre_cased.h"
#include "text/splitters/pre_splitter.h"

size_t lk_pre_tekken(const uint8_t *text, size_t n, size_t pos) {
    const size_t end = lk_pre_cased(text, n, pos);
    return end != 0 ? end : lk_pre_llama_rest(text, n, pos, 1, '/');
}
