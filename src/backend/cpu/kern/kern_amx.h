/* kern_amx.h - the kernels of this instruction set, for its init function. */
#ifndef LK_BACKEND_CPU_KERN_KERN_AMX_H
#define LK_BACKEND_CPU_KERN_KERN_AMX_H

#include "ops/ops.h"

/* Fewer rows than this are left to the kernels of AVX-512. */
enum { LK_AMX_MIN_ROWS = 12 };

lk_matmul_quant_fn lk_matmul_block32_amx;
lk_matmul_quant_fn lk_matmul_block256_amx;
lk_matmul_strip_fn lk_matmul_strips_block32_amx;
lk_matmul_strip_fn lk_matmul_strips_block256_amx;

#endif
