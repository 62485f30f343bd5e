/* matmul_float.h - matrix products with f32, f16 and bf16 weights. LK_S16_SETS pairs of (output,
 * activation row) are summed side by side, so that no chain of additions waits for itself: many
 * outputs of one row when decoding, a square of outputs and rows in a prompt. Every pair keeps its
 * own sixteen partial sums, so the arrangement decides no bit. */
#ifndef LK_BACKEND_CPU_KERN_MATMUL_FLOAT_H
#define LK_BACKEND_CPU_KERN_MATMUL_FLOAT_H

#include "backend/cpu/kern/vec.h"

typedef enum lk_float_weights {
    LK_WEIGHTS_F32,
    LK_WEIGHTS_F16,
    LK_WEIGHTS_BF16,
    LK_WEIGHTS_F16_WIDE /* binary16 values that stand in memory as binary32 */
} lk_float_weights;

enum { LK_SETS_SIDE = LK_S16_SETS == 16 ? 4 : 2 }; /* the square of outputs and rows */

/* bf16 weights as section 6 reads them: below 2^-60 +0, from 2^64 on infinite. */
LK_INLINE lk_vf lk_vf_bf16_weights(lk_vi bits) {
    const lk_vi magnitude = lk_vi_and(bits, lk_vi_set32(0x7fffffff));
    const lk_vi above = lk_vi_sub32(magnitude, lk_vi_set32(0x5f800000));
    const lk_vi infinite =
        lk_vi_or(lk_vi_and(bits, lk_vi_set32((int32_t)0x80000000u)), lk_vi_set32(0x7f800000));
    const lk_vi capped = lk_vi_if_less_u32(above, lk_vi_set32(0x20000000), infinite, bits);
    return lk_vf_bits(lk_vi_if_less_u32(magnitude, lk_vi_set32(0x21800000), lk_vi_zero(), capped));
}

/* n weights from element k of the row at w; zeros behind. */
LK_INLINE lk_vf lk_vf_load_weights(lk_float_weights kind, const uint8_t *w, size_t k, size_t n) {
    switch (kind) {
    case LK_WEIGHTS_F16:
        return lk_vf_load_f16_n(w + 2 * k, n);
    case LK_WEIGHTS_BF16:
        return lk_vf_bf16_weights(lk_vi_load_bf16_n(w + 2 * k, n));
    case LK_WEIGHTS_F32:
    case LK_WEIGHTS_F16_WIDE:
        break;
    }
    return lk_vf_load_n((const float *)(const void *)(w + 4 * k), n);
}

/* p + w * x: products with 16-bit weights are exact and may be fused. */
LK_INLINE lk_vf lk_vf_add_product(lk_float_weights kind, lk_vf p, lk_vf w, lk_vf x) {
    return kind == LK_WEIGHTS_F32 ? lk_vf_add(p, lk_vf_mul(w, x)) : lk_vf_fma(w, x, p);
}

/* Elements k .. k + n - 1 (one vector, number v of its sixteen partial sums) of all pairs. */
LK_INLINE void lk_float_step(lk_float_weights kind, int n_o, int n_r, const uint8_t *const *w,
                             const float *const *x, size_t k, size_t n, size_t v,
                             lk_vf p[LK_S16_SETS][LK_S16_VECS]) {
    lk_vf rows[LK_S16_SETS];
#pragma GCC unroll 16
    for (int r = 0; r < n_r; r++) {
        rows[r] = lk_vf_load_n(x[r] + k, n);
    }
#pragma GCC unroll 16
    for (int o = 0; o < n_o; o++) {
        const lk_vf weights = lk_vf_load_weights(kind, w[o], k, n);
#pragma GCC unroll 16
        for (int r = 0; r < n_r; r++) {
            p[o * n_r + r][v] = lk_vf_add_product(kind, p[o * n_r + r][v], weights, rows[r]);
        }
    }
}

/* n_o * n_r = LK_S16_SETS dot products over n elements: out[o * n_r + r]. */
LK_INLINE void lk_float_dots(lk_float_weights kind, int n_o, int n_r, const uint8_t *const *w,
                             const float *const *x, size_t n, float out[LK_S16_SETS]) {
    lk_vf p[LK_S16_SETS][LK_S16_VECS];
#pragma GCC unroll 16
    for (int i = 0; i < LK_S16_SETS; i++) {
#pragma GCC unroll 2
        for (int v = 0; v < LK_S16_VECS; v++) {
            p[i][v] = lk_vf_zero();
        }
    }
    size_t k = 0;
    for (; k + 16 <= n; k += 16) {
#pragma GCC unroll 2
        for (size_t v = 0; v < LK_S16_VECS; v++) {
            lk_float_step(kind, n_o, n_r, w, x, k + v * LK_VEC_LANES, LK_VEC_LANES, v, p);
        }
    }
#pragma GCC unroll 2
    for (size_t v = 0; v < LK_S16_VECS; v++) {
        const size_t at = k + v * LK_VEC_LANES;
        if (at < n) {
            const size_t left = n - at;
            lk_float_step(kind, n_o, n_r, w, x, at, left < LK_VEC_LANES ? left : LK_VEC_LANES, v,
                          p);
        }
    }
    lk_s16_trees(p, out);
}

/* Outputs [o, o_end) at most n_o, rows r .. r + n_r - 1. Missing outputs are computed as copies of
 * the last one and dropped. */
LK_INLINE void lk_float_tile(lk_float_weights kind, int n_o, int n_r, const uint8_t *w,
                             size_t row_bytes, size_t n, size_t o, size_t o_end, const float *x,
                             size_t x_stride, size_t r, float *y, size_t y_stride) {
    const uint8_t *rows_w[LK_S16_SETS];
    const float *rows_x[LK_S16_SETS];
    const size_t n_valid = o_end - o < (size_t)n_o ? o_end - o : (size_t)n_o;
#pragma GCC unroll 16
    for (int i = 0; i < n_o; i++) {
        const size_t at = o + ((size_t)i < n_valid ? (size_t)i : n_valid - 1);
        rows_w[i] = w + at * row_bytes;
    }
#pragma GCC unroll 16
    for (int i = 0; i < n_r; i++) {
        rows_x[i] = x + (r + (size_t)i) * x_stride;
    }
    float out[LK_S16_SETS];
    lk_float_dots(kind, n_o, n_r, rows_w, rows_x, n, out);
    for (size_t i = 0; i < n_valid; i++) {
        for (size_t j = 0; j < (size_t)n_r; j++) {
            y[(r + j) * y_stride + o + i] = out[i * (size_t)n_r + j];
        }
    }
}

/* lk_matmul_float_fn for one kind of weights. Outputs go by blocks of LK_S16_SETS; a block's
 * weights come from memory once and serve all rows from the cache. */
LK_INLINE void lk_matmul_float(lk_float_weights kind, const uint8_t *w, size_t row_bytes, size_t n,
                               size_t o_begin, size_t o_end, const float *x, size_t x_stride,
                               size_t n_rows, float *y, size_t y_stride) {
    for (size_t o = o_begin; o < o_end; o += LK_S16_SETS) {
        const size_t end = o_end - o < LK_S16_SETS ? o_end : o + LK_S16_SETS;
        size_t r = 0;
        for (; r + LK_SETS_SIDE <= n_rows; r += LK_SETS_SIDE) {
            for (size_t at = o; at < end; at += LK_SETS_SIDE) {
                lk_float_tile(kind, LK_SETS_SIDE, LK_SETS_SIDE, w, row_bytes, n, at, end, x,
                              x_stride, r, y, y_stride);
            }
        }
        for (; r < n_rows; r++) {
            lk_float_tile(kind, LK_S16_SETS, 1, w, row_bytes, n, o, end, x, x_stride, r, y,
                          y_stride);
        }
    }
}

#endif
