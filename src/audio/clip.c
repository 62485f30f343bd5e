/* clip.c - the making of a clip: limits, resampling, the check that every sample is finite. */
#include "audio/clip.h"

#include <inttypes.h>
#include <math.h>

#include "audio/resample.h"
#include "base/error.h"

lk_status lk_clip_check(uint64_t n_samples, uint32_t n_channels, uint32_t rate,
                        const lk_audio_params *params, uint64_t offset, lk_error *err) {
    if (n_channels < 1 || n_channels > LK_AUDIO_MAX_CHANNELS) {
        return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_OFFSET(offset, "channels"),
                       "%" PRIu32 " channels; 1 to %d are read", n_channels, LK_AUDIO_MAX_CHANNELS);
    }
    if (rate < LK_AUDIO_MIN_RATE || rate > LK_AUDIO_MAX_RATE) {
        return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_OFFSET(offset, "rate"),
                       "a rate of %" PRIu32 " Hz; %d to %d Hz are read", rate, LK_AUDIO_MIN_RATE,
                       LK_AUDIO_MAX_RATE);
    }
    if (n_samples > (uint64_t)params->max_seconds * rate) {
        const double seconds = (double)n_samples / (double)rate;
        return lk_fail(err, LK_E_LIMIT, LK_AT_OFFSET(offset, "max_seconds"),
                       "the recording lasts %.2f s; the limit is %" PRIu32 " s", seconds,
                       params->max_seconds);
    }
    return LK_OK;
}

/* A very loud input can leave the range of binary32 on the way through the filter. */
static lk_status check_resampled(const float *samples, uint64_t n, lk_error *err) {
    for (uint64_t i = 0; i < n; i++) {
        if (!isfinite(samples[i])) {
            return lk_fail(err, LK_E_NONFINITE, LK_AT_ROW(-1, (int64_t)i),
                           "sample %" PRIu64 " is not finite after resampling to %d Hz", i,
                           LK_AUDIO_RATE);
        }
    }
    return LK_OK;
}

/* *mono [*n] at `rate` becomes what it is at LK_AUDIO_RATE; on failure it is as it was. */
static lk_status resample(float **mono, uint64_t *n, uint32_t rate, const lk_allocator *a,
                          lk_error *err) {
    const uint64_t n_out = lk_resampled_length(*n, rate);
    float *out = lk_alloc_array(a, (size_t)n_out, sizeof *out);
    if (out == NULL) {
        return lk_fail_nomem(err, "the clip", (size_t)n_out * sizeof *out);
    }
    lk_status status = lk_resample(*mono, *n, rate, out, a, err);
    if (status == LK_OK) {
        status = check_resampled(out, n_out, err);
    }
    if (status != LK_OK) {
        lk_free_array(a, out, (size_t)n_out, sizeof *out);
        return status;
    }
    lk_free_array(a, *mono, (size_t)*n, sizeof **mono);
    *mono = out;
    *n = n_out;
    return LK_OK;
}

lk_status lk_clip_create(float *mono, uint64_t n, uint32_t rate, const lk_allocator *a,
                         lk_audio **out, lk_error *err) {
    lk_status status = LK_OK;
    lk_audio *audio = lk_alloc_zero(a, sizeof *audio);
    if (audio == NULL) {
        status = lk_fail_nomem(err, "the clip", sizeof *audio);
        goto fail;
    }
    if (rate != LK_AUDIO_RATE) {
        status = resample(&mono, &n, rate, a, err);
        if (status != LK_OK) {
            goto fail;
        }
    }
    audio->allocator = *a;
    audio->samples = mono;
    audio->n_samples = n;
    *out = audio;
    return LK_OK;
fail:
    lk_free(a, audio, sizeof *audio);
    lk_free_array(a, mono, (size_t)n, sizeof *mono);
    return status;
}

void lk_clip_free(lk_audio *audio) {
    if (audio != NULL) {
        const lk_allocator a = audio->allocator;
        lk_free_array(&a, audio->samples, (size_t)audio->n_samples, sizeof *audio->samples);
        lk_free(&a, audio, sizeof *audio);
    }
}
