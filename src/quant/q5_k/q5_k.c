/* q5_k.c - 256 weights of 5 bits; a 6-bit scale and a 6-bit minimum for each 32.
 * Block: binary16 d; binary16 dmin; 12 bytes of scales and minima (k_scales.h); 32 bytes of fifth
 * bits; 128 bytes of nibbles as in Q4_K. Bit j of fifth-bit byte k belongs to element 32 j + k.
 * Value: d * scale * q - dmin * min. */
#include "base/bytes.h"
#include "quant/encode.h"
#include "quant/format.h"
#include "quant/k_scales.h"
#include "quant/unpacked.h"

/* Byte offsets in a block. */
enum { AT_D = 0, AT_DMIN = 2, AT_SCALES = 4, AT_QH = 16, AT_QS = 48, BLOCK_BYTES = 176 };
enum { BLOCK_ELEMS = 256, GROUP_ELEMS = 32 };

static void unpack(const uint8_t *block, lk_unpacked *out) {
    out->d = lk_f16_to_f32(lk_load_u16(block + AT_D));
    out->d_min = lk_f16_to_f32(lk_load_u16(block + AT_DMIN));
    lk_k_scales_unpack(block + AT_SCALES, out->scale, out->min);
    for (int k = 0; k < BLOCK_ELEMS; k++) {
        const int low = (block[AT_QS + 32 * (k / 64) + k % 32] >> (4 * (k / 32 % 2))) & 15;
        const int high = (block[AT_QH + k % 32] >> (k / 32)) & 1;
        out->q[k] = (int8_t)(low | (high << 4));
    }
}

static void decode(const uint8_t *in, float *out, size_t n_elems) {
    for (size_t i = 0; i < n_elems; i += BLOCK_ELEMS, in += BLOCK_BYTES) {
        lk_unpacked u;
        unpack(in, &u);
        lk_unpacked_decode(&u, BLOCK_ELEMS, GROUP_ELEMS, true, out + i);
    }
}

static void encode(const float *in, uint8_t *out, size_t n_elems) {
    for (size_t i = 0; i < n_elems; i += BLOCK_ELEMS, out += BLOCK_BYTES) {
        lk_encoded_k e;
        lk_encode_k(in + i, 31, &e);
        memset(out, 0, BLOCK_BYTES);
        lk_store_u16(out + AT_D, e.d);
        lk_store_u16(out + AT_DMIN, e.d_min);
        lk_k_scales_pack(e.scale, e.min, out + AT_SCALES);
        for (int k = 0; k < BLOCK_ELEMS; k++) {
            out[AT_QS + 32 * (k / 64) + k % 32] |= (uint8_t)((e.q[k] & 15) << (4 * (k / 32 % 2)));
            out[AT_QH + k % 32] |= (uint8_t)((e.q[k] >> 4) << (k / 32));
        }
    }
}

static lk_block_dot block_dot(const uint8_t *block, const int8_t *q) {
    lk_unpacked u;
    unpack(block, &u);
    return lk_unpacked_dot(&u, BLOCK_ELEMS, GROUP_ELEMS, true, q);
}

extern const lk_format lk_format_q5_k;
const lk_format lk_format_q5_k = {
    .name = "Q5_K",
    .type = LK_FORMAT_Q5_K,
    .block_elems = BLOCK_ELEMS,
    .block_bytes = BLOCK_BYTES,
    .group_elems = GROUP_ELEMS,
    .act_group = 256,
    .has_min = true,
    .decode = decode,
    .encode = encode,
    .unpack = unpack,
    .block_dot = block_dot,
};
