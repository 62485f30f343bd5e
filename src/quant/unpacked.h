/* unpacked.h - decoding and the block dot of a block that has been taken apart into integers, and
 * the nibble order that most formats share. Static inline: a format's file passes its own constants
 * and gets straight code. Invariant: these two functions are the definition of every block format;
 * a format only says how its bytes become integers. */
#ifndef LK_QUANT_UNPACKED_H
#define LK_QUANT_UNPACKED_H

#include "quant/format.h"

/* Values of one block of n_elems elements in groups of n_group. */
static inline void lk_unpacked_decode(const lk_unpacked *u, uint32_t n_elems, uint32_t n_group,
                                      bool has_min, float *out) {
    for (uint32_t i_group = 0; i_group < n_elems / n_group; i_group++) {
        const float scale = u->d * (float)u->scale[i_group];
        const int8_t *q = u->q + (size_t)i_group * n_group;
        float *y = out + (size_t)i_group * n_group;
        if (has_min) {
            const float min = u->d_min * (float)u->min[i_group];
            for (uint32_t k = 0; k < n_group; k++) {
                y[k] = scale * (float)q[k] - min;
            }
        } else {
            for (uint32_t k = 0; k < n_group; k++) {
                y[k] = scale * (float)q[k];
            }
        }
    }
}

/* The exact integer dot with int8 activations. The largest sums, |i| over 256 elements, are those
 * of Q6_K and IQ4_XS: 256 * 128 * 32 * 127 = 133,169,152 and 256 * 32 * 127 * 127 = 132,128,768,
 * and |m| <= 256 * 63 * 127 = 2,048,256: int32 holds them all. */
static inline lk_block_dot lk_unpacked_dot(const lk_unpacked *u, uint32_t n_elems, uint32_t n_group,
                                           bool has_min, const int8_t *a) {
    lk_block_dot dot = {u->d, has_min ? u->d_min : 0.0f, 0, 0};
    for (uint32_t i_group = 0; i_group < n_elems / n_group; i_group++) {
        const size_t first = (size_t)i_group * n_group;
        int32_t sum = 0;
        int32_t sum_a = 0;
        for (uint32_t k = 0; k < n_group; k++) {
            sum += (int32_t)u->q[first + k] * a[first + k];
            sum_a += a[first + k];
        }
        dot.i += u->scale[i_group] * sum;
        if (has_min) {
            dot.m += (int32_t)u->min[i_group] * sum_a;
        }
    }
    return dot;
}

/* 32 nibbles in 16 bytes: element k < 16 is the low half of byte k, element 16 + k its high half.
 */
static inline void lk_unpack_nibbles(const uint8_t *bytes, int8_t q[32]) {
    for (uint32_t k = 0; k < 16; k++) {
        q[k] = (int8_t)(bytes[k] & 15);
        q[16 + k] = (int8_t)(bytes[k] >> 4);
    }
}
static inline void lk_pack_nibbles(const uint8_t q[32], uint8_t *bytes) {
    for (uint32_t k = 0; k < 16; k++) {
        bytes[k] = (uint8_t)((q[k] & 15) | (q[16 + k] << 4));
    }
}

#endif
