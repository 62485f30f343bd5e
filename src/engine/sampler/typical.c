/* typical.c - locally typical sampling (Meister, Pimentel, Wiher, Cotterell: "Locally typical
 * sampling", 2022): keeps the candidates whose surprise is closest to the expected one. */
#include "base/bytes.h"
#include "engine/sampler.h"
#include "ops/math.h"
#include "ops/twin.h"

static lk_status check(const lk_sampler_params *params, lk_error *err) {
    return lk_sampler_check_range("typical_p", (double)params->typical_p, 0.0, 1.0, err);
}

static bool is_on(const lk_sampler_params *params) {
    return params->typical_p < 1.0f;
}

/* Probabilities into weights, surprises -log p into surprises; returns the entropy. A probability
 * of 0 adds nothing to it, however large the surprise. */
static float measure(lk_sampler *sampler) {
    const float total = lk_sampler_weigh(sampler, 1.0f);
    const float log_total = (float)lk_log((double)total);
    const float max = lk_candidate_logit(sampler->candidates[0]);
    float partial[LK_SUM_LANES] = {0.0f};
    for (uint32_t i = 0; i < sampler->n; i++) {
        const float p = sampler->weights[i] / total;
        const float s = log_total + (max - lk_candidate_logit(sampler->candidates[i]));
        const float term = p > 0.0f ? p * s : 0.0f;
        partial[i % LK_SUM_LANES] = partial[i % LK_SUM_LANES] + term;
        sampler->weights[i] = p;
        sampler->surprises[i] = s;
    }
    return lk_sum16_tree(partial);
}

static lk_status apply(lk_sampler *sampler, lk_error *err) {
    (void)err;
    const float entropy = measure(sampler);
    for (uint32_t i = 0; i < sampler->n; i++) {
        const float difference = sampler->surprises[i] - entropy;
        const uint32_t distance = lk_f32_bits(difference) & 0x7fffffffu; /* |difference| */
        sampler->ranks[i] = ((uint64_t)distance << 32) | i;
    }
    lk_sampler_sort(sampler->ranks, sampler->spare, sampler->n);
    float sum = 0.0f;
    uint32_t n_kept = 0;
    while (n_kept < sampler->n && (n_kept == 0 || sum < sampler->params.typical_p)) {
        const uint32_t i = (uint32_t)sampler->ranks[n_kept++];
        sum = sum + sampler->weights[i];
        sampler->weights[i] = -1.0f; /* kept */
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < sampler->n; i++) {
        if (sampler->weights[i] < 0.0f) {
            sampler->candidates[n++] = sampler->candidates[i];
        }
    }
    sampler->n = n;
    return LK_OK;
}

const lk_sampler_stage lk_stage_typical = {check, is_on, apply};
