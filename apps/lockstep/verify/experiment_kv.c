/* experiment_kv.c - each type of keys and values has results of its own; under each of them a join
 * must change nothing. */
#include "shared/open_model.h"
#include "verify.h"

void verify_experiment_kv(verify *v) {
    for (int64_t k = LK_KV_F32; k <= LK_KV_Q8_0; k++) {
        for (int64_t values = LK_KV_F32; values <= LK_KV_Q8_0; values++) {
            verify_point p = v->base;
            char label[VERIFY_LABEL];
            if (k != values && !verify_is_full(v)) {
                continue;
            }
            p.value[VERIFY_K_TYPE] = k;
            p.value[VERIFY_V_TYPE] = values;
            p.value[VERIFY_NEIGHBOURS] = 1;
            p.value[VERIFY_JOIN] = 5;
            (void)snprintf(label, sizeof label, "keys %s, values %s, a join",
                           lk_kv_type_name((lk_kv_type)k), lk_kv_type_name((lk_kv_type)values));
            verify_case(v, &p, VERIFY_BIT(VERIFY_NEIGHBOURS) | VERIFY_BIT(VERIFY_JOIN), 0, label);
        }
    }
}
