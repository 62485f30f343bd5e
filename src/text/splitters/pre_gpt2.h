/* pre_gpt2.h - the expression of GPT-2, also for models that first cut out characters of some
 * classes. */
#ifndef LK_TEXT_PRE_GPT2_H
#define LK_TEXT_PRE_GPT2_H

#include "text/splitters/pre_match.h"

/* End of the word at `pos` in a text that ends before any character of the set `ends`; the
 * character at `pos` is not in it. */
static inline size_t lk_pre_gpt2_before(const uint8_t *text, size_t n, size_t pos, uint32_t ends) {
    const size_t contraction = lk_pre_contraction(text, n, pos, false);
    if (contraction != 0) {
        return contraction;
    }
    lk_char c = lk_char_at(text, n, pos);
    if (c.cp == ' ') { /* may lead a word; no space and not the end must follow */
        const lk_char next = lk_char_at(text, n, c.next);
        if (!next.is_space && !lk_char_in(next, ends)) {
            c = next;
        }
    }
    if (c.is_space) {
        const lk_space_run run = lk_pre_space_run(text, n, pos);
        return lk_pre_spaces(run, pos, lk_char_in(lk_char_at(text, n, run.end), ends));
    }
    if (lk_char_in(c, LK_SET_LETTER)) {
        return lk_pre_run(text, n, c.next, LK_SET_LETTER, SIZE_MAX);
    }
    if (lk_char_in(c, LK_SET_NUMBER)) {
        return lk_pre_run(text, n, c.next, LK_SET_NUMBER, SIZE_MAX);
    }
    size_t end = c.next;
    for (c = lk_char_at(text, n, end);
         !c.is_space && !lk_char_in(c, LK_SET_LETTER | LK_SET_NUMBER | LK_SET_END);
         c = lk_char_at(text, n, end)) {
        end = c.next;
    }
    return end;
}

#endif
