/* dot_neon.h - tiles times activation rows with the dot product instructions of NEON, or the matrix
 * instructions where the file is compiled for I8MM, four outputs at a time. Bytes are signed (those
 * with a bias are small), what the bias adds is where the sums start. Integer sums are exact in
 * int32 (quant/unpacked.h has the bounds), floats follow section 5 of numerics.md. */
#ifndef LK_BACKEND_CPU_KERN_DOT_NEON_H
#define LK_BACKEND_CPU_KERN_DOT_NEON_H

#include "backend/cpu/kern/tile.h"
#include "ops/ops.h"

/* One activation row from the tile's first column on. */
typedef struct lk_tile_row {
    const int8_t *q;
    const float *d;
    const int16_t *sums;
} lk_tile_row;

enum { LK_TILE_MAX_BLOCK_ROWS = 8 }; /* rows that one pass over a tile serves */

/* The sums of n_dwords (a multiple of four) dwords of the tile from k4 on, added to s. at: the
 * first byte of the four outputs. */
LK_INLINE void lk_tile_sums(int n_rows, size_t n_dwords, const lk_tile *tile, size_t k4, size_t at,
                            const lk_tile_row *rows, int32x4_t *s) {
#pragma GCC unroll 2
    for (size_t j = k4; j < k4 + n_dwords; j += 4) {
        const int8x16_t w0 = vreinterpretq_s8_s32(lk_vi_load(tile->w[j] + at));
        const int8x16_t w1 = vreinterpretq_s8_s32(lk_vi_load(tile->w[j + 1] + at));
        const int8x16_t w2 = vreinterpretq_s8_s32(lk_vi_load(tile->w[j + 2] + at));
        const int8x16_t w3 = vreinterpretq_s8_s32(lk_vi_load(tile->w[j + 3] + at));
#pragma GCC unroll 8
        for (int r = 0; r < n_rows; r++) {
            const int8x16_t a = vld1q_s8(rows[r].q + 4 * j);
            s[r] = vdotq_laneq_s32(s[r], w0, a, 0);
            s[r] = vdotq_laneq_s32(s[r], w1, a, 1);
            s[r] = vdotq_laneq_s32(s[r], w2, a, 2);
            s[r] = vdotq_laneq_s32(s[r], w3, a, 3);
        }
    }
}

/* Sum of the activations of group i. */
LK_INLINE int32_t lk_tile_group_sum(lk_tile_kind kind, const lk_tile_row *row, size_t i) {
    return kind.group_elems == 16 ? row->sums[i] : row->sums[2 * i] + row->sums[2 * i + 1];
}

LK_INLINE int32_t lk_tile_start(lk_tile_kind kind, const lk_tile_row *row, size_t i) {
    return kind.bias == 0 ? 0 : -kind.bias * lk_tile_group_sum(kind, row, i);
}

#if defined(__ARM_FEATURE_MATMUL_INT8)
LK_INLINE int64x2_t lk_s64(int32x4_t v) {
    return vreinterpretq_s64_s32(v);
}
LK_INLINE int64x2_t lk_tile_act16(const int8_t *q) {
    return vreinterpretq_s64_s8(vld1q_s8(q));
}
LK_INLINE int8x16_t lk_tile_low_halves(int64x2_t a, int64x2_t b) {
    return vreinterpretq_s8_s64(vtrn1q_s64(a, b));
}
LK_INLINE int8x16_t lk_tile_high_halves(int64x2_t a, int64x2_t b) {
    return vreinterpretq_s8_s64(vtrn2q_s64(a, b));
}

/* The sums of group i for rows in pairs. One instruction multiplies eight columns of two activation
 * rows by those of two weight rows: x[2 p] has rows 2 p and 2 p + 1 times outputs 0 and 1, x[2 p +
 * 1] times outputs 2 and 3. */
LK_INLINE void lk_tile_pair_sums(lk_tile_kind kind, int n_rows, const lk_tile *tile, size_t i,
                                 size_t at, const lk_tile_row *rows, int32x4_t *s) {
    const size_t n_dwords = kind.group_elems / 4;
    int32x4_t x[LK_TILE_MAX_BLOCK_ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r += 2) {
        const int32x2_t start0 = vdup_n_s32(lk_tile_start(kind, &rows[r], i));
        const int32x2_t start1 = vdup_n_s32(lk_tile_start(kind, &rows[r + 1], i));
        x[r] = x[r + 1] = vcombine_s32(start0, start1);
    }
#pragma GCC unroll 2
    for (size_t j = n_dwords * i; j < n_dwords * (i + 1); j += 4) {
        int8x16_t w[4]; /* columns 0 .. 7 of outputs 0 and 1, of 2 and 3, then columns 8 .. 15 */
#pragma GCC unroll 2
        for (size_t k = 0; k < 2; k++) {
            const int32x4_t even = lk_vi_load(tile->w[j + 2 * k] + at);
            const int32x4_t odd = lk_vi_load(tile->w[j + 2 * k + 1] + at);
            w[2 * k] = vreinterpretq_s8_s32(vzip1q_s32(even, odd));
            w[2 * k + 1] = vreinterpretq_s8_s32(vzip2q_s32(even, odd));
        }
#pragma GCC unroll 4
        for (int r = 0; r < n_rows; r += 2) {
            const int64x2_t a = lk_tile_act16(rows[r].q + 4 * j);
            const int64x2_t b = lk_tile_act16(rows[r + 1].q + 4 * j);
            const int8x16_t low = lk_tile_low_halves(a, b);
            const int8x16_t high = lk_tile_high_halves(a, b);
            x[r] = vmmlaq_s32(x[r], low, w[0]);
            x[r + 1] = vmmlaq_s32(x[r + 1], low, w[1]);
            x[r] = vmmlaq_s32(x[r], high, w[2]);
            x[r + 1] = vmmlaq_s32(x[r + 1], high, w[3]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r += 2) {
        s[r] = vreinterpretq_s32_s64(vtrn1q_s64(lk_s64(x[r]), lk_s64(x[r + 1])));
        s[r + 1] = vreinterpretq_s32_s64(vtrn2q_s64(lk_s64(x[r]), lk_s64(x[r + 1])));
    }
}
#endif

/* The sums of group i. */
LK_INLINE void lk_tile_group_sums(lk_tile_kind kind, int n_rows, const lk_tile *tile, size_t i,
                                  size_t at, const lk_tile_row *rows, int32x4_t *s) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
    if (n_rows % 2 == 0) {
        lk_tile_pair_sums(kind, n_rows, tile, i, at, rows, s);
        return;
    }
#endif
    const size_t n_dwords = kind.group_elems / 4;
#pragma GCC unroll 8
    for (int r = 0; r < n_rows; r++) {
        s[r] = vdupq_n_s32(lk_tile_start(kind, &rows[r], i));
    }
    lk_tile_sums(n_rows, n_dwords, tile, n_dwords * i, at, rows, s);
}

/* 32-element blocks: y[r] gets n_groups blocks in order. */
LK_INLINE void lk_tile_dot_block32(lk_tile_kind kind, int n_rows, const lk_tile *tile,
                                   const lk_tile_row *rows, size_t n_groups,
                                   float (*y)[LK_TILE_ROWS]) {
    for (size_t o = 0; o < LK_TILE_ROWS; o += LK_VEC_LANES) {
        float32x4_t acc[LK_TILE_MAX_BLOCK_ROWS];
#pragma GCC unroll 8
        for (int r = 0; r < n_rows; r++) {
            acc[r] = vld1q_f32(&y[r][o]);
        }
        for (size_t i = 0; i < n_groups; i++) {
            if (o == 0) {
                lk_tile_fetch(kind, tile, i, LK_TILE_ELEMS / LK_TILE_GROUP);
            }
            int32x4_t s[LK_TILE_MAX_BLOCK_ROWS];
            lk_tile_group_sums(kind, n_rows, tile, i, 4 * o, rows, s);
            const float32x4_t d = vld1q_f32(&tile->d[i][o]);
#pragma GCC unroll 8
            for (int r = 0; r < n_rows; r++) {
                const float32x4_t d_a = vdupq_n_f32(rows[r].d[i]);
                acc[r] = vaddq_f32(acc[r], vmulq_f32(vmulq_f32(d, d_a), vcvtq_f32_s32(s[r])));
                if (kind.has_min) {
                    const float32x4_t d_min = vmulq_f32(vld1q_f32(&tile->d_min[i][o]), d_a);
                    const float sum = (float)lk_tile_group_sum(kind, &rows[r], i);
                    acc[r] = vsubq_f32(acc[r], vmulq_f32(d_min, vdupq_n_f32(sum)));
                }
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < n_rows; r++) {
            vst1q_f32(&y[r][o], acc[r]);
        }
    }
}

/* The minima of four outputs times the sums of the activations, sixteen each. */
LK_INLINE int32x4_t lk_tile_min_sum(const lk_tile *tile, size_t o, const int16_t *sums) {
    int32x4_t m = vdupq_n_s32(0);
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; i++) {
        const int32x4_t pair = vld1q_s32(&tile->min[i][o]);
        m = vmlaq_n_s32(m, vandq_s32(pair, vdupq_n_s32(0xffff)), sums[2 * i]);
        m = vmlaq_n_s32(m, vshrq_n_s32(pair, 16), sums[2 * i + 1]);
    }
    return m;
}

/* 256-element blocks: y[r] gets one block. */
LK_INLINE void lk_tile_dot_block256(lk_tile_kind kind, int n_rows, const lk_tile *tile,
                                    const lk_tile_row *rows, float (*y)[LK_TILE_ROWS]) {
    const size_t per_group = kind.group_elems / 4;
    for (size_t o = 0; o < LK_TILE_ROWS; o += LK_VEC_LANES) {
        int32x4_t sum[LK_TILE_MAX_BLOCK_ROWS];
#pragma GCC unroll 8
        for (int r = 0; r < n_rows; r++) {
            sum[r] = vdupq_n_s32(0);
        }
        for (size_t g = 0; g < 64 / per_group; g++) {
            if (o == 0) {
                lk_tile_fetch(kind, tile, g, 64 / per_group);
            }
            int32x4_t s[LK_TILE_MAX_BLOCK_ROWS];
            lk_tile_group_sums(kind, n_rows, tile, g, 4 * o, rows, s);
            const int32x4_t scale = vld1q_s32(&tile->scale[g][o]);
#pragma GCC unroll 8
            for (int r = 0; r < n_rows; r++) {
                sum[r] = vmlaq_s32(sum[r], s[r], scale);
            }
        }
        const float32x4_t d = vld1q_f32(&tile->d[0][o]);
#pragma GCC unroll 8
        for (int r = 0; r < n_rows; r++) {
            const float32x4_t d_a = vdupq_n_f32(rows[r].d[0]);
            float32x4_t acc = vld1q_f32(&y[r][o]);
            acc = vaddq_f32(acc, vmulq_f32(vmulq_f32(d, d_a), vcvtq_f32_s32(sum[r])));
            if (kind.has_min) {
                const float32x4_t d_min = vmulq_f32(vld1q_f32(&tile->d_min[0][o]), d_a);
                const int32x4_t m = lk_tile_min_sum(tile, o, rows[r].sums);
                acc = vsubq_f32(acc, vmulq_f32(d_min, vcvtq_f32_s32(m)));
            }
            vst1q_f32(&y[r][o], acc);
        }
    }
}

#endif
