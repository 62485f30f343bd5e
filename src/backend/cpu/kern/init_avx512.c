/* init_avx512.c - puts the kernels of this instruction set into the table. */
#include "backend/cpu/kern/kern_avx512.h"
#include "backend/cpu/kern/tile.h"
#include "backend/cpu/kernels.h"

void lk_cpu_kernels_init_avx512(lk_cpu_kernels *kernels) {
    kernels->act_quantize = lk_act_quantize_avx512;
    kernels->act_round = lk_act_round_avx512;
    kernels->rms_norm = lk_rms_norm_avx512;
    kernels->layer_norm = lk_layer_norm_avx512;
    kernels->rope = lk_rope_avx512;
    kernels->silu_mul = lk_silu_mul_avx512;
    kernels->gelu_mul = lk_gelu_mul_avx512;
    kernels->clamped_silu_mul = lk_clamped_silu_mul_avx512;
    kernels->gelu_erf = lk_gelu_erf_avx512;
    kernels->scale = lk_scale_avx512;
    kernels->softcap = lk_softcap_avx512;
    kernels->add = lk_add_avx512;
    kernels->scale_add = lk_scale_add_avx512;
    kernels->kv_store = lk_kv_store_avx512;
    kernels->attention = lk_attention_avx512;
    kernels->attention_join = lk_attention_join_avx512;
    kernels->check_finite = lk_check_finite_avx512;
    kernels->matmul_f32 = lk_matmul_f32_avx512;
    kernels->matmul_f16 = lk_matmul_f16_avx512;
    kernels->matmul_bf16 = lk_matmul_bf16_avx512;
    for (size_t i = 0; i < LK_N_FORMATS; i++) {
        const uint32_t block_elems = lk_tile_kind_of(lk_format_at(i)->type).block_elems;
        if (block_elems == 32) {
            kernels->matmul_format[i] = lk_matmul_block32_avx512;
            kernels->matmul_strips[i] = lk_matmul_strips_block32_avx512;
        } else if (block_elems == 256) {
            kernels->matmul_format[i] = lk_matmul_block256_avx512;
            kernels->matmul_strips[i] = lk_matmul_strips_block256_avx512;
        }
    }
}
