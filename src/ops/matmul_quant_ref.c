/* matmul_quant_ref.c - the quantised matrix product (section 5) from rows and from strips: the
 * definition. A block of weights is taken apart once and met by every row; the running sums are the
 * outputs themselves. */
#include "ops/ops.h"
#include "quant/strip.h"
#include "quant/unpacked.h"

/* lk_block_dot of an unpacked block, the group size a constant to the compiler. */
static lk_block_dot unpacked_dot(const lk_format *format, const lk_unpacked *u, const int8_t *q) {
    return format->group_elems == 16
               ? lk_unpacked_dot(u, format->block_elems, 16, format->has_min, q)
               : lk_unpacked_dot(u, format->block_elems, format->group_elems, format->has_min, q);
}

static void add_block(const lk_format *format, const lk_unpacked *u, size_t k, const lk_act_rows *x,
                      float *y, size_t y_stride) {
    const size_t n_groups = x->n / x->group;
    for (size_t r = 0; r < x->n_rows; r++) {
        const lk_block_dot dot = unpacked_dot(format, u, x->q + r * x->q_stride + k);
        const float d_a = x->d[r * n_groups + k / x->group];
        float acc = y[r * y_stride];
        acc = acc + (dot.d * d_a) * (float)dot.i;
        if (format->has_min) {
            acc = acc - (dot.d_min * d_a) * (float)dot.m;
        }
        y[r * y_stride] = acc;
    }
}

void lk_matmul_quant_ref(const lk_format *format, const uint8_t *w, size_t row_bytes,
                         size_t o_begin, size_t o_end, const lk_act_rows *x, float *y,
                         size_t y_stride) {
    for (size_t o = o_begin; o < o_end; o++) {
        const uint8_t *block = w + o * row_bytes;
        for (size_t r = 0; r < x->n_rows; r++) {
            y[r * y_stride + o] = 0.0f;
        }
        for (size_t k = 0; k < x->n; k += format->block_elems, block += format->block_bytes) {
            lk_unpacked u;
            format->unpack(block, &u);
            add_block(format, &u, k, x, y + o, y_stride);
        }
    }
}

void lk_matmul_strip_ref(const lk_format *format, const uint8_t *strips, size_t o_begin,
                         size_t o_end, const lk_act_rows *x, float *y, size_t y_stride) {
    const lk_strip_shape shape = lk_strip_shape_of(format->block_elems, format->block_bytes, x->n);
    for (size_t o = o_begin; o < o_end; o++) {
        const uint8_t *strip = strips + o / LK_STRIP_ROWS * shape.bytes;
        for (size_t r = 0; r < x->n_rows; r++) {
            y[r * y_stride + o] = 0.0f;
        }
        for (size_t b = 0; b < shape.n_blocks; b++) {
            uint8_t block[LK_FORMAT_MAX_BLOCK_BYTES];
            lk_unpacked u;
            lk_strip_get_block(format, &shape, strip, o % LK_STRIP_ROWS, b, block);
            format->unpack(block, &u);
            add_block(format, &u, b * format->block_elems, x, y + o, y_stride);
        }
    }
}
