/* kern_neon.h - the kernels of this instruction set, for its init function. */
#ifndef LK_BACKEND_CPU_KERN_KERN_NEON_H
#define LK_BACKEND_CPU_KERN_KERN_NEON_H

#include "ops/ops.h"

lk_matmul_quant_fn lk_matmul_block32_neon;
lk_matmul_quant_fn lk_matmul_block256_neon;
lk_matmul_strip_fn lk_matmul_strips_block32_neon;
lk_matmul_strip_fn lk_matmul_strips_block256_neon;
lk_matmul_float_fn lk_matmul_f32_neon;
lk_matmul_float_fn lk_matmul_f16_neon;
lk_matmul_float_fn lk_matmul_bf16_neon;
lk_act_quantize_fn lk_act_quantize_neon;
lk_act_round_fn lk_act_round_neon;
lk_rms_norm_fn lk_rms_norm_neon;
lk_layer_norm_fn lk_layer_norm_neon;
lk_rope_fn lk_rope_neon;
lk_silu_mul_fn lk_silu_mul_neon;
lk_gelu_mul_fn lk_gelu_mul_neon;
lk_clamped_silu_mul_fn lk_clamped_silu_mul_neon;
lk_gelu_erf_fn lk_gelu_erf_neon;
lk_scale_fn lk_scale_neon;
lk_softcap_fn lk_softcap_neon;
lk_add_fn lk_add_neon;
lk_scale_add_fn lk_scale_add_neon;
lk_kv_store_fn lk_kv_store_neon;
lk_attention_fn lk_attention_neon;
lk_attention_join_fn lk_attention_join_neon;
lk_check_finite_fn lk_check_finite_neon;

#endif
