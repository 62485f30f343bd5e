/* resample.h - samples at any rate to LK_AUDIO_RATE by a windowed sinc, in binary64 up to the last
 * rounding, with the same bits everywhere (docs/numerics.md, section 15). What lies above the
 * lower of the two Nyquist frequencies is damped by 90 dB, what lies below 0.91 of it kept. */
#ifndef LK_AUDIO_RESAMPLE_H
#define LK_AUDIO_RESAMPLE_H

#include "base/alloc.h"

/* Samples at LK_AUDIO_RATE that n samples at `rate` become: one for each instant before the end. */
uint64_t lk_resampled_length(uint64_t n, uint32_t rate);

/* out [lk_resampled_length(n, rate)] of in [n]; n * LK_AUDIO_RATE < 2^62. */
lk_status lk_resample(const float *in, uint64_t n, uint32_t rate, float *out, const lk_allocator *a,
                      lk_error *err);

#endif
