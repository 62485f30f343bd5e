/* omni.h - the small speech model for tests: where its files are, clips to vectors, prompts around
 * them, greedy answers. */
#ifndef LK_TEST_OMNI_H
#define LK_TEST_OMNI_H

#include "lk/lk.h"

enum { OMNI_MAX_PROMPT = 512, OMNI_MAX_ANSWER = 48 };

/* A file of the shared set where that is there, else of tests/data/omni; NULL: it is in neither. */
const char *omni_file(const char *name);
/* Whether the larger set is there. */
int omni_has_all(void);

/* A clip as the text model takes it. */
typedef struct omni_clip {
    float *embeddings; /* [n_tokens, width], malloc'd */
    size_t n_tokens;
    size_t width;
} omni_clip;
void omni_clip_free(omni_clip *clip);
/* Features [n_frames, n_mels] to vectors; digests as in lk_encode_params, may be NULL. */
omni_clip omni_encode(lk_encoder *encoder, const lk_projector *projector, const float *features,
                      uint64_t n_frames, uint8_t (*digests)[16]);
/* The same from a WAV file. */
omni_clip omni_encode_wav(lk_encoder *encoder, const lk_projector *projector, const char *path,
                          uint8_t (*digests)[16]);

/* "Transcribe the following audio." around so many placeholders: ids, and for each the vector of
 * the clip or NULL. Returns how many. */
size_t omni_prompt(const lk_tokenizer *tokenizer, const omni_clip *clip, int32_t *ids,
                   const float **embeddings);
/* The greedy answer to a prompt, as sequence 0, with its end mark if one came; logits (may be
 * NULL): those of the prompt's last position. Returns how many ids. */
size_t omni_answer(lk_context *context, const int32_t *ids, const float *const *embeddings,
                   size_t n_ids, const lk_tokenizer *tokenizer, int32_t *answer, float *logits);

#endif
