/* check_finite_ref.c - the test for infinities and NaN (section 13): the definition. */
#include "ops/ops.h"
#include "ops/twin.h"

uint32_t lk_check_finite_ref(const float *x, size_t n) {
    uint32_t found = 0;
    for (size_t k = 0; k < n; k++) {
        found |= lk_is_finite_f32(x[k]) ? 0u : 1u;
    }
    return found;
}
