/* act_round_ref.c - activations rounded beside 16-bit weights (section 3): the definition. */
#include "ops/ops.h"
#include "ops/twin.h"

void lk_act_round_ref(const float *x, size_t n, lk_round_mode mode, float *y, uint32_t *flag) {
    const float limit = 0x1p+62f; /* of r16b: beyond it a product could overflow unnoticed */
    for (size_t k = 0; k < n; k++) {
        const float v = x[k];
        float r;
        switch (mode) {
        case LK_ROUND_13:
            r = lk_round13(v);
            break;
        case LK_ROUND_16:
            r = lk_round16(v);
            break;
        default:
            r = lk_round16b(v);
            if (v >= limit || v <= -limit) {
                *flag = 1;
            }
            break;
        }
        if (!lk_is_finite_f32(v) || !lk_is_finite_f32(r)) {
            *flag = 1;
        }
        y[k] = r;
    }
}
