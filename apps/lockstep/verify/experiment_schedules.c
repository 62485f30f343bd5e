/* experiment_schedules.c - random schedules: whatever the other experiments did not think of. The
 * first one that differs is shrunk to its shortest form, which --replay runs again. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "verify_shrink.h"

static const verify_factors subject_of_none = 0;

/* The TARGET factors that are drawn are back at their base in the solo runs. */
static verify_factors subject_of(const verify *v) {
    return v->target->is_exact ? VERIFY_BIT(VERIFY_THREADS) | VERIFY_BIT(VERIFY_ROWS) |
                                     VERIFY_BIT(VERIFY_PAGES) | VERIFY_BIT(VERIFY_ISA)
                               : subject_of_none;
}

static void add_command(const verify *v, verify_line *line, uint64_t seed, uint64_t i) {
    char set[VERIFY_COMMAND / 4];
    verify_point base;
    verify_point_init(&base);
    verify_point_print(&line->point, &base, set, sizeof set);
    verify_command_start(v, line->command, sizeof line->command);
    const size_t n = strlen(line->command);
    (void)snprintf(line->command + n, sizeof line->command - n,
                   " --only schedules --seed %" PRIu64 "%s%s --replay '%" PRIu64 ":%s'", seed,
                   set[0] != '\0' ? " --set " : "", set, i,
                   line->schedule != NULL ? line->schedule : "");
    if (strlen(line->command) + 1 == sizeof line->command) { /* too long for a command */
        (void)snprintf(line->command + n, sizeof line->command - n,
                       " --only schedules --seed %" PRIu64 " --schedules %" PRIu64, seed, i + 1);
    }
}

static void run_one(verify *v, verify_line *line, verify_random *r) {
    verify_run_line(v, line, &r->schedule, &r->point, subject_of(v), 1);
}

static void report_failure(verify *v, verify_line *line, verify_random *r, uint64_t i) {
    verify_shrink(v, &r->schedule, &r->point, subject_of(v));
    verify_line *shrunk = calloc(1, sizeof *shrunk);
    if (shrunk == NULL) {
        v->is_broken = true;
        return;
    }
    run_one(v, shrunk, r);
    for (int32_t k = 0; k < line->n_traces; k++) {
        free(line->traces[k].marks);
    }
    memcpy(line->traces, shrunk->traces, sizeof line->traces);
    line->n_traces = shrunk->n_traces;
    shrunk->n_traces = 0; /* they are the line's now */
    line->point = r->point;
    line->schedule = verify_schedule_print(&r->schedule);
    (void)snprintf(line->detail, sizeof line->detail,
                   "schedule %" PRIu64 ", shrunk to %zu operations", i, r->schedule.n_ops);
    verify_line_free(shrunk);
    if (verify_wants_matrix(v, line)) {
        verify_matrix(v, line, &r->schedule, subject_of(v));
    }
}

static void replay(verify *v, verify_line *line) {
    verify_random r;
    char why[VERIFY_WHY] = "out of memory";
    char *end = NULL;
    const uint64_t i = strtoull(v->options->replay, &end, 10);
    const char *text = *end == ':' ? end + 1 : v->options->replay;
    bool ok = verify_random_streams(v, v->options->seed, i, &r) &&
              verify_schedule_parse(&r.schedule, text, why, sizeof why);
    if (!ok) {
        verify_line_give_up(v, line, VERIFY_BROKEN, why);
        (void)lk_console_error("verify", "--replay: %s", why);
    } else {
        r.point = v->base;
        run_one(v, line, &r);
        line->schedule = verify_schedule_print(&r.schedule);
    }
    add_command(v, line, v->options->seed, i);
    verify_random_free(&r);
    verify_table_line(v, line);
}

void verify_experiment_schedules(verify *v) {
    const int64_t asked = v->options->n_schedules;
    const int64_t n = asked > 0 ? asked : verify_is_soak(v) ? 10000 : verify_is_full(v) ? 300 : 12;
    char label[VERIFY_LABEL];
    (void)snprintf(label, sizeof label, "%lld random schedules", (long long)n);
    verify_line *line = verify_line_add(v, v->options->replay != NULL ? "replayed" : label);
    if (line == NULL) {
        return;
    }
    if (v->options->replay != NULL) {
        replay(v, line);
        return;
    }
    uint64_t i = 0;
    for (;
         i < (uint64_t)n && line->n_differ == 0 && !v->is_broken && line->verdict == VERDICT_EQUAL;
         i++) {
        verify_random r;
        if (!verify_random_draw(v, v->options->seed, i, &r)) {
            verify_line_give_up(v, line, VERIFY_BROKEN, "out of memory");
        } else {
            (void)snprintf(label, sizeof label, "%llu of %lld", (unsigned long long)i + 1,
                           (long long)n);
            verify_progress(v, label);
            run_one(v, line, &r);
            if (line->n_differ > 0) {
                report_failure(v, line, &r, i);
            }
        }
        verify_random_free(&r);
    }
    add_command(v, line, v->options->seed, i > 0 ? i - 1 : 0);
    verify_table_line(v, line);
}
