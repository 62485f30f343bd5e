/* wav.h - the layout of a WAV file and its samples. */
#ifndef LK_AUDIO_WAV_H
#define LK_AUDIO_WAV_H

#include "base/alloc.h"

/* How a sample is stored. */
typedef enum lk_wav_coding { LK_WAV_PCM, LK_WAV_FLOAT, LK_WAV_ALAW, LK_WAV_MULAW } lk_wav_coding;

typedef struct lk_wav {
    const uint8_t *bytes; /* the file, borrowed */
    size_t n_bytes;
    lk_wav_coding coding;
    uint32_t n_channels;
    uint32_t rate;
    uint32_t n_sample_bytes;
    uint64_t fmt_offset;  /* of the format's fields */
    uint64_t data_offset; /* of the first sample */
    uint64_t n_samples;   /* of each channel */
} lk_wav;

/* Finds the parts of a file and checks them against each other; limits of lk/audio.h are the
 * caller's to check. */
lk_status lk_wav_read(const void *bytes, size_t n_bytes, lk_wav *wav, lk_error *err);

/* mono [n_samples]: the mean of the channels. LK_E_NONFINITE with the offset of the sample. */
lk_status lk_wav_samples(const lk_wav *wav, float *mono, lk_error *err);

#endif
