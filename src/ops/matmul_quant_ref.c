/* matmul_quant_ref.c - the quantised matrix product (section 5): the definition, by the exact block
 * dot of the format. */
#include "ops/ops.h"

static float row_dot(const lk_format *format, const uint8_t *w, const int8_t *q, const float *d,
                     size_t n, uint32_t group) {
    float acc = 0.0f;
    for (size_t k = 0; k < n; k += format->block_elems, w += format->block_bytes) {
        const lk_block_dot dot = format->block_dot(w, q + k);
        const float d_a = d[k / group];
        acc = acc + (dot.d * d_a) * (float)dot.i;
        if (format->has_min) {
            acc = acc - (dot.d_min * d_a) * (float)dot.m;
        }
    }
    return acc;
}

void lk_matmul_quant_ref(const lk_format *format, const uint8_t *w, size_t row_bytes,
                         size_t o_begin, size_t o_end, const lk_act_rows *x, float *y,
                         size_t y_stride) {
    const size_t n_groups = x->n / x->group;
    for (size_t o = o_begin; o < o_end; o++) {
        for (size_t r = 0; r < x->n_rows; r++) {
            y[r * y_stride + o] = row_dot(format, w + o * row_bytes, x->q + r * x->n,
                                          x->d + r * n_groups, x->n, x->group);
        }
    }
}
