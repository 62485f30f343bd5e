/* pre_llama.h - the expression that Llama 3 and Qwen 2 share but for the digits of a number:
 *     (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,DIGITS}|
 * ?[^\s\p{L}\p{N}]+[\r\n]*
 *     |\s*[\r\n]+|\s+(?!\S)|\s+
 */
#ifndef LK_TEXT_PRE_LLAMA_H
#define LK_TEXT_PRE_LLAMA_H

#include "text/splitters/pre_match.h"

/* The alternatives from the number on; `tail` is what may follow punctuation besides line breaks.
 */
static inline size_t lk_pre_llama_rest(const uint8_t *text, size_t n, size_t pos, size_t digits,
                                       uint32_t tail) {
    lk_char c = lk_char_at(text, n, pos);
    if (lk_char_in(c, LK_SET_NUMBER)) {
        return lk_pre_run(text, n, pos, LK_SET_NUMBER, digits);
    }
    const uint32_t others = LK_SET_LETTER | LK_SET_NUMBER | LK_SET_END;
    if (c.cp == ' ') {
        const lk_char next = lk_char_at(text, n, c.next);
        if (!next.is_space && !lk_char_in(next, others)) {
            c = next;
        }
    }
    if (c.is_space) {
        const lk_space_run run = lk_pre_space_run(text, n, pos);
        if (run.after_newline != 0) {
            return run.after_newline;
        }
        return lk_pre_spaces(run, pos, lk_char_in(lk_char_at(text, n, run.end), LK_SET_END));
    }
    size_t end = pos;
    for (; !c.is_space && !lk_char_in(c, others); c = lk_char_at(text, n, end)) {
        end = c.next;
    }
    while (!lk_char_in(c, LK_SET_END) && (lk_char_is_newline(c) || c.cp == tail)) {
        end = c.next;
        c = lk_char_at(text, n, end);
    }
    return end;
}

static inline size_t lk_pre_llama(const uint8_t *text, size_t n, size_t pos, size_t digits) {
    const size_t contraction = lk_pre_contraction(text, n, pos, true);
    if (contraction != 0) {
        return contraction;
    }
    lk_char c = lk_char_at(text, n, pos);
    if (!lk_char_is_newline(c) && !lk_char_in(c, LK_SET_LETTER | LK_SET_NUMBER)) {
        c = lk_char_at(text, n, c.next); /* one character may lead a word */
    }
    if (lk_char_in(c, LK_SET_LETTER)) {
        return lk_pre_run(text, n, c.next, LK_SET_LETTER, SIZE_MAX);
    }
    return lk_pre_llama_rest(text, n, pos, digits, '\n');
}

#endif
