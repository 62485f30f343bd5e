/* pre_deepseek_v3.c - the words of DeepSeek V3, which cuts three times:
 *     \p{N}{1,3}, then [一-龥぀-ゟ゠-ヿ]+, then
 *     [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
 *     | ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * What the first two match are texts of their own for the third, as are the stretches between them.
 * The third leaves numbers, control, format, private and unassigned characters unmatched; a stretch
 * of them is a word.
 */
#include "text/splitters/pre_match.h"
#include "text/splitters/pre_splitter.h"

#define SET_WORD (LK_SET_LETTER | LK_SET_MARK)
#define SET_SIGN (LK_SET_PUNCTUATION | LK_SET_SYMBOL)

static bool is_cjk(uint32_t cp) {
    return (cp >= 0x4E00 && cp <= 0x9FA5) || (cp >= 0x3040 && cp <= 0x30FF);
}

/* A stretch that the third expression sees as a text: of characters of the second class, or of
 * others but numbers. */
typedef struct stretch {
    const uint8_t *text;
    size_t n;
    bool cjk;
} stretch;

static lk_char char_at(const stretch *s, size_t pos) {
    lk_char c = lk_char_at(s->text, s->n, pos);
    if (lk_char_in(c, LK_SET_NUMBER) || is_cjk(c.cp) != s->cjk) {
        c = lk_char_at(s->text, pos, pos); /* the end */
    }
    return c;
}

static bool is_ascii_letter(lk_char c) {
    return (c.cp >= 'a' && c.cp <= 'z') || (c.cp >= 'A' && c.cp <= 'Z');
}

/* [!-~ punctuation][A-Za-z]+ */
static size_t match_ascii(const stretch *s, lk_char c) {
    if (c.cp >= 0x80 || !lk_char_in(c, SET_SIGN)) {
        return 0;
    }
    size_t end = 0;
    for (c = char_at(s, c.next); is_ascii_letter(c); c = char_at(s, end)) {
        end = c.next;
    }
    return end;
}

/* [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+ */
static size_t match_word(const stretch *s, lk_char c) {
    if (!lk_char_is_newline(c) && !lk_char_in(c, LK_SET_LETTER | SET_SIGN | LK_SET_END)) {
        const lk_char next = char_at(s, c.next);
        if (lk_char_in(next, SET_WORD)) {
            c = next;
        }
    }
    size_t end = 0;
    for (; lk_char_in(c, SET_WORD); c = char_at(s, end)) {
        end = c.next;
    }
    return end;
}

/* A character at which none of the alternatives can begin but, as its lead, the word. */
static bool is_unmatched(lk_char c) {
    return !c.is_space && !lk_char_in(c, SET_WORD | SET_SIGN | LK_SET_END);
}

size_t lk_pre_deepseek_v3(const uint8_t *text, size_t n, size_t pos) {
    size_t end = lk_pre_run(text, n, pos, LK_SET_NUMBER, 3);
    if (end != pos) {
        return end;
    }
    const stretch s = {text, n, is_cjk(lk_char_at(text, n, pos).cp)};
    lk_char c = char_at(&s, pos);
    end = match_ascii(&s, c);
    if (end == 0) {
        end = match_word(&s, c);
    }
    if (end != 0) {
        return end;
    }
    if (c.cp == ' ') {
        const lk_char next = char_at(&s, c.next);
        c = lk_char_in(next, SET_SIGN) ? next : c;
    }
    if (c.is_space) {
        const lk_space_run run = lk_pre_space_run(text, n, pos);
        const bool at_end = lk_char_in(char_at(&s, run.end), LK_SET_END);
        return run.after_newline != 0 ? run.after_newline : lk_pre_spaces(run, pos, at_end);
    }
    end = pos;
    if (lk_char_in(c, SET_SIGN)) {
        for (; lk_char_in(c, SET_SIGN); c = char_at(&s, end)) {
            end = c.next;
        }
        for (; lk_char_is_newline(c); c = char_at(&s, end)) {
            end = c.next;
        }
        return end;
    }
    for (; is_unmatched(c) && (end == pos || match_word(&s, c) == 0); c = char_at(&s, end)) {
        end = c.next;
    }
    return end;
}
