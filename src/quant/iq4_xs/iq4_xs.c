/* iq4_xs.c - 256 weights of 4 bits with unequal steps; a signed 6-bit scale for each 32.
 * Block: binary16 d; 16-bit word of upper scale bits; 4 bytes of low scale nibbles; 128 bytes of
 * nibbles. Scale j has its low four bits in byte j div 2 (low nibble for even j) and its upper two
 * at bits 2 j of the word; 32 is subtracted. Group j uses nibble bytes 16 j on. Value: d * scale *
 * lk_iq4_values[nibble]. */
#include "base/bytes.h"
#include "quant/format.h"
#include "quant/iq4_values.h"
#include "quant/unpacked.h"

/* Byte offsets in a block. */
enum { AT_D = 0, AT_SCALES_H = 2, AT_SCALES_L = 4, AT_QS = 8, BLOCK_BYTES = 136 };
enum { BLOCK_ELEMS = 256, GROUP_ELEMS = 32 };

static void unpack(const uint8_t *block, lk_unpacked *out) {
    out->d = lk_f16_to_f32(lk_load_u16(block + AT_D));
    out->d_min = 0.0f;
    const uint32_t scales_high = lk_load_u16(block + AT_SCALES_H);
    for (int j = 0; j < BLOCK_ELEMS / GROUP_ELEMS; j++) {
        const int low = (block[AT_SCALES_L + j / 2] >> (4 * (j % 2))) & 15;
        const int high = (int)(scales_high >> (2 * j)) & 3;
        out->scale[j] = (int8_t)((low | (high << 4)) - 32);
        lk_unpack_nibbles(block + AT_QS + 16 * j, out->q + 32 * j);
    }
    for (int k = 0; k < BLOCK_ELEMS; k++) {
        out->q[k] = lk_iq4_values[out->q[k]];
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

extern const lk_format lk_format_iq4_xs;
const lk_format lk_format_iq4_xs = {
    .name = "IQ4_XS",
    .type = LK_FORMAT_IQ4_XS,
    .block_elems = BLOCK_ELEMS,
    .block_bytes = BLOCK_BYTES,
    .group_elems = GROUP_ELEMS,
    .act_group = 256,
    .has_min = false,
    .decode = decode,
    .unpack = unpack,
    .block_dot = block_dot,
};
