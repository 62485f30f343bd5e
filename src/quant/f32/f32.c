/* f32.c - binary32, little endian.
 * Decoding is exact, codes of infinities and NaN carry over. */
#include "base/bytes.h"
#include "quant/format.h"

static void decode(const uint8_t *in, float *out, size_t n_elems) {
    for (size_t i = 0; i < n_elems; i++) {
        out[i] = lk_f32_from_bits(lk_load_u32(in + 4 * i));
    }
}

static void encode(const float *in, uint8_t *out, size_t n_elems) {
    for (size_t i = 0; i < n_elems; i++) {
        lk_store_u32(out + 4 * i, lk_f32_bits(in[i]));
    }
}

extern const lk_format lk_format_f32;
const lk_format lk_format_f32 = {
    .name = "F32",
    .type = LK_FORMAT_F32,
    .block_elems = 1,
    .block_bytes = 4,
    .decode = decode,
    .encode = encode,
};
