/* math.h - the elementary functions of the numeric definition (docs/numerics.md, section 7).
 *
 * Made of IEEE add, subtract, multiply, divide and integer operations only, each rounded once, so
 * that every machine and vector width gives the same bits; no libm function takes part. lk_expf is
 * the pattern that kernels follow lane by lane. The binary64 functions run on the host, for tables
 * and for the sampler.
 *
 * Error bounds: measured by tests/unit/test_math.c against independent values. */
#ifndef LK_OPS_MATH_H
#define LK_OPS_MATH_H

#include <stdint.h>

#include "base/bytes.h"

/* e^x in binary32: at most 1.0 ulp from the true value for -87 <= x <= 88.37; +0 below, +inf above,
 * NaN for NaN. exp(0) is 1. The steps, for vector lanes:
 *
 *     t = x * LOG2E;  t = t + MAGIC            n in the low bits of t, to nearest even
 *     n = t - MAGIC
 *     r = x - n * LN2_HI                       product exact (9 and 7 bits), difference exact
 *     r = r - n * LN2_LO                       unfused
 *     y = C4;  y = y * r + C3;  y = y * r + C2;  y = y * r + C1;  y = y * r + C0    unfused
 *     y = y * (r * r);  y = y + r;  y = y + 1
 *     y = y * 2^n                              2^n from bits(t) << 23 + bits(1); product exact
 *     x < -87: +0;  x > 88.37: +inf */
#define LK_EXPF_MIN (-87.0f)
#define LK_EXPF_MAX 88.37f
#define LK_EXPF_LOG2E 0x1.715476p+0f
#define LK_EXPF_MAGIC 0x1.8p+23f
#define LK_EXPF_LN2_HI 0x1.63p-1f
#define LK_EXPF_LN2_LO (-0x1.bd0106p-13f)
#define LK_EXPF_C0 0.5f
#define LK_EXPF_C1 0x1.555466p-3f
#define LK_EXPF_C2 0x1.5552fep-5f
#define LK_EXPF_C3 0x1.12585cp-7f
#define LK_EXPF_C4 0x1.6ffd3ep-10f

/* 2^n * e^r = e^x: the sum y before 1 is added, and 2^n. */
static inline float lk_expf_parts(float x, float *power) {
    float t = x * LK_EXPF_LOG2E;
    t = t + LK_EXPF_MAGIC;
    const float n = t - LK_EXPF_MAGIC;
    float r = x - n * LK_EXPF_LN2_HI;
    r = r - n * LK_EXPF_LN2_LO;
    float y = LK_EXPF_C4;
    y = y * r + LK_EXPF_C3;
    y = y * r + LK_EXPF_C2;
    y = y * r + LK_EXPF_C1;
    y = y * r + LK_EXPF_C0;
    y = y * (r * r);
    *power = lk_f32_from_bits((lk_f32_bits(t) << 23) + 0x3f800000u);
    return y + r;
}

static inline float lk_expf(float x) {
    float power;
    float y = lk_expf_parts(x, &power);
    y = y + 1.0f;
    y = y * power;
    y = x < LK_EXPF_MIN ? 0.0f : y;
    return x > LK_EXPF_MAX ? lk_f32_from_bits(0x7f800000u) : y;
}

/* tanh x in binary32: at most 3 ulp from the true value; NaN for NaN. With z = min(2 |x|, 20) and
 * the t, n, r, y of lk_expf(z), e = y * 2^n + (2^n - 1) is e^z - 1 without cancellation, and
 * tanh x = e / (e + 2) with the sign of x. */
#define LK_TANHF_MAX 20.0f

static inline float lk_tanhf(float x) {
    const uint32_t sign = lk_f32_bits(x) & 0x80000000u;
    float z = lk_f32_from_bits(lk_f32_bits(x) & 0x7fffffffu) * 2.0f;
    z = z > LK_TANHF_MAX ? LK_TANHF_MAX : z;
    float power;
    const float y = lk_expf_parts(z, &power);
    const float e = y * power + (power - 1.0f);
    return lk_f32_from_bits(lk_f32_bits(e / (e + 2.0f)) | sign);
}

/* 2 sqrt(2 / pi) and that times 0.044715: twice the argument of the tanh in GELU. */
#define LK_GELU_LINEAR 0x1.988454p+0f
#define LK_GELU_CUBIC 0x1.2444f2p-4f
/* The clamped SiLU product: limit of both branches, factor of the logistic's argument (1.702). */
#define LK_CLAMPED_SILU_LIMIT 7.0f
#define LK_CLAMPED_SILU_FACTOR 0x1.b3b646p+0f

/* GELU by the error function, x * Phi(x), in binary32. With t = |x|, u = 1 / (1 + SLOPE * t) and
 * the polynomial P, q = P(u) * e^(-t^2 / 2) is Phi(-t) to 3.5e-7 of itself; the result is x * q for
 * x < 0, else x * (1 - q). NaN for NaN and for -inf. */
#define LK_GELU_ERF_SLOPE 0x1.eb851ep-3f
#define LK_GELU_ERF_C0 0x1.881658p-4f
#define LK_GELU_ERF_C1 0x1.88df9ap-4f
#define LK_GELU_ERF_C2 0x1.737d32p-4f
#define LK_GELU_ERF_C3 0x1.1cc272p-4f
#define LK_GELU_ERF_C4 0x1.bc2886p-4f
#define LK_GELU_ERF_C5 (-0x1.ceca2ep-5f)
#define LK_GELU_ERF_C6 0x1.2fb66ap-3f
#define LK_GELU_ERF_C7 (-0x1.aacbdcp-5f)

static inline float lk_gelu_erff(float x) {
    const float t = lk_f32_from_bits(lk_f32_bits(x) & 0x7fffffffu);
    const float u = 1.0f / (1.0f + LK_GELU_ERF_SLOPE * t);
    float p = LK_GELU_ERF_C7;
    p = p * u + LK_GELU_ERF_C6;
    p = p * u + LK_GELU_ERF_C5;
    p = p * u + LK_GELU_ERF_C4;
    p = p * u + LK_GELU_ERF_C3;
    p = p * u + LK_GELU_ERF_C2;
    p = p * u + LK_GELU_ERF_C1;
    p = p * u + LK_GELU_ERF_C0;
    p = p * u;
    const float q = p * lk_expf(-((t * t) * 0.5f));
    return x * (x < 0.0f ? q : 1.0f - q);
}

/* The binary64 functions. They carry intermediate results as unevaluated sums of two binary64
 * numbers (about 100 bits; Dekker 1971, Knuth TAOCP 4.2.2), so the result is nearly always the
 * nearest binary64 number. NaN for NaN. */

/* Natural logarithm: at most 0.51 ulp. -inf for 0, NaN below 0, +inf for +inf. */
double lk_log(double x);
/* 2^x: at most 0.65 ulp; +0 for x < -1022, +inf for x >= 1024. */
double lk_exp2(double x);
/* x^y for finite x > 0 and finite y, NaN for others: at most 0.65 ulp; +0 where the result is below
 * about 2^-1022, +inf from 2^1024 on. */
double lk_pow(double x, double y);
/* Sine and cosine of x radians: at most 0.8 ulp and 1.2e-16 for |x| <= 2^28; NaN beyond. */
void lk_sincos(double x, double *sin_x, double *cos_x);

#endif
