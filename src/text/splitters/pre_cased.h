/* pre_cased.h - the words that GPT-4o and Tekken share, which tell upper from lower case. With
 * U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and W = [\p{Ll}\p{Lm}\p{Lo}\p{M}]:
 *     [^\r\n\p{L}\p{N}]?U*W+|[^\r\n\p{L}\p{N}]?U+W*
 */
#ifndef LK_TEXT_PRE_CASED_H
#define LK_TEXT_PRE_CASED_H

#include "text/splitters/pre_llama.h"

#define LK_SET_CASE_BOTH (LK_SET(LK_CAT_LM) | LK_SET(LK_CAT_LO) | LK_SET_MARK) /* in U and in W */
#define LK_SET_CASE_UPPER (LK_SET(LK_CAT_LU) | LK_SET(LK_CAT_LT) | LK_SET_CASE_BOTH)
#define LK_SET_CASE_LOWER (LK_SET(LK_CAT_LL) | LK_SET_CASE_BOTH)

/* U*W+ : what U* takes it may have to give back, up to the last character that is in W too. */
static inline size_t lk_pre_match_lower(const uint8_t *text, size_t n, size_t pos) {
    size_t after_both = 0;
    lk_char c = lk_char_at(text, n, pos);
    for (; lk_char_in(c, LK_SET_CASE_UPPER); c = lk_char_at(text, n, c.next)) {
        if (lk_char_in(c, LK_SET_CASE_BOTH)) {
            after_both = c.next;
        }
    }
    if (lk_char_in(c, LK_SET_CASE_LOWER)) {
        return lk_pre_run(text, n, c.next, LK_SET_CASE_LOWER, SIZE_MAX);
    }
    return after_both;
}

/* U+W* */
static inline size_t lk_pre_match_upper(const uint8_t *text, size_t n, size_t pos) {
    const size_t end = lk_pre_run(text, n, pos, LK_SET_CASE_UPPER, SIZE_MAX);
    return end == pos ? 0 : lk_pre_run(text, n, end, LK_SET_CASE_LOWER, SIZE_MAX);
}

/* Where such a word ends, or 0. */
static inline size_t lk_pre_cased(const uint8_t *text, size_t n, size_t pos) {
    const lk_char c = lk_char_at(text, n, pos);
    const bool may_lead = !lk_char_is_newline(c) && !lk_char_in(c, LK_SET_LETTER | LK_SET_NUMBER);
    size_t end = may_lead ? lk_pre_match_lower(text, n, c.next) : 0;
    if (end == 0) {
        end = lk_pre_match_lower(text, n, pos);
    }
    if (end == 0 && may_lead) {
        end = lk_pre_match_upper(text, n, c.next);
    }
    return end != 0 ? end : lk_pre_match_upper(text, n, pos);
}

#endif
