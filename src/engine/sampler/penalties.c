/* penalties.c - repetition, presence and frequency penalties on the tokens of the history. */
#include "engine/sampler.h"
#include "ops/twin.h"

static lk_status check(const lk_sampler_params *params, lk_error *err) {
    const struct {
        const char *name;
        double value, min, max;
    } ranges[] = {
        {"repeat_penalty", (double)params->repeat_penalty, (double)0.01f, 100.0},
        {"presence_penalty", (double)params->presence_penalty, -100.0, 100.0},
        {"frequency_penalty", (double)params->frequency_penalty, -100.0, 100.0},
        {"penalty_last_n", params->penalty_last_n, -1, LK_MAX_PENALTY_TOKENS},
    };
    lk_status status = LK_OK;
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0] && status == LK_OK; i++) {
        status = lk_sampler_check_range(ranges[i].name, ranges[i].value, ranges[i].min,
                                        ranges[i].max, err);
    }
    return status;
}

static bool is_on(const lk_sampler_params *params) {
    return params->penalty_last_n != 0 &&
           (params->repeat_penalty != 1.0f || params->presence_penalty != 0.0f ||
            params->frequency_penalty != 0.0f);
}

static lk_status apply(lk_sampler *sampler, lk_error *err) {
    const lk_sampler_params *p = &sampler->params;
    const lk_sampler_history *history = &sampler->history;
    for (uint32_t i = 0; i < history->n_distinct; i++) {
        const int32_t token = history->distinct[i];
        float l = sampler->logits[token];
        if (!lk_is_finite_f32(l)) {
            continue;
        }
        l = l > 0.0f ? l / p->repeat_penalty : l * p->repeat_penalty;
        l = l - p->frequency_penalty * (float)history->counts[token];
        l = l - p->presence_penalty;
        sampler->logits[token] = l;
        const lk_status status = lk_sampler_check_logit("penalties", token, l, err);
        if (status != LK_OK) {
            return status;
        }
    }
    return LK_OK;
}

const lk_sampler_stage lk_stage_penalties = {check, is_on, apply};
