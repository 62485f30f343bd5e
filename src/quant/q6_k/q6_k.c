/* q6_k.c - 256 weights of 6 bits; an int8 scale for each 16.
 * Block: 128 bytes of low nibbles; 64 bytes of upper 2-bit fields; 16 int8 scales (-128 may occur);
 * binary16 d. Half h of 128 elements uses bytes 64 h on of the first and 32 h on of the second. In
 * it, quarter j of 32 elements has its nibbles in bytes 32 (j mod 2) on, low halves for j < 2 and
 * high ones else, and its upper bits at bits 2 j. Value: d * scale * (q - 32), integers -32 .. 31.
 */
#include "base/bytes.h"
#include "quant/encode.h"
#include "quant/format.h"
#include "quant/unpacked.h"

/* Byte offsets in a block. */
enum { AT_QL = 0, AT_QH = 128, AT_SCALES = 192, AT_D = 208, BLOCK_BYTES = 210 };
enum { BLOCK_ELEMS = 256, GROUP_ELEMS = 16 };

static void unpack(const uint8_t *block, lk_unpacked *out) {
    out->d = lk_f16_to_f32(lk_load_u16(block + AT_D));
    out->d_min = 0.0f;
    memcpy(out->scale, block + AT_SCALES, BLOCK_ELEMS / GROUP_ELEMS);
    for (int k = 0; k < BLOCK_ELEMS; k++) {
        const int half = k / 128;
        const int quarter = k % 128 / 32;
        const int low =
            (block[AT_QL + 64 * half + 32 * (quarter % 2) + k % 32] >> (4 * (quarter / 2))) & 15;
        const int high = (block[AT_QH + 32 * half + k % 32] >> (2 * quarter)) & 3;
        out->q[k] = (int8_t)((low | (high << 4)) - 32);
    }
}

static void decode(const uint8_t *in, float *out, size_t n_elems) {
    for (size_t i = 0; i < n_elems; i += BLOCK_ELEMS, in += BLOCK_BYTES) {
        lk_unpacked u;
        unpack(in, &u);
        lk_unpacked_decode(&u, BLOCK_ELEMS, GROUP_ELEMS, false, out + i);
    }
}

static void encode(const float *in, uint8_t *out, size_t n_elems) {
    for (size_t i = 0; i < n_elems; i += BLOCK_ELEMS, out += BLOCK_BYTES) {
        lk_encoded_k16 e;
        lk_encode_k16(in + i, &e);
        memset(out, 0, BLOCK_BYTES);
        lk_store_u16(out + AT_D, e.d);
        memcpy(out + AT_SCALES, e.scale, sizeof e.scale);
        for (int k = 0; k < BLOCK_ELEMS; k++) {
            const int half = k / 128;
            const int quarter = k % 128 / 32;
            const int q = e.q[k] + 32;
            out[AT_QL + 64 * half + 32 * (quarter % 2) + k % 32] |=
                (uint8_t)((q & 15) << (4 * (quarter / 2)));
            out[AT_QH + 32 * half + k % 32] |= (uint8_t)((q >> 4) << (2 * quarter));
        }
    }
}

static lk_block_dot block_dot(const uint8_t *block, const int8_t *q) {
    lk_unpacked u;
    unpack(block, &u);
    return lk_unpacked_dot(&u, BLOCK_ELEMS, GROUP_ELEMS, false, q);
}

extern const lk_format lk_format_q6_k;
const lk_format lk_format_q6_k = {
    .name = "Q6_K",
    .type = LK_FORMAT_Q6_K,
    .block_elems = BLOCK_ELEMS,
    .block_bytes = BLOCK_BYTES,
    .group_elems = GROUP_ELEMS,
    .act_group = 256,
    .has_min = false,
    .decode = decode,
    .encode = encode,
    .unpack = unpack,
    .block_dot = block_dot,
};
