/* dot_avxvnni.h - tiles times activation rows with the 256-bit VNNI instructions of processors that
 * have no AVX-512. Bytes are unsigned; what the bias adds, bias * (sum of the activations), is
 * where the sums start. Integer sums are exact in int32 (quant/unpacked.h has the bounds), floats
 * follow section 5 of numerics.md. */
#ifndef LK_BACKEND_CPU_KERN_DOT_AVXVNNI_H
#define LK_BACKEND_CPU_KERN_DOT_AVXVNNI_H

#include "backend/cpu/kern/tile.h"
#include "ops/ops.h"

/* One activation row from the tile's first column on. */
typedef struct lk_tile_row {
    const int8_t *q;
    const float *d;
    const int16_t *sums;
} lk_tile_row;

enum {
    LK_TILE_MAX_BLOCK_ROWS = 4,                /* rows that one pass over a tile serves */
    LK_TILE_CELLS = 2 * LK_TILE_MAX_BLOCK_ROWS /* cell 2 r + h: row r, half h of the outputs */
};

/* Where the integer sums of each group start, and for 32-element blocks with a minimum the sums of
 * the activations as floats. */
typedef struct lk_tile_start {
    alignas(32) int32_t at[16];
    float sum[8];
} lk_tile_start;

/* The sums of n_groups times 32 activations, sixteen each; zeros behind. */
LK_INLINE __m256i lk_tile_load_sums(const int16_t *sums, size_t n_groups) {
    if (n_groups == 8) {
        return lk_vi_load(sums);
    }
    int16_t copy[16] = {0};
    memcpy(copy, sums, 2 * n_groups * sizeof copy[0]);
    return lk_vi_load(copy);
}

LK_INLINE void lk_tile_start_row(lk_tile_kind kind, const int16_t *sums, size_t n_groups,
                                 lk_tile_start *start) {
    const __m256i s = lk_tile_load_sums(sums, n_groups);
    if (kind.group_elems == 16) {
        const __m256i bias = _mm256_set1_epi32(-kind.bias);
        const __m256i low = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(s));
        const __m256i high = _mm256_cvtepi16_epi32(_mm256_extracti128_si256(s, 1));
        lk_vi_store(start->at, _mm256_mullo_epi32(low, bias));
        lk_vi_store(start->at + LK_VEC_LANES, _mm256_mullo_epi32(high, bias));
    } else {
        lk_vi_store(start->at, _mm256_madd_epi16(s, _mm256_set1_epi16((short)-kind.bias)));
    }
    if (kind.has_min && kind.block_elems == 32) {
        const __m256i sum = _mm256_madd_epi16(s, _mm256_set1_epi16(1));
        lk_vf_store(start->sum, _mm256_cvtepi32_ps(sum));
    }
}

/* The sums of n_dwords dwords of the tile from k4 on, added to s. */
LK_INLINE void lk_tile_sums(int n_rows, int n_dwords, const lk_tile *tile, size_t k4,
                            const lk_tile_row *rows, __m256i *s) {
#pragma GCC unroll 8
    for (int j = 0; j < n_dwords; j++) {
        const __m256i w0 = lk_vi_load(tile->w[k4 + (size_t)j]);
        const __m256i w1 = lk_vi_load(tile->w[k4 + (size_t)j] + LK_VEC_BYTES);
#pragma GCC unroll 4
        for (int r = 0; r < n_rows; r++) {
            const __m256i a = _mm256_set1_epi32(lk_peek_i32(rows[r].q + 4 * (k4 + (size_t)j)));
            s[2 * r] = _mm256_dpbusd_avx_epi32(s[2 * r], w0, a);
            s[2 * r + 1] = _mm256_dpbusd_avx_epi32(s[2 * r + 1], w1, a);
        }
    }
}

/* The sums of group i, whose first dword is k4. */
LK_INLINE void lk_tile_group_sums(lk_tile_kind kind, int n_rows, const lk_tile *tile, size_t i,
                                  const lk_tile_row *rows, const lk_tile_start *start, __m256i *s) {
    const int n_dwords = (int)kind.group_elems / 4;
#pragma GCC unroll 8
    for (int c = 0; c < 2 * n_rows; c++) {
        s[c] = kind.bias != 0 ? _mm256_set1_epi32(start[c / 2].at[i]) : _mm256_setzero_si256();
    }
    lk_tile_sums(n_rows, n_dwords, tile, (size_t)n_dwords * i, rows, s);
}

/* 32-element blocks: y[r] gets n_groups blocks in order. */
LK_INLINE void lk_tile_dot_block32(lk_tile_kind kind, int n_rows, const lk_tile *tile,
                                   const lk_tile_row *rows, size_t n_groups,
                                   float (*y)[LK_TILE_ROWS]) {
    lk_tile_start start[LK_TILE_MAX_BLOCK_ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) {
        lk_tile_start_row(kind, rows[r].sums, n_groups, &start[r]);
    }
    __m256 acc[LK_TILE_CELLS];
#pragma GCC unroll 8
    for (int c = 0; c < 2 * n_rows; c++) {
        acc[c] = lk_vf_load(&y[c / 2][8 * (c % 2)]);
    }
    for (size_t i = 0; i < n_groups; i++) {
        lk_tile_fetch(kind, tile, i, LK_TILE_ELEMS / LK_TILE_GROUP);
        __m256i s[LK_TILE_CELLS];
        lk_tile_group_sums(kind, n_rows, tile, i, rows, start, s);
#pragma GCC unroll 8
        for (int c = 0; c < 2 * n_rows; c++) {
            const __m256 d_a = _mm256_set1_ps(rows[c / 2].d[i]);
            const __m256 d = _mm256_mul_ps(lk_vf_load(&tile->d[i][8 * (c % 2)]), d_a);
            acc[c] = _mm256_add_ps(acc[c], _mm256_mul_ps(d, _mm256_cvtepi32_ps(s[c])));
            if (kind.has_min) {
                const __m256 d_min = _mm256_mul_ps(lk_vf_load(&tile->d_min[i][8 * (c % 2)]), d_a);
                const __m256 m = _mm256_set1_ps(start[c / 2].sum[i]);
                acc[c] = _mm256_sub_ps(acc[c], _mm256_mul_ps(d_min, m));
            }
        }
    }
#pragma GCC unroll 8
    for (int c = 0; c < 2 * n_rows; c++) {
        lk_vf_store(&y[c / 2][8 * (c % 2)], acc[c]);
    }
}

/* The block integers of one 256-element block. */
LK_INLINE void lk_tile_block_sums(lk_tile_kind kind, int n_rows, const lk_tile *tile,
                                  const lk_tile_row *rows, const lk_tile_start *start,
                                  __m256i *sum) {
    const size_t n_groups = 256 / kind.group_elems;
#pragma GCC unroll 8
    for (int c = 0; c < 2 * n_rows; c++) {
        sum[c] = _mm256_setzero_si256();
    }
    for (size_t i = 0; i < n_groups; i += kind.has_pairs ? 2 : 1) {
        __m256i a[LK_TILE_CELLS];
        __m256i b[LK_TILE_CELLS];
        lk_tile_fetch(kind, tile, kind.has_pairs ? i / 2 : i,
                      kind.has_pairs ? n_groups / 2 : n_groups);
        lk_tile_group_sums(kind, n_rows, tile, i, rows, start, a);
        if (kind.has_pairs) {
            lk_tile_group_sums(kind, n_rows, tile, i + 1, rows, start, b);
        }
#pragma GCC unroll 8
        for (int c = 0; c < 2 * n_rows; c++) {
            const size_t at = 8 * (size_t)(c % 2);
            if (kind.has_pairs) {
                const __m256i pair = _mm256_blend_epi16(a[c], _mm256_slli_epi32(b[c], 16), 0xaa);
                sum[c] = _mm256_dpwssd_avx_epi32(sum[c], pair, lk_vi_load(&tile->pair[i / 2][at]));
            } else {
                sum[c] = _mm256_add_epi32(
                    sum[c], _mm256_mullo_epi32(a[c], lk_vi_load(&tile->scale[i][at])));
            }
        }
    }
}

/* 256-element blocks: y[r] gets one block. */
LK_INLINE void lk_tile_dot_block256(lk_tile_kind kind, int n_rows, const lk_tile *tile,
                                    const lk_tile_row *rows, float (*y)[LK_TILE_ROWS]) {
    lk_tile_start start[LK_TILE_MAX_BLOCK_ROWS];
    if (kind.bias != 0) {
#pragma GCC unroll 4
        for (int r = 0; r < n_rows; r++) {
            lk_tile_start_row(kind, rows[r].sums, 8, &start[r]);
        }
    }
    __m256i sum[LK_TILE_CELLS];
    lk_tile_block_sums(kind, n_rows, tile, rows, start, sum);
#pragma GCC unroll 8
    for (int c = 0; c < 2 * n_rows; c++) {
        const lk_tile_row *row = &rows[c / 2];
        const size_t at = 8 * (size_t)(c % 2);
        const __m256 d_a = _mm256_set1_ps(row->d[0]);
        const __m256 d = _mm256_mul_ps(lk_vf_load(&tile->d[0][at]), d_a);
        __m256 acc = lk_vf_load(&y[c / 2][at]);
        acc = _mm256_add_ps(acc, _mm256_mul_ps(d, _mm256_cvtepi32_ps(sum[c])));
        if (kind.has_min) {
            __m256i m = _mm256_setzero_si256();
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++) {
                m = _mm256_dpwssd_avx_epi32(m, lk_vi_load(&tile->min[i][at]),
                                            _mm256_set1_epi32(lk_peek_i32(row->sums + 2 * i)));
            }
            const __m256 d_min = _mm256_mul_ps(lk_vf_load(&tile->d_min[0][at]), d_a);
            acc = _mm256_sub_ps(acc, _mm256_mul_ps(d_min, _mm256_cvtepi32_ps(m)));
        }
        lk_vf_store(&y[c / 2][at], acc);
    }
}

#endif
