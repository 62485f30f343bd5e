/* matmul_strips_block32_avx512.c - the matrix product of the 32-element formats from strips with
 * AVX-512. A copy of the code of matmul_tile.h for each format, which says how it works; few
 * activation rows of the formats that people use most take matmul_few_avx512.h. */
#include "backend/cpu/kern/kern_avx512.h"
#include "backend/cpu/kern/matmul_few_avx512.h"
#include "backend/cpu/kern/matmul_tile.h"

static void q4_0(const uint8_t *strips, size_t o_begin, size_t o_end, const lk_act_rows *x,
                 float *y, size_t y_stride) {
    if (x->n_rows <= LK_FEW_ROWS) {
        lk_matmul_few(lk_tile_kind_of(LK_FORMAT_Q4_0), strips, o_begin, o_end, x, y, y_stride);
        return;
    }
    lk_matmul_strips(lk_tile_kind_of(LK_FORMAT_Q4_0), strips, o_begin, o_end, x, y, y_stride);
}

static void q4_1(const uint8_t *strips, size_t o_begin, size_t o_end, const lk_act_rows *x,
                 float *y, size_t y_stride) {
    lk_matmul_strips(lk_tile_kind_of(LK_FORMAT_Q4_1), strips, o_begin, o_end, x, y, y_stride);
}

static void q5_0(const uint8_t *strips, size_t o_begin, size_t o_end, const lk_act_rows *x,
                 float *y, size_t y_stride) {
    lk_matmul_strips(lk_tile_kind_of(LK_FORMAT_Q5_0), strips, o_begin, o_end, x, y, y_stride);
}

static void q5_1(const uint8_t *strips, size_t o_begin, size_t o_end, const lk_act_rows *x,
                 float *y, size_t y_stride) {
    lk_matmul_strips(lk_tile_kind_of(LK_FORMAT_Q5_1), strips, o_begin, o_end, x, y, y_stride);
}

static void q8_0(const uint8_t *strips, size_t o_begin, size_t o_end, const lk_act_rows *x,
                 float *y, size_t y_stride) {
    if (x->n_rows <= LK_FEW_ROWS) {
        lk_matmul_few(lk_tile_kind_of(LK_FORMAT_Q8_0), strips, o_begin, o_end, x, y, y_stride);
        return;
    }
    lk_matmul_strips(lk_tile_kind_of(LK_FORMAT_Q8_0), strips, o_begin, o_end, x, y, y_stride);
}

static void iq4_nl(const uint8_t *strips, size_t o_begin, size_t o_end, const lk_act_rows *x,
                   float *y, size_t y_stride) {
    lk_matmul_strips(lk_tile_kind_of(LK_FORMAT_IQ4_NL), strips, o_begin, o_end, x, y, y_stride);
}

static void mxfp4(const uint8_t *strips, size_t o_begin, size_t o_end, const lk_act_rows *x,
                  float *y, size_t y_stride) {
    lk_matmul_strips(lk_tile_kind_of(LK_FORMAT_MXFP4), strips, o_begin, o_end, x, y, y_stride);
}

void lk_matmul_strips_block32_avx512(const lk_format *format, const uint8_t *strips, size_t o_begin,
                                     size_t o_end, const lk_act_rows *x, float *y,
                                     size_t y_stride) {
    switch (format->type) {
    case LK_FORMAT_Q4_0:
        q4_0(strips, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_Q4_1:
        q4_1(strips, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_Q5_0:
        q5_0(strips, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_Q5_1:
        q5_1(strips, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_Q8_0:
        q8_0(strips, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_IQ4_NL:
        iq4_nl(strips, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_MXFP4:
        mxfp4(strips, o_begin, o_end, x, y, y_stride);
        break;
    default:
        break; /* the table sends nothing else here */
    }
}
