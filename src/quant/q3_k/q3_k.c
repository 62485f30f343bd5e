/* q3_k.c - 256 weights of 3 bits; a signed 6-bit scale for each 16.
 * Block: 32 bytes of third bits; 64 bytes of 2-bit fields; 12 bytes of scales; binary16 d. The
 * 2-bit fields lie as in Q2_K. Bit j of third-bit byte k belongs to element 32 j + k; where it is
 * clear, 4 is subtracted. Scale s has its low four bits in byte s mod 8 (low nibble for s < 8, high
 * nibble else) and its upper two in byte 8 + s mod 4, bits 2 (s div 4) on; 32 is subtracted. Value:
 * d * scale * q, integers -4 .. 3. */
#include "base/bytes.h"
#include "quant/format.h"
#include "quant/unpacked.h"

/* Byte offsets in a block. */
enum { AT_HMASK = 0, AT_QS = 32, AT_SCALES = 96, AT_D = 108, BLOCK_BYTES = 110 };
enum { BLOCK_ELEMS = 256, GROUP_ELEMS = 16 };

static void unpack(const uint8_t *block, lk_unpacked *out) {
    out->d = lk_f16_to_f32(lk_load_u16(block + AT_D));
    out->d_min = 0.0f;
    const uint8_t *scales = block + AT_SCALES;
    for (int s = 0; s < BLOCK_ELEMS / GROUP_ELEMS; s++) {
        const int low = (scales[s % 8] >> (4 * (s / 8))) & 15;
        const int high = (scales[8 + s % 4] >> (2 * (s / 4))) & 3;
        out->scale[s] = (int8_t)((low | (high << 4)) - 32);
    }
    for (int k = 0; k < BLOCK_ELEMS; k++) {
        const int low = (block[AT_QS + 32 * (k / 128) + k % 32] >> (2 * (k % 128 / 32))) & 3;
        const int high = (block[AT_HMASK + k % 32] >> (k / 32)) & 1;
        out->q[k] = (int8_t)(low - 4 * (1 - high));
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

extern const lk_format lk_format_q3_k;
const lk_format lk_format_q3_k = {
    .name = "Q3_K",
    .type = LK_FORMAT_Q3_K,
    .block_elems = BLOCK_ELEMS,
    .block_bytes = BLOCK_BYTES,
    .group_elems = GROUP_ELEMS,
    .act_group = 256,
    .has_min = false,
    .decode = decode,
    .unpack = unpack,
    .block_dot = block_dot,
};
