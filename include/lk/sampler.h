/* lk/sampler.h - from logits to a token, reproducibly.
 *
 * Sampling is part of the numeric definition (docs/numerics.md, section 12): random numbers come
 * from a counter-based generator keyed by the seed, with counter (position, choice, draw), so that
 * a resumed or replayed run draws the same. There is no hidden random state; the only state is the
 * history of tokens that the penalties look at.
 *
 * Order of the chain: the grammar, if there is one (lk/grammar.h); logit bias; repetition, presence
 * and frequency penalties; top-k; typical; top-p; min-p; temperature; draw. Temperature <= 0 is
 * greedy: the largest logit after bias and penalties, lowest id on a tie. What each stage computes:
 * docs/sampling.md.
 *
 * Thread rule: one thread at a time in a sampler; different samplers are independent.
 */
#ifndef LK_SAMPLER_H
#define LK_SAMPLER_H

#include "lk/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lk_sampler lk_sampler;

typedef struct lk_logit_bias {
    int32_t token;
    float bias; /* -INFINITY bans the token */
} lk_logit_bias;

/* Limits. */
#define LK_MAX_LOGIT_BIAS 65536
#define LK_MAX_PENALTY_TOKENS (1 << 20)

typedef struct lk_sampler_params {
    size_t struct_size;
    const lk_allocator *allocator; /* NULL: the C library's; must outlive the sampler */
    uint64_t seed;
    uint32_t choice;   /* which one of several choices of one request: other numbers, same seed */
    float temperature; /* -1e6 .. 1e6; <= 0: greedy */
    int32_t top_k;     /* 0: off */
    float top_p;       /* 0 .. 1; 1: off */
    float min_p;       /* 0 .. 1; 0: off */
    float typical_p;   /* 0 .. 1; 1: off */
    float repeat_penalty;    /* 0.01 .. 100; 1: off; divides positive logits, multiplies others */
    float presence_penalty;  /* -100 .. 100; 0: off */
    float frequency_penalty; /* -100 .. 100; 0: off */
    int32_t penalty_last_n; /* tokens of history that count, at most LK_MAX_PENALTY_TOKENS; -1: all;
                               0: none */
    int32_t n_logit_bias;   /* at most LK_MAX_LOGIT_BIAS; added in the order given */
    const lk_logit_bias *logit_bias; /* copied */
} lk_sampler_params;
/* temperature 0.8, top-k 40, top-p 0.95, min-p 0.05, the rest off, penalty_last_n 64, seed 0. */
#define LK_SAMPLER_PARAMS_INIT                                                                     \
    ((lk_sampler_params){sizeof(lk_sampler_params), NULL, 0, 0, 0.8f, 40, 0.95f, 0.05f, 1.0f,      \
                         1.0f, 0.0f, 0.0f, 64, 0, NULL})

/* On success *out is owned by the caller (lk_sampler_destroy). params may be NULL. LK_E_ARG names
 * the parameter that is out of range (NaN included); LK_E_NOMEM. */
LK_API lk_status lk_sampler_create(const lk_sampler_params *params, int32_t n_vocab,
                                   lk_sampler **out, lk_error *err);
LK_API void lk_sampler_destroy(lk_sampler *sampler); /* accepts NULL */

typedef struct lk_sample {
    int32_t token;
    float probability; /* among the candidates that were left, after temperature; 1 when greedy */
    int32_t n_candidates;
    uint32_t reserved;
} lk_sample;

/* Chooses the token that follows position `pos` (the position of the row that gave `logits`). The
 * logits are not changed. All must be finite, also after bias and penalties (LK_E_NONFINITE
 * otherwise); LK_E_ARG when the bias bans every token. Allocates nothing, but under a
 * grammar. */
LK_API lk_status lk_sampler_sample(lk_sampler *sampler, const float *logits, int64_t pos,
                                   lk_sample *sample, lk_error *err);
/* Adds a token (of the prompt or sampled) to the history that penalties look at. LK_E_ARG when it
 * is outside 0 .. n_vocab-1. */
LK_API lk_status lk_sampler_accept(lk_sampler *sampler, int32_t token, lk_error *err);
LK_API void lk_sampler_reset(lk_sampler *sampler); /* forgets the history */

#ifdef __cplusplus
}
#endif
#endif
