/* init_avx2.c - puts the kernels of this instruction set into the table. */
#include "backend/cpu/kern/kern_avx2.h"
#include "backend/cpu/kernels.h"

void lk_cpu_kernels_init_avx2(lk_cpu_kernels *kernels) {
    for (size_t i = 0; i < lk_format_count() && i < LK_MAX_FORMATS; i++) {
        const lk_format *format = lk_format_at(i);
        if (format->block_dot != NULL && format->block_elems == 32) {
            kernels->matmul_format[i] = lk_matmul_block32_avx2;
        } else if (format->block_dot != NULL && format->block_elems == 256) {
            kernels->matmul_format[i] = lk_matmul_block256_avx2;
        }
    }
}
