/* target_self_overlap.c - two threads in one context: the first one follows a schedule, the second
 * one calls decode on a sequence of its own in the same context whenever the first is inside.
 *
 * Its row is at a wrong position, so that it changes nothing where it gets in, which is no fault
 * between two calls of the first one. It counts as
 * having entered only when the first thread spent processor time inside its call both before and
 * after it, which no scheduling can feign. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "target_self.h"

enum { MAX_ENTRIES = 64 };
static const double inside_seconds = 0.0002; /* more than the way into the library takes */

/* The second thread was inside as if nothing was wrong. Processor seconds of the first one. */
typedef struct entry {
    int32_t call;
    double from;
    double to;
} entry;

typedef struct intruder {
    const verify_engine_ops *ops;
    void *engine;
    void *context;
    pthread_t second;
    bool is_started;
    clockid_t first_clock;
    int32_t slot;
    int32_t token;
    atomic_int inside; /* the number of the first thread's call; 0: it is outside */
    atomic_bool stop;
    int32_t n_calls;      /* the first thread's own */
    pthread_mutex_t lock; /* of what follows; held while the second thread is inside, and by the
                             first one for all calls but decode */
    entry entries[MAX_ENTRIES];
    int32_t n_entries;
    bool got_in; /* since the first one's last call */
    verify_overlap *out;
} intruder;

static double seconds_of(clockid_t clock) {
    struct timespec t = {0, 0};
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The second thread: one try whenever the first one is inside. */
static void *intrude(void *arg) {
    intruder *x = arg;
    const struct timespec pause = {0, 100000};
    while (!atomic_load(&x->stop)) {
        (void)pthread_mutex_lock(&x->lock);
        const int32_t call = atomic_load(&x->inside);
        if (call != 0) {
            verify_step_report report = {0};
            const verify_step_row row = {.token = x->token, .slot = x->slot, .pos = 3};
            const double from = seconds_of(x->first_clock);
            const verify_step_status status =
                x->ops->decode(x->engine, x->context, &row, 1, &report);
            const double to = seconds_of(x->first_clock);
            x->out->n_tried++;
            x->out->n_refused += status == VERIFY_STEP_BUSY;
            x->got_in = x->got_in || status != VERIFY_STEP_BUSY;
            if (status != VERIFY_STEP_BUSY && atomic_load(&x->inside) == call &&
                x->n_entries < MAX_ENTRIES) {
                x->entries[x->n_entries++] = (entry){call, from, to};
            }
        }
        (void)pthread_mutex_unlock(&x->lock);
        (void)nanosleep(&pause, NULL);
    }
    return NULL;
}

/* The second thread came in between this call and the reading of its logits, which are gone then:
 * the call is made again, with the second thread outside. */
static verify_step_status decode_again(intruder *x, void *context, const verify_step_row *rows,
                                       size_t n_rows, verify_step_report *report) {
    uint32_t seen = 0;
    for (size_t i = 0; i < n_rows; i++) {
        if ((seen >> rows[i].slot & 1u) == 0 &&
            !x->ops->truncate(x->engine, context, rows[i].slot, rows[i].pos, report->why)) {
            return VERIFY_STEP_FAILED;
        }
        seen |= 1u << rows[i].slot;
    }
    return x->ops->decode(x->engine, context, rows, n_rows, report);
}

/* The first thread's calls, through the real engine. */
static verify_step_status decode_first(void *engine, void *context, const verify_step_row *rows,
                                       size_t n_rows, verify_step_report *report) {
    intruder *x = engine;
    verify_step_status status = VERIFY_STEP_BUSY;
    const int32_t i_call = ++x->n_calls;
    const double start = seconds_of(x->first_clock);
    atomic_store(&x->inside, i_call);
    while (status == VERIFY_STEP_BUSY) { /* the second one was first: it is out again soon */
        status = x->ops->decode(x->engine, context, rows, n_rows, report);
    }
    const double stop = seconds_of(x->first_clock);
    atomic_store(&x->inside, 0);
    (void)pthread_mutex_lock(&x->lock); /* the second one is outside, too */
    for (int32_t i = 0; i < x->n_entries; i++) {
        x->out->n_entered += x->entries[i].call == i_call &&
                             x->entries[i].from > start + inside_seconds &&
                             x->entries[i].to < stop - inside_seconds;
    }
    x->n_entries = 0;
    if (x->got_in && status == VERIFY_STEP_DONE) {
        status = decode_again(x, context, rows, n_rows, report);
    }
    x->got_in = false;
    (void)pthread_mutex_unlock(&x->lock);
    return status;
}

static verify_status begin_first(void *engine, const verify_point *p, int32_t n_slots,
                                 int64_t n_positions, int32_t max_rows, void **context,
                                 char why[VERIFY_WHY]) {
    intruder *x = engine;
    const verify_status status =
        x->ops->begin(x->engine, p, n_slots + 1, n_positions + 128, max_rows, context, why);
    if (status == VERIFY_RAN) {
        x->context = *context;
        x->slot = n_slots;
        x->is_started = pthread_create(&x->second, NULL, intrude, x) == 0;
        if (!x->is_started) {
            (void)snprintf(why, VERIFY_WHY, "a second thread could not be started");
            return VERIFY_BROKEN;
        }
    }
    return status;
}

static void end_first(void *engine, void *context) {
    intruder *x = engine;
    atomic_store(&x->stop, true);
    if (x->is_started) {
        (void)pthread_join(x->second, NULL);
    }
    x->ops->end(x->engine, context);
}

static const float *logits_first(void *engine, void *context, size_t i_row, char why[VERIFY_WHY]) {
    intruder *x = engine;
    (void)pthread_mutex_lock(&x->lock);
    const float *logits = x->ops->logits(x->engine, context, i_row, why);
    (void)pthread_mutex_unlock(&x->lock);
    return logits;
}

static bool clear_first(void *engine, void *context, int32_t slot, char why[VERIFY_WHY]) {
    intruder *x = engine;
    (void)pthread_mutex_lock(&x->lock);
    const bool ok = x->ops->clear(x->engine, context, slot, why);
    (void)pthread_mutex_unlock(&x->lock);
    return ok;
}

static bool is_same(const verify_result *a, const verify_result *b) {
    bool same = a->failure[0] == '\0' && b->failure[0] == '\0';
    for (int32_t i = 0; i < a->n_streams && same; i++) {
        const verify_output *x = &a->outputs[i];
        const verify_output *y = &b->outputs[i];
        same = x->n_tokens == y->n_tokens &&
               memcmp(x->ids, y->ids, (size_t)x->n_tokens * sizeof x->ids[0]) == 0;
        for (size_t k = 0; k < x->n_rows && same; k++) {
            same = memcmp(x->rows[k].digest, y->rows[k].digest, sizeof x->rows[k].digest) == 0;
        }
    }
    return same;
}

verify_status verify_self_overlap(verify_target *target, const verify_schedule *s,
                                  const verify_point *p, verify_overlap *out,
                                  char why[VERIFY_WHY]) {
    static const verify_engine_ops around = {.begin = begin_first,
                                             .end = end_first,
                                             .decode = decode_first,
                                             .logits = logits_first,
                                             .clear = clear_first};
    verify_self *self = (verify_self *)target;
    intruder x = {
        .ops = self->engine, .engine = self, .token = s->streams[0].prompt[0], .out = out};
    verify_result alone;
    verify_result disturbed;
    memset(out, 0, sizeof *out);
    memset(&disturbed, 0, sizeof disturbed);
    if (!verify_result_init(&alone, s, true) || !verify_result_init(&disturbed, s, true) ||
        pthread_getcpuclockid(pthread_self(), &x.first_clock) != 0 ||
        pthread_mutex_init(&x.lock, NULL) != 0) {
        verify_result_deinit(&alone);
        verify_result_deinit(&disturbed);
        (void)snprintf(why, VERIFY_WHY, "no memory or clock for two threads");
        return VERIFY_BROKEN;
    }
    verify_status status = verify_steps_run(self->engine, self, target, s, p, &alone, why);
    if (status == VERIFY_RAN) {
        status = verify_steps_run(&around, &x, target, s, p, &disturbed, why);
        out->is_harmed = !is_same(&alone, &disturbed);
    }
    (void)pthread_mutex_destroy(&x.lock);
    verify_result_deinit(&alone);
    verify_result_deinit(&disturbed);
    return status;
}
