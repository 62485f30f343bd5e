/* amx.h - what the AMX kernels share: the shape of the tile registers, the rows of one call, and
 * where sixteen weight rows come from.
 *
 * Tile registers 0 .. 3 hold sums [rows][16 outputs] of int32, the others activations [rows][bytes]
 * and weights [bytes / 4][16 outputs][4 bytes], which is the form of tile.h. All sums are exact.
 *
 * The compiler does not know that tile loads read memory: lk_amx_written() stands between the
 * stores of what they load and the loads. */
#ifndef LK_BACKEND_CPU_KERN_AMX_H
#define LK_BACKEND_CPU_KERN_AMX_H

#include "backend/cpu/kern/unpack_block256.h"
#include "backend/cpu/kern/unpack_block32.h"
#include "ops/ops.h"

enum {
    LK_AMX_ROWS = 16,      /* of a tile register */
    LK_AMX_MAX_ROWS = 256, /* activation rows that one pass over the weights serves */
    LK_AMX_STRIPS = 4      /* times sixteen outputs that meet a slice of them from the cache */
};

/* Sums of one register in memory. */
typedef struct lk_amx_sums {
    alignas(64) int32_t at[LK_AMX_ROWS][LK_TILE_ROWS];
} lk_amx_sums;

typedef struct lk_amx_config {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} lk_amx_config;

/* Registers for n_rows activation rows of a_bytes bytes: 4 and 5 are theirs, 6 and 7 for weights.
 * lk_amx_end gives them back. */
LK_INLINE void lk_amx_begin(size_t n_rows, size_t a_bytes) {
    lk_amx_config config;
    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int i = 0; i < 4; i++) {
        config.rows[i] = (uint8_t)n_rows;
        config.row_bytes[i] = 64;
    }
    for (int i = 4; i < 6; i++) {
        config.rows[i] = (uint8_t)n_rows;
        config.row_bytes[i] = (uint16_t)a_bytes;
    }
    for (int i = 6; i < 8; i++) {
        config.rows[i] = (uint8_t)(a_bytes / 4);
        config.row_bytes[i] = 64;
    }
    __asm__ volatile("" ::: "memory");
    _tile_loadconfig(&config);
}
LK_INLINE void lk_amx_end(void) {
    _tile_release();
}
LK_INLINE void lk_amx_written(void) {
    __asm__ volatile("" ::: "memory");
}

/* What one call multiplies: the matrix and the outputs up to o_end. */
typedef struct lk_amx_weights {
    lk_tile_kind kind;
    lk_tile_matrix matrix;
    size_t o_end;
} lk_amx_weights;

/* A block of activation rows that one register holds: rows [first, first + n_rows), of which those
 * before `fresh` were met by the block before. */
typedef struct lk_amx_block {
    size_t first;
    size_t fresh;
    size_t n_rows;
} lk_amx_block;

/* Block i of rows [r_begin, r_end) of a call with n_rows rows. */
LK_INLINE lk_amx_block lk_amx_block_at(size_t i, size_t r_begin, size_t r_end, size_t n_rows) {
    lk_amx_block block = {.fresh = r_begin + i * LK_AMX_ROWS, .n_rows = LK_AMX_ROWS};
    block.first = block.fresh;
    if (n_rows < LK_AMX_ROWS) {
        block.n_rows = n_rows;
    } else if (block.first + LK_AMX_ROWS > r_end) {
        block.first = r_end - LK_AMX_ROWS;
    }
    return block;
}

/* acc [n_rows][width], of which the first outputs that exist are wanted, to y. */
LK_INLINE void lk_amx_put(const lk_amx_weights *w, size_t o, const float *acc, size_t width,
                          size_t n_rows, float *y, size_t y_stride) {
    const size_t n = w->o_end - o < width ? w->o_end - o : width;
    for (size_t r = 0; r < n_rows; r++) {
        memcpy(y + r * y_stride + o, acc + r * width, n * sizeof(float));
    }
}

#endif
