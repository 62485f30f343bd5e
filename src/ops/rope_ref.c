/* rope_ref.c - rotation of one head (section 8): the definition. The cosines and sines come from
 * ops/rope.h. */
#include "ops/ops.h"

void lk_rope_ref(float *x, size_t n_rot, lk_rope_order order, const float *cos_sin) {
    const size_t half = n_rot / 2;
    for (size_t i = 0; i < half; i++) {
        float *const p0 = order == LK_ROPE_NORMAL ? x + 2 * i : x + i;
        float *const p1 = order == LK_ROPE_NORMAL ? x + 2 * i + 1 : x + i + half;
        const float c = cos_sin[2 * i];
        const float s = cos_sin[2 * i + 1];
        const float x0 = *p0;
        const float x1 = *p1;
        *p0 = x0 * c - x1 * s;
        *p1 = x0 * s + x1 * c;
    }
}
