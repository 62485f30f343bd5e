/* audio_stream.h - what stands between audio_file.c and the decoders: failures, the decoder for
 * what is no WAV, and the walks over the frames of the formats whose decoders skip what is damaged
 * without a word. */
#ifndef LK_AUDIO_STREAM_H
#define LK_AUDIO_STREAM_H

#include <stdbool.h>

#include "lk/audio.h"

/* Fills *err (when not NULL) and returns the status. */
lk_status lk_audio_fail(lk_error *err, lk_status status, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* LK_OK when the pages of an Ogg file, or the frames of an MP3 file, follow one another from the
 * first byte to the last, whole; LK_E_FORMAT with the byte where they do not. */
lk_status lk_ogg_check(const uint8_t *bytes, size_t n_bytes, lk_error *err);
lk_status lk_mp3_check(const uint8_t *bytes, size_t n_bytes, lk_error *err);

/* LK_OK when the blocks before the first frame of a FLAC file follow one another, and that frame
 * has the rate that they say: no checksum covers them. *n_samples of each channel, 0: not said; it
 * stands in the low 36 bits of the bytes from LK_FLAC_TOTAL_AT on. */
enum { LK_FLAC_TOTAL_AT = 21, LK_FLAC_TOTAL_END = 26 };
lk_status lk_flac_check(const uint8_t *bytes, size_t n_bytes, uint64_t *n_samples, lk_error *err);

typedef enum lk_audio_kind {
    LK_AUDIO_OTHER,
    LK_AUDIO_FLAC,
    LK_AUDIO_OGG,
    LK_AUDIO_MP3
} lk_audio_kind;

/* A clip from a file of that kind, which has been walked (FLAC is, here); audio_sndfile.c or, in a
 * build without libsndfile, audio_wav_only.c. */
lk_status lk_audio_decode_kind(lk_audio_kind kind, const void *bytes, size_t n_bytes,
                               const lk_audio_params *params, lk_audio **out, lk_error *err);

#endif
