/* logit_bias.c - adds a number to the logits of chosen tokens; -inf bans a token. */
#include "base/error.h"
#include "engine/sampler.h"
#include "ops/twin.h"

static lk_status check(const lk_sampler_params *params, lk_error *err) {
    const lk_status status =
        lk_sampler_check_range("n_logit_bias", params->n_logit_bias, 0, LK_MAX_LOGIT_BIAS, err);
    if (status != LK_OK) {
        return status;
    }
    const lk_logit_bias *list = params->logit_bias;
    if (params->n_logit_bias > 0 && list == NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("logit_bias"), "logit_bias is NULL");
    }
    for (int32_t i = 0; list != NULL && i < params->n_logit_bias; i++) {
        const float bias = list[i].bias;
        if (!lk_is_finite_f32(bias) && !(bias < 0.0f)) {
            return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("logit_bias"),
                           "the bias of token %d is %g, expected a finite number or -infinity",
                           list[i].token, (double)bias);
        }
    }
    return LK_OK;
}

static bool is_on(const lk_sampler_params *params) {
    return params->n_logit_bias > 0;
}

static lk_status apply(lk_sampler *sampler, lk_error *err) {
    for (int32_t i = 0; i < sampler->params.n_logit_bias; i++) {
        const lk_logit_bias *bias = &sampler->biases[i];
        float *logit = &sampler->logits[bias->token];
        if (!lk_is_finite_f32(*logit)) {
            continue; /* banned by an earlier entry */
        }
        *logit = *logit + bias->bias;
        if (lk_is_finite_f32(bias->bias)) {
            const lk_status status = lk_sampler_check_logit("logit bias", bias->token, *logit, err);
            if (status != LK_OK) {
                return status;
            }
        }
    }
    return LK_OK;
}

const lk_sampler_stage lk_stage_logit_bias = {check, is_on, apply};
