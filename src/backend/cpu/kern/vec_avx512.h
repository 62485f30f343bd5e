/* vec_avx512.h - vectors of 16 32-bit lanes for AVX-512. A lane is one weight row (matrix products)
 * or one element. Shift counts must be constants. */
#ifndef LK_BACKEND_CPU_KERN_VEC_AVX512_H
#define LK_BACKEND_CPU_KERN_VEC_AVX512_H

#include "backend/cpu/kern/vec_base.h"
#include "ops/twin.h"

typedef __m512i lk_vi; /* integers: bytes, 16-bit or 32-bit lanes */
typedef __m512 lk_vf;  /* binary32 lanes */
enum { LK_VEC_LANES = 16, LK_VEC_BYTES = 64 };
enum { LK_VEC_ZIP = 1 };    /* groups go in pairs: tile.h, is_zipped */
enum { LK_VEC_DOT_U8 = 1 }; /* VNNI: unsigned bytes times signed ones, exact */

LK_INLINE lk_vi lk_vi_load(const void *p) {
    return _mm512_loadu_si512(p);
}
LK_INLINE void lk_vi_store(void *p, lk_vi v) {
    _mm512_storeu_si512(p, v);
}
LK_INLINE lk_vi lk_vi_zero(void) {
    return _mm512_setzero_si512();
}
LK_INLINE lk_vi lk_vi_set8(int v) {
    return _mm512_set1_epi8((char)v);
}
LK_INLINE lk_vi lk_vi_set32(int32_t v) {
    return _mm512_set1_epi32(v);
}
LK_INLINE lk_vi lk_vi_and(lk_vi a, lk_vi b) {
    return _mm512_and_si512(a, b);
}
LK_INLINE lk_vi lk_vi_or(lk_vi a, lk_vi b) {
    return _mm512_or_si512(a, b);
}
LK_INLINE lk_vi lk_vi_xor(lk_vi a, lk_vi b) {
    return _mm512_xor_si512(a, b);
}
LK_INLINE lk_vi lk_vi_sub32(lk_vi a, lk_vi b) {
    return _mm512_sub_epi32(a, b);
}
LK_INLINE lk_vi lk_vi_add32(lk_vi a, lk_vi b) {
    return _mm512_add_epi32(a, b);
}
/* Bytes of a picked by idx inside each 128 bits; 0 where the top bit of idx is set. */
LK_INLINE lk_vi lk_vi_shuffle8(lk_vi a, lk_vi idx) {
    return _mm512_shuffle_epi8(a, idx);
}
LK_INLINE lk_vi lk_vi_shr16(lk_vi a, int n) {
    switch (n) {
    case 1:
        return _mm512_srli_epi16(a, 1);
    case 2:
        return _mm512_srli_epi16(a, 2);
    case 3:
        return _mm512_srli_epi16(a, 3);
    case 4:
        return _mm512_srli_epi16(a, 4);
    case 5:
        return _mm512_srli_epi16(a, 5);
    case 6:
        return _mm512_srli_epi16(a, 6);
    case 7:
        return _mm512_srli_epi16(a, 7);
    case 8:
        return _mm512_srli_epi16(a, 8);
    default:
        return a;
    }
}
LK_INLINE lk_vi lk_vi_shl16(lk_vi a, int n) {
    switch (n) {
    case 1:
        return _mm512_slli_epi16(a, 1);
    case 2:
        return _mm512_slli_epi16(a, 2);
    case 3:
        return _mm512_slli_epi16(a, 3);
    case 4:
        return _mm512_slli_epi16(a, 4);
    case 5:
        return _mm512_slli_epi16(a, 5);
    case 6:
        return _mm512_slli_epi16(a, 6);
    case 7:
        return _mm512_slli_epi16(a, 7);
    case 8:
        return _mm512_slli_epi16(a, 8);
    default:
        return a;
    }
}

/* 32-bit lanes, to the right, zeros in. */
LK_INLINE lk_vi lk_vi_shr32(lk_vi a, int n) {
    return _mm512_srlv_epi32(a, _mm512_set1_epi32(n));
}
LK_INLINE lk_vi lk_vi_shl32(lk_vi a, int n) {
    return _mm512_sllv_epi32(a, _mm512_set1_epi32(n));
}

/* Lanes of a and b in turn: from the first or the second half of the lanes inside each 128 bits. */
LK_INLINE lk_vi lk_vi_zip_low(lk_vi a, lk_vi b) {
    return _mm512_unpacklo_epi32(a, b);
}
LK_INLINE lk_vi lk_vi_zip_high(lk_vi a, lk_vi b) {
    return _mm512_unpackhi_epi32(a, b);
}
/* (a & mask) | b. */
LK_INLINE lk_vi lk_vi_and_or(lk_vi a, lk_vi mask, lk_vi b) {
    return _mm512_ternarylogic_epi32(a, mask, b, 0xea);
}
/* v with `add` or'ed into the bytes where all of `bits` are set in x: `bits` has one bit per byte,
 * and v and `add` have none in common. */
LK_INLINE lk_vi lk_vi_or_where(lk_vi v, lk_vi x, lk_vi bits, lk_vi add) {
    return _mm512_mask_add_epi8(v, _mm512_test_epi8_mask(x, bits), v, add);
}
/* Byte i (0 .. 3) of each lane in all four of its bytes. */
LK_INLINE lk_vi lk_vi_spread(lk_vi v, int i) {
    const lk_vi first =
        _mm512_broadcast_i32x4(_mm_setr_epi32(0x00000000, 0x04040404, 0x08080808, 0x0c0c0c0c));
    return _mm512_shuffle_epi8(v, _mm512_add_epi32(first, _mm512_set1_epi32(i * 0x01010101)));
}
/* Byte i (0 .. 3) of each lane as the integer scale form of this set: the 32-bit value byte -
 * offset, for mullo32. */
LK_INLINE lk_vi lk_vi_scale_lanes(lk_vi v, int i, int offset) {
    const lk_vi first = _mm512_broadcast_i32x4(
        _mm_setr_epi32((int)0x80808000u, (int)0x80808004u, (int)0x80808008u, (int)0x8080800cu));
    const lk_vi idx = _mm512_add_epi32(first, _mm512_set1_epi32(i));
    return _mm512_sub_epi32(_mm512_shuffle_epi8(v, idx), _mm512_set1_epi32(offset));
}
/* 32-bit lanes in that form. */
LK_INLINE lk_vi lk_vi_scale_from_i32(lk_vi v) {
    return v;
}
/* Bytes 2 i and 2 i + 1 of each lane, each minus offset, as two 16-bit values. */
LK_INLINE lk_vi lk_vi_scale_pairs(lk_vi v, int i, int offset) {
    const lk_vi first = _mm512_broadcast_i32x4(
        _mm_setr_epi32((int)0x80018000u, (int)0x80058004u, (int)0x80098008u, (int)0x800d800cu));
    const lk_vi idx = _mm512_add_epi32(first, _mm512_set1_epi32(i * 0x00020002));
    return _mm512_sub_epi16(_mm512_shuffle_epi8(v, idx), _mm512_set1_epi16((short)offset));
}
/* Byte i of each lane in both 16-bit halves. */
LK_INLINE lk_vi lk_vi_min_twice(lk_vi v, int i) {
    const lk_vi first = _mm512_broadcast_i32x4(
        _mm_setr_epi32((int)0x80008000u, (int)0x80048004u, (int)0x80088008u, (int)0x800c800cu));
    const lk_vi idx = _mm512_add_epi32(first, _mm512_set1_epi32(i * 0x00010001));
    return _mm512_shuffle_epi8(v, idx);
}
/* Sixteen table bytes to every 128 bits. */
LK_INLINE lk_vi lk_vi_table(const void *p) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(p));
}

LK_INLINE lk_vf lk_vf_load(const float *p) {
    return _mm512_loadu_ps(p);
}
LK_INLINE void lk_vf_store(float *p, lk_vf v) {
    _mm512_storeu_ps(p, v);
}
LK_INLINE lk_vf lk_vf_zero(void) {
    return _mm512_setzero_ps();
}
LK_INLINE lk_vf lk_vf_set(float v) {
    return _mm512_set1_ps(v);
}
LK_INLINE lk_vf lk_vf_add(lk_vf a, lk_vf b) {
    return _mm512_add_ps(a, b);
}
LK_INLINE lk_vf lk_vf_sub(lk_vf a, lk_vf b) {
    return _mm512_sub_ps(a, b);
}
LK_INLINE lk_vf lk_vf_mul(lk_vf a, lk_vf b) {
    return _mm512_mul_ps(a, b);
}
LK_INLINE lk_vf lk_vf_neg(lk_vf a) {
    return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f));
}
LK_INLINE lk_vf lk_vf_from_i32(lk_vi a) {
    return _mm512_cvtepi32_ps(a);
}
LK_INLINE lk_vf lk_vf_bits(lk_vi a) {
    return _mm512_castsi512_ps(a);
}
/* The binary16 in the low half of each lane. */
LK_INLINE lk_vf lk_vf_from_f16_lanes(lk_vi a) {
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a));
}
/* LK_VEC_LANES bytes, one to each 32-bit lane. */
LK_INLINE lk_vi lk_vi_load_u8(const void *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(p));
}
/* 2^(e - 128) for e = 0 .. 254, infinity for 255. */
LK_INLINE lk_vf lk_vf_half_e8m0(lk_vi e) {
    const lk_vi normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    const __mmask16 is_small = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
    const __mmask16 is_top = _mm512_cmpeq_epi32_mask(e, _mm512_set1_epi32(255));
    const lk_vi finite = _mm512_mask_sllv_epi32(normal, is_small, _mm512_set1_epi32(0x00200000), e);
    return _mm512_castsi512_ps(
        _mm512_mask_mov_epi32(finite, is_top, _mm512_set1_epi32(0x7f800000)));
}
/* LK_VEC_LANES binary16 values. */
LK_INLINE lk_vf lk_vf_load_f16(const void *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}

/* Sixteen bytes from each of LK_VEC_LANES rows that lie `stride` apart: out[j] gets dword j of
 * every row, row r in lane r. */
LK_INLINE void lk_vi_columns(const uint8_t *p, size_t stride, lk_vi out[4]) {
    const uint8_t *p4 = p + 4 * stride;
    const uint8_t *p8 = p4 + 4 * stride;
    const uint8_t *p12 = p8 + 4 * stride;
    lk_vi rows[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        const void *at0 = p + i * stride;
        const void *at4 = p4 + i * stride;
        const void *at8 = p8 + i * stride;
        const void *at12 = p12 + i * stride;
        lk_vi v = _mm512_castsi128_si512(_mm_loadu_si128(at0));
        v = _mm512_inserti32x4(v, _mm_loadu_si128(at4), 1);
        v = _mm512_inserti32x4(v, _mm_loadu_si128(at8), 2);
        rows[i] = _mm512_inserti32x4(v, _mm_loadu_si128(at12), 3);
    }
    const lk_vi ab_low = _mm512_unpacklo_epi32(rows[0], rows[1]);
    const lk_vi ab_high = _mm512_unpackhi_epi32(rows[0], rows[1]);
    const lk_vi cd_low = _mm512_unpacklo_epi32(rows[2], rows[3]);
    const lk_vi cd_high = _mm512_unpackhi_epi32(rows[2], rows[3]);
    out[0] = _mm512_unpacklo_epi64(ab_low, cd_low);
    out[1] = _mm512_unpackhi_epi64(ab_low, cd_low);
    out[2] = _mm512_unpacklo_epi64(ab_high, cd_high);
    out[3] = _mm512_unpackhi_epi64(ab_high, cd_high);
}

/* ---- binary32 and what it is made of ---- */

LK_INLINE lk_vf lk_vf_div(lk_vf a, lk_vf b) {
    return _mm512_div_ps(a, b);
}
/* a * b + c, rounded once: only where the product is exact. */
LK_INLINE lk_vf lk_vf_fma(lk_vf a, lk_vf b, lk_vf c) {
    return _mm512_fmadd_ps(a, b, c);
}
LK_INLINE lk_vi lk_vi_bits(lk_vf a) {
    return _mm512_castps_si512(a);
}
LK_INLINE lk_vi lk_vi_max_u32(lk_vi a, lk_vi b) {
    return _mm512_max_epu32(a, b);
}
/* To the nearest integer, ties to even; |a| < 2^31. */
LK_INLINE lk_vi lk_vi_round(lk_vf a) {
    return _mm512_cvtps_epi32(a);
}
LK_INLINE lk_vi lk_vi_clamp(lk_vi a, int32_t low, int32_t high) {
    return _mm512_min_epi32(_mm512_max_epi32(a, _mm512_set1_epi32(low)), _mm512_set1_epi32(high));
}
LK_INLINE lk_vf lk_vf_xor(lk_vf a, lk_vf b) {
    return _mm512_xor_ps(a, b);
}
/* The sign bit of even lanes. */
LK_INLINE lk_vi lk_vi_even_sign(void) {
    return _mm512_set1_epi64(0x80000000);
}
LK_INLINE lk_vf lk_vf_max(lk_vf a, lk_vf b) {
    return _mm512_max_ps(a, b);
}
/* The first n (1 .. LK_VEC_LANES) lanes; zeros in the others. */
LK_INLINE __mmask16 lk_mask_first(size_t n) {
    const uint32_t all = 0xffffu;
    return (__mmask16)(n >= LK_VEC_LANES ? all : ((uint32_t)1 << n) - 1u);
}
LK_INLINE lk_vf lk_vf_load_n(const float *p, size_t n) {
    return n >= LK_VEC_LANES ? lk_vf_load(p) : _mm512_maskz_loadu_ps(lk_mask_first(n), p);
}
LK_INLINE void lk_vf_store_n(float *p, lk_vf v, size_t n) {
    if (n >= LK_VEC_LANES) {
        lk_vf_store(p, v);
    } else {
        _mm512_mask_storeu_ps(p, lk_mask_first(n), v);
    }
}
/* v where lane < n, zero elsewhere. */
LK_INLINE lk_vf lk_vf_keep(lk_vf v, size_t n) {
    return _mm512_maskz_mov_ps(lk_mask_first(n), v);
}
/* a < b ? x : y, lane by lane. */
LK_INLINE lk_vf lk_vf_if_less(lk_vf a, lk_vf b, lk_vf x, lk_vf y) {
    return _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), x);
}
/* Unsigned a < b ? x : y. */
LK_INLINE lk_vi lk_vi_if_less_u32(lk_vi a, lk_vi b, lk_vi x, lk_vi y) {
    return _mm512_mask_mov_epi32(y, _mm512_cmplt_epu32_mask(a, b), x);
}
/* Largest lane. */
LK_INLINE uint32_t lk_vi_largest_u32(lk_vi v) {
    return _mm512_reduce_max_epu32(v);
}
LK_INLINE float lk_vf_largest(lk_vf v) {
    return _mm512_reduce_max_ps(v);
}
/* The low byte of the first n lanes; n is LK_VEC_LANES, or 8. */
LK_INLINE void lk_vi_store_i8(int8_t *p, lk_vi v, size_t n) {
    _mm_mask_storeu_epi8(p, lk_mask_first(n), _mm512_cvtepi32_epi8(v));
}
/* The first n int8 values as binary32; n is LK_VEC_LANES, or 8. */
LK_INLINE lk_vf lk_vf_load_i8(const void *p, size_t n) {
    const __m128i bytes =
        n >= LK_VEC_LANES ? _mm_loadu_si128(p) : _mm_maskz_loadu_epi8(lk_mask_first(n), p);
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}
/* The first n values as binary16, to nearest even; n is LK_VEC_LANES, or 8. */
LK_INLINE void lk_vf_store_f16(void *p, lk_vf v, size_t n) {
    const __mmask16 first = lk_mask_first(n);
    _mm256_mask_storeu_epi16(p, first, _mm512_maskz_cvtps_ph(first, v, _MM_FROUND_TO_NEAREST_INT));
}
/* The first n (any number) binary16 or bf16 values, 16 bits each, zeros behind. */
LK_INLINE __m256i lk_vi_load16_n(const void *p, size_t n) {
    return n >= LK_VEC_LANES ? _mm256_loadu_si256(p)
                             : _mm256_maskz_loadu_epi16(lk_mask_first(n), p);
}
LK_INLINE lk_vf lk_vf_load_f16_n(const void *p, size_t n) {
    return _mm512_cvtph_ps(lk_vi_load16_n(p, n));
}
LK_INLINE lk_vi lk_vi_load_bf16_n(const void *p, size_t n) {
    return _mm512_slli_epi32(_mm512_cvtepu16_epi32(lk_vi_load16_n(p, n)), 16);
}
/* Even and odd lanes of the 2 * LK_VEC_LANES values in a and b. */
LK_INLINE void lk_vf_unzip(lk_vf a, lk_vf b, lk_vf *even, lk_vf *odd) {
    const __m512i at = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    *even = _mm512_permutex2var_ps(a, at, b);
    *odd = _mm512_permutex2var_ps(a, _mm512_add_epi32(at, _mm512_set1_epi32(1)), b);
}
/* Even lanes twice, odd lanes twice, neighbours swapped. */
LK_INLINE lk_vf lk_vf_even_twice(lk_vf v) {
    return _mm512_moveldup_ps(v);
}
LK_INLINE lk_vf lk_vf_odd_twice(lk_vf v) {
    return _mm512_movehdup_ps(v);
}
LK_INLINE lk_vf lk_vf_swap_pairs(lk_vf v) {
    return _mm512_permute_ps(v, 0xb1);
}

/* Integer dots: lanes of int32, each step adds four int8 of the lane times four of q, none of them
 * -128. The bytes of the lanes are made unsigned once, by adding 128; what that adds too much, 128
 * times the sum of all of q, the start takes away. */
LK_INLINE lk_vi lk_vi_dot_operand(lk_vi w) {
    return _mm512_xor_si512(w, _mm512_set1_epi8((char)0x80));
}
LK_INLINE lk_vi lk_vi_dot_start(int32_t sum_q) {
    return _mm512_set1_epi32(-128 * sum_q);
}
LK_INLINE lk_vi lk_vi_dot_step(lk_vi sum, lk_vi operand, int32_t q) {
    return _mm512_dpbusd_epi32(sum, operand, _mm512_set1_epi32(q));
}

/* ---- S16: sixteen partial sums of one element are LK_S16_VECS vectors ---- */

enum { LK_S16_VECS = 1, LK_S16_SETS = 16 };
enum { LK_ATTN_SIDE = 4 }; /* queries that share the values they read */

/* The tree of one element. */
LK_INLINE float lk_s16_tree(const lk_vf p[LK_S16_VECS]) {
    float lanes[LK_SUM_LANES];
    for (int v = 0; v < LK_S16_VECS; v++) {
        lk_vf_store(lanes + v * LK_VEC_LANES, p[v]);
    }
    return lk_sum16_tree(lanes);
}
/* The trees of LK_S16_SETS elements at once: each step halves the partial sums of every element and
 * the number of vectors, so that a tree costs three instructions. */
LK_INLINE void lk_s16_trees(lk_vf p[LK_S16_SETS][LK_S16_VECS], float out[LK_S16_SETS]) {
    lk_vf a[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) { /* + 8: elements 2 i, 2 i + 1 */
        const lk_vf x = p[2 * i][0];
        const lk_vf y = p[2 * i + 1][0];
        a[i] = _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xee));
    }
    lk_vf b[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) { /* + 4: elements 4 i .. 4 i + 3, 128 bits each */
        b[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a[2 * i], a[2 * i + 1], 0x88),
                             _mm512_shuffle_f32x4(a[2 * i], a[2 * i + 1], 0xdd));
    }
    lk_vf c[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) { /* + 2: in 128 bits l elements 8 i + l and 8 i + 4 + l */
        c[i] = _mm512_add_ps(_mm512_shuffle_ps(b[2 * i], b[2 * i + 1], 0x44),
                             _mm512_shuffle_ps(b[2 * i], b[2 * i + 1], 0xee));
    }
    /* + 1: in 128 bits l elements l, 4 + l, 8 + l, 12 + l */
    const lk_vf d =
        _mm512_add_ps(_mm512_shuffle_ps(c[0], c[1], 0x88), _mm512_shuffle_ps(c[0], c[1], 0xdd));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_ps(out, _mm512_permutexvar_ps(order, d));
}

#endif
