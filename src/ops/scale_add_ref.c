/* scale_add_ref.c - adds the weighted output of one expert (section 11): the definition. */
#include "ops/ops.h"

void lk_scale_add_ref(const float *x, float weight, size_t n, float *y) {
    for (size_t k = 0; k < n; k++) {
        y[k] = y[k] + weight * x[k];
    }
}
