/* experiment_overlap.c - a second thread calls into a context while a first one is inside: it must
 * be refused, and the first one must not notice. */
#include <string.h>

#include "verify.h"

/* Calls on a small model are short: it may take some runs until one thread meets the other. */
static verify_status try_until_they_meet(verify *v, verify_line *line, const verify_schedule *s,
                                         const verify_point *p, verify_overlap *sum,
                                         char why[VERIFY_WHY]) {
    const double end = lk_console_seconds() + 3.0;
    verify_status status = VERIFY_RAN;
    memset(sum, 0, sizeof *sum);
    while (status == VERIFY_RAN && sum->n_refused == 0 && sum->n_entered == 0 && !sum->is_harmed &&
           lk_console_seconds() < end) {
        verify_overlap found;
        status = v->target->ops->overlap(v->target, s, p, &found, why);
        if (status == VERIFY_RAN) {
            line->n_runs++;
            sum->n_tried += found.n_tried;
            sum->n_refused += found.n_refused;
            sum->n_entered += found.n_entered;
            sum->is_harmed = sum->is_harmed || found.is_harmed;
        }
    }
    return status;
}

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
    p.value[VERIFY_CLIP] = 0;
    verify_progress(v, line->label);
    char why[VERIFY_WHY] = "out of memory";
    verify_status status = VERIFY_BROKEN;
    if (verify_shape(v, &p, &s)) {
        status = try_until_they_meet(v, line, &s, &p, &found, why);
    }
    verify_schedule_deinit(&s);
    if (status != VERIFY_RAN) {
        verify_line_give_up(v, line, status, why);
        verify_line_done(v, line);
        return;
    }
    if (found.is_harmed || found.n_entered > 0) {
        line->n_differ = 1;
        line->verdict = VERDICT_DIFFERENT;
    } else if (found.n_refused == 0) {
        line->verdict = VERDICT_UNABLE; /* its calls are too short: the two never met */
    }
    (void)snprintf(line->detail, sizeof line->detail,
                   "%lld calls tried, %lld refused, %lld let in beside the first thread%s",
                   (long long)found.n_tried, (long long)found.n_refused, (long long)found.n_entered,
                   found.is_harmed ? "; its results were changed" : "; its results are unharmed");
    verify_line_done(v, line);
}
