/* audio_clips.c - bodies of lk/audio.h: arguments and limits are checked here, the work is in
 * src/audio. */
#include <inttypes.h>
#include <math.h>

#include "audio/clip.h"
#include "audio/log_mel.h"
#include "audio/wav.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/fpenv.h"
#include "base/params.h"
#include "base/sha256.h"

LK_NO_TAIL_PADDING(lk_audio_params, reserved);

static lk_status check_params(const lk_audio_params *given, lk_audio_params *params,
                              lk_error *err) {
    *params = LK_AUDIO_PARAMS_INIT;
    if (given == NULL) {
        return LK_OK;
    }
    const lk_status status =
        lk_check_struct_size("lk_audio_params", given->struct_size, sizeof *given, err);
    if (status != LK_OK) {
        return status;
    }
    *params = *given;
    const lk_range ranges[] = {
        {"max_seconds", given->max_seconds, 1, LK_AUDIO_MAX_SECONDS},
        {"reserved", given->reserved, 0, 0},
    };
    return lk_check_ranges(ranges, sizeof ranges / sizeof ranges[0], err);
}

static lk_status check_bytes(uint64_t n_bytes, const lk_audio_params *params, lk_error *err) {
    if (n_bytes > params->max_bytes) {
        return lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT("max_bytes"),
                       "the recording has %" PRIu64 " bytes; the limit is %" PRIu64, n_bytes,
                       params->max_bytes);
    }
    return LK_OK;
}

static lk_status decode_wav(const void *bytes, size_t n_bytes, const lk_audio_params *params,
                            const lk_allocator *a, lk_audio **out, lk_error *err) {
    lk_wav wav;
    lk_status status = lk_wav_read(bytes, n_bytes, &wav, err);
    if (status == LK_OK) {
        status =
            lk_clip_check(wav.n_samples, wav.n_channels, wav.rate, params, wav.fmt_offset, err);
    }
    if (status != LK_OK) {
        return status;
    }
    float *mono = lk_alloc_array(a, (size_t)wav.n_samples, sizeof *mono);
    if (mono == NULL) {
        return lk_fail_nomem(err, "the clip", (size_t)wav.n_samples * sizeof *mono);
    }
    status = lk_wav_samples(&wav, mono, err);
    if (status != LK_OK) {
        lk_free_array(a, mono, (size_t)wav.n_samples, sizeof *mono);
        return status;
    }
    return lk_clip_create(mono, wav.n_samples, wav.rate, a, out, err);
}

lk_status lk_audio_decode_wav(const void *bytes, size_t n_bytes, const lk_audio_params *params,
                              const lk_allocator *allocator, lk_audio **out, lk_error *err) {
    if (out != NULL) {
        *out = NULL;
    }
    if (out == NULL || (bytes == NULL && n_bytes != 0)) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("lk_audio_decode_wav"),
                       "lk_audio_decode_wav: bytes or out is NULL");
    }
    lk_audio_params checked;
    lk_status status = check_params(params, &checked, err);
    if (status == LK_OK) {
        status = check_bytes(n_bytes, &checked, err);
    }
    if (status == LK_OK) {
        const lk_fpenv env = lk_fpenv_enter();
        status = decode_wav(bytes, n_bytes, &checked, lk_allocator_or_default(allocator), out, err);
        lk_fpenv_leave(env);
    }
    return status;
}

/* mono [n_samples]: the mean of the channels. */
static lk_status mix_down(const float *samples, uint64_t n_samples, uint32_t n_channels,
                          float *mono, lk_error *err) {
    for (uint64_t i = 0; i < n_samples; i++) {
        double sum = 0.0;
        for (uint32_t c = 0; c < n_channels; c++) {
            sum = sum + (double)samples[i * n_channels + c];
        }
        mono[i] = (float)(sum / (double)n_channels);
        if (!isfinite(mono[i])) {
            return lk_fail(err, LK_E_NONFINITE, LK_AT_ROW(-1, (int64_t)i),
                           "sample %" PRIu64 " is infinite or NaN", i);
        }
    }
    return LK_OK;
}

static lk_status create(const float *samples, uint64_t n_samples, uint32_t n_channels,
                        uint32_t rate, const lk_allocator *a, lk_audio **out, lk_error *err) {
    float *mono = lk_alloc_array(a, (size_t)n_samples, sizeof *mono);
    if (mono == NULL) {
        return lk_fail_nomem(err, "the clip", (size_t)n_samples * sizeof *mono);
    }
    const lk_status status = mix_down(samples, n_samples, n_channels, mono, err);
    if (status != LK_OK) {
        lk_free_array(a, mono, (size_t)n_samples, sizeof *mono);
        return status;
    }
    return lk_clip_create(mono, n_samples, rate, a, out, err);
}

lk_status lk_audio_create(const float *samples, uint64_t n_samples, uint32_t n_channels,
                          uint32_t rate, const lk_audio_params *params,
                          const lk_allocator *allocator, lk_audio **out, lk_error *err) {
    if (out != NULL) {
        *out = NULL;
    }
    if (out == NULL || samples == NULL || n_samples == 0) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("lk_audio_create"),
                       "lk_audio_create: samples or out is NULL, or there is no sample");
    }
    lk_audio_params checked;
    lk_status status = check_params(params, &checked, err);
    if (status == LK_OK) {
        status = lk_clip_check(n_samples, n_channels, rate, &checked, UINT64_MAX, err);
    }
    if (status == LK_OK) {
        status = check_bytes(n_samples * n_channels * sizeof *samples, &checked, err);
    }
    if (status == LK_OK) {
        const lk_fpenv env = lk_fpenv_enter();
        status = create(samples, n_samples, n_channels, rate, lk_allocator_or_default(allocator),
                        out, err);
        lk_fpenv_leave(env);
    }
    return status;
}

void lk_audio_destroy(lk_audio *audio) {
    lk_clip_free(audio);
}

uint64_t lk_audio_n_samples(const lk_audio *audio) {
    return audio->n_samples;
}

const float *lk_audio_samples(const lk_audio *audio) {
    return audio->samples;
}

void lk_audio_digest(const lk_audio *audio, uint8_t digest[32]) {
    lk_sha256 s;
    lk_sha256_init(&s);
    for (uint64_t i = 0; i < audio->n_samples; i++) {
        uint8_t bytes[4];
        lk_store_u32(bytes, lk_f32_bits(audio->samples[i]));
        lk_sha256_update(&s, bytes, sizeof bytes);
    }
    lk_sha256_final(&s, digest);
}

uint64_t lk_audio_n_frames(const lk_audio *audio) {
    return (audio->n_samples + LK_AUDIO_HOP - 1) / LK_AUDIO_HOP;
}

lk_status lk_audio_features(const lk_audio *audio, uint32_t n_mels, float *features,
                            size_t n_floats, lk_error *err) {
    if (audio == NULL || features == NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("lk_audio_features"),
                       "lk_audio_features: audio or features is NULL");
    }
    if (n_mels != 80 && n_mels != 128) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("n_mels"),
                       "n_mels is %" PRIu32 "; expected 80 or 128", n_mels);
    }
    const uint64_t wanted = lk_audio_n_frames(audio) * n_mels;
    if (n_floats != wanted) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("n_floats"),
                       "n_floats is %zu; %" PRIu64 " frames of %" PRIu32 " bins take %" PRIu64,
                       n_floats, lk_audio_n_frames(audio), n_mels, wanted);
    }
    const lk_fpenv env = lk_fpenv_enter();
    const lk_status status =
        lk_log_mel(audio->samples, audio->n_samples, n_mels, features, &audio->allocator, err);
    lk_fpenv_leave(env);
    return status;
}
