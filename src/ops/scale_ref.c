/* scale_ref.c - a row times a factor (section 7): the definition. */
#include "ops/ops.h"

void lk_scale_ref(const float *x, float factor, size_t n, float *y) {
    for (size_t k = 0; k < n; k++) {
        y[k] = x[k] * factor;
    }
}
