/* bytes.h - unaligned little-endian loads and stores, bit casts, and the 16-bit float conversions.
 * All static inline: usable from files that are built with instruction-set flags.
 * Invariant: results do not depend on the host's byte order or floating-point mode. */
#ifndef LK_BASE_BYTES_H
#define LK_BASE_BYTES_H

#include <stdint.h>
#include <string.h>

static inline uint16_t lk_load_u16(const void *p) {
    const uint8_t *b = (const uint8_t *)p;
    return (uint16_t)(b[0] | (uint16_t)(b[1] << 8));
}
static inline uint32_t lk_load_u32(const void *p) {
    const uint8_t *b = (const uint8_t *)p;
    return (uint32_t)b[0] | ((uint32_t)b[1] << 8) | ((uint32_t)b[2] << 16) | ((uint32_t)b[3] << 24);
}
static inline uint64_t lk_load_u64(const void *p) {
    return (uint64_t)lk_load_u32(p) | ((uint64_t)lk_load_u32((const uint8_t *)p + 4) << 32);
}
static inline void lk_store_u16(void *p, uint16_t v) {
    uint8_t *b = (uint8_t *)p;
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
}
static inline void lk_store_u32(void *p, uint32_t v) {
    lk_store_u16(p, (uint16_t)v);
    lk_store_u16((uint8_t *)p + 2, (uint16_t)(v >> 16));
}
static inline void lk_store_u64(void *p, uint64_t v) {
    lk_store_u32(p, (uint32_t)v);
    lk_store_u32((uint8_t *)p + 4, (uint32_t)(v >> 32));
}

static inline uint32_t lk_f32_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline float lk_f32_from_bits(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}
static inline uint64_t lk_f64_bits(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline double lk_f64_from_bits(uint64_t u) {
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* binary16 code -> binary32. Exact; infinities and NaN carry over. */
static inline float lk_f16_to_f32(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = (h >> 10) & 0x1fu;
    uint32_t mantissa = h & 0x3ffu;
    if (exponent == 0x1fu) {
        return lk_f32_from_bits(sign | 0x7f800000u | (mantissa << 13));
    }
    if (exponent == 0) {
        if (mantissa == 0) {
            return lk_f32_from_bits(sign);
        }
        exponent = 1;
        while ((mantissa & 0x400u) == 0) {
            mantissa <<= 1;
            exponent--;
        }
        mantissa &= 0x3ffu;
    }
    return lk_f32_from_bits(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

/* binary32 -> binary16 code, to nearest even. Overflow gives infinity, every NaN 0x7e00 | sign. */
static inline uint16_t lk_f32_to_f16(float x) {
    const uint32_t bits = lk_f32_bits(x);
    const uint16_t sign = (uint16_t)((bits >> 16) & 0x8000u);
    const uint32_t a = bits & 0x7fffffffu;
    if (a >= 0x7f800000u) {
        return (uint16_t)(sign | (a > 0x7f800000u ? 0x7e00u : 0x7c00u));
    }
    if (a >= 0x477ff000u) { /* 65520: rounds to infinity */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (a < 0x38800000u) { /* below 2^-14: subnormal or zero */
        if (a < 0x33000000u) {
            return sign;
        }
        const uint32_t shift = 126u - (a >> 23); /* 14 .. 24 */
        const uint32_t m = (a & 0x7fffffu) | 0x800000u;
        const uint32_t kept = m >> shift;
        const uint32_t rest = m & ((1u << shift) - 1u);
        const uint32_t half = 1u << (shift - 1u);
        return (uint16_t)(sign |
                          (kept + ((rest > half || (rest == half && (kept & 1u))) ? 1u : 0u)));
    }
    const uint32_t rounded = a + 0xfffu + ((a >> 13) & 1u);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}

static inline float lk_bf16_to_f32(uint16_t h) {
    return lk_f32_from_bits((uint32_t)h << 16);
}

/* binary32 -> bfloat16 code, to nearest even; every NaN becomes 0x7fc0 | sign. */
static inline uint16_t lk_f32_to_bf16(float x) {
    const uint32_t bits = lk_f32_bits(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)(((bits >> 16) & 0x8000u) | 0x7fc0u);
    }
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

#endif
