/* encode.h - the encoders that formats share: from values to the integers of one block. A format's
 * file lays them out.
 * A block that the format cannot hold (a value that is not finite, or a scale beyond binary16) gets
 * an infinite scale, so that decoding shows it: no block is quietly wrong. */
#ifndef LK_QUANT_ENCODE_H
#define LK_QUANT_ENCODE_H

#include <stdint.h>

/* 32 values, each d * q with q in lo .. hi; d is a binary16 code. */
typedef struct lk_encoded32 {
    uint16_t d;
    uint16_t offset; /* binary16 code; lk_encode_offset32 only */
    int8_t q[32];
} lk_encoded32;
void lk_encode_scale32(const float *in, int32_t lo, int32_t hi, lk_encoded32 *out);

/* 32 values, each d * q + offset with q in 0 .. hi. */
void lk_encode_offset32(const float *in, int32_t hi, lk_encoded32 *out);

/* 256 values in groups of 32, each d * scale * q - d_min * min with q in 0 .. hi. */
typedef struct lk_encoded_k {
    uint16_t d;
    uint16_t d_min;
    uint8_t scale[8]; /* 0 .. 63 */
    uint8_t min[8];   /* 0 .. 63 */
    int8_t q[256];
} lk_encoded_k;
void lk_encode_k(const float *in, int32_t hi, lk_encoded_k *out);

/* 256 values in groups of 16, each d * scale * q with q in -32 .. 31. */
typedef struct lk_encoded_k16 {
    uint16_t d;
    int8_t scale[16];
    int8_t q[256];
} lk_encoded_k16;
void lk_encode_k16(const float *in, lk_encoded_k16 *out);

#endif
