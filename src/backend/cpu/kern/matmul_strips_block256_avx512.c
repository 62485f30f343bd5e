/* matmul_strips_block256_avx512.c - the matrix product of the 256-element formats from strips with
 * AVX-512. A copy of the code of matmul_tile.h for each format, which says how it works; few
 * activation rows of the formats that people use most take matmul_few_avx512.h. */
#include "backend/cpu/kern/kern_avx512.h"
#include "backend/cpu/kern/matmul_few_avx512.h"
#include "backend/cpu/kern/matmul_tile.h"

static void q2_k(const uint8_t *strips, size_t o_begin, size_t o_end, const lk_act_rows *x,
                 float *y, size_t y_stride) {
    lk_matmul_strips(lk_tile_kind_of(LK_FORMAT_Q2_K), strips, o_begin, o_end, x, y, y_stride);
}

static void q3_k(const uint8_t *strips, size_t o_begin, size_t o_end, const lk_act_rows *x,
                 float *y, size_t y_stride) {
    lk_matmul_strips(lk_tile_kind_of(LK_FORMAT_Q3_K), strips, o_begin, o_end, x, y, y_stride);
}

static void q4_k(const uint8_t *strips, size_t o_begin, size_t o_end, const lk_act_rows *x,
                 float *y, size_t y_stride) {
    if (x->n_rows <= LK_FEW_ROWS) {
        lk_matmul_few(lk_tile_kind_of(LK_FORMAT_Q4_K), strips, o_begin, o_end, x, y, y_stride);
        return;
    }
    lk_matmul_strips(lk_tile_kind_of(LK_FORMAT_Q4_K), strips, o_begin, o_end, x, y, y_stride);
}

static void q5_k(const uint8_t *strips, size_t o_begin, size_t o_end, const lk_act_rows *x,
                 float *y, size_t y_stride) {
    if (x->n_rows <= LK_FEW_ROWS) {
        lk_matmul_few(lk_tile_kind_of(LK_FORMAT_Q5_K), strips, o_begin, o_end, x, y, y_stride);
        return;
    }
    lk_matmul_strips(lk_tile_kind_of(LK_FORMAT_Q5_K), strips, o_begin, o_end, x, y, y_stride);
}

static void q6_k(const uint8_t *strips, size_t o_begin, size_t o_end, const lk_act_rows *x,
                 float *y, size_t y_stride) {
    if (x->n_rows <= LK_FEW_ROWS) {
        lk_matmul_few(lk_tile_kind_of(LK_FORMAT_Q6_K), strips, o_begin, o_end, x, y, y_stride);
        return;
    }
    lk_matmul_strips(lk_tile_kind_of(LK_FORMAT_Q6_K), strips, o_begin, o_end, x, y, y_stride);
}

static void iq4_xs(const uint8_t *strips, size_t o_begin, size_t o_end, const lk_act_rows *x,
                   float *y, size_t y_stride) {
    lk_matmul_strips(lk_tile_kind_of(LK_FORMAT_IQ4_XS), strips, o_begin, o_end, x, y, y_stride);
}

void lk_matmul_strips_block256_avx512(const lk_format *format, const uint8_t *strips,
                                      size_t o_begin, size_t o_end, const lk_act_rows *x, float *y,
                                      size_t y_stride) {
    switch (format->type) {
    case LK_FORMAT_Q2_K:
        q2_k(strips, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_Q3_K:
        q3_k(strips, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_Q4_K:
        q4_k(strips, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_Q5_K:
        q5_k(strips, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_Q6_K:
        q6_k(strips, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_IQ4_XS:
        iq4_xs(strips, o_begin, o_end, x, y, y_stride);
        break;
    default:
        break; /* the table sends nothing else here */
    }
}
