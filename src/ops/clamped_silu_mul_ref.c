/* clamped_silu_mul_ref.c - SiLU of the clamped gate, with a factor inside, times the clamped other
 * branch plus 1 (section 7): the definition. */
#include "ops/math.h"
#include "ops/ops.h"

void lk_clamped_silu_mul_ref(const float *gate, const float *up, size_t n, float *y) {
    const float limit = LK_CLAMPED_SILU_LIMIT;
    for (size_t k = 0; k < n; k++) {
        const float g = limit < gate[k] ? limit : gate[k];
        float u = limit < up[k] ? limit : up[k];
        u = u < -limit ? -limit : u;
        y[k] = (g / (1.0f + lk_expf(-(g * LK_CLAMPED_SILU_FACTOR)))) * (u + 1.0f);
    }
}
