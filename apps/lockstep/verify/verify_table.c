/* verify_table.c - the terminal: one line for each case as it is done, more where one differs. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "shared/open_model.h"
#include "shared/printable.h"
#include "verify_conclusion.h"

static bool is_terminal(void) {
    return isatty(STDERR_FILENO) == 1;
}

void verify_progress(const verify *v, const char *what) {
    if (is_terminal()) {
        (void)fprintf(stderr, "\r\x1b[K[%d/%d] %s: %.60s", v->i_experiment, v->n_experiments,
                      v->experiment, what);
        (void)fflush(stderr);
    }
}

void verify_progress_clear(void) {
    if (is_terminal()) {
        (void)fprintf(stderr, "\r\x1b[K");
        (void)fflush(stderr);
    }
}

void verify_table_head(const verify *v) {
    if (v->options->is_quiet) {
        return;
    }
    (void)printf("target  %s\n        ", v->target->name);
    (void)lk_print_escaped(stdout, v->target->description, strlen(v->target->description), 400);
    if (v->options->model != NULL) {
        (void)printf("\nmodel   %s", v->options->model);
    }
    if (v->has_digest) {
        char hex[65];
        lk_hex(v->model_digest, 32, hex);
        (void)printf("\n        digest %s", hex);
    }
    (void)printf("\nmachine %s\n\n%-10s %-36s %-12s %9s  %s\n", v->machine, "experiment", "case",
                 "verdict", "differ", "first token that differs");
    (void)fflush(stdout);
}

static void print_trace(const verify_trace *t) {
    (void)printf("             %s: first_div %d of %d, maxrun %d, distinct %d", t->name,
                 t->first_div, t->n, t->maxrun, t->distinct);
    if (t->first_bit_pos >= 0 && t->i_step >= 0) {
        (void)printf("; bits differ from position %lld, call %d, row %d",
                     (long long)t->first_bit_pos, t->i_step, t->i_row);
    } else if (t->first_bit_pos >= 0) {
        (void)printf("; bits differ from position %lld", (long long)t->first_bit_pos);
    }
    if (t->logprob_gap > 0) {
        (void)printf("; log probabilities by %.2g", t->logprob_gap);
    }
    if (t->detail[0] != '\0') {
        (void)printf("\n               %s", t->detail);
    }
    (void)printf("\n");
}

/* "rows=1" */
static void print_cell(const verify_cell *cell, char *text, size_t size) {
    (void)snprintf(text, size, "%s=%lld", verify_factor_name(cell->factor), (long long)cell->value);
}

static void print_matrix(const verify_line *line) {
    char name[64];
    if (line->n_cells == 0) {
        return;
    }
    (void)printf("             one factor changed:");
    for (int32_t i = 0; i < line->n_cells; i++) {
        const verify_cell *cell = &line->cells[i];
        print_cell(cell, name, sizeof name);
        (void)printf("%s%-16s", i % 3 == 0 ? "\n               " : "  ", name);
        if (cell->is_possible) {
            (void)printf(" %3d/%-3d", cell->n_differ, cell->n_runs);
        } else {
            (void)printf("   -    ");
        }
    }
    if (line->smallest.n_runs > 0) {
        print_cell(&line->smallest, name, sizeof name);
        (void)printf("\n             smallest change without the difference: %s (%s)\n", name,
                     verify_factor_meaning(line->smallest.factor));
    } else {
        (void)printf("\n             no single change removes it\n");
    }
}

void verify_table_line(const verify *v, const verify_line *line) {
    verify_progress_clear();
    if (v->options->is_quiet &&
        (line->verdict == VERDICT_EQUAL || line->verdict == VERDICT_UNABLE)) {
        return;
    }
    char count[24] = "";
    if (line->n_runs > 0) {
        (void)snprintf(count, sizeof count, "%d/%d", line->n_differ, line->n_runs);
    }
    (void)printf("%-10s %-36s %-12s %9s ", line->experiment, line->label,
                 verify_verdict_name(line->verdict), count);
    const bool shows =
        line->verdict != VERDICT_UNABLE && strcmp(line->experiment, "schedules") != 0;
    for (int32_t i = 0; shows && i < line->n_traces && i < 4; i++) {
        (void)printf(" %d/%d", line->traces[i].first_div, line->traces[i].n);
    }
    (void)printf("%s\n", shows && line->n_traces > 4 ? " ..." : "");
    if (line->detail[0] != '\0') {
        (void)printf("             %s\n", line->detail);
    }
    for (int32_t i = 0; i < line->n_traces; i++) {
        if (line->traces[i].verdict != VERDICT_EQUAL) {
            print_trace(&line->traces[i]);
        }
    }
    print_matrix(line);
    if (line->verdict != VERDICT_EQUAL && line->verdict != VERDICT_UNABLE) {
        (void)printf("             again: %s\n", line->command);
    }
    (void)fflush(stdout);
}

void verify_table_end(const verify *v) {
    const verify_conclusion end = verify_conclude(v);
    (void)printf("%s%zu cases, %lld runs in %.1f s:", v->options->is_quiet ? "" : "\n", v->n_lines,
                 (long long)end.n_runs, lk_console_seconds() - v->start);
    for (int k = 0; k < VERIFY_N_VERDICTS; k++) {
        if (end.counts[k] > 0) {
            (void)printf(" %d %s,", end.counts[k], verify_verdict_name((verify_verdict)k));
        }
    }
    (void)printf(" seed %llu\n%s.\n", (unsigned long long)v->options->seed, end.text);
}
