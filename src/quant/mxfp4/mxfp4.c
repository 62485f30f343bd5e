/* mxfp4.c - 32 weights of 4 bits (E2M1) under one power of two (E8M0), after the OCP
 * Microscaling Formats specification.
 * Block: byte e; 16 bytes of nibbles. Value: 2^(e-127) * E2M1(nibble). The table holds twice the
 * E2M1 values, so that they are integers, and d is half the scale: 2^(e-128), exact for every e and
 * subnormal for e < 2. Code 8, minus zero, is +0. e = 255 is NaN in the specification: here d is
 * infinite then, so no sum that it enters is finite. */
#include "base/bytes.h"
#include "quant/format.h"
#include "quant/unpacked.h"

/* Byte offsets in a block. */
enum { AT_E = 0, AT_QS = 1, BLOCK_BYTES = 17 };
enum { BLOCK_ELEMS = 32, GROUP_ELEMS = 32 };

static const int8_t doubled_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* 2^(e-128), infinity for e = 255. */
static float half_scale(uint8_t e) {
    if (e == 255) {
        return lk_f32_from_bits(0x7f800000u);
    }
    return lk_f32_from_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

static void unpack(const uint8_t *block, lk_unpacked *out) {
    out->d = half_scale(block[AT_E]);
    out->d_min = 0.0f;
    out->scale[0] = 1;
    lk_unpack_nibbles(block + AT_QS, out->q);
    for (int k = 0; k < BLOCK_ELEMS; k++) {
        out->q[k] = doubled_values[out->q[k]];
    }
}

static void decode(const uint8_t *in, float *out, size_t n_elems) {
    for (size_t i = 0; i < n_elems; i += BLOCK_ELEMS, in += BLOCK_BYTES) {
        lk_unpacked u;
        unpack(in, &u);
        lk_unpacked_decode(&u, BLOCK_ELEMS, GROUP_ELEMS, false, out + i);
    }
}

static lk_block_dot block_dot(const uint8_t *block, const int8_t *q) {
    lk_unpacked u;
    unpack(block, &u);
    return lk_unpacked_dot(&u, BLOCK_ELEMS, GROUP_ELEMS, false, q);
}

extern const lk_format lk_format_mxfp4;
const lk_format lk_format_mxfp4 = {
    .name = "MXFP4",
    .type = LK_FORMAT_MXFP4,
    .block_elems = BLOCK_ELEMS,
    .block_bytes = BLOCK_BYTES,
    .group_elems = GROUP_ELEMS,
    .act_group = 32,
    .has_min = false,
    .decode = decode,
    .unpack = unpack,
    .block_dot = block_dot,
};
