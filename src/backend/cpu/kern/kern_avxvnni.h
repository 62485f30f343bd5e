/* kern_avxvnni.h - the kernels of this instruction set, for its init function. */
#ifndef LK_BACKEND_CPU_KERN_KERN_AVXVNNI_H
#define LK_BACKEND_CPU_KERN_KERN_AVXVNNI_H

#include "ops/ops.h"

lk_matmul_quant_fn lk_matmul_block32_avxvnni;
lk_matmul_quant_fn lk_matmul_block256_avxvnni;
lk_matmul_strip_fn lk_matmul_strips_block32_avxvnni;
lk_matmul_strip_fn lk_matmul_strips_block256_avxvnni;
lk_attention_fn lk_attention_avxvnni;

#endif
