/* experiment_stagger.c - sequence 0 decodes alone; sequence 1 joins with its prompt in the call of
 * the K-th decode row, then both go on. Both must be what they are alone. */
#include <string.h>

#include "verify.h"

void verify_experiment_stagger(verify *v) {
    static const int64_t quick[] = {1, 5, 24};
    static const int64_t full[] = {1, 2, 5, 40};
    int64_t at_border[sizeof full / sizeof full[0] + 3];
    const int64_t *joins = v->options->joins;
    size_t n = v->options->n_joins;
    if (n == 0 && verify_is_full(v)) {
        /* And where sequence 0 is on both sides of the border of a chunk and page of 64. */
        verify_stream first;
        verify_prompt(v, v->base.value[VERIFY_PROMPT], &first);
        memcpy(at_border, full, sizeof full);
        n = sizeof full / sizeof full[0];
        for (int64_t pos = 63; pos <= 65 && first.n_prompt > 0 && first.n_prompt < 60; pos++) {
            at_border[n++] = pos - (int64_t)first.n_prompt + 1;
        }
        joins = at_border;
    } else if (n == 0) {
        joins = quick;
        n = sizeof quick / sizeof quick[0];
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
