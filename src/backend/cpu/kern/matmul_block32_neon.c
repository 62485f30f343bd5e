/* matmul_block32_neon.c - the matrix product of the 32-element formats with NEON: Q4_0, Q4_1, Q5_0,
 * Q5_1, Q8_0, IQ4_NL, MXFP4. A copy of the code of matmul_tile.h for each format, which says how it
 * works. */
#include "backend/cpu/kern/kern_neon.h"
#include "backend/cpu/kern/matmul_tile.h"

static void q4_0(const uint8_t *w, size_t row_bytes, size_t o_begin, size_t o_end,
                 const lk_act_rows *x, float *y, size_t y_stride) {
    lk_matmul_tiles(lk_tile_kind_of(LK_FORMAT_Q4_0), w, row_bytes, o_begin, o_end, x, y, y_stride);
}

static void q4_1(const uint8_t *w, size_t row_bytes, size_t o_begin, size_t o_end,
                 const lk_act_rows *x, float *y, size_t y_stride) {
    lk_matmul_tiles(lk_tile_kind_of(LK_FORMAT_Q4_1), w, row_bytes, o_begin, o_end, x, y, y_stride);
}

static void q5_0(const uint8_t *w, size_t row_bytes, size_t o_begin, size_t o_end,
                 const lk_act_rows *x, float *y, size_t y_stride) {
    lk_matmul_tiles(lk_tile_kind_of(LK_FORMAT_Q5_0), w, row_bytes, o_begin, o_end, x, y, y_stride);
}

static void q5_1(const uint8_t *w, size_t row_bytes, size_t o_begin, size_t o_end,
                 const lk_act_rows *x, float *y, size_t y_stride) {
    lk_matmul_tiles(lk_tile_kind_of(LK_FORMAT_Q5_1), w, row_bytes, o_begin, o_end, x, y, y_stride);
}

static void q8_0(const uint8_t *w, size_t row_bytes, size_t o_begin, size_t o_end,
                 const lk_act_rows *x, float *y, size_t y_stride) {
    lk_matmul_tiles(lk_tile_kind_of(LK_FORMAT_Q8_0), w, row_bytes, o_begin, o_end, x, y, y_stride);
}

static void iq4_nl(const uint8_t *w, size_t row_bytes, size_t o_begin, size_t o_end,
                   const lk_act_rows *x, float *y, size_t y_stride) {
    lk_matmul_tiles(lk_tile_kind_of(LK_FORMAT_IQ4_NL), w, row_bytes, o_begin, o_end, x, y,
                    y_stride);
}

static void mxfp4(const uint8_t *w, size_t row_bytes, size_t o_begin, size_t o_end,
                  const lk_act_rows *x, float *y, size_t y_stride) {
    lk_matmul_tiles(lk_tile_kind_of(LK_FORMAT_MXFP4), w, row_bytes, o_begin, o_end, x, y, y_stride);
}

void lk_matmul_block32_neon(const lk_format *format, const uint8_t *w, size_t row_bytes,
                            size_t o_begin, size_t o_end, const lk_act_rows *x, float *y,
                            size_t y_stride) {
    switch (format->type) {
    case LK_FORMAT_Q4_0:
        q4_0(w, row_bytes, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_Q4_1:
        q4_1(w, row_bytes, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_Q5_0:
        q5_0(w, row_bytes, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_Q5_1:
        q5_1(w, row_bytes, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_Q8_0:
        q8_0(w, row_bytes, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_IQ4_NL:
        iq4_nl(w, row_bytes, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_MXFP4:
        mxfp4(w, row_bytes, o_begin, o_end, x, y, y_stride);
        break;
    default:
        break; /* the table sends nothing else here */
    }
}
