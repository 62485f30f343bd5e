/* verify_case.c - a case: a schedule run some times, each of its streams held against its solo run,
 * one line of the report. */
#include <stdlib.h>
#include <string.h>

#include "verify.h"
#include "verify_load.h"

static const char *const verdict_names[VERIFY_N_VERDICTS] = {
    [VERDICT_EQUAL] = "equal", [VERDICT_NOISE] = "noise",         [VERDICT_DIFFERENT] = "DIFFERENT",
    [VERDICT_ERROR] = "ERROR", [VERDICT_UNABLE] = "not possible",
};

const char *verify_verdict_name(verify_verdict verdict) {
    return verdict_names[verdict];
}

bool verify_is_full(const verify *v) {
    return v->options->suite != VERIFY_QUICK;
}

bool verify_is_soak(const verify *v) {
    return v->options->suite == VERIFY_SOAK;
}

verify_status verify_run(verify *v, const verify_schedule *s, const verify_point *p,
                         verify_result *result, char why[VERIFY_WHY]) {
    why[0] = '\0';
    if (!verify_target_can(v->target, s, p, why)) {
        return VERIFY_NOT_POSSIBLE;
    }
    verify_load *load = NULL;
    if (p->value[VERIFY_LOAD] != 0) {
        load = verify_load_start(p->value[VERIFY_LOAD]);
        if (load == NULL) {
            (void)snprintf(why, VERIFY_WHY, "the stressors could not be started");
            return VERIFY_BROKEN;
        }
    }
    const verify_status status = v->target->ops->run(v->target, s, p, result, why);
    verify_load_stop(load);
    return status;
}

verify_line *verify_line_add(verify *v, const char *label) {
    if ((v->n_lines & (v->n_lines + 1)) == 0) { /* full at 0, 1, 3, 7, ... */
        verify_line **lines = realloc(v->lines, (2 * v->n_lines + 1) * sizeof(verify_line *));
        if (lines == NULL) {
            v->is_broken = true;
            return NULL;
        }
        v->lines = lines;
    }
    verify_line *line = calloc(1, sizeof *line);
    if (line == NULL) {
        v->is_broken = true;
        return NULL;
    }
    line->experiment = v->experiment;
    line->point = v->base;
    line->verdict = VERDICT_EQUAL;
    (void)snprintf(line->label, sizeof line->label, "%s", label);
    v->lines[v->n_lines++] = line;
    return line;
}

static void free_traces(verify_line *line) {
    for (int32_t i = 0; i < line->n_traces; i++) {
        free(line->traces[i].marks);
    }
    line->n_traces = 0;
}

void verify_line_free(verify_line *line) {
    free_traces(line);
    free(line->cells);
    free(line->schedule);
    free(line);
}

void verify_lines_free(verify *v) {
    for (size_t i = 0; i < v->n_lines; i++) {
        verify_line_free(v->lines[i]);
    }
    free(v->lines);
    v->lines = NULL;
    v->n_lines = 0;
}

void verify_line_give_up(verify *v, verify_line *line, verify_status status, const char *why) {
    line->verdict = status == VERIFY_NOT_POSSIBLE ? VERDICT_UNABLE : VERDICT_ERROR;
    v->is_broken = v->is_broken || status == VERIFY_BROKEN;
    (void)snprintf(line->detail, sizeof line->detail, "%s", why);
}

/* Ranks verdicts by how much they say. */
static int weight(verify_verdict verdict) {
    static const int weights[VERIFY_N_VERDICTS] = {0, 1, 3, 2, 0};
    return weights[verdict];
}

/* Compares one run; the line keeps the first run's traces, or those of the first that differs more.
 * False: it could not be compared, and the line says why. */
static bool take_run(verify *v, verify_line *line, const verify_schedule *s,
                     const verify_point *solo, const verify_result *result) {
    verify_trace traces[VERIFY_MAX_STREAMS];
    verify_verdict worst = VERDICT_EQUAL;
    memset(traces, 0, sizeof traces);
    for (int32_t i = 0; i < s->n_streams; i++) {
        char why[VERIFY_WHY];
        verify_status status = VERIFY_RAN;
        const verify_output *alone =
            verify_solo(v, &s->streams[i], solo, s->wants_all, &status, why);
        if (alone == NULL) {
            verify_line_give_up(v, line, status, why);
            return false;
        }
        (void)snprintf(traces[i].name, sizeof traces[i].name, "sequence %d", i);
        if (!verify_compare(v, &s->streams[i], alone, &result->outputs[i], &traces[i])) {
            verify_line_give_up(v, line, VERIFY_BROKEN, "out of memory");
            return false;
        }
        worst = weight(traces[i].verdict) > weight(worst) ? traces[i].verdict : worst;
    }
    if (result->failure[0] != '\0' && weight(worst) < weight(VERDICT_ERROR)) {
        worst = VERDICT_ERROR;
        (void)snprintf(line->detail, sizeof line->detail, "%s", result->failure);
    }
    line->n_differ += worst != VERDICT_EQUAL;
    if (line->n_runs == 0 || weight(worst) > weight(line->verdict)) {
        free_traces(line);
        memcpy(line->traces, traces, sizeof traces);
        line->n_traces = s->n_streams;
        line->verdict = worst;
    } else {
        for (int32_t i = 0; i < s->n_streams; i++) {
            free(traces[i].marks);
        }
    }
    line->n_runs++;
    line->seconds += result->seconds;
    if (solo->value[VERIFY_CACHE] != line->point.value[VERIFY_CACHE] && result->n_cached >= 0 &&
        line->detail[0] == '\0') {
        (void)snprintf(line->detail, sizeof line->detail,
                       "%lld tokens of prompts came from the cache", (long long)result->n_cached);
    }
    return true;
}

/* A signal came: what ran until then stands, the rest was not tried. */
static void interrupt(verify *v, verify_line *line) {
    v->is_broken = true;
    if (line->n_differ == 0) {
        line->verdict = VERDICT_UNABLE;
        (void)snprintf(line->detail, sizeof line->detail, "interrupted%s",
                       line->n_runs > 0 ? "; the runs until then were equal" : "");
    }
}

void verify_run_line(verify *v, verify_line *line, const verify_schedule *s, const verify_point *p,
                     verify_factors subject, int32_t n_runs) {
    verify_point solo = *p;
    verify_point base;
    verify_point_init(&base);
    for (size_t f = 0; f < VERIFY_N_FACTORS; f++) {
        if ((subject & VERIFY_BIT(f)) != 0) {
            solo.value[f] = base.value[f];
        }
    }
    line->point = *p;
    line->subject = subject;
    for (int32_t i = 0; i < n_runs; i++) {
        char why[VERIFY_WHY];
        verify_result result;
        if (lk_console_interrupt_status() != 0) {
            interrupt(v, line);
            return;
        }
        if (!verify_result_init(&result, s, (v->target->can & VERIFY_CAN_BITS) != 0)) {
            verify_line_give_up(v, line, VERIFY_BROKEN, "out of memory");
            return;
        }
        const verify_status status = verify_run(v, s, p, &result, why);
        bool go_on = status == VERIFY_RAN;
        if (go_on) {
            go_on = take_run(v, line, s, &solo, &result);
        } else {
            verify_line_give_up(v, line, status, why);
        }
        verify_result_deinit(&result);
        if (!go_on) {
            return;
        }
    }
}

/* What the solo runs had besides: settings that are not plain and that the case is not about. */
static void print_kept(const verify *v, verify_line *line) {
    bool any = false;
    for (int f = 0; f < VERIFY_N_FACTORS; f++) {
        const verify_factor factor = (verify_factor)f;
        if (verify_factor_kind_of(factor) != VERIFY_SHAPE &&
            line->point.value[f] != verify_factor_base(factor) &&
            ((line->subject | v->target->defining) & VERIFY_BIT(f)) == 0) {
            const size_t n = strlen(line->command);
            (void)snprintf(line->command + n, sizeof line->command - n, "%s%s",
                           any ? "," : " --keep ", verify_factor_name(factor));
            any = true;
        }
    }
}

void verify_line_done(verify *v, verify_line *line) {
    char set[VERIFY_COMMAND / 2];
    verify_point base;
    verify_point_init(&base);
    verify_point_print(&line->point, &base, set, sizeof set);
    verify_command_start(v, line->command, sizeof line->command);
    const size_t n = strlen(line->command);
    (void)snprintf(line->command + n, sizeof line->command - n, " --only case --set %s",
                   set[0] != '\0' ? set : "neighbours=0");
    print_kept(v, line);
    verify_table_line(v, line);
}

/* One matrix for each experiment, of the first line that differs. */
bool verify_wants_matrix(const verify *v, const verify_line *line) {
    if (v->options->no_matrix || v->is_broken || line->n_differ == 0) {
        return false;
    }
    for (size_t i = 0; i < v->n_lines; i++) {
        if (v->lines[i]->n_cells > 0 && strcmp(v->lines[i]->experiment, line->experiment) == 0) {
            return false;
        }
    }
    return true;
}

void verify_case(verify *v, const verify_point *p, verify_factors subject, int32_t n_runs,
                 const char *label) {
    verify_schedule s;
    verify_line *line = verify_line_add(v, label);
    if (line == NULL) {
        return;
    }
    verify_progress(v, label);
    if (verify_shape(v, p, &s)) {
        const int64_t n = v->options->n_repetitions;
        verify_run_line(v, line, &s, p, subject, n_runs > 0 ? n_runs : n > 0 ? (int32_t)n : 1);
    } else {
        verify_line_give_up(v, line, VERIFY_BROKEN, "out of memory");
    }
    if (verify_wants_matrix(v, line)) {
        verify_matrix(v, line, NULL, subject);
    }
    verify_schedule_deinit(&s);
    verify_line_done(v, line);
}
