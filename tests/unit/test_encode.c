/* test_encode.c - the encoders: they lose no more than the blocks that another quantiser made of
 * the same numbers, they keep what is easy, and what a format cannot hold decodes to something that
 * is not finite. Walks all formats that have an encoder. */
#include <math.h>

#include "base/bytes.h"
#include "lk_test.h"
#include "quant/format.h"

enum { N_BLOCKS = 16, MAX_ELEMS = N_BLOCKS * 256, MAX_BYTES = N_BLOCKS * 256 };

static const lk_format *next_encoder(size_t *i) {
    while (*i < lk_format_count()) {
        const lk_format *format = lk_format_at((*i)++);
        if (format->encode != NULL && format->block_elems > 1) {
            return format;
        }
    }
    return NULL;
}

static void round_trip(const lk_format *format, const float *in, float *out, size_t n) {
    static uint8_t blocks[MAX_BYTES + 1];
    const size_t n_bytes = n / format->block_elems * format->block_bytes;
    CHECK(n_bytes <= MAX_BYTES);
    blocks[n_bytes] = 0xa5;
    format->encode(in, blocks, n);
    CHECK(blocks[n_bytes] == 0xa5);
    format->decode(blocks, out, n);
}

static double rms(const float *a, const float *b, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double e = (double)a[i] - (double)b[i];
        sum += e * e;
    }
    return sqrt(sum / (double)n);
}

static int all_finite(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if ((lk_f32_bits(x[i]) & 0x7fffffffu) >= 0x7f800000u) {
            return 0;
        }
    }
    return 1;
}

/* The last 16 blocks of NAME.blocks are another quantiser's work on gaussian.f32. */
LK_TEST(loses_no_more_than_another_quantiser) {
    static float in[MAX_ELEMS];
    static float ours[MAX_ELEMS];
    static float theirs[MAX_ELEMS];
    size_t size = 0;
    uint8_t *gaussian = lk_test_read(lk_test_data("formats/gaussian.f32"), &size);
    CHECK(size == sizeof in);
    lk_format_find(LK_FORMAT_F32)->decode(gaussian, in, MAX_ELEMS);
    free(gaussian);
    size_t n_formats = 0;
    size_t i = 0;
    for (const lk_format *f = next_encoder(&i); f != NULL; f = next_encoder(&i), n_formats++) {
        char path[64];
        (void)snprintf(path, sizeof path, "formats/%s.blocks", f->name);
        uint8_t *blocks = lk_test_read(lk_test_data(path), &size);
        const size_t n = (size_t)N_BLOCKS * f->block_elems;
        f->decode(blocks + size - (size_t)N_BLOCKS * f->block_bytes, theirs, n);
        free(blocks);
        round_trip(f, in, ours, n);
        const double found = rms(ours, in, n);
        const double limit = rms(theirs, in, n);
        CHECK_MSG(found <= limit && found > 0.5 * limit, "%s: rms error %g, theirs %g", f->name,
                  found, limit);
    }
    CHECK(n_formats == 8);
}

/* Every shape of weights that is easy to get wrong: relative to the largest value, the error is at
 * most one step of the coarsest format. */
LK_TEST(shapes) {
    static float in[256];
    static float out[256];
    static const float sizes[] = {1.0f, 3e-3f, 60.0f, -1.0f};
    size_t i = 0;
    for (const lk_format *f = next_encoder(&i); f != NULL; f = next_encoder(&i)) {
        for (int shape = 0; shape < 7; shape++) {
            for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
                for (int k = 0; k < 256; k++) {
                    const float shapes[7] = {0.0f,
                                             1.0f,
                                             k % 2 ? 1.0f : -1.0f,
                                             k == 77 ? 1.0f : 0.0f,
                                             (float)k / 255.0f,
                                             0.5f + (float)(k % 32) / 64.0f,
                                             k / 32 % 2 ? 1e-30f : (float)(k % 5) / 5.0f};
                    in[k] = sizes[s] * shapes[shape];
                }
                round_trip(f, in, out, 256);
                for (int k = 0; k < 256; k++) {
                    const float error = fabsf(out[k] - in[k]) / fabsf(sizes[s]);
                    CHECK_MSG(error <= (shape == 0 ? 0.0f : 0.13f), "%s: shape %d, %g became %g",
                              f->name, shape, (double)in[k], (double)out[k]);
                }
            }
        }
    }
}

LK_TEST(what_does_not_fit_is_not_finite) {
    static const float bad[] = {1e30f, -3e38f, 2e9f, INFINITY, -INFINITY, NAN};
    static float in[256];
    static float out[256];
    size_t i = 0;
    for (const lk_format *f = next_encoder(&i); f != NULL; f = next_encoder(&i)) {
        for (size_t b = 0; b < sizeof bad / sizeof bad[0]; b++) {
            for (int k = 0; k < 256; k++) {
                in[k] = 0.25f;
            }
            in[200] = bad[b];
            round_trip(f, in, out, 256);
            const uint32_t first = 200 / f->block_elems * f->block_elems;
            CHECK(!all_finite(out + first, f->block_elems));
            CHECK(first == 0 || all_finite(out, first));
        }
    }
}

/* Random magnitudes from far below to far above what a format holds: never undefined behaviour, and
 * a finite result is near its input. */
LK_TEST(any_magnitude) {
    static float in[256];
    static float out[256];
    uint64_t state = lk_test_seed(0xe);
    size_t i = 0;
    for (const lk_format *f = next_encoder(&i); f != NULL; f = next_encoder(&i)) {
        for (int trial = 0; trial < 300; trial++) {
            const int exponent = (int)(lk_test_random(&state) % 270) - 140;
            const uint64_t spread = 1 + lk_test_random(&state) % 40;
            float largest = 0.0f;
            for (int k = 0; k < 256; k++) {
                const double u = (double)(int64_t)lk_test_random(&state) * 0x1p-63;
                const int down = (int)(lk_test_random(&state) % spread);
                in[k] = (float)ldexp(u, exponent - down);
                largest = fabsf(in[k]) > largest ? fabsf(in[k]) : largest;
            }
            round_trip(f, in, out, 256);
            if (!all_finite(out, 256)) {
                CHECK_MSG(largest > 1e5f, "%s: %g did not fit", f->name, (double)largest);
                continue;
            }
            for (int k = 0; k < 256; k++) {
                CHECK(fabsf(out[k] - in[k]) <= 0.2f * largest + 0x1p-17f);
            }
        }
    }
}

LK_TEST_MAIN(LK_RUN(loses_no_more_than_another_quantiser), LK_RUN(shapes),
             LK_RUN(what_does_not_fit_is_not_finite), LK_RUN(any_magnitude))
