/* matmul_float_many.h - matrix products with f32, f16 and bf16 weights for many rows. A few outputs
 * are widened to binary32 for a part of the columns, and serve a block of rows from the first-level
 * cache; the partial sums of a block wait in memory for the next part. They go on from there in the
 * same order, so neither the parts nor the blocks decide a bit. */
#ifndef LK_BACKEND_CPU_KERN_MATMUL_FLOAT_MANY_H
#define LK_BACKEND_CPU_KERN_MATMUL_FLOAT_MANY_H

#include "backend/cpu/kern/matmul_float.h"

/* A tile's partial sums stand in registers, beside one vector of each of its rows. */
enum {
    LK_MANY_TILE_OUT = LK_S16_SETS == 16 ? 4 : 2,
    LK_MANY_TILE_ROWS = LK_S16_SETS == 16 ? 6 : 3,
    LK_MANY_PAIRS = LK_MANY_TILE_OUT * LK_MANY_TILE_ROWS,
    LK_MANY_OUT = 8,                                   /* outputs of a block */
    LK_MANY_ROWS = 96,                                 /* rows of a block at most */
    LK_MANY_COLUMNS = 640,                             /* of a part */
    LK_MANY_ROW_BYTES = 1 << 20,                       /* of a block's rows in all their columns */
    LK_MANY_TILES = LK_MANY_ROWS / LK_MANY_TILE_ROWS * /* of a block */
                    (LK_MANY_OUT / LK_MANY_TILE_OUT),
    LK_MANY_LEAST = 24 /* rows from which on this is faster */
};

typedef struct lk_many {
    const uint8_t *w;
    size_t row_bytes, n;
    const float *x;
    size_t x_stride;
    float *y;
    size_t y_stride;
    size_t o, o_end; /* outputs of the block */
    size_t r, r_end; /* rows of the block */
    size_t k, k_end; /* columns of the part */
    _Alignas(64) float wide[LK_MANY_OUT][LK_MANY_COLUMNS];
    _Alignas(64) float sums[LK_MANY_TILES][LK_MANY_PAIRS][16];
} lk_many;

/* The block's weights in the part's columns, zeros behind; missing outputs copy the last one. */
LK_INLINE void lk_many_widen(lk_float_weights kind, lk_many *m) {
    for (size_t i = 0; i < LK_MANY_OUT; i++) {
        const size_t o = m->o + i < m->o_end ? m->o + i : m->o_end - 1;
        const uint8_t *w = m->w + o * m->row_bytes;
        for (size_t k = m->k; k < m->k_end; k += LK_VEC_LANES) {
            const size_t left = m->k_end - k;
            const lk_vf v =
                lk_vf_load_weights(kind, w, k, left < LK_VEC_LANES ? left : LK_VEC_LANES);
            lk_vf_store(m->wide[i] + (k - m->k), v);
        }
    }
}

LK_INLINE void lk_many_step(lk_float_weights kind, const float *w, const float *const *x, size_t k,
                            size_t n, size_t v, lk_vf p[LK_MANY_PAIRS][LK_S16_VECS]) {
    lk_vf rows[LK_MANY_TILE_ROWS];
#pragma GCC unroll 6
    for (size_t r = 0; r < LK_MANY_TILE_ROWS; r++) {
        rows[r] = n == LK_VEC_LANES ? lk_vf_load(x[r] + k) : lk_vf_load_n(x[r] + k, n);
    }
#pragma GCC unroll 4
    for (size_t o = 0; o < LK_MANY_TILE_OUT; o++) {
        const lk_vf weights = lk_vf_load(w + o * LK_MANY_COLUMNS + k);
#pragma GCC unroll 6
        for (size_t r = 0; r < LK_MANY_TILE_ROWS; r++) {
            lk_vf *sum = &p[o * LK_MANY_TILE_ROWS + r][v];
            *sum = lk_vf_add_product(kind, *sum, weights, rows[r]);
        }
    }
}

/* The sums of the tile's pairs to their places in y. */
LK_INLINE void lk_many_finish(const lk_many *m, size_t o, size_t r,
                              lk_vf p[LK_MANY_PAIRS][LK_S16_VECS]) {
    float out[(LK_MANY_PAIRS + LK_S16_SETS - 1) / LK_S16_SETS * LK_S16_SETS];
#pragma GCC unroll 2
    for (size_t i = 0; i < LK_MANY_PAIRS; i += LK_S16_SETS) {
        lk_vf sets[LK_S16_SETS][LK_S16_VECS];
#pragma GCC unroll 16
        for (size_t s = 0; s < LK_S16_SETS; s++) {
#pragma GCC unroll 4
            for (size_t v = 0; v < LK_S16_VECS; v++) {
                sets[s][v] = i + s < LK_MANY_PAIRS ? p[i + s][v] : lk_vf_zero();
            }
        }
        lk_s16_trees(sets, out + i);
    }
    for (size_t i = 0; i < LK_MANY_TILE_OUT && o + i < m->o_end; i++) {
        for (size_t j = 0; j < LK_MANY_TILE_ROWS && r + j < m->r_end; j++) {
            m->y[(r + j) * m->y_stride + o + i] = out[i * LK_MANY_TILE_ROWS + j];
        }
    }
}

/* One tile of the block in the part's columns. */
LK_INLINE void lk_many_tile(lk_float_weights kind, lk_many *m, size_t o, size_t r,
                            float sums[LK_MANY_PAIRS][16]) {
    const float *w = m->wide[o - m->o];
    const size_t n = m->k_end - m->k;
    const float *x[LK_MANY_TILE_ROWS];
    for (size_t j = 0; j < LK_MANY_TILE_ROWS; j++) { /* missing rows copy the last one */
        const size_t row = r + j < m->r_end ? r + j : m->r_end - 1;
        x[j] = m->x + row * m->x_stride + m->k;
    }
    lk_vf p[LK_MANY_PAIRS][LK_S16_VECS];
#pragma GCC unroll 24
    for (size_t i = 0; i < LK_MANY_PAIRS; i++) {
#pragma GCC unroll 4
        for (size_t v = 0; v < LK_S16_VECS; v++) {
            p[i][v] = m->k == 0 ? lk_vf_zero() : lk_vf_load(sums[i] + v * LK_VEC_LANES);
        }
    }
    size_t k = 0;
    for (; k + 16 <= n; k += 16) {
#pragma GCC unroll 4
        for (size_t v = 0; v < LK_S16_VECS; v++) {
            lk_many_step(kind, w, x, k + v * LK_VEC_LANES, LK_VEC_LANES, v, p);
        }
    }
#pragma GCC unroll 4
    for (size_t v = 0; v < LK_S16_VECS; v++) {
        const size_t at = k + v * LK_VEC_LANES;
        if (at < n) {
            lk_many_step(kind, w, x, at, n - at < LK_VEC_LANES ? n - at : LK_VEC_LANES, v, p);
        }
    }
    if (m->k_end == m->n) {
        lk_many_finish(m, o, r, p);
        return;
    }
#pragma GCC unroll 24
    for (size_t i = 0; i < LK_MANY_PAIRS; i++) {
#pragma GCC unroll 4
        for (size_t v = 0; v < LK_S16_VECS; v++) {
            lk_vf_store(sums[i] + v * LK_VEC_LANES, p[i][v]);
        }
    }
}

LK_INLINE void lk_many_block(lk_float_weights kind, lk_many *m) {
    const lk_float_weights product = kind == LK_WEIGHTS_F32 ? kind : LK_WEIGHTS_F16_WIDE;
    for (m->k = 0; m->k < m->n; m->k = m->k_end) {
        m->k_end = m->n - m->k < LK_MANY_COLUMNS ? m->n : m->k + LK_MANY_COLUMNS;
        lk_many_widen(kind, m);
        size_t i_tile = 0;
        for (size_t r = m->r; r < m->r_end; r += LK_MANY_TILE_ROWS) {
            for (size_t o = m->o; o < m->o_end; o += LK_MANY_TILE_OUT) {
                lk_many_tile(product, m, o, r, m->sums[i_tile++]);
            }
        }
    }
}

/* lk_matmul_float_fn for one kind of weights and n > 0 columns. */
LK_INLINE void lk_matmul_float_many(lk_float_weights kind, const uint8_t *w, size_t row_bytes,
                                    size_t n, size_t o_begin, size_t o_end, const float *x,
                                    size_t x_stride, size_t n_rows, float *y, size_t y_stride) {
    lk_many m;
    m.w = w;
    m.row_bytes = row_bytes;
    m.n = n;
    m.x = x;
    m.x_stride = x_stride;
    m.y = y;
    m.y_stride = y_stride;
    const size_t in_cache = LK_MANY_ROW_BYTES / sizeof(float) / n / LK_MANY_TILE_ROWS;
    const size_t wanted = in_cache * LK_MANY_TILE_ROWS;
    const size_t block = wanted > LK_MANY_ROWS        ? LK_MANY_ROWS
                         : wanted < LK_MANY_TILE_ROWS ? LK_MANY_TILE_ROWS
                                                      : wanted;
    for (m.r = 0; m.r < n_rows; m.r = m.r_end) {
        m.r_end = n_rows - m.r < block ? n_rows : m.r + block;
        for (m.o = o_begin; m.o < o_end; m.o += LK_MANY_OUT) {
            m.o_end = o_end - m.o < LK_MANY_OUT ? o_end : m.o + LK_MANY_OUT;
            lk_many_block(kind, &m);
        }
    }
}

/* lk_matmul_float_fn for one kind of weights and any number of rows. */
LK_INLINE void lk_matmul_float_rows(lk_float_weights kind, const uint8_t *w, size_t row_bytes,
                                    size_t n, size_t o_begin, size_t o_end, const float *x,
                                    size_t x_stride, size_t n_rows, float *y, size_t y_stride) {
    if (n_rows >= LK_MANY_LEAST && n > 0) {
        lk_matmul_float_many(kind, w, row_bytes, n, o_begin, o_end, x, x_stride, n_rows, y,
                             y_stride);
    } else {
        lk_matmul_float(kind, w, row_bytes, n, o_begin, o_end, x, x_stride, n_rows, y, y_stride);
    }
}

#endif
