/* verify_clip.h - the recording of --audio, and the same backwards: as samples for engines in the
 * process, as a file's bytes for servers, and the prompt around it. Both have equally many tokens,
 * so that their prompts are equal but for what is heard. */
#ifndef LK_VERIFY_CLIP_H
#define LK_VERIFY_CLIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lk/lk.h"

typedef struct verify_clip {
    char *bytes; /* a file, malloc'd */
    size_t n_bytes;
    const char *format; /* of the bytes: "wav", "flac", "ogg", "mp3" */
    lk_audio *audio;
    size_t n_tokens; /* that stand for it in a prompt, from `first` on; 0: not known */
    size_t first;
    int32_t *ids; /* [n_ids] the prompt, malloc'd; NULL where no model is open */
    size_t n_ids;
} verify_clip;

enum { VERIFY_FORWARDS, VERIFY_BACKWARDS, VERIFY_N_CLIPS };

/* Reads the recording. Prints the reason of a failure; deinit in any case. */
bool verify_clips_read(verify_clip clips[VERIFY_N_CLIPS], const char *path);
/* The prompts, by a chat template (NULL: the model's own), for the projector's number of tokens.
 * Prints the reason of a failure. */
bool verify_clips_place(verify_clip clips[VERIFY_N_CLIPS], const char *mmproj,
                        const char *chat_template, const lk_model *model);
void verify_clips_deinit(verify_clip clips[VERIFY_N_CLIPS]);

/* What is asked about it. */
extern const char verify_clip_question[];

#endif
