/* kern_i8mm.h - the kernels of this instruction set, for its init function. */
#ifndef LK_BACKEND_CPU_KERN_KERN_I8MM_H
#define LK_BACKEND_CPU_KERN_KERN_I8MM_H

#include "ops/ops.h"

lk_matmul_quant_fn lk_matmul_block32_i8mm;
lk_matmul_quant_fn lk_matmul_block256_i8mm;
lk_matmul_strip_fn lk_matmul_strips_block32_i8mm;
lk_matmul_strip_fn lk_matmul_strips_block256_i8mm;

#endif
