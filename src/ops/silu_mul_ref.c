/* silu_mul_ref.c - SiLU of the gate times the other branch (section 7): the definition. */
#include "ops/math.h"
#include "ops/ops.h"

void lk_silu_mul_ref(const float *gate, const float *up, size_t n, float *y) {
    for (size_t k = 0; k < n; k++) {
        const float g = gate[k];
        y[k] = (g / (1.0f + lk_expf(-g))) * up[k];
    }
}
