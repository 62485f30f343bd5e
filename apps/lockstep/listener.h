/* listener.h - recordings on their way into a prompt: a projector file with its encoder, clips that
 * it has encoded, and their vectors in the place of the prompt's audio tokens. All functions print
 * the reason of a failure. */
#ifndef LK_LISTENER_H
#define LK_LISTENER_H

#include <stdbool.h>

#include "lk/lk.h"

typedef struct lk_listener {
    const char *command;
    lk_projector *projector;
    lk_encoder *encoder;
    lk_projector_info info;
} lk_listener;

/* Opens a projector for a model, whose width it must have. n_threads, repack: as lk_open_model. */
bool lk_listener_open(lk_listener *listener, const char *command, const char *path,
                      const lk_model *model, int64_t n_threads, bool repack);
void lk_listener_close(lk_listener *listener); /* also one that is all zero */

/* A clip as vectors. */
typedef struct lk_heard {
    float *embeddings; /* [n_tokens, width], for free() */
    size_t n_tokens;
    size_t width;
} lk_heard;

/* From a file, with a progress bar. */
bool lk_listener_hear(lk_listener *listener, const char *path, lk_heard *clip);

/* The text of the token that stands for a clip in chat templates. */
#define LK_AUDIO_TOKEN "<|AUDIO|>"

/* The i-th audio token of *ids becomes as many as clip i has vectors. On success *ids, *n_ids and
 * *embeddings ([*n_ids], NULL where a token is a token) are new memory for free(), and the old *ids
 * is freed; there must be one audio token for each clip. */
bool lk_heard_place(const char *command, const lk_tokenizer *tokenizer, const lk_heard *clips,
                    size_t n_clips, int32_t **ids, size_t *n_ids, const float ***embeddings);

#endif
