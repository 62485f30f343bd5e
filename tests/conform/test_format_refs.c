/* test_format_refs.c - each format against the values that two other decoders give
 * (tests/data/formats/README.md): bit for bit, zeros' signs included. Walks formats.def, so a new
 * format needs its two files there. */
#include "base/bytes.h"
#include "lk_test.h"
#include "quant/format.h"

enum { N_BLOCKS = 64 };

static uint8_t *read_data(const char *name, const char *ending, size_t expected_bytes) {
    char path[128];
    (void)snprintf(path, sizeof path, "formats/%s%s", name, ending);
    size_t size = 0;
    uint8_t *bytes = lk_test_read(lk_test_data(path), &size);
    CHECK_MSG(size == expected_bytes, "%s: %zu bytes, expected %zu", path, size, expected_bytes);
    if (size != expected_bytes) {
        exit(1);
    }
    return bytes;
}

static int is_nan(float x) {
    return (lk_f32_bits(x) & 0x7fffffffu) > 0x7f800000u;
}

/* Equal bits, or both NaN where payloads are not defined. */
static void check_values(const char *what, const float *found, const uint8_t *expected, size_t n,
                         int nan_is_a_class) {
    for (size_t i = 0; i < n; i++) {
        const float e = lk_f32_from_bits(lk_load_u32(expected + 4 * i));
        if (nan_is_a_class && is_nan(e) && is_nan(found[i])) {
            continue;
        }
        if (lk_f32_bits(found[i]) != lk_f32_bits(e)) {
            lk_test_fail(__FILE__, __LINE__, "%s: element %zu is %a, expected %a", what, i,
                         (double)found[i], (double)e);
            return;
        }
    }
}

LK_TEST(block_formats_decode_bit_equal) {
    static float values[N_BLOCKS * LK_FORMAT_MAX_BLOCK_ELEMS];
    size_t n_checked = 0;
    for (size_t i = 0; i < lk_format_count(); i++) {
        const lk_format *format = lk_format_at(i);
        if (format->block_elems == 1) {
            continue; /* codes of one number: below */
        }
        const size_t n = (size_t)N_BLOCKS * format->block_elems;
        uint8_t *blocks =
            read_data(format->name, ".blocks", (size_t)N_BLOCKS * format->block_bytes);
        uint8_t *expected = read_data(format->name, ".f32", 4 * n);
        format->decode(blocks, values, n);
        check_values(format->name, values, expected, n, 0);
        free(blocks);
        free(expected);
        n_checked++;
    }
    CHECK(n_checked == 13);
}

LK_TEST(every_f16_code) {
    enum { N = 65536 };
    static uint8_t codes[2 * N];
    static float values[N];
    for (uint32_t c = 0; c < N; c++) {
        lk_store_u16(codes + (size_t)2 * c, (uint16_t)c);
    }
    uint8_t *expected = read_data("f16_all", ".f32", (size_t)4 * N);
    lk_format_find(LK_FORMAT_F16)->decode(codes, values, N);
    check_values("F16", values, expected, N, 1);
    free(expected);
    lk_format_find(LK_FORMAT_BF16)->decode(codes, values, N);
    for (uint32_t c = 0; c < N; c++) {
        CHECK(lk_f32_bits(values[c]) == c << 16);
    }
}

static void check_rounding(uint32_t type, const char *ending, uint32_t infinity) {
    enum { N = 13402 };
    static float in[N];
    static uint8_t out[2 * N];
    uint8_t *in_bytes = read_data("round.in", ".f32", (size_t)4 * N);
    uint8_t *expected = read_data("round", ending, (size_t)2 * N);
    lk_format_find(LK_FORMAT_F32)->decode(in_bytes, in, N);
    lk_format_find(type)->encode(in, out, N);
    for (size_t i = 0; i < N; i++) {
        const uint32_t found = lk_load_u16(out + 2 * i);
        const uint32_t want = lk_load_u16(expected + 2 * i);
        const int both_nan = (found & 0x7fffu) > infinity && (want & 0x7fffu) > infinity;
        CHECK_MSG(found == want || both_nan, "%s: %a gives %04x, expected %04x", ending,
                  (double)in[i], found, want);
    }
    free(in_bytes);
    free(expected);
}

LK_TEST(rounding_to_16_bits) {
    check_rounding(LK_FORMAT_F16, ".f16", 0x7c00u);
    check_rounding(LK_FORMAT_BF16, ".bf16", 0x7f80u);
}

LK_TEST(f32_is_kept) {
    uint8_t in[4 * 3];
    uint8_t out[4 * 3];
    float x[3];
    lk_store_u32(in, 0x7f800001u); /* signalling NaN, negative zero, smallest subnormal */
    lk_store_u32(in + 4, 0x80000000u);
    lk_store_u32(in + 8, 1u);
    const lk_format *f32 = lk_format_find(LK_FORMAT_F32);
    f32->decode(in, x, 3);
    f32->encode(x, out, 3);
    CHECK(memcmp(in, out, sizeof in) == 0);
}

LK_TEST(mxfp4_scale_bytes) {
    const lk_format *format = lk_format_find(LK_FORMAT_MXFP4);
    uint8_t *expected = read_data("MXFP4.scale_codes", ".f32", 4 * 256);
    for (uint32_t e = 0; e < 256; e++) {
        uint8_t block[17];
        float values[32];
        memset(block, 0x22, sizeof block);
        block[0] = (uint8_t)e;
        format->decode(block, values, 32);
        check_values("MXFP4 scale", values, expected + (size_t)4 * e, 1, 0);
    }
    free(expected);
    /* 255 is NaN in the specification: nothing finite may come of it, not even of zeros. */
    int8_t q[32] = {0};
    uint8_t block[17] = {255};
    float values[32];
    format->decode(block, values, 32);
    CHECK(is_nan(values[0]));
    const lk_block_dot dot = format->block_dot(block, q);
    CHECK(is_nan(dot.d * 1.0f * (float)dot.i));
}

LK_TEST_MAIN(LK_RUN(block_formats_decode_bit_equal), LK_RUN(every_f16_code),
             LK_RUN(rounding_to_16_bits), LK_RUN(f32_is_kept), LK_RUN(mxfp4_scale_bytes))
