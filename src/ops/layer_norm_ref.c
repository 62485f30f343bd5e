/* layer_norm_ref.c - layer norm of one vector (section 7): the definition. */
#include <math.h>

#include "ops/ops.h"
#include "ops/twin.h"

/* S16 over x[k]. */
static float sum(const float *x, size_t n) {
    float p[LK_SUM_LANES] = {0.0f};
    for (size_t k = 0; k < n; k++) {
        p[k % LK_SUM_LANES] += x[k];
    }
    return lk_sum16_tree(p);
}

void lk_layer_norm_ref(const float *x, const float *w, const float *b, float eps, size_t n,
                       float *y, uint32_t *flag) {
    const float mean = sum(x, n) / (float)n;
    for (size_t k = 0; k < n; k++) {
        y[k] = x[k] - mean;
    }
    const float s = lk_sum16_dot(y, y, n);
    if (!lk_is_finite_f32(s)) {
        *flag = 1;
    }
    const float c = 1.0f / sqrtf(s / (float)n + eps);
    for (size_t k = 0; k < n; k++) {
        y[k] = (y[k] * c) * w[k] + b[k];
    }
}
