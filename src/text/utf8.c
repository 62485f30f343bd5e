/* utf8.c - well-formedness of UTF-8 after table 3-7 of the Unicode standard, and the stream of
 * whole characters. What is ill-formed is cut into maximal subparts (section 3.9), each of which
 * stands for one U+FFFD. Keeps no state but the caller's lk_utf8_stream. */
#include <string.h>

#include "base/error.h"
#include "lk/tokenizer.h"
#include "text/unicode.h"

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

/* Gives out what is decided in pending[0 .. n_pending): whole characters and replacements for what
 * cannot become one. The rest stays. Returns the bytes written. */
static size_t drain(lk_utf8_stream *stream, int is_end, char *out) {
    size_t written = 0;
    while (stream->n_pending > 0) {
        const lead l = lead_of(stream->pending[0]);
        size_t n = prefix_length(stream->pending, stream->n_pending, l);
        if (n == l.length) {
            memcpy(out + written, stream->pending, n);
            written += n;
        } else if (l.length != 0 && n == stream->n_pending && !is_end) {
            break; /* may still become a character */
        } else {
            written += lk_utf8_put(LK_REPLACEMENT, (uint8_t *)out + written);
        }
        stream->n_pending -= (uint32_t)n;
        memmove(stream->pending, stream->pending + n, stream->n_pending);
    }
    return written;
}

lk_status lk_utf8_stream_push(lk_utf8_stream *stream, const char *bytes, size_t n_bytes, char *out,
                              size_t capacity, size_t *n_out, lk_error *err) {
    if (n_out != NULL) {
        *n_out = 0;
    }
    if (stream == NULL || n_out == NULL || (bytes == NULL && n_bytes != 0) || out == NULL ||
        stream->n_pending >= sizeof stream->pending) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE,
                       "lk_utf8_stream_push: stream, bytes, out or n_out "
                       "is missing, or the stream was not zeroed");
    }
    if (capacity / 3 < 3 || capacity / 3 - 3 < n_bytes) {
        return lk_fail(err, LK_E_LIMIT, LK_NOWHERE,
                       "lk_utf8_stream_push: room for %zu bytes, 3 * (%zu + 3) needed", capacity,
                       n_bytes);
    }
    size_t written = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        stream->pending[stream->n_pending++] = (uint8_t)bytes[i];
        written += drain(stream, 0, out + written);
    }
    *n_out = written;
    return LK_OK;
}

lk_status lk_utf8_stream_finish(lk_utf8_stream *stream, char *out, size_t capacity, size_t *n_out,
                                lk_error *err) {
    if (n_out != NULL) {
        *n_out = 0;
    }
    if (stream == NULL || n_out == NULL || out == NULL ||
        stream->n_pending >= sizeof stream->pending) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE,
                       "lk_utf8_stream_finish: stream, out or n_out is "
                       "missing, or the stream was not zeroed");
    }
    if (capacity < 12) {
        return lk_fail(err, LK_E_LIMIT, LK_NOWHERE,
                       "lk_utf8_stream_finish: room for %zu bytes, 12 needed", capacity);
    }
    *n_out = drain(stream, 1, out);
    return LK_OK;
}
