/* rowwise_avx512.c - the operators on one row with AVX-512; rowwise.h says how. */
#include "backend/cpu/kern/kern_avx512.h"
#include "backend/cpu/kern/rowwise.h"

void lk_act_quantize_avx512(const float *x, size_t n, uint32_t group, int8_t *q, float *d,
                            int16_t *sums, uint32_t *flag) {
    lk_vec_act_quantize(x, n, group, q, d, sums, flag);
}

void lk_act_round_avx512(const float *x, size_t n, lk_round_mode mode, float *y, uint32_t *flag) {
    lk_vec_act_round(x, n, mode, y, flag);
}

void lk_rms_norm_avx512(const float *x, const float *w, float eps, size_t n, float *y,
                        uint32_t *flag) {
    lk_vec_rms_norm(x, w, eps, n, y, flag);
}

void lk_layer_norm_avx512(const float *x, const float *w, const float *b, float eps, size_t n,
                          float *y, uint32_t *flag) {
    lk_vec_layer_norm(x, w, b, eps, n, y, flag);
}

void lk_rope_avx512(float *x, size_t n_rot, lk_rope_order order, const float *cos_sin) {
    if (order == LK_ROPE_NORMAL) {
        lk_vec_rope_normal(x, n_rot, cos_sin);
    } else {
        lk_vec_rope_neox(x, n_rot, cos_sin);
    }
}

void lk_silu_mul_avx512(const float *gate, const float *up, size_t n, float *y) {
    lk_vec_silu_mul(gate, up, n, y);
}

void lk_gelu_mul_avx512(const float *gate, const float *up, size_t n, float *y) {
    lk_vec_gelu_mul(gate, up, n, y);
}

void lk_clamped_silu_mul_avx512(const float *gate, const float *up, size_t n, float *y) {
    lk_vec_clamped_silu_mul(gate, up, n, y);
}

void lk_gelu_erf_avx512(const float *x, size_t n, float *y) {
    lk_vec_gelu_erf(x, n, y);
}

void lk_scale_avx512(const float *x, float factor, size_t n, float *y) {
    lk_vec_scale(x, factor, n, y);
}

void lk_softcap_avx512(const float *x, float cap, size_t n, float *y) {
    lk_vec_softcap(x, cap, n, y);
}

void lk_add_avx512(const float *a, const float *b, size_t n, float *y) {
    lk_vec_add(a, b, n, y);
}

void lk_scale_add_avx512(const float *x, float weight, size_t n, float *y) {
    lk_vec_scale_add(x, weight, n, y);
}

void lk_kv_store_avx512(lk_kv_format format, const float *x, size_t head_dim, uint8_t *block,
                        size_t i_in_page, uint32_t *flag) {
    lk_vec_kv_store(format, x, head_dim, block, i_in_page, flag);
}

uint32_t lk_check_finite_avx512(const float *x, size_t n) {
    return lk_vec_largest(x, n) >= 0x7f800000u ? 1u : 0u;
}
