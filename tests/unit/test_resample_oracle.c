/* test_resample_oracle.c - the resampler beside libsamplerate's best converter, on noise that both
 * keep whole. */
#include <math.h>
#include <samplerate.h>

#include "audio/resample.h"
#include "lk/audio.h"
#include "lk_test.h"

enum { N_TONES = 24 };

/* Tones below 0.85 of the lower Nyquist frequency, fading in and out. */
static void sound(uint32_t rate, float *x, long n) {
    uint64_t state = rate;
    const double top = 0.85 * (rate < LK_AUDIO_RATE ? rate : LK_AUDIO_RATE) / 2.0;
    double hz[N_TONES];
    double phase[N_TONES];
    for (int k = 0; k < N_TONES; k++) {
        hz[k] = top * (double)(lk_test_random(&state) >> 11) * 0x1p-53;
        phase[k] = 6.28 * (double)(lk_test_random(&state) >> 11) * 0x1p-53;
    }
    for (long i = 0; i < n; i++) {
        double sum = 0.0;
        for (int k = 0; k < N_TONES; k++) {
            sum += sin(6.283185307179586 * hz[k] * (double)i / rate + phase[k]);
        }
        x[i] = (float)(sum / (double)N_TONES *
                       (0.5 - 0.5 * cos(6.283185307179586 * (double)i / (double)n)));
    }
}

static void compare(uint32_t rate) {
    const long n = (long)rate / 2;
    const long n_out = (long)lk_resampled_length((uint64_t)n, rate);
    float *in = malloc((size_t)n * sizeof *in);
    float *own = malloc((size_t)n_out * sizeof *own);
    float *other = malloc((size_t)(n_out + 64) * sizeof *other);
    sound(rate, in, n);
    lk_error err;
    REQUIRE_OK(lk_resample(in, (uint64_t)n, rate, own, &lk_allocator_default, &err), err);
    SRC_DATA data = {.data_in = in,
                     .data_out = other,
                     .input_frames = n,
                     .output_frames = n_out + 64,
                     .end_of_input = 1,
                     .src_ratio = (double)LK_AUDIO_RATE / rate};
    CHECK(src_simple(&data, SRC_SINC_BEST_QUALITY, 1) == 0);
    CHECK_MSG(labs(data.output_frames_gen - n_out) <= 2, "%u Hz: %ld samples, expected %ld",
              (unsigned)rate, n_out, data.output_frames_gen);
    double power = 0.0;
    double noise = 0.0;
    for (long i = 0; i < n_out && i < data.output_frames_gen; i++) {
        const double d = (double)own[i] - (double)other[i];
        power += (double)other[i] * (double)other[i];
        noise += d * d;
    }
    const double decibels = 10.0 * log10(power / noise);
    (void)printf("%u Hz: %.1f dB\n", (unsigned)rate, decibels);
    CHECK_MSG(decibels > 80.0, "%u Hz: signal to noise %.1f dB", (unsigned)rate, decibels);
    free(in);
    free(own);
    free(other);
}

LK_TEST(beside_libsamplerate) {
    static const uint32_t rates[] = {8000, 11025, 22050, 24000, 32000, 44100, 44101, 48000, 96000};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        compare(rates[i]);
    }
}

LK_TEST_MAIN(LK_RUN(beside_libsamplerate))
