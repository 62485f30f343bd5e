/* experiment_cut.c - the same prompt cut into calls, and its calls cut into micro-batches. */
#include "verify.h"

static void run(verify *v, verify_factor factor, int64_t value, const char *format) {
    verify_point p = v->base;
    char label[VERIFY_LABEL];
    p.value[VERIFY_PROMPT] = 3; /* a long one */
    p.value[factor] = value;
    (void)snprintf(label, sizeof label, "%s %lld", format, (long long)value);
    verify_case(v, &p, VERIFY_BIT(factor), 0, label);
}

void verify_experiment_cut(verify *v) {
    static const int64_t sizes[] = {1, 7, 32, 64};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        run(v, VERIFY_CUT, sizes[i], "prompt in calls of");
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (i == 1 || i == 3 || verify_is_full(v)) {
            run(v, VERIFY_ROWS, sizes[i], "micro-batches of");
        }
    }
}
