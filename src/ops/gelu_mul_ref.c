/* gelu_mul_ref.c - GELU of the gate, in its tanh form, times the other branch (section 7): the
 * definition. */
#include "ops/math.h"
#include "ops/ops.h"

void lk_gelu_mul_ref(const float *gate, const float *up, size_t n, float *y) {
    for (size_t k = 0; k < n; k++) {
        const float g = gate[k];
        float w = g * g;
        w = w * LK_GELU_CUBIC + LK_GELU_LINEAR;
        y[k] = (g / (1.0f + lk_expf(-(g * w)))) * up[k];
    }
}
