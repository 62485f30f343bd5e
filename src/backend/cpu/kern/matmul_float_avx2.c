/* matmul_float_avx2.c - matrix products with f32, f16 and bf16 weights with AVX2; matmul_float.h
 * and matmul_float_many.h say how. */
#include "backend/cpu/kern/kern_avx2.h"
#include "backend/cpu/kern/matmul_float_many.h"

void lk_matmul_f32_avx2(const uint8_t *w, size_t row_bytes, size_t n, size_t o_begin, size_t o_end,
                        const float *x, size_t x_stride, size_t n_rows, float *y, size_t y_stride) {
    lk_matmul_float_rows(LK_WEIGHTS_F32, w, row_bytes, n, o_begin, o_end, x, x_stride, n_rows, y,
                         y_stride);
}

void lk_matmul_f16_avx2(const uint8_t *w, size_t row_bytes, size_t n, size_t o_begin, size_t o_end,
                        const float *x, size_t x_stride, size_t n_rows, float *y, size_t y_stride) {
    lk_matmul_float_rows(LK_WEIGHTS_F16, w, row_bytes, n, o_begin, o_end, x, x_stride, n_rows, y,
                         y_stride);
}

void lk_matmul_bf16_avx2(const uint8_t *w, size_t row_bytes, size_t n, size_t o_begin, size_t o_end,
                         const float *x, size_t x_stride, size_t n_rows, float *y,
                         size_t y_stride) {
    lk_matmul_float_rows(LK_WEIGHTS_BF16, w, row_bytes, n, o_begin, o_end, x, x_stride, n_rows, y,
                         y_stride);
}
