/* test_rope.c - tables of the rotary embedding against values computed with 60 digits
 * (tests/data/ops/rotary.f64, see the README beside it), for every kind of scaling. */
#include <math.h>

#include "base/bytes.h"
#include "lk_test.h"
#include "ops/math.h"
#include "ops/ops.h"
#include "ops/rope.h"

enum { N_POSITIONS = 6, N_VARIANTS = 4 };
static const int64_t positions[N_POSITIONS] = {0, 1, 7, 4095, 32767, 131071};
static const char *const variant_names[N_VARIANTS] = {"none", "linear 4", "YaRN 4", "factors"};

/* The factors of Llama 3.1: 8 for long waves, 1 for short ones, a ramp between. */
static void llama31_factors(double base, size_t n_rot, float *factors) {
    const double two_pi = 6.283185307179586;
    for (size_t i = 0; i < n_rot / 2; i++) {
        const double wave = two_pi * pow(base, 2.0 * (double)i / (double)n_rot);
        const double s = (8192.0 / wave - 1.0) / 3.0;
        const double f = wave > 8192.0 ? 8.0 : wave < 2048.0 ? 1.0 : 1.0 / ((1.0 - s) / 8.0 + s);
        factors[i] = (float)f;
    }
}

static lk_rope_params variant_params(int variant, double base, size_t n_rot, float *factors) {
    lk_rope_params params = LK_ROPE_PARAMS_DEFAULT;
    params.base = base;
    if (variant == 1) {
        params.scaling = LK_ROPE_SCALING_LINEAR;
        params.factor = 4.0;
    } else if (variant == 2) {
        params.scaling = LK_ROPE_SCALING_YARN;
        params.factor = 4.0;
        params.original_context = 32768.0;
    } else if (variant == 3) {
        llama31_factors(base, n_rot, factors);
        params.factors = factors;
    }
    return params;
}

typedef struct errors {
    double f64;     /* cos and sin in binary64 */
    double f32;     /* the table */
    double f32_inv; /* the table, had the inverse frequencies been rounded to binary32 */
} errors;

static double larger(double a, double b) {
    return a >= b ? a : b;
}

static void measure(const double *inv, size_t n_pairs, double magnitude, int64_t position,
                    const uint8_t *truth, errors *worst) {
    float table[LK_MAX_HEAD_DIM];
    lk_rope_cos_sin(position, inv, n_pairs, magnitude, table);
    for (size_t i = 0; i < n_pairs; i++) {
        double got[2];
        double rounded[2];
        lk_sincos((double)position * inv[i], &got[1], &got[0]);
        lk_sincos((double)position * (double)(float)inv[i], &rounded[1], &rounded[0]);
        for (size_t j = 0; j < 2; j++) {
            const double want = lk_f64_from_bits(lk_load_u64(truth + (2 * i + j) * 8));
            worst->f64 = larger(fabs(got[j] * magnitude - want), worst->f64);
            worst->f32 = larger(fabs((double)table[2 * i + j] - want), worst->f32);
            worst->f32_inv =
                larger(fabs((double)(float)(rounded[j] * magnitude) - want), worst->f32_inv);
        }
    }
}

LK_TEST(rotary_truth) {
    size_t size = 0;
    uint8_t *data = lk_test_read(lk_test_data("ops/rotary.f64"), &size);
    static const double bases[3] = {1e4, 1e6, 5e5};
    size_t offset = 0;
    errors per_variant[N_VARIANTS] = {{0}};
    errors per_position[N_POSITIONS] = {{0}};
    for (int i_base = 0; i_base < 3; i_base++) {
        for (size_t n_rot = 64; n_rot <= 128; n_rot *= 2) {
            for (int variant = 0; variant < N_VARIANTS; variant++) {
                float factors[LK_MAX_HEAD_DIM / 2];
                const lk_rope_params params =
                    variant_params(variant, bases[i_base], n_rot, factors);
                double inv[LK_MAX_HEAD_DIM / 2];
                double magnitude;
                lk_error err;
                REQUIRE_OK(lk_rope_frequencies(&params, n_rot, inv, &magnitude, &err), err);
                for (int i = 0; i < N_POSITIONS; i++) {
                    CHECK(offset + n_rot * 8 <= size);
                    measure(inv, n_rot / 2, magnitude, positions[i], data + offset,
                            &per_variant[variant]);
                    measure(inv, n_rot / 2, magnitude, positions[i], data + offset,
                            &per_position[i]);
                    offset += n_rot * 8;
                }
            }
        }
    }
    CHECK(offset == size);
    for (int i = 0; i < N_VARIANTS; i++) {
        const errors *e = &per_variant[i];
        (void)printf("%-9s binary64 %.2e, table %.2e (with binary32 frequencies %.2e)\n",
                     variant_names[i], e->f64, e->f32, e->f32_inv);
        CHECK(e->f64 <= 1e-11);
        CHECK(e->f32 <= 6e-8);
    }
    for (int i = 0; i < N_POSITIONS; i++) {
        const errors *e = &per_position[i];
        (void)printf("%-9lld binary64 %.2e, table %.2e (with binary32 frequencies %.2e)\n",
                     (long long)positions[i], e->f64, e->f32, e->f32_inv);
    }
    free(data);
}

LK_TEST(yarn_by_hand) {
    lk_rope_params params = LK_ROPE_PARAMS_DEFAULT;
    params.scaling = LK_ROPE_SCALING_YARN;
    params.factor = 4.0;
    params.original_context = 32768.0;
    params.attn_factor = 2.0;
    double inv[32];
    double magnitude;
    lk_error err;
    REQUIRE_OK(lk_rope_frequencies(&params, 64, inv, &magnitude, &err), err);
    CHECK(fabs(magnitude - 2.0 * 1.138629436111989) < 1e-15);
    CHECK(inv[17] == lk_pow(10000.0, -34.0 / 64.0)); /* the ramp begins at 17 */
    CHECK(inv[18] < lk_pow(10000.0, -36.0 / 64.0));
    CHECK(inv[30] == lk_pow(10000.0, -60.0 / 64.0) * 0.25); /* and ends at 30 */
    CHECK(inv[29] > lk_pow(10000.0, -58.0 / 64.0) * 0.25);
}

static void refused(const lk_rope_params *params, size_t n_rot, const char *subject) {
    double inv[LK_MAX_HEAD_DIM / 2];
    double magnitude = 5.0;
    lk_error err;
    CHECK_STATUS(LK_E_FORMAT, lk_rope_frequencies(params, n_rot, inv, &magnitude, &err));
    CHECK_MSG(strcmp(err.subject, subject) == 0, "%s, expected %s", err.subject, subject);
    CHECK(magnitude == 0.0);
}

LK_TEST(bad_parameters) {
    const lk_rope_params good = LK_ROPE_PARAMS_DEFAULT;
    refused(&good, 0, "rope.dimension_count");
    refused(&good, 63, "rope.dimension_count");
    refused(&good, 258, "rope.dimension_count");
    const double bad[5] = {0.0, -1.0, (double)NAN, (double)INFINITY, 1e300};
    for (int i = 0; i < 5; i++) {
        lk_rope_params p = good;
        p.base = bad[i];
        refused(&p, 64, "rope.freq_base");
        p = good;
        p.scaling = LK_ROPE_SCALING_LINEAR;
        p.factor = bad[i];
        refused(&p, 64, "rope.scaling.factor");
        p = good;
        p.scaling = LK_ROPE_SCALING_YARN;
        p.original_context = bad[i];
        refused(&p, 64, "rope.scaling.original_context_length");
        p.original_context = 4096.0;
        p.beta_slow = bad[i];
        refused(&p, 64, "rope.scaling.yarn_beta_fast");
        p.beta_slow = 1.0;
        p.attn_factor = bad[i];
        refused(&p, 64, "rope.scaling.attn_factor");
        p = good;
        float factors[32];
        for (int k = 0; k < 32; k++) {
            factors[k] = k == 31 ? (float)bad[i] : 1.0f;
        }
        p.factors = factors;
        refused(&p, 64, "rope_freqs.weight");
    }
}

LK_TEST_MAIN(LK_RUN(rotary_truth), LK_RUN(yarn_by_hand), LK_RUN(bad_parameters))
