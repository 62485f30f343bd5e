/* init_neon.c - puts the kernels of this instruction set into the table. */
#include "backend/cpu/kern/kern_neon.h"
#include "backend/cpu/kern/tile.h"
#include "backend/cpu/kernels.h"

void lk_cpu_kernels_init_neon(lk_cpu_kernels *kernels) {
    kernels->act_quantize = lk_act_quantize_neon;
    kernels->act_round = lk_act_round_neon;
    kernels->rms_norm = lk_rms_norm_neon;
    kernels->layer_norm = lk_layer_norm_neon;
    kernels->rope = lk_rope_neon;
    kernels->silu_mul = lk_silu_mul_neon;
    kernels->gelu_mul = lk_gelu_mul_neon;
    kernels->clamped_silu_mul = lk_clamped_silu_mul_neon;
    kernels->gelu_erf = lk_gelu_erf_neon;
    kernels->scale = lk_scale_neon;
    kernels->softcap = lk_softcap_neon;
    kernels->add = lk_add_neon;
    kernels->scale_add = lk_scale_add_neon;
    kernels->kv_store = lk_kv_store_neon;
    kernels->attention = lk_attention_neon;
    kernels->attention_join = lk_attention_join_neon;
    kernels->check_finite = lk_check_finite_neon;
    kernels->matmul_f32 = lk_matmul_f32_neon;
    kernels->matmul_f16 = lk_matmul_f16_neon;
    kernels->matmul_bf16 = lk_matmul_bf16_neon;
    for (size_t i = 0; i < LK_N_FORMATS; i++) {
        const uint32_t block_elems = lk_tile_kind_of(lk_format_at(i)->type).block_elems;
        if (block_elems == 32) {
            kernels->matmul_format[i] = lk_matmul_block32_neon;
            kernels->matmul_strips[i] = lk_matmul_strips_block32_neon;
        } else if (block_elems == 256) {
            kernels->matmul_format[i] = lk_matmul_block256_neon;
            kernels->matmul_strips[i] = lk_matmul_strips_block256_neon;
        }
    }
}
