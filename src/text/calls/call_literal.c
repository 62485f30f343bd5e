/* call_literal.c - see call_literal.h. */
#include "text/calls/call_literal.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8_bytes.h"

static bool is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

bool lk_json_escape_byte(char c, lk_text_buffer *out) {
    static const char letters[] = "btnvfr"; /* from 0x08 on; 0x0B has none in JSON */
    char escape[8] = {c};
    size_t n = 1;
    if (c == '"' || c == '\\') {
        n = 2;
        escape[0] = '\\';
        escape[1] = c;
    } else if (c >= 0x08 && c <= 0x0D && c != 0x0B) {
        n = 2;
        escape[0] = '\\';
        escape[1] = letters[c - 0x08];
    } else if ((unsigned char)c < 0x20) {
        n = (size_t)snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(unsigned char)c);
    }
    return lk_text_buffer_append(out, escape, n);
}

static bool append_text(const char *text, size_t n, lk_text_buffer *out) {
    bool ok = lk_text_buffer_append(out, "\"", 1);
    for (size_t i = 0; i < n && ok; i++) {
        ok = lk_json_escape_byte(text[i], out);
    }
    return ok && lk_text_buffer_append(out, "\"", 1);
}

/* ---- whole values ---- */

/* The type of a JSON text, 0 when it is none. */
static unsigned json_type(const char *text, size_t n, const lk_allocator *a, bool *is_nomem) {
    const lk_json_limits limits = {LK_JSON_MAX_BYTES, LK_CALL_MAX_DEPTH};
    lk_json json;
    const lk_status status = lk_json_parse(text, n, limits, a, &json, NULL);
    *is_nomem = status == LK_E_NOMEM;
    if (status != LK_OK) {
        return 0;
    }
    const unsigned type = lk_call_type_of(&json, 0);
    lk_json_deinit(&json);
    return type;
}

/* JSON for one of Python's words; NULL: it is none. */
static const char *python_word(const char *text, size_t n, unsigned *type) {
    static const struct {
        const char *python, *json;
        unsigned type;
    } words[] = {{"True", "true", LK_CALL_BOOLEAN},
                 {"False", "false", LK_CALL_BOOLEAN},
                 {"None", "null", LK_CALL_NULL}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i].python) == n && memcmp(words[i].python, text, n) == 0) {
            *type = words[i].type;
            return words[i].json;
        }
    }
    return NULL;
}

static bool may_be(unsigned type, unsigned types) {
    return (types & LK_CALL_STRING) == 0 || (type != LK_CALL_STRING && (type & types) != 0);
}

/* A list or dict of Python as JSON, in `json`; false when it is none, or memory is short. */
static bool read_python(const char *text, size_t n, const lk_allocator *allocator,
                        lk_text_buffer *json, bool *is_nomem) {
    static const lk_call_notation python = {.kind = LK_NOTATION_PYTHON};
    lk_call_arguments a;
    lk_scan scan = LK_SCAN_MORE;
    lk_text_buffer_init(json, allocator);
    lk_call_arguments_init(&a, allocator);
    lk_call_arguments_begin(&a, &python, "", NULL, "", 0, n);
    scan = lk_call_values_byte(&a, 'v', json);
    scan = scan == LK_SCAN_MORE ? lk_call_values_byte(&a, '=', json) : scan;
    for (size_t i = 0; i < n && scan == LK_SCAN_MORE; i++) {
        scan = lk_call_values_byte(&a, text[i], json);
    }
    scan = scan == LK_SCAN_MORE ? lk_call_values_byte(&a, ')', json) : scan;
    *is_nomem = a.is_nomem;
    lk_call_arguments_deinit(&a);
    return scan == LK_SCAN_LAST && !*is_nomem;
}

static bool append_python(const char *text, size_t n, unsigned types, lk_text_buffer *out,
                          bool *is_done) {
    static const size_t n_head = sizeof "{\"v\": " - 1;
    lk_text_buffer json;
    bool is_nomem = false;
    *is_done = false;
    if (read_python(text, n, out->allocator, &json, &is_nomem)) {
        const char *value = (const char *)json.data + n_head;
        const size_t n_value = json.n - n_head - 1;
        const unsigned type = json_type(value, n_value, out->allocator, &is_nomem);
        if (type != 0 && may_be(type, types)) {
            *is_done = true;
            is_nomem = !lk_text_buffer_append(out, value, n_value);
        }
    }
    lk_text_buffer_deinit(&json);
    return !is_nomem;
}

bool lk_call_literal(const lk_text_buffer *value, unsigned types, lk_text_buffer *out) {
    const char *text = value->data != NULL ? (const char *)value->data : "";
    size_t n = value->n;
    unsigned type = 0;
    bool is_nomem = false;
    while (n > 0 && is_blank(text[n - 1])) {
        n--;
    }
    while (n > 0 && is_blank(*text)) {
        text++;
        n--;
    }
    type = types != LK_CALL_STRING && n != 0 ? json_type(text, n, out->allocator, &is_nomem) : 0;
    if (is_nomem) {
        return false;
    }
    if (type != 0 && may_be(type, types)) {
        return lk_text_buffer_append(out, text, n);
    }
    const char *word = python_word(text, n, &type);
    if (word != NULL && may_be(type, types)) {
        return lk_text_buffer_append(out, word, strlen(word));
    }
    if (n > 1 && strchr("[{(", *text) != NULL && types != LK_CALL_STRING) {
        bool is_done = false;
        if (!append_python(text, n, types, out, &is_done) || is_done) {
            return is_done;
        }
    }
    return append_text(value->data != NULL ? (const char *)value->data : "", value->n, out);
}

bool lk_call_literal_is_open(const lk_text_buffer *value) {
    char closers[LK_CALL_MAX_DEPTH];
    size_t depth = 0;
    bool in_string = false, is_escaped = false;
    for (size_t i = 0; i < value->n; i++) {
        const char c = (char)value->data[i];
        if (in_string) {
            in_string = c != '"' || is_escaped;
            is_escaped = c == '\\' && !is_escaped;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (depth == sizeof closers) {
                return false;
            }
            closers[depth++] = c == '{' ? '}' : ']';
        } else if (c == '}' || c == ']') {
            if (depth == 0) {
                return false;
            }
            depth--;
        }
    }
    if (!in_string || is_escaped || depth == 0) {
        return false;
    }
    /* It is the beginning of JSON if its end can be written. */
    bool is_open = false, is_nomem = false;
    for (int is_key = 0; is_key < 2 && !is_open; is_key++) {
        lk_text_buffer whole;
        lk_text_buffer_init(&whole, value->allocator);
        bool ok = lk_text_buffer_append(&whole, value->data, value->n) &&
                  lk_text_buffer_append(&whole, "\":0", is_key ? 3 : 1);
        for (size_t i = depth; i-- > 0 && ok;) {
            ok = lk_text_buffer_append(&whole, &closers[i], 1);
        }
        is_open = ok && json_type((const char *)whole.data, whole.n, value->allocator, &is_nomem);
        lk_text_buffer_deinit(&whole);
    }
    return is_open;
}
