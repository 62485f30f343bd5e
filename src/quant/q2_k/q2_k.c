/* q2_k.c - 256 weights of 2 bits; a 4-bit scale and a 4-bit minimum for each 16.
 * Block: 16 bytes, low nibble the scale and high nibble the minimum of a group; 64 bytes of 2-bit
 * fields; binary16 d; binary16 dmin. Half h of 128 elements uses field bytes 32 h .. 32 h + 31; in
 * it, element 32 j + k is bits 2 j and 2 j + 1 of byte k. Value: d * scale * q - dmin * min. */
#include "base/bytes.h"
#include "quant/format.h"
#include "quant/unpacked.h"

/* Byte offsets in a block. */
enum { AT_SCALES = 0, AT_QS = 16, AT_D = 80, AT_DMIN = 82, BLOCK_BYTES = 84 };
enum { BLOCK_ELEMS = 256, GROUP_ELEMS = 16 };

static void unpack(const uint8_t *block, lk_unpacked *out) {
    out->d = lk_f16_to_f32(lk_load_u16(block + AT_D));
    out->d_min = lk_f16_to_f32(lk_load_u16(block + AT_DMIN));
    for (int j = 0; j < BLOCK_ELEMS / GROUP_ELEMS; j++) {
        out->scale[j] = (int8_t)(block[AT_SCALES + j] & 15);
        out->min[j] = block[AT_SCALES + j] >> 4;
    }
    for (int k = 0; k < BLOCK_ELEMS; k++) {
        const uint8_t byte = block[AT_QS + 32 * (k / 128) + k % 32];
        out->q[k] = (int8_t)((byte >> (2 * (k % 128 / 32))) & 3);
    }
}

static void decode(const uint8_t *in, float *out, size_t n_elems) {
    for (size_t i = 0; i < n_elems; i += BLOCK_ELEMS, in += BLOCK_BYTES) {
        lk_unpacked u;
        unpack(in, &u);
        lk_unpacked_decode(&u, BLOCK_ELEMS, GROUP_ELEMS, true, out + i);
    }
}

static lk_block_dot block_dot(const uint8_t *block, const int8_t *q) {
    lk_unpacked u;
    unpack(block, &u);
    return lk_unpacked_dot(&u, BLOCK_ELEMS, GROUP_ELEMS, true, q);
}

extern const lk_format lk_format_q2_k;
const lk_format lk_format_q2_k = {
    .name = "Q2_K",
    .type = LK_FORMAT_Q2_K,
    .block_elems = BLOCK_ELEMS,
    .block_bytes = BLOCK_BYTES,
    .group_elems = GROUP_ELEMS,
    .act_group = 256,
    .has_min = true,
    .decode = decode,
    .unpack = unpack,
    .block_dot = block_dot,
};
