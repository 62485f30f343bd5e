/* log_mel.h - the features of a clip, as Whisper's extractor computes them: frames of 400 samples
 * every 160, periodic Hann window, power spectrum, Slaney's mel filters, log10, the range below the
 * clip's maximum cut at 8 (docs/numerics.md, section 15). Scalar and in binary64 up to the last
 * rounding; no libm function takes part. */
#ifndef LK_AUDIO_LOG_MEL_H
#define LK_AUDIO_LOG_MEL_H

#include "base/alloc.h"

enum {
    LK_MEL_FFT = 400,
    LK_MEL_BINS = LK_MEL_FFT / 2 + 1,
    LK_MEL_HOP = 160,
    LK_MEL_MAX = 128,
    LK_MEL_PADDED = 4800000 /* samples: the extractor pads to 300 s before it cuts frames */
};

/* features [n_frames, n_mels] of samples [n], n <= LK_MEL_PADDED, n_frames = ceil(n / LK_MEL_HOP),
 * n_mels <= LK_MEL_MAX. */
lk_status lk_log_mel(const float *samples, uint64_t n, uint32_t n_mels, float *features,
                     const lk_allocator *a, lk_error *err);

/* The filters alone, [n_mels, LK_MEL_BINS], for tests. */
void lk_mel_filters(uint32_t n_mels, double *weights);

/* log10 of a normal x > 0: at most 4 ulp. */
double lk_log10(double x);

#endif
