/* matmul_formats.h - the quantised matrix products of an instruction set: one copy of the code of
 * matmul_tile.h for each format, each a function of its own so that no function gets too large for
 * the compiler. A file names its functions by the macros at the end. */
#ifndef LK_BACKEND_CPU_KERN_MATMUL_FORMATS_H
#define LK_BACKEND_CPU_KERN_MATMUL_FORMATS_H

#include "backend/cpu/kern/matmul_tile.h"

#define LK_BLOCK32_FORMATS(X) X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(IQ4_NL) X(MXFP4)
#define LK_BLOCK256_FORMATS(X) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) X(IQ4_XS)

#define LK_ROWS_PRODUCT(TYPE)                                                                      \
    static void rows_##TYPE(const uint8_t *w, size_t row_bytes, size_t o_begin, size_t o_end,      \
                            const lk_act_rows *x, float *y, size_t y_stride) {                     \
        lk_matmul_tiles(lk_tile_kind_of(LK_FORMAT_##TYPE), w, row_bytes, o_begin, o_end, x, y,     \
                        y_stride);                                                                 \
    }
#define LK_ROWS_CASE(TYPE)                                                                         \
    case LK_FORMAT_##TYPE:                                                                         \
        rows_##TYPE(w, row_bytes, o_begin, o_end, x, y, y_stride);                                 \
        break;

#define LK_STRIPS_PRODUCT(TYPE)                                                                    \
    static void strips_##TYPE(const uint8_t *strips, size_t o_begin, size_t o_end,                 \
                              const lk_act_rows *x, float *y, size_t y_stride) {                   \
        lk_matmul_strips(lk_tile_kind_of(LK_FORMAT_##TYPE), strips, o_begin, o_end, x, y,          \
                         y_stride);                                                                \
    }
#define LK_STRIPS_CASE(TYPE)                                                                       \
    case LK_FORMAT_##TYPE:                                                                         \
        strips_##TYPE(strips, o_begin, o_end, x, y, y_stride);                                     \
        break;

/* `name`: an lk_matmul_quant_fn for LK_BLOCK32_FORMATS or LK_BLOCK256_FORMATS; the table of kernels
 * sends no other format there. */
#define LK_DEFINE_ROWS_PRODUCT(name, FORMATS)                                                      \
    FORMATS(LK_ROWS_PRODUCT)                                                                       \
    void name(const lk_format *format, const uint8_t *w, size_t row_bytes, size_t o_begin,         \
              size_t o_end, const lk_act_rows *x, float *y, size_t y_stride) {                     \
        switch (format->type) {                                                                    \
            FORMATS(LK_ROWS_CASE)                                                                  \
        default:                                                                                   \
            break;                                                                                 \
        }                                                                                          \
    }

/* The same for an lk_matmul_strip_fn. */
#define LK_DEFINE_STRIPS_PRODUCT(name, FORMATS)                                                    \
    FORMATS(LK_STRIPS_PRODUCT)                                                                     \
    void name(const lk_format *format, const uint8_t *strips, size_t o_begin, size_t o_end,        \
              const lk_act_rows *x, float *y, size_t y_stride) {                                   \
        switch (format->type) {                                                                    \
            FORMATS(LK_STRIPS_CASE)                                                                \
        default:                                                                                   \
            break;                                                                                 \
        }                                                                                          \
    }

#endif
