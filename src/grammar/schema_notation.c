/* schema_notation.c - values in the notations of calls (text/call_syntax.h): texts that stand as
 * they are up to a mark, which they must not hold; arguments between tags; names without quotes. */
#include <string.h>

#include "grammar/pattern.h"
#include "grammar/schema_internal.h"

enum { MAX_LENGTH_STATES = 4096, MAX_MARK = 64 };

static bool is_bare(const lk_call_notation *n) {
    return n->kind == LK_NOTATION_BARE;
}

/* What ends a text. */
static const char *mark_of(const lk_call_notation *n) {
    return is_bare(n) ? n->open : n->value_close;
}

/* ---- texts ---- */

/* Characters of a text as they are: no control characters but tab and line end. */
static const lk_code_range text_ranges[] = {
    {'\t', '\n'}, {0x20, 0x7E}, {0x80, 0xD7FF}, {0xE000, LK_MAX_CODE_POINT}};

static void add_chars(lk_grammar_builder *b, lk_grammar_edge_list *list, uint32_t low,
                      uint32_t high, uint32_t next) {
    for (size_t i = 0; i < sizeof text_ranges / sizeof text_ranges[0]; i++) {
        lk_code_range r = text_ranges[i];
        r.low = low > r.low ? low : r.low;
        r.high = high < r.high ? high : r.high;
        if (r.low <= r.high) {
            lk_grammar_add_chars(b, list, &r, 1, next);
        }
    }
}

static void fill_state(lk_grammar_builder *b, const lk_language *l, uint32_t state,
                       const uint32_t *starts, uint32_t end) {
    lk_grammar_edge_list list = {NULL, 0, 0};
    lk_language_run run;
    for (uint32_t c = 0; b->status == LK_OK && lk_language_next_run(l, state, &c, &run);) {
        add_chars(b, &list, run.low, run.high, starts[run.target]);
    }
    const uint32_t targets[] = {lk_grammar_edges(b, list.edges, list.n), end};
    lk_grammar_set_split(b, starts[state], targets, l->is_end[state] ? 2 : 1);
    lk_grammar_free_edges(b, &list);
}

/* The texts of a language, as they are. */
static uint32_t plain_text(lk_schema *s, const lk_language *l, uint32_t next) {
    lk_grammar_builder *b = &s->b;
    if (lk_language_is_empty(l) || b->status != LK_OK) {
        return LK_GRAMMAR_NOTHING;
    }
    uint32_t *starts = lk_alloc_array(s->a, l->n_states, sizeof starts[0]);
    if (starts == NULL) {
        (void)lk_schema_fail(s, LK_E_NOMEM, s->rule_at, NULL, "no memory for a text");
        return LK_GRAMMAR_NOTHING;
    }
    for (uint32_t i = 0; i < l->n_states; i++) {
        starts[i] = lk_grammar_reserve(b);
    }
    for (uint32_t i = 0; i < l->n_states && b->status == LK_OK; i++) {
        fill_state(b, l, i, starts, next);
    }
    const uint32_t start = starts[0];
    lk_free_array(s->a, starts, l->n_states, sizeof starts[0]);
    return start;
}

/* Leaves of a language what a pattern (with its flag: only what) matches. */
static void restrict_to(lk_schema *s, lk_language *l, const char *pattern,
                        lk_language_operator op) {
    lk_error err = {0};
    lk_language other = {0};
    lk_language rest = {0};
    lk_status status = lk_pattern_compile(pattern, strlen(pattern), s->a, &other, &err);
    if (status == LK_OK) {
        status = lk_language_combine(l, &other, op, s->a, &rest, &err);
    }
    lk_language_free(&other, s->a);
    lk_language_free(l, s->a);
    *l = rest;
    if (status != LK_OK) {
        (void)lk_schema_fail(s, status, s->rule_at, NULL, "%.200s", err.message);
    }
}

/* Removes the texts that hold a mark. */
static void exclude_mark(lk_schema *s, lk_language *l, const char *mark) {
    char pattern[2 * MAX_MARK + 1];
    size_t n = 0;
    for (size_t i = 0; mark[i] != '\0' && n + 2 < sizeof pattern; i++) {
        if (strchr("|[](){}.*+?^$\\/-", mark[i]) != NULL) {
            pattern[n++] = '\\';
        }
        pattern[n++] = mark[i];
    }
    pattern[n] = '\0';
    restrict_to(s, l, pattern, LK_LANGUAGE_AND_NOT);
}

/* Texts of which only the length is limited, too long to be counted by a language: without the
 * first character of the mark. */
static uint32_t long_text(lk_schema *s, uint32_t min, uint32_t max, const char *mark) {
    lk_grammar_builder *b = &s->b;
    lk_grammar_edge_list list = {NULL, 0, 0};
    const uint32_t first = (uint32_t)(unsigned char)mark[0];
    add_chars(b, &list, 0, first - 1, LK_GRAMMAR_END);
    add_chars(b, &list, first + 1, LK_MAX_CODE_POINT, LK_GRAMMAR_END);
    const uint32_t one = lk_grammar_edges(b, list.edges, list.n);
    lk_grammar_free_edges(b, &list);
    return lk_grammar_repeat(b, one, min, max, LK_GRAMMAR_END);
}

/* Whether counting up to a length takes too many states. */
static bool is_long(lk_schema *s, const lk_schema_set *set, uint32_t *min, uint32_t *max) {
    *min = lk_schema_count_min(s, set, "minLength");
    *max = lk_schema_count_max(s, set, "maxLength");
    const size_t n_mark = strlen(mark_of(s->notation));
    const uint32_t length = *max == LK_GRAMMAR_NO_MAX ? *min : *max;
    for (uint32_t i = 0; i < set->n; i++) {
        if (lk_schema_get(s, set->items[i], "pattern") != 0 ||
            lk_schema_get(s, set->items[i], "format") != 0 ||
            lk_schema_get(s, set->items[i], "not") != 0) {
            return false;
        }
    }
    return (size_t)length * n_mark > MAX_LENGTH_STATES;
}

/* A text where other values may stand too must not begin as a list or object does, which goes on
 * over marks inside its own texts. With CDATA, a text is in a section or needs none. */
static uint32_t text_of(lk_schema *s, lk_language *l, bool is_alone) {
    const lk_call_notation *n = s->notation;
    lk_grammar_builder *b = &s->b;
    if (!is_alone && !is_bare(n)) {
        restrict_to(s, l, "^[ \\t\\n]*[\\[{(]", LK_LANGUAGE_AND_NOT);
    }
    if (n->style != LK_NOTATION_CDATA) {
        exclude_mark(s, l, mark_of(n));
        return plain_text(s, l, LK_GRAMMAR_END);
    }
    exclude_mark(s, l, LK_CDATA_CLOSE);
    const uint32_t close = lk_grammar_text(b, LK_CDATA_CLOSE, LK_GRAMMAR_END);
    const uint32_t section = lk_grammar_text(b, LK_CDATA_OPEN, plain_text(s, l, close));
    restrict_to(s, l, "^[^<&\\n]*$", LK_LANGUAGE_AND);
    return lk_grammar_either(b, plain_text(s, l, LK_GRAMMAR_END), section);
}

/* A text of a set, with what stands around it; is_alone: no other value may stand there. */
uint32_t lk_schema_plain_string(lk_schema *s, const lk_schema_set *set, bool is_alone) {
    lk_grammar_builder *b = &s->b;
    lk_language language = {0};
    bool is_any = true;
    uint32_t min = 0;
    uint32_t max = 0;
    uint32_t start = LK_GRAMMAR_NOTHING;
    if (is_long(s, set, &min, &max)) {
        start = min <= max ? long_text(s, min, max, mark_of(s->notation)) : start;
    } else {
        lk_schema_language(s, set, &language, &is_any);
        if (is_any && lk_schema_is_good(s)) {
            lk_error err = {0};
            const lk_status status = lk_language_lengths(0, UINT32_MAX, s->a, &language, &err);
            if (status != LK_OK) {
                (void)lk_schema_fail(s, status, s->rule_at, NULL, "%.200s", err.message);
            }
        }
        start = lk_schema_is_good(s) ? text_of(s, &language, is_alone) : start;
    }
    lk_language_free(&language, s->a);
    if (!is_bare(s->notation) || !lk_schema_is_good(s)) {
        return start;
    }
    const uint32_t rule = lk_grammar_rule(b);
    lk_grammar_set_rule(b, rule, start);
    const char *mark = mark_of(s->notation);
    return lk_grammar_text(b, mark,
                           lk_grammar_call(b, rule, lk_grammar_text(b, mark, LK_GRAMMAR_END)));
}

/* ---- fixed values ---- */

static uint32_t type_of(const lk_schema *s, uint32_t value) {
    static const uint32_t types[] = {LK_TYPE_NULL,   LK_TYPE_BOOLEAN, LK_TYPE_BOOLEAN,
                                     LK_TYPE_NUMBER, LK_TYPE_STRING,  LK_TYPE_ARRAY,
                                     LK_TYPE_OBJECT};
    return types[s->json.values[value].type];
}

/* One fixed value in the notation. */
static uint32_t plain_value(lk_schema *s, uint32_t value) {
    lk_grammar_builder *b = &s->b;
    const lk_call_notation *notation = s->notation;
    lk_json_buffer buffer = {NULL, 0, 0};
    uint32_t start = LK_GRAMMAR_NOTHING;
    size_t n = 0;
    const char *text = lk_json_text(&s->json, value, &n);
    if (s->json.values[value].type != LK_JSON_STRING) {
        lk_json_write(b, &s->json, value, &buffer);
        start = lk_grammar_bytes(b, buffer.bytes, buffer.n, LK_GRAMMAR_END);
        lk_json_free_buffer(b, &buffer);
        return start;
    }
    const bool is_cdata = notation->style == LK_NOTATION_CDATA &&
                          (memchr(text, '<', n) != NULL || memchr(text, '&', n) != NULL ||
                           memchr(text, '\n', n) != NULL);
    const char *open = is_bare(notation) ? notation->open : is_cdata ? LK_CDATA_OPEN : "";
    const char *close = is_bare(notation) ? notation->open : is_cdata ? LK_CDATA_CLOSE : "";
    if (strstr(text, is_cdata ? close : mark_of(notation)) != NULL || strlen(text) != n) {
        return LK_GRAMMAR_NOTHING; /* it cannot be written */
    }
    const uint32_t end = lk_grammar_text(b, close, LK_GRAMMAR_END);
    return lk_grammar_text(b, open, lk_grammar_bytes(b, text, n, end));
}

/* False: they are written as in JSON, which the caller does. */
bool lk_schema_plain_values(lk_schema *s, const uint32_t *values, size_t n, uint32_t *start) {
    const bool is_value = lk_schema_is_value(s);
    if (s->form == LK_FORM_ARGUMENTS) {
        (void)lk_schema_fail(s, LK_E_UNSUPPORTED, s->rule_at, NULL,
                             "fixed values of all arguments cannot be enforced in this syntax");
        return true;
    }
    if (!is_value && (s->notation == NULL || !is_bare(s->notation))) {
        return false;
    }
    uint32_t *starts = lk_alloc_array(s->a, n, sizeof starts[0]);
    size_t n_starts = 0;
    if (starts == NULL) {
        (void)lk_schema_fail(s, LK_E_NOMEM, s->rule_at, NULL, "no memory for %zu values", n);
        return true;
    }
    for (size_t i = 0; i < n && lk_schema_is_good(s); i++) {
        const uint32_t type = type_of(s, values[i]);
        if (!is_value && type >= LK_TYPE_ARRAY) {
            (void)lk_schema_fail(s, LK_E_UNSUPPORTED, values[i], NULL,
                                 "a fixed list or object cannot be enforced in this syntax");
        } else if (!is_value || (type & (s->form - LK_FORM_VALUE)) != 0) {
            starts[n_starts++] = plain_value(s, values[i]);
        }
    }
    *start = lk_grammar_split(&s->b, starts, n_starts);
    lk_free_array(s->a, starts, n, sizeof starts[0]);
    return true;
}

/* ---- arguments ---- */

/* The value of an argument and what stands around it, from behind the name on. */
static uint32_t tagged_value(lk_schema *s, const lk_call_notation *n, lk_schema_set *values,
                             uint32_t next) {
    static const struct {
        const char *name;
        uint32_t types;
        lk_notation_types kind;
    } words[] = {{"", LK_TYPE_ALL, LK_NOTATION_NONE},
                 {"true", LK_TYPE_STRING, LK_NOTATION_TRUTH},
                 {"false", LK_TYPE_ALL & ~LK_TYPE_STRING, LK_NOTATION_TRUTH},
                 {"string", LK_TYPE_STRING, LK_NOTATION_NAMES},
                 {"number", LK_TYPE_NUMBER, LK_NOTATION_NAMES},
                 {"boolean", LK_TYPE_BOOLEAN, LK_NOTATION_NAMES},
                 {"null", LK_TYPE_NULL, LK_NOTATION_NAMES},
                 {"array", LK_TYPE_ARRAY, LK_NOTATION_NAMES},
                 {"object", LK_TYPE_OBJECT, LK_NOTATION_NAMES}};
    lk_grammar_builder *b = &s->b;
    const char *line = n->style == LK_NOTATION_LINE ? "\n" : "";
    const uint32_t close = lk_grammar_text(b, line, lk_grammar_text(b, n->value_close, next));
    uint32_t starts[sizeof words / sizeof words[0]];
    size_t n_starts = 0;
    for (size_t i = 0; i < sizeof words / sizeof words[0] && lk_schema_is_good(s); i++) {
        if (words[i].kind != n->types) {
            continue;
        }
        const uint32_t rule = lk_schema_rule_in(s, values, LK_FORM_VALUE | words[i].types);
        const uint32_t value = lk_grammar_text(b, line, lk_grammar_call(b, rule, close));
        uint32_t open = lk_grammar_text(b, n->value_open, value);
        open = n->types == LK_NOTATION_NONE && n->value_open[0] != '\0' ? lk_json_space(b, open)
                                                                        : open;
        starts[n_starts++] = lk_grammar_text(b, words[i].name, open);
    }
    return lk_grammar_text(b, n->name_end, lk_grammar_split(b, starts, n_starts));
}

static uint32_t value_of(lk_schema *s, const lk_call_notation *n, lk_schema_set *values,
                         uint32_t next) {
    lk_grammar_builder *b = &s->b;
    if (n->kind == LK_NOTATION_TAGS) {
        return tagged_value(s, n, values, next);
    }
    const uint32_t value = lk_grammar_call(b, lk_schema_rule(s, values), next);
    return lk_grammar_text(b, is_bare(n) ? ":" : "=", value);
}

/* What stands before the name. */
static uint32_t open_member(lk_schema *s, const lk_call_notation *n, uint32_t name) {
    return n->kind == LK_NOTATION_TAGS ? lk_json_space(&s->b, lk_grammar_text(&s->b, n->open, name))
                                       : name;
}

/* A declared member. */
uint32_t lk_schema_plain_member(lk_schema *s, const lk_call_notation *n, const char *name,
                                size_t n_name, lk_schema_set *values, uint32_t next) {
    for (size_t i = 0; i < n_name || n_name == 0; i++) {
        if (n_name == 0 || (unsigned char)name[i] <= ' ' ||
            strchr("<>\"'=:,(){}[]", name[i]) != NULL) {
            (void)lk_schema_fail(s, LK_E_UNSUPPORTED, s->rule_at, NULL,
                                 "the property '%.40s' cannot be named in the calls of this model",
                                 name);
            return LK_GRAMMAR_NOTHING;
        }
    }
    const uint32_t value = value_of(s, n, values, next);
    return open_member(s, n, lk_grammar_bytes(&s->b, name, n_name, value));
}

/* A member that is not declared, to the end of a rule. */
uint32_t lk_schema_plain_other(lk_schema *s, const lk_call_notation *n, const lk_language *names,
                               lk_schema_set *values) {
    lk_error err = {0};
    lk_language own = {0};
    lk_language word = {0};
    static const char pattern[] = "^[A-Za-z0-9_.$@-]{1,64}$";
    uint32_t start = LK_GRAMMAR_NOTHING;
    lk_status status = lk_pattern_compile(pattern, sizeof pattern - 1, s->a, &word, &err);
    if (status == LK_OK) {
        status = lk_language_combine(names, &word, LK_LANGUAGE_AND, s->a, &own, &err);
    }
    if (status != LK_OK) {
        (void)lk_schema_fail(s, status, s->rule_at, NULL, "%.200s", err.message);
    } else {
        const uint32_t value = value_of(s, n, values, LK_GRAMMAR_END);
        start = open_member(s, n, plain_text(s, &own, value));
    }
    lk_language_free(&own, s->a);
    lk_language_free(&word, s->a);
    return start;
}

/* ---- objects ---- */

static bool is_root(const lk_schema *s) {
    return s->form == LK_FORM_ARGUMENTS;
}

uint32_t lk_schema_plain_begin(lk_schema *s, const lk_call_notation *n, uint32_t next) {
    return is_bare(n) && !is_root(s) ? lk_grammar_byte(&s->b, '{', '{', next) : next;
}

uint32_t lk_schema_plain_comma(lk_schema *s, const lk_call_notation *n, uint32_t next) {
    return n->kind == LK_NOTATION_TAGS
               ? next
               : lk_grammar_byte(&s->b, ',', ',', lk_json_one_space(&s->b, next));
}

uint32_t lk_schema_plain_end(lk_schema *s, const lk_call_notation *n) {
    const uint8_t byte = is_bare(n) ? '}' : ')';
    return n->kind == LK_NOTATION_TAGS ? LK_GRAMMAR_END
                                       : lk_grammar_byte(&s->b, byte, byte, LK_GRAMMAR_END);
}
