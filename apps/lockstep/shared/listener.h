/* listener.h - recordings on a command line: audio_input.h with a progress bar. All functions print
 * the reason of a failure. */
#ifndef LK_LISTENER_H
#define LK_LISTENER_H

#include <stdbool.h>

#include "recording/audio_input.h"

/* Opens a projector for a model. n_threads, repack: as lk_open_model; a device takes the weights as
 * they are in the file. lk_audio_input_close. */
bool lk_listener_open(lk_audio_input *input, const char *command, const char *path,
                      const lk_model *model, int64_t n_threads, bool repack, uint32_t device);

/* A recording from a file; *seconds, unless NULL, is how long it lasts. */
bool lk_listener_hear(lk_audio_input *input, const char *command, const char *path,
                      lk_audio_vectors *vectors, double *seconds);

/* lk_audio_input_place, and for each of the new ids its vector: *embeddings [*n_ids] is new memory
 * for free(), NULL where a token is a token. */
bool lk_listener_place(const char *command, const lk_tokenizer *tokenizer,
                       const lk_audio_vectors *vectors, size_t n_clips, int32_t **ids,
                       size_t *n_ids, const float ***embeddings);

#endif
