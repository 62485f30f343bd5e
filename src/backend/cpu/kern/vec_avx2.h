/* vec_avx2.h - vectors of 8 32-bit lanes for AVX2, and for AVX-VNNI where the file is compiled for
 * it: those differ in integer dots and in the form of integer scales. A lane is one weight row
 * (matrix products) or one element. Shift counts must be constants. */
#ifndef LK_BACKEND_CPU_KERN_VEC_AVX2_H
#define LK_BACKEND_CPU_KERN_VEC_AVX2_H

#include "backend/cpu/kern/vec_base.h"
#include "ops/twin.h"

typedef __m256i lk_vi; /* integers: bytes, 16-bit or 32-bit lanes */
typedef __m256 lk_vf;  /* binary32 lanes */
enum { LK_VEC_LANES = 8, LK_VEC_BYTES = 32 };
enum { LK_VEC_ZIP = 0 }; /* groups go in pairs: tile.h, is_zipped */
#if defined(__AVXVNNI__)
enum { LK_VEC_DOT_U8 = 1 }; /* VNNI: unsigned bytes times signed ones, exact */
#else
enum { LK_VEC_DOT_U8 = 0 }; /* no exact dot of any unsigned bytes with signed ones */
#endif

LK_INLINE lk_vi lk_vi_load(const void *p) {
    return _mm256_loadu_si256(p);
}
LK_INLINE void lk_vi_store(void *p, lk_vi v) {
    _mm256_storeu_si256(p, v);
}
LK_INLINE lk_vi lk_vi_zero(void) {
    return _mm256_setzero_si256();
}
LK_INLINE lk_vi lk_vi_set8(int v) {
    return _mm256_set1_epi8((char)v);
}
LK_INLINE lk_vi lk_vi_set32(int32_t v) {
    return _mm256_set1_epi32(v);
}
LK_INLINE lk_vi lk_vi_and(lk_vi a, lk_vi b) {
    return _mm256_and_si256(a, b);
}
LK_INLINE lk_vi lk_vi_or(lk_vi a, lk_vi b) {
    return _mm256_or_si256(a, b);
}
LK_INLINE lk_vi lk_vi_xor(lk_vi a, lk_vi b) {
    return _mm256_xor_si256(a, b);
}
LK_INLINE lk_vi lk_vi_sub32(lk_vi a, lk_vi b) {
    return _mm256_sub_epi32(a, b);
}
LK_INLINE lk_vi lk_vi_add32(lk_vi a, lk_vi b) {
    return _mm256_add_epi32(a, b);
}
/* Bytes of a picked by idx inside each 128 bits; 0 where the top bit of idx is set. */
LK_INLINE lk_vi lk_vi_shuffle8(lk_vi a, lk_vi idx) {
    return _mm256_shuffle_epi8(a, idx);
}
LK_INLINE lk_vi lk_vi_shr16(lk_vi a, int n) {
    switch (n) {
    case 1:
        return _mm256_srli_epi16(a, 1);
    case 2:
        return _mm256_srli_epi16(a, 2);
    case 3:
        return _mm256_srli_epi16(a, 3);
    case 4:
        return _mm256_srli_epi16(a, 4);
    case 5:
        return _mm256_srli_epi16(a, 5);
    case 6:
        return _mm256_srli_epi16(a, 6);
    case 7:
        return _mm256_srli_epi16(a, 7);
    case 8:
        return _mm256_srli_epi16(a, 8);
    default:
        return a;
    }
}
LK_INLINE lk_vi lk_vi_shl16(lk_vi a, int n) {
    switch (n) {
    case 1:
        return _mm256_slli_epi16(a, 1);
    case 2:
        return _mm256_slli_epi16(a, 2);
    case 3:
        return _mm256_slli_epi16(a, 3);
    case 4:
        return _mm256_slli_epi16(a, 4);
    case 5:
        return _mm256_slli_epi16(a, 5);
    case 6:
        return _mm256_slli_epi16(a, 6);
    case 7:
        return _mm256_slli_epi16(a, 7);
    case 8:
        return _mm256_slli_epi16(a, 8);
    default:
        return a;
    }
}

/* 32-bit lanes, to the right, zeros in. */
LK_INLINE lk_vi lk_vi_shr32(lk_vi a, int n) {
    return _mm256_srlv_epi32(a, _mm256_set1_epi32(n));
}
LK_INLINE lk_vi lk_vi_shl32(lk_vi a, int n) {
    return _mm256_sllv_epi32(a, _mm256_set1_epi32(n));
}

/* Lanes of a and b in turn: from the first or the second half of the lanes inside each 128 bits. */
LK_INLINE lk_vi lk_vi_zip_low(lk_vi a, lk_vi b) {
    return _mm256_unpacklo_epi32(a, b);
}
LK_INLINE lk_vi lk_vi_zip_high(lk_vi a, lk_vi b) {
    return _mm256_unpackhi_epi32(a, b);
}
/* (a & mask) | b. */
LK_INLINE lk_vi lk_vi_and_or(lk_vi a, lk_vi mask, lk_vi b) {
    return _mm256_or_si256(_mm256_and_si256(a, mask), b);
}
/* v with `add` or'ed into the bytes where all of `bits` are set in x. */
LK_INLINE lk_vi lk_vi_or_where(lk_vi v, lk_vi x, lk_vi bits, lk_vi add) {
    const lk_vi hit = _mm256_cmpeq_epi8(_mm256_and_si256(x, bits), bits);
    return _mm256_or_si256(v, _mm256_and_si256(hit, add));
}
/* Byte i (0 .. 3) of each lane in all four of its bytes. */
LK_INLINE lk_vi lk_vi_spread(lk_vi v, int i) {
    const lk_vi first = _mm256_setr_epi32(0x00000000, 0x04040404, 0x08080808, 0x0c0c0c0c,
                                          0x00000000, 0x04040404, 0x08080808, 0x0c0c0c0c);
    return _mm256_shuffle_epi8(v, _mm256_add_epi32(first, _mm256_set1_epi32(i * 0x01010101)));
}
/* Byte i (0 .. 3) of each lane in both of its 16-bit halves, less offset. */
LK_INLINE lk_vi lk_vi_byte_twice(lk_vi v, int i, int offset) {
    const lk_vi first =
        _mm256_setr_epi32((int)0x80008000u, (int)0x80048004u, (int)0x80088008u, (int)0x800c800cu,
                          (int)0x80008000u, (int)0x80048004u, (int)0x80088008u, (int)0x800c800cu);
    const lk_vi idx = _mm256_add_epi32(first, _mm256_set1_epi32(i * 0x00010001));
    return _mm256_sub_epi16(_mm256_shuffle_epi8(v, idx), _mm256_set1_epi16((short)offset));
}
/* Byte i (0 .. 3) of each lane, less offset, as the integer scale form of this set: with VNNI a
 * 32-bit value for mullo32, else in both 16-bit halves for madd16. The same of small 32-bit lanes.
 */
#if defined(__AVXVNNI__)
LK_INLINE lk_vi lk_vi_scale_lanes(lk_vi v, int i, int offset) {
    const lk_vi first =
        _mm256_setr_epi32((int)0x80808000u, (int)0x80808004u, (int)0x80808008u, (int)0x8080800cu,
                          (int)0x80808000u, (int)0x80808004u, (int)0x80808008u, (int)0x8080800cu);
    const lk_vi idx = _mm256_add_epi32(first, _mm256_set1_epi32(i));
    return _mm256_sub_epi32(_mm256_shuffle_epi8(v, idx), _mm256_set1_epi32(offset));
}
LK_INLINE lk_vi lk_vi_scale_from_i32(lk_vi v) {
    return v;
}
#else
LK_INLINE lk_vi lk_vi_scale_lanes(lk_vi v, int i, int offset) {
    return lk_vi_byte_twice(v, i, offset);
}
LK_INLINE lk_vi lk_vi_scale_from_i32(lk_vi v) {
    const lk_vi low = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
    return _mm256_or_si256(low, _mm256_slli_epi32(v, 16));
}
#endif
/* Bytes 2 i and 2 i + 1 of each lane, each minus offset, as two 16-bit values. */
LK_INLINE lk_vi lk_vi_scale_pairs(lk_vi v, int i, int offset) {
    const lk_vi first =
        _mm256_setr_epi32((int)0x80018000u, (int)0x80058004u, (int)0x80098008u, (int)0x800d800cu,
                          (int)0x80018000u, (int)0x80058004u, (int)0x80098008u, (int)0x800d800cu);
    const lk_vi idx = _mm256_add_epi32(first, _mm256_set1_epi32(i * 0x00020002));
    return _mm256_sub_epi16(_mm256_shuffle_epi8(v, idx), _mm256_set1_epi16((short)offset));
}
/* Byte i of each lane in both 16-bit halves. */
LK_INLINE lk_vi lk_vi_min_twice(lk_vi v, int i) {
    return lk_vi_byte_twice(v, i, 0);
}
/* Sixteen table bytes to every 128 bits. */
LK_INLINE lk_vi lk_vi_table(const void *p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(p));
}

LK_INLINE lk_vf lk_vf_load(const float *p) {
    return _mm256_loadu_ps(p);
}
LK_INLINE void lk_vf_store(float *p, lk_vf v) {
    _mm256_storeu_ps(p, v);
}
LK_INLINE lk_vf lk_vf_zero(void) {
    return _mm256_setzero_ps();
}
LK_INLINE lk_vf lk_vf_set(float v) {
    return _mm256_set1_ps(v);
}
LK_INLINE lk_vf lk_vf_add(lk_vf a, lk_vf b) {
    return _mm256_add_ps(a, b);
}
LK_INLINE lk_vf lk_vf_sub(lk_vf a, lk_vf b) {
    return _mm256_sub_ps(a, b);
}
LK_INLINE lk_vf lk_vf_mul(lk_vf a, lk_vf b) {
    return _mm256_mul_ps(a, b);
}
LK_INLINE lk_vf lk_vf_neg(lk_vf a) {
    return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f));
}
LK_INLINE lk_vf lk_vf_from_i32(lk_vi a) {
    return _mm256_cvtepi32_ps(a);
}
LK_INLINE lk_vf lk_vf_bits(lk_vi a) {
    return _mm256_castsi256_ps(a);
}
/* The binary16 in the low half of each lane. */
LK_INLINE lk_vf lk_vf_from_f16_lanes(lk_vi a) {
    const lk_vi low = _mm256_and_si256(a, _mm256_set1_epi32(0xffff));
    const lk_vi packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}
/* LK_VEC_LANES bytes, one to each 32-bit lane. */
LK_INLINE lk_vi lk_vi_load_u8(const void *p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(p));
}
/* 2^(e - 128) for e = 0 .. 254, infinity for 255. */
LK_INLINE lk_vf lk_vf_half_e8m0(lk_vi e) {
    const lk_vi normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const lk_vi subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    const lk_vi is_normal = _mm256_cmpgt_epi32(e, _mm256_set1_epi32(1));
    const lk_vi is_top = _mm256_cmpeq_epi32(e, _mm256_set1_epi32(255));
    const lk_vi finite = _mm256_blendv_epi8(subnormal, normal, is_normal);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(finite, _mm256_set1_epi32(0x7f800000), is_top));
}
/* LK_VEC_LANES binary16 values. */
LK_INLINE lk_vf lk_vf_load_f16(const void *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

/* Sixteen bytes from each of LK_VEC_LANES rows that lie `stride` apart: out[j] gets dword j of
 * every row, row r in lane r. */
LK_INLINE void lk_vi_columns(const uint8_t *p, size_t stride, lk_vi out[4]) {
    const uint8_t *p4 = p + 4 * stride;
    lk_vi rows[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        const void *low = p + i * stride;
        const void *high = p4 + i * stride;
        rows[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)),
                                          _mm_loadu_si128(high), 1);
    }
    const lk_vi ab_low = _mm256_unpacklo_epi32(rows[0], rows[1]);
    const lk_vi ab_high = _mm256_unpackhi_epi32(rows[0], rows[1]);
    const lk_vi cd_low = _mm256_unpacklo_epi32(rows[2], rows[3]);
    const lk_vi cd_high = _mm256_unpackhi_epi32(rows[2], rows[3]);
    out[0] = _mm256_unpacklo_epi64(ab_low, cd_low);
    out[1] = _mm256_unpackhi_epi64(ab_low, cd_low);
    out[2] = _mm256_unpacklo_epi64(ab_high, cd_high);
    out[3] = _mm256_unpackhi_epi64(ab_high, cd_high);
}

/* ---- binary32 and what it is made of ---- */

LK_INLINE lk_vf lk_vf_div(lk_vf a, lk_vf b) {
    return _mm256_div_ps(a, b);
}
/* a * b + c, rounded once: only where the product is exact. */
LK_INLINE lk_vf lk_vf_fma(lk_vf a, lk_vf b, lk_vf c) {
    return _mm256_fmadd_ps(a, b, c);
}
LK_INLINE lk_vi lk_vi_bits(lk_vf a) {
    return _mm256_castps_si256(a);
}
LK_INLINE lk_vi lk_vi_max_u32(lk_vi a, lk_vi b) {
    return _mm256_max_epu32(a, b);
}
/* To the nearest integer, ties to even; |a| < 2^31. */
LK_INLINE lk_vi lk_vi_round(lk_vf a) {
    return _mm256_cvtps_epi32(a);
}
LK_INLINE lk_vi lk_vi_clamp(lk_vi a, int32_t low, int32_t high) {
    return _mm256_min_epi32(_mm256_max_epi32(a, _mm256_set1_epi32(low)), _mm256_set1_epi32(high));
}
LK_INLINE lk_vf lk_vf_xor(lk_vf a, lk_vf b) {
    return _mm256_xor_ps(a, b);
}
/* The sign bit of even lanes. */
LK_INLINE lk_vi lk_vi_even_sign(void) {
    return _mm256_set1_epi64x(0x80000000);
}
LK_INLINE lk_vf lk_vf_max(lk_vf a, lk_vf b) {
    return _mm256_max_ps(a, b);
}
/* The first n (1 .. LK_VEC_LANES) lanes; zeros in the others. */
LK_INLINE __m256i lk_vi_first(size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
LK_INLINE lk_vf lk_vf_load_n(const float *p, size_t n) {
    return n >= LK_VEC_LANES ? lk_vf_load(p) : _mm256_maskload_ps(p, lk_vi_first(n));
}
LK_INLINE void lk_vf_store_n(float *p, lk_vf v, size_t n) {
    if (n >= LK_VEC_LANES) {
        lk_vf_store(p, v);
    } else {
        _mm256_maskstore_ps(p, lk_vi_first(n), v);
    }
}
/* v where lane < n, zero elsewhere. */
LK_INLINE lk_vf lk_vf_keep(lk_vf v, size_t n) {
    return _mm256_and_ps(v, _mm256_castsi256_ps(lk_vi_first(n)));
}
/* a < b ? x : y, lane by lane. */
LK_INLINE lk_vf lk_vf_if_less(lk_vf a, lk_vf b, lk_vf x, lk_vf y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
/* Unsigned a < b ? x : y. */
LK_INLINE lk_vi lk_vi_if_less_u32(lk_vi a, lk_vi b, lk_vi x, lk_vi y) {
    const lk_vi is_less = _mm256_cmpeq_epi32(_mm256_max_epu32(a, b), a); /* a >= b */
    return _mm256_blendv_epi8(x, y, is_less);
}
/* Largest lane. */
LK_INLINE uint32_t lk_vi_largest_u32(lk_vi v) {
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}
LK_INLINE float lk_vf_largest(lk_vf v) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    m = _mm_max_ss(m, _mm_shuffle_ps(m, m, 1));
    return _mm_cvtss_f32(m);
}
/* The low byte of the first n lanes; n is LK_VEC_LANES, or 8. */
LK_INLINE void lk_vi_store_i8(int8_t *p, lk_vi v, size_t n) {
    (void)n;
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packs_epi16(words, words));
}
/* The first n int8 values as binary32; n is LK_VEC_LANES, or 8. */
LK_INLINE lk_vf lk_vf_load_i8(const void *p, size_t n) {
    (void)n;
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p)));
}
/* The first n values as binary16, to nearest even; n is LK_VEC_LANES, or 8. */
LK_INLINE void lk_vf_store_f16(void *p, lk_vf v, size_t n) {
    (void)n;
    _mm_storeu_si128(p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
/* The first n (any number) binary16 or bf16 values, 16 bits each, zeros behind. */
LK_INLINE __m128i lk_vi_load16_n(const void *p, size_t n) {
    if (n >= LK_VEC_LANES) {
        return _mm_loadu_si128(p);
    }
    uint16_t copy[LK_VEC_LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        copy[i] = lk_peek_u16((const uint8_t *)p + 2 * i);
    }
    return _mm_loadu_si128((const __m128i *)(const void *)copy);
}
LK_INLINE lk_vf lk_vf_load_f16_n(const void *p, size_t n) {
    return _mm256_cvtph_ps(lk_vi_load16_n(p, n));
}
LK_INLINE lk_vi lk_vi_load_bf16_n(const void *p, size_t n) {
    return _mm256_slli_epi32(_mm256_cvtepu16_epi32(lk_vi_load16_n(p, n)), 16);
}
/* Even and odd lanes of the 2 * LK_VEC_LANES values in a and b, and back. */
LK_INLINE void lk_vf_unzip(lk_vf a, lk_vf b, lk_vf *even, lk_vf *odd) {
    const __m256d e = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88));
    const __m256d o = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xdd));
    *even = _mm256_castpd_ps(_mm256_permute4x64_pd(e, 0xd8));
    *odd = _mm256_castpd_ps(_mm256_permute4x64_pd(o, 0xd8));
}
/* Even lanes twice, odd lanes twice, neighbours swapped. */
LK_INLINE lk_vf lk_vf_even_twice(lk_vf v) {
    return _mm256_moveldup_ps(v);
}
LK_INLINE lk_vf lk_vf_odd_twice(lk_vf v) {
    return _mm256_movehdup_ps(v);
}
LK_INLINE lk_vf lk_vf_swap_pairs(lk_vf v) {
    return _mm256_permute_ps(v, 0xb1);
}

/* Integer dots: lanes of int32, each step adds four int8 of the lane times four of q, none of them
 * -128. The sum of all of q is for sets that need it. */
#if defined(__AVXVNNI__)
LK_INLINE lk_vi lk_vi_dot_operand(lk_vi w) {
    return _mm256_xor_si256(w, _mm256_set1_epi8((char)0x80));
}
LK_INLINE lk_vi lk_vi_dot_start(int32_t sum_q) {
    return _mm256_set1_epi32(-128 * sum_q);
}
LK_INLINE lk_vi lk_vi_dot_step(lk_vi sum, lk_vi operand, int32_t q) {
    return _mm256_dpbusd_avx_epi32(sum, operand, _mm256_set1_epi32(q));
}
#else
LK_INLINE lk_vi lk_vi_dot_operand(lk_vi w) {
    return w;
}
LK_INLINE lk_vi lk_vi_dot_start(int32_t sum_q) {
    (void)sum_q;
    return _mm256_setzero_si256();
}
LK_INLINE lk_vi lk_vi_dot_step(lk_vi sum, lk_vi operand, int32_t q) {
    const lk_vi a = _mm256_set1_epi32(q);
    const lk_vi pairs =
        _mm256_maddubs_epi16(_mm256_abs_epi8(operand), _mm256_sign_epi8(a, operand));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
#endif

/* ---- S16: sixteen partial sums of one element are LK_S16_VECS vectors ---- */

enum { LK_S16_VECS = 2, LK_S16_SETS = 4 };
enum { LK_ATTN_SIDE = 2 }; /* queries that share the values they read */

/* The tree of one element. */
LK_INLINE float lk_s16_tree(const lk_vf p[LK_S16_VECS]) {
    float lanes[LK_SUM_LANES];
    for (int v = 0; v < LK_S16_VECS; v++) {
        lk_vf_store(lanes + v * LK_VEC_LANES, p[v]);
    }
    return lk_sum16_tree(lanes);
}
/* The trees of LK_S16_SETS elements at once. */
LK_INLINE void lk_s16_trees(lk_vf p[LK_S16_SETS][LK_S16_VECS], float out[LK_S16_SETS]) {
    lk_vf a[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        a[i] = _mm256_add_ps(p[i][0], p[i][1]); /* p[j] + p[j + 8] */
    }
    const lk_vf ab = _mm256_add_ps(_mm256_permute2f128_ps(a[0], a[1], 0x20),
                                   _mm256_permute2f128_ps(a[0], a[1], 0x31)); /* + 4 */
    const lk_vf cd = _mm256_add_ps(_mm256_permute2f128_ps(a[2], a[3], 0x20),
                                   _mm256_permute2f128_ps(a[2], a[3], 0x31));
    const lk_vf acbd = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44),
                                     _mm256_shuffle_ps(ab, cd, 0xee)); /* + 2: a a c c b b d d */
    const lk_vf sums = _mm256_add_ps(acbd, _mm256_permute_ps(acbd, 0xb1)); /* + 1 */
    const __m128 ac = _mm256_castps256_ps128(sums);
    const __m128 bd = _mm256_extractf128_ps(sums, 1);
    const __m128 acbd1 = _mm_shuffle_ps(ac, bd, 0x88); /* a c b d */
    _mm_storeu_ps(out, _mm_shuffle_ps(acbd1, acbd1, 0xd8));
}

#endif
