/* act_quantize_ref.c - the activation quantiser (section 4): the definition, one group at a time.
 */
#include "ops/ops.h"
#include "ops/twin.h"

void lk_act_quantize_ref(const float *x, size_t n, uint32_t group, int8_t *q, float *d,
                         int16_t *sums, uint32_t *flag) {
    for (size_t k = 0; k < n; k += group) {
        if (!lk_quantize_group(x + k, group, q + k, d + k / group)) {
            *flag = 1;
        }
    }
    for (size_t k = 0; k < n; k += LK_SUBGROUP) {
        int sum = 0;
        for (size_t j = 0; j < LK_SUBGROUP; j++) {
            sum += q[k + j];
        }
        sums[k / LK_SUBGROUP] = (int16_t)sum;
    }
}
