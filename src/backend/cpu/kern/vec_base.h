/* vec_base.h - what the vector headers of all instruction sets share: loads of scalars from any
 * address, and how a function is forced inline so that its constant arguments select its code. */
#ifndef LK_BACKEND_CPU_KERN_VEC_BASE_H
#define LK_BACKEND_CPU_KERN_VEC_BASE_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LK_INLINE static inline __attribute__((always_inline))

LK_INLINE int32_t lk_peek_i32(const void *p) {
    int32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
LK_INLINE uint16_t lk_peek_u16(const void *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

#endif
