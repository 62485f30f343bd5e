/* utf8_bytes.h - steps through UTF-8: well-formedness after table 3-7 of the Unicode standard, and
 * code points from and to bytes. Knows no property of any character. */
#ifndef LK_BASE_UTF8_BYTES_H
#define LK_BASE_UTF8_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LK_MAX_CODE_POINT 0x10FFFFu

/* Length of the well-formed UTF-8 sequence at `s`, 1 to 4; or 0 when there is none, and then *n_bad
 * is the length of the maximal ill-formed subpart (at least 1). n is at least 1. */
size_t lk_utf8_sequence(const uint8_t *s, size_t n, size_t *n_bad);

/* Length of the sequences that begin with this byte; 0 where none does. */
size_t lk_utf8_lead_length(uint8_t first);

/* The code point at `s`, which must begin a well-formed sequence; *n_bytes is its length. */
static inline uint32_t lk_utf8_get(const uint8_t *s, size_t *n_bytes) {
    if (s[0] < 0x80) {
        *n_bytes = 1;
        return s[0];
    }
    if (s[0] < 0xE0) {
        *n_bytes = 2;
        return ((uint32_t)(s[0] & 0x1Fu) << 6) | (s[1] & 0x3Fu);
    }
    if (s[0] < 0xF0) {
        *n_bytes = 3;
        return ((uint32_t)(s[0] & 0x0Fu) << 12) | ((uint32_t)(s[1] & 0x3Fu) << 6) | (s[2] & 0x3Fu);
    }
    *n_bytes = 4;
    return ((uint32_t)(s[0] & 0x07u) << 18) | ((uint32_t)(s[1] & 0x3Fu) << 12) |
           ((uint32_t)(s[2] & 0x3Fu) << 6) | (s[3] & 0x3Fu);
}

/* Length of a sequence by its first byte, in well-formed text. */
static inline size_t lk_utf8_length(uint8_t first) {
    return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

/* Whether the well-formed sequence at `s` is a control character (C0, DEL, C1). */
static inline bool lk_utf8_is_control(const uint8_t *s) {
    return s[0] < 0x20 || s[0] == 0x7f || (s[0] == 0xc2 && s[1] < 0xa0);
}

/* Writes cp as UTF-8 and returns the length, at most 4. Surrogates are written as they are asked
 * for. */
size_t lk_utf8_put(uint32_t cp, uint8_t out[4]);

#endif
