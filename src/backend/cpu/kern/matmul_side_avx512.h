/* matmul_side_avx512.h - 32-element blocks with AVX-512 VNNI, many activation rows: two strips lie
 * side by side, so that one load of four activations serves 32 outputs. One strip alone needs as
 * many loads as products, and two of either can start in a cycle. A slice of the rows is copied
 * once for up to LK_ZIP_STRIPS strips. Order and roundings of the floats are those of
 * dot_avx512.h. */
#ifndef LK_BACKEND_CPU_KERN_MATMUL_SIDE_AVX512_H
#define LK_BACKEND_CPU_KERN_MATMUL_SIDE_AVX512_H

#include "backend/cpu/kern/matmul_zip_avx512.h"
#include "backend/cpu/kern/unpack_block32.h"
#include "ops/ops.h"

enum {
    LK_SIDE_BLOCKS = 4, /* of a slice: two tiles and the rows fit into the first-level cache */
    LK_SIDE_ELEMS = 32 * LK_SIDE_BLOCKS,
    LK_SIDE_MIN_ROWS = 17
};

/* LK_SIDE_ELEMS columns of up to LK_ZIP_ROWS activation rows. */
typedef struct lk_side_rows {
    alignas(64) int8_t q[LK_ZIP_ROWS][LK_SIDE_ELEMS];
    int32_t start[LK_ZIP_ROWS][LK_SIDE_BLOCKS]; /* what takes the bias away */
    float sum[LK_ZIP_ROWS][LK_SIDE_BLOCKS];     /* of the activations, beside minima */
    float d[LK_ZIP_ROWS][LK_SIDE_BLOCKS];
} lk_side_rows;

/* n_blocks blocks from column k on of rows r .. r + n_rows - 1. */
LK_INLINE void lk_side_slice(lk_tile_kind kind, const lk_act_rows *x, size_t r, size_t n_rows,
                             size_t k, size_t n_blocks, lk_side_rows *to) {
    const __mmask8 present = (__mmask8)((1u << n_blocks) - 1u);
    const __mmask8 sums_present = (__mmask8)((1u << (2 * n_blocks)) - 1u);
    for (size_t i = 0; i < n_rows; i++) {
        const int8_t *q = x->q + (r + i) * x->q_stride + k;
        if (n_blocks == LK_SIDE_BLOCKS) {
            memcpy(to->q[i], q, LK_SIDE_ELEMS);
        } else {
            memcpy(to->q[i], q, 32 * n_blocks);
        }
        const int16_t *sums = x->sums + (r + i) * (x->n / LK_SUBGROUP) + k / LK_SUBGROUP;
        const __m128i s = _mm_maskz_loadu_epi16(sums_present, sums);
        _mm_store_si128((__m128i *)(void *)to->start[i],
                        _mm_madd_epi16(s, _mm_set1_epi16((short)-kind.bias)));
        _mm_store_ps(to->sum[i], _mm_cvtepi32_ps(_mm_madd_epi16(s, _mm_set1_epi16(1))));
        const float *d = x->d + (r + i) * (x->n / 32) + k / 32;
        _mm_store_ps(to->d[i], _mm_maskz_loadu_ps(present, d));
    }
}

/* Block b of n_rows rows and n_tiles tiles (constants). What y holds counts from the second block
 * on. */
LK_INLINE void lk_side_block(lk_tile_kind kind, int n_tiles, int n_rows, const lk_tile *tile,
                             const lk_side_rows *x, size_t r, size_t b, __mmask16 present,
                             float (*y)[LK_ZIP_SUM_ROWS][LK_TILE_ROWS]) {
    __m512i s[2][LK_ZIP_SIDE];
#pragma GCC unroll 8
    for (int i = 0; i < n_rows; i++) {
#pragma GCC unroll 2
        for (int t = 0; t < n_tiles; t++) {
            s[t][i] = kind.bias != 0 ? _mm512_set1_epi32(x->start[r + (size_t)i][b])
                                     : _mm512_setzero_si512();
        }
    }
#pragma GCC unroll 8
    for (size_t j = 0; j < 8; j++) {
        __m512i w[2];
#pragma GCC unroll 2
        for (int t = 0; t < n_tiles; t++) {
            w[t] = _mm512_load_si512(tile[t].w[8 * b + j]);
        }
#pragma GCC unroll 8
        for (int i = 0; i < n_rows; i++) {
            const int8_t *q = x->q[r + (size_t)i] + 32 * b + 4 * j;
            const __m512i four = _mm512_set1_epi32(lk_peek_i32(q));
#pragma GCC unroll 2
            for (int t = 0; t < n_tiles; t++) {
                s[t][i] = _mm512_dpbusd_epi32(s[t][i], w[t], four);
            }
        }
    }
#pragma GCC unroll 2
    for (int t = 0; t < n_tiles; t++) {
        const __m512 d = _mm512_load_ps(tile[t].d[b]);
#pragma GCC unroll 8
        for (int i = 0; i < n_rows; i++) {
            const size_t row = r + (size_t)i;
            const __m512 d_a = _mm512_set1_ps(x->d[row][b]);
            __m512 acc = _mm512_maskz_load_ps(present, y[t][row]);
            acc = _mm512_add_ps(acc,
                                _mm512_mul_ps(_mm512_mul_ps(d, d_a), _mm512_cvtepi32_ps(s[t][i])));
            if (kind.has_min) {
                const __m512 d_min = _mm512_mul_ps(_mm512_load_ps(tile[t].d_min[b]), d_a);
                acc = _mm512_sub_ps(acc, _mm512_mul_ps(d_min, _mm512_set1_ps(x->sum[row][b])));
            }
            _mm512_store_ps(y[t][row], acc);
        }
    }
}

/* What a pair of strips is multiplied with, and what is fetched meanwhile. */
typedef struct lk_side_job {
    const lk_side_rows *rows;
    size_t n_rows;
    size_t n_blocks;
    bool is_first;
    const uint8_t *ahead[2]; /* NULL: nothing */
} lk_side_job;

/* The outputs of n_tiles (constant) tiles beside all rows of the slice. */
LK_INLINE void lk_side_tiles(lk_tile_kind kind, int n_tiles, const lk_tile *tile,
                             const lk_side_job *job, float (*y)[LK_ZIP_SUM_ROWS][LK_TILE_ROWS]) {
    const size_t n_lines = kind.block_bytes / 4 * LK_SIDE_BLOCKS; /* 64 bytes a word of the block */
    const size_t share = (n_lines + LK_ZIP_ROWS / LK_ZIP_SIDE - 1) / (LK_ZIP_ROWS / LK_ZIP_SIDE);
    size_t r = 0;
    for (; r + LK_ZIP_SIDE <= job->n_rows; r += LK_ZIP_SIDE) {
        for (int t = 0; t < n_tiles && job->ahead[t] != NULL; t++) {
#pragma GCC unroll 8
            for (size_t i = 0; i < share; i++) {
                __builtin_prefetch(job->ahead[t] + 64 * (r / LK_ZIP_SIDE * share + i), 0, 3);
            }
        }
        for (size_t b = 0; b < job->n_blocks; b++) {
            const __mmask16 present = job->is_first && b == 0 ? 0 : 0xffff;
            lk_side_block(kind, n_tiles, LK_ZIP_SIDE, tile, job->rows, r, b, present, y);
        }
    }
    for (; r < job->n_rows; r++) {
        for (size_t b = 0; b < job->n_blocks; b++) {
            const __mmask16 present = job->is_first && b == 0 ? 0 : 0xffff;
            lk_side_block(kind, n_tiles, 1, tile, job->rows, r, b, present, y);
        }
    }
}

/* The strip from output o and column k on, unpacked. */
LK_INLINE void lk_side_unpack(lk_tile_kind kind, const lk_tile_matrix *m, size_t o, size_t k,
                              size_t n_blocks, lk_tile *tile) {
    lk_tile_copy copy;
    const lk_tile_source s = lk_tile_source_at(kind, m, o, k, n_blocks, &copy);
    if (n_blocks == LK_SIDE_BLOCKS) {
        lk_tile_unpack_block32(kind, s, LK_SIDE_BLOCKS, tile);
    } else {
        lk_tile_unpack_block32(kind, s, n_blocks, tile);
    }
}

/* Outputs [o_begin, o_end). */
LK_INLINE void lk_matmul_side(lk_tile_kind kind, const lk_tile_matrix *m, size_t o_begin,
                              size_t o_end, const lk_act_rows *x, float *y, size_t y_stride) {
    alignas(64) float acc[LK_ZIP_STRIPS][LK_ZIP_SUM_ROWS][LK_TILE_ROWS];
    enum { OUTPUTS = LK_ZIP_STRIPS * LK_TILE_ROWS };
    lk_side_rows rows;
    lk_tile tile[2];
    for (size_t r = 0; r < x->n_rows; r += LK_ZIP_ROWS) {
        const size_t n_rows = x->n_rows - r < LK_ZIP_ROWS ? x->n_rows - r : LK_ZIP_ROWS;
        for (size_t o = o_begin; o < o_end; o += OUTPUTS) {
            const size_t n_out = o_end - o < OUTPUTS ? o_end - o : OUTPUTS;
            const size_t n_strips = (n_out + LK_TILE_ROWS - 1) / LK_TILE_ROWS;
            float *to = y + r * y_stride + o;
            for (size_t k = 0; k < x->n; k += LK_SIDE_ELEMS) {
                const size_t left = (x->n - k) / 32;
                lk_side_job job = {&rows,
                                   n_rows,
                                   left < LK_SIDE_BLOCKS ? left : LK_SIDE_BLOCKS,
                                   k == 0,
                                   {NULL, NULL}};
                lk_side_slice(kind, x, r, n_rows, k, job.n_blocks, &rows);
                for (size_t i = 0; i < n_strips; i += 2) {
                    const int n_tiles = n_strips - i < 2 ? 1 : 2;
                    for (int t = 0; t < n_tiles; t++) {
                        const size_t strip = i + (size_t)t;
                        lk_side_unpack(kind, m, o + LK_TILE_ROWS * strip, k, job.n_blocks,
                                       &tile[t]);
                        job.ahead[t] = m->is_strips ? lk_slice_ahead(kind, m, o, k, LK_SIDE_ELEMS,
                                                                     strip, n_strips)
                                                    : NULL;
                        lk_slice_fetch(x, r, n_rows, k, LK_SIDE_ELEMS, strip, n_strips,
                                       to + LK_TILE_ROWS * strip, y_stride);
                    }
                    if (n_tiles == 2) {
                        lk_side_tiles(kind, 2, tile, &job, acc + i);
                    } else {
                        lk_side_tiles(kind, 1, tile, &job, acc + i);
                    }
                }
            }
            lk_slice_put(acc, n_rows, n_out, to, y_stride);
        }
    }
}

#endif
