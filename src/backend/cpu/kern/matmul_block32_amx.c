/* matmul_block32_amx.c - the matrix product of the 32-element formats with AMX: one register of
 * products for each block, eight blocks at a time, then the float part, whose order of blocks is
 * that of the definition. Weights are signed bytes here. */
#include "backend/cpu/kern/amx.h"
#include "backend/cpu/kern/kern_amx.h"
#include "backend/cpu/kern/kern_avx512.h"

enum { BLOCKS = LK_TILE_ELEMS / 32 };

static lk_tile_kind kind_of(uint32_t type) {
    lk_tile_kind kind = lk_tile_kind_of(type);
    kind.bias = kind.bias == 128 ? 0 : kind.bias; /* those are signed in the file */
    return kind;
}

LK_INLINE void unpack_from(bool is_strips, uint32_t type, lk_tile_source s, size_t n_blocks,
                           lk_tile *tile) {
    s.is_strips = is_strips;
    switch (type) {
    case LK_FORMAT_Q4_0:
        lk_tile_unpack_block32(kind_of(LK_FORMAT_Q4_0), s, n_blocks, tile);
        break;
    case LK_FORMAT_Q4_1:
        lk_tile_unpack_block32(kind_of(LK_FORMAT_Q4_1), s, n_blocks, tile);
        break;
    case LK_FORMAT_Q5_0:
        lk_tile_unpack_block32(kind_of(LK_FORMAT_Q5_0), s, n_blocks, tile);
        break;
    case LK_FORMAT_Q5_1:
        lk_tile_unpack_block32(kind_of(LK_FORMAT_Q5_1), s, n_blocks, tile);
        break;
    case LK_FORMAT_Q8_0:
        lk_tile_unpack_block32(kind_of(LK_FORMAT_Q8_0), s, n_blocks, tile);
        break;
    case LK_FORMAT_IQ4_NL:
        lk_tile_unpack_block32(kind_of(LK_FORMAT_IQ4_NL), s, n_blocks, tile);
        break;
    default:
        lk_tile_unpack_block32(kind_of(LK_FORMAT_MXFP4), s, n_blocks, tile);
        break;
    }
}

static void unpack(uint32_t type, lk_tile_source s, size_t n_blocks, lk_tile *tile) {
    if (s.is_strips) {
        unpack_from(true, type, s, n_blocks, tile);
    } else {
        unpack_from(false, type, s, n_blocks, tile);
    }
}

static void take_bias(int bias, size_t n_blocks, lk_tile *tile) {
    const __m512i b = _mm512_set1_epi8((char)bias);
    for (size_t k4 = 0; bias != 0 && k4 < 8 * n_blocks; k4++) {
        _mm512_store_si512(tile->w[k4], _mm512_sub_epi8(_mm512_load_si512(tile->w[k4]), b));
    }
}

/* The sums of one block of rows, for each block of columns. */
typedef struct block_sums {
    lk_amx_sums at[BLOCKS];
    float a[LK_AMX_ROWS][BLOCKS]; /* of the activations, where the format has a minimum */
} block_sums;

static inline void dot_one(const int8_t *q, size_t q_stride, size_t i, const lk_tile *tile,
                           block_sums *out) {
    _tile_zero(0);
    _tile_loadd(4, q + 32 * i, q_stride);
    _tile_loadd(6, tile->w[8 * i], 64);
    _tile_dpbssd(0, 4, 6);
    _tile_stored(0, out->at[i].at, 64);
}

static inline void dot(const int8_t *q, size_t q_stride, size_t n_blocks, const lk_tile *tile,
                       block_sums *out) {
    size_t i = 0;
    for (; i + 4 <= n_blocks; i += 4) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        _tile_loadd(4, q + 32 * i, q_stride);
        _tile_loadd(6, tile->w[8 * i], 64);
        _tile_dpbssd(0, 4, 6);
        _tile_loadd(5, q + 32 * (i + 1), q_stride);
        _tile_loadd(7, tile->w[8 * (i + 1)], 64);
        _tile_dpbssd(1, 5, 7);
        _tile_loadd(4, q + 32 * (i + 2), q_stride);
        _tile_loadd(6, tile->w[8 * (i + 2)], 64);
        _tile_dpbssd(2, 4, 6);
        _tile_loadd(5, q + 32 * (i + 3), q_stride);
        _tile_loadd(7, tile->w[8 * (i + 3)], 64);
        _tile_dpbssd(3, 5, 7);
        _tile_stored(0, out->at[i].at, 64);
        _tile_stored(1, out->at[i + 1].at, 64);
        _tile_stored(2, out->at[i + 2].at, 64);
        _tile_stored(3, out->at[i + 3].at, 64);
    }
    for (; i < n_blocks; i++) {
        dot_one(q, q_stride, i, tile, out);
    }
}

/* Sums of 32 activations as floats. */
static inline void sum_rows(const lk_act_rows *x, const lk_amx_block *block, size_t k,
                            size_t n_blocks, block_sums *out) {
    const __mmask16 present = (__mmask16)((1u << (2 * n_blocks)) - 1u);
    for (size_t r = 0; r < block->n_rows; r++) {
        const int16_t *sums = x->sums + (block->first + r) * (x->n / LK_SUBGROUP) + k / LK_SUBGROUP;
        const __m256i s = _mm256_maskz_loadu_epi16(present, sums);
        _mm256_storeu_ps(out->a[r], _mm256_cvtepi32_ps(_mm256_madd_epi16(s, _mm256_set1_epi16(1))));
    }
}

/* The float part. n_blocks is a constant where it is BLOCKS. d_a: of the block's first row. */
static inline void finish(bool has_min, size_t n_blocks, const lk_amx_block *block,
                          const block_sums *sums, const lk_tile *tile, const float *d_a,
                          size_t d_stride, size_t r_begin, float (*acc)[LK_TILE_ROWS]) {
    for (size_t r = block->fresh - block->first; r < block->n_rows; r++) {
        float *y = acc[block->first + r - r_begin];
        __m512 v = _mm512_load_ps(y);
#pragma GCC unroll 8
        for (size_t i = 0; i < n_blocks; i++) {
            const __m512 a = _mm512_set1_ps(d_a[r * d_stride + i]);
            const __m512 sum = _mm512_cvtepi32_ps(_mm512_load_si512(sums->at[i].at[r]));
            v = _mm512_add_ps(v, _mm512_mul_ps(_mm512_mul_ps(_mm512_load_ps(tile->d[i]), a), sum));
            if (has_min) {
                const __m512 d_min = _mm512_mul_ps(_mm512_load_ps(tile->d_min[i]), a);
                v = _mm512_sub_ps(v, _mm512_mul_ps(d_min, _mm512_set1_ps(sums->a[r][i])));
            }
        }
        _mm512_store_ps(y, v);
    }
}

/* Rows [r_begin, r_end) times n_blocks blocks of sixteen outputs, columns k .. One block of rows is
 * finished while the next one's products run. */
static inline void dot_rows(bool has_min, size_t n_blocks, const lk_tile *tile,
                            const lk_act_rows *x, size_t r_begin, size_t r_end, size_t k,
                            float (*acc)[LK_TILE_ROWS]) {
    block_sums sums[2];
    const size_t d_stride = x->n / 32;
    const size_t n_row_blocks = (r_end - r_begin + LK_AMX_ROWS - 1) / LK_AMX_ROWS;
    lk_amx_block last = {0};
    for (size_t i = 0; i <= n_row_blocks; i++) {
        lk_amx_block now = {0};
        if (i < n_row_blocks) {
            now = lk_amx_block_at(i, r_begin, r_end, x->n_rows);
            dot(x->q + now.first * x->q_stride + k, x->q_stride, n_blocks, tile, &sums[i % 2]);
            if (has_min) {
                sum_rows(x, &now, k, n_blocks, &sums[i % 2]);
            }
        }
        if (i > 0) {
            finish(has_min, n_blocks, &last, &sums[(i + 1) % 2], tile,
                   x->d + last.first * d_stride + k / 32, d_stride, r_begin, acc);
        }
        last = now;
    }
}

/* n_strips times sixteen outputs from o on, all rows of x. */
static void multiply(const lk_amx_weights *w, size_t o, size_t n_strips, const lk_act_rows *x,
                     float *y, size_t y_stride) {
    alignas(64) float acc[LK_AMX_STRIPS][LK_AMX_MAX_ROWS][LK_TILE_ROWS];
    lk_tile tile;
    lk_tile_copy copy;
    const bool has_min = w->kind.has_min;
    for (size_t r = 0; r < x->n_rows; r += LK_AMX_MAX_ROWS) {
        const size_t left = x->n_rows - r;
        const size_t r_end = r + (left < LK_AMX_MAX_ROWS ? left : LK_AMX_MAX_ROWS);
        for (size_t i = 0; i < n_strips; i++) {
            memset(acc[i], 0, (r_end - r) * sizeof acc[i][0]);
        }
        for (size_t k = 0; k < x->n; k += LK_TILE_ELEMS) {
            const size_t n_elems = x->n - k < LK_TILE_ELEMS ? x->n - k : LK_TILE_ELEMS;
            const size_t n_blocks = n_elems / 32;
            for (size_t i = 0; i < n_strips; i++) {
                const lk_tile_source from = lk_tile_source_at(
                    w->kind, &w->matrix, o + i * LK_TILE_ROWS, k, n_blocks, &copy);
                unpack(w->kind.type, from, n_blocks, &tile);
                take_bias(w->kind.bias, n_blocks, &tile);
                lk_amx_written();
                if (n_blocks == BLOCKS && !has_min) {
                    dot_rows(false, BLOCKS, &tile, x, r, r_end, k, acc[i]);
                } else if (n_blocks == BLOCKS) {
                    dot_rows(true, BLOCKS, &tile, x, r, r_end, k, acc[i]);
                } else {
                    dot_rows(has_min, n_blocks, &tile, x, r, r_end, k, acc[i]);
                }
            }
        }
        for (size_t i = 0; i < n_strips; i++) {
            lk_amx_put(w, o + i * LK_TILE_ROWS, acc[i][0], LK_TILE_ROWS, r_end - r,
                       y + r * y_stride, y_stride);
        }
    }
}

static void multiply_all(const lk_format *format, const lk_tile_matrix *matrix, size_t o_begin,
                         size_t o_end, const lk_act_rows *x, float *y, size_t y_stride) {
    const lk_amx_weights weights = {kind_of(format->type), *matrix, o_end};
    lk_amx_begin(x->n_rows < LK_AMX_ROWS ? x->n_rows : LK_AMX_ROWS, 32);
    for (size_t o = o_begin; o < o_end; o += LK_AMX_STRIPS * LK_TILE_ROWS) {
        const size_t n_strips = (o_end - o + LK_TILE_ROWS - 1) / LK_TILE_ROWS;
        multiply(&weights, o, n_strips < LK_AMX_STRIPS ? n_strips : LK_AMX_STRIPS, x, y, y_stride);
    }
    lk_amx_end();
}

void lk_matmul_block32_amx(const lk_format *format, const uint8_t *w, size_t row_bytes,
                           size_t o_begin, size_t o_end, const lk_act_rows *x, float *y,
                           size_t y_stride) {
    if (x->n_rows < LK_AMX_MIN_ROWS) {
        lk_matmul_block32_avx512(format, w, row_bytes, o_begin, o_end, x, y, y_stride);
        return;
    }
    const lk_tile_matrix matrix = {w, row_bytes, o_end, x->n, false};
    multiply_all(format, &matrix, o_begin, o_end, x, y, y_stride);
}

void lk_matmul_strips_block32_amx(const lk_format *format, const uint8_t *strips, size_t o_begin,
                                  size_t o_end, const lk_act_rows *x, float *y, size_t y_stride) {
    if (x->n_rows < LK_AMX_MIN_ROWS) {
        lk_matmul_strips_block32_avx512(format, strips, o_begin, o_end, x, y, y_stride);
        return;
    }
    const lk_tile_matrix matrix = {strips, 0, 0, x->n, true};
    multiply_all(format, &matrix, o_begin, o_end, x, y, y_stride);
}
