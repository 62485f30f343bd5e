/* clip.h - what lk_audio is inside. */
#ifndef LK_AUDIO_CLIP_H
#define LK_AUDIO_CLIP_H

#include "base/alloc.h"
#include "lk/audio.h"

struct lk_audio {
    lk_allocator allocator; /* copied: the caller's struct may go away */
    float *samples;         /* [n_samples] at LK_AUDIO_RATE, all finite */
    uint64_t n_samples;
};

/* Takes over `mono` [n] at `rate` (allocated with `a`), also on failure. */
lk_status lk_clip_create(float *mono, uint64_t n, uint32_t rate, const lk_allocator *a,
                         lk_audio **out, lk_error *err);
void lk_clip_free(lk_audio *audio);

/* LK_OK when the source's figures are within the limits of lk/audio.h and `params`. */
lk_status lk_clip_check(uint64_t n_samples, uint32_t n_channels, uint32_t rate,
                        const lk_audio_params *params, uint64_t offset, lk_error *err);

#endif
