/* search.h - the scale, and the minimum, that lose least when a group of weights is rounded to
 * small integers: what the encoders are made of.
 *
 * Lost is sum of w[k] * (value[k] - x[k])^2. Each search tries a row of scales near the one that
 * just spans the group, solves for the best scale under the integers that each gives (least
 * squares), and then alternates between rounding and solving while that helps. Results depend on
 * the arguments alone, never on a thread or instruction set.
 *
 * Ranges: x as lk_search_prepare leaves them, w >= 0 up to 2^60 and not all 0; n is a multiple of
 * 8, at most 32. Nothing overflows then. */
#ifndef LK_QUANT_SEARCH_H
#define LK_QUANT_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

enum { LK_SEARCH_MAX_ELEMS = 32 };

/* Nearest integer, ties to even, for |x| <= 2^22. */
static inline int32_t lk_search_nearest(float x) {
    const float shifted = x + 12582912.0f; /* 1.5 * 2^23: its last bit is worth 1 */
    return (int32_t)(shifted - 12582912.0f);
}

typedef enum lk_search_extent {
    LK_SEARCH_ZERO, /* every x is 0 */
    LK_SEARCH_FIT,
    LK_SEARCH_TOO_LARGE /* beyond every format, or not finite */
} lk_search_extent;

/* Copies n values, 0 for those below 2^-40 (the smallest step of every format is 2^-24), and says
 * whether a search may run: all below 2^30 in magnitude. n is any number. */
lk_search_extent lk_search_prepare(const float *in, uint32_t n, float *x);

/* Value = scale * q with q in lo .. hi (lo < 0 < hi). Returns the scale, which may be negative; 0
 * when all x are 0. */
float lk_search_scale(const float *x, const float *w, uint32_t n, int32_t lo, int32_t hi);

/* Value = scale * q + offset with q in 0 .. hi; offset <= 0 where `offset_below` says so. Returns
 * the scale >= 0. */
float lk_search_scale_offset(const float *x, const float *w, uint32_t n, int32_t hi,
                             bool offset_below, float *offset);

/* Rounds to the nearest of scale * q + offset, q in lo .. hi, and returns what is lost. A scale of
 * 0 gives q = 0 clamped to the range. */
float lk_search_round(const float *x, const float *w, uint32_t n, float scale, float offset,
                      int32_t lo, int32_t hi, int8_t *q);

#endif
