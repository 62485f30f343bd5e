/* q8_0.c - 32 weights of 8 bits under one scale.
 * Block: binary16 d; 32 int8, where -128 may occur. Value: d * q. */
#include "base/bytes.h"
#include "quant/format.h"
#include "quant/unpacked.h"

/* Byte offsets in a block. */
enum { AT_D = 0, AT_QS = 2, BLOCK_BYTES = 34 };
enum { BLOCK_ELEMS = 32, GROUP_ELEMS = 32 };

static void unpack(const uint8_t *block, lk_unpacked *out) {
    out->d = lk_f16_to_f32(lk_load_u16(block + AT_D));
    out->d_min = 0.0f;
    out->scale[0] = 1;
    memcpy(out->q, block + AT_QS, BLOCK_ELEMS);
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

extern const lk_format lk_format_q8_0;
const lk_format lk_format_q8_0 = {
    .name = "Q8_0",
    .type = LK_FORMAT_Q8_0,
    .block_elems = BLOCK_ELEMS,
    .block_bytes = BLOCK_BYTES,
    .group_elems = GROUP_ELEMS,
    .act_group = 32,
    .has_min = false,
    .decode = decode,
    .unpack = unpack,
    .block_dot = block_dot,
};
