/* text_stream.c - see text_stream.h. */
#include "text_stream.h"

#include <stdlib.h>
#include <string.h>

bool lk_buffer_add(lk_buffer *buffer, const char *bytes, size_t n) {
    if (n > buffer->capacity - buffer->n) {
        const size_t wanted = 2 * (buffer->n + n) + 64;
        char *grown = realloc(buffer->data, wanted);
        if (grown == NULL) {
            return false;
        }
        buffer->data = grown;
        buffer->capacity = wanted;
    }
    if (n > 0) {
        memcpy(buffer->data + buffer->n, bytes, n);
        buffer->n += n;
    }
    return true;
}

/* Where the first stop text begins in the held text, and which one it is; the held length when
 * there is none. */
static size_t find_stop(const lk_text_stream *s, size_t *i_stop) {
    for (size_t i = 0; i < s->held.n; i++) {
        for (size_t k = 0; k < s->n_stops; k++) {
            const size_t n = strlen(s->stops[k]);
            if (n <= s->held.n - i && memcmp(s->held.data + i, s->stops[k], n) == 0) {
                *i_stop = k;
                return i;
            }
        }
    }
    return s->held.n;
}

/* Bytes at the end of the held text that may be the beginning of a stop text. */
static size_t count_doubtful(const lk_text_stream *s) {
    for (size_t i = 0; i < s->held.n; i++) {
        const size_t n = s->held.n - i;
        for (size_t k = 0; k < s->n_stops; k++) {
            if (n < strlen(s->stops[k]) && memcmp(s->held.data + i, s->stops[k], n) == 0) {
                return n;
            }
        }
    }
    return 0;
}

/* Moves the first n held bytes to `out`. */
static bool give_out(lk_text_stream *s, size_t n, lk_buffer *out) {
    if (!lk_buffer_add(out, s->held.data, n)) {
        return false;
    }
    s->held.n -= n;
    if (s->held.n > 0) {
        memmove(s->held.data, s->held.data + n, s->held.n);
    }
    return true;
}

/* Takes whole characters. */
static bool push_text(lk_text_stream *s, const char *text, size_t n, lk_buffer *out) {
    if (s->is_stopped) {
        return true;
    }
    if (!lk_buffer_add(&s->held, text, n)) {
        return false;
    }
    const size_t n_before = find_stop(s, &s->i_stop);
    if (n_before < s->held.n) {
        s->is_stopped = true;
        return give_out(s, n_before, out);
    }
    return give_out(s, s->held.n - count_doubtful(s), out);
}

bool lk_text_stream_push(lk_text_stream *stream, const char *bytes, size_t n, lk_buffer *out) {
    char text[512];
    enum { PIECE = sizeof text / 3 - 3 };
    for (size_t i = 0; i < n;) {
        const size_t n_piece = n - i < PIECE ? n - i : PIECE;
        size_t n_text = 0;
        if (lk_utf8_stream_push(&stream->utf8, bytes + i, n_piece, text, sizeof text, &n_text,
                                NULL) != LK_OK ||
            !push_text(stream, text, n_text, out)) {
            return false;
        }
        i += n_piece;
    }
    return true;
}

bool lk_text_stream_finish(lk_text_stream *stream, lk_buffer *out) {
    char text[16];
    size_t n = 0;
    if (lk_utf8_stream_finish(&stream->utf8, text, sizeof text, &n, NULL) != LK_OK ||
        !push_text(stream, text, n, out)) {
        return false;
    }
    return stream->is_stopped || give_out(stream, stream->held.n, out);
}

void lk_text_stream_deinit(lk_text_stream *stream) {
    free(stream->held.data);
    stream->held = (lk_buffer){NULL, 0, 0};
}
