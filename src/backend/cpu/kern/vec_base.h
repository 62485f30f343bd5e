/* vec_base.h - what the vector headers of all instruction sets share: loads of scalars from any
 * address, and how a function is forced inline so that its constant arguments select its code. */
#ifndef LK_BACKEND_CPU_KERN_VEC_BASE_H
#define LK_BACKEND_CPU_KERN_VEC_BASE_H

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LK_INLINE static inline __attribute__((always_inline))

LK_INLINE int32_t lk_peek_i32(const void *p) {
    int32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
LK_INLINE int64_t lk_peek_i64(const void *p) {
    int64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
LK_INLINE uint16_t lk_peek_u16(const void *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

#if defined(__x86_64__)
/* The sum of sixteen int8. */
LK_INLINE int16_t lk_sum16_i8(const int8_t *q) {
    const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)q);
    const __m128i sums = _mm_sad_epu8(_mm_xor_si128(v, _mm_set1_epi8((char)0x80)),
                                      _mm_setzero_si128()); /* of q + 128, eight each */
    const int total = _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4);
    return (int16_t)(total - 16 * 128);
}
#endif

#endif
