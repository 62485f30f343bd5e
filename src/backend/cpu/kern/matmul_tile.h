/* matmul_tile.h - the quantised matrix product over tiles: sixteen outputs at a time, each tile of
 * 256 columns unpacked once for up to LK_TILE_MAX_ROWS activation rows. It decides no bit: every
 * output is summed block by block in its own lane, whatever the number of rows or outputs. */
#ifndef LK_BACKEND_CPU_KERN_MATMUL_TILE_H
#define LK_BACKEND_CPU_KERN_MATMUL_TILE_H

#if defined(__AVX512F__)
#include "backend/cpu/kern/dot_avx512.h"
#elif defined(__AVX2__)
#include "backend/cpu/kern/dot_avx2.h"
#endif
#include "backend/cpu/kern/unpack_block256.h"
#include "backend/cpu/kern/unpack_block32.h"

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

/* Sixteen outputs whose weight rows begin at `w`, of activation rows r_begin .. r_begin + n_rows
 * - 1. When only n_valid < 16 weight rows exist, they are copied block by block to where sixteen
 * can be read. */
LK_INLINE void lk_matmul_tile_rows(lk_tile_kind kind, const uint8_t *w, size_t row_bytes,
                                   size_t n_valid, const lk_act_rows *x, size_t r_begin,
                                   size_t n_rows, float (*y)[LK_TILE_ROWS]) {
    lk_tile tile;
    uint8_t copy[LK_TILE_ROWS][LK_TILE_MAX_ROW_BYTES];
    if (n_valid < LK_TILE_ROWS) {
        memset(copy, 0, sizeof copy);
    }
    memset(y, 0, n_rows * sizeof y[0]);
    for (size_t k = 0; k < x->n; k += LK_TILE_ELEMS) {
        const size_t n_left = x->n - k;
        const size_t n_elems = n_left < LK_TILE_ELEMS ? n_left : LK_TILE_ELEMS;
        const size_t n_blocks = n_elems / kind.block_elems;
        const uint8_t *p = w + k / kind.block_elems * kind.block_bytes;
        size_t stride = row_bytes;
        if (n_valid < LK_TILE_ROWS) {
            for (size_t i = 0; i < n_valid; i++) {
                memcpy(copy[i], p + i * row_bytes, n_blocks * kind.block_bytes);
            }
            p = copy[0];
            stride = sizeof copy[0];
        }
        if (kind.block_elems == 32 && n_blocks == 8) {
            lk_tile_unpack_block32(kind, p, stride, 8, &tile);
        } else if (kind.block_elems == 32) {
            lk_tile_unpack_block32(kind, p, stride, n_blocks, &tile);
        } else {
            lk_tile_unpack_block256(kind, p, stride, &tile);
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

/* lk_matmul_quant_fn for the format that `kind` describes. The last tile of a range overlaps the
 * one before it (the outputs computed twice have the same bits) or, in a range of fewer than
 * sixteen, is partly empty. */
LK_INLINE void lk_matmul_tiles(lk_tile_kind kind, const uint8_t *w, size_t row_bytes,
                               size_t o_begin, size_t o_end, const lk_act_rows *x, float *y,
                               size_t y_stride) {
    alignas(64) float acc[LK_TILE_MAX_ROWS][LK_TILE_ROWS];
    for (size_t r = 0; r < x->n_rows; r += LK_TILE_MAX_ROWS) {
        const size_t left = x->n_rows - r;
        const size_t n_rows = left < LK_TILE_MAX_ROWS ? left : LK_TILE_MAX_ROWS;
        for (size_t at = o_begin; at < o_end; at += LK_TILE_ROWS) {
            size_t o = at;
            size_t n_valid = LK_TILE_ROWS;
            if (at + LK_TILE_ROWS > o_end) {
                if (o_end - o_begin >= LK_TILE_ROWS) {
                    o = o_end - LK_TILE_ROWS;
                } else {
                    n_valid = o_end - o_begin;
                }
            }
            lk_matmul_tile_rows(kind, w + o * row_bytes, row_bytes, n_valid, x, r, n_rows, acc);
            for (size_t i = 0; i < n_rows; i++) {
                memcpy(y + (r + i) * y_stride + o, acc[i], n_valid * sizeof(float));
            }
        }
    }
}

#endif
