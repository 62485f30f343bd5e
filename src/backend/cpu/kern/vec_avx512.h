/* vec_avx512.h - vectors of 16 32-bit lanes for AVX-512. A lane is one weight row (matrix products)
 * or one element. Shift counts must be constants. */
#ifndef LK_BACKEND_CPU_KERN_VEC_AVX512_H
#define LK_BACKEND_CPU_KERN_VEC_AVX512_H

#include "backend/cpu/kern/vec_base.h"

typedef __m512i lk_vi; /* integers: bytes, 16-bit or 32-bit lanes */
typedef __m512 lk_vf;  /* binary32 lanes */
enum { LK_VEC_LANES = 16, LK_VEC_BYTES = 64 };
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
LK_INLINE lk_vi lk_vi_set16(int v) {
    return _mm512_set1_epi16((short)v);
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
LK_INLINE lk_vi lk_vi_sub16(lk_vi a, lk_vi b) {
    return _mm512_sub_epi16(a, b);
}
LK_INLINE lk_vi lk_vi_sub32(lk_vi a, lk_vi b) {
    return _mm512_sub_epi32(a, b);
}
LK_INLINE lk_vi lk_vi_add32(lk_vi a, lk_vi b) {
    return _mm512_add_epi32(a, b);
}
LK_INLINE lk_vi lk_vi_mullo32(lk_vi a, lk_vi b) {
    return _mm512_mullo_epi32(a, b);
}
LK_INLINE lk_vi lk_vi_madd16(lk_vi a, lk_vi b) {
    return _mm512_madd_epi16(a, b);
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

#endif
