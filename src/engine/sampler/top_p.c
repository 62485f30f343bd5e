/* top_p.c - keeps the first candidates that together reach a share of the probability. */
#include "engine/sampler.h"

static lk_status check(const lk_sampler_params *params, lk_error *err) {
    return lk_sampler_check_range("top_p", (double)params->top_p, 0.0, 1.0, err);
}

static bool is_on(const lk_sampler_params *params) {
    return params->top_p < 1.0f;
}

static lk_status apply(lk_sampler *sampler, lk_error *err) {
    (void)err;
    const float wanted = sampler->params.top_p * lk_sampler_weigh(sampler, 1.0f);
    float sum = sampler->weights[0];
    uint32_t n = 1;
    while (n < sampler->n && sum < wanted) {
        sum = sum + sampler->weights[n++];
    }
    sampler->n = n;
    return LK_OK;
}

const lk_sampler_stage lk_stage_top_p = {check, is_on, apply};
