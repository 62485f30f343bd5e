/* matmul.h - what matrix products share: which rows and outputs a block has. */
#ifndef LK_BACKEND_CUDA_KERN_MATMUL_H
#define LK_BACKEND_CUDA_KERN_MATMUL_H

#include "backend/cuda/kern/flags.h"
#include "backend/cuda/kern/launch.h"

/* Rows [row, row_end) of the activations against weight rows [out, out_end) of the matrix at w. */
typedef struct lk_tile {
    const uint8_t *w;
    uint32_t row;
    uint32_t row_end;
    uint32_t out;
    uint32_t out_end;
} lk_tile;

/* The tile of this block; empty (row >= row_end) where the block has nothing to do. */
LK_DEVICE lk_tile lk_tile_of_block(const lk_cuda_matrix *m, uint32_t n_rows, uint32_t tile_rows,
                                   uint32_t tile_outs) {
    const uint32_t z = lk_block_z();
    lk_tile tile;
    tile.w = m->w + z * m->matrix_bytes;
    tile.row = (m->first != NULL ? m->first[z] : 0) + lk_block_y() * tile_rows;
    tile.row_end = m->first != NULL ? m->first[z + 1] : n_rows;
    tile.out = lk_block_x() * tile_outs;
    tile.out_end = m->n_out;
    return tile;
}

#endif
