/* schema_string.c - strings: lengths, patterns, formats, and words that are excluded. */
#include <string.h>

#include "grammar/pattern.h"
#include "grammar/schema_internal.h"

static const struct {
    const char *name, *pattern;
} formats[] = {
#define LK_FORMAT(name, pattern) {name, pattern},
#include "grammar/schema_formats.def"
#undef LK_FORMAT
};

/* Of numbers; a string is not concerned. */
static const char *const number_formats[] = {"int32",  "int64", "uint32",
                                             "uint64", "float", "double"};

static const char *pattern_of_format(lk_schema *s, uint32_t format) {
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (lk_json_text_is(&s->json, format, formats[i].name)) {
            return formats[i].pattern;
        }
    }
    for (size_t i = 0; i < sizeof number_formats / sizeof number_formats[0]; i++) {
        if (lk_json_text_is(&s->json, format, number_formats[i])) {
            return NULL;
        }
    }
    size_t n = 0;
    (void)lk_schema_fail(s, LK_E_UNSUPPORTED, format, NULL, "the format '%.40s' cannot be enforced",
                         lk_json_text(&s->json, format, &n));
    return NULL;
}

/* Takes a failure of the languages over, at a keyword. */
static void keep_failure(lk_schema *s, lk_status status, const lk_error *err, uint32_t value) {
    (void)lk_schema_fail(s, status, value, NULL, "%.200s", err->message);
}

/* Replaces `all` (or takes the first one) by what it has in common with another language, which is
 * freed. */
static void combine(lk_schema *s, lk_language *all, bool *is_any, lk_language *other,
                    lk_language_operator op, uint32_t value) {
    lk_error err = {0};
    lk_language both = {0};
    if (*is_any && op == LK_LANGUAGE_AND) {
        *all = *other;
        *is_any = false;
        return;
    }
    const lk_status status = lk_language_combine(all, other, op, s->a, &both, &err);
    lk_language_free(all, s->a);
    lk_language_free(other, s->a);
    *all = both;
    if (status != LK_OK) {
        keep_failure(s, status, &err, value);
    }
}

static void take_pattern(lk_schema *s, lk_language *all, bool *is_any, const char *pattern,
                         size_t n, uint32_t value) {
    lk_error err = {0};
    lk_language own = {0};
    const lk_status status = lk_pattern_compile(pattern, n, s->a, &own, &err);
    if (status != LK_OK) {
        keep_failure(s, status, &err, value);
        return;
    }
    combine(s, all, is_any, &own, LK_LANGUAGE_AND, value);
}

static void take_lengths(lk_schema *s, const lk_schema_set *set, lk_language *all, bool *is_any) {
    lk_error err = {0};
    lk_language own = {0};
    const uint32_t min = lk_schema_count_min(s, set, "minLength");
    const uint32_t max = lk_schema_count_max(s, set, "maxLength");
    if (!lk_schema_is_good(s) || (min == 0 && max == LK_GRAMMAR_NO_MAX)) {
        return;
    }
    const lk_status status = lk_language_lengths(min, max, s->a, &own, &err);
    if (status != LK_OK) {
        keep_failure(s, status, &err, s->rule_at);
        return;
    }
    combine(s, all, is_any, &own, LK_LANGUAGE_AND, s->rule_at);
}

static lk_language_word word_of(const lk_schema *s, uint32_t v) {
    size_t n = 0;
    const char *text = lk_json_text(&s->json, v, &n);
    return (lk_language_word){text, n};
}

/* The strings that a `not` names (schema_types.c has looked at it). */
static void take_not(lk_schema *s, uint32_t not, lk_language *all, bool *is_any) {
    const lk_json *j = &s->json;
    const uint32_t list = lk_json_find(j, not, "enum");
    const uint32_t one = lk_json_find(j, not, "const");
    lk_error err = {0};
    lk_language words = {0};
    if (list == 0 && one == 0) {
        return;
    }
    if (*is_any) {
        take_pattern(s, all, is_any, "", 0, not );
    }
    const size_t n = list != 0 ? j->values[list].n : 1;
    lk_language_word *own = lk_alloc_array(s->a, n, sizeof own[0]);
    lk_status status = LK_E_NOMEM;
    if (own != NULL) {
        size_t i = 0;
        if (one != 0) {
            own[i++] = word_of(s, one);
        }
        for (uint32_t v = list != 0 ? j->values[list].first : 0; v != 0 && one == 0;
             v = j->values[v].next) {
            own[i++] = word_of(s, v);
        }
        status = lk_language_words(own, i, s->a, &words, &err);
    }
    lk_free_array(s->a, own, n, sizeof own[0]);
    if (status != LK_OK) {
        keep_failure(s, status, &err, not );
    } else if (lk_schema_is_good(s)) {
        combine(s, all, is_any, &words, LK_LANGUAGE_AND_NOT, not );
    }
}

/* All but the lengths. */
static void take_all(lk_schema *s, const lk_schema_set *set, lk_language *out, bool *is_any) {
    *out = (lk_language){0};
    *is_any = true;
    for (uint32_t i = 0; i < set->n && lk_schema_is_good(s); i++) {
        const uint32_t item = set->items[i];
        const uint32_t pattern = lk_schema_get(s, item, "pattern");
        const uint32_t format = lk_schema_get(s, item, "format");
        const uint32_t not = lk_schema_get(s, item, "not");
        size_t n = 0;
        if (pattern != 0) {
            const char *text = lk_json_text(&s->json, pattern, &n);
            take_pattern(s, out, is_any, text, n, pattern);
        }
        const char *of_format = format != 0 ? pattern_of_format(s, format) : NULL;
        if (of_format != NULL && lk_schema_is_good(s)) {
            take_pattern(s, out, is_any, of_format, strlen(of_format), format);
        }
        if (not != 0 && lk_schema_is_good(s)) {
            take_not(s, not, out, is_any);
        }
    }
}

void lk_schema_language(lk_schema *s, const lk_schema_set *set, lk_language *out, bool *is_any) {
    take_all(s, set, out, is_any);
    if (lk_schema_is_good(s)) {
        take_lengths(s, set, out, is_any);
    }
}

uint32_t lk_schema_string(lk_schema *s, const lk_schema_set *set) {
    lk_language language;
    bool is_any = true;
    uint32_t start = LK_GRAMMAR_NOTHING;
    take_all(s, set, &language, &is_any);
    if (!is_any && lk_schema_is_good(s)) {
        take_lengths(s, set, &language, &is_any);
        start = lk_json_string_of(&s->b, &language, false, LK_GRAMMAR_END);
    } else if (lk_schema_is_good(s)) {
        const uint32_t min = lk_schema_count_min(s, set, "minLength");
        const uint32_t max = lk_schema_count_max(s, set, "maxLength");
        if (min == 0 && max == LK_GRAMMAR_NO_MAX) {
            start = lk_grammar_call(&s->b, s->string_rule, LK_GRAMMAR_END);
        } else if (min <= max) {
            start = lk_json_string(&s->b, min, max, LK_GRAMMAR_END);
        }
    }
    lk_language_free(&language, s->a);
    return start;
}

/* ---- names of properties ---- */

const lk_language *lk_schema_pattern(lk_schema *s, uint32_t member) {
    enum { N = sizeof s->patterns / sizeof s->patterns[0] };
    for (uint32_t i = 0; i < N; i++) {
        if (s->pattern_values[i] == member) {
            return &s->patterns[i];
        }
    }
    const uint32_t i = s->n_patterns++ % N;
    size_t n = 0;
    bool is_any = true;
    const char *text = lk_json_key(&s->json, member, &n);
    lk_language_free(&s->patterns[i], s->a);
    s->pattern_values[i] = 0;
    take_pattern(s, &s->patterns[i], &is_any, text, n, member);
    if (!lk_schema_is_good(s)) {
        return NULL;
    }
    s->pattern_values[i] = member;
    return &s->patterns[i];
}

/* A set of fixed values as a language: the strings among them. */
static void take_values(lk_schema *s, const uint32_t *values, size_t n, lk_language *out) {
    lk_language_word *words = lk_alloc_array(s->a, n, sizeof words[0]);
    lk_error err = {0};
    size_t n_words = 0;
    lk_status status = LK_E_NOMEM;
    if (words != NULL) {
        for (size_t i = 0; i < n; i++) {
            if (s->json.values[values[i]].type == LK_JSON_STRING) {
                words[n_words++] = word_of(s, values[i]);
            }
        }
        status = lk_language_words(words, n_words, s->a, out, &err);
    }
    lk_free_array(s->a, words, n, sizeof words[0]);
    if (status != LK_OK) {
        keep_failure(s, status, &err, s->rule_at);
    }
}

void lk_schema_names(lk_schema *s, const lk_schema_set *set, lk_language *out, bool *is_any) {
    lk_schema_set names = {.n = 0};
    uint32_t *values = NULL;
    size_t n = 0;
    size_t capacity = 0;
    uint32_t item = 0;
    uint32_t branches = 0;
    uint32_t done = 0;
    uint32_t at = 0;
    *out = (lk_language){0};
    *is_any = true;
    for (uint32_t i = 0; i < set->n; i++) {
        const uint32_t v = lk_schema_get(s, set->items[i], "propertyNames");
        if (v != 0) {
            lk_schema_add(s, &names, v);
            at = v;
        }
    }
    lk_schema_flatten(s, &names);
    if (!lk_schema_is_good(s) || names.n == 0) {
        return;
    }
    if (lk_schema_find_branches(s, &names, &item, &branches, &done)) {
        (void)lk_schema_fail(s, LK_E_UNSUPPORTED, at, NULL,
                             "'propertyNames' with anyOf or oneOf cannot be enforced");
        return;
    }
    if (lk_schema_is_false(s, &names)) {
        *is_any = false; /* the empty language */
    } else if (lk_schema_values(s, &names, &values, &n, &capacity)) {
        *is_any = false;
        take_values(s, values, n, out);
        lk_free_array(s->a, values, capacity, sizeof values[0]);
    } else {
        lk_schema_language(s, &names, out, is_any);
    }
}
