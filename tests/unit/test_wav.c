/* test_wav.c - the WAV reader and the making of clips: every coding, every way a file can lie, and
 * the numbers that are refused. */
#include <inttypes.h>
#include <math.h>

#include "audio/wav.h"
#include "lk/audio.h"
#include "lk_test.h"
#include "wav_bytes.h"

/* Decodes a copy of the exact size, so that a sanitizer sees a byte read beyond. */
static lk_status decode(const wav_file *f, const lk_audio_params *params, lk_audio **audio,
                        lk_error *err) {
    uint8_t *copy = malloc(f->n + 1);
    memcpy(copy + 1, f->bytes, f->n); /* unaligned on purpose */
    *err = (lk_error){.status = LK_OK};
    const lk_status status = lk_audio_decode_wav(copy + 1, f->n, params, NULL, audio, err);
    free(copy);
    CHECK((status == LK_OK) == (*audio != NULL));
    CHECK(status == LK_OK || (err->status == status && err->message[0] != '\0'));
    return status;
}

static void check_samples(const wav_file *f, const float *wanted, uint64_t n) {
    lk_audio *audio = NULL;
    lk_error err;
    REQUIRE_OK(decode(f, NULL, &audio, &err), err);
    CHECK(lk_audio_n_samples(audio) == n);
    for (uint64_t i = 0; i < n && i < lk_audio_n_samples(audio); i++) {
        CHECK_MSG(lk_audio_samples(audio)[i] == wanted[i], "sample %" PRIu64 ": %a, expected %a", i,
                  (double)lk_audio_samples(audio)[i], (double)wanted[i]);
    }
    lk_audio_destroy(audio);
}

/* The status, the offset, and a word of the message. */
static void check_error(const wav_file *f, lk_status wanted, uint64_t offset, const char *word) {
    lk_audio *audio = NULL;
    lk_error err;
    const lk_status status = decode(f, NULL, &audio, &err);
    CHECK_MSG(status == wanted, "%s, expected %s: %s", lk_status_name(status),
              lk_status_name(wanted), err.message);
    CHECK_MSG(err.offset == offset, "offset %" PRIu64 ", expected %" PRIu64 ": %s", err.offset,
              offset, err.message);
    CHECK_MSG(strstr(err.message, word) != NULL, "no \"%s\" in: %s", word, err.message);
    lk_audio_destroy(audio);
}

LK_TEST(integers) {
    wav_file f;
    wav_simple(&f, 1, 1, 16000, 8, "\x00\x80\xff", 3);
    check_samples(&f, (const float[]){-1.0f, 0.0f, 0x1.fcp-1f}, 3);
    wav_simple(&f, 1, 1, 16000, 16, "\x00\x80\x01\x00\xff\x7f", 6);
    check_samples(&f, (const float[]){-1.0f, 0x1p-15f, 0x1.fffcp-1f}, 3);
    wav_simple(&f, 1, 1, 16000, 24, "\x00\x00\x80\x01\x00\x00\xff\xff\x7f", 9);
    check_samples(&f, (const float[]){-1.0f, 0x1p-23f, 0x1.fffffcp-1f}, 3);
    wav_simple(&f, 1, 1, 16000, 32, "\x00\x00\x00\x80\x01\x00\x00\x00\xff\xff\xff\x7f", 12);
    check_samples(&f, (const float[]){-1.0f, 0x1p-31f, 1.0f}, 3);
}

LK_TEST(floats) {
    const float singles[] = {0.25f, -3.5f, 0x1p-149f};
    const double doubles[] = {0.25, -3.5, 0x1.000001p-3};
    wav_file f;
    wav_simple(&f, 3, 1, 16000, 32, singles, sizeof singles);
    check_samples(&f, singles, 3);
    wav_simple(&f, 3, 1, 16000, 64, doubles, sizeof doubles);
    check_samples(&f, (const float[]){0.25f, -3.5f, 0x1p-3f}, 3);
}

/* Values of ITU-T G.711, in parts of 32768: the ends, the steps next to zero, and one between. */
LK_TEST(laws) {
    wav_file f;
    wav_simple(&f, 7, 1, 16000, 8, "\x00\x80\xff\x7f\xfe\x4e", 6);
    check_samples(&f,
                  (const float[]){-32124.0f / 32768, 32124.0f / 32768, 0.0f, 0.0f, 8.0f / 32768,
                                  -988.0f / 32768},
                  6);
    wav_simple(&f, 6, 1, 16000, 8, "\x2a\xaa\xd5\x55\x54\x80", 6);
    check_samples(&f,
                  (const float[]){-32256.0f / 32768, 32256.0f / 32768, 8.0f / 32768, -8.0f / 32768,
                                  -24.0f / 32768, 5504.0f / 32768},
                  6);
}

LK_TEST(channels_are_averaged) {
    const float samples[] = {1.0f, 0.0f, -0.5f, 0.0f, 0.5f, 0.25f};
    wav_file f;
    wav_simple(&f, 3, 2, 16000, 32, samples, sizeof samples);
    check_samples(&f, (const float[]){0.5f, -0.25f, 0.375f}, 3);
    float eight[8] = {8.0f};
    wav_simple(&f, 3, 8, 16000, 32, eight, sizeof eight);
    check_samples(&f, (const float[]){1.0f}, 1);
}

/* The format after the samples, chunks that nobody knows, odd lengths with and without padding. */
LK_TEST(order_of_chunks) {
    const float wanted[] = {0x1p-7f, -0x1p-7f, 0.5f};
    wav_file f;
    wav_begin(&f);
    wav_put_chunk(&f, "LIST", "abc", 3);
    wav_put_chunk(&f, "data", "\x81\x7f\xc0", 3);
    wav_put_chunk(&f, "\0\1\2\3", "", 0);
    wav_put_format(&f, 1, 1, 16000, 8);
    wav_end(&f);
    check_samples(&f, wanted, 3);
    wav_simple(&f, 1, 1, 16000, 8, "\x81\x7f\xc0", 3);
    f.n--; /* counted, and not there */
    check_samples(&f, wanted, 3);
    wav_end(&f); /* neither */
    check_samples(&f, wanted, 3);
    wav_simple(&f, 1, 1, 16000, 8, "\x81\x7f\xc0", 3);
    wav_set_u32(&f, 4, (uint32_t)f.n - 9); /* there, and not counted */
    check_samples(&f, wanted, 3);
}

LK_TEST(extensible) {
    wav_file f;
    wav_begin(&f);
    wav_put_extensible(&f, 24, 20, 1);
    wav_put_chunk(&f, "data", "\x00\x00\x40", 3);
    wav_end(&f);
    check_samples(&f, (const float[]){0.5f}, 1);
    f.bytes[12 + 8 + 18] = 25; /* valid bits */
    check_error(&f, LK_E_FORMAT, 38, "25 valid bits");
    f.bytes[12 + 8 + 18] = 20;
    f.bytes[12 + 8 + 30] ^= 1; /* the identifier's tail */
    check_error(&f, LK_E_UNSUPPORTED, 44, "registered");
    f.bytes[12 + 8 + 30] ^= 1;
    f.bytes[12 + 8 + 24] = 2;
    check_error(&f, LK_E_UNSUPPORTED, 44, "ADPCM");
    wav_begin(&f);
    wav_put_format(&f, 0xfffe, 1, 16000, 16);
    wav_end(&f);
    check_error(&f, LK_E_FORMAT, 16, "expected 40");
}

/* Every shorter form of a file is an error, and no byte beyond is read. */
LK_TEST(cut_off) {
    wav_file f;
    wav_simple(&f, 1, 1, 16000, 16, "\1\0\2\0", 4);
    const size_t n = f.n;
    for (f.n = 0; f.n < n; f.n++) {
        lk_audio *audio = NULL;
        lk_error err;
        CHECK_STATUS(LK_E_FORMAT, decode(&f, NULL, &audio, &err));
    }
    for (f.n = 12; f.n < n; f.n++) { /* the header's length put right */
        wav_end(&f);
        lk_audio *audio = NULL;
        lk_error err;
        CHECK_STATUS(LK_E_FORMAT, decode(&f, NULL, &audio, &err));
    }
}

LK_TEST(lying_lengths) {
    wav_file f;
    wav_simple(&f, 1, 1, 16000, 16, "\1\0\2\0", 4);
    wav_set_u32(&f, 4, 0xffffffffu);
    check_error(&f, LK_E_FORMAT, 4, "4294967303 bytes; the file has 48");
    wav_set_u32(&f, 4, 30);
    check_error(&f, LK_E_FORMAT, 4, "38 bytes; the file has 48");
    wav_end(&f);
    wav_set_u32(&f, 40, 0xffffffffu);
    check_error(&f, LK_E_FORMAT, 40, "\"data\" says 4294967295 bytes; the file has 4 more");
    wav_set_u32(&f, 40, 2);
    check_error(&f, LK_E_FORMAT, 46, "2 are left");
    wav_set_u32(&f, 40, 4);
    wav_set_u32(&f, 16, 0x7fffffffu);
    check_error(&f, LK_E_FORMAT, 16, "\"fmt \" says 2147483647");
    wav_set_u32(&f, 16, 14);
    check_error(&f, LK_E_FORMAT, 16, "expected 16 at least");
    wav_simple(&f, 1, 2, 16000, 16, "\1\0\2\0\3\0", 6);
    check_error(&f, LK_E_FORMAT, 40, "6 bytes of samples; expected a multiple of 4");
    wav_simple(&f, 1, 1, 16000, 16, "\1\0", 2);
    f.bytes[32] = 3; /* bytes a block */
    check_error(&f, LK_E_FORMAT, 32, "3 bytes for 1 channels of 16 bits");
}

LK_TEST(missing_and_double_parts) {
    wav_file f;
    wav_begin(&f);
    wav_end(&f);
    check_error(&f, LK_E_FORMAT, 12, "without a chunk \"fmt \"");
    wav_put_format(&f, 1, 1, 16000, 8);
    wav_end(&f);
    check_error(&f, LK_E_FORMAT, 36, "without a chunk \"data\"");
    wav_put_format(&f, 1, 1, 16000, 8);
    wav_end(&f);
    check_error(&f, LK_E_FORMAT, 36, "second chunk \"fmt \"");
    wav_simple(&f, 1, 1, 16000, 8, "\1\2", 2);
    wav_put_chunk(&f, "data", "\1\2", 2);
    wav_end(&f);
    check_error(&f, LK_E_FORMAT, 46, "second chunk \"data\"");
    wav_simple(&f, 1, 1, 16000, 8, "", 0);
    check_error(&f, LK_E_FORMAT, 40, "0 bytes of samples");
}

LK_TEST(other_containers_and_codings) {
    static const struct {
        const char *bytes;
        size_t n;
        const char *name;
    } others[] = {{"fLaC\0\0\0\x22", 8, "FLAC"},
                  {"OggS\0\2", 6, "Ogg"},
                  {"ID3\4\0", 5, "MP3"},
                  {"\xff\xfb\x90\x44", 4, "MP3"},
                  {"\x1a\x45\xdf\xa3\x9f", 5, "WebM"},
                  {"\0\0\0\x20"
                   "ftypM4A ",
                   12, "MP4"},
                  {"FORM\0\0\0\0AIFF", 12, "AIFF"},
                  {"RF64\0\0\0\0WAVE", 12, "RF64"}};
    wav_file f;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        f.n = 0;
        wav_put(&f, others[i].bytes, others[i].n);
        check_error(&f, LK_E_UNSUPPORTED, 0, others[i].name);
    }
    f.n = 0;
    check_error(&f, LK_E_FORMAT, 0, "no WAV file");
    wav_put(&f, "RIFF\4\0\0\0AVI ", 12);
    check_error(&f, LK_E_FORMAT, 0, "no WAV file");
    wav_simple(&f, 0x11, 1, 16000, 4, "\1\2", 2);
    check_error(&f, LK_E_UNSUPPORTED, 20, "IMA ADPCM) with 4 bits");
    wav_simple(&f, 1, 1, 16000, 12, "\1\2", 2);
    check_error(&f, LK_E_UNSUPPORTED, 20, "PCM) with 12 bits");
}

LK_TEST(figures_out_of_range) {
    wav_file f;
    wav_simple(&f, 1, 1, 1, 8, "\1\2", 2);
    check_error(&f, LK_E_UNSUPPORTED, 20, "1 Hz; 1000 to 384000 Hz");
    wav_simple(&f, 1, 1, 10000000, 8, "\1\2", 2);
    check_error(&f, LK_E_UNSUPPORTED, 20, "10000000 Hz; 1000 to 384000 Hz");
    wav_simple(&f, 1, 1, 0, 8, "\1\2", 2);
    check_error(&f, LK_E_UNSUPPORTED, 20, "0 Hz");
    wav_simple(&f, 1, 0, 16000, 8, "\1\2", 2);
    check_error(&f, LK_E_UNSUPPORTED, 20, "0 channels; 1 to 8");
    wav_simple(&f, 1, 9, 16000, 8, "123456789", 9);
    check_error(&f, LK_E_UNSUPPORTED, 20, "9 channels; 1 to 8");
}

LK_TEST(non_finite_samples) {
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    wav_file f;
    for (int i = 0; i < 3; i++) {
        const float samples[] = {0.0f, 1.0f, bad[i], 0.0f};
        wav_simple(&f, 3, 2, 16000, 32, samples, sizeof samples);
        check_error(&f, LK_E_NONFINITE, 52, "sample 1");
        lk_audio *audio = NULL;
        lk_error err;
        CHECK_STATUS(LK_E_NONFINITE,
                     lk_audio_create(samples, 4, 1, 16000, NULL, NULL, &audio, &err));
        CHECK(audio == NULL && err.pos == 2);
    }
    const double huge = 1e300;
    wav_simple(&f, 3, 1, 16000, 64, &huge, sizeof huge);
    check_error(&f, LK_E_NONFINITE, 44, "beyond binary32");
    float loud[64]; /* leaves the range in the filter alone */
    for (int i = 0; i < 64; i++) {
        loud[i] = i < 32 ? -3.4e38f : 3.4e38f;
    }
    lk_audio *audio = NULL;
    lk_error err;
    CHECK_STATUS(LK_E_NONFINITE, lk_audio_create(loud, 64, 1, 8000, NULL, NULL, &audio, &err));
    CHECK(audio == NULL && strstr(err.message, "after resampling") != NULL);
}

LK_TEST(limits) {
    lk_audio *audio = NULL;
    lk_error err;
    lk_audio_params params = LK_AUDIO_PARAMS_INIT;
    params.max_seconds = 1;
    wav_file f;
    const uint8_t second[1001] = {0};
    wav_simple(&f, 1, 1, 1000, 8, second, 1000);
    REQUIRE_OK(decode(&f, &params, &audio, &err), err);
    CHECK(lk_audio_n_samples(audio) == 16000 && lk_audio_n_frames(audio) == 100);
    lk_audio_destroy(audio);
    wav_simple(&f, 1, 1, 1000, 8, second, 1001);
    CHECK_STATUS(LK_E_LIMIT, decode(&f, &params, &audio, &err));
    CHECK(strstr(err.message, "1.00 s; the limit is 1 s") != NULL);
    params = LK_AUDIO_PARAMS_INIT;
    params.max_bytes = f.n - 1;
    CHECK_STATUS(LK_E_LIMIT, decode(&f, &params, &audio, &err));
    params.max_bytes = f.n;
    REQUIRE_OK(decode(&f, &params, &audio, &err), err);
    lk_audio_destroy(audio);
    /* 24 hours, of which no byte is looked at. */
    const float one = 0.0f;
    CHECK_STATUS(LK_E_LIMIT, lk_audio_create(&one, (uint64_t)86400 * 16000, 1, 16000, NULL, NULL,
                                             &audio, &err));
    CHECK(strstr(err.message, "86400.00 s; the limit is 300 s") != NULL);
    CHECK_STATUS(LK_E_LIMIT, lk_audio_create(&one, UINT64_MAX, 8, 16000, NULL, NULL, &audio, &err));
    CHECK_STATUS(LK_E_LIMIT, lk_audio_create(&one, (uint64_t)100 * 384000, 8, 384000, NULL, NULL,
                                             &audio, &err));
    CHECK(strstr(err.message, "1228800000 bytes; the limit is 268435456") != NULL);
}

LK_TEST(arguments) {
    const float one = 0.5f;
    lk_audio *audio = NULL;
    lk_error err;
    lk_audio_params params = LK_AUDIO_PARAMS_INIT;
    CHECK_STATUS(LK_E_ARG, lk_audio_create(&one, 0, 1, 16000, NULL, NULL, &audio, &err));
    CHECK_STATUS(LK_E_ARG, lk_audio_create(NULL, 1, 1, 16000, NULL, NULL, &audio, &err));
    CHECK_STATUS(LK_E_ARG, lk_audio_create(&one, 1, 1, 16000, NULL, NULL, NULL, &err));
    CHECK_STATUS(LK_E_ARG, lk_audio_decode_wav(NULL, 1, NULL, NULL, &audio, &err));
    params.struct_size--;
    CHECK_STATUS(LK_E_ARG, lk_audio_create(&one, 1, 1, 16000, &params, NULL, &audio, &err));
    params = LK_AUDIO_PARAMS_INIT;
    params.max_seconds = 301;
    CHECK_STATUS(LK_E_ARG, lk_audio_create(&one, 1, 1, 16000, &params, NULL, &audio, &err));
    /* One sample, at the lowest and the highest rate, is a clip of one sample or 16. */
    REQUIRE_OK(lk_audio_create(&one, 1, 1, 384000, NULL, NULL, &audio, &err), err);
    CHECK(lk_audio_n_samples(audio) == 1 && lk_audio_n_frames(audio) == 1);
    float features[128];
    CHECK_STATUS(LK_E_ARG, lk_audio_features(audio, 128, features, 127, &err));
    CHECK(strstr(err.message, "1 frames of 128 bins take 128") != NULL);
    CHECK_STATUS(LK_E_ARG, lk_audio_features(audio, 64, features, 64, &err));
    REQUIRE_OK(lk_audio_features(audio, 128, features, 128, &err), err);
    for (int i = 0; i < 128; i++) {
        CHECK(isfinite(features[i]));
    }
    lk_audio_destroy(audio);
    REQUIRE_OK(lk_audio_create(&one, 1, 1, 1000, NULL, NULL, &audio, &err), err);
    CHECK(lk_audio_n_samples(audio) == 16);
    lk_audio_destroy(audio);
    lk_audio_destroy(NULL);
}

/* Each allocation fails once. */
LK_TEST(short_of_memory) {
    wav_file f;
    wav_simple(&f, 1, 1, 8000, 8, "\x10\xf0\x20", 3);
    for (uint64_t n = 1;; n++) {
        lk_test_allocator a;
        lk_test_allocator_init(&a);
        a.fail_at = n;
        lk_audio *audio = NULL;
        lk_error err;
        float features[128];
        lk_status status = lk_audio_decode_wav(f.bytes, f.n, NULL, &a.base, &audio, &err);
        if (status == LK_OK) {
            status = lk_audio_features(audio, 128, features, 128, &err);
        }
        lk_audio_destroy(audio);
        CHECK(a.n_live == 0 && a.live_bytes == 0);
        if (a.n_failed == 0) {
            REQUIRE_OK(status, err);
            CHECK(n > 7);
            return;
        }
        CHECK(status == LK_E_NOMEM);
    }
}

LK_TEST_MAIN(LK_RUN(integers), LK_RUN(floats), LK_RUN(laws), LK_RUN(channels_are_averaged),
             LK_RUN(order_of_chunks), LK_RUN(extensible), LK_RUN(cut_off), LK_RUN(lying_lengths),
             LK_RUN(missing_and_double_parts), LK_RUN(other_containers_and_codings),
             LK_RUN(figures_out_of_range), LK_RUN(non_finite_samples), LK_RUN(limits),
             LK_RUN(arguments), LK_RUN(short_of_memory))
