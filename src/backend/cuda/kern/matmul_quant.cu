/* matmul_quant.cu - products with quantised weights (section 5): exact integers of a block, then
 * its scales, blocks in order. One thread for each output. */
#include "backend/cuda/kern/formats.h"
#include "backend/cuda/kern/matmul.h"
#include "ops/ops.h"

/* acc and one block more. q: the activations of the block, sums: those of each 16 of them. */
LK_DEVICE float add_block(uint32_t type, const uint8_t *block, const int8_t *q, float d_a,
                          const int16_t *sums, float acc) {
    const uint32_t n_group = lk_fmt_group(type);
    int32_t sum = 0;
    int32_t min = 0;
    for (uint32_t g = 0; g < lk_fmt_elems(type) / n_group; g++) {
        int32_t group_sum = 0;
        for (uint32_t i = g * n_group / 4; i < (g + 1) * n_group / 4; i++) {
            const uint32_t word = *(const uint32_t *)(const void *)(q + 4 * i);
            group_sum = lk_dp4a(lk_fmt_word(type, block, i), word, group_sum);
        }
        sum += lk_fmt_scale(type, block, g) * group_sum;
        if (lk_fmt_has_min(type)) {
            const uint32_t i = g * n_group / LK_SUBGROUP;
            const int32_t of_group = n_group == LK_SUBGROUP ? sums[i] : sums[i] + sums[i + 1];
            min += lk_fmt_min(type, block, g) * of_group;
        }
    }
    acc = acc + (lk_fmt_d(type, block) * d_a) * (float)sum;
    if (lk_fmt_has_min(type)) {
        acc = acc - (lk_fmt_d_min(type, block) * d_a) * (float)min;
    }
    return acc;
}

LK_DEVICE void multiply(const lk_cuda_matmul_quant_args *a, uint32_t type) {
    const lk_tile tile = lk_tile_of_block(&a->m, a->n_rows, LK_CUDA_TILE, LK_CUDA_TILE);
    const uint32_t n_elems = lk_fmt_elems(type);
    const uint32_t out = tile.out + lk_thread() % LK_CUDA_TILE;
    if (out >= tile.out_end) {
        return;
    }
    for (uint32_t i = lk_thread() / LK_CUDA_TILE; i < LK_CUDA_TILE;
         i += LK_CUDA_WIDE / LK_CUDA_TILE) {
        const uint32_t row = tile.row + i;
        if (row >= tile.row_end) {
            return;
        }
        const uint8_t *block = tile.w + out * a->m.row_bytes;
        const size_t at = (size_t)row * a->m.n;
        float acc = 0.0f;
        for (uint32_t k = 0; k < a->m.n; k += n_elems, block += lk_fmt_bytes(type)) {
            acc = add_block(type, block, a->q + at + k, a->d[(at + k) / n_elems],
                            a->sums + (at + k) / LK_SUBGROUP, acc);
        }
        a->y[(size_t)row * a->y_stride + out] = acc;
        lk_check(&a->flags, row, acc);
    }
}

LK_KERNEL(matmul_q8_0, lk_cuda_matmul_quant_args) {
    multiply(&a, LK_FORMAT_Q8_0);
}
