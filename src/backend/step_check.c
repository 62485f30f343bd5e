/* step_check.c - see step_check.h. */
#include "backend/step_check.h"

#include "base/error.h"

/* The engine's promises about a run, checked because pages and positions become addresses. */
static lk_status check_run(const lk_graph *graph, const lk_backend_params *params,
                           const lk_step *step, uint32_t i_run, lk_error *err) {
    const lk_step_run *run = &step->runs[i_run];
    const int64_t end = step->rows[run->first].pos + run->n;
    bool ok = step->rows[run->first].pos >= 0 && end <= LK_ROPE_MAX_POSITION &&
              (end + LK_CHUNK - 1) / LK_CHUNK <= params->n_pages;
    for (uint32_t r = run->first; ok && r < run->first + run->n; r++) {
        ok = step->rows[r].i_run == i_run &&
             step->rows[r].pos == step->rows[run->first].pos + (r - run->first);
    }
    for (int64_t c = 0; ok && c * LK_CHUNK < end; c++) {
        ok = run->pages[c] < params->n_pages;
    }
    const uint32_t window = graph->window;
    const int64_t first = ok ? lk_step_window_begin(window, step->rows[run->first].pos) : 0;
    for (int64_t c = first / LK_CHUNK; ok && window != 0 && c * LK_CHUNK < end; c++) {
        ok = run->window_pages[c] >= params->n_pages &&
             run->window_pages[c] - params->n_pages < params->n_window_pages;
    }
    return ok ? LK_OK
              : lk_fail(err, LK_E_INTERNAL, LK_AT_ROW(-1, step->rows[run->first].pos),
                        "run %u of a step is not consistent", i_run);
}

/* Likewise of a window of an encoder. */
static lk_status check_window(const lk_graph *graph, const lk_step *step, uint32_t i_run,
                              lk_error *err) {
    const lk_step_run *run = &step->runs[i_run];
    bool ok = run->n <= graph->max_run && step->logits != NULL;
    for (uint32_t r = run->first; ok && r < run->first + run->n; r++) {
        ok = step->rows[r].i_run == i_run && step->rows[r].pos == (int64_t)(r - run->first) &&
             step->rows[r].embedding != NULL && step->rows[r].i_out < 0;
    }
    return ok ? LK_OK
              : lk_fail(err, LK_E_INTERNAL, LK_NOWHERE, "window %u of a step is not consistent",
                        i_run);
}

lk_status lk_step_check(const lk_graph *graph, const lk_backend_params *params, const lk_step *step,
                        lk_error *err) {
    const bool is_encoder = graph->max_run != 0;
    if (step->n_rows == 0 || step->n_rows > params->max_rows || step->n_out > params->max_out ||
        step->n_out > step->n_rows || (step->n_out != 0 && step->logits == NULL) ||
        (step->n_hidden != 0 && (step->hidden == NULL || graph->hidden < 0))) {
        return lk_fail(err, LK_E_INTERNAL, LK_NOWHERE,
                       "a step of %u rows and %u outputs, room is for %u and %u", step->n_rows,
                       step->n_out, params->max_rows, params->max_out);
    }
    uint32_t next = 0;
    for (uint32_t i = 0; i < step->n_runs; i++) {
        const lk_step_run *run = &step->runs[i];
        if (run->n == 0 || run->first != next || run->n > step->n_rows - next) {
            return lk_fail(err, LK_E_INTERNAL, LK_NOWHERE, "the runs of a step do not cover it");
        }
        next += run->n;
        const lk_status status =
            is_encoder ? check_window(graph, step, i, err) : check_run(graph, params, step, i, err);
        if (status != LK_OK) {
            return status;
        }
    }
    uint32_t n_out = 0;
    uint32_t n_hidden = 0;
    for (uint32_t r = 0; r < step->n_rows; r++) {
        const lk_step_row *row = &step->rows[r];
        if (!is_encoder && (row->token < 0 || (uint32_t)row->token >= graph->n_vocab)) {
            return lk_fail(err, LK_E_ARG, LK_AT_ROW(-1, row->pos), "token %d, expected 0 .. %u",
                           row->token, graph->n_vocab - 1);
        }
        n_out += row->i_out >= 0;
        n_hidden += row->wants_hidden;
        if (row->i_out >= 0 && (uint32_t)row->i_out != n_out - 1) {
            return lk_fail(err, LK_E_INTERNAL, LK_NOWHERE, "outputs of a step are out of order");
        }
    }
    return next == step->n_rows && n_out == step->n_out && n_hidden == step->n_hidden
               ? LK_OK
               : lk_fail(err, LK_E_INTERNAL, LK_NOWHERE, "a step's counts do not agree");
}
