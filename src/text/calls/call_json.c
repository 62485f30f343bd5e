/* call_json.c - see call_json.h. */
#include "text/calls/call_json.h"

#include <string.h>

#include "base/utf8_bytes.h"

static bool is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static lk_scan begin(lk_json_scan *scan, char c) {
    if (is_blank(c)) {
        return LK_SCAN_MORE;
    }
    scan->has_begun = true;
    if (c == '{' || c == '[') {
        scan->depth = 1;
    } else if (c == '"') {
        scan->in_string = true;
    } else if (c == '-' || (c >= '0' && c <= '9') || c == 't' || c == 'f' || c == 'n') {
        scan->is_scalar = true;
    } else {
        return LK_SCAN_BAD;
    }
    return LK_SCAN_MORE;
}

lk_scan lk_json_scan_byte(lk_json_scan *scan, char c) {
    if (!scan->has_begun) {
        return begin(scan, c);
    }
    if (scan->is_scalar) {
        const bool goes_on = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.' ||
                             c == '-' || c == '+' || c == 'E';
        return goes_on ? LK_SCAN_MORE : LK_SCAN_BEYOND;
    }
    if (scan->in_string) {
        const bool ends = c == '"' && !scan->is_escaped;
        scan->is_escaped = c == '\\' && !scan->is_escaped;
        scan->in_string = !ends;
        return ends && scan->depth == 0 ? LK_SCAN_LAST : LK_SCAN_MORE;
    }
    if (c == '"') {
        scan->in_string = true;
    } else if (c == '{' || c == '[') {
        scan->depth++;
    } else if (c == '}' || c == ']') {
        scan->depth--;
        return scan->depth == 0 ? LK_SCAN_LAST : LK_SCAN_MORE;
    }
    return LK_SCAN_MORE;
}

static size_t put_code(lk_json_unescape *u, char out[4]) {
    uint32_t cp = u->code;
    if (cp >= 0xD800 && cp <= 0xDBFF) { /* the first half of a pair */
        u->high = cp;
        return 0;
    }
    if (cp >= 0xDC00 && cp <= 0xDFFF) {
        cp = u->high != 0 ? 0x10000 + ((u->high - 0xD800) << 10) + (cp - 0xDC00) : 0xFFFD;
    }
    u->high = 0;
    return lk_utf8_put(cp, (uint8_t *)out);
}

size_t lk_json_unescape_byte(lk_json_unescape *u, char c, char out[4]) {
    static const char letters[] = "bfnrt";
    static const char values[] = "\b\f\n\r\t";
    if (u->n_hex != 0) {
        const uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                               : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                               : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                      : 0;
        u->code = u->code * 16 + digit;
        u->n_hex--;
        return u->n_hex == 0 ? put_code(u, out) : 0;
    }
    if (u->is_escaped) {
        const char *letter = c != '\0' ? strchr(letters, c) : NULL;
        u->is_escaped = false;
        if (c == 'u') {
            u->n_hex = 4;
            u->code = 0;
            return 0;
        }
        out[0] = letter != NULL ? values[letter - letters] : c;
        return 1;
    }
    if (c == '\\') {
        u->is_escaped = true;
        return 0;
    }
    if (c == '"') {
        u->is_open = !u->is_open;
        return 0;
    }
    out[0] = c;
    return 1;
}

enum { AT_BEGIN, AT_KEY, IN_KEY, AT_COLON, IN_VALUE, AT_COMMA };

static lk_call_part member_of(const lk_call_object *o) {
    static const struct {
        const char *key;
        lk_call_part part;
    } keys[] = {{"name", LK_CALL_NAME},
                {"tool_name", LK_CALL_NAME},
                {"id", LK_CALL_ID},
                {"tool_call_id", LK_CALL_ID},
                {"arguments", LK_CALL_ARGUMENTS},
                {"parameters", LK_CALL_ARGUMENTS}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strlen(keys[i].key) == o->n_key && memcmp(keys[i].key, o->key, o->n_key) == 0) {
            return keys[i].part;
        }
    }
    return LK_CALL_NOTHING;
}

static lk_call_part key_byte(lk_call_object *o, char c) {
    if (c == '"' && !o->is_escaped) {
        o->state = AT_COLON;
        o->member = o->n_key < sizeof o->key ? member_of(o) : LK_CALL_NOTHING;
        return LK_CALL_NOTHING;
    }
    o->is_escaped = c == '\\' && !o->is_escaped;
    if (o->n_key < sizeof o->key) {
        o->key[o->n_key] = c;
        o->n_key++;
    }
    return LK_CALL_NOTHING;
}

static lk_call_part after_value(lk_call_object *o, char c) {
    if (is_blank(c)) {
        return LK_CALL_NOTHING;
    }
    o->state = AT_KEY;
    return c == ',' ? LK_CALL_NOTHING : c == '}' ? LK_CALL_DONE : LK_CALL_BAD;
}

static lk_call_part value_byte(lk_call_object *o, char c) {
    const bool was_begun = o->value.has_begun;
    const bool needs_string = o->member == LK_CALL_NAME || o->member == LK_CALL_ID;
    const lk_scan scan = lk_json_scan_byte(&o->value, c);
    if (scan == LK_SCAN_BAD ||
        (!was_begun && o->value.has_begun && o->member == LK_CALL_NAME && c != '"')) {
        return LK_CALL_BAD;
    }
    if (!was_begun && o->value.has_begun && needs_string && c != '"') {
        o->member = LK_CALL_NOTHING;
    }
    if (scan == LK_SCAN_BEYOND) {
        o->state = AT_COMMA;
        return after_value(o, c);
    }
    if (scan == LK_SCAN_LAST) {
        o->state = AT_COMMA;
    }
    return o->value.has_begun ? o->member : LK_CALL_NOTHING;
}

lk_call_part lk_call_object_byte(lk_call_object *o, char c) {
    switch (o->state) {
    case AT_BEGIN:
        o->state = c == '{' ? AT_KEY : AT_BEGIN;
        return c == '{' || is_blank(c) ? LK_CALL_NOTHING : LK_CALL_BAD;
    case AT_KEY:
        if (c == '"') {
            o->state = IN_KEY;
            o->n_key = 0;
            o->is_escaped = false;
            return LK_CALL_NOTHING;
        }
        return c == '}' ? LK_CALL_DONE : is_blank(c) ? LK_CALL_NOTHING : LK_CALL_BAD;
    case IN_KEY:
        return key_byte(o, c);
    case AT_COLON:
        if (c == ':') {
            o->state = IN_VALUE;
            o->value = (lk_json_scan){0};
        }
        return c == ':' || is_blank(c) ? LK_CALL_NOTHING : LK_CALL_BAD;
    case IN_VALUE:
        return value_byte(o, c);
    default:
        return after_value(o, c);
    }
}
