/* verify_conclusion.c - counts the verdicts; a difference weighs more than a failure, and that more
 * than noise. */
#include "verify_conclusion.h"

verify_conclusion verify_conclude(const verify *v) {
    verify_conclusion c = {.verdict = VERDICT_UNABLE};
    int32_t *counts = c.counts;
    for (size_t i = 0; i < v->n_lines; i++) {
        counts[v->lines[i]->verdict]++;
        c.n_runs += v->lines[i]->n_runs;
    }
    const int32_t n_bad = counts[VERDICT_DIFFERENT] + counts[VERDICT_ERROR];
    if (n_bad > 0) {
        c.verdict = counts[VERDICT_DIFFERENT] > 0 ? VERDICT_DIFFERENT : VERDICT_ERROR;
        (void)snprintf(c.text, sizeof c.text, "%d of %zu cases differ or failed", n_bad,
                       v->n_lines);
    } else if (counts[VERDICT_NOISE] > 0) {
        c.verdict = VERDICT_NOISE;
        (void)snprintf(c.text, sizeof c.text, "%d of %zu cases differ as float noise does",
                       counts[VERDICT_NOISE], v->n_lines);
    } else if (counts[VERDICT_EQUAL] > 0) {
        c.verdict = VERDICT_EQUAL;
        (void)snprintf(c.text, sizeof c.text, "All %d cases that were possible are equal",
                       counts[VERDICT_EQUAL]);
    } else {
        (void)snprintf(c.text, sizeof c.text, "Nothing could be judged");
    }
    return c;
}
