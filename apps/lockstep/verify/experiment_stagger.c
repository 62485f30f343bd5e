/* experiment_stagger.c - sequence 0 decodes alone; sequence 1 joins with its prompt in the call of
 * the K-th decode row, then both go on. Both must be what they are alone. */
#include "verify.h"

void verify_experiment_stagger(verify *v) {
    static const int64_t quick[] = {1, 5, 24};
    /* Round numbers, and both sides of the border of a chunk and page of 64 positions. */
    static const int64_t full[] = {1, 2, 5, 40, 63, 64, 65};
    const int64_t *joins = v->options->joins;
    size_t n = v->options->n_joins;
    if (n == 0) {
        joins = verify_is_full(v) ? full : quick;
        n = verify_is_full(v) ? sizeof full / sizeof full[0] : sizeof quick / sizeof quick[0];
    }
    for (size_t i = 0; i < n; i++) {
        verify_point p = v->base;
        char label[VERIFY_LABEL];
        p.value[VERIFY_NEIGHBOURS] = 1;
        p.value[VERIFY_JOIN] = joins[i];
        if (p.value[VERIFY_N] < joins[i] + 8 && !v->options->n_given) {
            p.value[VERIFY_N] = joins[i] + 8;
        }
        if (joins[i] >= p.value[VERIFY_N]) {
            continue; /* sequence 0 is at its end by then */
        }
        (void)snprintf(label, sizeof label, "joins with decode row %lld", (long long)joins[i]);
        verify_case(v, &p, VERIFY_BIT(VERIFY_NEIGHBOURS) | VERIFY_BIT(VERIFY_JOIN), 0, label);
    }
}
