/* act_round_ref.c - activations rounded beside 16-bit weights (section 3): the definition. */
#include "ops/ops.h"
#include "ops/twin.h"

void lk_act_round_ref(const float *x, size_t n, lk_round_mode mode, float *y, uint32_t *flag) {
    /* From here on a product could overflow unnoticed. */
    const float limit = mode == LK_ROUND_13   ? LK_ROUND13_LIMIT
                        : mode == LK_ROUND_16 ? LK_ROUND16_LIMIT
                                              : LK_ROUND16B_LIMIT;
    for (size_t k = 0; k < n; k++) {
        const float v = x[k];
        if (!(v < limit && v > -limit)) {
            *flag = 1;
        }
        switch (mode) {
        case LK_ROUND_13:
            y[k] = lk_round13(v);
            break;
        case LK_ROUND_16:
            y[k] = lk_round16(v);
            break;
        case LK_ROUND_16B:
            y[k] = lk_round16b(v);
            break;
        }
    }
}
