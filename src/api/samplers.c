/* samplers.c - bodies of lk/sampler.h: arguments are checked here, the work is in src/engine. */
#include "base/error.h"
#include "base/fpenv.h"
#include "base/params.h"
#include "engine/sampler.h"

/* The size of the pointer is meant. NOLINTNEXTLINE(bugprone-sizeof-expression) */
LK_NO_TAIL_PADDING(lk_sampler_params, logit_bias);

lk_status lk_sampler_create(const lk_sampler_params *params, int32_t n_vocab, lk_sampler **out,
                            lk_error *err) {
    if (out == NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("out"), "out is NULL");
    }
    *out = NULL;
    const lk_sampler_params defaults = LK_SAMPLER_PARAMS_INIT;
    const lk_fpenv fpenv = lk_fpenv_enter();
    const lk_status status =
        lk_sampler_build(params != NULL ? params : &defaults, n_vocab, out, err);
    lk_fpenv_leave(fpenv);
    return status;
}

void lk_sampler_destroy(lk_sampler *sampler) {
    lk_sampler_free(sampler);
}

lk_status lk_sampler_sample(lk_sampler *sampler, const float *logits, int64_t pos,
                            lk_sample *sample, lk_error *err) {
    if (sampler == NULL || logits == NULL || sample == NULL || pos < 0) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE,
                       "sampler, logits or sample is NULL, or the position is negative");
    }
    *sample = (lk_sample){0, 0.0f, 0, 0};
    const lk_fpenv fpenv = lk_fpenv_enter();
    const lk_status status = lk_sampler_choose(sampler, logits, pos, sample, err);
    lk_fpenv_leave(fpenv);
    return status;
}

lk_status lk_sampler_accept(lk_sampler *sampler, int32_t token, lk_error *err) {
    if (sampler == NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("sampler"), "the sampler is NULL");
    }
    return lk_sampler_note(sampler, token, err);
}

void lk_sampler_reset(lk_sampler *sampler) {
    if (sampler != NULL) {
        lk_sampler_forget(sampler);
    }
}
