/* matmul_f32act_ref.c - the float32-activation test mode (section 6): weights of any format are
 * decoded, a piece at a time, and multiplied as f32 weights. It proves graphs against float32
 * references; it is no part of the ordinary definition and has no kernels. */
#include <assert.h>

#include "ops/ops.h"
#include "ops/twin.h"

enum { PIECE = 256, ROWS = 16 }; /* elements decoded at once; rows that share a decoded piece */

static void rows_dot(const lk_format *format, const uint8_t *w, size_t n, const float *x,
                     size_t x_stride, size_t n_rows, float *out, size_t out_stride) {
    static_assert(PIECE % LK_FORMAT_MAX_BLOCK_ELEMS == 0 && PIECE % LK_SUM_LANES == 0,
                  "a piece holds whole blocks and whole rounds of S16");
    float p[ROWS][LK_SUM_LANES] = {{0.0f}};
    float decoded[PIECE];
    for (size_t k = 0; k < n; k += PIECE) {
        const size_t n_piece = n - k < PIECE ? n - k : PIECE;
        format->decode(w + lk_format_bytes(format, k), decoded, n_piece);
        for (size_t r = 0; r < n_rows; r++) {
            for (size_t j = 0; j < n_piece; j += LK_SUM_LANES) {
                lk_sum16_add(p[r], decoded + j, x + r * x_stride + k + j,
                             n_piece - j < LK_SUM_LANES ? n_piece - j : LK_SUM_LANES);
            }
        }
    }
    for (size_t r = 0; r < n_rows; r++) {
        out[r * out_stride] = lk_sum16_tree(p[r]);
    }
}

void lk_matmul_f32act_ref(const lk_format *format, const uint8_t *w, size_t row_bytes, size_t n,
                          size_t o_begin, size_t o_end, const float *x, size_t x_stride,
                          size_t n_rows, float *y, size_t y_stride) {
    for (size_t o = o_begin; o < o_end; o++) {
        for (size_t r = 0; r < n_rows; r += ROWS) {
            const size_t count = n_rows - r < ROWS ? n_rows - r : ROWS;
            rows_dot(format, w + o * row_bytes, n, x + r * x_stride, x_stride, count,
                     y + r * y_stride + o, y_stride);
        }
    }
}
