/* vec_neon.h - vectors of four 32-bit lanes for AArch64 NEON with the dot product instructions. A
 * lane is one weight row (matrix products) or one element. */
#ifndef LK_BACKEND_CPU_KERN_VEC_NEON_H
#define LK_BACKEND_CPU_KERN_VEC_NEON_H

#include "backend/cpu/kern/vec_base.h"
#include "ops/twin.h"

typedef int32x4_t lk_vi;   /* integers: bytes, 16-bit or 32-bit lanes */
typedef float32x4_t lk_vf; /* binary32 lanes */
enum { LK_VEC_LANES = 4, LK_VEC_BYTES = 16 };
enum { LK_VEC_ZIP = 0 };    /* groups go in pairs: tile.h, is_zipped */
enum { LK_VEC_DOT_U8 = 0 }; /* signed bytes times signed ones, exact */

LK_INLINE uint8x16_t lk_u8(lk_vi v) {
    return vreinterpretq_u8_s32(v);
}
LK_INLINE uint16x8_t lk_u16(lk_vi v) {
    return vreinterpretq_u16_s32(v);
}
LK_INLINE uint32x4_t lk_u32(lk_vi v) {
    return vreinterpretq_u32_s32(v);
}
LK_INLINE lk_vi lk_from_u8(uint8x16_t v) {
    return vreinterpretq_s32_u8(v);
}
LK_INLINE lk_vi lk_from_u16(uint16x8_t v) {
    return vreinterpretq_s32_u16(v);
}
LK_INLINE lk_vi lk_from_u32(uint32x4_t v) {
    return vreinterpretq_s32_u32(v);
}

LK_INLINE lk_vi lk_vi_load(const void *p) {
    return lk_from_u8(vld1q_u8(p));
}
LK_INLINE void lk_vi_store(void *p, lk_vi v) {
    vst1q_u8(p, lk_u8(v));
}
LK_INLINE lk_vi lk_vi_zero(void) {
    return vdupq_n_s32(0);
}
LK_INLINE lk_vi lk_vi_set8(int v) {
    return lk_from_u8(vdupq_n_u8((uint8_t)v));
}
LK_INLINE lk_vi lk_vi_set32(int32_t v) {
    return vdupq_n_s32(v);
}
LK_INLINE lk_vi lk_vi_and(lk_vi a, lk_vi b) {
    return vandq_s32(a, b);
}
LK_INLINE lk_vi lk_vi_or(lk_vi a, lk_vi b) {
    return vorrq_s32(a, b);
}
LK_INLINE lk_vi lk_vi_xor(lk_vi a, lk_vi b) {
    return veorq_s32(a, b);
}
LK_INLINE lk_vi lk_vi_sub32(lk_vi a, lk_vi b) {
    return vsubq_s32(a, b);
}
LK_INLINE lk_vi lk_vi_add32(lk_vi a, lk_vi b) {
    return vaddq_s32(a, b);
}
/* Bytes of a picked by idx; 0 where the top bit of idx is set. */
LK_INLINE lk_vi lk_vi_shuffle8(lk_vi a, lk_vi idx) {
    return lk_from_u8(vqtbl1q_u8(lk_u8(a), lk_u8(idx)));
}
LK_INLINE lk_vi lk_vi_shr16(lk_vi a, int n) {
    return lk_from_u16(vshlq_u16(lk_u16(a), vdupq_n_s16((int16_t)-n)));
}
LK_INLINE lk_vi lk_vi_shl16(lk_vi a, int n) {
    return lk_from_u16(vshlq_u16(lk_u16(a), vdupq_n_s16((int16_t)n)));
}
/* 32-bit lanes, to the right, zeros in. */
LK_INLINE lk_vi lk_vi_shr32(lk_vi a, int n) {
    return lk_from_u32(vshlq_u32(lk_u32(a), vdupq_n_s32(-n)));
}
LK_INLINE lk_vi lk_vi_shl32(lk_vi a, int n) {
    return vshlq_s32(a, vdupq_n_s32(n));
}

/* Lanes of a and b in turn: from the first or the second half of the lanes of a vector. */
LK_INLINE lk_vi lk_vi_zip_low(lk_vi a, lk_vi b) {
    return vzip1q_s32(a, b);
}
LK_INLINE lk_vi lk_vi_zip_high(lk_vi a, lk_vi b) {
    return vzip2q_s32(a, b);
}
/* (a & mask) | b. */
LK_INLINE lk_vi lk_vi_and_or(lk_vi a, lk_vi mask, lk_vi b) {
    return vorrq_s32(vandq_s32(a, mask), b);
}
/* v with `add` or'ed into the bytes where all of `bits` are set in x: `bits` has one bit per byte.
 */
LK_INLINE lk_vi lk_vi_or_where(lk_vi v, lk_vi x, lk_vi bits, lk_vi add) {
    const uint8x16_t hit = vtstq_u8(lk_u8(x), lk_u8(bits));
    return vorrq_s32(v, vandq_s32(lk_from_u8(hit), add));
}
/* Indices of bytes: `first` for lane 0, four more for each next lane, `step` where they are used.
 */
LK_INLINE lk_vi lk_vi_lane_bytes(uint32_t first, uint32_t step) {
    const uint32_t idx[4] = {first, first + 4 * step, first + 8 * step, first + 12 * step};
    return lk_from_u32(vld1q_u32(idx));
}
/* Byte i (0 .. 3) of each lane in all four of its bytes. */
LK_INLINE lk_vi lk_vi_spread(lk_vi v, int i) {
    return lk_vi_shuffle8(v, lk_vi_lane_bytes((uint32_t)i * 0x01010101u, 0x01010101u));
}
/* Byte i (0 .. 3) of each lane as the integer scale form of this set: the 32-bit value byte -
 * offset. */
LK_INLINE lk_vi lk_vi_scale_lanes(lk_vi v, int i, int offset) {
    const lk_vi one = lk_vi_shuffle8(v, lk_vi_lane_bytes(0x80808000u + (uint32_t)i, 1));
    return vsubq_s32(one, vdupq_n_s32(offset));
}
/* 32-bit lanes in that form. */
LK_INLINE lk_vi lk_vi_scale_from_i32(lk_vi v) {
    return v;
}
/* Bytes 2 i and 2 i + 1 of each lane, each minus offset, as two 16-bit values. */
LK_INLINE lk_vi lk_vi_scale_pairs(lk_vi v, int i, int offset) {
    const uint32_t first = 0x80018000u + (uint32_t)i * 0x00020002u;
    const lk_vi two = lk_vi_shuffle8(v, lk_vi_lane_bytes(first, 0x00010001u));
    return lk_from_u16(vsubq_u16(lk_u16(two), vdupq_n_u16((uint16_t)offset)));
}
/* Byte i of each lane in both 16-bit halves. */
LK_INLINE lk_vi lk_vi_min_twice(lk_vi v, int i) {
    const uint32_t first = 0x80008000u + (uint32_t)i * 0x00010001u;
    return lk_vi_shuffle8(v, lk_vi_lane_bytes(first, 0x00010001u));
}
/* Sixteen table bytes. */
LK_INLINE lk_vi lk_vi_table(const void *p) {
    return lk_vi_load(p);
}

LK_INLINE lk_vf lk_vf_load(const float *p) {
    return vld1q_f32(p);
}
LK_INLINE void lk_vf_store(float *p, lk_vf v) {
    vst1q_f32(p, v);
}
LK_INLINE lk_vf lk_vf_zero(void) {
    return vdupq_n_f32(0.0f);
}
LK_INLINE lk_vf lk_vf_set(float v) {
    return vdupq_n_f32(v);
}
LK_INLINE lk_vf lk_vf_add(lk_vf a, lk_vf b) {
    return vaddq_f32(a, b);
}
LK_INLINE lk_vf lk_vf_sub(lk_vf a, lk_vf b) {
    return vsubq_f32(a, b);
}
LK_INLINE lk_vf lk_vf_mul(lk_vf a, lk_vf b) {
    return vmulq_f32(a, b);
}
LK_INLINE lk_vf lk_vf_bits(lk_vi a) {
    return vreinterpretq_f32_s32(a);
}
LK_INLINE lk_vi lk_vi_bits(lk_vf a) {
    return vreinterpretq_s32_f32(a);
}
LK_INLINE lk_vf lk_vf_xor(lk_vf a, lk_vf b) {
    return lk_vf_bits(veorq_s32(lk_vi_bits(a), lk_vi_bits(b)));
}
LK_INLINE lk_vf lk_vf_neg(lk_vf a) {
    return lk_vf_xor(a, vdupq_n_f32(-0.0f));
}
LK_INLINE lk_vf lk_vf_from_i32(lk_vi a) {
    return vcvtq_f32_s32(a);
}
/* The binary16 in the low half of each lane. */
LK_INLINE lk_vf lk_vf_from_f16_lanes(lk_vi a) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(lk_u32(a))));
}
/* LK_VEC_LANES bytes, one to each 32-bit lane. */
LK_INLINE lk_vi lk_vi_load_u8(const void *p) {
    const uint8x8_t bytes = vreinterpret_u8_s32(vdup_n_s32(lk_peek_i32(p)));
    return lk_from_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes))));
}
/* a where mask is set, else b. */
LK_INLINE lk_vi lk_vi_choose(uint32x4_t mask, lk_vi a, lk_vi b) {
    return vbslq_s32(mask, a, b);
}
/* 2^(e - 128) for e = 0 .. 254, infinity for 255. */
LK_INLINE lk_vf lk_vf_half_e8m0(lk_vi e) {
    const lk_vi normal = vshlq_n_s32(vsubq_s32(e, vdupq_n_s32(1)), 23);
    const lk_vi subnormal = vshlq_s32(vdupq_n_s32(0x00200000), e);
    const lk_vi finite = lk_vi_choose(vcgtq_s32(e, vdupq_n_s32(1)), normal, subnormal);
    return lk_vf_bits(
        lk_vi_choose(vceqq_s32(e, vdupq_n_s32(255)), vdupq_n_s32(0x7f800000), finite));
}
/* LK_VEC_LANES binary16 values. */
LK_INLINE lk_vf lk_vf_load_f16(const void *p) {
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

/* Sixteen bytes from each of LK_VEC_LANES rows that lie `stride` apart: out[j] gets dword j of
 * every row, row r in lane r. */
LK_INLINE void lk_vi_columns(const uint8_t *p, size_t stride, lk_vi out[4]) {
    const lk_vi a = lk_vi_load(p);
    const lk_vi b = lk_vi_load(p + stride);
    const lk_vi c = lk_vi_load(p + 2 * stride);
    const lk_vi d = lk_vi_load(p + 3 * stride);
    const int64x2_t ab0 = vreinterpretq_s64_s32(vtrn1q_s32(a, b));
    const int64x2_t ab1 = vreinterpretq_s64_s32(vtrn2q_s32(a, b));
    const int64x2_t cd0 = vreinterpretq_s64_s32(vtrn1q_s32(c, d));
    const int64x2_t cd1 = vreinterpretq_s64_s32(vtrn2q_s32(c, d));
    out[0] = vreinterpretq_s32_s64(vtrn1q_s64(ab0, cd0));
    out[1] = vreinterpretq_s32_s64(vtrn1q_s64(ab1, cd1));
    out[2] = vreinterpretq_s32_s64(vtrn2q_s64(ab0, cd0));
    out[3] = vreinterpretq_s32_s64(vtrn2q_s64(ab1, cd1));
}

/* ---- binary32 and what it is made of ---- */

LK_INLINE lk_vf lk_vf_div(lk_vf a, lk_vf b) {
    return vdivq_f32(a, b);
}
/* a * b + c, rounded once: only where the product is exact. */
LK_INLINE lk_vf lk_vf_fma(lk_vf a, lk_vf b, lk_vf c) {
    return vfmaq_f32(c, a, b);
}
LK_INLINE lk_vi lk_vi_max_u32(lk_vi a, lk_vi b) {
    return lk_from_u32(vmaxq_u32(lk_u32(a), lk_u32(b)));
}
/* To the nearest integer, ties to even; |a| < 2^31. */
LK_INLINE lk_vi lk_vi_round(lk_vf a) {
    return vcvtnq_s32_f32(a);
}
LK_INLINE lk_vi lk_vi_clamp(lk_vi a, int32_t low, int32_t high) {
    return vminq_s32(vmaxq_s32(a, vdupq_n_s32(low)), vdupq_n_s32(high));
}
/* The sign bit of even lanes. */
LK_INLINE lk_vi lk_vi_even_sign(void) {
    return vreinterpretq_s32_u64(vdupq_n_u64(0x80000000u));
}
LK_INLINE lk_vf lk_vf_max(lk_vf a, lk_vf b) {
    return vmaxq_f32(a, b);
}
/* The first n (1 .. LK_VEC_LANES) lanes. */
LK_INLINE uint32x4_t lk_first_lanes(size_t n) {
    static const int32_t lanes[4] = {0, 1, 2, 3};
    return vcltq_s32(vld1q_s32(lanes), vdupq_n_s32((int32_t)n));
}
LK_INLINE lk_vf lk_vf_load_n(const float *p, size_t n) {
    if (n >= LK_VEC_LANES) {
        return lk_vf_load(p);
    }
    float copy[LK_VEC_LANES] = {0.0f};
    memcpy(copy, p, n * sizeof *p);
    return lk_vf_load(copy);
}
LK_INLINE void lk_vf_store_n(float *p, lk_vf v, size_t n) {
    if (n >= LK_VEC_LANES) {
        lk_vf_store(p, v);
        return;
    }
    float copy[LK_VEC_LANES];
    lk_vf_store(copy, v);
    memcpy(p, copy, n * sizeof *p);
}
/* v where lane < n, zero elsewhere. */
LK_INLINE lk_vf lk_vf_keep(lk_vf v, size_t n) {
    return lk_vf_bits(lk_vi_choose(lk_first_lanes(n), lk_vi_bits(v), lk_vi_zero()));
}
/* a < b ? x : y, lane by lane. */
LK_INLINE lk_vf lk_vf_if_less(lk_vf a, lk_vf b, lk_vf x, lk_vf y) {
    return vbslq_f32(vcltq_f32(a, b), x, y);
}
/* Unsigned a < b ? x : y. */
LK_INLINE lk_vi lk_vi_if_less_u32(lk_vi a, lk_vi b, lk_vi x, lk_vi y) {
    return lk_vi_choose(vcltq_u32(lk_u32(a), lk_u32(b)), x, y);
}
/* Largest lane. */
LK_INLINE uint32_t lk_vi_largest_u32(lk_vi v) {
    return vmaxvq_u32(lk_u32(v));
}
LK_INLINE float lk_vf_largest(lk_vf v) {
    return vmaxvq_f32(v);
}
/* The low byte of the lanes; n is LK_VEC_LANES. */
LK_INLINE void lk_vi_store_i8(int8_t *p, lk_vi v, size_t n) {
    (void)n;
    const int8x8_t bytes = vmovn_s16(vcombine_s16(vmovn_s32(v), vmovn_s32(v)));
    const int32_t four = vget_lane_s32(vreinterpret_s32_s8(bytes), 0);
    memcpy(p, &four, sizeof four);
}
/* LK_VEC_LANES int8 values as binary32. */
LK_INLINE lk_vf lk_vf_load_i8(const void *p, size_t n) {
    (void)n;
    const int8x8_t bytes = vreinterpret_s8_s32(vdup_n_s32(lk_peek_i32(p)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
}
/* LK_VEC_LANES values as binary16, to nearest even. */
LK_INLINE void lk_vf_store_f16(void *p, lk_vf v, size_t n) {
    (void)n;
    vst1_u8(p, vreinterpret_u8_f16(vcvt_f16_f32(v)));
}
/* The first n (any number) binary16 or bf16 values, 16 bits each, zeros behind. */
LK_INLINE uint16x4_t lk_vi_load16_n(const void *p, size_t n) {
    uint16_t copy[LK_VEC_LANES] = {0};
    memcpy(copy, p, (n < LK_VEC_LANES ? n : LK_VEC_LANES) * sizeof copy[0]);
    return vld1_u16(copy);
}
LK_INLINE lk_vf lk_vf_load_f16_n(const void *p, size_t n) {
    return vcvt_f32_f16(vreinterpret_f16_u16(lk_vi_load16_n(p, n)));
}
LK_INLINE lk_vi lk_vi_load_bf16_n(const void *p, size_t n) {
    return lk_from_u32(vshll_n_u16(lk_vi_load16_n(p, n), 16));
}
/* Even and odd lanes of the 2 * LK_VEC_LANES values in a and b. */
LK_INLINE void lk_vf_unzip(lk_vf a, lk_vf b, lk_vf *even, lk_vf *odd) {
    *even = vuzp1q_f32(a, b);
    *odd = vuzp2q_f32(a, b);
}
/* Even lanes twice, odd lanes twice, neighbours swapped. */
LK_INLINE lk_vf lk_vf_even_twice(lk_vf v) {
    return vtrn1q_f32(v, v);
}
LK_INLINE lk_vf lk_vf_odd_twice(lk_vf v) {
    return vtrn2q_f32(v, v);
}
LK_INLINE lk_vf lk_vf_swap_pairs(lk_vf v) {
    return vrev64q_f32(v);
}

/* Integer dots: lanes of int32, each step adds four int8 of the lane times four of q. The sum of
 * all of q is for sets that need it. */
LK_INLINE lk_vi lk_vi_dot_operand(lk_vi w) {
    return w;
}
LK_INLINE lk_vi lk_vi_dot_start(int32_t sum_q) {
    (void)sum_q;
    return lk_vi_zero();
}
LK_INLINE lk_vi lk_vi_dot_step(lk_vi sum, lk_vi operand, int32_t q) {
    return vdotq_s32(sum, vreinterpretq_s8_s32(operand), vreinterpretq_s8_s32(vdupq_n_s32(q)));
}
/* The sum of sixteen int8. */
LK_INLINE int16_t lk_sum16_i8(const int8_t *q) {
    return vaddlvq_s8(vld1q_s8(q));
}

/* ---- S16: sixteen partial sums of one element are LK_S16_VECS vectors ---- */

enum { LK_S16_VECS = 4, LK_S16_SETS = 4 };
enum { LK_ATTN_SIDE = 2 }; /* queries that share the values they read */

/* The tree of one element. */
LK_INLINE float lk_s16_tree(const lk_vf p[LK_S16_VECS]) {
    const lk_vf eight = vaddq_f32(vaddq_f32(p[0], p[2]), vaddq_f32(p[1], p[3])); /* + 8, + 4 */
    const float32x2_t two = vadd_f32(vget_low_f32(eight), vget_high_f32(eight)); /* + 2 */
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
/* The trees of LK_S16_SETS elements at once. */
LK_INLINE void lk_s16_trees(lk_vf p[LK_S16_SETS][LK_S16_VECS], float out[LK_S16_SETS]) {
#pragma GCC unroll 4
    for (int i = 0; i < LK_S16_SETS; i++) {
        out[i] = lk_s16_tree(p[i]);
    }
}

#endif
