/* jinja_lexer.c - see jinja_lexer.h. */
#include "text/jinja/jinja_lexer.h"

#include <string.h>

#include "text/unicode/unicode.h"

enum { IN_TEXT, IN_BLOCK, IN_PRINT };

static bool is_space_cp(uint32_t cp) { /* as Python's str.isspace */
    return (lk_unicode_prop(cp) & LK_PROP_WHITE_SPACE) != 0 || (cp >= 0x1C && cp <= 0x1F);
}

bool lk_jlexer_init(lk_jlexer *lexer, lk_jheap *heap, const char *source, size_t n) {
    *lexer = (lk_jlexer){.heap = heap, .line = 1, .at_line_start = true};
    uint8_t *copy = lk_jheap_alloc(heap, n + 1);
    if (copy == NULL) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (source[i] == '\r') {
            copy[lexer->n++] = '\n';
            i += i + 1 < n && source[i + 1] == '\n';
        } else {
            copy[lexer->n++] = (uint8_t)source[i];
        }
    }
    if (lexer->n != 0 && copy[lexer->n - 1] == '\n') {
        lexer->n--;
    }
    lexer->source = copy;
    return true;
}

static bool fail(lk_jlexer *lexer, const char *problem) {
    lexer->problem = problem;
    return false;
}

static bool starts_with(const lk_jlexer *lexer, size_t at, const char *text) {
    const size_t n = strlen(text);
    return lexer->n - at >= n && memcmp(lexer->source + at, text, n) == 0;
}

static size_t skip_space_from(const lk_jlexer *lexer, size_t at) {
    while (at < lexer->n) {
        size_t n = 0;
        if (!is_space_cp(lk_utf8_get(lexer->source + at, &n))) {
            break;
        }
        at += n;
    }
    return at;
}

static void move_to(lk_jlexer *lexer, size_t pos) {
    for (size_t i = lexer->pos; i < pos; i++) {
        lexer->line += lexer->source[i] == '\n';
    }
    lexer->pos = pos;
}

/* The end of text[from..to) without the white space before it. */
static size_t strip_end(const lk_jlexer *lexer, size_t from, size_t to) {
    while (to > from) {
        size_t at = to - 1;
        size_t n = 0;
        while (at > from && (lexer->source[at] & 0xC0) == 0x80) {
            at--;
        }
        if (!is_space_cp(lk_utf8_get(lexer->source + at, &n))) {
            break;
        }
        to = at;
    }
    return to;
}

/* The end of a text before a block or comment tag: blanks back to the start of the line go. */
static size_t strip_line(const lk_jlexer *lexer, size_t from, size_t to) {
    size_t start = to;
    while (start > from && lexer->source[start - 1] != '\n') {
        start--;
    }
    if (start == from && !(from == 0 || lexer->at_line_start)) {
        return to;
    }
    return strip_end(lexer, start, to) == start ? start : to;
}

/* After the end of a block tag or comment, "-%}" or "%}" or "+%}". */
static void after_tag(lk_jlexer *lexer, char sign, bool trims) {
    size_t at = lexer->pos;
    if (sign == '-') {
        at = skip_space_from(lexer, at);
    } else if (trims && sign != '+' && at < lexer->n && lexer->source[at] == '\n') {
        at++;
    }
    move_to(lexer, at);
    lexer->at_line_start = at != 0 && lexer->source[at - 1] == '\n';
}

/* A comment, whose "{#" is at pos. */
static bool skip_comment(lk_jlexer *lexer) {
    for (size_t at = lexer->pos + 2; at + 1 < lexer->n; at++) {
        if (lexer->source[at] == '#' && lexer->source[at + 1] == '}') {
            const bool has_sign = at > lexer->pos + 2 &&
                                  (lexer->source[at - 1] == '-' || lexer->source[at - 1] == '+');
            const char sign = has_sign ? (char)lexer->source[at - 1] : ' ';
            move_to(lexer, at + 2);
            after_tag(lexer, sign, true);
            return true;
        }
    }
    return fail(lexer, "the comment does not end");
}

/* Whether a tag "{% word %}" stands at `at`; *end is where it ends, *signs the signs. */
static bool is_word_tag(const lk_jlexer *lexer, size_t at, const char *word, size_t *end,
                        char signs[2]) {
    if (!starts_with(lexer, at, "{%")) {
        return false;
    }
    at += 2;
    signs[0] = signs[1] = ' ';
    if (at < lexer->n && (lexer->source[at] == '-' || lexer->source[at] == '+')) {
        signs[0] = (char)lexer->source[at++];
    }
    at = skip_space_from(lexer, at);
    if (!starts_with(lexer, at, word)) {
        return false;
    }
    at = skip_space_from(lexer, at + strlen(word));
    if (at < lexer->n && (lexer->source[at] == '-' || lexer->source[at] == '+')) {
        signs[1] = (char)lexer->source[at++];
    }
    *end = at + 2;
    return starts_with(lexer, at, "%}");
}

/* The place of the next tag from `at` on, or the end. */
static size_t find_tag(const lk_jlexer *lexer, size_t at) {
    for (; at + 1 < lexer->n; at++) {
        const uint8_t next = lexer->source[at + 1];
        if (lexer->source[at] == '{' && (next == '%' || next == '{' || next == '#')) {
            return at;
        }
    }
    return lexer->n;
}

static void set_text(lk_jlexer *lexer, lk_jtoken *token, size_t from, size_t to) {
    token->kind = LK_JT_TEXT;
    token->line = lexer->line;
    token->bytes = lexer->source + from;
    token->n = to - from;
}

/* The inside of {% raw %} ... {% endraw %}; pos is after the first of them. */
static bool read_raw(lk_jlexer *lexer, lk_jtoken *token) {
    char signs[2];
    size_t end = 0;
    for (size_t at = lexer->pos; at < lexer->n; at++) {
        if (lexer->source[at] == '{' && is_word_tag(lexer, at, "endraw", &end, signs)) {
            const size_t to = signs[0] == '-'   ? strip_end(lexer, lexer->pos, at)
                              : signs[0] == '+' ? at
                                                : strip_line(lexer, lexer->pos, at);
            set_text(lexer, token, lexer->pos, to);
            move_to(lexer, end);
            after_tag(lexer, signs[1], true);
            return true;
        }
    }
    return fail(lexer, "the raw block does not end");
}

/* Text up to the next tag, and into the tag. An empty text is skipped by the caller. */
static bool read_text(lk_jlexer *lexer, lk_jtoken *token) {
    const size_t from = lexer->pos;
    const size_t tag = find_tag(lexer, from);
    if (tag == lexer->n) {
        set_text(lexer, token, from, lexer->n);
        move_to(lexer, lexer->n);
        return true;
    }
    const uint8_t kind = lexer->source[tag + 1];
    char sign = ' ';
    if (tag + 2 < lexer->n && (lexer->source[tag + 2] == '-' || lexer->source[tag + 2] == '+')) {
        sign = (char)lexer->source[tag + 2];
    }
    size_t to = tag;
    if (sign == '-') {
        to = strip_end(lexer, from, tag);
    } else if (sign != '+' && kind != '{') {
        to = strip_line(lexer, from, tag);
    }
    set_text(lexer, token, from, to);
    move_to(lexer, tag);
    if (kind == '#') {
        return skip_comment(lexer);
    }
    char signs[2];
    size_t end = 0;
    if (kind == '%' && is_word_tag(lexer, tag, "raw", &end, signs)) {
        move_to(lexer, end);
        after_tag(lexer, signs[1], true);
        lexer->in_raw = true;
        return true;
    }
    lexer->state = kind == '{' ? IN_PRINT : IN_BLOCK;
    lexer->n_open = 0;
    return true;
}

static bool read_tag_begin(lk_jlexer *lexer, lk_jtoken *token) {
    token->kind = lexer->state == IN_PRINT ? LK_JT_PRINT_BEGIN : LK_JT_BLOCK_BEGIN;
    token->line = lexer->line;
    lexer->pos += 2;
    if (lexer->pos < lexer->n &&
        (lexer->source[lexer->pos] == '-' || lexer->source[lexer->pos] == '+')) {
        lexer->pos++;
    }
    return true;
}

static bool is_name_cp(uint32_t cp, bool first) { /* \w, without a digit in front */
    const uint32_t category = lk_unicode_prop(cp) & LK_PROP_CATEGORY;
    return cp == '_' || category <= LK_CAT_LO || category == LK_CAT_NL || category == LK_CAT_NO ||
           (!first && category == LK_CAT_ND);
}

static void read_name(lk_jlexer *lexer, lk_jtoken *token) {
    size_t at = lexer->pos;
    while (at < lexer->n) {
        size_t n = 0;
        if (!is_name_cp(lk_utf8_get(lexer->source + at, &n), at == lexer->pos)) {
            break;
        }
        at += n;
    }
    token->kind = LK_JT_NAME;
    token->n = at - lexer->pos;
    lexer->pos = at;
}

static size_t digits_from(const lk_jlexer *lexer, size_t at) { /* 12_000 too */
    while (at < lexer->n && ((lexer->source[at] >= '0' && lexer->source[at] <= '9') ||
                             (lexer->source[at] == '_' && at + 1 < lexer->n &&
                              lexer->source[at + 1] >= '0' && lexer->source[at + 1] <= '9'))) {
        at++;
    }
    return at;
}

static bool is_digit_at(const lk_jlexer *lexer, size_t at) {
    return at < lexer->n && lexer->source[at] >= '0' && lexer->source[at] <= '9';
}

static void read_number(lk_jlexer *lexer, lk_jtoken *token, bool after_dot) {
    size_t at = lexer->pos;
    token->kind = LK_JT_INTEGER;
    if (lexer->source[at] == '0' && at + 1 < lexer->n &&
        strchr("xXoObB", lexer->source[at + 1]) != NULL) {
        at += 2;
        while (at < lexer->n && (strchr("0123456789abcdefABCDEF_", lexer->source[at]) != NULL)) {
            at++;
        }
    } else {
        at = digits_from(lexer, at);
        if (!after_dot && at < lexer->n && lexer->source[at] == '.' && is_digit_at(lexer, at + 1)) {
            at = digits_from(lexer, at + 1);
            token->kind = LK_JT_FLOAT;
        }
        if (!after_dot && at < lexer->n && (lexer->source[at] == 'e' || lexer->source[at] == 'E')) {
            const size_t sign =
                at + 1 < lexer->n && (lexer->source[at + 1] == '+' || lexer->source[at + 1] == '-');
            if (is_digit_at(lexer, at + 1 + sign)) {
                at = digits_from(lexer, at + 1 + sign);
                token->kind = LK_JT_FLOAT;
            }
        }
    }
    token->n = at - lexer->pos;
    lexer->pos = at;
}

static bool read_string(lk_jlexer *lexer, lk_jtoken *token) {
    const uint8_t quote = lexer->source[lexer->pos];
    size_t at = lexer->pos + 1;
    while (at < lexer->n && lexer->source[at] != quote) {
        at += lexer->source[at] == '\\' ? 2 : 1;
    }
    if (at >= lexer->n) {
        return fail(lexer, "the string does not end");
    }
    token->kind = LK_JT_STRING;
    token->bytes = lexer->source + lexer->pos + 1;
    token->n = at - lexer->pos - 1;
    move_to(lexer, at + 1);
    return true;
}

static bool read_operator(lk_jlexer *lexer, lk_jtoken *token) {
    static const char *const pairs[] = {"**", "//", "==", "!=", ">=", "<="};
    const char c = (char)lexer->source[lexer->pos];
    token->kind = LK_JT_OPERATOR;
    token->n = 1;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (starts_with(lexer, lexer->pos, pairs[i])) {
            token->n = 2;
        }
    }
    if (token->n == 1 && (c == '\0' || strchr("+-*/%~()[]{}<>=.,:|;", c) == NULL)) {
        return fail(lexer, "unexpected character");
    }
    if (strchr("([{", c) != NULL) {
        if (lexer->n_open == LK_J_MAX_NESTING) {
            return fail(lexer, "too many brackets are open");
        }
        lexer->open[lexer->n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (strchr(")]}", c) != NULL) {
        if (lexer->n_open == 0 || lexer->open[lexer->n_open - 1] != c) {
            return fail(lexer, "a closing bracket that does not fit");
        }
        lexer->n_open--;
    }
    lexer->pos += token->n;
    return true;
}

/* The end of the tag at pos, if it is there. */
static bool take_tag_end(lk_jlexer *lexer, lk_jtoken *token) {
    const bool is_print = lexer->state == IN_PRINT;
    const char *end = is_print ? "}}" : "%}";
    const char first = (char)lexer->source[lexer->pos];
    const size_t n_sign = first == '-' || (!is_print && first == '+');
    if (lexer->n_open != 0 || !starts_with(lexer, lexer->pos + n_sign, end)) {
        return false;
    }
    token->kind = is_print ? LK_JT_PRINT_END : LK_JT_BLOCK_END;
    token->n = n_sign + 2;
    lexer->pos += token->n;
    lexer->state = IN_TEXT;
    after_tag(lexer, n_sign != 0 ? first : ' ', !is_print);
    return true;
}

static bool read_in_tag(lk_jlexer *lexer, lk_jtoken *token) {
    const size_t before = lexer->pos;
    move_to(lexer, skip_space_from(lexer, lexer->pos));
    token->line = lexer->line;
    token->bytes = lexer->source + lexer->pos;
    token->n = 0;
    if (lexer->pos >= lexer->n) {
        return fail(lexer, lexer->state == IN_PRINT ? "expected '}}'" : "expected '%}'");
    }
    if (take_tag_end(lexer, token)) {
        return true;
    }
    const uint8_t c = lexer->source[lexer->pos];
    size_t n = 0;
    if (c >= '0' && c <= '9') {
        read_number(lexer, token, before != 0 && lexer->source[before - 1] == '.');
        return true;
    }
    if (c == '"' || c == '\'') {
        return read_string(lexer, token);
    }
    if (is_name_cp(lk_utf8_get(lexer->source + lexer->pos, &n), true)) {
        read_name(lexer, token);
        return true;
    }
    return read_operator(lexer, token);
}

bool lk_jlexer_next(lk_jlexer *lexer, lk_jtoken *token) {
    *token = (lk_jtoken){.kind = LK_JT_END, .line = lexer->line};
    for (;;) {
        if (lexer->state != IN_TEXT) {
            const bool begins =
                starts_with(lexer, lexer->pos, lexer->state == IN_PRINT ? "{{" : "{%") &&
                lexer->begins_tag;
            lexer->begins_tag = false;
            return begins ? read_tag_begin(lexer, token) : read_in_tag(lexer, token);
        }
        if (lexer->in_raw) {
            lexer->in_raw = false;
            if (!read_raw(lexer, token)) {
                return false;
            }
        } else if (lexer->pos >= lexer->n) {
            token->kind = LK_JT_END;
            token->line = lexer->line;
            return true;
        } else if (!read_text(lexer, token)) {
            return false;
        }
        lexer->begins_tag = lexer->state != IN_TEXT; /* the tag's beginning is next */
        if (token->n != 0) {
            return true;
        }
    }
}

/* Digits of \xhh, \uhhhh, \Uhhhhhhhh. */
static bool hex_value(const uint8_t *digits, size_t n, uint32_t *value) {
    *value = 0;
    for (size_t i = 0; i < n; i++) {
        const uint8_t c = digits[i];
        const uint32_t digit = c >= '0' && c <= '9'   ? c - (uint32_t)'0'
                               : c >= 'a' && c <= 'f' ? c - (uint32_t)'a' + 10
                               : c >= 'A' && c <= 'F' ? c - (uint32_t)'A' + 10
                                                      : 16;
        if (digit == 16) {
            return false;
        }
        *value = *value * 16 + digit;
    }
    return *value <= LK_MAX_CODE_POINT && (*value < 0xD800 || *value > 0xDFFF);
}

/* The escape at bytes[0], a backslash, with n bytes left. Returns its length, 0: not valid. */
static size_t unescape(lk_jbuild *out, const uint8_t *bytes, size_t n) {
    static const char letters[] = "\\'\"abfnrtv";
    static const char values[] = "\\'\"\a\b\f\n\r\t\v";
    const char c = n > 1 ? (char)bytes[1] : '\0';
    const char *letter = c != '\0' ? strchr(letters, c) : NULL;
    uint32_t value = 0;
    if (letter != NULL) {
        (void)lk_jbuild_bytes(out, values + (letter - letters), 1, LK_J_TEMPLATE);
        return 2;
    }
    if (c == '\n') {
        return 2;
    }
    if (c >= '0' && c <= '7') {
        size_t length = 1;
        for (; length < 4 && length < n && bytes[length] >= '0' && bytes[length] <= '7'; length++) {
            value = value * 8 + (bytes[length] - (uint32_t)'0');
        }
        (void)lk_jbuild_cp(out, value, LK_J_TEMPLATE);
        return length;
    }
    const size_t n_hex = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (n_hex != 0) {
        if (n - 2 < n_hex || !hex_value(bytes + 2, n_hex, &value)) {
            return 0;
        }
        (void)lk_jbuild_cp(out, value, LK_J_TEMPLATE);
        return 2 + n_hex;
    }
    if (c == 'N' && n > 2 && bytes[2] == '{') {
        return 0;
    }
    (void)lk_jbuild_bytes(out, bytes, 1, LK_J_TEMPLATE); /* an unknown one stays as it is */
    return 1;
}

const lk_jstring *lk_jlexer_string(lk_jlexer *lexer, const lk_jtoken *token) {
    if (memchr(token->bytes, '\\', token->n) == NULL) {
        return lk_jstring_new(lexer->heap, token->bytes, token->n, LK_J_TEMPLATE);
    }
    lk_jbuild out;
    lk_jbuild_init(&out, lexer->heap);
    for (size_t i = 0; i < token->n;) {
        if (token->bytes[i] != '\\') {
            const size_t start = i;
            while (i < token->n && token->bytes[i] != '\\') {
                i++;
            }
            (void)lk_jbuild_bytes(&out, token->bytes + start, i - start, LK_J_TEMPLATE);
            continue;
        }
        const size_t length = unescape(&out, token->bytes + i, token->n - i);
        if (length == 0) {
            lexer->problem = "an escape that is no character";
            return NULL;
        }
        i += length;
    }
    const lk_jstring *s = lk_jbuild_finish(&out);
    if (s != NULL) { /* constants are shared: nothing may be appended to them in place */
        return lk_jstring_new(lexer->heap, s->bytes, s->n, LK_J_TEMPLATE);
    }
    return NULL;
}
