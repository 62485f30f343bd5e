/* schema_types.c - a set with nothing left to choose: fixed values, or values of some types; and
 * numbers. */
#include <string.h>

#include "grammar/schema_internal.h"

/* ---- fixed values ---- */

static uint32_t build_values(lk_schema *s, const uint32_t *values, size_t n) {
    lk_grammar_word *words = lk_alloc_array(s->a, n, sizeof words[0]);
    size_t *begins = lk_alloc_array(s->a, n + 1, sizeof begins[0]);
    lk_json_buffer buffer = {NULL, 0, 0};
    uint32_t start = LK_GRAMMAR_NOTHING;
    if (words == NULL || begins == NULL) {
        (void)lk_schema_fail(s, LK_E_NOMEM, s->rule_at, NULL, "no memory for %zu values", n);
    } else {
        for (size_t i = 0; i < n; i++) {
            begins[i] = buffer.n;
            lk_json_write(&s->b, &s->json, values[i], &buffer);
        }
        begins[n] = buffer.n;
        for (size_t i = 0; i < n && lk_schema_is_good(s); i++) {
            words[i] = (lk_grammar_word){buffer.bytes + begins[i], begins[i + 1] - begins[i],
                                         LK_GRAMMAR_END};
        }
        start = lk_schema_is_good(s) ? lk_grammar_words(&s->b, words, n) : start;
    }
    lk_json_free_buffer(&s->b, &buffer);
    lk_free_array(s->a, words, n, sizeof words[0]);
    lk_free_array(s->a, begins, n + 1, sizeof begins[0]);
    return start;
}

/* ---- numbers ---- */

static void raise_min(lk_decimal_range *r, const lk_decimal *x, bool is_excluded) {
    const int order = r->has_min ? lk_decimal_compare(x, &r->min) : 1;
    if (order > 0) {
        r->min = *x;
        r->is_min_excluded = is_excluded;
    } else if (order == 0) {
        r->is_min_excluded = r->is_min_excluded || is_excluded;
    }
    r->has_min = true;
}

static void lower_max(lk_decimal_range *r, const lk_decimal *x, bool is_excluded) {
    const int order = r->has_max ? lk_decimal_compare(x, &r->max) : -1;
    if (order < 0) {
        r->max = *x;
        r->is_max_excluded = is_excluded;
    } else if (order == 0) {
        r->is_max_excluded = r->is_max_excluded || is_excluded;
    }
    r->has_max = true;
}

static bool read_bound(lk_schema *s, uint32_t item, const char *keyword, lk_decimal *out) {
    const uint32_t v = lk_schema_get(s, item, keyword);
    size_t n = 0;
    if (v == 0) {
        return false;
    }
    const char *text = lk_json_text(&s->json, v, &n);
    if (!lk_decimal_read(text, n, out)) {
        (void)lk_schema_fail(s, LK_E_LIMIT, v, NULL,
                             "'%s' has more than %d digits before or after the point", keyword,
                             LK_DECIMAL_MAX_DIGITS);
        return false;
    }
    return true;
}

static uint32_t common_multiple(uint32_t x, uint32_t y) {
    uint32_t a = x;
    uint32_t b = y;
    while (b != 0) {
        const uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    const uint64_t whole = (uint64_t)(x / a) * y;
    return whole > LK_DECIMAL_MAX_MULTIPLE ? LK_DECIMAL_MAX_MULTIPLE + 1 : (uint32_t)whole;
}

static void take_multiple(lk_schema *s, uint32_t item, lk_decimal_range *r) {
    lk_decimal x;
    if (!read_bound(s, item, "multipleOf", &x)) {
        return;
    }
    const uint32_t v = lk_schema_get(s, item, "multipleOf");
    uint32_t number = 0;
    for (size_t i = 0; i < x.n_whole && number <= LK_DECIMAL_MAX_MULTIPLE; i++) {
        number = number * 10 + x.whole[i];
    }
    if (x.is_negative || x.n_whole + x.n_part == 0) {
        (void)lk_schema_fail(s, LK_E_FORMAT, v, NULL, "'multipleOf' must be greater than 0");
        return;
    }
    number = r->multiple_of != 0 ? common_multiple(r->multiple_of, number) : number;
    if (x.n_part != 0 || number > LK_DECIMAL_MAX_MULTIPLE) {
        (void)lk_schema_fail(s, LK_E_UNSUPPORTED, v, NULL,
                             "'multipleOf' cannot be enforced unless it is a whole number up to %u",
                             LK_DECIMAL_MAX_MULTIPLE);
        return;
    }
    r->multiple_of = number;
}

/* The formats that OpenAPI has for numbers. */
static void take_format(lk_schema *s, uint32_t item, lk_decimal_range *r) {
    static const struct {
        const char *name, *min, *max;
    } formats[] = {{"int32", "-2147483648", "2147483647"},
                   {"int64", "-9223372036854775808", "9223372036854775807"},
                   {"uint32", "0", "4294967295"},
                   {"uint64", "0", "18446744073709551615"}};
    const uint32_t v = lk_schema_get(s, item, "format");
    for (size_t i = 0; v != 0 && i < sizeof formats / sizeof formats[0]; i++) {
        if (lk_json_text_is(&s->json, v, formats[i].name)) {
            lk_decimal bound;
            (void)lk_decimal_read(formats[i].min, strlen(formats[i].min), &bound);
            raise_min(r, &bound, false);
            (void)lk_decimal_read(formats[i].max, strlen(formats[i].max), &bound);
            lower_max(r, &bound, false);
            r->is_whole = true;
        }
    }
}

lk_decimal_range lk_schema_range(lk_schema *s, const lk_schema_set *set, bool is_whole) {
    lk_decimal_range r = {.is_whole = is_whole};
    lk_decimal x;
    for (uint32_t i = 0; i < set->n && lk_schema_is_good(s); i++) {
        const uint32_t item = set->items[i];
        if (read_bound(s, item, "minimum", &x)) {
            raise_min(&r, &x, false);
        }
        if (read_bound(s, item, "exclusiveMinimum", &x)) {
            raise_min(&r, &x, true);
        }
        if (read_bound(s, item, "maximum", &x)) {
            lower_max(&r, &x, false);
        }
        if (read_bound(s, item, "exclusiveMaximum", &x)) {
            lower_max(&r, &x, true);
        }
        take_multiple(s, item, &r);
        take_format(s, item, &r);
    }
    return r;
}

uint32_t lk_schema_number(lk_schema *s, const lk_schema_set *set, bool is_whole) {
    const lk_decimal_range r = lk_schema_range(s, set, is_whole);
    if (!r.has_min && !r.has_max && r.multiple_of == 0) {
        return lk_grammar_call(&s->b, r.is_whole ? s->integer_rule : s->number_rule,
                               LK_GRAMMAR_END);
    }
    return lk_decimal_build(&s->b, &r, LK_GRAMMAR_END);
}

/* ---- not ---- */

/* Takes the types that a `not` excludes. What else it says must be about strings (schema_string.c
 * looks at it) or cannot be enforced. */
static uint32_t types_excluded(lk_schema *s, uint32_t not, bool *is_done) {
    const lk_json *j = &s->json;
    const uint32_t type = lk_json_find(j, not, "type");
    *is_done = true;
    if (j->values[not ].type == LK_JSON_FALSE) {
        return 0;
    }
    if (j->values[not ].type == LK_JSON_TRUE || j->values[not ].n == 0) {
        return LK_TYPE_ALL;
    }
    *is_done = type != 0 && j->values[not ].n == 1;
    return *is_done ? lk_schema_type_bits(s, type) : 0;
}

/* A `not` with nothing but an enum or const of strings. */
static bool is_words(const lk_schema *s, uint32_t not ) {
    const lk_json *j = &s->json;
    const uint32_t list = lk_json_find(j, not, "enum");
    const uint32_t one = lk_json_find(j, not, "const");
    bool ok = j->values[not ].n == 1 && (list != 0 || one != 0) &&
              (one == 0 || j->values[one].type == LK_JSON_STRING);
    for (uint32_t v = list != 0 ? j->values[list].first : 0; v != 0; v = j->values[v].next) {
        ok = ok && j->values[v].type == LK_JSON_STRING;
    }
    return ok;
}

static uint32_t apply_not(lk_schema *s, const lk_schema_set *set, uint32_t types) {
    for (uint32_t i = 0; i < set->n && lk_schema_is_good(s); i++) {
        const uint32_t not = lk_schema_get(s, set->items[i], "not");
        bool is_done = true;
        if (not == 0) {
            continue;
        }
        lk_schema_check(s, not );
        types &= ~types_excluded(s, not, &is_done);
        if (!is_done && !is_words(s, not )) {
            (void)lk_schema_fail(s, LK_E_UNSUPPORTED, not, NULL,
                                 "'not' cannot be enforced unless it has a type alone, or an enum "
                                 "or const of strings");
        }
    }
    return types;
}

/* ---- all types ---- */

uint32_t lk_schema_base(lk_schema *s, const lk_schema_set *set) {
    lk_grammar_builder *b = &s->b;
    uint32_t *values = NULL;
    size_t n = 0;
    size_t capacity = 0;
    if (lk_schema_values(s, set, &values, &n, &capacity)) {
        uint32_t start = LK_GRAMMAR_NOTHING;
        if (!lk_schema_plain_values(s, values, n, &start) && lk_schema_is_good(s)) {
            start = build_values(s, values, n);
        }
        lk_free_array(s->a, values, capacity, sizeof values[0]);
        return start;
    }
    uint32_t types = apply_not(s, set, lk_schema_types(s, set));
    uint32_t starts[8];
    if (s->form == LK_FORM_ARGUMENTS) {
        return (types & LK_TYPE_OBJECT) != 0 ? lk_schema_object(s, set) : LK_GRAMMAR_NOTHING;
    }
    types &= lk_schema_is_value(s) ? s->form - LK_FORM_VALUE : (uint32_t)LK_TYPE_ALL;
    n = 0;
    if ((types & LK_TYPE_OBJECT) != 0) {
        starts[n++] = lk_schema_object(s, set);
    }
    if ((types & LK_TYPE_ARRAY) != 0) {
        starts[n++] = lk_schema_array(s, set);
    }
    if ((types & LK_TYPE_STRING) != 0) {
        const bool is_bare = s->notation != NULL && s->notation->kind == LK_NOTATION_BARE;
        starts[n++] = is_bare || lk_schema_is_value(s)
                          ? lk_schema_plain_string(s, set, types == LK_TYPE_STRING)
                          : lk_schema_string(s, set);
    }
    if ((types & LK_TYPE_NUMBER) == LK_TYPE_FRACTION) {
        (void)lk_schema_fail(s, LK_E_UNSUPPORTED, s->rule_at, "not",
                             "numbers that are no integers cannot be enforced");
    } else if ((types & LK_TYPE_NUMBER) != 0) {
        starts[n++] = lk_schema_number(s, set, (types & LK_TYPE_FRACTION) == 0);
    }
    if ((types & LK_TYPE_BOOLEAN) != 0) {
        starts[n++] = lk_grammar_text(b, "true", LK_GRAMMAR_END);
        starts[n++] = lk_grammar_text(b, "false", LK_GRAMMAR_END);
    }
    if ((types & LK_TYPE_NULL) != 0) {
        starts[n++] = lk_grammar_text(b, "null", LK_GRAMMAR_END);
    }
    return lk_grammar_split(b, starts, n);
}
