/* test_audio_refs.c - features and resampling against independent implementations, and their bits.
 *
 * Features: relative L2 <= 1e-5 to a float64 implementation and to transformers' extractor. One
 * reference is in the tree; the rest is read from the shared references where they are. */
#include <inttypes.h>
#include <math.h>

#include "audio/log_mel.h"
#include "audio/wav.h"
#include "base/bytes.h"
#include "base/sha256.h"
#include "lk/audio.h"
#include "lk_test.h"

static lk_audio *decode_file(const char *path) {
    size_t size = 0;
    uint8_t *bytes = lk_test_read(path, &size);
    lk_audio *audio = NULL;
    lk_error err;
    REQUIRE_OK(lk_audio_decode_wav(bytes, size, NULL, NULL, &audio, &err), err);
    free(bytes);
    return audio;
}

static float *features_of(const lk_audio *audio, uint32_t n_mels, size_t *n) {
    *n = (size_t)lk_audio_n_frames(audio) * n_mels;
    float *features = malloc(*n * sizeof *features);
    lk_error err;
    REQUIRE_OK(lk_audio_features(audio, n_mels, features, *n, &err), err);
    return features;
}

/* The reference stands bin by bin. */
static void compare(const char *wav, const char *reference) {
    lk_audio *audio = decode_file(wav);
    size_t n = 0;
    float *features = features_of(audio, 128, &n);
    size_t size = 0;
    uint8_t *bytes = lk_test_read(reference, &size);
    CHECK_MSG(size == n * sizeof(float), "%s: %zu bytes, expected %zu", wav, size,
              n * sizeof(float));
    const size_t n_frames = n / 128;
    double error = 0.0;
    double total = 0.0;
    for (size_t i = 0; i < n && size == n * sizeof(float); i++) {
        float wanted;
        memcpy(&wanted, bytes + (i % 128 * n_frames + i / 128) * sizeof wanted, sizeof wanted);
        const double d = (double)features[i] - (double)wanted;
        error += d * d;
        total += (double)wanted * (double)wanted;
    }
    const double relative = sqrt(error / total);
    (void)printf("%s: relative %.2e\n", reference, relative);
    CHECK_MSG(relative <= 1e-5, "%s: relative error %g", wav, relative);
    free(bytes);
    free(features);
    lk_audio_destroy(audio);
}

LK_TEST(features_in_the_tree) {
    compare(lk_test_data("audio/synth_short_odd_16k.wav"),
            lk_test_data("audio/synth_short_odd_16k.mel128.f32"));
}

LK_TEST(features_of_the_references) {
    static const char *const names[] = {"jfk",
                                        "synth_chirp_16k",
                                        "synth_impulse_16k",
                                        "synth_noise_16k",
                                        "synth_silence_16k",
                                        "synth_sine440_16k",
                                        "tts01_16k_mono_s16",
                                        "tts06_16k_mono_f32"};
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "refs/audio/%s.wav", names[i]);
        const char *wav = lk_test_shared(path);
        (void)snprintf(path, sizeof path, "refs/audio/%s.mel128.f32", names[i]);
        if (wav != NULL) {
            compare(wav, lk_test_shared(path));
        }
    }
    for (int i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof path, "models/omni/clips/ref%d.wav", i);
        const char *wav = lk_test_shared(path);
        (void)snprintf(path, sizeof path, "models/omni/refs/ref%d.mel.f32", i);
        if (wav != NULL) {
            compare(wav, lk_test_shared(path));
        }
    }
}

LK_TEST(filters) {
    static const uint32_t sizes[] = {80, 128};
    for (int s = 0; s < 2; s++) {
        char path[256];
        (void)snprintf(path, sizeof path, "refs/audio/mel_filters_%dx201.f32", (int)sizes[s]);
        const char *shared = lk_test_shared(path);
        if (shared == NULL) {
            return;
        }
        size_t size = 0;
        uint8_t *bytes = lk_test_read(shared, &size);
        static double weights[LK_MEL_MAX * LK_MEL_BINS];
        lk_mel_filters(sizes[s], weights);
        CHECK(size == sizes[s] * LK_MEL_BINS * sizeof(float));
        double worst = 0.0;
        for (size_t i = 0; i < size / sizeof(float); i++) {
            float wanted;
            memcpy(&wanted, bytes + i * sizeof wanted, sizeof wanted);
            const double d = fabs(weights[i] - (double)wanted);
            worst = d > worst ? d : worst;
        }
        CHECK_MSG(worst < 2e-9, "%" PRIu32 " filters: %g", sizes[s], worst);
        free(bytes);
    }
}

static void check_digest(const char *what, const void *data, size_t n_bytes, const char *wanted) {
    uint8_t digest[32];
    char hex[33];
    lk_sha256_of(data, n_bytes, digest);
    for (int i = 0; i < 16; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    }
    CHECK_MSG(strcmp(hex, wanted) == 0, "%s: %s, expected %s", what, hex, wanted);
}

/* The samples as 32-bit integers: digests that the references state, from another decoder. */
LK_TEST(decoded_samples) {
    static const struct {
        const char *name;
        const char *digest;
    } files[] = {
        {"jfk.wav", "df7fff50bff155603c7bc7970f0f9844"},
        {"tts01_16k_mono_s16.wav", "5c45a230b9d18efd947bd5dbd854a0fa"},
        {"tts02_8k_mono_s16.wav", "a31c0767d4c174deffdf9f9ae8b8cdd5"},
        {"tts03_22050_mono_s16.wav", "0b41572816e1d7f62b43d61c5f83e073"},
        {"tts04_48k_mono_s24.wav", "8351512faefcd1e2e9db1948213a84ed"},
        {"tts06_16k_mono_f32.wav", "76920f31bbe33ffbde06da4be5a37254"},
        {"tts09_8k_mono_mulaw.wav", "7b890531667d6d2ca7b5c22d70a7993e"},
        {"tts12_16k_mono_u8.wav", "9aa096019bc68dc698a102c7200a75b7"},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[256];
        (void)snprintf(path, sizeof path, "refs/audio/%s", files[i].name);
        if (lk_test_shared(path) == NULL) {
            continue;
        }
        size_t size = 0;
        uint8_t *bytes = lk_test_read(lk_test_shared(path), &size);
        lk_wav wav;
        lk_error err;
        REQUIRE_OK(lk_wav_read(bytes, size, &wav, &err), err);
        float *mono = malloc(wav.n_samples * sizeof *mono);
        uint8_t *integers = malloc(wav.n_samples * 4);
        REQUIRE_OK(lk_wav_samples(&wav, mono, &err), err);
        for (uint64_t k = 0; k < wav.n_samples; k++) {
            const double x = (double)mono[k] * 0x1p31;
            lk_store_u32(integers + 4 * k,
                         (uint32_t)(int32_t)(x > 2147483647.0 ? 2147483647.0 : x));
        }
        check_digest(files[i].name, integers, wav.n_samples * 4, files[i].digest);
        free(integers);
        free(mono);
        free(bytes);
    }
}

/* Seeded noise that fades in, at a rate; the clip's bits and the features' stand still on every
 * machine (the digests are of little-endian numbers). */
static void check_bits(uint32_t rate, uint32_t n_mels, const char *clip, const char *features) {
    enum { N = 4001 };
    static float samples[2 * N];
    uint64_t state = 7;
    for (int i = 0; i < 2 * N; i++) {
        const double r = (double)(lk_test_random(&state) >> 11) * 0x1p-52 - 1.0;
        samples[i] = (float)(r * (double)i / (double)(2 * N));
    }
    lk_audio *audio = NULL;
    lk_error err;
    REQUIRE_OK(lk_audio_create(samples, N, 2, rate, NULL, NULL, &audio, &err), err);
    char what[64];
    (void)snprintf(what, sizeof what, "clip at %" PRIu32 " Hz", rate);
    check_digest(what, lk_audio_samples(audio), (size_t)lk_audio_n_samples(audio) * sizeof(float),
                 clip);
    uint8_t digest[32];
    uint8_t again[32];
    lk_audio_digest(audio, digest);
    lk_sha256_of(lk_audio_samples(audio), (size_t)lk_audio_n_samples(audio) * sizeof(float), again);
    CHECK(memcmp(digest, again, sizeof digest) == 0);
    size_t n = 0;
    float *values = features_of(audio, n_mels, &n);
    (void)snprintf(what, sizeof what, "features at %" PRIu32 " Hz", rate);
    check_digest(what, values, n * sizeof *values, features);
    free(values);
    lk_audio_destroy(audio);
}

LK_TEST(bits_stand_still) {
    check_bits(16000, 128, "c8a37f5242241269994bf08a2ab0b40d", "67b4cca9cc1dc669a4da4b306e710d17");
    check_bits(16000, 80, "c8a37f5242241269994bf08a2ab0b40d", "d27390e183902906cf38c5fa7756d8fd");
    check_bits(8000, 128, "f978a0a8428010c1095ef56b42312edb", "12746e5a0e59af7174aedc27decc60ae");
    check_bits(44100, 128, "2c5d2c537251439b14fc27da7a9db4f2", "b8d0a33fbbdba69af6bd4c11fdbfc1ec");
    check_bits(44101, 128, "f77e960138019b10cf63740c96261446",
               "718f775e86019588db4f5c801801367d"); /* weights are computed for every output */
    check_bits(1000, 128, "dd57c40f80d26226aa28c83f22ba387d", "19297d276c1e5e31937ded3aa7d988cc");
    check_bits(384000, 128, "453718f5a4b97c6d0d03e179940ef9a3", "6fca92c4e42e590719aa39c493526f3e");
}

LK_TEST_MAIN(LK_RUN(features_in_the_tree), LK_RUN(features_of_the_references), LK_RUN(filters),
             LK_RUN(decoded_samples), LK_RUN(bits_stand_still))
