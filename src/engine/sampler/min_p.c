/* min_p.c - drops the candidates whose probability is less than a share of the best one's. */
#include "engine/sampler.h"

static lk_status check(const lk_sampler_params *params, lk_error *err) {
    return lk_sampler_check_range("min_p", (double)params->min_p, 0.0, 1.0, err);
}

static bool is_on(const lk_sampler_params *params) {
    return params->min_p > 0.0f;
}

static lk_status apply(lk_sampler *sampler, lk_error *err) {
    (void)err;
    (void)lk_sampler_weigh(sampler, 1.0f);
    uint32_t n = 1; /* the best one has weight 1 */
    while (n < sampler->n && sampler->weights[n] >= sampler->params.min_p) {
        n++;
    }
    sampler->n = n;
    return LK_OK;
}

const lk_sampler_stage lk_stage_min_p = {check, is_on, apply};
