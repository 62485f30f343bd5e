/* rope.h - tables of the rotary embedding (section 8 of docs/numerics.md), made on the host:
 * inverse frequencies once per model, cosines and sines for the positions of a step.
 *
 * Everything is binary64 until the last rounding of each cosine and sine to binary32; the functions
 * are those of ops/math.h. The rotation itself is the operator `rope` in ops.h. */
#ifndef LK_OPS_ROPE_H
#define LK_OPS_ROPE_H

#include <stddef.h>
#include <stdint.h>

#include "lk/base.h"

/* Positions up to this keep every angle inside the range of lk_sincos where no frequency is
 * above 1. Scaling by less than 1 gives higher ones; an angle beyond the range has cosine and sine
 * NaN, so that the row is flagged. */
#define LK_ROPE_MAX_POSITION ((int64_t)1 << 28)

typedef enum lk_rope_scaling {
    LK_ROPE_SCALING_NONE,
    LK_ROPE_SCALING_LINEAR, /* inv / factor */
    LK_ROPE_SCALING_YARN    /* inv * (mix + (1 - mix) / factor) and a magnitude */
} lk_rope_scaling;

typedef struct lk_rope_params {
    double base; /* of the geometric series, theta: 10000, 1e6, ... */
    lk_rope_scaling scaling;
    double factor; /* of linear and YaRN scaling */
    /* YaRN: length of the context before scaling, rotations over it where the ramp begins and ends
     * (32 and 1 are usual). */
    double original_context;
    double beta_fast;
    double beta_slow;
    double attn_factor; /* a factor of the magnitude (1 is usual), also without YaRN */
    /* `rope_freqs.weight`: n_rot / 2 divisors of the frequencies, or NULL. Borrowed. */
    const float *factors;
} lk_rope_params;

/* base 10000, no scaling, the usual values of the rest. */
#define LK_ROPE_PARAMS_DEFAULT                                                                     \
    ((lk_rope_params){10000.0, LK_ROPE_SCALING_NONE, 1.0, 0.0, 32.0, 1.0, 1.0, NULL})

/* The inverse frequencies inv [n_rot / 2] and the magnitude (attn_factor without YaRN) of `params`.
 * n_rot is even, 2 .. 256. LK_E_FORMAT names the parameter that is out of range; inv and magnitude
 * are 0 then. */
lk_status lk_rope_frequencies(const lk_rope_params *params, size_t n_rot, double *inv,
                              double *magnitude, lk_error *err);

/* n_pairs pairs (cos, sin) for one position, 0 <= position <= LK_ROPE_MAX_POSITION. */
void lk_rope_cos_sin(int64_t position, const double *inv, size_t n_pairs, double magnitude,
                     float *cos_sin);

#endif
