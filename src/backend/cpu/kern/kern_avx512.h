/* kern_avx512.h - the kernels of this instruction set, for its init function. */
#ifndef LK_BACKEND_CPU_KERN_KERN_AVX512_H
#define LK_BACKEND_CPU_KERN_KERN_AVX512_H

#include "ops/ops.h"

lk_matmul_quant_fn lk_matmul_block32_avx512;
lk_matmul_quant_fn lk_matmul_block256_avx512;

#endif
