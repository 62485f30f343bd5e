/* sampler.c - the life of a sampler, and the chain: check the logits, run the stages, draw. */
#include "engine/sampler.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/philox.h"
#include "ops/twin.h"

static const lk_sampler_stage *const logit_stages[] = {
#define LK_STAGE_LOGITS(name) &lk_stage_##name,
#define LK_STAGE_CANDIDATES(name)
#include "engine/sampler/samplers.def"
#undef LK_STAGE_LOGITS
#undef LK_STAGE_CANDIDATES
};

static const lk_sampler_stage *const candidate_stages[] = {
#define LK_STAGE_LOGITS(name)
#define LK_STAGE_CANDIDATES(name) &lk_stage_##name,
#include "engine/sampler/samplers.def"
#undef LK_STAGE_LOGITS
#undef LK_STAGE_CANDIDATES
};

enum {
    N_LOGIT_STAGES = sizeof logit_stages / sizeof logit_stages[0],
    N_CANDIDATE_STAGES = sizeof candidate_stages / sizeof candidate_stages[0]
};

lk_status lk_sampler_check_range(const char *name, double value, double min, double max,
                                 lk_error *err) {
    if (!(value >= min && value <= max)) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT(name), "%s is %g, expected %g .. %g", name,
                       value, min, max);
    }
    return LK_OK;
}

lk_status lk_sampler_check_logit(const char *stage, int32_t token, float logit, lk_error *err) {
    if (!lk_is_finite_f32(logit)) {
        return lk_fail(err, LK_E_NONFINITE, LK_AT_SUBJECT(stage),
                       "the logit of token %d is %g after the %s", token, (double)logit, stage);
    }
    return LK_OK;
}

static bool is_greedy(const lk_sampler *sampler) {
    return sampler->params.temperature <= 0.0f;
}

static lk_status check_params(const lk_sampler_params *p, int32_t n_vocab, lk_error *err) {
    lk_status status = lk_check_struct_size("lk_sampler_params", p->struct_size, sizeof *p, err);
    if (status == LK_OK) {
        status = lk_sampler_check_range("n_vocab", n_vocab, 1, INT32_MAX, err);
    }
    if (status == LK_OK) {
        status = lk_sampler_check_range("temperature", (double)p->temperature, -1e6, 1e6, err);
    }
    if (status == LK_OK) {
        status = lk_sampler_check_range("top_k", p->top_k, 0, INT32_MAX, err);
    }
    for (size_t i = 0; i < N_LOGIT_STAGES && status == LK_OK; i++) {
        status = logit_stages[i]->check(p, err);
    }
    for (size_t i = 0; i < N_CANDIDATE_STAGES && status == LK_OK; i++) {
        status = candidate_stages[i]->check(p, err);
    }
    for (int32_t i = 0; i < p->n_logit_bias && status == LK_OK; i++) {
        status =
            lk_sampler_check_range("logit_bias token", p->logit_bias[i].token, 0, n_vocab - 1, err);
    }
    return status;
}

static lk_status allocate(lk_sampler *s, const lk_sampler_params *params, lk_error *err) {
    const lk_allocator *a = s->allocator;
    const size_t n = s->n_vocab;
    lk_sampler_history *h = &s->history;
    bool ok = (s->logits = lk_alloc_array(a, n, sizeof s->logits[0])) != NULL;
    if (ok && params->n_logit_bias > 0) {
        const size_t n_biases = (size_t)params->n_logit_bias;
        ok = (s->biases = lk_alloc_array(a, n_biases, sizeof s->biases[0])) != NULL;
        if (ok) {
            memcpy(s->biases, params->logit_bias, n_biases * sizeof s->biases[0]);
        }
    }
    if (ok && lk_stage_penalties.is_on(params)) {
        h->n_ring = params->penalty_last_n > 0 ? (uint32_t)params->penalty_last_n : 0;
        ok = (h->n_ring == 0 ||
              (h->ring = lk_alloc_array(a, h->n_ring, sizeof h->ring[0])) != NULL) &&
             (h->counts = lk_alloc_array_zero(a, n, sizeof h->counts[0])) != NULL &&
             (h->distinct = lk_alloc_array(a, n, sizeof h->distinct[0])) != NULL &&
             (h->place_of = lk_alloc_array(a, n, sizeof h->place_of[0])) != NULL;
    }
    if (ok && !is_greedy(s)) {
        ok = (s->candidates = lk_alloc_array(a, n, sizeof s->candidates[0])) != NULL &&
             (s->spare = lk_alloc_array(a, n, sizeof s->spare[0])) != NULL &&
             (s->weights = lk_alloc_array(a, n, sizeof s->weights[0])) != NULL;
        if (ok && lk_stage_typical.is_on(params)) {
            ok = (s->ranks = lk_alloc_array(a, n, sizeof s->ranks[0])) != NULL &&
                 (s->surprises = lk_alloc_array(a, n, sizeof s->surprises[0])) != NULL;
        }
    }
    return ok ? LK_OK : lk_fail_nomem(err, "a sampler", n * sizeof s->candidates[0]);
}

void lk_sampler_free(lk_sampler *s) {
    if (s == NULL) {
        return;
    }
    const lk_allocator *a = s->allocator;
    const size_t n = s->n_vocab;
    lk_sampler_history *h = &s->history;
    lk_sampler_unconstrain(s);
    lk_free_array(a, s->surprises, n, sizeof s->surprises[0]);
    lk_free_array(a, s->ranks, n, sizeof s->ranks[0]);
    lk_free_array(a, s->weights, n, sizeof s->weights[0]);
    lk_free_array(a, s->spare, n, sizeof s->spare[0]);
    lk_free_array(a, s->candidates, n, sizeof s->candidates[0]);
    lk_free_array(a, h->place_of, n, sizeof h->place_of[0]);
    lk_free_array(a, h->distinct, n, sizeof h->distinct[0]);
    lk_free_array(a, h->counts, n, sizeof h->counts[0]);
    lk_free_array(a, h->ring, h->n_ring, sizeof h->ring[0]);
    lk_free_array(a, s->biases, (size_t)s->params.n_logit_bias, sizeof s->biases[0]);
    lk_free_array(a, s->logits, n, sizeof s->logits[0]);
    lk_free(a, s, sizeof *s);
}

lk_status lk_sampler_build(const lk_sampler_params *params, int32_t n_vocab, lk_sampler **out,
                           lk_error *err) {
    *out = NULL;
    lk_status status = check_params(params, n_vocab, err);
    if (status != LK_OK) {
        return status;
    }
    const lk_allocator *a = lk_allocator_or_default(params->allocator);
    lk_sampler *s = lk_alloc_zero(a, sizeof *s);
    if (s == NULL) {
        return lk_fail_nomem(err, "a sampler", sizeof *s);
    }
    s->allocator = a;
    s->params = *params;
    s->params.logit_bias = NULL; /* the caller's */
    s->n_vocab = (uint32_t)n_vocab;
    status = allocate(s, params, err);
    if (status != LK_OK) {
        lk_sampler_free(s);
        return status;
    }
    s->view = s->logits;
    *out = s;
    return LK_OK;
}

/* How many are not finite. */
static uint32_t count_bad(const float *logits, uint32_t n) {
    uint32_t n_bad = 0;
    for (uint32_t i = 0; i < n; i++) {
        n_bad += (lk_f32_bits(logits[i]) & 0x7f800000u) == 0x7f800000u;
    }
    return n_bad;
}

/* The same, with a copy on the way: one pass over what another thread has written. */
static uint32_t copy_and_count_bad(float *restrict copy, const float *restrict logits, uint32_t n) {
    uint32_t n_bad = 0;
    for (uint32_t i = 0; i < n; i++) {
        copy[i] = logits[i];
        n_bad += (lk_f32_bits(logits[i]) & 0x7f800000u) == 0x7f800000u;
    }
    return n_bad;
}

/* Copies the logits where a stage is to change them; all must be finite. */
static lk_status take_logits(lk_sampler *s, const float *logits, lk_error *err) {
    bool changes = s->matcher != NULL;
    for (size_t i = 0; i < N_LOGIT_STAGES; i++) {
        changes = changes || logit_stages[i]->is_on(&s->params);
    }
    const uint32_t n_bad =
        changes ? copy_and_count_bad(s->logits, logits, s->n_vocab) : count_bad(logits, s->n_vocab);
    if (n_bad > 0) {
        uint32_t i = 0;
        while (lk_is_finite_f32(logits[i])) {
            i++;
        }
        return lk_fail(err, LK_E_NONFINITE, LK_AT_SUBJECT("logits"),
                       "the logit of token %u is %g: nothing can be sampled", i, (double)logits[i]);
    }
    s->view = changes ? s->logits : logits;
    return LK_OK;
}

/* The largest logit, the lowest id on a tie. */
static void choose_greedy(const lk_sampler *s, lk_sample *sample) {
    uint32_t n = s->n_vocab; /* that are not banned */
    for (uint32_t i = 0; s->view == s->logits && i < s->n_vocab; i++) {
        n -= (lk_f32_bits(s->view[i]) & 0x7f800000u) == 0x7f800000u;
    }
    *sample = (lk_sample){(int32_t)lk_sampler_best(s), n > 0 ? 1.0f : 0.0f, (int32_t)n, 0};
}

/* A uniform number from 0 to below 1, a multiple of 2^-24. */
static float uniform(const lk_sampler *s, int64_t pos, uint32_t draw) {
    const uint32_t counter[4] = {(uint32_t)pos, (uint32_t)((uint64_t)pos >> 32), s->params.choice,
                                 draw};
    uint32_t words[4];
    lk_philox4x32(s->params.seed, counter, words);
    return (float)(words[0] >> 8) * 0x1p-24f;
}

static void choose_drawn(lk_sampler *s, int64_t pos, lk_sample *sample) {
    const float total = lk_sampler_weigh(s, s->params.temperature);
    const float wanted = uniform(s, pos, 0) * total;
    float sum = s->weights[0];
    uint32_t i = 0;
    while (i + 1 < s->n && !(sum > wanted)) {
        sum = sum + s->weights[++i];
    }
    *sample =
        (lk_sample){lk_candidate_id(s->candidates[i]), s->weights[i] / total, (int32_t)s->n, 0};
}

static lk_status run_stages(lk_sampler *s, const lk_sampler_stage *const *stages, size_t n,
                            lk_error *err) {
    lk_status status = LK_OK;
    for (size_t i = 0; i < n && status == LK_OK; i++) {
        if (stages[i]->is_on(&s->params)) {
            status = stages[i]->apply(s, err);
        }
    }
    return status;
}

lk_status lk_sampler_choose(lk_sampler *sampler, const float *logits, int64_t pos,
                            lk_sample *sample, lk_error *err) {
    lk_status status = take_logits(sampler, logits, err);
    if (status == LK_OK && sampler->matcher != NULL) {
        status = lk_sampler_mask(sampler, err);
    }
    if (status == LK_OK) {
        status = run_stages(sampler, logit_stages, N_LOGIT_STAGES, err);
    }
    if (status != LK_OK) {
        return status;
    }
    lk_sample chosen = {0, 0.0f, 0, 0};
    if (is_greedy(sampler)) {
        choose_greedy(sampler, &chosen);
    } else {
        lk_sampler_order(sampler, (uint32_t)sampler->params.top_k);
        if (sampler->n > 0) {
            status = run_stages(sampler, candidate_stages, N_CANDIDATE_STAGES, err);
            if (status != LK_OK) {
                return status;
            }
            choose_drawn(sampler, pos, &chosen);
        }
    }
    if (chosen.n_candidates == 0) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("logit_bias"),
                       "the logit bias bans every token%s",
                       sampler->matcher != NULL ? " that the grammar allows" : "");
    }
    *sample = chosen;
    return LK_OK;
}
