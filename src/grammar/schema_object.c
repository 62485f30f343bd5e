/* schema_object.c - objects: the declared members in the order of their declaration, then others.
 */
#include <string.h>

#include "grammar/schema_internal.h"

enum { MAX_CELLS = 1 << 18, MAX_CLASSES = 32 };

typedef struct member {
    const char *name;
    size_t n_name;
    bool is_required;
} member;

/* An object in work. A cell (i, c) is the state before the declared member i, when c members have
 * been written; counts stop at `cap`. */
typedef struct object {
    lk_schema *s;
    const lk_schema_set *set;
    member *members;
    size_t n_members, capacity;
    uint32_t min, max; /* members */
    uint32_t cap;
    bool has_others;
    uint32_t other;    /* rule of one member that is not declared, with its value */
    lk_language names; /* propertyNames */
    bool is_any_name;
    const lk_call_notation *notation; /* NULL: JSON */
} object;

/* ---- what the schemas say of a name ---- */

bool lk_schema_requires(const lk_schema *s, const lk_schema_set *set, const char *name,
                        size_t n_name) {
    for (uint32_t i = 0; i < set->n; i++) {
        const uint32_t required = lk_schema_get(s, set->items[i], "required");
        for (uint32_t v = required != 0 ? s->json.values[required].first : 0; v != 0;
             v = s->json.values[v].next) {
            size_t n = 0;
            const char *own = lk_json_text(&s->json, v, &n);
            if (n == n_name && memcmp(own, name, n) == 0) {
                return true;
            }
        }
    }
    return false;
}

bool lk_schema_property(lk_schema *s, const lk_schema_set *set, const char *name, size_t n_name,
                        lk_schema_set *out) {
    out->n = 0;
    for (uint32_t i = 0; i < set->n && lk_schema_is_good(s); i++) {
        const uint32_t item = set->items[i];
        const uint32_t properties = lk_schema_get(s, item, "properties");
        const uint32_t patterns = lk_schema_get(s, item, "patternProperties");
        const uint32_t others = lk_schema_get(s, item, "additionalProperties");
        const uint32_t own =
            properties != 0 ? lk_json_find_bytes(&s->json, properties, name, n_name) : 0;
        bool is_known = own != 0;
        if (own != 0) {
            lk_schema_add(s, out, own);
        }
        for (uint32_t v = patterns != 0 ? s->json.values[patterns].first : 0; v != 0;
             v = s->json.values[v].next) {
            const lk_language *language = lk_schema_pattern(s, v);
            if (language != NULL && lk_language_accepts(language, name, n_name)) {
                lk_schema_add(s, out, v);
                is_known = true;
            }
        }
        if (!is_known && others != 0) {
            if (s->json.values[others].type == LK_JSON_FALSE) {
                return false;
            }
            lk_schema_add(s, out, others);
        }
    }
    return true;
}

/* ---- the declared members ---- */

static void add_member(object *o, const char *name, size_t n_name) {
    lk_schema *s = o->s;
    for (size_t i = 0; i < o->n_members; i++) {
        if (o->members[i].n_name == n_name && memcmp(o->members[i].name, name, n_name) == 0) {
            return;
        }
    }
    void *members = o->members;
    if (!lk_grow_array(s->a, &members, o->n_members, &o->capacity, o->n_members + 1,
                       sizeof o->members[0])) {
        (void)lk_schema_fail(s, LK_E_NOMEM, s->rule_at, NULL, "no memory for an object");
        return;
    }
    o->members = members;
    o->members[o->n_members++] =
        (member){name, n_name, lk_schema_requires(s, o->set, name, n_name)};
}

static void list_members(object *o) {
    const lk_json *j = &o->s->json;
    size_t n = 0;
    for (uint32_t i = 0; i < o->set->n && lk_schema_is_good(o->s); i++) {
        const uint32_t properties = lk_schema_get(o->s, o->set->items[i], "properties");
        for (uint32_t v = properties != 0 ? j->values[properties].first : 0;
             v != 0 && lk_schema_is_good(o->s); v = j->values[v].next) {
            const char *name = lk_json_key(j, v, &n);
            add_member(o, name, n);
        }
    }
    for (uint32_t i = 0; i < o->set->n && lk_schema_is_good(o->s); i++) {
        const uint32_t required = lk_schema_get(o->s, o->set->items[i], "required");
        for (uint32_t v = required != 0 ? j->values[required].first : 0;
             v != 0 && lk_schema_is_good(o->s); v = j->values[v].next) {
            const char *name = lk_json_text(j, v, &n);
            add_member(o, name, n);
        }
    }
}

/* ---- other members ---- */

/* Removes from the names in `language` those that are in another one. */
static void subtract(object *o, lk_language *language, const lk_language *other) {
    lk_schema *s = o->s;
    lk_error err = {0};
    lk_language rest = {0};
    const lk_status status =
        lk_language_combine(language, other, LK_LANGUAGE_AND_NOT, s->a, &rest, &err);
    lk_language_free(language, s->a);
    *language = rest;
    if (status != LK_OK) {
        (void)lk_schema_fail(s, status, s->rule_at, NULL, "%.200s", err.message);
    }
}

/* The names that `language` (NULL: propertyNames alone) and propertyNames allow and that are not
 * declared. The caller frees it. */
static lk_language other_names(object *o, const lk_language *language) {
    lk_schema *s = o->s;
    lk_error err = {0};
    lk_language own = {0};
    lk_language any = {0};
    lk_language declared = {0};
    lk_language_word *words = lk_alloc_array(s->a, o->n_members, sizeof words[0]);
    lk_status status =
        words != NULL ? lk_language_lengths(0, UINT32_MAX, s->a, &any, &err) : LK_E_NOMEM;
    const lk_language *x = language != NULL ? language : &any;
    const lk_language *y = o->is_any_name ? &any : &o->names;
    if (status == LK_OK) {
        for (size_t i = 0; i < o->n_members; i++) {
            words[i] = (lk_language_word){o->members[i].name, o->members[i].n_name};
        }
        status = lk_language_words(words, o->n_members, s->a, &declared, &err);
    }
    if (status == LK_OK) {
        status = lk_language_combine(x, y, LK_LANGUAGE_AND, s->a, &own, &err);
    }
    if (status != LK_OK) {
        (void)lk_schema_fail(s, status, s->rule_at, NULL, "%.200s", err.message);
    } else {
        subtract(o, &own, &declared);
    }
    lk_free_array(s->a, words, o->n_members, sizeof words[0]);
    lk_language_free(&any, s->a);
    lk_language_free(&declared, s->a);
    return own;
}

/* A name and its value; `names` is not needed afterwards. */
static uint32_t build_other(object *o, lk_language *names, lk_schema_set *values) {
    lk_schema *s = o->s;
    uint32_t start = LK_GRAMMAR_NOTHING;
    if (lk_schema_is_good(s) && o->notation != NULL) {
        start = lk_schema_plain_other(s, o->notation, names, values);
    } else if (lk_schema_is_good(s)) {
        const uint32_t rule = lk_schema_rule(s, values);
        const uint32_t value = lk_grammar_call(&s->b, rule, LK_GRAMMAR_END);
        const uint32_t colon = lk_grammar_byte(&s->b, ':', ':', lk_json_one_space(&s->b, value));
        start = lk_json_string_of(&s->b, names, true, colon);
    }
    lk_language_free(names, s->a);
    return start;
}

/* Patterns of all schemas in the set. */
static size_t list_patterns(object *o, uint32_t *patterns, uint32_t *owners) {
    lk_schema *s = o->s;
    size_t n = 0;
    for (uint32_t i = 0; i < o->set->n && lk_schema_is_good(s); i++) {
        const uint32_t list = lk_schema_get(s, o->set->items[i], "patternProperties");
        for (uint32_t v = list != 0 ? s->json.values[list].first : 0; v != 0;
             v = s->json.values[v].next) {
            if (n == MAX_CLASSES) {
                (void)lk_schema_fail(s, LK_E_LIMIT, list, NULL, "more than %d patterns of names",
                                     MAX_CLASSES);
                return n;
            }
            owners[n] = i;
            patterns[n++] = v;
        }
    }
    return n;
}

/* What holds for names that match pattern `v` of item `owner` alone (v 0: none at all); false when
 * they may not be there. */
static bool other_values(const object *o, uint32_t v, uint32_t owner, lk_schema_set *out) {
    lk_schema *s = o->s;
    out->n = 0;
    for (uint32_t i = 0; i < o->set->n; i++) {
        const uint32_t others = lk_schema_get(s, o->set->items[i], "additionalProperties");
        if (v != 0 && i == owner) {
            lk_schema_add(s, out, v);
        } else if (others != 0 && s->json.values[others].type == LK_JSON_FALSE) {
            return false;
        } else if (others != 0) {
            lk_schema_add(s, out, others);
        }
    }
    return true;
}

/* Whether names that match no pattern are wanted: where additionalProperties says so, or where
 * nothing at all is said of members. */
static bool wants_others(const object *o, size_t n_patterns) {
    for (uint32_t i = 0; i < o->set->n; i++) {
        if (lk_schema_get(o->s, o->set->items[i], "additionalProperties") != 0) {
            return true;
        }
    }
    return o->n_members == 0 && n_patterns == 0;
}

/* The names of a pattern, which no other pattern may match too. */
static lk_language pattern_names(object *o, const uint32_t *patterns, size_t n, size_t i) {
    lk_schema *s = o->s;
    const lk_language *own = lk_schema_pattern(s, patterns[i]);
    lk_language names = own != NULL ? other_names(o, own) : (lk_language){0};
    for (size_t k = 0; k < n && lk_schema_is_good(s); k++) {
        const lk_language *other = k != i ? lk_schema_pattern(s, patterns[k]) : NULL;
        lk_error err = {0};
        lk_language both = {0};
        if (other == NULL) {
            continue;
        }
        const lk_status status =
            lk_language_combine(&names, other, LK_LANGUAGE_AND, s->a, &both, &err);
        if (status != LK_OK) {
            (void)lk_schema_fail(s, status, patterns[i], NULL, "%.200s", err.message);
        } else if (!lk_language_is_empty(&both)) {
            (void)lk_schema_fail(s, LK_E_UNSUPPORTED, patterns[i], NULL,
                                 "'patternProperties' cannot be enforced where a name may match "
                                 "two patterns");
        }
        lk_language_free(&both, s->a);
    }
    return names;
}

static void compile_others(object *o) {
    lk_schema *s = o->s;
    uint32_t patterns[MAX_CLASSES];
    uint32_t owners[MAX_CLASSES];
    uint32_t starts[MAX_CLASSES + 1];
    size_t n_starts = 0;
    lk_schema_set values;
    const size_t n = list_patterns(o, patterns, owners);
    for (size_t i = 0; i < n && lk_schema_is_good(s); i++) {
        if (other_values(o, patterns[i], owners[i], &values)) {
            lk_language names = pattern_names(o, patterns, n, i);
            starts[n_starts++] = build_other(o, &names, &values);
        }
    }
    if (lk_schema_is_good(s) && wants_others(o, n) && other_values(o, 0, 0, &values)) {
        lk_language names = other_names(o, NULL);
        for (size_t i = 0; i < n && lk_schema_is_good(s); i++) {
            const lk_language *pattern = lk_schema_pattern(s, patterns[i]);
            if (pattern != NULL) {
                subtract(o, &names, pattern);
            }
        }
        starts[n_starts++] = build_other(o, &names, &values);
    }
    const uint32_t start = lk_grammar_split(&s->b, starts, n_starts);
    o->has_others = start != LK_GRAMMAR_NOTHING;
    o->other = lk_grammar_rule(&s->b);
    lk_grammar_set_rule(&s->b, o->other, start);
}

/* ---- the states ---- */

static uint32_t close_object(const object *o, uint32_t count) {
    if (o->notation != NULL) {
        return lk_schema_plain_end(o->s, o->notation);
    }
    const uint32_t brace = lk_grammar_byte(&o->s->b, '}', '}', LK_GRAMMAR_END);
    return count == 0 ? brace : lk_grammar_call(&o->s->b, o->s->space_rule, brace);
}

static uint32_t comma(const object *o, uint32_t next) {
    lk_schema *s = o->s;
    if (o->notation != NULL) {
        return lk_schema_plain_comma(s, o->notation, next);
    }
    return lk_grammar_byte(&s->b, ',', ',', lk_grammar_call(&s->b, s->space_rule, next));
}

/* After the declared members, `count` of which have been written. Other members may repeat a name,
 * so only one of them counts for minProperties. */
static uint32_t end_of_members(const object *o, uint32_t count) {
    lk_grammar_builder *b = &o->s->b;
    const uint32_t needed = o->min > count ? o->min - count : 0;
    const uint32_t room = o->max == LK_GRAMMAR_NO_MAX ? o->max : o->max - count;
    const uint32_t close = close_object(o, count);
    if (!o->has_others || room == 0) {
        return needed == 0 ? close : LK_GRAMMAR_NOTHING;
    }
    if (needed > 1) {
        return LK_GRAMMAR_NOTHING;
    }
    const uint32_t more = comma(o, lk_grammar_call(b, o->other, LK_GRAMMAR_END));
    if (count > 0) {
        return lk_grammar_repeat(b, more, needed, room, close);
    }
    const uint32_t rest = lk_grammar_repeat(b, more, 0, room == LK_GRAMMAR_NO_MAX ? room : room - 1,
                                            close_object(o, 1));
    const uint32_t first = lk_grammar_call(b, o->other, rest);
    return needed == 0 ? lk_grammar_either(b, close, first) : first;
}

static uint32_t json_member(const object *o, uint32_t rule, const lk_json_buffer *name,
                            uint32_t next) {
    lk_grammar_builder *b = &o->s->b;
    const uint32_t value = lk_json_one_space(b, lk_grammar_call(b, rule, next));
    return lk_grammar_bytes(b, name->bytes, name->n, lk_grammar_byte(b, ':', ':', value));
}

/* The cells of member i from those of the next one. */
static void fill_row(const object *o, size_t i, const uint32_t *next, uint32_t *row) {
    lk_schema *s = o->s;
    const member *m = &o->members[i];
    lk_schema_set values;
    lk_json_buffer name = {NULL, 0, 0};
    const bool is_named = o->is_any_name || lk_language_accepts(&o->names, m->name, m->n_name);
    const bool is_allowed = lk_schema_property(s, o->set, m->name, m->n_name, &values) && is_named;
    const uint32_t rule =
        is_allowed && o->notation == NULL && lk_schema_is_good(s) ? lk_schema_rule(s, &values) : 0;
    lk_json_write_string(&s->b, m->name, m->n_name, &name);
    for (uint32_t c = 0; c <= o->cap && lk_schema_is_good(s); c++) {
        uint32_t start = LK_GRAMMAR_NOTHING;
        const uint32_t after = c < o->cap ? c + 1 : c;
        if (is_allowed && c < o->max && next[after] != LK_GRAMMAR_NOTHING) {
            start = o->notation != NULL ? lk_schema_plain_member(s, o->notation, m->name, m->n_name,
                                                                 &values, next[after])
                                        : json_member(o, rule, &name, next[after]);
            start = c > 0 ? comma(o, start) : start;
        }
        if (!m->is_required) {
            start = start == LK_GRAMMAR_NOTHING     ? next[c]
                    : next[c] == LK_GRAMMAR_NOTHING ? start
                                                    : lk_grammar_either(&s->b, start, next[c]);
        }
        row[c] = start;
    }
    lk_json_free_buffer(&s->b, &name);
}

static uint32_t build_members(const object *o) {
    lk_schema *s = o->s;
    const size_t n = (size_t)o->cap + 1;
    uint32_t *next = lk_alloc_array(s->a, n, sizeof next[0]);
    uint32_t *row = lk_alloc_array(s->a, n, sizeof row[0]);
    uint32_t start = LK_GRAMMAR_NOTHING;
    if (next == NULL || row == NULL) {
        (void)lk_schema_fail(s, LK_E_NOMEM, s->rule_at, NULL, "no memory for an object");
    } else {
        for (uint32_t c = 0; c <= o->cap && lk_schema_is_good(s); c++) {
            next[c] = end_of_members(o, c);
        }
        for (size_t i = o->n_members; i-- > 0 && lk_schema_is_good(s);) {
            fill_row(o, i, next, row);
            memcpy(next, row, n * sizeof row[0]);
        }
        start =
            o->notation != NULL
                ? lk_schema_plain_begin(s, o->notation, next[0])
                : lk_grammar_byte(&s->b, '{', '{', lk_grammar_call(&s->b, s->space_rule, next[0]));
    }
    lk_free_array(s->a, next, n, sizeof next[0]);
    lk_free_array(s->a, row, n, sizeof row[0]);
    return start;
}

/* How far members must be counted. */
static void choose_counts(object *o) {
    lk_schema *s = o->s;
    const bool is_limited = o->max != LK_GRAMMAR_NO_MAX;
    if (o->has_others && o->min > o->n_members + 1) {
        (void)lk_schema_fail(s, LK_E_UNSUPPORTED, s->rule_at, "minProperties",
                             "'minProperties' cannot be enforced beyond the declared properties "
                             "and one more, since names may repeat");
    }
    if (is_limited && !o->has_others && o->max >= o->n_members) {
        o->max = LK_GRAMMAR_NO_MAX; /* it never binds */
    }
    o->cap = o->max != LK_GRAMMAR_NO_MAX ? o->max : o->min;
    o->cap = o->cap == 0 && o->max != 0 ? 1 : o->cap;
    if ((uint64_t)(o->cap + 1) * (o->n_members + 1) > MAX_CELLS) {
        (void)lk_schema_fail(s, LK_E_LIMIT, s->rule_at, NULL,
                             "minProperties or maxProperties with %zu properties is too much",
                             o->n_members);
    }
}

uint32_t lk_schema_object(lk_schema *s, const lk_schema_set *set) {
    object o = {.s = s, .set = set, .is_any_name = true, .notation = lk_schema_object_notation(s)};
    uint32_t start = LK_GRAMMAR_NOTHING;
    o.min = lk_schema_count_min(s, set, "minProperties");
    o.max = lk_schema_count_max(s, set, "maxProperties");
    list_members(&o);
    if (lk_schema_is_good(s)) {
        lk_schema_names(s, set, &o.names, &o.is_any_name);
    }
    if (lk_schema_is_good(s)) {
        compile_others(&o);
        choose_counts(&o);
    }
    if (lk_schema_is_good(s) && o.min <= o.max) {
        start = build_members(&o);
    }
    lk_language_free(&o.names, s->a);
    lk_free_array(s->a, o.members, o.capacity, sizeof o.members[0]);
    return start;
}
