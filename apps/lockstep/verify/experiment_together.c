/* experiment_together.c - prompts of several sequences in one call, then decoding side by side:
 * other prompts, and the same one in all slots, greedy and with seeds. */
#include "verify.h"

static const verify_factors subject =
    VERIFY_BIT(VERIFY_NEIGHBOURS) | VERIFY_BIT(VERIFY_EQUAL) | VERIFY_BIT(VERIFY_CANCEL);

static void run(verify *v, int64_t neighbours, verify_factor with, int64_t value,
                const char *what) {
    verify_point p = v->base;
    char label[VERIFY_LABEL];
    p.value[VERIFY_NEIGHBOURS] = neighbours;
    p.value[with] = value;
    (void)snprintf(label, sizeof label, "%lld sequences, %s", (long long)neighbours + 1, what);
    verify_case(v, &p, subject, 0, label);
}

void verify_experiment_together(verify *v) {
    run(v, 1, VERIFY_EQUAL, 0, "other prompts");
    run(v, 3, VERIFY_EQUAL, 0, "other prompts");
    run(v, 7, VERIFY_EQUAL, 1, "equal prompts");
    run(v, 3, VERIFY_CANCEL, 1, "others cut off midway");
    if ((v->target->can & VERIFY_CAN_SAMPLE) != 0) {
        run(v, 2, VERIFY_SAMPLED, 1, "a seed each");
    }
    if (verify_is_full(v)) {
        run(v, 2, VERIFY_EQUAL, 0, "other prompts");
        run(v, 7, VERIFY_EQUAL, 0, "other prompts");
        run(v, 13, VERIFY_EQUAL, 0, "other prompts");
        run(v, 13, VERIFY_EQUAL, 1, "equal prompts");
    }
}
