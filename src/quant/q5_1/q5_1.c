/* q5_1.c - 32 weights of 5 bits under one scale and one offset.
 * Block: binary16 d; binary16 m; 32-bit word whose bit k is the fifth bit of element k; 16 bytes of
 * nibbles. Value: d * q + m, so the minimum that is subtracted is -m. */
#include "base/bytes.h"
#include "quant/encode.h"
#include "quant/format.h"
#include "quant/unpacked.h"

/* Byte offsets in a block. */
enum { AT_D = 0, AT_M = 2, AT_QH = 4, AT_QS = 8, BLOCK_BYTES = 24 };
enum { BLOCK_ELEMS = 32, GROUP_ELEMS = 32 };

static void unpack(const uint8_t *block, lk_unpacked *out) {
    out->d = lk_f16_to_f32(lk_load_u16(block + AT_D));
    out->d_min = -lk_f16_to_f32(lk_load_u16(block + AT_M));
    out->scale[0] = 1;
    out->min[0] = 1;
    lk_unpack_nibbles(block + AT_QS, out->q);
    const uint32_t high = lk_load_u32(block + AT_QH);
    for (int k = 0; k < BLOCK_ELEMS; k++) {
        out->q[k] = (int8_t)(out->q[k] | (int)(((high >> k) & 1u) << 4));
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
        lk_encoded32 e;
        uint8_t q[BLOCK_ELEMS];
        uint32_t high = 0;
        lk_encode_offset32(in + i, 31, &e);
        for (int k = 0; k < BLOCK_ELEMS; k++) {
            q[k] = (uint8_t)e.q[k];
            high |= (uint32_t)(q[k] >> 4) << k;
        }
        lk_store_u16(out + AT_D, e.d);
        lk_store_u16(out + AT_M, e.offset);
        lk_store_u32(out + AT_QH, high);
        lk_pack_nibbles(q, out + AT_QS);
    }
}

static lk_block_dot block_dot(const uint8_t *block, const int8_t *q) {
    lk_unpacked u;
    unpack(block, &u);
    return lk_unpacked_dot(&u, BLOCK_ELEMS, GROUP_ELEMS, true, q);
}

extern const lk_format lk_format_q5_1;
const lk_format lk_format_q5_1 = {
    .name = "Q5_1",
    .type = LK_FORMAT_Q5_1,
    .block_elems = BLOCK_ELEMS,
    .block_bytes = BLOCK_BYTES,
    .group_elems = GROUP_ELEMS,
    .act_group = 32,
    .has_min = true,
    .decode = decode,
    .encode = encode,
    .unpack = unpack,
    .block_dot = block_dot,
};
