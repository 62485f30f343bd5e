/* test_audio_file.c - recordings in formats that libsndfile decodes: what it wrote itself, the
 * shared references, every cut and many flipped bits. */
#include "recording/audio_file.h"

#include <math.h>
#include <sndfile.h>
#include <unistd.h>

#include "lk_test.h"
#include "recording/audio_stream.h"

/* A file that libsndfile writes into memory. */
typedef struct sound_file {
    uint8_t bytes[1 << 17];
    sf_count_t n;
    sf_count_t at;
} sound_file;

static sf_count_t file_length(void *ctx) {
    return ((const sound_file *)ctx)->n;
}

static sf_count_t file_seek(sf_count_t offset, int whence, void *ctx) {
    sound_file *f = ctx;
    f->at = offset + (whence == SEEK_CUR ? f->at : whence == SEEK_END ? f->n : 0);
    return f->at;
}

static sf_count_t file_read(void *to, sf_count_t n, void *ctx) {
    sound_file *f = ctx;
    n = n < f->n - f->at ? n : f->n - f->at;
    memcpy(to, f->bytes + f->at, (size_t)n);
    f->at += n;
    return n;
}

static sf_count_t file_write(const void *from, sf_count_t n, void *ctx) {
    sound_file *f = ctx;
    if (n > (sf_count_t)sizeof f->bytes - f->at) {
        exit(1);
    }
    memcpy(f->bytes + f->at, from, (size_t)n);
    f->at += n;
    f->n = f->at > f->n ? f->at : f->n;
    return n;
}

static sf_count_t file_tell(void *ctx) {
    return ((const sound_file *)ctx)->at;
}

static float tone_at(int i, int channel, int rate) {
    return (float)(0.4 / (1 + channel) * sin(6.283185307179586 * 500.0 * i / rate));
}

/* 0.6 s of a tone, the second channel half as loud. */
static void write_tone(sound_file *f, int format, int rate, int channels) {
    memset(f, 0, sizeof *f);
    SF_VIRTUAL_IO io = {file_length, file_seek, file_read, file_write, file_tell};
    SF_INFO info = {.samplerate = rate, .channels = channels, .format = format};
    SNDFILE *file = sf_open_virtual(&io, SFM_WRITE, &info, f);
    CHECK_MSG(file != NULL, "%s", sf_strerror(NULL));
    if (file == NULL) {
        exit(1);
    }
    for (int i = 0; i < rate * 6 / 10; i++) {
        const float frame[2] = {tone_at(i, 0, rate), tone_at(i, 1, rate)};
        CHECK(sf_writef_float(file, frame, 1) == 1);
    }
    (void)sf_close(file);
}

static lk_status decode(const void *bytes, size_t n, lk_audio **audio, lk_error *err) {
    uint8_t *copy = malloc(n + 1); /* of the exact size, for a sanitizer */
    memcpy(copy, bytes, n);
    *err = (lk_error){.status = LK_OK};
    const lk_status status = lk_audio_from_bytes(copy, n, NULL, audio, err);
    free(copy);
    CHECK((status == LK_OK) == (*audio != NULL));
    CHECK(status == LK_OK || (err->status == status && err->message[0] != '\0'));
    return status;
}

static const struct {
    const char *name;
    int format;
    int rate;
    int channels;
} kinds[] = {
    {"FLAC", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, 1},
    {"FLAC stereo", SF_FORMAT_FLAC | SF_FORMAT_PCM_24, 44100, 2},
    {"Vorbis", SF_FORMAT_OGG | SF_FORMAT_VORBIS, 44100, 2},
    {"Opus", SF_FORMAT_OGG | SF_FORMAT_OPUS, 48000, 1},
    {"MP3", SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, 16000, 1},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static sound_file tone;

LK_TEST(every_format_is_read) {
    for (size_t k = 0; k < N_KINDS; k++) {
        write_tone(&tone, kinds[k].format, kinds[k].rate, kinds[k].channels);
        lk_audio *audio = NULL;
        lk_error err;
        REQUIRE_OK(decode(tone.bytes, (size_t)tone.n, &audio, &err), err);
        const int64_t n = (int64_t)lk_audio_n_samples(audio);
        /* An encoder may pad with a frame or two. */
        CHECK_MSG(n >= 9600 && n <= 9600 + 2400, "%s: %d samples", kinds[k].name, (int)n);
        double power = 0.0;
        for (int64_t i = 1600; i < 8000; i++) {
            const double x = (double)lk_audio_samples(audio)[i];
            power += x * x / 6400;
        }
        const double wanted = kinds[k].channels == 2 ? 0.3 * 0.3 / 2 : 0.4 * 0.4 / 2;
        CHECK_MSG(fabs(power / wanted - 1.0) < 0.05, "%s: power %g, expected %g", kinds[k].name,
                  power, wanted);
        lk_audio_destroy(audio);
    }
}

/* FLAC loses nothing: the clip is the one of the samples themselves. */
LK_TEST(flac_is_exact) {
    static float samples[9600];
    for (int i = 0; i < 9600; i++) {
        samples[i] = (float)(lrintf(tone_at(i, 0, 16000) * 32767.0f)) / 32768.0f;
    }
    write_tone(&tone, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, 1);
    lk_audio *audio = NULL;
    lk_error err;
    REQUIRE_OK(decode(tone.bytes, (size_t)tone.n, &audio, &err), err);
    CHECK(lk_audio_n_samples(audio) == 9600);
    CHECK(memcmp(lk_audio_samples(audio), samples, sizeof samples) == 0);
    lk_audio_destroy(audio);
}

/* A file that is cut anywhere is an error, with an offset that is not behind the cut. */
LK_TEST(cut_off) {
    for (size_t k = 0; k < N_KINDS; k++) {
        write_tone(&tone, kinds[k].format, kinds[k].rate, kinds[k].channels);
        const size_t step = lk_test_size(997, 97, 1);
        for (size_t n = (size_t)tone.n - 1; n > step; n -= step) {
            lk_audio *audio = NULL;
            lk_error err;
            const lk_status status = decode(tone.bytes, n, &audio, &err);
            /* Whole frames of MP3 are a shorter MP3 file: nothing says how many there should be. */
            const bool is_whole =
                strcmp(kinds[k].name, "MP3") == 0 && lk_mp3_check(tone.bytes, n, &err) == LK_OK;
            CHECK_MSG(status != LK_OK || is_whole, "%s cut at %zu of %d is read", kinds[k].name, n,
                      (int)tone.n);
            CHECK_MSG(status == LK_OK || err.offset <= n, "%s cut at %zu: %s", kinds[k].name, n,
                      err.message);
            lk_audio_destroy(audio);
        }
    }
}

/* A flipped bit is an error, or the samples are whole and finite. In FLAC and Ogg, whose frames
 * have checksums, it is an error, or changes no sample. */
LK_TEST(damaged) {
    for (size_t k = 0; k < N_KINDS; k++) {
        write_tone(&tone, kinds[k].format, kinds[k].rate, kinds[k].channels);
        lk_audio *whole = NULL;
        lk_error err;
        REQUIRE_OK(decode(tone.bytes, (size_t)tone.n, &whole, &err), err);
        const size_t step = lk_test_size(1499, 149, 3);
        for (size_t at = 0; at < (size_t)tone.n; at += at < 64 ? 1 : step) { /* headers: all */
            tone.bytes[at] ^= (uint8_t)(1u << (at % 8));
            lk_audio *audio = NULL;
            if (decode(tone.bytes, (size_t)tone.n, &audio, &err) == LK_OK &&
                strcmp(kinds[k].name, "MP3") != 0) {
                uint8_t a[32];
                uint8_t b[32];
                lk_audio_digest(whole, a);
                lk_audio_digest(audio, b);
                CHECK_MSG(memcmp(a, b, sizeof a) == 0, "%s: damage at byte %zu is not seen",
                          kinds[k].name, at);
            }
            lk_audio_destroy(audio);
            tone.bytes[at] ^= (uint8_t)(1u << (at % 8));
        }
        lk_audio_destroy(whole);
    }
}

LK_TEST(limits) {
    for (size_t k = 0; k < N_KINDS; k++) {
        write_tone(&tone, kinds[k].format, kinds[k].rate, kinds[k].channels);
        lk_audio *audio = NULL;
        lk_error err;
        lk_audio_params params = LK_AUDIO_PARAMS_INIT;
        params.max_bytes = (uint64_t)tone.n - 1;
        CHECK_STATUS(LK_E_LIMIT,
                     lk_audio_from_bytes(tone.bytes, (size_t)tone.n, &params, &audio, &err));
        CHECK(audio == NULL);
    }
    lk_audio_params params = LK_AUDIO_PARAMS_INIT;
    params.max_seconds = 1;
    for (size_t k = 0; k < N_KINDS; k++) {
        memset(&tone, 0, sizeof tone);
        SF_VIRTUAL_IO io = {file_length, file_seek, file_read, file_write, file_tell};
        SF_INFO info = {.samplerate = kinds[k].rate, .channels = 1, .format = kinds[k].format};
        SNDFILE *file = sf_open_virtual(&io, SFM_WRITE, &info, &tone);
        static const float silence[96000];
        CHECK(sf_writef_float(file, silence, kinds[k].rate * 2) == kinds[k].rate * 2);
        (void)sf_close(file);
        lk_audio *audio = NULL;
        lk_error err;
        CHECK_STATUS(LK_E_LIMIT,
                     lk_audio_from_bytes(tone.bytes, (size_t)tone.n, &params, &audio, &err));
        CHECK_MSG(strstr(err.message, "the limit is 1 s") != NULL, "%s", err.message);
    }
}

/* Against SoX's 16 kHz version of the same file, roughly: lossy decoders differ in the last bits,
 * resamplers above 7 kHz; a decoder of MP3 may keep the silence of a frame at the end. */
static void compare(const char *name, const char *file) {
    char path[256];
    (void)snprintf(path, sizeof path, "refs/audio/%s", file);
    const char *shared = lk_test_shared(path);
    if (shared == NULL) {
        return;
    }
    lk_audio *audio = NULL;
    lk_error err;
    REQUIRE_OK(lk_audio_from_file(shared, NULL, &audio, &err), err);
    (void)snprintf(path, sizeof path, "refs/audio/%s.resampled16k.s16", name);
    size_t size = 0;
    uint8_t *bytes = lk_test_read(lk_test_shared(path), &size);
    const size_t n = size / 2;
    const size_t n_own = (size_t)lk_audio_n_samples(audio);
    CHECK_MSG(n_own + 1 >= n && n_own <= n + 400, "%s: %zu samples, expected %zu", file, n_own, n);
    double power = 0.0;
    double noise = 0.0;
    for (size_t i = 0; i < n && i < n_own; i++) {
        int16_t wanted;
        memcpy(&wanted, bytes + 2 * i, 2);
        const double d = (double)lk_audio_samples(audio)[i] - wanted / 32768.0;
        power += wanted / 32768.0 * (wanted / 32768.0);
        noise += d * d;
    }
    const double decibels = 10.0 * log10(power / noise);
    (void)printf("%s: %.1f dB\n", file, decibels);
    CHECK_MSG(decibels > 25.0, "%s: %.1f dB", file, decibels);
    free(bytes);
    lk_audio_destroy(audio);
}

LK_TEST(references) {
    compare("tts05_44100_stereo_s16", "tts05_44100_stereo_s16.flac");
    compare("tts07_44100_mono", "tts07_44100_mono.ogg");
    compare("tts08_24k_mono_64kbps", "tts08_24k_mono_64kbps.mp3");
    const char *webm = lk_test_shared("refs/audio/tts11_48k_mono_opus.webm");
    lk_audio *audio = NULL;
    lk_error err;
    if (webm != NULL) {
        CHECK_STATUS(LK_E_UNSUPPORTED, lk_audio_from_file(webm, NULL, &audio, &err));
        CHECK_MSG(strstr(err.message, "WebM") != NULL, "%s", err.message);
    }
}

LK_TEST(files) {
    lk_audio *audio = NULL;
    lk_error err;
    CHECK_STATUS(LK_E_IO, lk_audio_from_file("no/such/file.wav", NULL, &audio, &err));
    CHECK(strstr(err.message, "no/such/file.wav: ") != NULL);
    CHECK_STATUS(LK_E_IO, lk_audio_from_file("/", NULL, &audio, &err));
    const char *path = lk_test_data("audio/synth_short_odd_16k.wav");
    lk_audio_params params = LK_AUDIO_PARAMS_INIT;
    params.max_bytes = 2511;
    CHECK_STATUS(LK_E_LIMIT, lk_audio_from_file(path, &params, &audio, &err));
    params.max_bytes = 2512;
    REQUIRE_OK(lk_audio_from_file(path, &params, &audio, &err), err);
    CHECK(lk_audio_n_samples(audio) == 1234);
    lk_audio_destroy(audio);
    CHECK(strncmp(lk_audio_formats(), "WAV", 3) == 0);
}

LK_TEST_MAIN(LK_RUN(every_format_is_read), LK_RUN(flac_is_exact), LK_RUN(cut_off), LK_RUN(damaged),
             LK_RUN(limits), LK_RUN(references), LK_RUN(files))
