/* init_avxvnni.c - puts the kernels of this instruction set into the table. */
#include "backend/cpu/kern/kern_avxvnni.h"
#include "backend/cpu/kern/tile.h"
#include "backend/cpu/kernels.h"

void lk_cpu_kernels_init_avxvnni(lk_cpu_kernels *kernels) {
    kernels->attention = lk_attention_avxvnni;
    for (size_t i = 0; i < LK_N_FORMATS; i++) {
        const uint32_t block_elems = lk_tile_kind_of(lk_format_at(i)->type).block_elems;
        if (block_elems == 32) {
            kernels->matmul_format[i] = lk_matmul_block32_avxvnni;
            kernels->matmul_strips[i] = lk_matmul_strips_block32_avxvnni;
        } else if (block_elems == 256) {
            kernels->matmul_format[i] = lk_matmul_block256_avxvnni;
            kernels->matmul_strips[i] = lk_matmul_strips_block256_avxvnni;
        }
    }
}
