/* json_text.c - see json_text.h. */
#include "grammar/json_text.h"

#include <stdio.h>
#include <string.h>

uint32_t lk_json_space(lk_grammar_builder *b, uint32_t next) {
    const uint32_t space = lk_grammar_byte(b, ' ', ' ', LK_GRAMMAR_END);
    const uint32_t indent = lk_grammar_repeat(b, space, 0, LK_JSON_MAX_INDENT, next);
    const lk_grammar_edge edges[] = {{' ', ' ', next}, {'\n', '\n', indent}};
    return lk_grammar_either(b, next, lk_grammar_edges(b, edges, 2));
}

uint32_t lk_json_one_space(lk_grammar_builder *b, uint32_t next) {
    return lk_grammar_either(b, next, lk_grammar_byte(b, ' ', ' ', next));
}

/* ---- strings ---- */

static uint32_t hex(lk_grammar_builder *b, uint32_t next) {
    const lk_grammar_edge edges[] = {{'0', '9', next}, {'A', 'F', next}, {'a', 'f', next}};
    return lk_grammar_edges(b, edges, 3);
}

/* What follows \u: a unit that is no surrogate, or a pair of surrogates. */
static uint32_t units(lk_grammar_builder *b, uint32_t next) {
    const uint32_t two = hex(b, hex(b, next));
    const uint32_t three = hex(b, two);
    const lk_grammar_edge low[] = {{'C', 'F', two}, {'c', 'f', two}};
    const lk_grammar_edge d[] = {{'D', 'D', lk_grammar_edges(b, low, 2)},
                                 {'d', 'd', lk_grammar_edges(b, low, 2)}};
    const uint32_t second = lk_grammar_text(b, "\\u", lk_grammar_edges(b, d, 2));
    const uint32_t to_second = hex(b, hex(b, second));
    const lk_grammar_edge after_d[] = {
        {'0', '7', two}, {'8', '9', to_second}, {'A', 'B', to_second}, {'a', 'b', to_second}};
    const uint32_t surrogate = lk_grammar_edges(b, after_d, 4);
    const lk_grammar_edge first[] = {{'0', '9', three},    {'A', 'C', three}, {'a', 'c', three},
                                     {'E', 'F', three},    {'e', 'f', three}, {'D', 'D', surrogate},
                                     {'d', 'd', surrogate}};
    return lk_grammar_edges(b, first, 7);
}

static const lk_code_range plain_ranges[] = {
    {0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0xD7FF}, {0xE000, LK_MAX_CODE_POINT}};

uint32_t lk_json_char(lk_grammar_builder *b, uint32_t next) {
    static const char named[] = "\"\\/bfnrt";
    lk_grammar_edge_list list = {NULL, 0, 0};
    lk_grammar_edge escapes[9];
    size_t n = 0;
    for (; named[n] != '\0'; n++) {
        escapes[n] = (lk_grammar_edge){(uint8_t)named[n], (uint8_t)named[n], next};
    }
    escapes[n] = (lk_grammar_edge){'u', 'u', units(b, next)};
    const uint32_t escaped = lk_grammar_edges(b, escapes, n + 1);
    lk_grammar_add_chars(b, &list, plain_ranges, sizeof plain_ranges / sizeof plain_ranges[0],
                         next);
    lk_grammar_add_edge(b, &list, '\\', '\\', escaped);
    const uint32_t state = lk_grammar_edges(b, list.edges, list.n);
    lk_grammar_free_edges(b, &list);
    return state;
}

uint32_t lk_json_string(lk_grammar_builder *b, uint32_t min, uint32_t max, uint32_t next) {
    const uint32_t end = lk_grammar_byte(b, '"', '"', next);
    uint32_t inside = LK_GRAMMAR_NOTHING;
    if (min <= 1 && max == LK_GRAMMAR_NO_MAX) {
        const uint32_t loop = lk_grammar_reserve(b);
        const uint32_t one = lk_json_char(b, loop);
        lk_grammar_set_split(b, loop, (const uint32_t[]){one, end}, 2);
        inside = min == 0 ? loop : one;
    } else {
        inside = lk_grammar_repeat(b, lk_json_char(b, LK_GRAMMAR_END), min, max, end);
    }
    return lk_grammar_byte(b, '"', '"', inside);
}

/* ---- strings of a language ---- */

/* The escape of a character that needs one: the letter, or 'u'. */
static char escape_of(uint32_t cp) {
    static const char letters[] = "btn\0fr"; /* from 0x08 on; 0x0B has none */
    if (cp == '"' || cp == '\\') {
        return (char)cp;
    }
    return cp >= 0x08 && cp <= 0x0D && letters[cp - 0x08] != '\0' ? letters[cp - 0x08] : 'u';
}

/* \u00XX for control characters without a letter. */
static uint32_t control_unit(lk_grammar_builder *b, uint32_t cp, uint32_t next) {
    char digits[5];
    (void)snprintf(digits, sizeof digits, "%04x", (unsigned)cp);
    const uint32_t last =
        digits[3] >= 'a'
            ? lk_grammar_edges(b,
                               (const lk_grammar_edge[]){
                                   {(uint8_t)digits[3], (uint8_t)digits[3], next},
                                   {(uint8_t)(digits[3] - 32), (uint8_t)(digits[3] - 32), next}},
                               2)
            : lk_grammar_byte(b, (uint8_t)digits[3], (uint8_t)digits[3], next);
    return lk_grammar_bytes(b, digits, 3, last);
}

/* The escapes that lead on from a state. */
static void add_escapes(lk_grammar_builder *b, const lk_language *l, uint32_t state,
                        const uint32_t *starts, lk_grammar_edge_list *list) {
    lk_grammar_edge_list escapes = {NULL, 0, 0};
    for (uint32_t cp = 0; cp <= '\\' && b->status == LK_OK; cp = cp == 0x1F  ? '"'
                                                                 : cp == '"' ? '\\'
                                                                             : cp + 1) {
        const uint32_t target = l->next[(size_t)state * l->n_classes + lk_language_class(l, cp)];
        if (target != LK_LANGUAGE_NONE) {
            const char letter = escape_of(cp);
            const uint32_t next =
                letter == 'u' ? control_unit(b, cp, starts[target]) : starts[target];
            lk_grammar_add_edge(b, &escapes, (uint8_t)letter, (uint8_t)letter, next);
        }
    }
    if (escapes.n != 0) {
        lk_grammar_add_edge(b, list, '\\', '\\', lk_grammar_edges(b, escapes.edges, escapes.n));
    }
    lk_grammar_free_edges(b, &escapes);
}

/* The characters of a run of classes with one target that need no escape. */
static void add_plain(lk_grammar_builder *b, uint32_t low, uint32_t high, uint32_t next,
                      lk_grammar_edge_list *list) {
    for (size_t i = 0; i < sizeof plain_ranges / sizeof plain_ranges[0]; i++) {
        lk_code_range r = plain_ranges[i];
        r.low = low > r.low ? low : r.low;
        r.high = high < r.high ? high : r.high;
        if (r.low <= r.high) {
            lk_grammar_add_chars(b, list, &r, 1, next);
        }
    }
}

static void fill_state(lk_grammar_builder *b, const lk_language *l, uint32_t state, bool is_name,
                       const uint32_t *starts, uint32_t end) {
    lk_grammar_edge_list list = {NULL, 0, 0};
    lk_language_run run;
    for (uint32_t c = 0; b->status == LK_OK && lk_language_next_run(l, state, &c, &run);) {
        add_plain(b, run.low, run.high, starts[run.target], &list);
    }
    if (!is_name) {
        add_escapes(b, l, state, starts, &list);
    }
    if (l->is_end[state]) {
        lk_grammar_add_edge(b, &list, '"', '"', end);
    }
    lk_grammar_set_edges(b, starts[state], list.edges, list.n);
    lk_grammar_free_edges(b, &list);
}

uint32_t lk_json_string_of(lk_grammar_builder *b, const lk_language *l, bool is_name,
                           uint32_t next) {
    if (lk_language_is_empty(l) || b->status != LK_OK) {
        return LK_GRAMMAR_NOTHING;
    }
    const lk_allocator *a = b->grammar->allocator;
    uint32_t *starts = lk_alloc_array(a, l->n_states, sizeof starts[0]);
    if (starts == NULL) {
        (void)lk_grammar_fail(b, LK_E_NOMEM, LK_AT_SUBJECT("a grammar"),
                              "cannot allocate memory for the strings of a pattern");
        return LK_GRAMMAR_NOTHING;
    }
    for (uint32_t s = 0; s < l->n_states; s++) {
        starts[s] = lk_grammar_reserve(b);
    }
    for (uint32_t s = 0; s < l->n_states && b->status == LK_OK; s++) {
        fill_state(b, l, s, is_name, starts, next);
    }
    const uint32_t start = starts[0];
    lk_free_array(a, starts, l->n_states, sizeof starts[0]);
    return lk_grammar_byte(b, '"', '"', start);
}

/* ---- values as text ---- */

static void append(lk_grammar_builder *b, lk_json_buffer *out, const char *bytes, size_t n) {
    void *data = out->bytes;
    if (b->status != LK_OK) {
        return;
    }
    if (!lk_grow_array(b->grammar->allocator, &data, out->n, &out->capacity, out->n + n, 1)) {
        (void)lk_grammar_fail(b, LK_E_NOMEM, LK_AT_SUBJECT("a grammar"),
                              "cannot allocate memory for a value");
        return;
    }
    out->bytes = data;
    if (n != 0) {
        memcpy(out->bytes + out->n, bytes, n);
        out->n += n;
    }
}

void lk_json_free_buffer(lk_grammar_builder *b, lk_json_buffer *buffer) {
    lk_free(b->grammar->allocator, buffer->bytes, buffer->capacity);
    *buffer = (lk_json_buffer){NULL, 0, 0};
}

void lk_json_write_string(lk_grammar_builder *b, const char *text, size_t n, lk_json_buffer *out) {
    append(b, out, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        const uint8_t c = (uint8_t)text[i];
        char escape[8];
        if (c >= 0x20 && c != '"' && c != '\\') {
            append(b, out, text + i, 1);
            continue;
        }
        const char letter = escape_of(c);
        const int length = letter == 'u' ? snprintf(escape, sizeof escape, "\\u%04x", c)
                                         : snprintf(escape, sizeof escape, "\\%c", letter);
        append(b, out, escape, (size_t)length);
    }
    append(b, out, "\"", 1);
}

/* The name, if there is one, and the beginning of a value; the whole of one that holds no other. */
static void write_one(lk_grammar_builder *b, const lk_json *json, uint32_t root, uint32_t value,
                      lk_json_buffer *out) {
    const lk_json_value *v = &json->values[value];
    size_t n = 0;
    if (value != root && json->values[v->parent].type == LK_JSON_OBJECT) {
        const char *key = lk_json_key(json, value, &n);
        lk_json_write_string(b, key, n, out);
        append(b, out, ":", 1);
    }
    const char *text = lk_json_text(json, value, &n);
    switch (v->type) {
    case LK_JSON_STRING:
        lk_json_write_string(b, text, n, out);
        break;
    case LK_JSON_NUMBER:
        append(b, out, text, n);
        break;
    case LK_JSON_ARRAY:
        append(b, out, "[", 1);
        break;
    case LK_JSON_OBJECT:
        append(b, out, "{", 1);
        break;
    case LK_JSON_NULL:
    case LK_JSON_FALSE:
    case LK_JSON_TRUE:
        append(b, out, lk_json_type_name(v->type), strlen(lk_json_type_name(v->type)));
        break;
    }
}

void lk_json_write(lk_grammar_builder *b, const lk_json *json, uint32_t value,
                   lk_json_buffer *out) {
    uint32_t at = value;
    for (;;) {
        write_one(b, json, value, at, out);
        if (json->values[at].first != 0) {
            at = json->values[at].first;
            continue;
        }
        for (;;) { /* on to the neighbour, or out */
            const lk_json_value *v = &json->values[at];
            if (v->type >= LK_JSON_ARRAY) {
                append(b, out, v->type == LK_JSON_ARRAY ? "]" : "}", 1);
            }
            if (at == value) {
                return;
            }
            if (v->next != 0) {
                append(b, out, ",", 1);
                at = v->next;
                break;
            }
            at = v->parent;
        }
    }
}
