/* matmul_block256_neon.c - the matrix product of the 256-element formats with NEON: Q2_K, Q3_K,
 * Q4_K, Q5_K, Q6_K, IQ4_XS. A copy of the code of matmul_tile.h for each format, which says how it
 * works. */
#include "backend/cpu/kern/kern_neon.h"
#include "backend/cpu/kern/matmul_tile.h"

static void q2_k(const uint8_t *w, size_t row_bytes, size_t o_begin, size_t o_end,
                 const lk_act_rows *x, float *y, size_t y_stride) {
    lk_matmul_tiles(lk_tile_kind_of(LK_FORMAT_Q2_K), w, row_bytes, o_begin, o_end, x, y, y_stride);
}

static void q3_k(const uint8_t *w, size_t row_bytes, size_t o_begin, size_t o_end,
                 const lk_act_rows *x, float *y, size_t y_stride) {
    lk_matmul_tiles(lk_tile_kind_of(LK_FORMAT_Q3_K), w, row_bytes, o_begin, o_end, x, y, y_stride);
}

static void q4_k(const uint8_t *w, size_t row_bytes, size_t o_begin, size_t o_end,
                 const lk_act_rows *x, float *y, size_t y_stride) {
    lk_matmul_tiles(lk_tile_kind_of(LK_FORMAT_Q4_K), w, row_bytes, o_begin, o_end, x, y, y_stride);
}

static void q5_k(const uint8_t *w, size_t row_bytes, size_t o_begin, size_t o_end,
                 const lk_act_rows *x, float *y, size_t y_stride) {
    lk_matmul_tiles(lk_tile_kind_of(LK_FORMAT_Q5_K), w, row_bytes, o_begin, o_end, x, y, y_stride);
}

static void q6_k(const uint8_t *w, size_t row_bytes, size_t o_begin, size_t o_end,
                 const lk_act_rows *x, float *y, size_t y_stride) {
    lk_matmul_tiles(lk_tile_kind_of(LK_FORMAT_Q6_K), w, row_bytes, o_begin, o_end, x, y, y_stride);
}

static void iq4_xs(const uint8_t *w, size_t row_bytes, size_t o_begin, size_t o_end,
                   const lk_act_rows *x, float *y, size_t y_stride) {
    lk_matmul_tiles(lk_tile_kind_of(LK_FORMAT_IQ4_XS), w, row_bytes, o_begin, o_end, x, y,
                    y_stride);
}

void lk_matmul_block256_neon(const lk_format *format, const uint8_t *w, size_t row_bytes,
                             size_t o_begin, size_t o_end, const lk_act_rows *x, float *y,
                             size_t y_stride) {
    switch (format->type) {
    case LK_FORMAT_Q2_K:
        q2_k(w, row_bytes, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_Q3_K:
        q3_k(w, row_bytes, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_Q4_K:
        q4_k(w, row_bytes, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_Q5_K:
        q5_k(w, row_bytes, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_Q6_K:
        q6_k(w, row_bytes, o_begin, o_end, x, y, y_stride);
        break;
    case LK_FORMAT_IQ4_XS:
        iq4_xs(w, row_bytes, o_begin, o_end, x, y, y_stride);
        break;
    default:
        break; /* the table sends nothing else here */
    }
}
