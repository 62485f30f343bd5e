/* bf16.c - bfloat16, little endian; encoding rounds to nearest even.
 * Decoding is exact, codes of infinities and NaN carry over. */
#include "base/bytes.h"
#include "quant/format.h"

static void decode(const uint8_t *in, float *out, size_t n_elems) {
    for (size_t i = 0; i < n_elems; i++) {
        out[i] = lk_bf16_to_f32(lk_load_u16(in + 2 * i));
    }
}

static void encode(const float *in, uint8_t *out, size_t n_elems) {
    for (size_t i = 0; i < n_elems; i++) {
        lk_store_u16(out + 2 * i, lk_f32_to_bf16(in[i]));
    }
}

extern const lk_format lk_format_bf16;
const lk_format lk_format_bf16 = {
    .name = "BF16",
    .type = LK_FORMAT_BF16,
    .block_elems = 1,
    .block_bytes = 2,
    .decode = decode,
    .encode = encode,
};
