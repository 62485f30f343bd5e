/* matmul_zip_avx512.h - the K-quants with AVX-512 VNNI, five and more activation rows: the sums of
 * two groups lie beside each other (tile.h, is_zipped), `vpackssdw` makes 16-bit pairs of those of
 * sixteen outputs, in the order of the outputs, and `vpdpwssd` adds and scales both.
 *
 * Sums are taken to pairs as often as 16 bits demand. What any activations can sum up to demands it
 * for every 16 or 8 columns; where no sixteen of them have magnitudes of more than 1023 in sum, as
 * in nearly all rows that a quantiser makes, for every 32 or 16 (steps_of). Both ways give the same
 * integers. Order and roundings of the floats are those of dot_avx512.h. */
#ifndef LK_BACKEND_CPU_KERN_MATMUL_ZIP_AVX512_H
#define LK_BACKEND_CPU_KERN_MATMUL_ZIP_AVX512_H

#include "backend/cpu/kern/unpack_block256.h"
#include "ops/ops.h"

enum {
    LK_ZIP_ROWS = 64,
    LK_ZIP_SUM_ROWS = LK_ZIP_ROWS + 1, /* sums of two strips are not 4096 bytes apart */
    LK_ZIP_SIDE = 8,
    LK_ZIP_STRIPS = 16,
    LK_ZIP_SMALL = 1023
};

/* 256 columns of up to LK_ZIP_ROWS activation rows, used by LK_ZIP_STRIPS strips. */
typedef struct lk_zip_rows {
    alignas(64) int8_t q[LK_ZIP_ROWS][LK_TILE_ELEMS]; /* zipped as the weights */
    int32_t start[LK_ZIP_ROWS][32]; /* what takes the bias away, for each two sums of the product */
    int16_t sums[LK_ZIP_ROWS][16];  /* of groups, as `min` of the tile needs them */
    float d[LK_ZIP_ROWS];
    bool is_small[LK_ZIP_ROWS / LK_ZIP_SIDE]; /* of rows LK_ZIP_SIDE i and so on */
} lk_zip_rows;

/* How many 64-bit words of a zipped row are summed before they are scaled: four columns of each of
 * two groups a word. |sum| <= 4 * steps * max_byte * 127, or 1023 * steps / 4 * max_byte. */
LK_INLINE size_t lk_zip_steps(lk_tile_kind kind, bool is_small) {
    switch (kind.type) {
    case LK_FORMAT_Q4_K:
        return is_small ? 8 : 4;
    case LK_FORMAT_Q5_K: /* 31 */
    case LK_FORMAT_Q6_K: /* -32 .. 31, the bias taken away */
        return is_small ? 4 : 2;
    default: /* Q2_K: 3, Q3_K: -4 .. 3 */
        return 4;
    }
}

/* One row of the slice; the result holds the sums of the magnitudes of each sixteen. */
LK_INLINE __m512i lk_zip_row(lk_tile_kind kind, const int8_t *q, const int16_t *sums, int8_t *to,
                             int16_t *to_sums) {
    const __m512i order = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    __m512i s[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        const __m512i v = _mm512_loadu_si512(q + 64 * i);
        _mm512_store_si512(to + 64 * i, _mm512_permutexvar_epi32(order, v));
        s[i] = _mm512_sad_epu8(_mm512_abs_epi8(v), _mm512_setzero_si512());
    }
    const __m256i sixteens = _mm256_loadu_si256((const __m256i *)(const void *)sums);
    if (kind.group_elems == 32) {
        const __m256i pairs = _mm256_madd_epi16(sixteens, _mm256_set1_epi16(1));
        _mm_store_si128((__m128i *)(void *)to_sums, _mm256_cvtepi32_epi16(pairs));
    } else {
        _mm256_store_si256((__m256i *)(void *)to_sums, sixteens);
    }
    return _mm512_max_epi32(
        _mm512_add_epi32(_mm512_unpacklo_epi64(s[0], s[1]), _mm512_unpackhi_epi64(s[0], s[1])),
        _mm512_add_epi32(_mm512_unpacklo_epi64(s[2], s[3]), _mm512_unpackhi_epi64(s[2], s[3])));
}

/* Where the sums of a row start, whose zipped form is q: for four or for two words each. */
LK_INLINE void lk_zip_start(lk_tile_kind kind, bool is_small, const int8_t *q, const int16_t *sums,
                            int32_t *start) {
    const __m512i bias = _mm512_set1_epi32(-kind.bias);
    if (lk_zip_steps(kind, is_small) == 4) {
        const __m512i s =
            _mm512_cvtepi16_epi32(_mm256_load_si256((const __m256i *)(const void *)sums));
        _mm512_store_si512(start, _mm512_mullo_epi32(_mm512_shuffle_epi32(s, 0xd8), bias));
        return;
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        const __m512i v = _mm512_load_si512(q + 64 * i);
        const __m512i fours = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), v);
        const __m512i eights = _mm512_add_epi32(fours, _mm512_shuffle_epi32(fours, 0x4e));
        const __m512i each = _mm512_maskz_compress_epi64(0x55, _mm512_mullo_epi32(eights, bias));
        _mm256_store_si256((__m256i *)(void *)(start + 8 * i), _mm512_castsi512_si256(each));
    }
}

/* Columns k .. k + 255 of rows r .. r + n_rows - 1. */
LK_INLINE void lk_zip_slice(lk_tile_kind kind, const lk_act_rows *x, size_t r, size_t n_rows,
                            size_t k, lk_zip_rows *to) {
    for (size_t i = 0; i < n_rows; i += LK_ZIP_SIDE) {
        const size_t end = n_rows - i < LK_ZIP_SIDE ? n_rows : i + LK_ZIP_SIDE;
        __m512i most = _mm512_setzero_si512();
        for (size_t j = i; j < end; j++) {
            const size_t row = r + j;
            const int16_t *sums = x->sums + row * (x->n / LK_SUBGROUP) + k / LK_SUBGROUP;
            const __m512i s =
                lk_zip_row(kind, x->q + row * x->q_stride + k, sums, to->q[j], to->sums[j]);
            most = _mm512_max_epi32(most, s);
            to->d[j] = x->d[row * (x->n / LK_TILE_ELEMS) + k / LK_TILE_ELEMS];
        }
        const bool is_small = _mm512_cmpgt_epi32_mask(most, _mm512_set1_epi32(LK_ZIP_SMALL)) == 0;
        to->is_small[i / LK_ZIP_SIDE] = is_small;
        for (size_t j = i; j < end && kind.bias != 0; j++) {
            if (is_small) {
                lk_zip_start(kind, true, to->q[j], to->sums[j], to->start[j]);
            } else {
                lk_zip_start(kind, false, to->q[j], to->sums[j], to->start[j]);
            }
        }
    }
}

/* The block integers of n_rows (constant) rows from row r of the slice on. */
LK_INLINE void lk_zip_sums(lk_tile_kind kind, bool is_small, int n_rows, const lk_tile *tile,
                           const lk_zip_rows *x, size_t r, __m512i *sum) {
    const size_t steps = lk_zip_steps(kind, is_small);
    const size_t steps_of_pair = kind.group_elems / 4;
#pragma GCC unroll 8
    for (int i = 0; i < n_rows; i++) {
        sum[i] = _mm512_setzero_si512();
    }
    for (size_t at = 0; at < LK_TILE_ELEMS / 8; at += steps) {
        __m512i a[LK_ZIP_SIDE]; /* the first and the second output of every four */
        __m512i b[LK_ZIP_SIDE]; /* the others */
#pragma GCC unroll 8
        for (int i = 0; i < n_rows; i++) {
            const int32_t *start = x->start[r + (size_t)i] + 2 * (at / steps);
            a[i] = b[i] =
                kind.bias != 0 ? _mm512_set1_epi64(lk_peek_i64(start)) : _mm512_setzero_si512();
        }
#pragma GCC unroll 8
        for (size_t j = at; j < at + steps; j++) {
            const __m512i w0 = _mm512_load_si512(tile->w[2 * j]);
            const __m512i w1 = _mm512_load_si512(tile->w[2 * j + 1]);
#pragma GCC unroll 8
            for (int i = 0; i < n_rows; i++) {
                const __m512i q = _mm512_set1_epi64(lk_peek_i64(x->q[r + (size_t)i] + 8 * j));
                a[i] = _mm512_dpbusd_epi32(a[i], w0, q);
                b[i] = _mm512_dpbusd_epi32(b[i], w1, q);
            }
        }
        const __m512i scale = _mm512_load_si512(tile->pair[at / steps_of_pair]);
#pragma GCC unroll 8
        for (int i = 0; i < n_rows; i++) {
            sum[i] = _mm512_dpwssd_epi32(sum[i], _mm512_packs_epi32(a[i], b[i]), scale);
        }
    }
}

/* One block of n_rows (constant) rows. What y holds counts from the second block on. */
LK_INLINE void lk_zip_dot(lk_tile_kind kind, int n_rows, const lk_tile *tile, const lk_zip_rows *x,
                          size_t r, bool is_first, float (*y)[LK_TILE_ROWS]) {
    const __mmask16 present = is_first ? 0 : 0xffff;
    __m512i sum[LK_ZIP_SIDE];
    if (x->is_small[r / LK_ZIP_SIDE]) {
        lk_zip_sums(kind, true, n_rows, tile, x, r, sum);
    } else {
        lk_zip_sums(kind, false, n_rows, tile, x, r, sum);
    }
    const int n_mins = (int)(LK_TILE_ELEMS / kind.group_elems / 2);
    const __m512 d = _mm512_load_ps(tile->d[0]);
#pragma GCC unroll 8
    for (int i = 0; i < n_rows; i++) {
        const size_t row = r + (size_t)i;
        const __m512 d_a = _mm512_set1_ps(x->d[row]);
        __m512 acc = _mm512_maskz_load_ps(present, y[i]);
        acc = _mm512_add_ps(acc, _mm512_mul_ps(_mm512_mul_ps(d, d_a), _mm512_cvtepi32_ps(sum[i])));
        if (kind.has_min) {
            __m512i m = _mm512_setzero_si512();
#pragma GCC unroll 8
            for (int j = 0; j < n_mins; j++) {
                m = _mm512_dpwssd_epi32(m, _mm512_load_si512(tile->min[j]),
                                        _mm512_set1_epi32(lk_peek_i32(x->sums[row] + 2 * j)));
            }
            const __m512 d_min = _mm512_mul_ps(_mm512_load_ps(tile->d_min[0]), d_a);
            acc = _mm512_sub_ps(acc, _mm512_mul_ps(d_min, _mm512_cvtepi32_ps(m)));
        }
        _mm512_store_ps(y[i], acc);
    }
}

/* The sixteen outputs of the tile beside all rows of the slice. */
LK_INLINE void lk_zip_tile(lk_tile_kind kind, const lk_tile *tile, const lk_zip_rows *x,
                           size_t n_rows, bool is_first, float (*y)[LK_TILE_ROWS]) {
    size_t r = 0;
    for (; r + LK_ZIP_SIDE <= n_rows; r += LK_ZIP_SIDE) {
        if (r == 0) {
            lk_tile_fetch(kind, tile, 0, 1);
        }
        lk_zip_dot(kind, LK_ZIP_SIDE, tile, x, r, is_first, y + r);
    }
    for (; r + 2 <= n_rows; r += 2) {
        lk_zip_dot(kind, 2, tile, x, r, is_first, y + r);
    }
    if (r < n_rows) {
        lk_zip_dot(kind, 1, tile, x, r, is_first, y + r);
    }
}

/* The weights of the tile two further than strip i of n_strips from output o and column k on, in
 * slices of `width` columns: all strips have their turn with a slice of rows. A wish may go beyond
 * the matrix. */
LK_INLINE const uint8_t *lk_slice_ahead(lk_tile_kind kind, const lk_tile_matrix *m, size_t o,
                                        size_t k, size_t width, size_t i, size_t n_strips) {
    lk_tile_copy none; /* strips are never copied */
    const size_t next = (i + 2) % n_strips;
    const bool is_next_slice = i + 2 >= n_strips;
    const size_t k_next = is_next_slice && k + width < m->n ? k + width : k;
    return lk_tile_source_at(kind, m, o + LK_TILE_ROWS * next, k_next, 1, &none).p;
}

/* Asks for what is needed soon, a share for each strip i of n_strips: the next slice of `width`
 * (constant) columns of the rows, whose lines are too far apart for the processor to foresee, and
 * the lines of the outputs, y those of row r, spread over all slices of the sum. */
LK_INLINE void lk_slice_fetch(const lk_act_rows *x, size_t r, size_t n_rows, size_t k, size_t width,
                              size_t i, size_t n_strips, const float *y, size_t y_stride) {
    const size_t share = (n_rows + n_strips - 1) / n_strips;
    const size_t end = share * (i + 1) < n_rows ? share * (i + 1) : n_rows;
    for (size_t j = share * i; j < end && k + width < x->n; j++) {
        const int8_t *q = x->q + (r + j) * x->q_stride + k + width;
#pragma GCC unroll 4
        for (size_t at = 0; at < width; at += 64) {
            __builtin_prefetch(q + at, 0, 2);
        }
    }
    for (size_t j = n_rows * k / x->n; j < n_rows * (k + width) / x->n && j < n_rows; j++) {
        __builtin_prefetch(y + j * y_stride, 1, 2);
    }
}

/* n_out outputs of n_rows rows, from sums strip by strip. */
LK_INLINE void lk_slice_put(float (*acc)[LK_ZIP_SUM_ROWS][LK_TILE_ROWS], size_t n_rows,
                            size_t n_out, float *y, size_t y_stride) {
    for (size_t i = 0; i < n_rows; i++) {
        float *to = y + i * y_stride;
        for (size_t j = 0; LK_TILE_ROWS * j < n_out; j++) {
            const size_t left = n_out - LK_TILE_ROWS * j;
            const __mmask16 valid = (__mmask16)(left < LK_TILE_ROWS ? (1u << left) - 1u : 0xffffu);
            _mm512_mask_storeu_ps(to + LK_TILE_ROWS * j, valid, _mm512_load_ps(acc[j][i]));
        }
    }
}

/* Outputs [o_begin, o_end). */
LK_INLINE void lk_matmul_zipped(lk_tile_kind kind, const lk_tile_matrix *m, size_t o_begin,
                                size_t o_end, const lk_act_rows *x, float *y, size_t y_stride) {
    alignas(64) float acc[LK_ZIP_STRIPS][LK_ZIP_SUM_ROWS][LK_TILE_ROWS];
    enum { OUTPUTS = LK_ZIP_STRIPS * LK_TILE_ROWS };
    lk_zip_rows rows;
    lk_tile tile;
    lk_tile_copy copy;
    for (size_t r = 0; r < x->n_rows; r += LK_ZIP_ROWS) {
        const size_t n_rows = x->n_rows - r < LK_ZIP_ROWS ? x->n_rows - r : LK_ZIP_ROWS;
        for (size_t o = o_begin; o < o_end; o += OUTPUTS) {
            const size_t n_out = o_end - o < OUTPUTS ? o_end - o : OUTPUTS;
            const size_t n_strips = (n_out + LK_TILE_ROWS - 1) / LK_TILE_ROWS;
            for (size_t k = 0; k < x->n; k += LK_TILE_ELEMS) {
                lk_zip_slice(kind, x, r, n_rows, k, &rows);
                for (size_t i = 0; i < n_strips; i++) {
                    const lk_tile_source s =
                        lk_tile_source_at(kind, m, o + LK_TILE_ROWS * i, k, 1, &copy);
                    tile.ahead = s.is_strips
                                     ? lk_slice_ahead(kind, m, o, k, LK_TILE_ELEMS, i, n_strips)
                                     : tile.w[0];
                    lk_tile_unpack_block256(kind, s, &tile);
                    lk_slice_fetch(x, r, n_rows, k, LK_TILE_ELEMS, i, n_strips,
                                   y + r * y_stride + o + LK_TILE_ROWS * i, y_stride);
                    lk_zip_tile(kind, &tile, &rows, n_rows, k == 0, acc[i]);
                }
            }
            lk_slice_put(acc, n_rows, n_out, y + r * y_stride + o, y_stride);
        }
    }
}

#endif
