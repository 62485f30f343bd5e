/* q8_0.c - 32 weights of 8 bits under one scale.
 * Block: binary16 d; 32 int8, where -128 may occur. Value: d * q. */
#include "base/bytes.h"
#include "quant/format.h"
#include "quant/search.h"
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

static void encode(const float *in, uint8_t *out, size_t n_elems) {
    for (size_t i = 0; i < n_elems; i += BLOCK_ELEMS, out += BLOCK_BYTES) {
        float x[BLOCK_ELEMS];
        memset(out, 0, BLOCK_BYTES);
        if (lk_search_prepare(in + i, BLOCK_ELEMS, x) == LK_SEARCH_TOO_LARGE) {
            lk_store_u16(out + AT_D, 0x7c00u);
            continue;
        }
        float largest = 0.0f;
        for (int k = 0; k < BLOCK_ELEMS; k++) {
            const float magnitude = x[k] < 0.0f ? -x[k] : x[k];
            largest = magnitude > largest ? magnitude : largest;
        }
        uint16_t d = lk_f32_to_f16(largest / 127.0f);
        if (largest > 127.5f * lk_f16_to_f32(d)) {
            d++; /* a subnormal scale, rounded down so far that the largest value would be cut */
        }
        const float scale = lk_f16_to_f32(d);
        const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f; /* 0 for an infinite scale too */
        lk_store_u16(out + AT_D, d);
        for (int k = 0; k < BLOCK_ELEMS; k++) {
            const int32_t q = lk_search_nearest(x[k] * inverse);
            out[AT_QS + k] = (uint8_t)(q < -127 ? -127 : q > 127 ? 127 : q);
        }
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
    .encode = encode,
    .unpack = unpack,
    .block_dot = block_dot,
};
