/* utf8_bytes.c - see utf8_bytes.h. */
#include "base/utf8_bytes.h"

/* What may follow a first byte: the range of the second byte and the length; 0 where it begins
 * nothing. */
typedef struct lead {
    uint8_t length, low, high;
} lead;

static lead lead_of(uint8_t b) {
    if (b < 0x80) {
        return (lead){1, 0, 0};
    }
    if (b < 0xC2 || b > 0xF4) {
        return (lead){0, 0, 0};
    }
    if (b < 0xE0) {
        return (lead){2, 0x80, 0xBF};
    }
    if (b < 0xF0) { /* no overlong forms, no surrogates */
        return (lead){3, b == 0xE0 ? 0xA0 : 0x80, b == 0xED ? 0x9F : 0xBF};
    }
    return (lead){4, b == 0xF0 ? 0x90 : 0x80, b == 0xF4 ? 0x8F : 0xBF};
}

/* Number of leading bytes of s that begin one well-formed sequence, at most its length. */
static size_t prefix_length(const uint8_t *s, size_t n, lead l) {
    if (n < 2 || l.length < 2 || s[1] < l.low || s[1] > l.high) {
        return 1;
    }
    size_t i = 2;
    while (i < l.length && i < n && (s[i] & 0xC0u) == 0x80) {
        i++;
    }
    return i;
}

size_t lk_utf8_sequence(const uint8_t *s, size_t n, size_t *n_bad) {
    const lead l = lead_of(s[0]);
    const size_t length = prefix_length(s, n, l);
    if (length == l.length) {
        return length;
    }
    *n_bad = length;
    return 0;
}

size_t lk_utf8_lead_length(uint8_t first) {
    return lead_of(first).length;
}

size_t lk_utf8_put(uint32_t cp, uint8_t out[4]) {
    if (cp < 0x80) {
        out[0] = (uint8_t)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (uint8_t)(0xC0u | (cp >> 6));
        out[1] = (uint8_t)(0x80u | (cp & 0x3Fu));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (uint8_t)(0xE0u | (cp >> 12));
        out[1] = (uint8_t)(0x80u | ((cp >> 6) & 0x3Fu));
        out[2] = (uint8_t)(0x80u | (cp & 0x3Fu));
        return 3;
    }
    out[0] = (uint8_t)(0xF0u | (cp >> 18));
    out[1] = (uint8_t)(0x80u | ((cp >> 12) & 0x3Fu));
    out[2] = (uint8_t)(0x80u | ((cp >> 6) & 0x3Fu));
    out[3] = (uint8_t)(0x80u | (cp & 0x3Fu));
    return 4;
}
