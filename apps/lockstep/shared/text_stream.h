/* text_stream.h - generated text on its way out: bytes of tokens become whole UTF-8 characters, and
 * text that could be the beginning of a stop text is held back until it is known not to be one.
 *
 * Invariant: no byte of a stop text is ever given out. */
#ifndef LK_TEXT_STREAM_H
#define LK_TEXT_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "lk/tokenizer.h"

/* Bytes that grow. free() the data. */
typedef struct lk_buffer {
    char *data;
    size_t n;
    size_t capacity;
} lk_buffer;
/* False when memory is short. */
bool lk_buffer_add(lk_buffer *buffer, const char *bytes, size_t n);

typedef struct lk_text_stream {
    const char *const *stops; /* none is empty */
    size_t n_stops;
    lk_utf8_stream utf8;
    lk_buffer held;
    bool is_stopped; /* a stop text came; nothing is given out any more */
    size_t i_stop;   /* which one */
} lk_text_stream;

/* Takes the bytes of a token and appends to `out` what is certain. False when memory is short. */
bool lk_text_stream_push(lk_text_stream *stream, const char *bytes, size_t n, lk_buffer *out);
/* The end: gives out what is held back, unless a stop text came. */
bool lk_text_stream_finish(lk_text_stream *stream, lk_buffer *out);
void lk_text_stream_deinit(lk_text_stream *stream);

#endif
