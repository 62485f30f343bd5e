/* verify_matrix.c - the isolation matrix: from a setting that fails, one factor at a time is moved
 * back to its base, and to another value; each cell is run some times. Of the
 * cells in which the difference is gone, the smallest change is named: one beside the target (load)
 * before a setting of the target, that before a change of what is asked; going back to the base
 * before going elsewhere. */
#include <stdlib.h>
#include <string.h>

#include "verify.h"

typedef struct matrix {
    verify *v;
    verify_line *line;
    const verify_schedule *schedule; /* NULL: made from the point */
    verify_factors subject;
    int32_t n_runs;
} matrix;

static bool is_worth_trying(const matrix *m, verify_factor f, int64_t value) {
    const verify_point *p = &m->line->point;
    const verify_factor_kind kind = verify_factor_kind_of(f);
    if (value == VERIFY_NONE || value == p->value[f] || f == VERIFY_N || f == VERIFY_PROMPT) {
        return false;
    }
    if (kind == VERIFY_SHAPE && m->schedule != NULL) {
        return false; /* the schedule is what it is */
    }
    if ((f == VERIFY_EQUAL || f == VERIFY_JOIN) && p->value[VERIFY_NEIGHBOURS] == 0) {
        return false;
    }
    if ((f == VERIFY_CLIP && m->v->options->audio == NULL) ||
        ((f == VERIFY_WINDOWS || f == VERIFY_PROJECTOR) && p->value[VERIFY_CLIP] == 0)) {
        return false; /* nothing is heard */
    }
    return kind != VERIFY_TARGET || (m->v->target->factors & VERIFY_BIT(f)) != 0;
}

static void run_cell(matrix *m, verify_factor f, int64_t value) {
    verify_cell *cell = &m->line->cells[m->line->n_cells];
    verify_line *line = calloc(1, sizeof *line);
    verify_point p = m->line->point;
    verify_schedule made;
    char label[VERIFY_LABEL];
    *cell = (verify_cell){.factor = f, .value = value};
    p.value[f] = value;
    (void)snprintf(label, sizeof label, "matrix: %s=%lld", verify_factor_name(f), (long long)value);
    verify_progress(m->v, label);
    verify_schedule_init(&made);
    if (line == NULL || (m->schedule == NULL && !verify_shape(m->v, &p, &made))) {
        m->v->is_broken = true;
    } else {
        verify_run_line(m->v, line, m->schedule != NULL ? m->schedule : &made, &p, m->subject,
                        m->n_runs);
        cell->n_runs = line->n_runs;
        cell->n_differ = line->n_differ;
        cell->is_possible = line->verdict != VERDICT_UNABLE && line->n_runs > 0;
        m->line->n_cells++;
    }
    if (line != NULL) {
        verify_line_free(line);
    }
    verify_schedule_deinit(&made);
}

/* Lower is smaller. */
static int size_of(const verify_cell *cell) {
    static const int kinds[] = {[VERIFY_HOST] = 0, [VERIFY_TARGET] = 1000, [VERIFY_SHAPE] = 2000};
    const bool is_base = cell->value == verify_factor_base(cell->factor);
    return kinds[verify_factor_kind_of(cell->factor)] + (is_base ? 0 : 500) +
           (VERIFY_N_FACTORS - (int)cell->factor);
}

static void name_smallest(verify_line *line) {
    for (int32_t i = 0; i < line->n_cells; i++) {
        const verify_cell *cell = &line->cells[i];
        if (cell->is_possible && cell->n_differ == 0 &&
            (line->smallest.n_runs == 0 || size_of(cell) < size_of(&line->smallest))) {
            line->smallest = *cell;
        }
    }
}

void verify_matrix(verify *v, verify_line *line, const verify_schedule *schedule,
                   verify_factors subject) {
    enum { CELL_RUNS = 3, MAX_RUNS = 20 };
    /* What happens now and then needs as many runs as showed it. */
    const int32_t asked = (int32_t)v->options->n_repetitions;
    const int32_t least = asked > 0 ? asked : CELL_RUNS;
    const int32_t n = line->n_runs > least && line->verdict != VERDICT_ERROR ? line->n_runs : least;
    matrix m = {v, line, schedule, subject, n < MAX_RUNS ? n : MAX_RUNS};
    line->cells = calloc(2 * (size_t)VERIFY_N_FACTORS, sizeof line->cells[0]);
    if (line->cells == NULL) {
        v->is_broken = true;
        return;
    }
    for (int f = 0; f < VERIFY_N_FACTORS && !v->is_broken; f++) {
        const int64_t base = verify_factor_base((verify_factor)f);
        const int64_t other = verify_factor_other((verify_factor)f);
        if (is_worth_trying(&m, (verify_factor)f, base)) {
            run_cell(&m, (verify_factor)f, base);
        }
        if (other != base && is_worth_trying(&m, (verify_factor)f, other)) {
            run_cell(&m, (verify_factor)f, other);
        }
    }
    name_smallest(line);
}
