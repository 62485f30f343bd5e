/* pre_gpt4o.c - the words of GPT-4o and gpt-oss. With U*W+ and U+W* as in pre_cased.h and
 * T = (?i:'s|'t|'re|'ve|'m|'ll|'d)? :
 *     [^\r\n\p{L}\p{N}]?U*W+T|[^\r\n\p{L}\p{N}]?U+W*T|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*
 *     |\s*[\r\n]+|\s+(?!\S)|\s+
 */
#include "text/splitters/pre_cased.h"
#include "text/splitters/pre_splitter.h"

size_t lk_pre_gpt4o(const uint8_t *text, size_t n, size_t pos) {
    const size_t end = lk_pre_cased(text, n, pos);
    if (end != 0) {
        const size_t contraction = lk_pre_contraction(text, n, end, true);
        return contraction != 0 ? contraction : end;
    }
    return lk_pre_llama_rest(text, n, pos, 3, '/');
}
