/* lk/audio.h - recordings: from WAV bytes or samples to a clip, from a clip to log-mel features.
 *
 *     lk_audio_params params = LK_AUDIO_PARAMS_INIT;
 *     lk_audio_decode_wav(bytes, n_bytes, &params, NULL, &audio, &err);
 *     n_floats = lk_audio_n_frames(audio) * 128;
 *     lk_audio_features(audio, 128, features, n_floats, &err);
 *     lk_audio_destroy(audio);
 *
 * A clip is one channel of 16,000 binary32 samples a second, whatever it was made of: channels are
 * averaged, other rates are resampled. Samples and features follow from the bytes given and
 * nothing else; every machine computes the same bits (docs/numerics.md, section 15).
 *
 * Thread rule: a clip is immutable; any number of threads may use one.
 */
#ifndef LK_AUDIO_H
#define LK_AUDIO_H

#include "lk/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LK_AUDIO_RATE 16000 /* samples a second of a clip */
#define LK_AUDIO_HOP 160    /* samples from one frame of features to the next: 100 a second */
/* What a source may have. */
#define LK_AUDIO_MIN_RATE 1000
#define LK_AUDIO_MAX_RATE 384000
#define LK_AUDIO_MAX_CHANNELS 8
/* The longest clip that has features. */
#define LK_AUDIO_MAX_SECONDS 300

typedef struct lk_audio lk_audio;

typedef struct lk_audio_params {
    size_t struct_size;
    /* Limits; what is beyond is LK_E_LIMIT with both numbers, before memory is taken. */
    uint64_t max_bytes;   /* of a WAV file, or of the samples given */
    uint32_t max_seconds; /* of the recording; 1 .. LK_AUDIO_MAX_SECONDS */
    uint32_t reserved;    /* 0 */
} lk_audio_params;
#define LK_AUDIO_PARAMS_INIT                                                                       \
    ((lk_audio_params){.struct_size = sizeof(lk_audio_params),                                     \
                       .max_bytes = (uint64_t)256 << 20,                                           \
                       .max_seconds = LK_AUDIO_MAX_SECONDS})

/* A clip from the bytes of a WAV file: PCM of 8, 16, 24 or 32 bits, float of 32 or 64 bits, mu-law
 * or A-law, plain or WAVE_FORMAT_EXTENSIBLE. Chunks may come in any order, unknown ones are
 * skipped. LK_E_FORMAT: damaged, cut off, a length that the bytes do not bear out, or no sample at
 * all; err->offset is the byte. LK_E_UNSUPPORTED: another coding, rate, number of channels, or
 * another container, by name. LK_E_NONFINITE: an infinite or NaN sample, at err->offset.
 * LK_E_LIMIT, LK_E_NOMEM. The bytes are not needed afterwards. params NULL: LK_AUDIO_PARAMS_INIT.
 * On success *out is owned by the caller (lk_audio_destroy). */
LK_API lk_status lk_audio_decode_wav(const void *bytes, size_t n_bytes,
                                     const lk_audio_params *params, const lk_allocator *allocator,
                                     lk_audio **out, lk_error *err);

/* A clip from samples [n_samples, n_channels], full scale is -1 .. 1 (values beyond are kept), at
 * `rate` samples a second of each channel. For recordings that something else has decoded. Errors
 * as above; err->pos is the index of a sample that is not finite. LK_E_ARG for 0 samples. */
LK_API lk_status lk_audio_create(const float *samples, uint64_t n_samples, uint32_t n_channels,
                                 uint32_t rate, const lk_audio_params *params,
                                 const lk_allocator *allocator, lk_audio **out, lk_error *err);
LK_API void lk_audio_destroy(lk_audio *audio); /* accepts NULL */

/* The samples at LK_AUDIO_RATE, valid as long as the clip; there is one at least. */
LK_API uint64_t lk_audio_n_samples(const lk_audio *audio);
LK_API const float *lk_audio_samples(const lk_audio *audio);
/* SHA-256 over the samples as little-endian binary32: two clips with one digest have the same
 * features. */
LK_API void lk_audio_digest(const lk_audio *audio, uint8_t digest[32]);

/* Frames of features: the samples divided by LK_AUDIO_HOP, rounded up. */
LK_API uint64_t lk_audio_n_frames(const lk_audio *audio);
/* Log-mel features [n_frames, n_mels] into the caller's memory, frame by frame: what Whisper's
 * feature extractor gives (128 bins: Qwen2.5-Omni and Whisper large-v3; 80 bins: older Whisper),
 * there [n_mels, n_frames]. LK_E_ARG when n_mels is neither, or n_floats is not n_frames * n_mels.
 * Scratch memory (about 30 KiB) comes from the clip's allocator: LK_E_NOMEM. */
LK_API lk_status lk_audio_features(const lk_audio *audio, uint32_t n_mels, float *features,
                                   size_t n_floats, lk_error *err);

#ifdef __cplusplus
}
#endif
#endif
