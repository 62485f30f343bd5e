/* sampler.h - sampling as the engine sees it: the stages of sampler/samplers.def over the logits of
 * one row, then a draw. Section 12 of docs/numerics.md is the definition.
 *
 * Invariant: the result depends on the logits, the parameters, the history and the position alone.
 * Nothing is allocated after lk_sampler_build, but under a grammar. One thread at a time. */
#ifndef LK_ENGINE_SAMPLER_H
#define LK_ENGINE_SAMPLER_H

#include <stdbool.h>

#include "grammar/matcher.h"
#include "lk/sampler.h"

/* What the penalties know of the past: how often each token occurs among the last ones. */
typedef struct lk_sampler_history {
    int32_t *ring; /* [n_ring] the last tokens; NULL when all of the past counts */
    uint32_t n_ring;
    uint32_t n_filled;
    uint32_t i_next;
    uint32_t *counts;   /* [n_vocab] */
    int32_t *distinct;  /* [n_vocab] tokens whose count is not 0, in no order */
    uint32_t *place_of; /* [n_vocab] where a token stands in `distinct` */
    uint32_t n_distinct;
} lk_sampler_history;

/* A candidate in 64 bits, so that their order is that of the numbers: the logit, reversed, above
 * the id. -0 is read as +0. */
typedef uint64_t lk_candidate;

struct lk_sampler {
    const lk_allocator *allocator;
    lk_sampler_params params;
    lk_logit_bias *biases; /* [params.n_logit_bias] own copy; params.logit_bias is not used */
    uint32_t n_vocab;
    float *logits;     /* [n_vocab] by id; -inf: banned by a bias. What the stages change */
    const float *view; /* the logits to choose from: these, or the caller's where none is on */
    lk_sampler_history history;
    lk_matcher *matcher; /* NULL: no grammar */

    /* Greedy sampling needs none of these. */
    uint32_t n;               /* candidates left */
    lk_candidate *candidates; /* [n_vocab] */
    uint64_t *spare;          /* [n_vocab] for sorting */
    float *weights;           /* [n_vocab] see lk_sampler_weigh */
    uint64_t *ranks;          /* [n_vocab] typical sampling only */
    float *surprises;         /* [n_vocab] typical sampling only */
};

/* One stage. `check` looks at the parameters when a sampler is created. */
typedef struct lk_sampler_stage {
    lk_status (*check)(const lk_sampler_params *params, lk_error *err);
    bool (*is_on)(const lk_sampler_params *params);
    lk_status (*apply)(lk_sampler *sampler, lk_error *err);
} lk_sampler_stage;
#define LK_STAGE_LOGITS(name) extern const lk_sampler_stage lk_stage_##name;
#define LK_STAGE_CANDIDATES(name) extern const lk_sampler_stage lk_stage_##name;
#include "engine/sampler/samplers.def"
#undef LK_STAGE_LOGITS
#undef LK_STAGE_CANDIDATES

/* Bodies of the public functions. */
lk_status lk_sampler_build(const lk_sampler_params *params, int32_t n_vocab, lk_sampler **out,
                           lk_error *err);
void lk_sampler_free(lk_sampler *sampler);
lk_status lk_sampler_choose(lk_sampler *sampler, const float *logits, int64_t pos,
                            lk_sample *sample, lk_error *err);
lk_status lk_sampler_note(lk_sampler *sampler, int32_t token, lk_error *err);
void lk_sampler_forget(lk_sampler *sampler);

/* Under a grammar (grammar_mask.c). NULL for both: under none. */
lk_status lk_sampler_constrain(lk_sampler *sampler, const lk_grammar *grammar,
                               const lk_token_trie *trie, lk_error *err);
void lk_sampler_unconstrain(lk_sampler *sampler);
/* Bans what the grammar does not allow. */
lk_status lk_sampler_mask(lk_sampler *sampler, lk_error *err);

/* For the stages. */

/* LK_E_ARG that names the parameter when min <= value <= max does not hold. */
lk_status lk_sampler_check_range(const char *name, double value, double min, double max,
                                 lk_error *err);
/* LK_E_NONFINITE when the changed logit of a token is +inf or NaN. */
lk_status lk_sampler_check_logit(const char *stage, int32_t token, float logit, lk_error *err);
/* Puts the candidates (all tokens that are not banned) in order and keeps the first k; 0: all. */
void lk_sampler_order(lk_sampler *sampler, uint32_t k);
/* The token with the largest logit, the lowest id on a tie. */
uint32_t lk_sampler_best(const lk_sampler *sampler);
/* Sorts n numbers ascending by their upper 32 bits; equal ones keep their order. */
void lk_sampler_sort(uint64_t *keys, uint64_t *spare, uint32_t n);
/* weights[i] = exp((l_i - l_0) / divisor) for the candidates that are left; returns their S16. */
float lk_sampler_weigh(lk_sampler *sampler, float divisor);

float lk_candidate_logit(lk_candidate candidate);
static inline int32_t lk_candidate_id(lk_candidate candidate) {
    return (int32_t)(uint32_t)candidate;
}

#endif
