/* schema_keywords.c - the names and values of keywords: what is unknown, misplaced or no schema is
 * refused before anything relies on it. */
#include <string.h>

#include "grammar/schema_internal.h"

typedef enum value_kind {
    ANYTHING,
    FLAG,    /* true or false */
    TEXT,    /* a string */
    TEXTS,   /* an array of strings */
    NUMBER,  /* a number */
    COUNT,   /* a whole number from 0 on */
    VALUES,  /* an array */
    SCHEMA,  /* an object, true or false */
    SCHEMAS, /* an array of those, not empty */
    MAP,     /* an object of those */
    ITEMS,   /* a schema, or (drafts up to 2019-09) an array of schemas */
    TYPE     /* the name of a type or an array of them */
} value_kind;

typedef struct known_keyword {
    const char *name;
    value_kind kind;
    uint32_t types;
} known_keyword;

static const known_keyword keywords[] = {
#define LK_KEYWORD(name, kind, types) {name, kind, types},
#include "grammar/schema_keywords.def"
#undef LK_KEYWORD
};

static const known_keyword *find_keyword(const lk_schema *s, uint32_t member) {
    size_t n = 0;
    const char *name = lk_json_key(&s->json, member, &n);
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++) {
        if (strlen(keywords[i].name) == n && memcmp(keywords[i].name, name, n) == 0) {
            return &keywords[i];
        }
    }
    return NULL;
}

static bool is_schema(const lk_schema *s, uint32_t v) {
    const lk_json_type type = s->json.values[v].type;
    return type == LK_JSON_OBJECT || type == LK_JSON_TRUE || type == LK_JSON_FALSE;
}

/* The bits of the type that a string names, 0 for none. */
static uint32_t bits_of(const lk_schema *s, uint32_t v) {
    static const struct {
        const char *name;
        uint32_t bits;
    } types[] = {{"null", LK_TYPE_NULL},       {"boolean", LK_TYPE_BOOLEAN},
                 {"integer", LK_TYPE_INTEGER}, {"number", LK_TYPE_NUMBER},
                 {"string", LK_TYPE_STRING},   {"array", LK_TYPE_ARRAY},
                 {"object", LK_TYPE_OBJECT}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (s->json.values[v].type == LK_JSON_STRING &&
            lk_json_text_is(&s->json, v, types[i].name)) {
            return types[i].bits;
        }
    }
    return 0;
}

uint32_t lk_schema_type_bits(const lk_schema *s, uint32_t type) {
    uint32_t bits = bits_of(s, type);
    for (uint32_t i = s->json.values[type].first; i != 0; i = s->json.values[i].next) {
        bits |= bits_of(s, i);
    }
    return bits;
}

/* Every element or member passes `test`. */
static bool each(const lk_schema *s, uint32_t v, bool (*test)(const lk_schema *, uint32_t)) {
    for (uint32_t i = s->json.values[v].first; i != 0; i = s->json.values[i].next) {
        if (!test(s, i)) {
            return false;
        }
    }
    return true;
}

static bool is_text(const lk_schema *s, uint32_t v) {
    return s->json.values[v].type == LK_JSON_STRING;
}

static bool is_type(const lk_schema *s, uint32_t v) {
    return bits_of(s, v) != 0;
}

static bool is_count(const lk_schema *s, uint32_t v) {
    lk_decimal x;
    size_t n = 0;
    if (s->json.values[v].type != LK_JSON_NUMBER) {
        return false;
    }
    const char *text = lk_json_text(&s->json, v, &n);
    return lk_decimal_read(text, n, &x) && !x.is_negative && x.n_part == 0;
}

static bool is_good(const lk_schema *s, uint32_t v, value_kind kind, const char **wanted) {
    const lk_json_value *value = &s->json.values[v];
    const bool is_array = value->type == LK_JSON_ARRAY;
    switch (kind) {
    case ANYTHING:
        return true;
    case FLAG:
        *wanted = "true or false";
        return value->type == LK_JSON_TRUE || value->type == LK_JSON_FALSE;
    case TEXT:
        *wanted = "a string";
        return is_text(s, v);
    case TEXTS:
        *wanted = "an array of strings";
        return is_array && each(s, v, is_text);
    case NUMBER:
        *wanted = "a number";
        return value->type == LK_JSON_NUMBER;
    case COUNT:
        *wanted = "a whole number from 0 on";
        return is_count(s, v);
    case VALUES:
        *wanted = "an array of values";
        return is_array;
    case SCHEMA:
        *wanted = "a schema";
        return is_schema(s, v);
    case SCHEMAS:
        *wanted = "an array of schemas, not empty";
        return is_array && value->n != 0 && each(s, v, is_schema);
    case MAP:
        *wanted = "an object of schemas";
        return value->type == LK_JSON_OBJECT && each(s, v, is_schema);
    case ITEMS:
        *wanted = "a schema or an array of schemas";
        return is_schema(s, v) || (is_array && each(s, v, is_schema));
    case TYPE:
        *wanted = "one or more of null, boolean, integer, number, string, array, object";
        return is_type(s, v) || (is_array && value->n != 0 && each(s, v, is_type));
    }
    return false;
}

void lk_schema_check(lk_schema *s, uint32_t value) {
    const lk_json *j = &s->json;
    for (uint32_t m = j->values[value].first; m != 0 && lk_schema_is_good(s);
         m = j->values[m].next) {
        size_t n = 0;
        const char *name = lk_json_key(j, m, &n);
        const known_keyword *k = find_keyword(s, m);
        const char *wanted = "";
        if (k == NULL) {
            if (n < 2 || memcmp(name, "x-", 2) != 0) {
                (void)lk_schema_fail(s, LK_E_UNSUPPORTED, m, NULL,
                                     "the keyword '%.60s' cannot be enforced", name);
            }
        } else if (!is_good(s, m, k->kind, &wanted)) {
            (void)lk_schema_fail(s, LK_E_FORMAT, m, NULL, "'%s' must be %s", k->name, wanted);
        }
    }
}

/* ---- what several parts ask ---- */

/* Types that the keywords of an item speak of. */
static uint32_t spoken_of(const lk_schema *s, uint32_t item) {
    uint32_t bits = 0;
    for (uint32_t m = s->json.values[lk_schema_value(item)].first; m != 0;
         m = s->json.values[m].next) {
        const known_keyword *k = find_keyword(s, m);
        bits |= k != NULL ? k->types : 0;
    }
    return bits;
}

uint32_t lk_schema_types(const lk_schema *s, const lk_schema_set *set) {
    uint32_t types = LK_TYPE_ALL;
    uint32_t spoken = 0;
    bool is_typed = false;
    for (uint32_t i = 0; i < set->n; i++) {
        if (s->json.values[lk_schema_value(set->items[i])].type != LK_JSON_OBJECT) {
            continue;
        }
        const uint32_t type = lk_schema_get(s, set->items[i], "type");
        if (type != 0) {
            types &= lk_schema_type_bits(s, type);
            is_typed = true;
        }
        spoken |= spoken_of(s, set->items[i]);
    }
    /* Without a type, keywords of some types mean that such values are wanted. */
    return !is_typed && spoken != 0 ? spoken : types;
}

uint32_t lk_schema_count(lk_schema *s, uint32_t item, const char *keyword, uint32_t fallback) {
    const uint32_t v = lk_schema_get(s, item, keyword);
    lk_decimal x;
    size_t n = 0;
    if (v == 0) {
        return fallback;
    }
    const char *text = lk_json_text(&s->json, v, &n);
    uint64_t count = 0;
    (void)lk_decimal_read(text, n, &x); /* it is one: lk_schema_check */
    for (size_t i = 0; i < x.n_whole; i++) {
        count = count * 10 + x.whole[i];
        if (count > LK_SCHEMA_MAX_COUNT) {
            (void)lk_schema_fail(s, LK_E_LIMIT, v, NULL, "'%s' is more than %d", keyword,
                                 LK_SCHEMA_MAX_COUNT);
            return fallback;
        }
    }
    return (uint32_t)count;
}

uint32_t lk_schema_count_min(lk_schema *s, const lk_schema_set *set, const char *keyword) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < set->n; i++) {
        const uint32_t own = lk_schema_count(s, set->items[i], keyword, 0);
        count = own > count ? own : count;
    }
    return count;
}

uint32_t lk_schema_count_max(lk_schema *s, const lk_schema_set *set, const char *keyword) {
    uint32_t count = LK_GRAMMAR_NO_MAX;
    for (uint32_t i = 0; i < set->n; i++) {
        const uint32_t own = lk_schema_count(s, set->items[i], keyword, LK_GRAMMAR_NO_MAX);
        count = own < count ? own : count;
    }
    return count;
}
