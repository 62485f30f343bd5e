/* utf8.c - the stream of whole characters: what is ill-formed is cut into maximal subparts (Unicode
 * standard, section 3.9), each of which stands for one U+FFFD. Keeps no state but the caller's
 * lk_utf8_stream. */
#include <string.h>

#include "base/error.h"
#include "lk/tokenizer.h"
#include "text/unicode/unicode.h"

/* Gives out what is decided in pending[0 .. n_pending): whole characters and replacements for what
 * cannot become one. The rest stays. Returns the bytes written. */
static size_t drain(lk_utf8_stream *stream, int is_end, char *out) {
    size_t written = 0;
    while (stream->n_pending > 0) {
        size_t n_bad = 0;
        size_t n = lk_utf8_sequence(stream->pending, stream->n_pending, &n_bad);
        const bool is_lead = lk_utf8_lead_length(stream->pending[0]) != 0;
        if (n != 0) {
            memcpy(out + written, stream->pending, n);
            written += n;
        } else if (is_lead && n_bad == stream->n_pending && !is_end) {
            break; /* may still become a character */
        } else {
            written += lk_utf8_put(LK_REPLACEMENT, (uint8_t *)out + written);
            n = n_bad;
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
