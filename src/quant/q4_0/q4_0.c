/* q4_0.c - 32 weights of 4 bits under one scale.
 * Block: binary16 d; 16 bytes of nibbles. Value: d * (nibble - 8), integers -8 .. 7. */
#include "base/bytes.h"
#include "quant/encode.h"
#include "quant/format.h"
#include "quant/unpacked.h"

/* Byte offsets in a block. */
enum { AT_D = 0, AT_QS = 2, BLOCK_BYTES = 18 };
enum { BLOCK_ELEMS = 32, GROUP_ELEMS = 32 };

static void unpack(const uint8_t *block, lk_unpacked *out) {
    out->d = lk_f16_to_f32(lk_load_u16(block + AT_D));
    out->d_min = 0.0f;
    out->scale[0] = 1;
    lk_unpack_nibbles(block + AT_QS, out->q);
    for (int k = 0; k < BLOCK_ELEMS; k++) {
        out->q[k] = (int8_t)(out->q[k] - 8);
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
        lk_encoded32 e;
        uint8_t q[BLOCK_ELEMS];
        lk_encode_scale32(in + i, -8, 7, &e);
        for (int k = 0; k < BLOCK_ELEMS; k++) {
            q[k] = (uint8_t)(e.q[k] + 8);
        }
        lk_store_u16(out + AT_D, e.d);
        lk_pack_nibbles(q, out + AT_QS);
    }
}

static lk_block_dot block_dot(const uint8_t *block, const int8_t *q) {
    lk_unpacked u;
    unpack(block, &u);
    return lk_unpacked_dot(&u, BLOCK_ELEMS, GROUP_ELEMS, false, q);
}

extern const lk_format lk_format_q4_0;
const lk_format lk_format_q4_0 = {
    .name = "Q4_0",
    .type = LK_FORMAT_Q4_0,
    .block_elems = BLOCK_ELEMS,
    .block_bytes = BLOCK_BYTES,
    .group_elems = GROUP_ELEMS,
    .act_group = 32,
    .has_min = false,
    .decode = decode,
    .encode = encode,
    .unpack = unpack,
    .block_dot = block_dot,
};
