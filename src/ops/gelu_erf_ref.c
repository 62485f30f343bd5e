/* gelu_erf_ref.c - GELU by the error function (section 7): the definition. */
#include "ops/math.h"
#include "ops/ops.h"

void lk_gelu_erf_ref(const float *x, size_t n, float *y) {
    for (size_t k = 0; k < n; k++) {
        y[k] = lk_gelu_erff(x[k]);
    }
}
