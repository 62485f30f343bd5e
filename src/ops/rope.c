/* rope.c - see rope.h. YaRN: Peng, Quesnelle, Fan, Shippole, "YaRN: Efficient context window
 * extension of large language models", 2023, section 3. */
#include "ops/rope.h"

#include <math.h>
#include <stdbool.h>

#include "base/error.h"
#include "ops/math.h"
#include "ops/ops.h"

static bool is_within(double x, double low, double high) {
    return x >= low && x <= high; /* false for NaN */
}

static lk_status check(const lk_rope_params *p, size_t n_rot, lk_error *err) {
    const double big = 1e30;
    if (n_rot < 2 || n_rot % 2 != 0 || n_rot > LK_MAX_HEAD_DIM) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT("rope.dimension_count"),
                       "rotary size is %zu; it has to be even, 2 .. %d", n_rot, LK_MAX_HEAD_DIM);
    }
    if (!is_within(p->base, 1.0, big) || p->base == 1.0) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT("rope.freq_base"),
                       "rotary base is %g, expected above 1, below 1e30", p->base);
    }
    for (size_t i = 0; p->factors != NULL && i < n_rot / 2; i++) {
        if (!is_within((double)p->factors[i], 1e-30, big)) {
            return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT("rope_freqs.weight"),
                           "rotary frequency factor %zu is %g, expected 1e-30 .. 1e30", i,
                           (double)p->factors[i]);
        }
    }
    if (p->scaling != LK_ROPE_SCALING_NONE && !is_within(p->factor, 1e-30, big)) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT("rope.scaling.factor"),
                       "rotary scaling factor is %g, expected 1e-30 .. 1e30", p->factor);
    }
    if (!is_within(p->attn_factor, 1e-30, big)) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT("rope.scaling.attn_factor"),
                       "rotary magnitude factor is %g, expected 1e-30 .. 1e30", p->attn_factor);
    }
    if (p->scaling != LK_ROPE_SCALING_YARN) {
        return LK_OK;
    }
    if (!is_within(p->original_context, 1.0, big)) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT("rope.scaling.original_context_length"),
                       "original context of YaRN scaling is %g, expected 1 .. 1e30",
                       p->original_context);
    }
    if (!is_within(p->beta_fast, 1e-30, big) || !is_within(p->beta_slow, 1e-30, big)) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT("rope.scaling.yarn_beta_fast"),
                       "YaRN betas are %g and %g, expected 1e-30 .. 1e30", p->beta_fast,
                       p->beta_slow);
    }
    return LK_OK;
}

/* The (fractional) pair that turns `rotations` times over the original context. */
static double ramp_pair(const lk_rope_params *p, size_t n_rot, double rotations) {
    const double two_pi = 0x1.921fb54442d18p+2;
    return (double)n_rot * lk_log(p->original_context / (rotations * two_pi)) /
           (2.0 * lk_log(p->base));
}

/* YaRN: pairs that turn often keep their frequency, slow ones are divided by the factor. */
static void apply_yarn(const lk_rope_params *p, size_t n_rot, double *inv) {
    const double last = (double)(n_rot - 1);
    double low = floor(ramp_pair(p, n_rot, p->beta_fast));
    double high = ceil(ramp_pair(p, n_rot, p->beta_slow));
    low = low > 0.0 ? low : 0.0;
    high = high < last ? high : last;
    const double width = high - low > 0.001 ? high - low : 0.001;
    for (size_t i = 0; i < n_rot / 2; i++) {
        double ramp = ((double)i - low) / width;
        ramp = ramp > 0.0 ? ramp : 0.0;
        ramp = ramp < 1.0 ? ramp : 1.0;
        const double mix = 1.0 - ramp;
        inv[i] = inv[i] * (mix + (1.0 - mix) / p->factor);
    }
}

lk_status lk_rope_frequencies(const lk_rope_params *params, size_t n_rot, double *inv,
                              double *magnitude, lk_error *err) {
    *magnitude = 0.0;
    for (size_t i = 0; i < n_rot / 2 && i < LK_MAX_HEAD_DIM / 2; i++) {
        inv[i] = 0.0;
    }
    const lk_status status = check(params, n_rot, err);
    if (status != LK_OK) {
        return status;
    }
    *magnitude = params->attn_factor;
    for (size_t i = 0; i < n_rot / 2; i++) {
        inv[i] = lk_pow(params->base, -(double)(2 * i) / (double)n_rot);
        if (params->factors != NULL) {
            inv[i] = inv[i] / (double)params->factors[i];
        }
        if (params->scaling == LK_ROPE_SCALING_LINEAR) {
            inv[i] = inv[i] / params->factor;
        }
    }
    if (params->scaling == LK_ROPE_SCALING_YARN) {
        apply_yarn(params, n_rot, inv);
        *magnitude = params->attn_factor * (1.0 + 0.1 * lk_log(params->factor));
    }
    return LK_OK;
}

void lk_rope_cos_sin(int64_t position, const double *inv, size_t n_pairs, double magnitude,
                     float *cos_sin) {
    for (size_t i = 0; i < n_pairs; i++) {
        double s;
        double c;
        lk_sincos((double)position * inv[i], &s, &c);
        cos_sin[2 * i] = (float)(c * magnitude);
        cos_sin[2 * i + 1] = (float)(s * magnitude);
    }
}
