/* replay.h - a receipt (docs/serve.md) read from JSON. */
#ifndef LK_REPLAY_H
#define LK_REPLAY_H

#include <jansson.h>
#include <stdbool.h>

#include "lk/lk.h"

typedef struct replay_receipt {
    const char *model; /* digest in hexadecimal; borrowed from the JSON, likewise the others */
    const char *numerics;
    lk_kv_type k_type;
    lk_kv_type v_type;
    lk_sampler_params sampler; /* logit_bias owned */
    lk_logit_bias *biases;
    const json_t *grammar; /* {kind, text}; NULL: none */
    int32_t *tokens;       /* [n_prompt + n_ids] the prompt and what was sampled */
    size_t n_prompt;
    size_t n_ids;
    const json_t *digests; /* [n_ids] texts of 32 digits */
    size_t n_clips;        /* recordings in the prompt */
    struct {
        size_t first; /* token of the prompt, and how many */
        size_t n;
        const char *samples; /* digests */
        const char *vectors;
    } clips[LK_MAX_MEDIA];
} replay_receipt;

/* The i-th receipt of a document: a receipt itself, or the answer of a server with receipts in it.
 * NULL when there are not as many. Borrowed. */
const json_t *replay_find(const json_t *root, size_t i);
/* Prints what is wrong and returns false when it is no receipt. On success free with replay_free.
 */
bool replay_read(const json_t *json, replay_receipt *receipt);
void replay_free(replay_receipt *receipt);

#endif
