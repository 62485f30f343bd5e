/* audio_input.h - recordings in a prompt: a projector file turns each clip into vectors, and these
 * stand in the place of tokens, where the chat template wrote its mark for a recording. `run`,
 * `chat` and the server share it. */
#ifndef LK_AUDIO_INPUT_H
#define LK_AUDIO_INPUT_H

#include <stdbool.h>

#include "audio_file.h"
#include "lk/lk.h"

typedef struct lk_audio_input {
    lk_projector *projector;
    lk_encoder *encoder;
    lk_projector_info info;
} lk_audio_input;

/* --projector PLACE: "cpu" or NULL for the processor, "device" for the first device (*device, as
 * lk_encoder_params has it). Prints the reason and returns false where there is no device, for
 * other words, and where there is no file. */
bool lk_audio_input_check_place(const char *command, const char *place, const char *mmproj,
                                uint32_t *device);

/* Opens the projector of a model, whose width must be the model's, which must know a token for
 * recordings. params as of lk_projector_open; its threads are the encoder's too, which computes on
 * `device`. Nothing is held after a failure. */
lk_status lk_audio_input_open(lk_audio_input *input, const char *path, const lk_model *model,
                              const lk_model_params *params, uint32_t device, lk_error *err);
void lk_audio_input_close(lk_audio_input *input); /* of zeros too */

/* One clip, as vectors. */
typedef struct lk_audio_vectors {
    float *values; /* [n, width], malloc'd */
    size_t n;      /* tokens */
    size_t width;
    uint8_t samples[32]; /* digest of what was heard (lk_audio_digest) */
    uint8_t digest[16];  /* of the values (as lk_logits_digest) */
} lk_audio_vectors;

/* LK_E_FORMAT for a clip too short to give a token; the statuses of lk_encoder_encode. One thread
 * at a time. On success free(vectors->values) is the caller's. */
lk_status lk_audio_input_encode(lk_audio_input *input, const lk_audio *audio,
                                lk_progress_fn progress, void *progress_ctx,
                                lk_audio_vectors *vectors, lk_error *err);

/* In ids [*n_ids], malloc'd, the i-th token for a recording becomes as many as clip i has vectors,
 * and spans[i] says where they are. LK_E_ARG when there are not as many tokens as clips. */
lk_status lk_audio_input_place(const lk_tokenizer *tokenizer, const lk_audio_vectors *vectors,
                               size_t n_clips, int32_t **ids, size_t *n_ids, lk_media_span *spans,
                               lk_error *err);

#endif
