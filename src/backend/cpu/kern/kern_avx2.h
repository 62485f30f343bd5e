/* kern_avx2.h - the kernels of this instruction set, for its init function. */
#ifndef LK_BACKEND_CPU_KERN_KERN_AVX2_H
#define LK_BACKEND_CPU_KERN_KERN_AVX2_H

#include "ops/ops.h"

lk_matmul_quant_fn lk_matmul_block32_avx2;
lk_matmul_quant_fn lk_matmul_block256_avx2;
lk_matmul_strip_fn lk_matmul_strips_block32_avx2;
lk_matmul_strip_fn lk_matmul_strips_block256_avx2;
lk_matmul_float_fn lk_matmul_f32_avx2;
lk_matmul_float_fn lk_matmul_f16_avx2;
lk_matmul_float_fn lk_matmul_bf16_avx2;
lk_act_quantize_fn lk_act_quantize_avx2;
lk_act_round_fn lk_act_round_avx2;
lk_rms_norm_fn lk_rms_norm_avx2;
lk_layer_norm_fn lk_layer_norm_avx2;
lk_rope_fn lk_rope_avx2;
lk_silu_mul_fn lk_silu_mul_avx2;
lk_gelu_mul_fn lk_gelu_mul_avx2;
lk_clamped_silu_mul_fn lk_clamped_silu_mul_avx2;
lk_gelu_erf_fn lk_gelu_erf_avx2;
lk_scale_fn lk_scale_avx2;
lk_softcap_fn lk_softcap_avx2;
lk_add_fn lk_add_avx2;
lk_scale_add_fn lk_scale_add_avx2;
lk_kv_store_fn lk_kv_store_avx2;
lk_attention_fn lk_attention_avx2;
lk_attention_join_fn lk_attention_join_avx2;
lk_check_finite_fn lk_check_finite_avx2;

#endif
