/* experiment_case.c - one case by hand: the factors of --set, held against the plain solo run at
 * the same KV types and whatever else defines the result. It repeats a line of a report. */
#include "verify.h"

void verify_experiment_case(verify *v) {
    verify_point base;
    char label[VERIFY_LABEL];
    verify_point_init(&base);
    verify_point_print(&v->base, &base, label, sizeof label);
    const verify_factors all = ((verify_factors)1 << VERIFY_N_FACTORS) - 1;
    verify_case(v, &v->base, all & ~v->target->defining & ~v->options->keep, 0, label);
}
