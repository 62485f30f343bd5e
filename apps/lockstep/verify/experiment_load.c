/* experiment_load.c - the same request while every processor is busy with something else, alone and
 * beside other sequences. */
#include "verify.h"
#include "verify_load.h"

static void run(verify *v, int64_t kinds, int64_t neighbours, const char *label) {
    verify_point p = v->base;
    const int32_t n = verify_is_full(v) ? 20 : 3;
    p.value[VERIFY_LOAD] = kinds;
    p.value[VERIFY_NEIGHBOURS] = neighbours;
    p.value[VERIFY_JOIN] = neighbours > 0 ? 4 : 0;
    if (!verify_is_full(v) && !v->options->n_given) {
        p.value[VERIFY_N] = 16;
    }
    verify_case(v, &p,
                VERIFY_BIT(VERIFY_LOAD) | VERIFY_BIT(VERIFY_NEIGHBOURS) | VERIFY_BIT(VERIFY_JOIN),
                v->options->n_repetitions > 0 ? 0 : n, label);
}

void verify_experiment_load(verify *v) {
    const int64_t all =
        VERIFY_LOAD_INTEGER | VERIFY_LOAD_VECTOR | VERIFY_LOAD_MEMORY | VERIFY_LOAD_FILES;
    run(v, 0, 1, "idle, a neighbour joins");
    if (verify_is_full(v)) {
        run(v, VERIFY_LOAD_INTEGER, 0, "integer arithmetic");
        run(v, VERIFY_LOAD_VECTOR, 0, "vector arithmetic");
        run(v, VERIFY_LOAD_MEMORY, 0, "memory bandwidth");
        run(v, VERIFY_LOAD_FILES, 0, "page cache");
    }
    run(v, all, 0, "all stressors at once");
    run(v, all, 2, "the same, neighbours join");
}
