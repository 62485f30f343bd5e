/* init_avx2.c - puts the kernels of this instruction set into the table. */
#include "backend/cpu/kernels.h"

void lk_cpu_kernels_init_avx2(lk_cpu_kernels *kernels) {
    (void)kernels;
}
