/* step_driver.c - see step_driver.h. */
#include "step_driver.h"

lk_backend_params lk_driver_params(void) {
    return (lk_backend_params){.n_threads = 1,
                               .isa_mask = UINT32_MAX,
                               .max_rows = 512,
                               .max_out = 512,
                               .n_pages = LK_DRIVER_MAX_PAGES,
                               .n_window_pages = LK_DRIVER_MAX_PAGES,
                               .k_format = LK_KV_FORMAT_F32,
                               .v_format = LK_KV_FORMAT_F32};
}

void lk_driver_init(lk_driver *d, lk_model *model, const lk_backend_params *params) {
    lk_driver_init_on(d, &lk_backend_cpu, model, params);
}

void lk_driver_init_on(lk_driver *d, const lk_backend_ops *ops, lk_model *model,
                       const lk_backend_params *params) {
    lk_error err;
    memset(d, 0, sizeof *d);
    d->model = model;
    d->graph = lk_model_graph(model);
    d->ops = ops;
    d->params = *params;
    d->n_vocab = d->graph->n_vocab;
    REQUIRE_OK(d->ops->create(d->graph, params, &d->backend, &err), err);
}

void lk_driver_deinit(lk_driver *d) {
    d->ops->destroy(d->backend);
}

lk_driver_seq lk_driver_seq_make(const int32_t *tokens, uint32_t n_tokens, float *logits,
                                 uint32_t first_page, uint32_t stride) {
    lk_driver_seq seq = {.tokens = tokens,
                         .n_tokens = n_tokens,
                         .logits = logits,
                         .bad_layer = -1,
                         .bad_op = LK_NODE_COUNT};
    for (uint32_t c = 0; c < LK_DRIVER_MAX_PAGES; c++) {
        seq.pages[c] = (first_page + c * stride) % LK_DRIVER_MAX_PAGES;
        seq.window_pages[c] = LK_DRIVER_MAX_PAGES + seq.pages[c];
    }
    return seq;
}

static void fill_rows(lk_driver_seq *seq, uint32_t n, uint32_t i_run, lk_step *step) {
    for (uint32_t i = 0; i < n; i++) {
        lk_step_row *row = &step->rows[step->n_rows++];
        *row = (lk_step_row){.token = seq->tokens[seq->n_done + i],
                             .i_run = i_run,
                             .pos = (int64_t)seq->n_done + i,
                             .i_out = seq->logits != NULL ? (int32_t)step->n_out : -1};
        step->n_out += seq->logits != NULL;
    }
}

static void take_results(const lk_driver *d, lk_driver_seq *seq, const lk_step *step,
                         const lk_step_run *run) {
    for (uint32_t r = run->first; r < run->first + run->n; r++) {
        const lk_step_row *row = &step->rows[r];
        if (row->i_out >= 0) {
            memcpy(seq->logits + (size_t)row->pos * d->n_vocab,
                   step->logits + (size_t)row->i_out * d->n_vocab, d->n_vocab * sizeof(float));
        }
        if (row->bad_op != LK_NODE_COUNT) {
            if (seq->n_bad++ == 0) {
                seq->bad_op = row->bad_op;
                seq->bad_layer = row->bad_layer;
            }
        }
    }
    seq->n_done += run->n;
}

void lk_driver_step(lk_driver *d, lk_driver_seq *const *seqs, const uint32_t *n_rows,
                    uint32_t n_seqs) {
    lk_step_row *rows = calloc(d->params.max_rows, sizeof *rows);
    float *logits = malloc((size_t)d->params.max_out * d->n_vocab * sizeof *logits);
    lk_step_run runs[LK_DRIVER_MAX_RUNS];
    lk_driver_seq *seq_of[LK_DRIVER_MAX_RUNS];
    lk_step step = {.rows = rows, .runs = runs, .logits = logits};
    if (rows == NULL || logits == NULL) {
        exit(1);
    }
    for (uint32_t i = 0; i < n_seqs; i++) {
        if (n_rows[i] != 0) {
            runs[step.n_runs] = (lk_step_run){.first = step.n_rows,
                                              .n = n_rows[i],
                                              .pages = seqs[i]->pages,
                                              .window_pages = seqs[i]->window_pages};
            seq_of[step.n_runs] = seqs[i];
            fill_rows(seqs[i], n_rows[i], step.n_runs++, &step);
        }
    }
    lk_error err;
    REQUIRE_OK(d->ops->step(d->backend, &step, &err), err);
    for (uint32_t i = 0; i < step.n_runs; i++) {
        take_results(d, seq_of[i], &step, &runs[i]);
    }
    free(logits);
    free(rows);
}

void lk_driver_run(lk_driver *d, lk_driver_seq *seq, uint32_t cut) {
    while (seq->n_done < seq->n_tokens) {
        const uint32_t left = seq->n_tokens - seq->n_done;
        const uint32_t n = left < cut ? left : cut;
        lk_driver_step(d, &seq, &n, 1);
    }
}
