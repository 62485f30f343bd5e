/* rms_norm_ref.c - RMS norm of one vector (section 7): the definition. */
#include <math.h>

#include "ops/ops.h"
#include "ops/twin.h"

void lk_rms_norm_ref(const float *x, const float *w, float eps, size_t n, float *y,
                     uint32_t *flag) {
    const float s = lk_sum16_dot(x, x, n);
    if (!lk_is_finite_f32(s)) {
        *flag = 1;
    }
    const float c = 1.0f / sqrtf(s / (float)n + eps);
    for (size_t k = 0; k < n; k++) {
        y[k] = (x[k] * c) * w[k];
    }
}
