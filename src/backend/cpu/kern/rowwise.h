/* rowwise.h - the operators on one row, over vectors of either instruction set: rounding,
 * quantiser, norm, rotation, element-wise, the test for finite values, and the KV store. Each
 * follows its twin in src/ops step by step; ends of rows are loaded and stored under a mask. */
#ifndef LK_BACKEND_CPU_KERN_ROWWISE_H
#define LK_BACKEND_CPU_KERN_ROWWISE_H

#include <math.h>

#include "backend/cpu/kern/expf.h"
#include "ops/ops.h"
#include "ops/twin.h"

/* Elements of the vector that starts at k. */
LK_INLINE size_t lk_vec_count(size_t k, size_t n) {
    return n - k < LK_VEC_LANES ? n - k : LK_VEC_LANES;
}

LK_INLINE lk_vi lk_vi_magnitude(lk_vf x) {
    return lk_vi_and(lk_vi_bits(x), lk_vi_set32(0x7fffffff));
}

/* Largest bit pattern without sign of n values. */
LK_INLINE uint32_t lk_vec_largest(const float *x, size_t n) {
    lk_vi largest = lk_vi_zero();
    for (size_t k = 0; k < n; k += LK_VEC_LANES) {
        largest = lk_vi_max_u32(largest, lk_vi_magnitude(lk_vf_load_n(x + k, lk_vec_count(k, n))));
    }
    return lk_vi_largest_u32(largest);
}

/* ---- element-wise ---- */

LK_INLINE void lk_vec_add(const float *a, const float *b, size_t n, float *y) {
    for (size_t k = 0; k < n; k += LK_VEC_LANES) {
        const size_t c = lk_vec_count(k, n);
        lk_vf_store_n(y + k, lk_vf_add(lk_vf_load_n(a + k, c), lk_vf_load_n(b + k, c)), c);
    }
}

LK_INLINE void lk_vec_scale_add(const float *x, float weight, size_t n, float *y) {
    const lk_vf w = lk_vf_set(weight);
    for (size_t k = 0; k < n; k += LK_VEC_LANES) {
        const size_t c = lk_vec_count(k, n);
        const lk_vf product = lk_vf_mul(w, lk_vf_load_n(x + k, c));
        lk_vf_store_n(y + k, lk_vf_add(lk_vf_load_n(y + k, c), product), c);
    }
}

LK_INLINE void lk_vec_silu_mul(const float *gate, const float *up, size_t n, float *y) {
    const lk_vf one = lk_vf_set(1.0f);
    for (size_t k = 0; k < n; k += LK_VEC_LANES) {
        const size_t c = lk_vec_count(k, n);
        const lk_vf g = lk_vf_load_n(gate + k, c);
        const lk_vf s = lk_vf_div(g, lk_vf_add(one, lk_vf_exp(lk_vf_neg(g))));
        lk_vf_store_n(y + k, lk_vf_mul(s, lk_vf_load_n(up + k, c)), c);
    }
}

LK_INLINE void lk_vec_gelu_mul(const float *gate, const float *up, size_t n, float *y) {
    const lk_vf one = lk_vf_set(1.0f);
    for (size_t k = 0; k < n; k += LK_VEC_LANES) {
        const size_t c = lk_vec_count(k, n);
        const lk_vf g = lk_vf_load_n(gate + k, c);
        lk_vf w = lk_vf_mul(g, g);
        w = lk_vf_add(lk_vf_mul(w, lk_vf_set(LK_GELU_CUBIC)), lk_vf_set(LK_GELU_LINEAR));
        const lk_vf e = lk_vf_exp(lk_vf_neg(lk_vf_mul(g, w)));
        const lk_vf s = lk_vf_div(g, lk_vf_add(one, e));
        lk_vf_store_n(y + k, lk_vf_mul(s, lk_vf_load_n(up + k, c)), c);
    }
}

LK_INLINE void lk_vec_clamped_silu_mul(const float *gate, const float *up, size_t n, float *y) {
    const lk_vf one = lk_vf_set(1.0f);
    const lk_vf high = lk_vf_set(LK_CLAMPED_SILU_LIMIT);
    const lk_vf low = lk_vf_neg(high);
    for (size_t k = 0; k < n; k += LK_VEC_LANES) {
        const size_t c = lk_vec_count(k, n);
        lk_vf g = lk_vf_load_n(gate + k, c);
        g = lk_vf_if_less(high, g, high, g);
        lk_vf u = lk_vf_load_n(up + k, c);
        u = lk_vf_if_less(high, u, high, u);
        u = lk_vf_if_less(u, low, low, u);
        const lk_vf e = lk_vf_exp(lk_vf_neg(lk_vf_mul(g, lk_vf_set(LK_CLAMPED_SILU_FACTOR))));
        const lk_vf s = lk_vf_div(g, lk_vf_add(one, e));
        lk_vf_store_n(y + k, lk_vf_mul(s, lk_vf_add(u, one)), c);
    }
}

LK_INLINE void lk_vec_scale(const float *x, float factor, size_t n, float *y) {
    for (size_t k = 0; k < n; k += LK_VEC_LANES) {
        const size_t c = lk_vec_count(k, n);
        lk_vf_store_n(y + k, lk_vf_mul(lk_vf_load_n(x + k, c), lk_vf_set(factor)), c);
    }
}

LK_INLINE void lk_vec_softcap(const float *x, float cap, size_t n, float *y) {
    const lk_vf c = lk_vf_set(cap);
    for (size_t k = 0; k < n; k += LK_VEC_LANES) {
        const size_t count = lk_vec_count(k, n);
        const lk_vf t = lk_vf_tanh(lk_vf_div(lk_vf_load_n(x + k, count), c));
        lk_vf_store_n(y + k, lk_vf_mul(t, c), count);
    }
}

LK_INLINE void lk_vec_gelu_erf(const float *x, size_t n, float *y) {
    for (size_t k = 0; k < n; k += LK_VEC_LANES) {
        const size_t c = lk_vec_count(k, n);
        lk_vf_store_n(y + k, lk_vf_gelu_erf(lk_vf_load_n(x + k, c)), c);
    }
}

/* ---- rounding ---- */

/* lk_round13, lk_round16, lk_round16b (ops/twin.h): `drop` low bits go; magnitudes below `least`
 * become +0. */
LK_INLINE lk_vf lk_vf_round_bits(lk_vf x, int drop, uint32_t least) {
    const lk_vi bits = lk_vi_bits(x);
    const lk_vi odd = lk_vi_and(lk_vi_shr32(bits, drop), lk_vi_set32(1));
    const lk_vi half = lk_vi_add32(odd, lk_vi_set32((1 << (drop - 1)) - 1));
    const lk_vi rounded =
        lk_vi_and(lk_vi_add32(bits, half), lk_vi_set32((int32_t)(0xffffffffu << drop)));
    const lk_vi magnitude = lk_vi_and(rounded, lk_vi_set32(0x7fffffff));
    return lk_vf_bits(
        lk_vi_if_less_u32(magnitude, lk_vi_set32((int32_t)least), lk_vi_zero(), rounded));
}
LK_INLINE lk_vf lk_vf_round13(lk_vf x) {
    return lk_vf_round_bits(x, 11, 0x0d800000u);
}
LK_INLINE lk_vf lk_vf_round16(lk_vf x) {
    return lk_vf_round_bits(x, 8, 0x0d800000u);
}

LK_INLINE void lk_vec_round(const float *x, size_t n, int drop, uint32_t least, float limit,
                            float *y, uint32_t *flag) {
    lk_vi largest = lk_vi_zero();
    for (size_t k = 0; k < n; k += LK_VEC_LANES) {
        const size_t c = lk_vec_count(k, n);
        const lk_vf v = lk_vf_load_n(x + k, c);
        largest = lk_vi_max_u32(largest, lk_vi_magnitude(v));
        lk_vf_store_n(y + k, lk_vf_round_bits(v, drop, least), c);
    }
    if (lk_vi_largest_u32(largest) >= lk_f32_bits(limit)) { /* infinities and NaN lie above */
        *flag = 1;
    }
}

LK_INLINE void lk_vec_act_round(const float *x, size_t n, lk_round_mode mode, float *y,
                                uint32_t *flag) {
    switch (mode) {
    case LK_ROUND_13:
        lk_vec_round(x, n, 11, 0x0d800000u, LK_ROUND13_LIMIT, y, flag);
        break;
    case LK_ROUND_16:
        lk_vec_round(x, n, 8, 0x0d800000u, LK_ROUND16_LIMIT, y, flag);
        break;
    case LK_ROUND_16B:
        lk_vec_round(x, n, 8, 0x21800000u, LK_ROUND16B_LIMIT, y, flag);
        break;
    }
}

/* ---- quantiser ---- */

/* lk_quantize_group (ops/twin.h): n a multiple of 8. Returns the largest bit pattern. */
LK_INLINE uint32_t lk_vec_quantize_group(const float *x, size_t n, int8_t *q, float *d) {
    const uint32_t largest = lk_vec_largest(x, n);
    if (largest >= 0x7f800000u || largest < 0x0d800000u) {
        memset(q, 0, n);
        *d = 0.0f;
        return largest;
    }
    const float a = lk_f32_from_bits(largest);
    const lk_vf r = lk_vf_set(127.0f / a);
    *d = a / 127.0f;
    for (size_t k = 0; k < n; k += LK_VEC_LANES) {
        const size_t c = lk_vec_count(k, n);
        const lk_vi v = lk_vi_round(lk_vf_mul(lk_vf_load_n(x + k, c), r));
        lk_vi_store_i8(q + k, lk_vi_clamp(v, -127, 127), c);
    }
    return largest;
}

LK_INLINE void lk_vec_act_quantize(const float *x, size_t n, uint32_t group, int8_t *q, float *d,
                                   int16_t *sums, uint32_t *flag) {
    for (size_t k = 0; k < n; k += group) {
        if (lk_vec_quantize_group(x + k, group, q + k, d + k / group) >= 0x7f800000u) {
            *flag = 1;
        }
    }
    for (size_t k = 0; k < n; k += LK_SUBGROUP) {
        sums[k / LK_SUBGROUP] = lk_sum16_i8(q + k);
    }
}

/* ---- KV store ---- */

LK_INLINE void lk_vec_kv_store(lk_kv_format format, const float *x, size_t head_dim, uint8_t *block,
                               size_t i_in_page, uint32_t *flag) {
    if (format == LK_KV_FORMAT_F32) {
        memcpy(block + i_in_page * head_dim * sizeof(float), x, head_dim * sizeof(float));
        if (lk_vec_largest(x, head_dim) >= 0x7f800000u) {
            *flag = 1;
        }
    } else if (format == LK_KV_FORMAT_F16) {
        for (size_t k = 0; k < head_dim; k += LK_VEC_LANES) {
            const size_t c = lk_vec_count(k, head_dim);
            lk_vf_store_f16(block + (i_in_page * head_dim + k) * 2, lk_vf_load_n(x + k, c), c);
        }
        if (lk_vec_largest(x, head_dim) >= 0x477ff000u) { /* 65520 becomes infinite */
            *flag = 1;
        }
    } else {
        const size_t n_groups = (head_dim + LK_KV_GROUP - 1) / LK_KV_GROUP;
        int8_t *q = (int8_t *)block + i_in_page * head_dim;
        uint8_t *scales = block + LK_CHUNK * head_dim + i_in_page * n_groups * sizeof(float);
        for (size_t k = 0; k < head_dim; k += LK_KV_GROUP) {
            const size_t n = head_dim - k < LK_KV_GROUP ? head_dim - k : LK_KV_GROUP;
            float d;
            if (lk_vec_quantize_group(x + k, n, q + k, &d) >= 0x7f000000u) { /* 2^127 */
                *flag = 1;
            }
            memcpy(scales + k / LK_KV_GROUP * sizeof d, &d, sizeof d);
        }
    }
}

/* ---- norm ---- */

LK_INLINE float lk_vec_sum_of_squares(const float *x, size_t n) {
    lk_vf p[LK_S16_VECS];
#pragma GCC unroll 2
    for (int v = 0; v < LK_S16_VECS; v++) {
        p[v] = lk_vf_zero();
    }
    size_t k = 0;
    for (; k + 16 <= n; k += 16) {
#pragma GCC unroll 2
        for (size_t v = 0; v < LK_S16_VECS; v++) {
            const lk_vf a = lk_vf_load(x + k + v * LK_VEC_LANES);
            p[v] = lk_vf_add(p[v], lk_vf_mul(a, a));
        }
    }
    for (size_t v = 0; k < n; v++, k += LK_VEC_LANES) {
        const lk_vf a = lk_vf_load_n(x + k, lk_vec_count(k, n));
        p[v] = lk_vf_add(p[v], lk_vf_mul(a, a));
    }
    return lk_s16_tree(p);
}

LK_INLINE void lk_vec_rms_norm(const float *x, const float *w, float eps, size_t n, float *y,
                               uint32_t *flag) {
    const float s = lk_vec_sum_of_squares(x, n);
    if (!lk_is_finite_f32(s)) {
        *flag = 1;
    }
    const lk_vf c = lk_vf_set(1.0f / sqrtf(s / (float)n + eps));
    for (size_t k = 0; k < n; k += LK_VEC_LANES) {
        const size_t count = lk_vec_count(k, n);
        const lk_vf scaled = lk_vf_mul(lk_vf_load_n(x + k, count), c);
        lk_vf_store_n(y + k, lk_vf_mul(scaled, lk_vf_load_n(w + k, count)), count);
    }
}

/* The sum of x[k], or of the squares of x[k] - mean. */
LK_INLINE float lk_vec_sum(const float *x, size_t n, const float *mean) {
    const lk_vf m = lk_vf_set(mean != NULL ? *mean : 0.0f);
    lk_vf p[LK_S16_VECS];
#pragma GCC unroll 2
    for (int v = 0; v < LK_S16_VECS; v++) {
        p[v] = lk_vf_zero();
    }
    for (size_t k = 0; k < n; k += 16) {
#pragma GCC unroll 2
        for (size_t v = 0; v < LK_S16_VECS; v++) {
            const size_t at = k + v * LK_VEC_LANES;
            if (at >= n) {
                break;
            }
            const size_t count = lk_vec_count(at, n);
            lk_vf a = lk_vf_load_n(x + at, count);
            if (mean != NULL) {
                a = lk_vf_sub(a, m);
                a = lk_vf_mul(a, a);
            }
            p[v] = lk_vf_add(p[v], count == LK_VEC_LANES ? a : lk_vf_keep(a, count));
        }
    }
    return lk_s16_tree(p);
}

LK_INLINE void lk_vec_layer_norm(const float *x, const float *w, const float *b, float eps,
                                 size_t n, float *y, uint32_t *flag) {
    const float mean = lk_vec_sum(x, n, NULL) / (float)n;
    const float s = lk_vec_sum(x, n, &mean);
    if (!lk_is_finite_f32(s)) {
        *flag = 1;
    }
    const lk_vf m = lk_vf_set(mean);
    const lk_vf c = lk_vf_set(1.0f / sqrtf(s / (float)n + eps));
    for (size_t k = 0; k < n; k += LK_VEC_LANES) {
        const size_t count = lk_vec_count(k, n);
        const lk_vf d = lk_vf_mul(lk_vf_sub(lk_vf_load_n(x + k, count), m), c);
        const lk_vf scaled = lk_vf_mul(d, lk_vf_load_n(w + k, count));
        lk_vf_store_n(y + k, lk_vf_add(scaled, lk_vf_load_n(b + k, count)), count);
    }
}

/* ---- rotation ---- */

LK_INLINE void lk_vec_rope_normal(float *x, size_t n_rot, const float *cos_sin) {
    const lk_vf even_sign = lk_vf_bits(lk_vi_even_sign());
    for (size_t k = 0; k < n_rot; k += LK_VEC_LANES) {
        const size_t count = lk_vec_count(k, n_rot);
        const lk_vf v = lk_vf_load_n(x + k, count);
        const lk_vf cs = lk_vf_load_n(cos_sin + k, count);
        const lk_vf a = lk_vf_mul(v, lk_vf_even_twice(cs));
        const lk_vf b = lk_vf_mul(lk_vf_swap_pairs(v), lk_vf_odd_twice(cs));
        lk_vf_store_n(x + k, lk_vf_add(a, lk_vf_xor(b, even_sign)), count); /* a - b in even */
    }
}

LK_INLINE void lk_vec_rope_neox(float *x, size_t n_rot, const float *cos_sin) {
    const size_t half = n_rot / 2;
    for (size_t k = 0; k < half; k += LK_VEC_LANES) {
        const size_t count = lk_vec_count(k, half);
        const size_t low = 2 * count < LK_VEC_LANES ? 2 * count : LK_VEC_LANES;
        const lk_vf first = lk_vf_load_n(cos_sin + 2 * k, low);
        const lk_vf second = 2 * count > LK_VEC_LANES ? lk_vf_load_n(cos_sin + 2 * k + LK_VEC_LANES,
                                                                     2 * count - LK_VEC_LANES)
                                                      : lk_vf_zero();
        lk_vf c;
        lk_vf s;
        lk_vf_unzip(first, second, &c, &s);
        const lk_vf x0 = lk_vf_load_n(x + k, count);
        const lk_vf x1 = lk_vf_load_n(x + half + k, count);
        lk_vf_store_n(x + k, lk_vf_sub(lk_vf_mul(x0, c), lk_vf_mul(x1, s)), count);
        lk_vf_store_n(x + half + k, lk_vf_add(lk_vf_mul(x0, s), lk_vf_mul(x1, c)), count);
    }
}

#endif
