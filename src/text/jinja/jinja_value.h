/* jinja_value.h - the values that a template computes with: Python's, as far as templates see them.
 *
 * Values are small and copied; what they point to lives in the heap of the rendering, or in the
 * program (constants, never changed). Strings are immutable, well-formed UTF-8. Every byte of a
 * string has an origin: the template (its literals, the special tokens) or the data (messages,
 * tools, variables). The tokenizer reads special tokens only where the template wrote them.
 *
 * Functions that can fail return false or NULL, and heap->failure says why.
 */
#ifndef LK_TEXT_JINJA_VALUE_H
#define LK_TEXT_JINJA_VALUE_H

#include "text/jinja/jinja_heap.h"

typedef enum lk_jtype {
    LK_J_UNSET, /* an argument that was not given */
    LK_J_UNDEFINED,
    LK_J_NONE,
    LK_J_BOOL,
    LK_J_INT,
    LK_J_BIG, /* an integer beyond 64 bits: its digits, which can only be printed */
    LK_J_FLOAT,
    LK_J_STRING,
    LK_J_LIST,
    LK_J_TUPLE,
    LK_J_ITERATOR, /* what map() or select() gave: a list without length and index */
    LK_J_DICT,
    LK_J_NAMESPACE,
    LK_J_LOOP,
    LK_J_MACRO,
    LK_J_FUNCTION, /* a built-in one */
    LK_J_METHOD,   /* of a string, list, dict or helper object, with the object */
    LK_J_CYCLER,
    LK_J_JOINER
} lk_jtype;

enum { LK_J_TEMPLATE = 0, LK_J_DATA = 1 };

/* Bytes that grow at the end. Strings may be the beginning of one. */
typedef struct lk_jbytes {
    uint8_t *bytes;
    uint8_t *origins; /* NULL: none differs from the first */
    size_t n;
    size_t capacity;
} lk_jbytes;

typedef struct lk_jstring {
    const uint8_t *bytes;
    const uint8_t *origins; /* of each byte; NULL: all are `origin` */
    size_t n;
    size_t n_chars;
    lk_jbytes *grow; /* the bytes end in this, and may be lengthened there; NULL: no */
    uint8_t origin;
    bool is_markup; /* marked by `safe` or `escape` */
} lk_jstring;

typedef struct lk_jvalue lk_jvalue;
typedef struct lk_jlist lk_jlist;
typedef struct lk_jdict lk_jdict;
typedef struct lk_jobject lk_jobject; /* the others: their own files know them */

struct lk_jvalue {
    lk_jtype type;
    uint8_t aux; /* UNDEFINED: type of the object that lacks the name, or 0; FUNCTION: its number */
    union {
        bool b;
        int64_t i;
        double f;
        const lk_jstring *s; /* STRING, BIG, UNDEFINED (the name, or NULL) */
        lk_jlist *list;      /* LIST, TUPLE, ITERATOR */
        lk_jdict *dict;      /* DICT, NAMESPACE */
        void *object;
    };
};

struct lk_jlist {
    lk_jvalue *items;
    size_t n;
    size_t capacity;
};

typedef struct lk_jentry {
    lk_jvalue key;
    lk_jvalue value;
} lk_jentry;

struct lk_jdict {
    lk_jentry *entries; /* in the order of insertion */
    size_t n;
    size_t capacity;
    uint32_t *slots; /* entry + 1, or 0; NULL while there are few */
    size_t n_slots;
};

static inline lk_jvalue lk_jnone(void) {
    return (lk_jvalue){.type = LK_J_NONE};
}
static inline lk_jvalue lk_jbool(bool b) {
    return (lk_jvalue){.type = LK_J_BOOL, .b = b};
}
static inline lk_jvalue lk_jint(int64_t i) {
    return (lk_jvalue){.type = LK_J_INT, .i = i};
}
static inline lk_jvalue lk_jfloat(double f) {
    return (lk_jvalue){.type = LK_J_FLOAT, .f = f};
}
static inline lk_jvalue lk_jstr(const lk_jstring *s) {
    return (lk_jvalue){.type = LK_J_STRING, .s = s};
}
static inline bool lk_jis_sequence(lk_jvalue v) {
    return v.type == LK_J_LIST || v.type == LK_J_TUPLE || v.type == LK_J_ITERATOR;
}
static inline bool lk_jis_int(lk_jvalue v) {
    return v.type == LK_J_INT || v.type == LK_J_BOOL;
}
static inline int64_t lk_jint_of(lk_jvalue v) { /* of INT and BOOL */
    return v.type == LK_J_BOOL ? (int64_t)v.b : v.i;
}
static inline bool lk_jis_number(lk_jvalue v) {
    return lk_jis_int(v) || v.type == LK_J_FLOAT;
}
static inline double lk_jfloat_of(lk_jvalue v) { /* of INT, BOOL and FLOAT */
    return v.type == LK_J_FLOAT ? v.f : (double)lk_jint_of(v);
}

/* Strings. The bytes must be well-formed UTF-8. */
const lk_jstring *lk_jstring_new(lk_jheap *heap, const void *bytes, size_t n, uint8_t origin);
/* Of a literal in this code: origin template. */
const lk_jstring *lk_jstring_text(lk_jheap *heap, const char *text);
/* Bytes from..to, without a copy. */
const lk_jstring *lk_jstring_slice(lk_jheap *heap, const lk_jstring *s, size_t from, size_t to);
const lk_jstring *lk_jstring_concat(lk_jheap *heap, const lk_jstring *a, const lk_jstring *b);
bool lk_jstring_equal(const lk_jstring *a, const lk_jstring *b);
bool lk_jstring_is(const lk_jstring *s, const char *text);
/* Order of code points. */
int lk_jstring_compare(const lk_jstring *a, const lk_jstring *b);
/* The byte at which character i begins, i <= n_chars. */
size_t lk_jstring_at(const lk_jstring *s, size_t i_char);
/* Where `part` first (or last) occurs in bytes from..to of s; SIZE_MAX: nowhere, or out of steps */
size_t lk_jstring_find(lk_jheap *heap, const lk_jstring *s, size_t from, size_t to,
                       const lk_jstring *part);
size_t lk_jstring_rfind(lk_jheap *heap, const lk_jstring *s, size_t from, size_t to,
                        const lk_jstring *part);

/* A string in the making. After a failure it stays empty, and finish returns NULL. */
typedef struct lk_jbuild {
    lk_jheap *heap;
    lk_jbytes *to;
    bool failed;
    uint8_t origin; /* of all bytes while to->origins is NULL */
} lk_jbuild;
void lk_jbuild_init(lk_jbuild *b, lk_jheap *heap);
bool lk_jbuild_bytes(lk_jbuild *b, const void *bytes, size_t n, uint8_t origin);
bool lk_jbuild_text(lk_jbuild *b, const char *text); /* origin template */
bool lk_jbuild_string(lk_jbuild *b, const lk_jstring *s);
bool lk_jbuild_part(lk_jbuild *b, const lk_jstring *s, size_t from, size_t to);
bool lk_jbuild_cp(lk_jbuild *b, uint32_t cp, uint8_t origin);
bool lk_jbuild_repeat(lk_jbuild *b, const lk_jstring *s, size_t count);
const lk_jstring *lk_jbuild_finish(lk_jbuild *b);

static inline uint8_t lk_jstring_origin(const lk_jstring *s, size_t i) {
    return s->origins != NULL ? s->origins[i] : s->origin;
}

/* Lists and dicts. */
lk_jlist *lk_jlist_new(lk_jheap *heap, size_t capacity);
bool lk_jlist_push(lk_jheap *heap, lk_jlist *list, lk_jvalue v);
lk_jdict *lk_jdict_new(lk_jheap *heap);
/* Whether a value may be a key. */
bool lk_jis_key(lk_jvalue v);
bool lk_jdict_set(lk_jheap *heap, lk_jdict *dict, lk_jvalue key, lk_jvalue value);
/* The value of a key, or NULL: not there, or out of steps. */
lk_jvalue *lk_jdict_get(lk_jheap *heap, const lk_jdict *dict, lk_jvalue key);
lk_jvalue *lk_jdict_get_text(lk_jheap *heap, const lk_jdict *dict, const char *key);

/* Python's truth. */
bool lk_jtruth(lk_jvalue v);
/* Python's ==. Work is charged; values nested deeper than LK_J_MAX_NESTING set the failure. */
#define LK_J_MAX_NESTING 300
bool lk_jequal(lk_jheap *heap, lk_jvalue a, lk_jvalue b);
/* Sets *order to -1, 0 or 1; false when the values have no order. */
bool lk_jcompare(lk_jheap *heap, lk_jvalue a, lk_jvalue b, int *order);
/* "str", "dict", "NoneType": the name of the type in messages. */
const char *lk_jtype_name(lk_jvalue v);

#endif
