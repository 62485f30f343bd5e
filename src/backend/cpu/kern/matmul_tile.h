/* matmul_tile.h - the quantised matrix product over tiles: sixteen outputs at a time, each tile of
 * 256 columns unpacked once for up to LK_TILE_MAX_ROWS activation rows. It decides no bit: every
 * output is summed block by block in its own lane, whatever the number of rows or outputs. */
#ifndef LK_BACKEND_CPU_KERN_MATMUL_TILE_H
#define LK_BACKEND_CPU_KERN_MATMUL_TILE_H

#if defined(__AVX512F__)
#include "backend/cpu/kern/dot_avx512.h"
#include "backend/cpu/kern/matmul_few_avx512.h"
#elif defined(__AVXVNNI__)
#include "backend/cpu/kern/dot_avxvnni.h"
#elif defined(__AVX2__)
#include "backend/cpu/kern/dot_avx2.h"
#elif defined(__aarch64__)
#include "backend/cpu/kern/dot_neon.h"
#endif
#include "backend/cpu/kern/unpack_block256.h"
#include "backend/cpu/kern/unpack_block32.h"
#if defined(__AVX512F__)
#include "backend/cpu/kern/matmul_side_avx512.h"
#include "backend/cpu/kern/matmul_zip_avx512.h"
#endif

enum { LK_TILE_MAX_ROWS = 64 };

/* n_rows (constant) activation rows from row r on, of columns k .. of the tile. */
LK_INLINE void lk_tile_dot(lk_tile_kind kind, int n_rows, const lk_tile *tile, const lk_act_rows *x,
                           size_t r, size_t k, size_t n_groups, float (*y)[LK_TILE_ROWS]) {
    lk_tile_row rows[LK_TILE_MAX_BLOCK_ROWS];
#pragma GCC unroll 8
    for (int i = 0; i < n_rows; i++) {
        const size_t row = r + (size_t)i;
        rows[i].q = x->q + row * x->q_stride + k;
        rows[i].d = x->d + row * (x->n / kind.block_elems) + k / kind.block_elems;
        rows[i].sums = x->sums + row * (x->n / LK_SUBGROUP) + k / LK_SUBGROUP;
    }
    if (kind.block_elems == 32) {
        lk_tile_dot_block32(kind, n_rows, tile, rows, n_groups, y);
    } else {
        lk_tile_dot_block256(kind, n_rows, tile, rows, y);
    }
}

/* With few activation rows a product is as fast as its weights come: what lies LK_TILE_AHEAD bytes
 * behind the blocks at hand is fetched on the way. A wish may go beyond the matrix. Rows of the
 * file are too far apart for that; there the wish is for what is at hand. */
LK_INLINE const uint8_t *lk_tile_ahead(const lk_tile *tile, lk_tile_source s) {
    return s.is_strips ? s.p + LK_TILE_AHEAD : tile->w[0];
}

/* The sixteen outputs from o on, of activation rows r_begin .. r_begin + n_rows - 1. */
LK_INLINE void lk_matmul_tile_rows(lk_tile_kind kind, const lk_tile_matrix *m, size_t o,
                                   const lk_act_rows *x, size_t r_begin, size_t n_rows,
                                   float (*y)[LK_TILE_ROWS]) {
    lk_tile tile;
    lk_tile_copy copy;
    memset(y, 0, n_rows * sizeof y[0]);
    for (size_t k = 0; k < x->n; k += LK_TILE_ELEMS) {
        const size_t n_left = x->n - k;
        const size_t n_elems = n_left < LK_TILE_ELEMS ? n_left : LK_TILE_ELEMS;
        const size_t n_blocks = n_elems / kind.block_elems;
        const lk_tile_source s = lk_tile_source_at(kind, m, o, k, n_blocks, &copy);
        tile.ahead = lk_tile_ahead(&tile, s);
        if (kind.block_elems == 32 && n_blocks == 8) {
            lk_tile_unpack_block32(kind, s, 8, &tile);
        } else if (kind.block_elems == 32) {
            lk_tile_unpack_block32(kind, s, n_blocks, &tile);
        } else {
            lk_tile_unpack_block256(kind, s, &tile);
        }
        size_t r = 0;
        for (; r + LK_TILE_MAX_BLOCK_ROWS <= n_rows; r += LK_TILE_MAX_BLOCK_ROWS) {
            lk_tile_dot(kind, LK_TILE_MAX_BLOCK_ROWS, &tile, x, r_begin + r, k, n_blocks, y + r);
        }
        for (; LK_TILE_MAX_BLOCK_ROWS > 2 && r + 2 <= n_rows; r += 2) {
            lk_tile_dot(kind, 2, &tile, x, r_begin + r, k, n_blocks, y + r);
        }
        if (r < n_rows) {
            lk_tile_dot(kind, 1, &tile, x, r_begin + r, k, n_blocks, y + r);
        }
    }
}

/* Outputs [o_begin, o_end) for the format that `kind` describes. */
LK_INLINE void lk_matmul_matrix(lk_tile_kind kind, const lk_tile_matrix *m, size_t o_begin,
                                size_t o_end, const lk_act_rows *x, float *y, size_t y_stride) {
#if defined(__AVX512F__)
    if (kind.is_zipped) {
        lk_matmul_zipped(kind, m, o_begin, o_end, x, y, y_stride);
        return;
    }
    if (kind.block_elems == 32 && x->n_rows >= LK_SIDE_MIN_ROWS) {
        lk_matmul_side(kind, m, o_begin, o_end, x, y, y_stride);
        return;
    }
#endif
    alignas(64) float acc[LK_TILE_MAX_ROWS][LK_TILE_ROWS];
    for (size_t r = 0; r < x->n_rows; r += LK_TILE_MAX_ROWS) {
        const size_t left = x->n_rows - r;
        const size_t n_rows = left < LK_TILE_MAX_ROWS ? left : LK_TILE_MAX_ROWS;
        for (size_t o = o_begin; o < o_end; o += LK_TILE_ROWS) {
            const size_t n_valid = o_end - o < LK_TILE_ROWS ? o_end - o : LK_TILE_ROWS;
            lk_matmul_tile_rows(kind, m, o, x, r, n_rows, acc);
            for (size_t i = 0; i < n_rows; i++) {
                float *to = y + (r + i) * y_stride + o;
                if (n_valid == LK_TILE_ROWS) { /* a copy of constant size */
                    memcpy(to, acc[i], sizeof acc[i]);
                } else {
                    memcpy(to, acc[i], n_valid * sizeof(float));
                }
            }
        }
    }
}

/* lk_matmul_quant_fn and lk_matmul_strip_fn. */
LK_INLINE void lk_matmul_tiles(lk_tile_kind kind, const uint8_t *w, size_t row_bytes,
                               size_t o_begin, size_t o_end, const lk_act_rows *x, float *y,
                               size_t y_stride) {
    const lk_tile_matrix m = {w, row_bytes, o_end, x->n, false};
    lk_matmul_matrix(kind, &m, o_begin, o_end, x, y, y_stride);
}
LK_INLINE void lk_matmul_strips(lk_tile_kind kind, const uint8_t *w, size_t o_begin, size_t o_end,
                                const lk_act_rows *x, float *y, size_t y_stride) {
#if defined(__AVX512F__)
    if (lk_few_has(kind) && x->n_rows <= LK_FEW_ROWS) {
        lk_matmul_few(kind, w, o_begin, o_end, x, y, y_stride);
        return;
    }
#endif
    const lk_tile_matrix m = {w, 0, 0, x->n, true};
    lk_matmul_matrix(kind, &m, o_begin, o_end, x, y, y_stride);
}

#endif
