/* schema_internal.h - the parts of the schema compiler.
 *
 * What a value must satisfy at one place is a set of schemas: those that stand there, and those
 * that $ref, allOf and a chosen branch of anyOf or oneOf bring in. Each set becomes one rule; equal
 * sets share it, so that recursion through $ref comes to an end. Sets are worked off from a list,
 * nothing recurses. */
#ifndef LK_GRAMMAR_SCHEMA_INTERNAL_H
#define LK_GRAMMAR_SCHEMA_INTERNAL_H

#include "grammar/decimal.h"
#include "grammar/json_text.h"
#include "text/calls/call_syntax.h"
#include "text/strings.h"

enum {
    LK_SCHEMA_MAX_SET = 64,    /* schemas that hold at one place */
    LK_SCHEMA_MAX_DEPTH = 128, /* of the schema as JSON, and of values that are looked at */
    LK_SCHEMA_MAX_COUNT = LK_GRAMMAR_MAX_REPEAT
};

/* A schema in a set: its value in the table, and which of its keywords are done with, since what
 * they bring in is in the set. */
enum { LK_DONE_REF = 1, LK_DONE_ALL = 2, LK_DONE_ANY = 4, LK_DONE_ONE = 8 };
typedef struct lk_schema_set {
    uint32_t items[LK_SCHEMA_MAX_SET]; /* value * 16 + what is done */
    uint32_t n;
} lk_schema_set;
static inline uint32_t lk_schema_value(uint32_t item) {
    return item / 16;
}

/* Types of values, as bits. A number that is no integer has only the second of its two. */
enum {
    LK_TYPE_NULL = 1,
    LK_TYPE_BOOLEAN = 2,
    LK_TYPE_INTEGER = 4,
    LK_TYPE_FRACTION = 8,
    LK_TYPE_STRING = 16,
    LK_TYPE_ARRAY = 32,
    LK_TYPE_OBJECT = 64,
    LK_TYPE_NUMBER = LK_TYPE_INTEGER | LK_TYPE_FRACTION,
    LK_TYPE_ALL = 127
};

typedef struct lk_schema {
    lk_grammar_builder b;
    const lk_allocator *a;
    lk_json json;
    lk_strings sets;     /* the items of each set as bytes */
    uint32_t *set_rules; /* [sets.capacity] */
    uint32_t string_rule, number_rule, integer_rule, space_rule;
    lk_language patterns[8]; /* of patternProperties, compiled lately */
    uint32_t pattern_values[8];
    uint32_t n_patterns;
    uint32_t work;    /* comparisons of schemas so far */
    uint32_t rule_at; /* a value of the schema that the rule in work comes from, for messages */
    const lk_call_notation *notation; /* NULL: JSON */
    uint32_t form;                    /* of the rule in work */
} lk_schema;

/* How the values of a rule are written: in JSON (or BARE, throughout); as the arguments of a call;
 * as the value of an argument in TAGS, of some of the types. The form is kept behind the items of a
 * set, none of which is as large. */
enum { LK_FORM_JSON = 0 };
#define LK_FORM_VALUE 0xFFFFFF00u /* and LK_TYPE_* */
#define LK_FORM_ARGUMENTS 0xFFFFFF80u
static inline bool lk_schema_is_value(const lk_schema *s) {
    return s->form >= LK_FORM_VALUE && s->form != LK_FORM_ARGUMENTS;
}
/* The notation of the objects of the rule in work; NULL: that of JSON. */
static inline const lk_call_notation *lk_schema_object_notation(const lk_schema *s) {
    const bool is_bare = s->notation != NULL && s->notation->kind == LK_NOTATION_BARE;
    return s->form == LK_FORM_ARGUMENTS || is_bare ? s->notation : NULL;
}

/* ---- schema.c ---- */

/* Keeps a failure at a keyword (NULL: at the value itself) of a value. The subject is its JSON
 * pointer, which also begins the message. Returns the status. */
lk_status lk_schema_fail(lk_schema *s, lk_status status, uint32_t value, const char *keyword,
                         const char *format, ...) LK_PRINTF(5, 6);
static inline bool lk_schema_is_good(const lk_schema *s) {
    return s->b.status == LK_OK;
}
/* The rule of a set; it is compiled later. */
uint32_t lk_schema_rule(lk_schema *s, lk_schema_set *set);
uint32_t lk_schema_rule_in(lk_schema *s, lk_schema_set *set, uint32_t form);
/* Adds a schema (not yet looked at) to a set. */
void lk_schema_add(lk_schema *s, lk_schema_set *set, uint32_t value);
/* Adds what $ref and allOf bring in, and sorts. */
void lk_schema_flatten(lk_schema *s, lk_schema_set *set);
/* The first item with an anyOf or oneOf that is not done; false when there is none. */
bool lk_schema_find_branches(const lk_schema *s, const lk_schema_set *set, uint32_t *item,
                             uint32_t *branches, uint32_t *done);
/* `set` with one branch of what lk_schema_find_branches found. */
lk_schema_set lk_schema_take_branch(lk_schema *s, const lk_schema_set *set, uint32_t item,
                                    uint32_t done, uint32_t branch);
/* The value of a keyword of an item, 0 when it has none. */
uint32_t lk_schema_get(const lk_schema *s, uint32_t item, const char *keyword);
bool lk_schema_is_false(const lk_schema *s, const lk_schema_set *set);
/* What $ref points to; 0 after a failure, which is kept. */
uint32_t lk_schema_resolve(lk_schema *s, uint32_t ref);

/* ---- schema_keywords.c ---- */

/* Looks at the names and values of all keywords of one schema. */
void lk_schema_check(lk_schema *s, uint32_t value);
uint32_t lk_schema_type_bits(const lk_schema *s, uint32_t type);
/* A count such as minLength, at most LK_SCHEMA_MAX_COUNT; `fallback` when the item has none. */
uint32_t lk_schema_count(lk_schema *s, uint32_t item, const char *keyword, uint32_t fallback);
/* The largest of a lower count, or the smallest of an upper one, over a set. */
uint32_t lk_schema_count_min(lk_schema *s, const lk_schema_set *set, const char *keyword);
uint32_t lk_schema_count_max(lk_schema *s, const lk_schema_set *set, const char *keyword);

/* ---- values of one type, in front of LK_GRAMMAR_END; sets without anything left to do ---- */

uint32_t lk_schema_types(const lk_schema *s, const lk_schema_set *set);
uint32_t lk_schema_base(lk_schema *s, const lk_schema_set *set);
uint32_t lk_schema_string(lk_schema *s, const lk_schema_set *set);
uint32_t lk_schema_number(lk_schema *s, const lk_schema_set *set, bool is_whole);
uint32_t lk_schema_object(lk_schema *s, const lk_schema_set *set);
uint32_t lk_schema_array(lk_schema *s, const lk_schema_set *set);

/* The strings of a set as a language (*is_any: all strings). The caller frees it. */
void lk_schema_language(lk_schema *s, const lk_schema_set *set, lk_language *out, bool *is_any);
lk_decimal_range lk_schema_range(lk_schema *s, const lk_schema_set *set, bool is_whole);
/* The names that a set allows beside the declared ones (propertyNames) as a language; *is_any: all.
 * The caller frees it. */
void lk_schema_names(lk_schema *s, const lk_schema_set *set, lk_language *out, bool *is_any);
/* The language of a name in patternProperties, borrowed until the next call; NULL after a failure.
 */
const lk_language *lk_schema_pattern(lk_schema *s, uint32_t member);
/* What holds for a property, given by its name; false when it may not be there. */
bool lk_schema_property(lk_schema *s, const lk_schema_set *set, const char *name, size_t n_name,
                        lk_schema_set *out);
bool lk_schema_requires(const lk_schema *s, const lk_schema_set *set, const char *name,
                        size_t n_name);

/* What holds for the element of an array at an index. */
void lk_schema_element(lk_schema *s, const lk_schema_set *set, uint32_t index, lk_schema_set *out);

/* ---- schema_notation.c: what a notation has instead of the texts of JSON ---- */

/* A string of a set, fixed values, and a member of an object (NULL values: it may not be there);
 * see there. */
uint32_t lk_schema_plain_string(lk_schema *s, const lk_schema_set *set, bool is_alone);
bool lk_schema_plain_values(lk_schema *s, const uint32_t *values, size_t n, uint32_t *start);
uint32_t lk_schema_plain_member(lk_schema *s, const lk_call_notation *notation, const char *name,
                                size_t n_name, lk_schema_set *values, uint32_t next);
uint32_t lk_schema_plain_other(lk_schema *s, const lk_call_notation *notation,
                               const lk_language *names, lk_schema_set *values);
uint32_t lk_schema_plain_begin(lk_schema *s, const lk_call_notation *notation, uint32_t next);
uint32_t lk_schema_plain_comma(lk_schema *s, const lk_call_notation *notation, uint32_t next);
uint32_t lk_schema_plain_end(lk_schema *s, const lk_call_notation *notation);

/* ---- schema_value.c ---- */

typedef enum lk_truth { LK_NO, LK_YES, LK_UNKNOWN } lk_truth;
/* Whether a value of the table satisfies an item of a set, leaving out what is done with. */
lk_truth lk_schema_holds(lk_schema *s, uint32_t value, uint32_t item);
bool lk_schema_equal(const lk_schema *s, uint32_t x, uint32_t y);
/* The values that enum and const leave, if one of them is there (then true). *n of them are written
 * to a list that the caller frees with lk_free_array(s->a, values, *capacity, ...). */
bool lk_schema_values(lk_schema *s, const lk_schema_set *set, uint32_t **values, size_t *n,
                      size_t *capacity);

/* ---- schema_disjoint.c ---- */

/* LK_YES: no value satisfies both sets. */
lk_truth lk_schema_disjoint(lk_schema *s, const lk_schema_set *x, const lk_schema_set *y);

#endif
