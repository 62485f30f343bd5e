/* pre_gpt4o.c - the words of GPT-4o and gpt-oss. With U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}],
 * W = [\p{Ll}\p{Lm}\p{Lo}\p{M}] and T = (?i:'s|'t|'re|'ve|'m|'ll|'d)? :
 *     [^\r\n\p{L}\p{N}]?U*W+T|[^\r\n\p{L}\p{N}]?U+W*T|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*
 *     |\s*[\r\n]+|\s+(?!\S)|\s+
 */
#include "text/pre_llama.h"
#include "text/pre_splitter.h"

#define SET_BOTH (LK_SET(LK_CAT_LM) | LK_SET(LK_CAT_LO) | LK_SET_MARK) /* in U and in W */
#define SET_UPPER (LK_SET(LK_CAT_LU) | LK_SET(LK_CAT_LT) | SET_BOTH)
#define SET_LOWER (LK_SET(LK_CAT_LL) | SET_BOTH)

/* U*W+ : what U* takes it may have to give back, up to the last character that is in W too. */
static size_t match_lower(const uint8_t *text, size_t n, size_t pos) {
    size_t after_both = 0;
    lk_char c = lk_char_at(text, n, pos);
    for (; lk_char_in(c, SET_UPPER); c = lk_char_at(text, n, c.next)) {
        if (lk_char_in(c, SET_BOTH)) {
            after_both = c.next;
        }
    }
    if (lk_char_in(c, SET_LOWER)) {
        return lk_pre_run(text, n, c.next, SET_LOWER, SIZE_MAX);
    }
    return after_both;
}

/* U+W* */
static size_t match_upper(const uint8_t *text, size_t n, size_t pos) {
    const size_t end = lk_pre_run(text, n, pos, SET_UPPER, SIZE_MAX);
    return end == pos ? 0 : lk_pre_run(text, n, end, SET_LOWER, SIZE_MAX);
}

size_t lk_pre_gpt4o(const uint8_t *text, size_t n, size_t pos) {
    const lk_char c = lk_char_at(text, n, pos);
    const bool may_lead = !lk_char_is_newline(c) && !lk_char_in(c, LK_SET_LETTER | LK_SET_NUMBER);
    size_t end = may_lead ? match_lower(text, n, c.next) : 0;
    if (end == 0) {
        end = match_lower(text, n, pos);
    }
    if (end == 0 && may_lead) {
        end = match_upper(text, n, c.next);
    }
    if (end == 0) {
        end = match_upper(text, n, pos);
    }
    if (end != 0) {
        const size_t contraction = lk_pre_contraction(text, n, end, true);
        return contraction != 0 ? contraction : end;
    }
    return lk_pre_llama_rest(text, n, pos, 3, '/');
}
