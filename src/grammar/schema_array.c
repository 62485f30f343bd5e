/* schema_array.c - arrays: elements with a schema of their own, then any number of others. */
#include "grammar/schema_internal.h"

/* The schema of an item for the element at an index; 0: none. Arrays in `items` are those of older
 * drafts. */
static uint32_t element_of(const lk_schema *s, uint32_t item, uint32_t index) {
    const lk_json *j = &s->json;
    uint32_t items = lk_schema_get(s, item, "items");
    uint32_t list = lk_schema_get(s, item, "prefixItems");
    uint32_t others = items;
    if (items != 0 && j->values[items].type == LK_JSON_ARRAY) {
        list = items;
        others = lk_schema_get(s, item, "additionalItems");
    }
    uint32_t v = list != 0 ? j->values[list].first : 0;
    for (uint32_t i = 0; i < index && v != 0; i++) {
        v = j->values[v].next;
    }
    return v != 0 ? v : others;
}

static uint32_t count_fixed(const lk_schema *s, uint32_t item) {
    const lk_json *j = &s->json;
    const uint32_t items = lk_schema_get(s, item, "items");
    const uint32_t list = items != 0 && j->values[items].type == LK_JSON_ARRAY
                              ? items
                              : lk_schema_get(s, item, "prefixItems");
    return list != 0 ? j->values[list].n : 0;
}

void lk_schema_element(lk_schema *s, const lk_schema_set *set, uint32_t index, lk_schema_set *out) {
    out->n = 0;
    for (uint32_t i = 0; i < set->n; i++) {
        const uint32_t v = element_of(s, set->items[i], index);
        if (v != 0) {
            lk_schema_add(s, out, v);
        }
    }
}

static uint32_t element_rule(lk_schema *s, const lk_schema_set *set, uint32_t index) {
    lk_schema_set element;
    lk_schema_element(s, set, index, &element);
    return lk_schema_rule(s, &element);
}

static void check_unique(lk_schema *s, const lk_schema_set *set, uint32_t max) {
    for (uint32_t i = 0; i < set->n; i++) {
        const uint32_t v = lk_schema_get(s, set->items[i], "uniqueItems");
        if (v != 0 && s->json.values[v].type == LK_JSON_TRUE && max > 1) {
            (void)lk_schema_fail(s, LK_E_UNSUPPORTED, v, NULL,
                                 "'uniqueItems' cannot be enforced unless maxItems is at most 1");
        }
    }
}

/* Elements from the first that has no schema of its own, `index` of which stand before. */
static uint32_t build_rest(lk_schema *s, const lk_schema_set *set, uint32_t index, uint32_t min,
                           uint32_t max, uint32_t close) {
    lk_grammar_builder *b = &s->b;
    const uint32_t rule = element_rule(s, set, index);
    const uint32_t needed = min > index ? min - index : 0;
    const uint32_t room = max == LK_GRAMMAR_NO_MAX ? max : max > index ? max - index : 0;
    if (!lk_schema_is_good(s) || room == 0) {
        return close;
    }
    const uint32_t comma = lk_grammar_byte(
        b, ',', ',', lk_grammar_call(b, s->space_rule, lk_grammar_call(b, rule, LK_GRAMMAR_END)));
    if (index > 0) {
        return lk_grammar_repeat(b, comma, needed, room, close);
    }
    const uint32_t more = lk_grammar_repeat(b, comma, needed > 1 ? needed - 1 : 0,
                                            room == LK_GRAMMAR_NO_MAX ? room : room - 1,
                                            lk_grammar_call(b, s->space_rule, close));
    const uint32_t first = lk_grammar_call(b, rule, more);
    return needed == 0 ? lk_grammar_either(b, close, first) : first;
}

uint32_t lk_schema_array(lk_schema *s, const lk_schema_set *set) {
    lk_grammar_builder *b = &s->b;
    const uint32_t min = lk_schema_count_min(s, set, "minItems");
    const uint32_t max = lk_schema_count_max(s, set, "maxItems");
    uint32_t n_fixed = 0;
    for (uint32_t i = 0; i < set->n; i++) {
        const uint32_t own = count_fixed(s, set->items[i]);
        n_fixed = own > n_fixed ? own : n_fixed;
    }
    n_fixed = n_fixed < max ? n_fixed : max;
    check_unique(s, set, max);
    if (!lk_schema_is_good(s) || min > max) {
        return LK_GRAMMAR_NOTHING;
    }
    const uint32_t bracket = lk_grammar_byte(b, ']', ']', LK_GRAMMAR_END);
    const uint32_t close = lk_grammar_call(b, s->space_rule, bracket);
    uint32_t next = build_rest(s, set, n_fixed, min, max, n_fixed == 0 ? bracket : close);
    for (uint32_t i = n_fixed; i-- > 0 && lk_schema_is_good(s);) {
        uint32_t start = lk_grammar_call(b, element_rule(s, set, i), next);
        if (i > 0) {
            start = lk_grammar_byte(b, ',', ',', lk_grammar_call(b, s->space_rule, start));
        }
        next = i >= min ? lk_grammar_either(b, start, i == 0 ? bracket : close) : start;
    }
    return lk_grammar_byte(b, '[', '[', lk_grammar_call(b, s->space_rule, next));
}
