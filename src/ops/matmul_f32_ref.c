/* matmul_f32_ref.c - the matrix product with f32 weights (section 6): the definition. */
#include "ops/ops.h"
#include "ops/twin.h"

static float row_dot(const uint8_t *w, const float *x, size_t n) {
    float p[LK_SUM_LANES] = {0.0f};
    for (size_t k = 0; k < n; k += LK_SUM_LANES) {
        const size_t count = n - k < LK_SUM_LANES ? n - k : LK_SUM_LANES;
        float v[LK_SUM_LANES];
        for (size_t j = 0; j < count; j++) {
            v[j] = lk_f32_from_bits(lk_load_u32(w + 4 * (k + j)));
        }
        lk_sum16_add(p, v, x + k, count);
    }
    return lk_sum16_tree(p);
}

void lk_matmul_f32_ref(const uint8_t *w, size_t row_bytes, size_t n, size_t o_begin, size_t o_end,
                       const float *x, size_t x_stride, size_t n_rows, float *y, size_t y_stride) {
    for (size_t o = o_begin; o < o_end; o++) {
        for (size_t r = 0; r < n_rows; r++) {
            y[r * y_stride + o] = row_dot(w + o * row_bytes, x + r * x_stride, n);
        }
    }
}
