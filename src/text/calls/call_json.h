/* call_json.h - the JSON of one call, byte by byte: where a value ends, and what the members name,
 * arguments and id of an object are. It checks no more of JSON than it needs for that. */
#ifndef LK_TEXT_CALL_JSON_H
#define LK_TEXT_CALL_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One value. Zero to begin. */
typedef struct lk_json_scan {
    uint32_t depth;
    bool has_begun, in_string, is_escaped, is_scalar;
} lk_json_scan;
typedef enum lk_scan {
    LK_SCAN_MORE,   /* the byte is the value's, or a blank before it */
    LK_SCAN_LAST,   /* it is its last byte */
    LK_SCAN_BEYOND, /* the value, a number or word, ended before it */
    LK_SCAN_BAD     /* no value begins so */
} lk_scan;
lk_scan lk_json_scan_byte(lk_json_scan *scan, char c);

/* A string value without its quotes, byte by byte. Zero to begin. */
typedef struct lk_json_unescape {
    uint32_t code, high;
    uint8_t n_hex; /* digits of \u that are still to come */
    bool is_escaped, is_open;
} lk_json_unescape;
/* The bytes that c stands for, at most 4, into `out`; their number. */
size_t lk_json_unescape_byte(lk_json_unescape *u, char c, char out[4]);

/* An object with the members of a call. Zero to begin. */
typedef enum lk_call_part {
    LK_CALL_NOTHING, /* a blank, a quote, a colon, or a value that says nothing */
    LK_CALL_NAME,    /* c is of the name's JSON string, quotes included */
    LK_CALL_ID,
    LK_CALL_ARGUMENTS, /* c is of the arguments' value */
    LK_CALL_DONE,      /* c closes the object */
    LK_CALL_BAD        /* no object, or none that can be a call */
} lk_call_part;
typedef struct lk_call_object {
    int state;
    lk_call_part member;
    lk_json_scan value;
    char key[16];
    size_t n_key;
    bool is_escaped;
} lk_call_object;
lk_call_part lk_call_object_byte(lk_call_object *o, char c);

#endif
