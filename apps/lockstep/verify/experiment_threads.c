/* experiment_threads.c - other numbers of threads, alone and beside another sequence. */
#include "verify.h"

void verify_experiment_threads(verify *v) {
    static const int64_t quick[] = {1, 2, 3};
    static const int64_t full[] = {1, 2, 3, 4, 5, 8};
    const int64_t *counts = verify_is_full(v) ? full : quick;
    const size_t n = verify_is_full(v) ? sizeof full / sizeof full[0] : 3;
    for (size_t i = 0; i < n; i++) {
        verify_point p = v->base;
        char label[VERIFY_LABEL];
        p.value[VERIFY_THREADS] = counts[i];
        if (counts[i] != v->base.value[VERIFY_THREADS]) {
            (void)snprintf(label, sizeof label, "%lld threads", (long long)counts[i]);
            verify_case(v, &p, VERIFY_BIT(VERIFY_THREADS), 0, label);
        }
    }
}
