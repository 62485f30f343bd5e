/* softcap_ref.c - bends values smoothly to stay within +-cap (section 7): the definition. */
#include "ops/math.h"
#include "ops/ops.h"

void lk_softcap_ref(const float *x, float cap, size_t n, float *y) {
    for (size_t k = 0; k < n; k++) {
        y[k] = lk_tanhf(x[k] / cap) * cap;
    }
}
