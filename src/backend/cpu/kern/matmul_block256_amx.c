/* matmul_block256_amx.c - the matrix product of the 256-element formats with AMX.
 *
 * The integer of a block, sum of scale * (sum of q * a), is taken as one sum over 256 columns of
 * (scale * q) * a: the scaled weights have at most 13 bits and are split into two bytes, so a block
 * is two chains of byte products and no scale is applied to sums. In formats with a minimum neither
 * scale (6 bits) nor q (5 bits) has a sign: there the bytes are the products with the low and the
 * high half of the scale, at most 7 * 31, which one multiplication makes for two weights. In the
 * others they are the low byte, unsigned, and the high one, signed. The
 * minima meet the sums of sixteen activations in vectors. Blocks of rows are finished (minima and
 * float part) while the next ones' products run. */
#include "backend/cpu/kern/amx.h"
#include "backend/cpu/kern/kern_amx.h"
#include "backend/cpu/kern/kern_avx512.h"

/* Sixteen weight rows over one block. */
typedef struct scaled {
    alignas(64) uint8_t low[64][64];
    uint8_t high[64][64];
} scaled;

static lk_tile_kind kind_of(uint32_t type) {
    lk_tile_kind kind = lk_tile_kind_of(type);
    kind.has_pairs = false;
    kind.is_zipped = false;
    return kind;
}

LK_INLINE void unpack_from(bool is_strips, uint32_t type, lk_tile_source s, lk_tile *tile) {
    s.is_strips = is_strips;
    switch (type) {
    case LK_FORMAT_Q2_K:
        lk_tile_unpack_block256(kind_of(LK_FORMAT_Q2_K), s, tile);
        break;
    case LK_FORMAT_Q3_K:
        lk_tile_unpack_block256(kind_of(LK_FORMAT_Q3_K), s, tile);
        break;
    case LK_FORMAT_Q4_K:
        lk_tile_unpack_block256(kind_of(LK_FORMAT_Q4_K), s, tile);
        break;
    case LK_FORMAT_Q5_K:
        lk_tile_unpack_block256(kind_of(LK_FORMAT_Q5_K), s, tile);
        break;
    case LK_FORMAT_Q6_K:
        lk_tile_unpack_block256(kind_of(LK_FORMAT_Q6_K), s, tile);
        break;
    default:
        lk_tile_unpack_block256(kind_of(LK_FORMAT_IQ4_XS), s, tile);
        break;
    }
}

static void unpack(uint32_t type, lk_tile_source s, lk_tile *tile) {
    if (s.is_strips) {
        unpack_from(true, type, s, tile);
    } else {
        unpack_from(false, type, s, tile);
    }
}

static void scale_by_halves(lk_tile_kind kind, const lk_tile *tile, scaled *s) {
    const size_t per_group = kind.group_elems / 4;
    for (size_t g = 0; g < 64 / per_group; g++) {
        const __m512i one = _mm512_load_si512(tile->scale[g]);
        const __m512i scale = _mm512_or_si512(one, _mm512_slli_epi32(one, 16));
        const __m512i low = _mm512_and_si512(scale, _mm512_set1_epi16(7));
        const __m512i high = _mm512_srli_epi16(scale, 3);
        for (size_t k4 = g * per_group; k4 < (g + 1) * per_group; k4++) {
            const __m512i w = _mm512_load_si512(tile->w[k4]);
            _mm512_store_si512(s->low[k4], _mm512_mullo_epi16(w, low));
            _mm512_store_si512(s->high[k4], _mm512_mullo_epi16(w, high));
        }
    }
}

static void scale_by_bytes(lk_tile_kind kind, const lk_tile *tile, scaled *s) {
    const size_t per_group = kind.group_elems / 4;
    const __m512i low_byte = _mm512_set1_epi16(0x00ff);
    const __m512i bias = _mm512_set1_epi16((short)kind.bias);
    for (size_t g = 0; g < 64 / per_group; g++) {
        const __m512i one = _mm512_load_si512(tile->scale[g]);
        const __m512i scale = _mm512_mask_mov_epi16(one, 0xaaaaaaaau, _mm512_slli_epi32(one, 16));
        const __m512i shift = _mm512_mullo_epi16(scale, bias);
        for (size_t k4 = g * per_group; k4 < (g + 1) * per_group; k4++) {
            const __m512i w = _mm512_load_si512(tile->w[k4]);
            const __m512i even =
                _mm512_sub_epi16(_mm512_mullo_epi16(_mm512_and_si512(w, low_byte), scale), shift);
            const __m512i odd =
                _mm512_sub_epi16(_mm512_mullo_epi16(_mm512_srli_epi16(w, 8), scale), shift);
            /* by the mask: a where it is set, b elsewhere */
            _mm512_store_si512(s->low[k4], _mm512_ternarylogic_epi32(
                                               low_byte, even, _mm512_slli_epi16(odd, 8), 0xca));
            _mm512_store_si512(s->high[k4], _mm512_ternarylogic_epi32(
                                                low_byte, _mm512_srli_epi16(even, 8), odd, 0xca));
        }
    }
}

static void scale_weights(lk_tile_kind kind, const lk_tile *tile, scaled *s) {
    if (kind.has_min) {
        scale_by_halves(kind, tile, s);
    } else {
        scale_by_bytes(kind, tile, s);
    }
}

/* Sums of two blocks of rows: of low and high bytes. */
typedef struct block_sums {
    lk_amx_sums low[2];
    lk_amx_sums high[2];
} block_sums;

/* Two blocks of rows, whose activations begin at q[0] and q[1]. */
static inline void dot_two(bool has_min, const int8_t *const q[2], size_t q_stride, const scaled *s,
                           block_sums *out) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (size_t k = 0; k < 4; k++) {
        _tile_loadd(6, s->low[16 * k], 64);
        _tile_loadd(4, q[0] + 64 * k, q_stride);
        _tile_dpbsud(0, 4, 6);
        _tile_loadd(5, q[1] + 64 * k, q_stride);
        _tile_dpbsud(1, 5, 6);
        _tile_loadd(7, s->high[16 * k], 64);
        if (has_min) {
            _tile_dpbsud(2, 4, 7);
            _tile_dpbsud(3, 5, 7);
        } else {
            _tile_dpbssd(2, 4, 7);
            _tile_dpbssd(3, 5, 7);
        }
    }
    _tile_stored(0, out->low[0].at, 64);
    _tile_stored(1, out->low[1].at, 64);
    _tile_stored(2, out->high[0].at, 64);
    _tile_stored(3, out->high[1].at, 64);
}

static inline void dot_one(bool has_min, const int8_t *q, size_t q_stride, const scaled *s,
                           block_sums *out) {
    _tile_zero(0);
    _tile_zero(1);
    for (size_t k = 0; k < 4; k++) {
        _tile_loadd(4, q + 64 * k, q_stride);
        _tile_loadd(6, s->low[16 * k], 64);
        _tile_dpbsud(0, 4, 6);
        _tile_loadd(7, s->high[16 * k], 64);
        if (has_min) {
            _tile_dpbsud(1, 4, 7);
        } else {
            _tile_dpbssd(1, 4, 7);
        }
    }
    _tile_stored(0, out->low[0].at, 64);
    _tile_stored(1, out->high[0].at, 64);
}

static inline __m512i join(bool has_min, const int32_t *low, const int32_t *high) {
    return _mm512_add_epi32(_mm512_load_si512(low),
                            _mm512_slli_epi32(_mm512_load_si512(high), has_min ? 3 : 8));
}

/* The sums of the minima of a block times the sums of a row's activations. */
static inline __m512i min_sum(const __m512i min[8], const int16_t *sums) {
    __m512i m[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        m[i % 2] =
            _mm512_dpwssd_epi32(m[i % 2], min[i], _mm512_set1_epi32(lk_peek_i32(sums + 2 * i)));
    }
    return _mm512_add_epi32(m[0], m[1]);
}

/* Block i of two: acc += (d * d_a) * I, then acc -= (d_min * d_a) * M, columns k .. acc: of row
 * r_begin. */
static inline void finish(bool has_min, const lk_amx_block *block, const block_sums *sums, size_t i,
                          const lk_tile *tile, const lk_act_rows *x, size_t k, size_t r_begin,
                          float (*acc)[LK_TILE_ROWS]) {
    const __m512 d = _mm512_load_ps(tile->d[0]);
    const __m512 d_min = has_min ? _mm512_load_ps(tile->d_min[0]) : _mm512_setzero_ps();
    __m512i min[8];
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        min[j] = has_min ? _mm512_load_si512(tile->min[j]) : _mm512_setzero_si512();
    }
    for (size_t r = block->fresh - block->first; r < block->n_rows; r++) {
        const size_t row = block->first + r;
        const __m512 a = _mm512_set1_ps(x->d[row * (x->n / 256) + k / 256]);
        float *y = acc[row - r_begin];
        const __m512 sum =
            _mm512_cvtepi32_ps(join(has_min, sums->low[i].at[r], sums->high[i].at[r]));
        __m512 v = _mm512_add_ps(_mm512_load_ps(y), _mm512_mul_ps(_mm512_mul_ps(d, a), sum));
        if (has_min) {
            const int16_t *act = x->sums + row * (x->n / LK_SUBGROUP) + k / LK_SUBGROUP;
            const __m512 m = _mm512_cvtepi32_ps(min_sum(min, act));
            v = _mm512_sub_ps(v, _mm512_mul_ps(_mm512_mul_ps(d_min, a), m));
        }
        _mm512_store_ps(y, v);
    }
}

/* Blocks of rows, from block i on, that are multiplied together. */
typedef struct group {
    size_t n; /* 0 .. 2 */
    lk_amx_block block[2];
} group;

static inline group multiply_group(bool has_min, const scaled *s, const lk_act_rows *x, size_t i,
                                   size_t r_begin, size_t r_end, size_t k, block_sums *out) {
    group g = {.n = r_begin + (i + 1) * LK_AMX_ROWS < r_end ? 2 : 1};
    const int8_t *q[2] = {NULL, NULL};
    for (size_t j = 0; j < g.n; j++) {
        g.block[j] = lk_amx_block_at(i + j, r_begin, r_end, x->n_rows);
        q[j] = x->q + g.block[j].first * x->q_stride + k;
    }
    if (g.n == 2) {
        dot_two(has_min, q, x->q_stride, s, out);
    } else {
        dot_one(has_min, q[0], x->q_stride, s, out);
    }
    return g;
}

/* Rows [r_begin, r_end) times one block of sixteen outputs, columns k .. */
static inline void dot_rows(bool has_min, const lk_tile *tile, const scaled *s,
                            const lk_act_rows *x, size_t r_begin, size_t r_end, size_t k,
                            float (*acc)[LK_TILE_ROWS]) {
    block_sums sums[2];
    const size_t n_blocks = (r_end - r_begin + LK_AMX_ROWS - 1) / LK_AMX_ROWS;
    group last = {.n = 0};
    for (size_t i = 0;; i += 2) {
        group now = {.n = 0};
        if (i < n_blocks) {
            now = multiply_group(has_min, s, x, i, r_begin, r_end, k, &sums[i / 2 % 2]);
        }
        for (size_t j = 0; j < last.n; j++) {
            finish(has_min, &last.block[j], &sums[(i / 2 + 1) % 2], j, tile, x, k, r_begin, acc);
        }
        if (now.n == 0) {
            return;
        }
        last = now;
    }
}

/* n_strips times sixteen outputs from o on, all rows of x. */
static void multiply(const lk_amx_weights *w, size_t o, size_t n_strips, const lk_act_rows *x,
                     float *y, size_t y_stride) {
    alignas(64) float acc[LK_AMX_STRIPS][LK_AMX_MAX_ROWS][LK_TILE_ROWS];
    scaled s;
    lk_tile tile;
    lk_tile_copy copy;
    for (size_t r = 0; r < x->n_rows; r += LK_AMX_MAX_ROWS) {
        const size_t left = x->n_rows - r;
        const size_t r_end = r + (left < LK_AMX_MAX_ROWS ? left : LK_AMX_MAX_ROWS);
        for (size_t i = 0; i < n_strips; i++) {
            memset(acc[i], 0, (r_end - r) * sizeof acc[i][0]);
        }
        for (size_t k = 0; k < x->n; k += 256) {
            for (size_t i = 0; i < n_strips; i++) {
                const size_t at = o + i * LK_TILE_ROWS;
                unpack(w->kind.type, lk_tile_source_at(w->kind, &w->matrix, at, k, 1, &copy),
                       &tile);
                scale_weights(w->kind, &tile, &s);
                lk_amx_written();
                if (w->kind.has_min) {
                    dot_rows(true, &tile, &s, x, r, r_end, k, acc[i]);
                } else {
                    dot_rows(false, &tile, &s, x, r, r_end, k, acc[i]);
                }
            }
        }
        for (size_t i = 0; i < n_strips; i++) {
            lk_amx_put(w, o + i * LK_TILE_ROWS, acc[i][0], LK_TILE_ROWS, r_end - r,
                       y + r * y_stride, y_stride);
        }
    }
}

/* Bytes of signed products take longer to make: more rows must share them. */
static size_t min_rows(const lk_format *format) {
    return format->has_min ? LK_AMX_MIN_ROWS : 32;
}

static void multiply_all(const lk_format *format, const lk_tile_matrix *matrix, size_t o_begin,
                         size_t o_end, const lk_act_rows *x, float *y, size_t y_stride) {
    const lk_amx_weights weights = {kind_of(format->type), *matrix, o_end};
    lk_amx_begin(x->n_rows < LK_AMX_ROWS ? x->n_rows : LK_AMX_ROWS, 64);
    for (size_t o = o_begin; o < o_end; o += LK_AMX_STRIPS * LK_TILE_ROWS) {
        const size_t n_strips = (o_end - o + LK_TILE_ROWS - 1) / LK_TILE_ROWS;
        multiply(&weights, o, n_strips < LK_AMX_STRIPS ? n_strips : LK_AMX_STRIPS, x, y, y_stride);
    }
    lk_amx_end();
}

void lk_matmul_block256_amx(const lk_format *format, const uint8_t *w, size_t row_bytes,
                            size_t o_begin, size_t o_end, const lk_act_rows *x, float *y,
                            size_t y_stride) {
    if (x->n_rows < min_rows(format)) {
        lk_matmul_block256_avx512(format, w, row_bytes, o_begin, o_end, x, y, y_stride);
        return;
    }
    const lk_tile_matrix matrix = {w, row_bytes, o_end, x->n, false};
    multiply_all(format, &matrix, o_begin, o_end, x, y, y_stride);
}

void lk_matmul_strips_block256_amx(const lk_format *format, const uint8_t *strips, size_t o_begin,
                                   size_t o_end, const lk_act_rows *x, float *y, size_t y_stride) {
    if (x->n_rows < min_rows(format)) {
        lk_matmul_strips_block256_avx512(format, strips, o_begin, o_end, x, y, y_stride);
        return;
    }
    const lk_tile_matrix matrix = {strips, 0, 0, x->n, true};
    multiply_all(format, &matrix, o_begin, o_end, x, y, y_stride);
}
