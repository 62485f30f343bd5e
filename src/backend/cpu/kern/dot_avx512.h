/* dot_avx512.h - tiles times activation rows with AVX-512 VNNI. Bytes are unsigned; what the bias
 * adds, bias * (sum of the activations), is where the sums start, so it costs nothing. Integer sums
 * are exact in int32 (quant/unpacked.h has the bounds), floats follow section 5 of numerics.md. */
#ifndef LK_BACKEND_CPU_KERN_DOT_AVX512_H
#define LK_BACKEND_CPU_KERN_DOT_AVX512_H

#include "backend/cpu/kern/tile.h"
#include "ops/ops.h"

/* One activation row from the tile's first column on. */
typedef struct lk_tile_row {
    const int8_t *q;
    const float *d;
    const int16_t *sums;
} lk_tile_row;

enum { LK_TILE_MAX_BLOCK_ROWS = 8 }; /* rows that one pass over a tile serves */

/* Where the integer sums of each group start, and for 32-element blocks with a minimum the sums of
 * the activations as floats. */
typedef struct lk_tile_start {
    alignas(64) int32_t at[16];
    float sum[8];
} lk_tile_start;

LK_INLINE void lk_tile_start_row(lk_tile_kind kind, const int16_t *sums, size_t n_groups,
                                 lk_tile_start *start) {
    const __mmask16 present = (__mmask16)((1u << (2 * n_groups)) - 1u);
    const __m256i s = _mm256_maskz_loadu_epi16(present, sums);
    if (kind.group_elems == 16) {
        _mm512_store_si512(
            start->at, _mm512_mullo_epi32(_mm512_cvtepi16_epi32(s), _mm512_set1_epi32(-kind.bias)));
    } else {
        _mm256_store_si256((__m256i *)(void *)start->at,
                           _mm256_madd_epi16(s, _mm256_set1_epi16((short)-kind.bias)));
    }
    if (kind.has_min && kind.block_elems == 32) {
        const __m256i sum = _mm256_madd_epi16(s, _mm256_set1_epi16(1));
        _mm256_storeu_ps(start->sum, _mm256_cvtepi32_ps(sum));
    }
}

/* The sums of n_dwords dwords of the tile from k4 on, added to s. */
LK_INLINE void lk_tile_sums(int n_rows, int n_dwords, const lk_tile *tile, size_t k4,
                            const lk_tile_row *rows, __m512i *s) {
#pragma GCC unroll 8
    for (int j = 0; j < n_dwords; j++) {
        const __m512i w = _mm512_load_si512(tile->w[k4 + (size_t)j]);
#pragma GCC unroll 8
        for (int r = 0; r < n_rows; r++) {
            const int32_t a = lk_peek_i32(rows[r].q + 4 * (k4 + (size_t)j));
            s[r] = _mm512_dpbusd_epi32(s[r], w, _mm512_set1_epi32(a));
        }
    }
}

LK_INLINE void lk_tile_start_sums(lk_tile_kind kind, int n_rows, const lk_tile_start *start,
                                  size_t i, __m512i *s) {
#pragma GCC unroll 8
    for (int r = 0; r < n_rows; r++) {
        s[r] = kind.bias != 0 ? _mm512_set1_epi32(start[r].at[i]) : _mm512_setzero_si512();
    }
}

/* The sums of groups i and i + 1 side by side: a chain of products waits five cycles for each, and
 * one group of eight rows has too few chains to fill them. */
LK_INLINE void lk_tile_two_groups(lk_tile_kind kind, int n_rows, const lk_tile *tile, size_t i,
                                  const lk_tile_row *rows, const lk_tile_start *start, __m512i *a,
                                  __m512i *b) {
    const size_t n_dwords = kind.group_elems / 4;
    lk_tile_start_sums(kind, n_rows, start, i, a);
    lk_tile_start_sums(kind, n_rows, start, i + 1, b);
#pragma GCC unroll 8
    for (size_t j = 0; j < n_dwords; j++) {
        const size_t k4 = n_dwords * i + j;
        const __m512i w0 = _mm512_load_si512(tile->w[k4]);
        const __m512i w1 = _mm512_load_si512(tile->w[k4 + n_dwords]);
#pragma GCC unroll 8
        for (int r = 0; r < n_rows; r++) {
            const int8_t *q = rows[r].q + 4 * k4;
            a[r] = _mm512_dpbusd_epi32(a[r], w0, _mm512_set1_epi32(lk_peek_i32(q)));
            b[r] = _mm512_dpbusd_epi32(b[r], w1, _mm512_set1_epi32(lk_peek_i32(q + 4 * n_dwords)));
        }
    }
}

/* Block i of 32 elements, whose integer sums are s. */
LK_INLINE void lk_tile_add_block32(lk_tile_kind kind, int n_rows, const lk_tile *tile,
                                   const lk_tile_row *rows, const lk_tile_start *start, size_t i,
                                   const __m512i *s, __m512 *acc) {
    const __m512 d = _mm512_load_ps(tile->d[i]);
#pragma GCC unroll 8
    for (int r = 0; r < n_rows; r++) {
        const __m512 d_a = _mm512_set1_ps(rows[r].d[i]);
        acc[r] =
            _mm512_add_ps(acc[r], _mm512_mul_ps(_mm512_mul_ps(d, d_a), _mm512_cvtepi32_ps(s[r])));
        if (kind.has_min) {
            const __m512 d_min = _mm512_mul_ps(_mm512_load_ps(tile->d_min[i]), d_a);
            acc[r] = _mm512_sub_ps(acc[r], _mm512_mul_ps(d_min, _mm512_set1_ps(start[r].sum[i])));
        }
    }
}

/* 32-element blocks: acc[r] gets n_groups blocks in order. */
LK_INLINE void lk_tile_dot_block32(lk_tile_kind kind, int n_rows, const lk_tile *tile,
                                   const lk_tile_row *rows, size_t n_groups,
                                   float (*y)[LK_TILE_ROWS]) {
    lk_tile_start start[LK_TILE_MAX_BLOCK_ROWS];
    __m512 acc[LK_TILE_MAX_BLOCK_ROWS];
#pragma GCC unroll 8
    for (int r = 0; r < n_rows; r++) {
        lk_tile_start_row(kind, rows[r].sums, n_groups, &start[r]);
        acc[r] = _mm512_load_ps(y[r]);
    }
    for (size_t i = 0; i + 2 <= n_groups; i += 2) {
        __m512i a[LK_TILE_MAX_BLOCK_ROWS];
        __m512i b[LK_TILE_MAX_BLOCK_ROWS];
        lk_tile_fetch(kind, tile, i / 2, LK_TILE_ELEMS / LK_TILE_GROUP / 2);
        lk_tile_two_groups(kind, n_rows, tile, i, rows, start, a, b);
        lk_tile_add_block32(kind, n_rows, tile, rows, start, i, a, acc);
        lk_tile_add_block32(kind, n_rows, tile, rows, start, i + 1, b, acc);
    }
    if (n_groups % 2 != 0) {
        const size_t i = n_groups - 1;
        __m512i s[LK_TILE_MAX_BLOCK_ROWS];
        lk_tile_start_sums(kind, n_rows, start, i, s);
        lk_tile_sums(n_rows, 8, tile, 8 * i, rows, s);
        lk_tile_add_block32(kind, n_rows, tile, rows, start, i, s, acc);
    }
#pragma GCC unroll 8
    for (int r = 0; r < n_rows; r++) {
        _mm512_store_ps(y[r], acc[r]);
    }
}

/* The block integers of one 256-element block. */
LK_INLINE void lk_tile_block_sums(lk_tile_kind kind, int n_rows, const lk_tile *tile,
                                  const lk_tile_row *rows, const lk_tile_start *start,
                                  __m512i *sum) {
    const size_t n_groups = 256 / kind.group_elems;
#pragma GCC unroll 8
    for (int r = 0; r < n_rows; r++) {
        sum[r] = _mm512_setzero_si512();
    }
    for (size_t i = 0; i < n_groups; i += 2) {
        __m512i a[LK_TILE_MAX_BLOCK_ROWS];
        __m512i b[LK_TILE_MAX_BLOCK_ROWS];
        lk_tile_fetch(kind, tile, i / 2, n_groups / 2);
        lk_tile_two_groups(kind, n_rows, tile, i, rows, start, a, b);
        const __m512i scale_a = _mm512_load_si512(tile->scale[i]);
        const __m512i scale_b = _mm512_load_si512(tile->scale[i + 1]);
#pragma GCC unroll 8
        for (int r = 0; r < n_rows; r++) {
            sum[r] = _mm512_add_epi32(sum[r], _mm512_mullo_epi32(a[r], scale_a));
            sum[r] = _mm512_add_epi32(sum[r], _mm512_mullo_epi32(b[r], scale_b));
        }
    }
}

/* 256-element blocks: y[r] gets one block. */
LK_INLINE void lk_tile_dot_block256(lk_tile_kind kind, int n_rows, const lk_tile *tile,
                                    const lk_tile_row *rows, float (*y)[LK_TILE_ROWS]) {
    lk_tile_start start[LK_TILE_MAX_BLOCK_ROWS];
    if (kind.bias != 0) {
#pragma GCC unroll 8
        for (int r = 0; r < n_rows; r++) {
            lk_tile_start_row(kind, rows[r].sums, 8, &start[r]);
        }
    }
    __m512i sum[LK_TILE_MAX_BLOCK_ROWS];
    lk_tile_block_sums(kind, n_rows, tile, rows, start, sum);
    const __m512 d = _mm512_load_ps(tile->d[0]);
#pragma GCC unroll 8
    for (int r = 0; r < n_rows; r++) {
        const __m512 d_a = _mm512_set1_ps(rows[r].d[0]);
        __m512 acc = _mm512_load_ps(y[r]);
        acc = _mm512_add_ps(acc, _mm512_mul_ps(_mm512_mul_ps(d, d_a), _mm512_cvtepi32_ps(sum[r])));
        if (kind.has_min) {
            __m512i m = _mm512_setzero_si512();
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++) {
                m = _mm512_dpwssd_epi32(m, _mm512_load_si512(tile->min[i]),
                                        _mm512_set1_epi32(lk_peek_i32(rows[r].sums + 2 * i)));
            }
            const __m512 d_min = _mm512_mul_ps(_mm512_load_ps(tile->d_min[0]), d_a);
            acc = _mm512_sub_ps(acc, _mm512_mul_ps(d_min, _mm512_cvtepi32_ps(m)));
        }
        _mm512_store_ps(y[r], acc);
    }
}

#endif
