/* kern_avx2.h - the kernels of this instruction set, for its init function. */
#ifndef LK_BACKEND_CPU_KERN_KERN_AVX2_H
#define LK_BACKEND_CPU_KERN_KERN_AVX2_H

#include "ops/ops.h"

lk_matmul_quant_fn lk_matmul_block32_avx2;
lk_matmul_quant_fn lk_matmul_block256_avx2;

#endif
