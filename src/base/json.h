/* json.h - reads a JSON text (RFC 8259) into a table of values.
 *
 * Strict: no comments, no trailing commas, no byte-order mark, well-formed UTF-8, escaped
 * surrogates only in pairs, and no object with two members of one name. Numbers are kept as they
 * are written. Time and memory are proportional to the text (n log n for the members of an object);
 * depth and size are limited by the caller. Nothing recurses. */
#ifndef LK_BASE_JSON_H
#define LK_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lk/base.h"

typedef enum lk_json_type {
    LK_JSON_NULL,
    LK_JSON_FALSE,
    LK_JSON_TRUE,
    LK_JSON_NUMBER,
    LK_JSON_STRING,
    LK_JSON_ARRAY,
    LK_JSON_OBJECT
} lk_json_type;

/* A value is known by its index in the table; the root is 0, so 0 as a child or neighbour means
 * "none". */
typedef struct lk_json_value {
    lk_json_type type;
    uint32_t n;     /* elements or members */
    uint32_t first; /* the first of them; 0: none */
    uint32_t next;  /* the neighbour in the same array or object; 0: the last one */
    uint32_t parent;
    uint32_t offset; /* where it begins in the text */
    uint32_t text;   /* string: decoded; number: as written; bytes of lk_json.text */
    uint32_t n_text;
    uint32_t key; /* name as a member of an object */
    uint32_t n_key;
} lk_json_value;

typedef struct lk_json {
    const lk_allocator *allocator;
    lk_json_value *values;
    size_t n_values;
    size_t capacity;
    char *text; /* decoded strings and numbers, each followed by a zero byte */
    size_t n_text;
    size_t text_capacity;
} lk_json;

typedef struct lk_json_limits {
    size_t n_bytes; /* at most LK_JSON_MAX_BYTES */
    size_t depth;   /* nested arrays and objects; at most LK_JSON_MAX_DEPTH */
} lk_json_limits;
#define LK_JSON_MAX_BYTES ((size_t)64 << 20)
#define LK_JSON_MAX_DEPTH ((size_t)1000)

/* Reads n_bytes of text. On success lk_json_deinit gives the memory back; on failure *json is
 * empty. LK_E_FORMAT with the byte offset, LK_E_LIMIT (size, depth), LK_E_NOMEM. */
lk_status lk_json_parse(const char *text, size_t n_bytes, lk_json_limits limits,
                        const lk_allocator *allocator, lk_json *json, lk_error *err);
void lk_json_deinit(lk_json *json);

/* The member of an object with this name; 0 when there is none or the value is no object. */
uint32_t lk_json_find(const lk_json *json, uint32_t object, const char *name);
uint32_t lk_json_find_bytes(const lk_json *json, uint32_t object, const char *name, size_t n_name);

/* The text of a string or number, and the name of a member; zero-terminated, though a string may
 * hold zero bytes itself. */
static inline const char *lk_json_text(const lk_json *json, uint32_t value, size_t *n_bytes) {
    *n_bytes = json->values[value].n_text;
    return json->text + json->values[value].text;
}
static inline const char *lk_json_key(const lk_json *json, uint32_t value, size_t *n_bytes) {
    *n_bytes = json->values[value].n_key;
    return json->text + json->values[value].key;
}
bool lk_json_text_is(const lk_json *json, uint32_t value, const char *text);

/* A number written without fraction and exponent that fits. False for everything else. */
bool lk_json_int64(const lk_json *json, uint32_t value, int64_t *out);

/* "string", "array", ... */
const char *lk_json_type_name(lk_json_type type);

#endif
