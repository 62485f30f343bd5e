/* call_arguments.c - see call_arguments.h. */
#include "text/calls/call_arguments.h"

#include <string.h>

#include "base/error.h"
#include "text/calls/call_literal.h"

enum { AT_ARGUMENT, IN_NAME, AT_VALUE, IN_TEXT, IN_VALUE, IN_CDATA };

static bool is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

void lk_call_arguments_init(lk_call_arguments *a, const lk_allocator *allocator) {
    *a = (lk_call_arguments){.notation = NULL};
    lk_text_buffer_init(&a->name, allocator);
    lk_text_buffer_init(&a->value, allocator);
}

void lk_call_arguments_deinit(lk_call_arguments *a) {
    lk_text_buffer_deinit(&a->name);
    lk_text_buffer_deinit(&a->value);
}

void lk_call_arguments_begin(lk_call_arguments *a, const lk_call_notation *notation,
                             const char *close, const lk_json *tools, const char *tool,
                             size_t n_tool, size_t max_value) {
    a->notation = notation;
    a->close = close;
    a->tools = tools;
    a->tool = tool;
    a->n_tool = n_tool;
    a->max_value = max_value;
    a->state = AT_ARGUMENT;
    a->has_members = a->is_escaped = a->needs_comma = a->at_value = false;
    a->name.n = a->value.n = a->n_held = a->depth = 0;
    a->n_hex = 0;
    a->quote = '\0';
}

static void add(lk_call_arguments *a, lk_text_buffer *to, const char *bytes, size_t n) {
    a->is_nomem = !lk_text_buffer_append(to, bytes, n) || a->is_nomem;
}

/* ---- the values of TAGS ---- */

/* The name as a member, and what begins its value. */
static void begin_member(lk_call_arguments *a, lk_text_buffer *out) {
    add(a, out, a->has_members ? ", " : "{", a->has_members ? 2 : 1);
    a->has_members = true;
    add(a, out, "\"", 1);
    for (size_t i = 0; i < a->name.n; i++) {
        a->is_nomem = !lk_json_escape_byte((char)a->name.data[i], out) || a->is_nomem;
    }
    add(a, out, "\": ", 3);
}

/* The types that the call itself names, or those of the schema. */
static unsigned types_of_value(const lk_call_arguments *a) {
    const char *word = (const char *)a->value.data;
    const size_t n = a->value.n;
    if (a->notation->types == LK_NOTATION_TRUTH) {
        return n == 4 && memcmp(word, "true", 4) == 0 ? LK_CALL_STRING
                                                      : LK_CALL_ANY & ~(unsigned)LK_CALL_STRING;
    }
    const unsigned named =
        a->notation->types == LK_NOTATION_NAMES ? lk_call_type_named(word, n) : 0;
    return named != 0
               ? named
               : lk_call_types(a->tools, a->tool, a->n_tool, (const char *)a->name.data, a->name.n);
}

static void begin_value(lk_call_arguments *a, lk_text_buffer *out) {
    a->types = types_of_value(a);
    begin_member(a, out);
    a->value.n = 0;
    a->n_checks = 0;
    a->at_value = true;
    a->state = a->types == LK_CALL_STRING ? IN_TEXT : IN_VALUE;
    if (a->state == IN_TEXT) {
        add(a, out, "\"", 1);
    }
}

static void end_value(lk_call_arguments *a, lk_text_buffer *out) {
    if (a->state == IN_VALUE) {
        a->is_nomem = !lk_call_literal(&a->value, a->types, out) || a->is_nomem;
    } else {
        add(a, out, "\"", 1);
    }
    a->name.n = a->value.n = 0;
    a->state = AT_ARGUMENT;
}

/* A byte of a value that is of no mark. */
static void value_byte(lk_call_arguments *a, char c, lk_text_buffer *out) {
    const bool is_line = a->notation->style == LK_NOTATION_LINE && a->at_value && c == '\n';
    a->at_value = false;
    if (a->state == IN_VALUE && !is_line) {
        add(a, &a->value, &c, 1);
    } else if (!is_line) {
        a->is_nomem = !lk_json_escape_byte(c, out) || a->is_nomem;
    }
}

/* ---- marks of TAGS ---- */

enum { MAX_MARKS = 3 };

/* The marks that count in this state: their texts, each in two parts. */
typedef struct mark {
    const char *first, *second;
} mark;
enum { MARK_OPEN, MARK_END, MARK_CDATA };

static size_t list_marks(const lk_call_arguments *a, mark *marks, int *kinds) {
    const lk_call_notation *n = a->notation;
    size_t count = 0;
    if (a->state == AT_ARGUMENT) {
        kinds[count] = MARK_OPEN;
        marks[count++] = (mark){n->open, ""};
        kinds[count] = MARK_END;
        marks[count++] = (mark){a->close, ""};
        return count;
    }
    kinds[count] = MARK_END;
    marks[count++] = (mark){a->state == IN_CDATA ? LK_CDATA_CLOSE : "", n->value_close};
    if (n->style == LK_NOTATION_LINE) {
        kinds[count] = MARK_END;
        marks[count++] = (mark){"\n", n->value_close};
    }
    if (n->style == LK_NOTATION_CDATA && a->at_value) {
        kinds[count] = MARK_CDATA;
        marks[count++] = (mark){LK_CDATA_OPEN, ""};
    }
    return count;
}

static size_t mark_length(const mark *m) {
    return strlen(m->first) + strlen(m->second);
}

static bool begins_mark(const lk_call_arguments *a, const mark *m) {
    const size_t n_first = strlen(m->first);
    for (size_t i = 0; i < a->n_held; i++) {
        if (a->held[i] != (i < n_first ? m->first[i] : m->second[i - n_first])) {
            return false;
        }
    }
    return true;
}

/* Looks at what is held: the kind of the mark that it is, -1: it may become one, -2: neither. */
static int match_held(const lk_call_arguments *a) {
    mark marks[MAX_MARKS];
    int kinds[MAX_MARKS];
    int result = -2;
    const size_t n = list_marks(a, marks, kinds);
    for (size_t i = 0; i < n; i++) {
        const size_t length = mark_length(&marks[i]);
        if (length < a->n_held || !begins_mark(a, &marks[i])) {
            continue;
        }
        if (length == a->n_held) {
            return kinds[i];
        }
        result = -1;
    }
    return result;
}

static void take_mark(lk_call_arguments *a, int kind, lk_text_buffer *out) {
    if (kind == MARK_CDATA) {
        a->at_value = false;
        if (a->state == IN_VALUE) {
            add(a, out, "\"", 1);
        }
        a->state = IN_CDATA;
    } else {
        end_value(a, out);
    }
}

/* A byte of a value, or of the mark behind it. */
static void held_byte(lk_call_arguments *a, char c, lk_text_buffer *out) {
    a->held[a->n_held++] = c;
    while (a->n_held != 0) {
        const int kind = match_held(a);
        const bool is_inside = kind == MARK_END && a->state == IN_VALUE &&
                               a->n_checks < LK_CALL_MAX_CHECKS && a->value.n != 0 &&
                               lk_call_literal_is_open(&a->value);
        a->n_checks += kind == MARK_END;
        if (kind >= 0 && !is_inside) {
            a->n_held = 0;
            take_mark(a, kind, out);
            return;
        }
        if (kind == -1) {
            return;
        }
        const size_t n = is_inside ? a->n_held : 1;
        for (size_t i = 0; i < n; i++) {
            value_byte(a, a->held[i], out);
        }
        a->n_held -= n;
        memmove(a->held, a->held + n, a->n_held);
    }
}

/* ---- TAGS ---- */

static lk_scan at_argument(lk_call_arguments *a, char c, lk_text_buffer *out) {
    if (a->n_held == 0 && is_blank(c)) {
        return LK_SCAN_MORE;
    }
    a->held[a->n_held++] = c;
    const int kind = match_held(a);
    if (kind == -2) {
        return LK_SCAN_BAD;
    }
    if (kind >= 0) {
        a->n_held = 0;
    }
    if (kind == MARK_END) {
        if (a->has_members) {
            add(a, out, "}", 1);
        }
        return LK_SCAN_LAST;
    }
    a->state = kind == MARK_OPEN ? IN_NAME : a->state;
    return LK_SCAN_MORE;
}

/* Whether a buffer ends with a mark, which is taken off. */
static bool takes_off(lk_text_buffer *b, const char *text) {
    const size_t n = strlen(text);
    if (b->n < n || memcmp(b->data + b->n - n, text, n) != 0) {
        return false;
    }
    b->n -= n;
    return true;
}

static lk_scan tags_byte(lk_call_arguments *a, char c, lk_text_buffer *out) {
    switch (a->state) {
    case AT_ARGUMENT:
        return at_argument(a, c, out);
    case IN_NAME:
        add(a, &a->name, &c, 1);
        if (!a->is_nomem && takes_off(&a->name, a->notation->name_end)) {
            a->state = AT_VALUE;
            if (a->notation->value_open[0] == '\0') {
                begin_value(a, out);
            }
        }
        break;
    case AT_VALUE:
        add(a, &a->value, &c, 1);
        if (!a->is_nomem && takes_off(&a->value, a->notation->value_open)) {
            begin_value(a, out);
        }
        break;
    default:
        held_byte(a, c, out);
        return a->value.n > a->max_value ? LK_SCAN_BAD : LK_SCAN_MORE;
    }
    a->n_held = 0;
    return a->name.n > LK_CALL_MAX_ARGUMENT ||
                   (a->state == AT_VALUE && a->value.n > LK_CALL_MAX_ARGUMENT)
               ? LK_SCAN_BAD
               : LK_SCAN_MORE;
}

lk_scan lk_call_arguments_byte(lk_call_arguments *a, char c, lk_text_buffer *out) {
    return a->notation->kind == LK_NOTATION_TAGS ? tags_byte(a, c, out)
                                                 : lk_call_values_byte(a, c, out);
}
