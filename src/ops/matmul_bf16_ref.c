/* matmul_bf16_ref.c - the matrix product with bf16 weights (section 6): the definition. The
 * activations were rounded by act_round (LK_ROUND_16B), so that every product is exact. */
#include "ops/ops.h"
#include "ops/twin.h"

/* Weights below 2^-60 in magnitude are read as +0, from 2^64 on as infinity: their products could
 * be inexact. */
static float read_weight(const uint8_t *w) {
    const uint32_t bits = (uint32_t)lk_load_u16(w) << 16;
    const uint32_t a = bits & 0x7fffffffu;
    if (a < 0x21800000u) {
        return 0.0f;
    }
    if (a >= 0x5f800000u && a < 0x7f800000u) {
        return lk_f32_from_bits((bits & 0x80000000u) | 0x7f800000u);
    }
    return lk_f32_from_bits(bits);
}

static float row_dot(const uint8_t *w, const float *x, size_t n) {
    float p[LK_SUM_LANES] = {0.0f};
    for (size_t k = 0; k < n; k += LK_SUM_LANES) {
        const size_t count = n - k < LK_SUM_LANES ? n - k : LK_SUM_LANES;
        float v[LK_SUM_LANES];
        for (size_t j = 0; j < count; j++) {
            v[j] = read_weight(w + 2 * (k + j));
        }
        lk_sum16_add(p, v, x + k, count);
    }
    return lk_sum16_tree(p);
}

void lk_matmul_bf16_ref(const uint8_t *w, size_t row_bytes, size_t n, size_t o_begin, size_t o_end,
                        const float *x, size_t x_stride, size_t n_rows, float *y, size_t y_stride) {
    for (size_t o = o_begin; o < o_end; o++) {
        for (size_t r = 0; r < n_rows; r++) {
            y[r * y_stride + o] = row_dot(w + o * row_bytes, x + r * x_stride, n);
        }
    }
}
