/* schema_disjoint.c - whether no value can satisfy two sets of schemas. What is not seen to be so
 * is taken as not so. The depth of the calls is limited, and so is their number. */
#include "grammar/schema_internal.h"

enum { MAX_CALLS = 8, MAX_WORK = 100000, MAX_LENGTH = 1000 };

static bool is_disjoint(lk_schema *s, const lk_schema_set *x, const lk_schema_set *y, int depth);

/* Each value of a list is refused by some schema of the other set. */
static bool values_refused(lk_schema *s, const uint32_t *values, size_t n,
                           const lk_schema_set *other) {
    for (size_t i = 0; i < n; i++) {
        bool is_refused = false;
        for (uint32_t k = 0; k < other->n && !is_refused; k++) {
            is_refused = lk_schema_holds(s, values[i], other->items[k]) == LK_NO;
        }
        if (!is_refused) {
            return false;
        }
    }
    return true;
}

/* *is_fixed: x has fixed values, and the result says whether y refuses them all. */
static bool fixed_apart(lk_schema *s, const lk_schema_set *x, const lk_schema_set *y,
                        bool *is_fixed) {
    uint32_t *values = NULL;
    size_t n = 0;
    size_t capacity = 0;
    *is_fixed = lk_schema_values(s, x, &values, &n, &capacity);
    const bool is_apart = *is_fixed && lk_schema_is_good(s) && values_refused(s, values, n, y);
    lk_free_array(s->a, values, capacity, sizeof values[0]);
    return is_apart;
}

/* The types that a set allows: what its keywords are about does not matter here. */
static uint32_t types_of(const lk_schema *s, const lk_schema_set *set) {
    uint32_t types = LK_TYPE_ALL;
    for (uint32_t i = 0; i < set->n; i++) {
        const uint32_t type = lk_schema_get(s, set->items[i], "type");
        if (type != 0) {
            types &= lk_schema_type_bits(s, type);
        }
    }
    return types;
}

static bool numbers_apart(lk_schema *s, const lk_schema_set *x, const lk_schema_set *y) {
    const lk_decimal_range p = lk_schema_range(s, x, false);
    const lk_decimal_range q = lk_schema_range(s, y, false);
    const int up = p.has_max && q.has_min ? lk_decimal_compare(&p.max, &q.min) : 1;
    const int down = q.has_max && p.has_min ? lk_decimal_compare(&q.max, &p.min) : 1;
    return up < 0 || (up == 0 && (p.is_max_excluded || q.is_min_excluded)) || down < 0 ||
           (down == 0 && (q.is_max_excluded || p.is_min_excluded));
}

/* Lengths that a language can be made of. */
static bool is_short(lk_schema *s, const lk_schema_set *set) {
    const uint32_t max = lk_schema_count_max(s, set, "maxLength");
    return (max <= MAX_LENGTH || max == LK_GRAMMAR_NO_MAX) &&
           lk_schema_count_min(s, set, "minLength") <= MAX_LENGTH;
}

static bool strings_apart(lk_schema *s, const lk_schema_set *x, const lk_schema_set *y) {
    lk_language p;
    lk_language q;
    lk_language both = {0};
    bool is_any_p = true;
    bool is_any_q = true;
    bool is_apart = false;
    lk_error err = {0};
    if (!is_short(s, x) || !is_short(s, y)) {
        return false;
    }
    lk_schema_language(s, x, &p, &is_any_p);
    lk_schema_language(s, y, &q, &is_any_q);
    if (lk_schema_is_good(s) && !is_any_p && !is_any_q) {
        is_apart = lk_language_combine(&p, &q, LK_LANGUAGE_AND, s->a, &both, &err) == LK_OK &&
                   lk_language_is_empty(&both);
    }
    lk_language_free(&p, s->a);
    lk_language_free(&q, s->a);
    lk_language_free(&both, s->a);
    return is_apart;
}

/* A member that one of the sets requires: the other one forbids it, or wants other values. */
static bool member_apart(lk_schema *s, const lk_schema_set *x, const lk_schema_set *y,
                         const char *name, size_t n, int depth) {
    lk_schema_set p;
    lk_schema_set q;
    const bool in_x = lk_schema_property(s, x, name, n, &p);
    const bool in_y = lk_schema_property(s, y, name, n, &q);
    if (!in_x || !in_y) {
        return lk_schema_is_good(s);
    }
    lk_schema_flatten(s, &p);
    lk_schema_flatten(s, &q);
    return lk_schema_is_good(s) && is_disjoint(s, &p, &q, depth);
}

static bool members_apart(lk_schema *s, const lk_schema_set *x, const lk_schema_set *y, int depth) {
    const lk_schema_set *sets[2] = {x, y};
    for (int k = 0; k < 2; k++) {
        for (uint32_t i = 0; i < sets[k]->n; i++) {
            const uint32_t required = lk_schema_get(s, sets[k]->items[i], "required");
            for (uint32_t v = required != 0 ? s->json.values[required].first : 0;
                 v != 0 && lk_schema_is_good(s); v = s->json.values[v].next) {
                size_t n = 0;
                const char *name = lk_json_text(&s->json, v, &n);
                if (member_apart(s, x, y, name, n, depth)) {
                    return true;
                }
            }
        }
    }
    return false;
}

static bool elements_apart(lk_schema *s, const lk_schema_set *x, const lk_schema_set *y,
                           int depth) {
    const uint32_t min_x = lk_schema_count_min(s, x, "minItems");
    const uint32_t min_y = lk_schema_count_min(s, y, "minItems");
    if (min_x > lk_schema_count_max(s, y, "maxItems") ||
        min_y > lk_schema_count_max(s, x, "maxItems")) {
        return true;
    }
    if (min_x == 0 && min_y == 0) {
        return false;
    }
    lk_schema_set p;
    lk_schema_set q;
    lk_schema_element(s, x, 0, &p);
    lk_schema_element(s, y, 0, &q);
    lk_schema_flatten(s, &p);
    lk_schema_flatten(s, &q);
    return lk_schema_is_good(s) && is_disjoint(s, &p, &q, depth);
}

/* Each way to choose a branch of x is apart from y. */
static bool branches_apart(lk_schema *s, const lk_schema_set *x, const lk_schema_set *y,
                           uint32_t item, uint32_t branches, uint32_t done, int depth) {
    for (uint32_t v = s->json.values[branches].first; v != 0 && lk_schema_is_good(s);
         v = s->json.values[v].next) {
        const lk_schema_set one = lk_schema_take_branch(s, x, item, done, v);
        if (!lk_schema_is_good(s) || !is_disjoint(s, &one, y, depth)) {
            return false;
        }
    }
    return lk_schema_is_good(s);
}

static bool is_disjoint(lk_schema *s, const lk_schema_set *x, const lk_schema_set *y, int depth) {
    uint32_t item = 0;
    uint32_t branches = 0;
    uint32_t done = 0;
    bool is_fixed = false;
    if (lk_schema_is_false(s, x) || lk_schema_is_false(s, y)) {
        return true;
    }
    if (depth == 0 || ++s->work > MAX_WORK || !lk_schema_is_good(s)) {
        return false;
    }
    const uint32_t types = types_of(s, x) & types_of(s, y);
    if (types == 0) {
        return true;
    }
    if (lk_schema_find_branches(s, x, &item, &branches, &done)) {
        return branches_apart(s, x, y, item, branches, done, depth - 1);
    }
    if (lk_schema_find_branches(s, y, &item, &branches, &done)) {
        return branches_apart(s, y, x, item, branches, done, depth - 1);
    }
    bool is_apart = fixed_apart(s, x, y, &is_fixed);
    if (!is_fixed) {
        is_apart = fixed_apart(s, y, x, &is_fixed);
    }
    if (is_fixed) {
        return is_apart;
    }
    return (types & (LK_TYPE_NULL | LK_TYPE_BOOLEAN)) == 0 &&
           ((types & LK_TYPE_NUMBER) == 0 || numbers_apart(s, x, y)) &&
           ((types & LK_TYPE_STRING) == 0 || strings_apart(s, x, y)) &&
           ((types & LK_TYPE_OBJECT) == 0 || members_apart(s, x, y, depth - 1)) &&
           ((types & LK_TYPE_ARRAY) == 0 || elements_apart(s, x, y, depth - 1));
}

lk_truth lk_schema_disjoint(lk_schema *s, const lk_schema_set *x, const lk_schema_set *y) {
    return is_disjoint(s, x, y, MAX_CALLS) ? LK_YES : LK_UNKNOWN;
}
