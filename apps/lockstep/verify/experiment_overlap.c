/* experiment_overlap.c - a second thread calls into a context while a first one is inside: it must
 * be refused, and the first one must not notice. */
#include "verify.h"

void verify_experiment_overlap(verify *v) {
    verify_schedule s;
    verify_overlap found;
    verify_line *line = verify_line_add(v, "two threads in one context");
    if (line == NULL) {
        return;
    }
    verify_point p = v->base;
    p.value[VERIFY_NEIGHBOURS] = 1;
    p.value[VERIFY_JOIN] = 4;
    p.value[VERIFY_PROMPT] = 3;
    verify_progress(v, line->label);
    char why[VERIFY_WHY] = "out of memory";
    verify_status status = VERIFY_BROKEN;
    if (verify_shape(v, &p, &s)) {
        status = v->target->ops->overlap(v->target, &s, &p, &found, why);
    }
    verify_schedule_deinit(&s);
    if (status != VERIFY_RAN) {
        verify_line_give_up(v, line, status, why);
        verify_line_done(v, line);
        return;
    }
    line->n_runs = 1;
    if (found.is_harmed || found.n_entered > 0 || found.n_refused == 0) {
        line->n_differ = 1;
        line->verdict = VERDICT_DIFFERENT;
    }
    (void)snprintf(line->detail, sizeof line->detail,
                   "%lld calls tried, %lld refused, %lld let in beside the first thread%s",
                   (long long)found.n_tried, (long long)found.n_refused, (long long)found.n_entered,
                   found.is_harmed ? "; its results were changed" : "; its results are unharmed");
    verify_line_done(v, line);
}
