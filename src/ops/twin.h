/* twin.h - what the scalar twins share: the order of sums S16 (section 2 of docs/numerics.md), the
 * rounded operands (section 3), one group of the activation quantiser (section 4) and the test for
 * finite values. All static inline, without state: kernels may use them for their tails. */
#ifndef LK_OPS_TWIN_H
#define LK_OPS_TWIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum { LK_SUM_LANES = 16 };

/* The tree that ends S16. p: the 16 partial sums. */
static inline float lk_sum16_tree(const float p[LK_SUM_LANES]) {
    float a[8];
    for (int j = 0; j < 8; j++) {
        a[j] = p[j] + p[j + 8];
    }
    for (int j = 0; j < 4; j++) {
        a[j] = a[j] + a[j + 4];
    }
    for (int j = 0; j < 2; j++) {
        a[j] = a[j] + a[j + 2];
    }
    return a[0] + a[1];
}

/* p[j] += a[j] * b[j] for j < n <= 16, products rounded: one round of S16. */
static inline void lk_sum16_add(float p[LK_SUM_LANES], const float *a, const float *b, size_t n) {
    if (n == LK_SUM_LANES) {
        for (size_t j = 0; j < LK_SUM_LANES; j++) {
            p[j] = p[j] + a[j] * b[j];
        }
        return;
    }
    for (size_t j = 0; j < n; j++) {
        p[j] = p[j] + a[j] * b[j];
    }
}

/* S16 over a[k] * b[k]. */
static inline float lk_sum16_dot(const float *a, const float *b, size_t n) {
    float p[LK_SUM_LANES] = {0.0f};
    for (size_t k = 0; k < n; k += LK_SUM_LANES) {
        lk_sum16_add(p, a + k, b + k, n - k < LK_SUM_LANES ? n - k : LK_SUM_LANES);
    }
    return lk_sum16_tree(p);
}

static inline bool lk_is_finite_f32(float x) {
    return (lk_f32_bits(x) & 0x7fffffffu) < 0x7f800000u;
}

/* x to the nearest multiple of 2^drop of its bit pattern, ties to even. Finite x only. */
static inline float lk_round_bits(float x, uint32_t drop) {
    const uint32_t bits = lk_f32_bits(x);
    const uint32_t half = (1u << (drop - 1u)) - 1u + ((bits >> drop) & 1u);
    return lk_f32_from_bits((bits + half) & ~((1u << drop) - 1u));
}
/* r13, r16, r16b of section 3. The caller flags |x| >= the limit, infinities and NaN. */
#define LK_ROUND13_LIMIT 0x1p+111f
#define LK_ROUND16_LIMIT 0x1p+120f
#define LK_ROUND16B_LIMIT 0x1p+62f
static inline float lk_round13(float x) {
    const float y = lk_round_bits(x, 11);
    return (lk_f32_bits(y) & 0x7fffffffu) < 0x0d800000u ? 0.0f : y; /* 2^-100 */
}
static inline float lk_round16(float x) {
    const float y = lk_round_bits(x, 8);
    return (lk_f32_bits(y) & 0x7fffffffu) < 0x0d800000u ? 0.0f : y;
}
static inline float lk_round16b(float x) {
    const float y = lk_round_bits(x, 8);
    return (lk_f32_bits(y) & 0x7fffffffu) < 0x21800000u ? 0.0f : y; /* 2^-60 */
}

/* rint to nearest even for |x| < 2^22. */
static inline float lk_rint_small(float x) {
    return (x + 0x1.8p+23f) - 0x1.8p+23f;
}

/* One group of section 4: q [n], *d. False when a value is not finite: then d = 0 and q = 0. */
static inline bool lk_quantize_group(const float *x, size_t n, int8_t *q, float *d) {
    uint32_t largest = 0;
    for (size_t k = 0; k < n; k++) {
        const uint32_t a = lk_f32_bits(x[k]) & 0x7fffffffu;
        largest = a > largest ? a : largest;
    }
    if (largest >= 0x7f800000u || largest < 0x0d800000u) { /* not finite, or below 2^-100 */
        for (size_t k = 0; k < n; k++) {
            q[k] = 0;
        }
        *d = 0.0f;
        return largest < 0x7f800000u;
    }
    const float a = lk_f32_from_bits(largest);
    const float r = 127.0f / a;
    *d = a / 127.0f;
    for (size_t k = 0; k < n; k++) {
        float v = lk_rint_small(x[k] * r);
        v = v > 127.0f ? 127.0f : v;
        v = v < -127.0f ? -127.0f : v;
        q[k] = (int8_t)v;
    }
    return true;
}

#endif
