/* serve_media.h - recordings in the messages of a request: parts of the types "input_audio" and
 * "audio_url" to bytes. Knows nothing of audio, so that it can be fuzzed alone. */
#ifndef LK_SERVE_MEDIA_H
#define LK_SERVE_MEDIA_H

#include <stddef.h>

#include "serve_fields.h"

enum { SERVE_MAX_CLIPS = 16 }; /* of one request */

typedef struct serve_clips {
    struct {
        uint8_t *bytes;
        size_t n;
    } items[SERVE_MAX_CLIPS];
    size_t n;
} serve_clips;

/* Decodes the recordings of all messages in their order, and leaves {"type": "audio"} in their
 * place, as chat templates know it. On failure nothing is held. */
bool serve_take_clips(json_t *messages, serve_clips *clips, serve_problem *problem);
void serve_clips_free(serve_clips *clips);

/* Base64 (RFC 4648, with or without the padding) of n characters to *n_bytes bytes that are
 * malloc'd; NULL when memory is short, or with *bad set to the first character that has no place.
 */
uint8_t *serve_base64(const char *text, size_t n, size_t *n_bytes, size_t *bad);

#endif
