/* matmul_few_avx512.h - few activation rows times strips: the weights go from the strip through
 * registers into the products, without the tile that many rows share (matmul_tile.h). Sums and
 * their order are those of dot_avx512.h. */
#ifndef LK_BACKEND_CPU_KERN_MATMUL_FEW_AVX512_H
#define LK_BACKEND_CPU_KERN_MATMUL_FEW_AVX512_H

#include "backend/cpu/kern/dot_avx512.h"
#include "quant/strip.h"

/* Bytes between the weights at hand and those that are brought into the second-level cache, and
 * into the first: a line that a load still has to get from the second holds up all that memory
 * answers meanwhile. */
enum { LK_FEW_ROWS = 4, LK_FEW_AHEAD = 8192, LK_FEW_NEAR = 1024 };

/* Block b of a strip and of the activation rows. */
typedef struct lk_few_block {
    const uint8_t *words;
    const uint8_t *rest;
    const lk_act_rows *x;
    size_t b;
} lk_few_block;

/* Word i of sixteen rows; those that lie LK_FEW_AHEAD and LK_FEW_NEAR bytes behind are fetched,
 * perhaps beyond the matrix. */
LK_INLINE __m512i lk_few_word(const lk_few_block *s, size_t i) {
    const uint8_t *p = s->words + 64 * i;
    __builtin_prefetch(p + LK_FEW_AHEAD, 0, 2);
    __builtin_prefetch(p + LK_FEW_NEAR, 0, 3);
    return _mm512_load_si512(p);
}

/* The four activations of row r from element k of the block on, beside every weight row. */
LK_INLINE __m512i lk_few_act(lk_tile_kind kind, const lk_few_block *s, int r, size_t k) {
    const int8_t *q = s->x->q + (size_t)r * s->x->q_stride + s->b * kind.block_elems + k;
    return _mm512_set1_epi32(lk_peek_i32(q));
}

LK_INLINE const int16_t *lk_few_sums(lk_tile_kind kind, const lk_few_block *s, int r) {
    return s->x->sums + (size_t)r * (s->x->n / LK_SUBGROUP) +
           s->b * (kind.block_elems / LK_SUBGROUP);
}

LK_INLINE __m512 lk_few_act_scale(lk_tile_kind kind, const lk_few_block *s, int r) {
    return _mm512_set1_ps(s->x->d[(size_t)r * (s->x->n / kind.block_elems) + s->b]);
}

/* Byte j of each lane. */
LK_INLINE __m512i lk_few_unsigned(__m512i v, int j) {
    return _mm512_and_si512(_mm512_srli_epi32(v, (unsigned)(8 * j)), _mm512_set1_epi32(255));
}
LK_INLINE __m512i lk_few_signed(__m512i v, int j) {
    return _mm512_srai_epi32(_mm512_slli_epi32(v, (unsigned)(24 - 8 * j)), 24);
}

/* Q8_0: eight words of signed bytes, taken as byte + 128. Q4_0: four words, the first half of the
 * block in the low nibbles; the high ones stay where they are and count sixteenfold. */
LK_INLINE void lk_few_block32(lk_tile_kind kind, int n_rows, const lk_few_block *s, __m512 *acc) {
    __m512i sum[LK_FEW_ROWS];
    __m512i high[LK_FEW_ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) {
        const int16_t *sums = lk_few_sums(kind, s, r);
        sum[r] = _mm512_set1_epi32(-kind.bias * (sums[0] + sums[1]));
        high[r] = _mm512_setzero_si512();
    }
    const size_t n_words = kind.type == LK_FORMAT_Q8_0 ? 8 : 4;
#pragma GCC unroll 8
    for (size_t j = 0; j < n_words; j++) {
        const __m512i v = lk_few_word(s, j);
        if (kind.type == LK_FORMAT_Q8_0) {
            const __m512i w = _mm512_xor_si512(v, _mm512_set1_epi8((char)0x80));
#pragma GCC unroll 4
            for (int r = 0; r < n_rows; r++) {
                sum[r] = _mm512_dpbusd_epi32(sum[r], w, lk_few_act(kind, s, r, 4 * j));
            }
        } else {
            const __m512i w0 = _mm512_and_si512(v, _mm512_set1_epi8(0x0f));
            const __m512i w1 = _mm512_and_si512(v, _mm512_set1_epi8((char)0xf0));
#pragma GCC unroll 4
            for (int r = 0; r < n_rows; r++) {
                sum[r] = _mm512_dpbusd_epi32(sum[r], w0, lk_few_act(kind, s, r, 4 * j));
                high[r] = _mm512_dpbusd_epi32(high[r], w1, lk_few_act(kind, s, r, 16 + 4 * j));
            }
        }
    }
    const __m512 d = _mm512_cvtph_ps(
        _mm256_loadu_si256((const __m256i *)(const void *)(s->rest + 2 * LK_STRIP_ROWS * s->b)));
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) {
        if (kind.type != LK_FORMAT_Q8_0) {
            sum[r] = _mm512_add_epi32(sum[r], _mm512_srai_epi32(high[r], 4));
        }
        const __m512 scale = _mm512_mul_ps(d, lk_few_act_scale(kind, s, r));
        acc[r] = _mm512_add_ps(acc[r], _mm512_mul_ps(scale, _mm512_cvtepi32_ps(sum[r])));
    }
}

/* Scales and minima of Q4_K and Q5_K, six bits each: bytes 0 .. 3 of [0] and of [1]. */
typedef struct lk_few_scales {
    __m512i scale[2];
    __m512i min[2];
} lk_few_scales;

LK_INLINE lk_few_scales lk_few_read_scales(const lk_few_block *s) {
    const __m512i six = _mm512_set1_epi8(0x3f);
    const __m512i four = _mm512_set1_epi8(0x0f);
    const __m512i upper = _mm512_set1_epi8(0x30);
    const __m512i a = lk_few_word(s, 1);
    const __m512i b = lk_few_word(s, 2);
    const __m512i c = lk_few_word(s, 3);
    lk_few_scales out;
    out.scale[0] = _mm512_and_si512(a, six);
    out.scale[1] = _mm512_or_si512(_mm512_and_si512(c, four),
                                   _mm512_and_si512(_mm512_srli_epi16(a, 2), upper));
    out.min[0] = _mm512_and_si512(b, six);
    out.min[1] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(c, 4), four),
                                 _mm512_and_si512(_mm512_srli_epi16(b, 2), upper));
    return out;
}

/* The minima times the sums of the activations: groups 0 and 2, 1 and 3, 4 and 6, 5 and 7 share an
 * instruction, as their minima lie sixteen bits apart. */
LK_INLINE __m512i lk_few_min_sum(const lk_few_scales *scales, const int16_t *sums) {
    const __m256i s16 = _mm256_loadu_si256((const __m256i *)(const void *)sums);
    const __m256i s32 = _mm256_madd_epi16(s16, _mm256_set1_epi16(1));
    const __m256i next = _mm256_slli_epi32(_mm256_shuffle_epi32(s32, 0xee), 16);
    alignas(32) int32_t pair[8];
    _mm256_store_si256((__m256i *)(void *)pair, _mm256_blend_epi16(s32, next, 0xaa));
    const __m512i even = _mm512_set1_epi32(0x00ff00ff);
    __m512i m = _mm512_setzero_si512();
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        m = _mm512_dpwssd_epi32(m, _mm512_and_si512(scales->min[i], even),
                                _mm512_set1_epi32(pair[4 * i]));
        m = _mm512_dpwssd_epi32(m, _mm512_srli_epi16(scales->min[i], 8),
                                _mm512_set1_epi32(pair[4 * i + 1]));
    }
    return m;
}

/* The fifth bit of Q5_K for group i, at bit 4 of each byte: bit i of the byte in v. */
LK_INLINE __m512i lk_few_fifth_bit(__m512i v, int i) {
    const __m512i at = i < 4 ? lk_vi_shl16(v, 4 - i) : lk_vi_shr16(v, i - 4);
    return _mm512_and_si512(at, _mm512_set1_epi8(0x10));
}

/* Q4_K and Q5_K: d and the scale of the minima, scales, Q5_K's fifth bits, nibbles: the first 32 of
 * each 64 elements in the low ones. Q4_K's high nibbles count sixteenfold, as above. */
LK_INLINE void lk_few_q45_k(lk_tile_kind kind, int n_rows, const lk_few_block *s, __m512 *acc) {
    const bool has_fifth = kind.type == LK_FORMAT_Q5_K;
    const __m512i nibble = _mm512_set1_epi8(0x0f);
    const lk_few_scales scales = lk_few_read_scales(s);
    __m512i sum[LK_FEW_ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) {
        sum[r] = _mm512_setzero_si512();
    }
#pragma GCC unroll 4
    for (int g = 0; g < 4; g++) {
        __m512i low[LK_FEW_ROWS];
        __m512i high[LK_FEW_ROWS];
#pragma GCC unroll 4
        for (int r = 0; r < n_rows; r++) {
            low[r] = _mm512_setzero_si512();
            high[r] = _mm512_setzero_si512();
        }
#pragma GCC unroll 8
        for (size_t j = 0; j < 8; j++) {
            const __m512i v = lk_few_word(s, (has_fifth ? 12u : 4u) + 8 * (size_t)g + j);
            __m512i w0 = _mm512_and_si512(v, nibble);
            __m512i w1 = _mm512_and_si512(v, _mm512_set1_epi8((char)0xf0));
            if (has_fifth) {
                const __m512i bits = _mm512_load_si512(s->words + 64 * (4 + j));
                w0 = _mm512_or_si512(w0, lk_few_fifth_bit(bits, 2 * g));
                w1 = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(v, 4), nibble),
                                     lk_few_fifth_bit(bits, 2 * g + 1));
            }
            const size_t k = 64 * (size_t)g + 4 * j;
#pragma GCC unroll 4
            for (int r = 0; r < n_rows; r++) {
                low[r] = _mm512_dpbusd_epi32(low[r], w0, lk_few_act(kind, s, r, k));
                high[r] = _mm512_dpbusd_epi32(high[r], w1, lk_few_act(kind, s, r, k + 32));
            }
        }
        const __m512i scale0 = lk_few_unsigned(scales.scale[g / 2], 2 * (g % 2));
        const __m512i scale1 = lk_few_unsigned(scales.scale[g / 2], 2 * (g % 2) + 1);
#pragma GCC unroll 4
        for (int r = 0; r < n_rows; r++) {
            const __m512i s1 = has_fifth ? high[r] : _mm512_srai_epi32(high[r], 4);
            sum[r] = _mm512_add_epi32(sum[r], _mm512_mullo_epi32(low[r], scale0));
            sum[r] = _mm512_add_epi32(sum[r], _mm512_mullo_epi32(s1, scale1));
        }
    }
    const __m512i both = lk_few_word(s, 0);
    const __m512 d = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(both));
    const __m512 d_min = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(both, 16)));
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) {
        const __m512 d_a = lk_few_act_scale(kind, s, r);
        const __m512i m = lk_few_min_sum(&scales, lk_few_sums(kind, s, r));
        acc[r] =
            _mm512_add_ps(acc[r], _mm512_mul_ps(_mm512_mul_ps(d, d_a), _mm512_cvtepi32_ps(sum[r])));
        acc[r] =
            _mm512_sub_ps(acc[r], _mm512_mul_ps(_mm512_mul_ps(d_min, d_a), _mm512_cvtepi32_ps(m)));
    }
}

/* Four weights of Q6_K, value + 32: `low` has the nibbles at bit 0 or 4, `upper` the other two bits
 * at 4 and 5 already. */
LK_INLINE __m512i lk_few_six_bits(__m512i low, __m512i upper) {
    return _mm512_or_si512(_mm512_and_si512(low, _mm512_set1_epi8(0x0f)),
                           _mm512_and_si512(upper, _mm512_set1_epi8(0x30)));
}

/* Q6_K: 128 bytes of nibbles, 64 of the upper two bits, 16 scales, d. */
LK_INLINE void lk_few_q6_k(lk_tile_kind kind, int n_rows, const lk_few_block *s, __m512 *acc) {
    lk_tile_start start[LK_FEW_ROWS];
    __m512i sum[LK_FEW_ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) {
        lk_tile_start_row(kind, lk_few_sums(kind, s, r), 8, &start[r]);
        sum[r] = _mm512_setzero_si512();
    }
#pragma GCC unroll 2
    for (size_t half = 0; half < 2; half++) {
        const __m512i scale_words[2] = {lk_few_word(s, 48 + 2 * half),
                                        lk_few_word(s, 49 + 2 * half)};
#pragma GCC unroll 2
        for (size_t i = 0; i < 2; i++) {
            const size_t group = 8 * half + i; /* and the third, fifth and seventh from it */
            __m512i part[4][LK_FEW_ROWS];
#pragma GCC unroll 4
            for (int r = 0; r < n_rows; r++) {
#pragma GCC unroll 4
                for (size_t q = 0; q < 4; q++) {
                    part[q][r] = _mm512_set1_epi32(start[r].at[group + 2 * q]);
                }
            }
#pragma GCC unroll 4
            for (size_t j = 0; j < 4; j++) {
                const __m512i a = lk_few_word(s, 16 * half + 4 * i + j);
                const __m512i b = lk_few_word(s, 16 * half + 8 + 4 * i + j);
                const __m512i u = lk_few_word(s, 32 + 8 * half + 4 * i + j);
                const __m512i w[4] = {
                    lk_few_six_bits(a, _mm512_slli_epi16(u, 4)),
                    lk_few_six_bits(b, _mm512_slli_epi16(u, 2)),
                    lk_few_six_bits(_mm512_srli_epi16(a, 4), u),
                    lk_few_six_bits(_mm512_srli_epi16(b, 4), _mm512_srli_epi16(u, 2)),
                };
#pragma GCC unroll 4
                for (int r = 0; r < n_rows; r++) {
#pragma GCC unroll 4
                    for (size_t q = 0; q < 4; q++) {
                        const size_t k = 16 * group + 4 * j + 32 * q;
                        part[q][r] =
                            _mm512_dpbusd_epi32(part[q][r], w[q], lk_few_act(kind, s, r, k));
                    }
                }
            }
#pragma GCC unroll 4
            for (size_t q = 0; q < 4; q++) {
                const __m512i scale = lk_few_signed(scale_words[q / 2], (int)(i + 2 * (q % 2)));
#pragma GCC unroll 4
                for (int r = 0; r < n_rows; r++) {
                    sum[r] = _mm512_add_epi32(sum[r], _mm512_mullo_epi32(part[q][r], scale));
                }
            }
        }
    }
    const __m512 d = _mm512_cvtph_ps(
        _mm256_loadu_si256((const __m256i *)(const void *)(s->rest + 2 * LK_STRIP_ROWS * s->b)));
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) {
        const __m512 scale = _mm512_mul_ps(d, lk_few_act_scale(kind, s, r));
        acc[r] = _mm512_add_ps(acc[r], _mm512_mul_ps(scale, _mm512_cvtepi32_ps(sum[r])));
    }
}

/* n_rows (constant) activation rows. */
LK_INLINE void lk_few_strips(lk_tile_kind kind, int n_rows, const uint8_t *strips, size_t o_begin,
                             size_t o_end, const lk_act_rows *x, float *y, size_t y_stride) {
    const lk_strip_shape shape = lk_strip_shape_of(kind.block_elems, kind.block_bytes, x->n);
    for (size_t o = o_begin; o < o_end; o += LK_STRIP_ROWS) {
        const uint8_t *strip = strips + o / LK_STRIP_ROWS * shape.bytes;
        lk_few_block s = {strip + shape.words_begin, strip, x, 0};
        __m512 acc[LK_FEW_ROWS];
#pragma GCC unroll 4
        for (int r = 0; r < n_rows; r++) {
            acc[r] = _mm512_setzero_ps();
        }
        for (; s.b < shape.n_blocks; s.b++, s.words += shape.block_bytes) {
            if (kind.block_elems == 32) {
                lk_few_block32(kind, n_rows, &s, acc);
            } else if (kind.type == LK_FORMAT_Q6_K) {
                lk_few_q6_k(kind, n_rows, &s, acc);
            } else {
                lk_few_q45_k(kind, n_rows, &s, acc);
            }
        }
        const size_t n_left = o_end - o;
        const __mmask16 valid = (__mmask16)(n_left < 16 ? (1u << n_left) - 1u : 0xffffu);
#pragma GCC unroll 4
        for (int r = 0; r < n_rows; r++) {
            _mm512_mask_storeu_ps(y + (size_t)r * y_stride + o, valid, acc[r]);
        }
    }
}

/* The formats that this file knows: those that people use most. */
LK_INLINE bool lk_few_has(lk_tile_kind kind) {
    return kind.type == LK_FORMAT_Q4_0 || kind.type == LK_FORMAT_Q8_0 ||
           kind.type == LK_FORMAT_Q4_K || kind.type == LK_FORMAT_Q5_K ||
           kind.type == LK_FORMAT_Q6_K;
}

/* 1 to LK_FEW_ROWS activation rows of such a format. */
LK_INLINE void lk_matmul_few(lk_tile_kind kind, const uint8_t *strips, size_t o_begin, size_t o_end,
                             const lk_act_rows *x, float *y, size_t y_stride) {
    switch (x->n_rows) {
    case 1:
        lk_few_strips(kind, 1, strips, o_begin, o_end, x, y, y_stride);
        break;
    case 2:
        lk_few_strips(kind, 2, strips, o_begin, o_end, x, y, y_stride);
        break;
    case 3:
        lk_few_strips(kind, 3, strips, o_begin, o_end, x, y, y_stride);
        break;
    default:
        lk_few_strips(kind, 4, strips, o_begin, o_end, x, y, y_stride);
        break;
    }
}

#endif
