/* dot_avx2.h - tiles times activation rows with AVX2. Pairs of products are added into 16 bits by
 * maddubs, which saturates, so only as many are added there as the largest byte of the format
 * allows (lk_tile_chunk); bytes of 8 bits go through |w| <= 128 and the activation with w's sign,
 * where one pair is at most 128 * 127 * 2 = 32,512. Integer sums are exact in int32
 * (quant/unpacked.h has the bounds), floats follow section 5 of numerics.md. */
#ifndef LK_BACKEND_CPU_KERN_DOT_AVX2_H
#define LK_BACKEND_CPU_KERN_DOT_AVX2_H

#include "backend/cpu/kern/tile.h"
#include "ops/ops.h"

/* One activation row from the tile's first column on. */
typedef struct lk_tile_row {
    const int8_t *q;
    const float *d;
    const int16_t *sums;
} lk_tile_row;

enum {
    LK_TILE_MAX_BLOCK_ROWS = 2, /* rows that one pass over a tile serves */
    LK_TILE_CELLS = 2 * LK_TILE_MAX_BLOCK_ROWS
};

/* How many dwords of products may be added in 16 bits before they must be widened: a power of two
 * that divides a group. */
LK_INLINE int lk_tile_chunk(lk_tile_kind kind) {
    if (kind.is_signed) {
        return 1;
    }
    const int bound = 32767 / (2 * 127 * kind.max_byte);
    const int group = (int)kind.group_elems / 4;
    const int most = bound < group ? bound : group;
    return most >= 8 ? 8 : most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

/* Keeps the compiler from rearranging a chain of integer additions into a tree, which would need
 * more registers than there are. */
LK_INLINE __m256i lk_tile_in_order(__m256i v) {
    __asm__("" : "+x"(v));
    return v;
}

/* Cell 2 r + h: row r, half h of the sixteen outputs. The 16-bit sums of the chunk of dwords from
 * k4 on. */
LK_INLINE void lk_tile_sums16(lk_tile_kind kind, int n_rows, const lk_tile *tile, size_t k4,
                              const lk_tile_row *rows, __m256i *s) {
    const int n_dwords = lk_tile_chunk(kind);
#pragma GCC unroll 8
    for (int j = 0; j < n_dwords; j++) {
        const __m256i w0 = lk_vi_load(tile->w[k4 + (size_t)j]);
        const __m256i w1 = lk_vi_load(tile->w[k4 + (size_t)j] + LK_VEC_BYTES);
#pragma GCC unroll 2
        for (int r = 0; r < n_rows; r++) {
            const __m256i a = _mm256_set1_epi32(lk_peek_i32(rows[r].q + 4 * (k4 + (size_t)j)));
            __m256i p0;
            __m256i p1;
            if (kind.is_signed) {
                p0 = _mm256_maddubs_epi16(_mm256_abs_epi8(w0), _mm256_sign_epi8(a, w0));
                p1 = _mm256_maddubs_epi16(_mm256_abs_epi8(w1), _mm256_sign_epi8(a, w1));
            } else {
                p0 = _mm256_maddubs_epi16(w0, a);
                p1 = _mm256_maddubs_epi16(w1, a);
            }
            s[2 * r] = j == 0 ? p0 : lk_tile_in_order(_mm256_add_epi16(s[2 * r], p0));
            s[2 * r + 1] = j == 0 ? p1 : lk_tile_in_order(_mm256_add_epi16(s[2 * r + 1], p1));
        }
    }
}

/* Sum of the activations of 32-element group i. */
LK_INLINE int lk_tile_group_sum(const lk_tile_row *row, size_t i) {
    return row->sums[2 * i] + row->sums[2 * i + 1];
}

/* 32-element blocks: y[r] gets n_groups blocks in order. */
LK_INLINE void lk_tile_dot_block32(lk_tile_kind kind, int n_rows, const lk_tile *tile,
                                   const lk_tile_row *rows, size_t n_groups,
                                   float (*y)[LK_TILE_ROWS]) {
    const int n_dwords = lk_tile_chunk(kind);
    __m256 acc[LK_TILE_CELLS];
#pragma GCC unroll 4
    for (int c = 0; c < 2 * n_rows; c++) {
        acc[c] = _mm256_loadu_ps(&y[c / 2][8 * (c % 2)]);
    }
    for (size_t i = 0; i < n_groups; i++) {
        lk_tile_fetch(kind, tile, i, LK_TILE_ELEMS / LK_TILE_GROUP);
        __m256i sum[LK_TILE_CELLS];
#pragma GCC unroll 4
        for (int c = 0; c < 2 * n_rows; c++) {
            sum[c] = kind.bias == 0
                         ? _mm256_setzero_si256()
                         : _mm256_set1_epi32(-kind.bias * lk_tile_group_sum(&rows[c / 2], i));
        }
#pragma GCC unroll 8
        for (int j = 0; j < 8; j += n_dwords) {
            __m256i s[LK_TILE_CELLS];
            lk_tile_sums16(kind, n_rows, tile, 8 * i + (size_t)j, rows, s);
#pragma GCC unroll 4
            for (int c = 0; c < 2 * n_rows; c++) {
                sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(s[c], _mm256_set1_epi16(1)));
            }
        }
#pragma GCC unroll 4
        for (int c = 0; c < 2 * n_rows; c++) {
            const __m256 d_a = _mm256_set1_ps(rows[c / 2].d[i]);
            const __m256 d = _mm256_mul_ps(_mm256_loadu_ps(&tile->d[i][8 * (c % 2)]), d_a);
            acc[c] = _mm256_add_ps(acc[c], _mm256_mul_ps(d, _mm256_cvtepi32_ps(sum[c])));
            if (kind.has_min) {
                const __m256 d_min = _mm256_loadu_ps(&tile->d_min[i][8 * (c % 2)]);
                const __m256 m = _mm256_set1_ps((float)lk_tile_group_sum(&rows[c / 2], i));
                acc[c] = _mm256_sub_ps(acc[c], _mm256_mul_ps(_mm256_mul_ps(d_min, d_a), m));
            }
        }
    }
#pragma GCC unroll 4
    for (int c = 0; c < 2 * n_rows; c++) {
        _mm256_storeu_ps(&y[c / 2][8 * (c % 2)], acc[c]);
    }
}

/* The sum over pairs of groups of (16-bit pair in the tile) times (pair of activation sums). */
LK_INLINE __m256i lk_tile_pair_sums(const int32_t pairs[8][LK_TILE_ROWS], size_t at,
                                    const int16_t *sums) {
    __m256i m = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        const __m256i a = _mm256_set1_epi32(lk_peek_i32(sums + 2 * i));
        m = _mm256_add_epi32(m, _mm256_madd_epi16(lk_vi_load(&pairs[i][at]), a));
    }
    return m;
}

/* 256-element blocks: y[r] gets one block. */
LK_INLINE void lk_tile_dot_block256(lk_tile_kind kind, int n_rows, const lk_tile *tile,
                                    const lk_tile_row *rows, float (*y)[LK_TILE_ROWS]) {
    const size_t n_dwords = (size_t)lk_tile_chunk(kind);
    const size_t per_group = kind.group_elems / 4;
    __m256i sum[LK_TILE_CELLS];
#pragma GCC unroll 4
    for (int c = 0; c < 2 * n_rows; c++) {
        sum[c] = _mm256_setzero_si256();
    }
    for (size_t k4 = 0; k4 < 64; k4 += per_group) {
        lk_tile_fetch(kind, tile, k4 / per_group, 64 / per_group);
        const __m256i scale0 = lk_vi_load(tile->scale[k4 / per_group]);
        const __m256i scale1 = lk_vi_load(tile->scale[k4 / per_group] + LK_VEC_LANES);
#pragma GCC unroll 8
        for (size_t j = 0; j < per_group; j += n_dwords) {
            __m256i s[LK_TILE_CELLS];
            lk_tile_sums16(kind, n_rows, tile, k4 + j, rows, s);
#pragma GCC unroll 4
            for (int c = 0; c < 2 * n_rows; c++) {
                const __m256i scaled = _mm256_madd_epi16(s[c], c % 2 == 0 ? scale0 : scale1);
                sum[c] = _mm256_add_epi32(sum[c], scaled);
            }
        }
    }
#pragma GCC unroll 4
    for (int c = 0; c < 2 * n_rows; c++) {
        const lk_tile_row *row = &rows[c / 2];
        const size_t at = 8 * (size_t)(c % 2);
        if (kind.bias != 0) {
            const __m256i extra = lk_tile_pair_sums(tile->pair, at, row->sums);
            sum[c] =
                _mm256_sub_epi32(sum[c], _mm256_mullo_epi32(extra, _mm256_set1_epi32(kind.bias)));
        }
        const __m256 d_a = _mm256_set1_ps(row->d[0]);
        const __m256 d = _mm256_mul_ps(_mm256_loadu_ps(&tile->d[0][at]), d_a);
        __m256 acc = _mm256_loadu_ps(&y[c / 2][at]);
        acc = _mm256_add_ps(acc, _mm256_mul_ps(d, _mm256_cvtepi32_ps(sum[c])));
        if (kind.has_min) {
            const __m256 d_min = _mm256_mul_ps(_mm256_loadu_ps(&tile->d_min[0][at]), d_a);
            const __m256i m = lk_tile_pair_sums(tile->min, at, row->sums);
            acc = _mm256_sub_ps(acc, _mm256_mul_ps(d_min, _mm256_cvtepi32_ps(m)));
        }
        _mm256_storeu_ps(&y[c / 2][at], acc);
    }
}

#endif
