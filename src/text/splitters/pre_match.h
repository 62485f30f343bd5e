/* pre_match.h - the pieces that pre-splitters are made of: one character with its class, runs of a
 * class, and the alternatives that several of the models' expressions share. Each matcher returns
 * the end of its match, or 0 when it does not match at `pos` (a match is never empty).
 */
#ifndef LK_TEXT_PRE_MATCH_H
#define LK_TEXT_PRE_MATCH_H

#include "text/unicode/unicode.h"

typedef struct lk_char {
    uint32_t cp;
    uint32_t category; /* 1 << lk_category: one bit, to test against the sets below */
    bool is_space;
    size_t next; /* where the character ends */
} lk_char;

#define LK_SET(category) (1u << (category))
#define LK_SET_LETTER                                                                              \
    (LK_SET(LK_CAT_LU) | LK_SET(LK_CAT_LL) | LK_SET(LK_CAT_LT) | LK_SET(LK_CAT_LM) |               \
     LK_SET(LK_CAT_LO))
#define LK_SET_MARK (LK_SET(LK_CAT_MN) | LK_SET(LK_CAT_MC) | LK_SET(LK_CAT_ME))
#define LK_SET_NUMBER (LK_SET(LK_CAT_ND) | LK_SET(LK_CAT_NL) | LK_SET(LK_CAT_NO))
#define LK_SET_PUNCTUATION                                                                         \
    (LK_SET(LK_CAT_PC) | LK_SET(LK_CAT_PD) | LK_SET(LK_CAT_PS) | LK_SET(LK_CAT_PE) |               \
     LK_SET(LK_CAT_PI) | LK_SET(LK_CAT_PF) | LK_SET(LK_CAT_PO))
#define LK_SET_SYMBOL                                                                              \
    (LK_SET(LK_CAT_SM) | LK_SET(LK_CAT_SC) | LK_SET(LK_CAT_SK) | LK_SET(LK_CAT_SO))
#define LK_SET_END LK_SET(LK_CAT_END)

/* The character at `pos`; at the end of the text a category of its own that is in no other set. */
static inline lk_char lk_char_at(const uint8_t *text, size_t n, size_t pos) {
    lk_char c = {0, LK_SET_END, false, pos};
    if (pos < n) {
        size_t length = 0;
        c.cp = lk_utf8_get(text + pos, &length);
        const uint8_t prop = lk_unicode_prop(c.cp);
        c.category = 1u << (prop & LK_PROP_CATEGORY);
        c.is_space = (prop & LK_PROP_WHITE_SPACE) != 0;
        c.next = pos + length;
    }
    return c;
}

static inline bool lk_char_in(lk_char c, uint32_t set) {
    return (c.category & set) != 0;
}

static inline bool lk_char_is_newline(lk_char c) {
    return c.cp == '\r' || c.cp == '\n';
}

/* End of the run of characters of `set` from `pos` on, at most `max` of them; `pos` when there is
 * none. */
static inline size_t lk_pre_run(const uint8_t *text, size_t n, size_t pos, uint32_t set,
                                size_t max) {
    for (; max > 0; max--) {
        const lk_char c = lk_char_at(text, n, pos);
        if (!lk_char_in(c, set)) {
            break;
        }
        pos = c.next;
    }
    return pos;
}

/* 's|'t|'re|'ve|'m|'ll|'d, in any case when `fold` is set: U+017F then counts as an s. */
static inline size_t lk_pre_contraction(const uint8_t *text, size_t n, size_t pos, bool fold) {
    if (n - pos < 2 || text[pos] != '\'') {
        return 0;
    }
    if (fold && n - pos >= 3 && text[pos + 1] == 0xC5 && text[pos + 2] == 0xBF) {
        return pos + 3;
    }
    const uint8_t bit = fold ? 0x20 : 0; /* sets lower case; no other byte becomes one of these */
    const uint8_t first = text[pos + 1] | bit;
    if (first == 's' || first == 't' || first == 'm' || first == 'd') {
        return pos + 2;
    }
    const uint8_t second = n - pos >= 3 ? text[pos + 2] | bit : 0;
    const bool two = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                     (first == 'l' && second == 'l');
    return two ? pos + 3 : 0;
}

/* A run of white space, as the last alternatives of all expressions take it apart. */
typedef struct lk_space_run {
    size_t end;           /* `pos` when there is none */
    size_t last;          /* where its last character begins */
    size_t after_newline; /* \s*[\r\n]+ : end of its last line break; 0 when it has none */
} lk_space_run;

static inline lk_space_run lk_pre_space_run(const uint8_t *text, size_t n, size_t pos) {
    lk_space_run run = {pos, pos, 0};
    for (lk_char c = lk_char_at(text, n, pos); c.is_space; c = lk_char_at(text, n, run.end)) {
        run.last = run.end;
        run.end = c.next;
        if (lk_char_is_newline(c)) {
            run.after_newline = c.next;
        }
    }
    return run;
}

/* \s+(?!\S)|\s+ : the run without its last character, unless that is all or the text ends with it.
 */
static inline size_t lk_pre_spaces(lk_space_run run, size_t pos, bool at_end) {
    return at_end || run.last == pos ? run.end : run.last;
}

#endif
