/* test_resample.c - what the resampler keeps and what it damps, its lengths, and its output beside
 * another implementation's (the shared references, where they are). */
#include <math.h>

#include "audio/resample.h"
#include "lk/audio.h"
#include "lk_test.h"

static const double two_pi = 6.283185307179586;

/* Half a second of a tone of amplitude 0.5; the middle half of the output against what it should
 * be: *gain and *error as parts of the tone. */
static void tone(uint32_t rate, double hz, double *gain, double *error) {
    const uint64_t n = rate / 2;
    const uint64_t n_out = lk_resampled_length(n, rate);
    float *in = malloc(n * sizeof *in);
    float *out = malloc(n_out * sizeof *out);
    for (uint64_t i = 0; i < n; i++) {
        in[i] = (float)(0.5 * sin(two_pi * hz * (double)i / (double)rate));
    }
    lk_error err;
    REQUIRE_OK(lk_resample(in, n, rate, out, &lk_allocator_default, &err), err);
    double power = 0.0;
    double wrong = 0.0;
    for (uint64_t i = n_out / 4; i < n_out * 3 / 4; i++) {
        const double wanted = 0.5 * sin(two_pi * hz * (double)i / LK_AUDIO_RATE);
        power += (double)out[i] * (double)out[i];
        wrong += ((double)out[i] - wanted) * ((double)out[i] - wanted);
    }
    const double whole = 0.125 * (double)(n_out * 3 / 4 - n_out / 4);
    *gain = sqrt(power / whole);
    *error = sqrt(wrong / whole);
    free(in);
    free(out);
}

/* 44101 and 7919 share no factor with 16000: every output has its own weights. */
static const uint32_t rates[] = {8000,  44100, 44101, 48000, 1000,  7919,
                                 11025, 16001, 22050, 24000, 96000, 384000};
enum { N_RATES = sizeof rates / sizeof rates[0] };

LK_TEST(tones_are_kept) {
    for (size_t i = 0; i < lk_test_size(3, N_RATES, N_RATES); i++) {
        const double nyquist = rates[i] < LK_AUDIO_RATE ? rates[i] / 2.0 : LK_AUDIO_RATE / 2.0;
        const double parts[] = {0.01, 0.3, 0.62, 0.9};
        for (int k = 0; k < 4; k++) {
            double gain = 0.0;
            double error = 1.0;
            tone(rates[i], nyquist * parts[k], &gain, &error);
            CHECK_MSG(error < 1e-4, "%u Hz, a tone of %g Hz: error %g", (unsigned)rates[i],
                      nyquist * parts[k], error);
        }
    }
}

LK_TEST(tones_above_are_damped) {
    for (size_t i = 0; i < lk_test_size(3, N_RATES, N_RATES); i++) {
        for (double hz = 8050.0; hz < rates[i] / 2.0; hz *= 1.37) {
            double gain = 1.0;
            double error = 0.0;
            tone(rates[i], hz, &gain, &error);
            CHECK_MSG(gain < 3.2e-5, "%u Hz, a tone of %g Hz: gain %g", (unsigned)rates[i], hz,
                      gain);
        }
    }
}

LK_TEST(lengths) {
    CHECK(lk_resampled_length(1, 384000) == 1);
    CHECK(lk_resampled_length(24, 384000) == 1);
    CHECK(lk_resampled_length(25, 384000) == 2);
    CHECK(lk_resampled_length(1, 8000) == 2);
    CHECK(lk_resampled_length(441, 44100) == 160);
    CHECK(lk_resampled_length(442, 44100) == 161);
    CHECK(lk_resampled_length((uint64_t)300 * 384000, 384000) == (uint64_t)300 * LK_AUDIO_RATE);
}

/* y = x below `top` Hz: both resamplers keep that, and differ above. */
static void band(const double *x, int64_t n, double top, double *y) {
    enum { HALF = 128 };
    double h[HALF + 1];
    for (int k = 0; k <= HALF; k++) {
        const double c = top * 2.0 / LK_AUDIO_RATE;
        const double sinc = k == 0 ? c : sin(two_pi / 2 * c * k) / (two_pi / 2 * k);
        h[k] = sinc * (0.5 + 0.5 * cos(two_pi / 2 * k / (HALF + 1)));
    }
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] * h[0];
        for (int64_t k = 1; k <= HALF; k++) {
            y[i] += h[k] * ((i >= k ? x[i - k] : 0.0) + (i + k < n ? x[i + k] : 0.0));
        }
    }
}

static void compare(const char *name, double top) {
    char path[256];
    (void)snprintf(path, sizeof path, "refs/audio/%s.wav", name);
    const char *wav = lk_test_shared(path);
    if (wav == NULL) {
        return;
    }
    size_t size = 0;
    uint8_t *bytes = lk_test_read(wav, &size);
    lk_audio *audio = NULL;
    lk_error err;
    REQUIRE_OK(lk_audio_decode_wav(bytes, size, NULL, NULL, &audio, &err), err);
    free(bytes);
    (void)snprintf(path, sizeof path, "refs/audio/%s.resampled16k.s16", name);
    bytes = lk_test_read(lk_test_shared(path), &size);
    const int64_t n = (int64_t)(size / 2);
    const int64_t n_own = (int64_t)lk_audio_n_samples(audio);
    CHECK_MSG(n_own == n || n_own == n + 1, "%s: %d samples, expected %d", name, (int)n_own,
              (int)n);
    double *x = calloc(4 * (size_t)n, sizeof *x);
    double power = 0.0;
    double noise = 0.0;
    for (int64_t i = 0; i < n; i++) {
        int16_t reference;
        memcpy(&reference, bytes + 2 * i, 2);
        x[i] = reference / 32768.0;
        x[n + i] = i < n_own ? (double)lk_audio_samples(audio)[i] : 0.0;
    }
    band(x, n, top, x + 2 * n);
    band(x + n, n, top, x + 3 * n);
    for (int64_t i = 0; i < n; i++) {
        const double d = x[2 * n + i] - x[3 * n + i];
        power += x[2 * n + i] * x[2 * n + i];
        noise += d * d;
    }
    const double decibels = 10.0 * log10(power / noise);
    (void)printf("%s: %.1f dB\n", name, decibels);
    CHECK_MSG(decibels > 70.0, "%s: signal to noise %.1f dB", name, decibels);
    free(x);
    free(bytes);
    lk_audio_destroy(audio);
}

/* SoX's output is rounded to 16 bits, with dither: about 80 dB below speech. */
LK_TEST(beside_sox) {
    compare("tts02_8k_mono_s16", 3500.0);
    compare("tts03_22050_mono_s16", 7000.0);
    compare("tts04_48k_mono_s24", 7000.0);
    compare("tts09_8k_mono_mulaw", 3500.0);
    compare("tts10_44100_stereo_s24", 7000.0);
}

LK_TEST_MAIN(LK_RUN(tones_are_kept), LK_RUN(tones_above_are_damped), LK_RUN(lengths),
             LK_RUN(beside_sox))
