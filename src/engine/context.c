/* context.c - creating and destroying contexts. Everything is checked and allocated here, once. */
#include "engine/context.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/params.h"
#include "base/pool.h"

LK_NO_TAIL_PADDING(lk_context_params, reserved);

static lk_status check_params(const lk_context_params *p, lk_error *err) {
    const lk_range ranges[] = {
        {"n_threads", p->n_threads, 0, LK_POOL_MAX_THREADS},
        {"kv_positions", p->kv_positions, 0, INT64_MAX},
        {"n_sequences", p->n_sequences, 1, LK_MAX_SEQUENCES},
        {"max_rows", p->max_rows, 1, LK_MAX_ROWS},
        {"max_logits", p->max_logits, 1, LK_MAX_LOGITS},
        {"k_type", (int64_t)p->k_type, LK_KV_F32, LK_KV_Q8_0},
        {"v_type", (int64_t)p->v_type, LK_KV_F32, LK_KV_Q8_0},
        {"flags", p->flags, 0, LK_CONTEXT_POISON | LK_CONTEXT_F32_ACTIVATIONS},
        {"max_hidden", p->max_hidden, 0, LK_MAX_LOGITS},
        {"reserved", p->reserved, 0, 0},
    };
    const lk_status status =
        lk_check_struct_size("lk_context_params", p->struct_size, sizeof *p, err);
    if (status != LK_OK) {
        return status;
    }
    return lk_check_ranges(ranges, sizeof ranges / sizeof ranges[0], err);
}

/* Pages that hold kv_positions positions however they are split among the sequences: each but one
 * can leave up to a page less one position unused. */
static lk_status count_pages(const lk_context_params *params, const lk_context_source *source,
                             uint32_t *n_pages, lk_error *err) {
    const uint32_t max_pages = source->graph->window != 0 ? UINT32_MAX / 2 : UINT32_MAX;
    const uint64_t wanted =
        params->kv_positions > 0 ? (uint64_t)params->kv_positions : source->n_ctx_train;
    const uint64_t slack = (uint64_t)(LK_CHUNK - 1) * (uint64_t)params->n_sequences;
    const uint64_t max_positions = (uint64_t)max_pages * LK_CHUNK - slack;
    if (wanted > max_positions) {
        return lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT("kv_positions"),
                       "kv_positions is %llu, at most %llu are possible",
                       (unsigned long long)wanted, (unsigned long long)max_positions);
    }
    *n_pages = (uint32_t)((wanted + slack) / LK_CHUNK);
    return LK_OK;
}

/* Window pages that are enough for every sequence at once, so that they cannot run out: those that
 * a call began with and has to keep for undoing, those that its rows reach, a copy. Never more than
 * there are of the other kind, page for page. */
static uint32_t count_window_pages(const lk_context_params *params, uint32_t window,
                                   uint32_t n_pages) {
    if (window == 0) {
        return 0;
    }
    const uint64_t reach = ((uint64_t)window + LK_WINDOW_SLACK) / LK_CHUNK + 2;
    const uint64_t enough =
        (uint64_t)params->n_sequences * (2 * reach + 4) + (uint64_t)params->max_rows / LK_CHUNK + 1;
    return enough < n_pages ? (uint32_t)enough : n_pages;
}

static lk_status create_backend(lk_context *c, uint32_t i_device, uint32_t n_pages, lk_error *err) {
    static const lk_kv_format formats[] = {
        [LK_KV_F32] = LK_KV_FORMAT_F32,
        [LK_KV_F16] = LK_KV_FORMAT_F16,
        [LK_KV_Q8_0] = LK_KV_FORMAT_Q8_0,
    };
    const lk_context_params *p = &c->params;
    const lk_backend_params params = {
        .allocator = c->allocator,
        .n_threads = p->n_threads,
        .isa_mask = p->isa_mask,
        .max_rows = (uint32_t)p->max_rows,
        .max_out = (uint32_t)(p->max_rows < p->max_logits ? p->max_rows : p->max_logits),
        .n_pages = n_pages,
        .n_window_pages = c->kv.window_pages.n_pages,
        .k_format = formats[p->k_type],
        .v_format = formats[p->v_type],
        .f32_activations = (p->flags & LK_CONTEXT_F32_ACTIVATIONS) != 0,
        .device = i_device,
    };
    const lk_status status = c->ops->create(c->graph, &params, &c->backend, err);
    lk_kv_pages_attach(&c->kv.pages, c->ops, c->backend);
    lk_kv_pages_attach(&c->kv.window_pages, c->ops, c->backend);
    return status;
}

static bool allocate_outs(lk_context *c, lk_out_kind kind, uint32_t capacity, uint32_t width) {
    lk_outs *outs = &c->outs[kind];
    const size_t max_rows = (size_t)c->params.max_rows;
    outs->capacity = capacity;
    outs->width = width;
    if (capacity == 0) {
        return true;
    }
    outs->rows = lk_alloc_array(c->allocator, capacity, sizeof outs->rows[0]);
    outs->of_step = lk_alloc_array(c->allocator, max_rows, sizeof outs->of_step[0]);
    outs->values = lk_alloc_array(c->allocator, capacity, (size_t)width * sizeof(float));
    return outs->rows != NULL && outs->of_step != NULL && outs->values != NULL;
}

static void free_outs(lk_context *c, lk_out_kind kind) {
    const lk_outs *outs = &c->outs[kind];
    const size_t max_rows = (size_t)c->params.max_rows;
    lk_free_array(c->allocator, outs->values, outs->capacity, (size_t)outs->width * sizeof(float));
    lk_free_array(c->allocator, outs->of_step, max_rows, sizeof outs->of_step[0]);
    lk_free_array(c->allocator, outs->rows, outs->capacity, sizeof outs->rows[0]);
}

static lk_status allocate(lk_context *c, uint32_t n_pages, lk_error *err) {
    const lk_allocator *a = c->allocator;
    const size_t n_seqs = (size_t)c->params.n_sequences;
    const size_t max_rows = (size_t)c->params.max_rows;
    const uint32_t max_logits = (uint32_t)c->params.max_logits;
    const uint32_t most = (uint32_t)(LK_MAX_POSITIONS / LK_CHUNK);
    c->table_capacity = n_pages < most ? n_pages : most;
    c->seqs = lk_alloc_array_zero(a, n_seqs, sizeof c->seqs[0]);
    c->tables = lk_alloc_array(a, n_seqs, c->table_capacity * sizeof c->tables[0]);
    if (c->kv.window != 0) {
        c->window_tables = lk_alloc_array(a, n_seqs, c->table_capacity * sizeof c->tables[0]);
    }
    c->seq_steps = lk_alloc_array_zero(a, n_seqs, sizeof c->seq_steps[0]);
    c->touched = lk_alloc_array(a, n_seqs, sizeof c->touched[0]);
    c->batch_seqs = lk_alloc_array(a, n_seqs, sizeof c->batch_seqs[0]);
    c->runs = lk_alloc_array(a, n_seqs, sizeof c->runs[0]);
    c->step_rows = lk_alloc_array(a, max_rows, sizeof c->step_rows[0]);
    c->row_of_step = lk_alloc_array(a, max_rows, sizeof c->row_of_step[0]);
    if (c->seqs == NULL || c->tables == NULL || c->seq_steps == NULL || c->touched == NULL ||
        c->batch_seqs == NULL || c->runs == NULL || c->step_rows == NULL ||
        c->row_of_step == NULL || (c->kv.window != 0 && c->window_tables == NULL)) {
        return lk_fail_nomem(err, "the context's tables", n_seqs * c->table_capacity);
    }
    if (!allocate_outs(c, LK_OUT_LOGITS, max_logits, c->graph->n_vocab) ||
        !allocate_outs(c, LK_OUT_HIDDEN, c->params.max_hidden, lk_graph_hidden_width(c->graph))) {
        return lk_fail_nomem(err, "the logits of a context",
                             (size_t)max_logits * c->graph->n_vocab * sizeof(float));
    }
    for (size_t i = 0; i < n_seqs; i++) {
        c->seqs[i].pages = c->tables + i * c->table_capacity;
        if (c->window_tables != NULL) {
            c->seqs[i].window_pages = c->window_tables + i * c->table_capacity;
        }
    }
    lk_kv_pages_params pages = {.n_pages = n_pages,
                                .keeps_tokens = true,
                                .poison = (c->params.flags & LK_CONTEXT_POISON) != 0,
                                .seed = c->params.page_seed};
    const lk_status status = lk_kv_pages_init(&c->kv.pages, a, &pages, err);
    if (status != LK_OK) {
        return status;
    }
    pages.first = n_pages;
    pages.n_pages = count_window_pages(&c->params, c->kv.window, n_pages);
    pages.keeps_tokens = false;
    return lk_kv_pages_init(&c->kv.window_pages, a, &pages, err);
}

void lk_context_free(lk_context *c) {
    if (c == NULL) {
        return;
    }
    const lk_allocator *a = c->allocator;
    const size_t n_seqs = (size_t)c->params.n_sequences;
    const size_t max_rows = (size_t)c->params.max_rows;
    lk_kv_pages_deinit(&c->kv.pages);
    lk_kv_pages_deinit(&c->kv.window_pages);
    if (c->backend != NULL) {
        c->ops->destroy(c->backend);
    }
    free_outs(c, LK_OUT_HIDDEN);
    free_outs(c, LK_OUT_LOGITS);
    lk_free_array(a, c->row_of_step, max_rows, sizeof c->row_of_step[0]);
    lk_free_array(a, c->step_rows, max_rows, sizeof c->step_rows[0]);
    lk_free_array(a, c->runs, n_seqs, sizeof c->runs[0]);
    lk_free_array(a, c->batch_seqs, n_seqs, sizeof c->batch_seqs[0]);
    lk_free_array(a, c->touched, n_seqs, sizeof c->touched[0]);
    lk_free_array(a, c->seq_steps, n_seqs, sizeof c->seq_steps[0]);
    lk_free_array(a, c->tables, n_seqs, c->table_capacity * sizeof c->tables[0]);
    lk_free_array(a, c->window_tables, n_seqs, c->table_capacity * sizeof c->tables[0]);
    lk_free_array(a, c->seqs, n_seqs, sizeof c->seqs[0]);
    lk_free(a, c, sizeof *c);
}

lk_status lk_context_build(const lk_context_source *source, const lk_context_params *params,
                           lk_context **out, lk_error *err) {
    *out = NULL;
    lk_status status = check_params(params, err);
    uint32_t n_pages = 0;
    if (status == LK_OK) {
        status = count_pages(params, source, &n_pages, err);
    }
    if (status != LK_OK) {
        return status;
    }
    const lk_allocator *a = lk_allocator_or_default(params->allocator);
    lk_context *c = lk_alloc_zero(a, sizeof *c);
    if (c == NULL) {
        return lk_fail_nomem(err, "a context", sizeof *c);
    }
    c->allocator = a;
    c->model = source->model;
    c->graph = source->graph;
    c->kv.window = source->graph->window;
    c->ops = source->ops;
    c->params = *params;
    atomic_init(&c->is_busy, 0);
    atomic_init(&c->wants_cancel, 0);
    if (params->max_hidden != 0 && source->graph->hidden < 0) {
        status = lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT("max_hidden"),
                         "this model gives out no hidden states");
    } else {
        status = allocate(c, n_pages, err);
    }
    if (status == LK_OK) {
        status = create_backend(c, source->i_device, n_pages, err);
    }
    if (status != LK_OK) {
        lk_context_free(c);
        return status;
    }
    *out = c;
    return LK_OK;
}

lk_status lk_context_check_seq(const lk_context *context, int32_t seq, lk_error *err) {
    if (seq < 0 || seq >= context->params.n_sequences) {
        return lk_fail(err, LK_E_ARG, LK_AT_ROW(seq, -1), "sequence %d, expected 0 .. %d", seq,
                       context->params.n_sequences - 1);
    }
    return LK_OK;
}
