/* verify_shrink.c - see verify_shrink.h. Any list of operations is a valid schedule, so the
 * shrinker takes away what it likes and keeps what still differs. */
#include "verify_shrink.h"

#include <stdlib.h>
#include <string.h>

static bool still_differs(verify *v, const verify_schedule *s, const verify_point *p,
                          verify_factors subject) {
    verify_line *line = calloc(1, sizeof *line);
    if (line == NULL) {
        return false;
    }
    verify_run_line(v, line, s, p, subject, 1);
    const bool differs = line->n_differ > 0;
    verify_line_free(line);
    return differs;
}

typedef struct shrinker {
    verify *v;
    verify_schedule *s;
    verify_schedule trial;
    const verify_point *p;
    verify_factors subject;
    int32_t n_tries;
    bool failed; /* no memory */
} shrinker;

enum { MAX_TRIES = 400 };

/* Keeps the trial when it still differs. */
static bool keep(shrinker *h) {
    if (h->n_tries++ >= MAX_TRIES || !still_differs(h->v, &h->trial, h->p, h->subject)) {
        return false;
    }
    h->failed = h->failed || !verify_schedule_copy(h->s, &h->trial);
    return true;
}

static bool start_trial(shrinker *h) {
    h->failed = h->failed || !verify_schedule_copy(&h->trial, h->s);
    return !h->failed && h->n_tries < MAX_TRIES;
}

static bool remove_ops(shrinker *h) {
    bool changed = false;
    for (size_t size = h->s->n_ops / 2; size >= 1; size /= 2) {
        for (size_t from = 0; from + size <= h->s->n_ops && start_trial(h);) {
            verify_schedule *t = &h->trial;
            memmove(&t->ops[from], &t->ops[from + size],
                    (t->n_ops - from - size) * sizeof t->ops[0]);
            t->n_ops -= size;
            if (keep(h)) {
                changed = true;
            } else {
                from += size;
            }
        }
    }
    return changed;
}

static bool remove_rows(shrinker *h) {
    bool changed = false;
    for (size_t i = 0; i < h->s->n_ops; i++) {
        if (h->s->ops[i].times > 1 && start_trial(h)) {
            h->trial.ops[i].times = 1;
            changed = keep(h) || changed;
        }
        for (int32_t k = 0; k < h->s->ops[i].n_feeds; k++) {
            if (h->s->ops[i].n_feeds > 1 && start_trial(h)) {
                verify_op *op = &h->trial.ops[i];
                memmove(&op->feeds[k], &op->feeds[k + 1],
                        (size_t)(op->n_feeds - k - 1) * sizeof op->feeds[0]);
                op->n_feeds--;
                if (keep(h)) {
                    changed = true;
                    continue;
                }
            }
            const int32_t n = h->s->ops[i].feeds[k].n_rows;
            if (n > 1 && start_trial(h)) {
                h->trial.ops[i].feeds[k].n_rows = n / 2;
                changed = keep(h) || changed;
            }
        }
    }
    return changed;
}

void verify_shrink(verify *v, verify_schedule *s, const verify_point *p, verify_factors subject) {
    shrinker h = {.v = v, .s = s, .p = p, .subject = subject};
    verify_schedule_init(&h.trial);
    for (bool changed = true; changed && !h.failed && h.n_tries < MAX_TRIES;) {
        verify_progress(v, "shrinking a schedule");
        changed = remove_ops(&h);
        changed = remove_rows(&h) || changed;
    }
    v->is_broken = v->is_broken || h.failed;
    verify_schedule_deinit(&h.trial);
}
