/* k_scales.h - the twelve bytes of Q4_K and Q5_K that hold eight pairs of 6-bit scale and minimum.
 * For group j < 4 the scale is the low six bits of byte j and the minimum those of byte j + 4. For
 * j >= 4 byte j + 4 holds the low four bits of both, and their upper two bits are the upper two
 * bits of bytes j - 4 (scale) and j (minimum). */
#ifndef LK_QUANT_K_SCALES_H
#define LK_QUANT_K_SCALES_H

#include <stdint.h>

static inline void lk_k_scales_unpack(const uint8_t bytes[12], int8_t scale[8], uint8_t min[8]) {
    for (int j = 0; j < 4; j++) {
        scale[j] = (int8_t)(bytes[j] & 63);
        min[j] = bytes[j + 4] & 63;
        scale[j + 4] = (int8_t)((bytes[j + 8] & 15) | ((bytes[j] >> 6) << 4));
        min[j + 4] = (uint8_t)((bytes[j + 8] >> 4) | ((bytes[j + 4] >> 6) << 4));
    }
}

/* Scales and minima in 0 .. 63. */
static inline void lk_k_scales_pack(const uint8_t scale[8], const uint8_t min[8],
                                    uint8_t bytes[12]) {
    for (int j = 0; j < 4; j++) {
        bytes[j] = (uint8_t)(scale[j] | ((scale[j + 4] >> 4) << 6));
        bytes[j + 4] = (uint8_t)(min[j] | ((min[j + 4] >> 4) << 6));
        bytes[j + 8] = (uint8_t)((scale[j + 4] & 15) | ((min[j + 4] & 15) << 4));
    }
}

#endif
