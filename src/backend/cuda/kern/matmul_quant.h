/* matmul_quant.h - products with quantised weights (section 5): exact integers of a block, then its
 * scales, blocks in order. One body for all formats, of which each kernel is one case: `type` is a
 * constant. Two ways: tiles of rows and outputs for many rows, single outputs for few.
 *
 * Elements of a row that make up a step: 256, eight blocks of 32 or one of 256. */
#ifndef LK_BACKEND_CUDA_KERN_MATMUL_QUANT_H
#define LK_BACKEND_CUDA_KERN_MATMUL_QUANT_H

#include "backend/cuda/kern/formats.h"
#include "backend/cuda/kern/matmul.h"
#include "ops/ops.h"

enum {
    LK_STEP = 256,
    LK_STEP_WORDS = LK_STEP / 4,
    LK_STEP_STRIDE = LK_STEP_WORDS + 4, /* words; so that neighbouring rows lie in other banks */
    LK_STEP_BLOCKS = LK_STEP / 32,
    LK_STEP_GROUPS = LK_STEP / 16,
    LK_STEP_SCALES = LK_STEP_BLOCKS + 1,
    LK_STEP_SUMS = LK_STEP_GROUPS + 2
};

/* A step of the tile's weights and activations, shared by the block's threads. */
typedef struct lk_step_tile {
    uint32_t w[LK_CUDA_QUANT_TILE][LK_STEP_STRIDE];
    uint32_t q[LK_CUDA_QUANT_TILE][LK_STEP_STRIDE];
    float d[LK_CUDA_QUANT_TILE][LK_STEP_SCALES];
    float d_min[LK_CUDA_QUANT_TILE][LK_STEP_SCALES];
    float d_a[LK_CUDA_QUANT_TILE][LK_STEP_SCALES];
    int8_t scale[LK_CUDA_QUANT_TILE][LK_STEP_GROUPS + 4];
    uint8_t min[LK_CUDA_QUANT_TILE][LK_STEP_GROUPS + 4];
    int16_t sums[LK_CUDA_QUANT_TILE][LK_STEP_SUMS];
} lk_step_tile;

/* Blocks of a step, elements of a block, groups of a block. */
LK_DEVICE uint32_t lk_blocks_of_step(uint32_t type) {
    return LK_STEP / lk_fmt_elems(type);
}

/* Elements [first, first + 256) of the tile's weights; what lies outside is 0. */
LK_DEVICE void lk_fill_weights(uint32_t type, const lk_cuda_matrix *m, const lk_tile *tile,
                               uint32_t first, lk_step_tile *step) {
    const uint32_t n_elems = lk_fmt_elems(type);
    for (uint32_t i = lk_thread(); i < LK_CUDA_QUANT_TILE * LK_STEP_WORDS; i += LK_CUDA_WIDE) {
        const uint32_t out = tile->out + i / LK_STEP_WORDS;
        const uint32_t k = first + i % LK_STEP_WORDS * 4;
        const uint8_t *const block =
            tile->w + out * m->row_bytes + k / n_elems * lk_fmt_bytes(type);
        step->w[i / LK_STEP_WORDS][i % LK_STEP_WORDS] =
            out < tile->out_end && k < m->n ? lk_fmt_word(type, block, k % n_elems / 4) : 0;
    }
    for (uint32_t i = lk_thread(); i < LK_CUDA_QUANT_TILE * LK_STEP_GROUPS; i += LK_CUDA_WIDE) {
        const uint32_t row = i / LK_STEP_GROUPS;
        const uint32_t g = i % LK_STEP_GROUPS; /* of the step, or its block */
        const uint32_t out = tile->out + row;
        const uint32_t k = first + (n_elems == 256 ? 0 : g * 32);
        const uint8_t *const block =
            tile->w + out * m->row_bytes + k / n_elems * lk_fmt_bytes(type);
        const bool is_inside = out < tile->out_end && k < m->n;
        if (g < lk_blocks_of_step(type)) {
            step->d[row][g] = is_inside ? lk_fmt_d(type, block) : 0.0f;
            if (lk_fmt_has_min(type)) {
                step->d_min[row][g] = is_inside ? lk_fmt_d_min(type, block) : 0.0f;
            }
        }
        if (n_elems == 256 && g < LK_STEP / lk_fmt_group(type)) {
            step->scale[row][g] = (int8_t)(is_inside ? lk_fmt_scale(type, block, g) : 0);
            if (lk_fmt_has_min(type)) {
                step->min[row][g] = (uint8_t)(is_inside ? lk_fmt_min(type, block, g) : 0);
            }
        }
    }
}

/* Likewise of the tile's activations. */
LK_DEVICE void lk_fill_activations(uint32_t type, const lk_cuda_matmul_quant_args *a,
                                   const lk_tile *tile, uint32_t first, lk_step_tile *step) {
    const uint32_t n_elems = lk_fmt_elems(type);
    const uint32_t n = a->m.n;
    for (uint32_t i = lk_thread(); i < LK_CUDA_QUANT_TILE * LK_STEP_WORDS; i += LK_CUDA_WIDE) {
        const uint32_t row = tile->row + i / LK_STEP_WORDS;
        const uint32_t k = first + i % LK_STEP_WORDS * 4;
        const bool is_inside = row < tile->row_end && k < n;
        step->q[i / LK_STEP_WORDS][i % LK_STEP_WORDS] =
            is_inside ? *(const uint32_t *)(const void *)(a->q + (size_t)row * n + k) : 0;
    }
    for (uint32_t i = lk_thread(); i < LK_CUDA_QUANT_TILE * LK_STEP_GROUPS; i += LK_CUDA_WIDE) {
        const uint32_t row = tile->row + i / LK_STEP_GROUPS;
        const uint32_t g = i % LK_STEP_GROUPS;
        const uint32_t k = first + g * n_elems;
        if (g < lk_blocks_of_step(type)) {
            step->d_a[i / LK_STEP_GROUPS][g] =
                row < tile->row_end && k < n ? a->d[((size_t)row * n + k) / n_elems] : 0.0f;
        }
        if (lk_fmt_has_min(type)) {
            const uint32_t at = first + g * 16;
            step->sums[i / LK_STEP_GROUPS][g] =
                (int16_t)(row < tile->row_end && at < n ? a->sums[((size_t)row * n + at) / 16] : 0);
        }
    }
}

enum { LK_QUANT_SIDE = 4, LK_QUANT_TEAMS = LK_CUDA_QUANT_TILE / LK_QUANT_SIDE };

/* Block b of the step: adds to the thread's sums. */
LK_DEVICE void lk_add_block(uint32_t type, const lk_step_tile *step, uint32_t b,
                            float acc[LK_QUANT_SIDE][LK_QUANT_SIDE]) {
    const uint32_t n_group = lk_fmt_group(type);
    const uint32_t n_groups = lk_fmt_elems(type) / n_group;
    const uint32_t my_row = lk_thread() / LK_QUANT_TEAMS;
    const uint32_t my_out = lk_thread() % LK_QUANT_TEAMS;
    int32_t sum[LK_QUANT_SIDE][LK_QUANT_SIDE] = {{0}};
    int32_t min[LK_QUANT_SIDE][LK_QUANT_SIDE] = {{0}};
    for (uint32_t g = 0; g < n_groups; g++) {
        int32_t part[LK_QUANT_SIDE][LK_QUANT_SIDE] = {{0}};
        const uint32_t word = (b * lk_fmt_elems(type) + g * n_group) / 4;
        LK_UNROLL for (uint32_t k = 0; k < n_group / 4; k += 4) {
            lk_words q[LK_QUANT_SIDE];
            LK_UNROLL for (uint32_t i = 0; i < LK_QUANT_SIDE; i++) {
                q[i] = lk_read_words(&step->q[my_row + i * LK_QUANT_TEAMS][word + k]);
            }
            LK_UNROLL for (uint32_t j = 0; j < LK_QUANT_SIDE; j++) {
                const lk_words w = lk_read_words(&step->w[my_out + j * LK_QUANT_TEAMS][word + k]);
                LK_UNROLL for (uint32_t i = 0; i < LK_QUANT_SIDE; i++) {
                    part[i][j] = lk_dp4a(w.x, q[i].x, part[i][j]);
                    part[i][j] = lk_dp4a(w.y, q[i].y, part[i][j]);
                    part[i][j] = lk_dp4a(w.z, q[i].z, part[i][j]);
                    part[i][j] = lk_dp4a(w.w, q[i].w, part[i][j]);
                }
            }
        }
        LK_UNROLL for (uint32_t j = 0; j < LK_QUANT_SIDE; j++) {
            const uint32_t out = my_out + j * LK_QUANT_TEAMS;
            const int32_t scale = n_groups == 1 ? 1 : step->scale[out][g];
            const int32_t least = n_groups == 1 ? 1 : step->min[out][g];
            LK_UNROLL for (uint32_t i = 0; i < LK_QUANT_SIDE; i++) {
                const int16_t *const sums = &step->sums[my_row + i * LK_QUANT_TEAMS][word / 4];
                sum[i][j] += scale * part[i][j];
                if (lk_fmt_has_min(type)) {
                    min[i][j] += least * (n_group == 16 ? sums[0] : sums[0] + sums[1]);
                }
            }
        }
    }
    LK_UNROLL for (uint32_t i = 0; i < LK_QUANT_SIDE; i++) {
        const float d_a = step->d_a[my_row + i * LK_QUANT_TEAMS][b];
        LK_UNROLL for (uint32_t j = 0; j < LK_QUANT_SIDE; j++) {
            const uint32_t out = my_out + j * LK_QUANT_TEAMS;
            acc[i][j] = acc[i][j] + (step->d[out][b] * d_a) * (float)sum[i][j];
            if (lk_fmt_has_min(type)) {
                acc[i][j] = acc[i][j] - (step->d_min[out][b] * d_a) * (float)min[i][j];
            }
        }
    }
}

/* Tiles of 64 rows and 64 outputs; a thread has four of each. */
LK_DEVICE void lk_multiply_tile(const lk_cuda_matmul_quant_args *a, uint32_t type,
                                lk_step_tile *step) {
    const lk_tile tile = lk_tile_of_block(&a->m, a->n_rows, LK_CUDA_QUANT_TILE, LK_CUDA_QUANT_TILE);
    if (tile.row >= tile.row_end) {
        return;
    }
    float acc[LK_QUANT_SIDE][LK_QUANT_SIDE] = {{0.0f}};
    for (uint32_t first = 0; first < a->m.n; first += LK_STEP) {
        const uint32_t left = a->m.n - first;
        const uint32_t n_blocks = (left < LK_STEP ? left : LK_STEP) / lk_fmt_elems(type);
        lk_barrier();
        lk_fill_weights(type, &a->m, &tile, first, step);
        lk_fill_activations(type, a, &tile, first, step);
        lk_barrier();
        for (uint32_t b = 0; b < n_blocks; b++) {
            lk_add_block(type, step, b, acc);
        }
    }
    LK_UNROLL for (uint32_t i = 0; i < LK_QUANT_SIDE; i++) {
        const uint32_t row = tile.row + lk_thread() / LK_QUANT_TEAMS + i * LK_QUANT_TEAMS;
        LK_UNROLL for (uint32_t j = 0; j < LK_QUANT_SIDE; j++) {
            const uint32_t out = tile.out + lk_thread() % LK_QUANT_TEAMS + j * LK_QUANT_TEAMS;
            if (row < tile.row_end && out < tile.out_end) {
                a->y[(size_t)row * a->y_stride + out] = acc[i][j];
                lk_check(&a->flags, row, acc[i][j]);
            }
        }
    }
}

/* ---- few rows ---- */

enum { LK_FEW_BLOCKS = 64 /* of an output, between two sums */ };

/* What blocks add to the outputs, shared: of output o and row r, block by block. */
typedef struct lk_few_terms {
    float plus[LK_CUDA_FEW_OUTS][LK_CUDA_FEW_ROWS][LK_FEW_BLOCKS + 1];
    float minus[LK_CUDA_FEW_OUTS][LK_CUDA_FEW_ROWS][LK_FEW_BLOCKS + 1];
} lk_few_terms;

/* A piece of 32 elements: of a block of 256 an eighth, whose sums eight neighbouring threads put
 * together. Called by all threads; is_there is false for those without a piece. */
LK_DEVICE void lk_few_piece(const lk_cuda_matmul_quant_args *a, uint32_t type, const lk_tile *tile,
                            const uint8_t *block, uint32_t k, bool is_there, uint32_t i_out,
                            uint32_t i_block, lk_few_terms *terms) {
    const uint32_t n_elems = lk_fmt_elems(type);
    const uint32_t n_group = lk_fmt_group(type);
    const uint32_t eighth = n_elems == 256 ? k % 256 / 32 : 0;
    const uint32_t n = a->m.n;
    uint32_t w[8];
    int32_t scale[2] = {1, 1};
    int32_t least[2] = {1, 1};
    LK_UNROLL for (uint32_t i = 0; i < 8; i++) {
        w[i] = is_there ? lk_fmt_word(type, block, eighth * 8 + i) : 0;
    }
    if (n_elems == 256 && is_there) {
        LK_UNROLL for (uint32_t g = 0; g < 32 / n_group; g++) {
            scale[g] = lk_fmt_scale(type, block, eighth * 32 / n_group + g);
            least[g] = lk_fmt_min(type, block, eighth * 32 / n_group + g);
        }
    }
    for (uint32_t r = 0; r < LK_CUDA_FEW_ROWS; r++) {
        const uint32_t row = tile->row + r;
        if (row >= tile->row_end) { /* for all threads alike */
            break;
        }
        const size_t at = (size_t)row * n + k;
        int32_t sum = 0;
        int32_t min = 0;
        if (is_there) {
            const uint32_t *const q = (const uint32_t *)(const void *)(a->q + at);
            LK_UNROLL for (uint32_t g = 0; g < 32 / n_group; g++) {
                int32_t part = 0;
                LK_UNROLL for (uint32_t i = g * n_group / 4; i < (g + 1) * n_group / 4; i++) {
                    part = lk_dp4a(w[i], q[i], part);
                }
                sum += scale[g] * part;
            }
            if (lk_fmt_has_min(type)) {
                const int16_t *const sums = a->sums + at / 16;
                min = n_group == 16 ? least[0] * sums[0] + least[1] * sums[1]
                                    : least[0] * (sums[0] + sums[1]);
            }
        }
        if (n_elems == 256) {
            for (uint32_t mask = 1; mask < 8; mask *= 2) {
                sum += (int32_t)lk_exchange((uint32_t)sum, mask);
                min += (int32_t)lk_exchange((uint32_t)min, mask);
            }
        }
        if (is_there && eighth == 0) {
            const float d_a = a->d[at / n_elems];
            terms->plus[i_out][r][i_block] = (lk_fmt_d(type, block) * d_a) * (float)sum;
            if (lk_fmt_has_min(type)) {
                terms->minus[i_out][r][i_block] = (lk_fmt_d_min(type, block) * d_a) * (float)min;
            }
        }
    }
}

/* Blocks of LK_CUDA_FEW_OUTS outputs and up to LK_CUDA_FEW_ROWS rows: all threads share the work on
 * the weights' blocks, then one thread for each output adds up what they give, in order. */
LK_DEVICE void lk_multiply_few(const lk_cuda_matmul_quant_args *a, uint32_t type,
                               lk_few_terms *terms) {
    const lk_tile tile = lk_tile_of_block(&a->m, a->n_rows, LK_CUDA_FEW_ROWS, LK_CUDA_FEW_OUTS);
    if (tile.row >= tile.row_end) {
        return;
    }
    const uint32_t n_elems = lk_fmt_elems(type);
    const uint32_t pieces = n_elems / 32 * LK_FEW_BLOCKS;
    const uint32_t my_out = lk_thread() % LK_CUDA_FEW_OUTS;
    const uint32_t my_row = lk_thread() / LK_CUDA_FEW_OUTS;
    const bool adds = tile.out + my_out < tile.out_end && my_row < LK_CUDA_FEW_ROWS &&
                      tile.row + my_row < tile.row_end;
    float acc = 0.0f;
    for (uint32_t first = 0; first < a->m.n; first += LK_FEW_BLOCKS * n_elems) {
        const uint32_t left = a->m.n - first;
        const uint32_t here = left < LK_FEW_BLOCKS * n_elems ? left : LK_FEW_BLOCKS * n_elems;
        lk_barrier();
        for (uint32_t i = lk_thread(); i < LK_CUDA_FEW_OUTS * pieces; i += LK_CUDA_WIDE) {
            const uint32_t out = tile.out + i / pieces;
            const uint32_t k = i % pieces * 32;
            const uint8_t *const block =
                tile.w + out * a->m.row_bytes + (first + k) / n_elems * lk_fmt_bytes(type);
            lk_few_piece(a, type, &tile, block, first + k, out < tile.out_end && k < here,
                         i / pieces, k / n_elems, terms);
        }
        lk_barrier();
        for (uint32_t b = 0; adds && b < here / n_elems; b++) {
            acc = acc + terms->plus[my_out][my_row][b];
            if (lk_fmt_has_min(type)) {
                acc = acc - terms->minus[my_out][my_row][b];
            }
        }
    }
    if (adds) {
        a->y[(size_t)(tile.row + my_row) * a->y_stride + tile.out + my_out] = acc;
        lk_check(&a->flags, tile.row + my_row, acc);
    }
}

#endif
