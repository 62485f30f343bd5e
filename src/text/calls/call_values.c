/* call_values.c - arguments as Python writes those of a call, and in the notation with bare names
 * (call_literal.h). Values are translated token by token: texts, words and numbers, brackets. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8_bytes.h"
#include "text/calls/call_literal.h"

enum { AT_NAME, IN_VALUES };

static bool is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static void add(lk_call_arguments *a, lk_text_buffer *to, const char *bytes, size_t n) {
    a->is_nomem = !lk_text_buffer_append(to, bytes, n) || a->is_nomem;
}

/* ---- tokens ---- */

/* What stands before a value: the comma that was read, if there was one. */
static void begin_token(lk_call_arguments *a, lk_text_buffer *out) {
    if (a->needs_comma) {
        add(a, out, ", ", 2);
    }
    a->needs_comma = false;
    a->at_value = false;
}

/* The word or number that has been read; `is_key`: the name of a member. */
static void end_atom(lk_call_arguments *a, bool is_key, lk_text_buffer *out) {
    lk_text_buffer *v = &a->value;
    while (v->n != 0 && is_blank((char)v->data[v->n - 1])) {
        v->n--;
    }
    if (v->n == 0) {
        return;
    }
    begin_token(a, out);
    a->is_nomem = !lk_call_literal(v, is_key ? LK_CALL_STRING : LK_CALL_ANY, out) || a->is_nomem;
    v->n = 0;
}

static void begin_string(lk_call_arguments *a, char quote, lk_text_buffer *out) {
    end_atom(a, false, out);
    begin_token(a, out);
    a->quote = quote;
    add(a, out, "\"", 1);
}

static void end_string(lk_call_arguments *a, lk_text_buffer *out) {
    a->quote = '\0';
    add(a, out, "\"", 1);
}

static void put_char(lk_call_arguments *a, char c, lk_text_buffer *out) {
    a->is_nomem = !lk_json_escape_byte(c, out) || a->is_nomem;
}

/* A code point by its digits. Halves of pairs stay escaped. */
static void put_code(lk_call_arguments *a, lk_text_buffer *out) {
    char bytes[8];
    if (a->code > LK_MAX_CODE_POINT) {
        a->code = 0xFFFD;
    }
    if (a->code < 0x20 || a->code == '"' || a->code == '\\' ||
        (a->code >= 0xD800 && a->code <= 0xDFFF)) {
        add(a, out, bytes, (size_t)snprintf(bytes, sizeof bytes, "\\u%04x", (unsigned)a->code));
    } else {
        add(a, out, bytes, lk_utf8_put(a->code, (uint8_t *)bytes));
    }
}

static void escaped_byte(lk_call_arguments *a, char c, lk_text_buffer *out) {
    static const char letters[] = "abfnrtv";
    static const char values[] = "\a\b\f\n\r\t\v";
    const char *letter = c != '\0' ? strchr(letters, c) : NULL;
    a->is_escaped = false;
    if (c == 'x' || c == 'u' || c == 'U') {
        a->n_hex = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        a->code = 0;
    } else if (c != '\n') {
        put_char(a, letter != NULL ? values[letter - letters] : c, out);
    }
}

static void string_byte(lk_call_arguments *a, char c, lk_text_buffer *out) {
    if (a->n_hex != 0) {
        const uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                               : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                               : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                      : 0;
        a->code = a->code * 16 + digit;
        a->n_hex--;
        if (a->n_hex == 0) {
            put_code(a, out);
        }
    } else if (a->is_escaped) {
        escaped_byte(a, c, out);
    } else if (c == '\\') {
        a->is_escaped = true;
    } else if (c == a->quote) {
        end_string(a, out);
    } else {
        put_char(a, c, out);
    }
}

/* ---- arguments ---- */

static lk_scan end_arguments(lk_call_arguments *a, lk_text_buffer *out) {
    if (a->has_members) {
        add(a, out, "}", 1);
    }
    return LK_SCAN_LAST;
}

static lk_scan name_byte(lk_call_arguments *a, char c, lk_text_buffer *out) {
    const bool is_python = a->notation->kind == LK_NOTATION_PYTHON;
    if (a->name.n == 0 && (is_blank(c) || (c == ',' && a->has_members))) {
        return LK_SCAN_MORE;
    }
    if (a->name.n == 0 && c == (is_python ? ')' : '}')) {
        return end_arguments(a, out);
    }
    if (c != (is_python ? '=' : ':')) {
        add(a, &a->name, &c, 1);
        return a->name.n > LK_CALL_MAX_ARGUMENT ? LK_SCAN_BAD : LK_SCAN_MORE;
    }
    while (a->name.n != 0 && is_blank((char)a->name.data[a->name.n - 1])) {
        a->name.n--;
    }
    if (a->name.n == 0) {
        return LK_SCAN_BAD;
    }
    add(a, out, a->has_members ? ", " : "{", a->has_members ? 2 : 1);
    a->is_nomem = !lk_call_literal(&a->name, LK_CALL_STRING, out) || a->is_nomem;
    add(a, out, ": ", 2);
    a->has_members = true;
    a->name.n = a->value.n = 0;
    a->needs_comma = false;
    a->at_value = true;
    a->state = IN_VALUES;
    return LK_SCAN_MORE;
}

/* The end of the value of an argument. */
static void end_argument(lk_call_arguments *a, lk_text_buffer *out) {
    if (a->at_value) {
        add(a, out, "null", 4);
    }
    a->at_value = false;
    a->state = AT_NAME;
}

static lk_scan close_bracket(lk_call_arguments *a, char c, lk_text_buffer *out) {
    end_atom(a, false, out);
    if (a->depth == 0) {
        end_argument(a, out);
        return c == (a->notation->kind == LK_NOTATION_PYTHON ? ')' : '}') ? end_arguments(a, out)
                                                                          : LK_SCAN_BAD;
    }
    const char opener = (char)a->closers[--a->depth];
    if (c != (opener == '(' ? ')' : opener == '[' ? ']' : '}')) {
        return LK_SCAN_BAD;
    }
    a->needs_comma = a->at_value = false;
    add(a, out, opener == '{' ? "}" : "]", 1);
    return LK_SCAN_MORE;
}

static lk_scan open_bracket(lk_call_arguments *a, char c, lk_text_buffer *out) {
    end_atom(a, false, out);
    if (a->depth == LK_CALL_MAX_DEPTH) {
        return LK_SCAN_BAD;
    }
    begin_token(a, out);
    a->closers[a->depth++] = (uint8_t)c;
    add(a, out, c == '{' ? "{" : "[", 1);
    return LK_SCAN_MORE;
}

static lk_scan structure_byte(lk_call_arguments *a, char c, lk_text_buffer *out) {
    switch (c) {
    case '[':
    case '(':
    case '{':
        return open_bracket(a, c, out);
    case ']':
    case ')':
    case '}':
        return close_bracket(a, c, out);
    case ',':
        end_atom(a, false, out);
        if (a->depth == 0) {
            end_argument(a, out);
        }
        a->needs_comma = a->depth != 0;
        return LK_SCAN_MORE;
    case ':':
        if (a->depth == 0) {
            break;
        }
        end_atom(a, true, out);
        add(a, out, ": ", 2);
        return LK_SCAN_MORE;
    default:
        if (c == '"' || (c == '\'' && a->notation->kind == LK_NOTATION_PYTHON)) {
            begin_string(a, c, out);
            return LK_SCAN_MORE;
        }
        break;
    }
    if (a->value.n != 0 || !is_blank(c)) {
        add(a, &a->value, &c, 1);
    }
    return a->value.n > a->max_value ? LK_SCAN_BAD : LK_SCAN_MORE;
}

/* The mark around texts of BARE: what may be its beginning is held. Its own bytes are no quotes. */
static lk_scan bare_byte(lk_call_arguments *a, char c, lk_text_buffer *out) {
    const char *mark = a->notation->open;
    const size_t n = strlen(mark);
    lk_scan scan = LK_SCAN_MORE;
    a->held[a->n_held++] = c;
    while (a->n_held != 0 && scan == LK_SCAN_MORE) {
        if (memcmp(a->held, mark, a->n_held) == 0) {
            if (a->n_held == n) {
                a->n_held = 0;
                if (a->quote != '\0') {
                    end_string(a, out);
                } else {
                    begin_string(a, '<', out);
                }
            }
            return scan;
        }
        if (a->quote != '\0') {
            put_char(a, a->held[0], out);
        } else {
            scan = structure_byte(a, a->held[0], out);
        }
        if (scan != LK_SCAN_BAD) {
            a->n_held--;
            memmove(a->held, a->held + 1, a->n_held);
        }
    }
    return scan;
}

lk_scan lk_call_values_byte(lk_call_arguments *a, char c, lk_text_buffer *out) {
    if (a->state == AT_NAME) {
        return name_byte(a, c, out);
    }
    if (a->notation->kind == LK_NOTATION_BARE && (a->quote == '<' || a->quote == '\0')) {
        return bare_byte(a, c, out);
    }
    if (a->quote != '\0') {
        string_byte(a, c, out);
        return LK_SCAN_MORE;
    }
    return structure_byte(a, c, out);
}
