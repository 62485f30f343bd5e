/* schema_value.c - whether a value that stands in the schema itself satisfies a schema: for enum
 * and const beside other keywords, and for oneOf. The depth of the calls is limited. */
#include <string.h>

#include "grammar/pattern.h"
#include "grammar/schema_internal.h"

enum { MAX_CALLS = 64 };

/* ---- equality ---- */

static bool is_same_scalar(const lk_schema *s, uint32_t x, uint32_t y) {
    size_t n_x = 0;
    size_t n_y = 0;
    const lk_json_type type = s->json.values[x].type;
    if (type != s->json.values[y].type) {
        return false;
    }
    const char *a = lk_json_text(&s->json, x, &n_x);
    const char *b = lk_json_text(&s->json, y, &n_y);
    if (type == LK_JSON_NUMBER) {
        lk_decimal p;
        lk_decimal q;
        if (lk_decimal_read(a, n_x, &p) && lk_decimal_read(b, n_y, &q)) {
            return lk_decimal_compare(&p, &q) == 0;
        }
    }
    return n_x == n_y && memcmp(a, b, n_x) == 0;
}

static bool is_equal(const lk_schema *s, uint32_t x, uint32_t y, int depth) {
    const lk_json *j = &s->json;
    const lk_json_type type = j->values[x].type;
    if (type < LK_JSON_ARRAY) {
        return is_same_scalar(s, x, y);
    }
    if (type != j->values[y].type || j->values[x].n != j->values[y].n || depth == 0) {
        return false;
    }
    uint32_t other = j->values[y].first;
    for (uint32_t v = j->values[x].first; v != 0; v = j->values[v].next) {
        if (type == LK_JSON_OBJECT) {
            size_t n = 0;
            const char *name = lk_json_key(j, v, &n);
            other = lk_json_find_bytes(j, y, name, n);
        }
        if (other == 0 || !is_equal(s, v, other, depth - 1)) {
            return false;
        }
        other = j->values[other].next;
    }
    return true;
}

bool lk_schema_equal(const lk_schema *s, uint32_t x, uint32_t y) {
    return is_equal(s, x, y, LK_SCHEMA_MAX_DEPTH);
}

static bool is_in(const lk_schema *s, uint32_t value, uint32_t list) {
    for (uint32_t v = s->json.values[list].first; v != 0; v = s->json.values[v].next) {
        if (lk_schema_equal(s, value, v)) {
            return true;
        }
    }
    return false;
}

/* ---- one keyword after another ---- */

static lk_truth and (lk_truth x, lk_truth y) {
    return x == LK_NO || y == LK_NO ? LK_NO : x == LK_YES && y == LK_YES ? LK_YES : LK_UNKNOWN;
}

static lk_truth truth(bool x) {
    return x ? LK_YES : LK_NO;
}

static uint32_t type_of(const lk_schema *s, uint32_t value) {
    static const uint32_t bits[] = {
        [LK_JSON_NULL] = LK_TYPE_NULL,     [LK_JSON_FALSE] = LK_TYPE_BOOLEAN,
        [LK_JSON_TRUE] = LK_TYPE_BOOLEAN,  [LK_JSON_NUMBER] = LK_TYPE_FRACTION,
        [LK_JSON_STRING] = LK_TYPE_STRING, [LK_JSON_ARRAY] = LK_TYPE_ARRAY,
        [LK_JSON_OBJECT] = LK_TYPE_OBJECT};
    const lk_json_value *v = &s->json.values[value];
    lk_decimal x;
    if (v->type == LK_JSON_NUMBER && lk_decimal_read(s->json.text + v->text, v->n_text, &x) &&
        x.n_part == 0) {
        return LK_TYPE_INTEGER;
    }
    return bits[v->type];
}

static lk_truth number_holds(lk_schema *s, uint32_t value, uint32_t schema) {
    lk_decimal x;
    size_t n = 0;
    const char *text = lk_json_text(&s->json, value, &n);
    const lk_schema_set set = {{schema * 16}, 1};
    const lk_decimal_range r = lk_schema_range(s, &set, false);
    if (!lk_schema_is_good(s) || !lk_decimal_read(text, n, &x)) {
        return LK_UNKNOWN;
    }
    const int low = r.has_min ? lk_decimal_compare(&x, &r.min) : 1;
    const int high = r.has_max ? lk_decimal_compare(&x, &r.max) : -1;
    const bool is_multiple =
        r.multiple_of == 0 || (x.n_part == 0 && lk_decimal_rest(&x, r.multiple_of) == 0);
    return truth((low > 0 || (low == 0 && !r.is_min_excluded)) &&
                 (high < 0 || (high == 0 && !r.is_max_excluded)) && is_multiple &&
                 (!r.is_whole || x.n_part == 0));
}

static lk_truth string_holds(lk_schema *s, uint32_t value, uint32_t schema) {
    const lk_schema_set set = {{schema * 16}, 1};
    lk_language language;
    bool is_any = true;
    size_t n = 0;
    const char *text = lk_json_text(&s->json, value, &n);
    lk_schema_language(s, &set, &language, &is_any);
    const bool holds = is_any || lk_language_accepts(&language, text, n);
    lk_language_free(&language, s->a);
    return lk_schema_is_good(s) ? truth(holds) : LK_UNKNOWN;
}

/* `item` is a schema as in a set: what is done with is not looked at. */
static lk_truth holds(lk_schema *s, uint32_t value, uint32_t item, int depth);

static lk_truth set_holds(lk_schema *s, uint32_t value, const lk_schema_set *set, int depth) {
    lk_truth all = LK_YES;
    for (uint32_t i = 0; i < set->n; i++) {
        all = and(all, holds(s, value, set->items[i], depth));
    }
    return all;
}

static lk_truth is_between(lk_schema *s, uint32_t n, uint32_t schema, const char *min,
                           const char *max) {
    const uint32_t item = schema * 16;
    return truth(n >= lk_schema_count(s, item, min, 0) &&
                 n <= lk_schema_count(s, item, max, LK_GRAMMAR_NO_MAX));
}

static lk_truth array_holds(lk_schema *s, uint32_t value, uint32_t schema, int depth) {
    const lk_json *j = &s->json;
    const lk_schema_set set = {{schema * 16}, 1};
    const uint32_t unique = lk_json_find(j, schema, "uniqueItems");
    lk_truth all = is_between(s, j->values[value].n, schema, "minItems", "maxItems");
    uint32_t index = 0;
    for (uint32_t v = j->values[value].first; v != 0; v = j->values[v].next) {
        lk_schema_set element;
        lk_schema_element(s, &set, index++, &element);
        all = and(all, set_holds(s, v, &element, depth));
    }
    const bool is_unique = unique != 0 && j->values[unique].type == LK_JSON_TRUE;
    return and(all, is_unique && j->values[value].n > 1 ? LK_UNKNOWN : LK_YES);
}

static lk_truth object_holds(lk_schema *s, uint32_t value, uint32_t schema, int depth) {
    const lk_json *j = &s->json;
    const lk_schema_set set = {{schema * 16}, 1};
    const uint32_t required = lk_json_find(j, schema, "required");
    lk_truth all = is_between(s, j->values[value].n, schema, "minProperties", "maxProperties");
    size_t n = 0;
    for (uint32_t v = required != 0 ? j->values[required].first : 0; v != 0;
         v = j->values[v].next) {
        const char *name = lk_json_text(j, v, &n);
        all = and(all, truth(lk_json_find_bytes(j, value, name, n) != 0));
    }
    for (uint32_t v = j->values[value].first; v != 0 && lk_schema_is_good(s);
         v = j->values[v].next) {
        const char *name = lk_json_key(j, v, &n);
        lk_schema_set property;
        if (!lk_schema_property(s, &set, name, n, &property)) {
            return LK_NO;
        }
        all = and(all, set_holds(s, v, &property, depth));
    }
    return and(all, lk_json_find(j, schema, "propertyNames") != 0 ? LK_UNKNOWN : LK_YES);
}

/* anyOf (one_only false) and oneOf. */
static lk_truth branches_hold(lk_schema *s, uint32_t value, uint32_t list, bool one_only,
                              int depth) {
    uint32_t n_yes = 0;
    uint32_t n_unknown = 0;
    for (uint32_t v = s->json.values[list].first; v != 0; v = s->json.values[v].next) {
        const lk_truth one = holds(s, value, v * 16, depth);
        n_yes += one == LK_YES;
        n_unknown += one == LK_UNKNOWN;
    }
    if (one_only && n_yes > 1) {
        return LK_NO;
    }
    if (n_unknown != 0) {
        return !one_only && n_yes != 0 ? LK_YES : LK_UNKNOWN;
    }
    return truth(n_yes != 0);
}

static lk_truth combinations_hold(lk_schema *s, uint32_t value, uint32_t item, int depth) {
    const lk_json *j = &s->json;
    const uint32_t schema = lk_schema_value(item);
    const uint32_t ref = lk_json_find(j, schema, "$ref");
    const uint32_t all_of = lk_json_find(j, schema, "allOf");
    const uint32_t any_of = lk_json_find(j, schema, "anyOf");
    const uint32_t one_of = lk_json_find(j, schema, "oneOf");
    const uint32_t not = lk_json_find(j, schema, "not");
    lk_truth all = LK_YES;
    if (ref != 0 && (item & LK_DONE_REF) == 0) {
        const uint32_t target = lk_schema_resolve(s, ref);
        all = lk_schema_is_good(s) ? holds(s, value, target * 16, depth) : LK_UNKNOWN;
    }
    const bool has_all = all_of != 0 && (item & LK_DONE_ALL) == 0;
    for (uint32_t v = has_all ? j->values[all_of].first : 0; v != 0; v = j->values[v].next) {
        all = and(all, holds(s, value, v * 16, depth));
    }
    if (any_of != 0 && (item & LK_DONE_ANY) == 0) {
        all = and(all, branches_hold(s, value, any_of, false, depth));
    }
    if (one_of != 0 && (item & LK_DONE_ONE) == 0) {
        all = and(all, branches_hold(s, value, one_of, true, depth));
    }
    if (not != 0) {
        const lk_truth inner = holds(s, value, not *16, depth);
        all = and(all, inner == LK_YES ? LK_NO : inner == LK_NO ? LK_YES : LK_UNKNOWN);
    }
    return all;
}

static lk_truth holds(lk_schema *s, uint32_t value, uint32_t item, int depth) {
    const lk_json *j = &s->json;
    const uint32_t schema = lk_schema_value(item);
    if (j->values[schema].type != LK_JSON_OBJECT) {
        return truth(j->values[schema].type == LK_JSON_TRUE);
    }
    if (depth == 0 || !lk_schema_is_good(s)) {
        return LK_UNKNOWN;
    }
    lk_schema_check(s, schema);
    if (!lk_schema_is_good(s)) {
        return LK_UNKNOWN;
    }
    const uint32_t type = lk_json_find(j, schema, "type");
    const uint32_t list = lk_json_find(j, schema, "enum");
    const uint32_t one = lk_json_find(j, schema, "const");
    uint32_t allowed = type != 0 ? lk_schema_type_bits(s, type) : LK_TYPE_ALL;
    const uint32_t own = type_of(s, value);
    if ((allowed & own) == 0 || (list != 0 && !is_in(s, value, list)) ||
        (one != 0 && !lk_schema_equal(s, value, one))) {
        return LK_NO;
    }
    lk_truth all = combinations_hold(s, value, item, depth - 1);
    if ((own & LK_TYPE_NUMBER) != 0) {
        all = and(all, number_holds(s, value, schema));
    } else if (own == LK_TYPE_STRING) {
        all = and(all, string_holds(s, value, schema));
    } else if (own == LK_TYPE_ARRAY) {
        all = and(all, array_holds(s, value, schema, depth - 1));
    } else if (own == LK_TYPE_OBJECT) {
        all = and(all, object_holds(s, value, schema, depth - 1));
    }
    return all;
}

lk_truth lk_schema_holds(lk_schema *s, uint32_t value, uint32_t item) {
    return holds(s, value, item, MAX_CALLS);
}

/* ---- the values of a set ---- */

static bool add_value(lk_schema *s, uint32_t value, uint32_t **values, size_t *n,
                      size_t *capacity) {
    void *list = *values;
    if (!lk_grow_array(s->a, &list, *n, capacity, *n + 1, sizeof(uint32_t))) {
        (void)lk_schema_fail(s, LK_E_NOMEM, value, NULL, "no memory for values");
        return false;
    }
    *values = list;
    (*values)[(*n)++] = value;
    return true;
}

/* Adds a value if all schemas of the set allow it. */
static void try_value(lk_schema *s, const lk_schema_set *set, uint32_t value, uint32_t **values,
                      size_t *n, size_t *capacity) {
    const lk_truth all = lk_schema_is_good(s) ? set_holds(s, value, set, MAX_CALLS) : LK_NO;
    if (all == LK_UNKNOWN) {
        (void)lk_schema_fail(s, LK_E_UNSUPPORTED, value, NULL,
                             "whether this value satisfies the keywords beside it is not decided");
    } else if (all == LK_YES) {
        (void)add_value(s, value, values, n, capacity);
    }
}

bool lk_schema_values(lk_schema *s, const lk_schema_set *set, uint32_t **values, size_t *n,
                      size_t *capacity) {
    for (uint32_t i = 0; i < set->n; i++) {
        const uint32_t one = lk_schema_get(s, set->items[i], "const");
        const uint32_t list = lk_schema_get(s, set->items[i], "enum");
        if (one != 0) {
            try_value(s, set, one, values, n, capacity);
            return true;
        }
        for (uint32_t v = list != 0 ? s->json.values[list].first : 0; v != 0;
             v = s->json.values[v].next) {
            try_value(s, set, v, values, n, capacity);
        }
        if (list != 0) {
            return true;
        }
    }
    return false;
}
