/* context.h - a context as the engine sees it: sequences over KV pages, the scratch memory of a
 * step, and the logits of the last decode. Bodies: context.c (life), decode.c (computing rows),
 * state.c (files). Callers hold the context alone: src/api guards the entries.
 *
 * Invariant: all memory that decoding needs is allocated by lk_context_build. */
#ifndef LK_ENGINE_CONTEXT_H
#define LK_ENGINE_CONTEXT_H

#include <stdatomic.h>

#include "engine/sequence.h"
#include "lk/context.h"

/* The two kinds of pages. */
typedef enum lk_page_kind { LK_PAGES_FULL, LK_PAGES_WINDOW, LK_N_PAGE_KINDS } lk_page_kind;

/* What one call of decode knows about a sequence: how to undo, and its place in a micro-batch. */
typedef struct lk_seq_step {
    int64_t old_length;
    int64_t new_length;
    int64_t done_length; /* with the rows computed so far */
    uint32_t old_n_pages;
    /* Window pages are taken for each micro-batch; of those taken in this call the ones that later
     * rows cannot reach go back at once. Held: window_begin .. window_end-1. */
    uint32_t window_begin;
    uint32_t window_end;
    /* By lk_page_kind: the shared page that was replaced by a copy at the end of the old pages. */
    uint32_t copied_from[LK_N_PAGE_KINDS];
    bool has_copy[LK_N_PAGE_KINDS];
    bool is_touched;
    bool has_failed;
    uint32_t n_batch; /* rows in the micro-batch */
    uint32_t i_run;
    uint32_t i_next; /* where its next row goes */
} lk_seq_step;

/* What a row can be asked for: its logits, its final hidden state. */
typedef enum lk_out_kind { LK_OUT_LOGITS, LK_OUT_HIDDEN, LK_N_OUT_KINDS } lk_out_kind;

/* A row that was asked for something. */
typedef struct lk_out_row {
    size_t i_row; /* in the call, ascending */
    int32_t seq;
    uint32_t i_values; /* its row among the values */
    bool has_failed;
} lk_out_row;

/* Of one kind: the rows of the last call and what they got. */
typedef struct lk_outs {
    lk_out_row *rows; /* [capacity] */
    uint32_t n;
    uint32_t capacity;
    uint32_t width;
    float *values;     /* [capacity, width] */
    uint32_t *of_step; /* [max_rows] index into rows */
} lk_outs;

struct lk_context {
    const lk_allocator *allocator;
    lk_model *model; /* NULL when the graph came without one (tests) */
    const lk_graph *graph;
    const lk_backend_ops *ops;
    lk_backend *backend;
    lk_context_params params; /* with the defaults filled in */
    atomic_uint is_busy;
    atomic_uint wants_cancel;

    lk_kv kv;
    lk_seq *seqs;     /* [n_sequences] */
    uint32_t *tables; /* [n_sequences, table_capacity] */
    uint32_t
        *window_tables; /* [n_sequences, table_capacity] where layers have windows, else NULL */
    uint32_t table_capacity; /* pages that one sequence can have */

    /* One call of decode. */
    lk_seq_step *seq_steps; /* [n_sequences] */
    int32_t *touched;       /* [n_sequences] sequences of the call */
    uint32_t n_touched;
    uint32_t n_copies[LK_N_PAGE_KINDS]; /* shared pages that were copied in this call */
    const float *const *embeddings;     /* [n_rows] of the call, or NULL */
    int32_t *batch_seqs;    /* [n_sequences] sequences of the micro-batch, in order of appearance */
    lk_step_row *step_rows; /* [max_rows] */
    lk_step_run *runs;      /* [n_sequences] */
    size_t *row_of_step;    /* [max_rows] row of the call */

    /* Results. */
    lk_outs outs[LK_N_OUT_KINDS];
    uint64_t n_steps;
    uint64_t n_rows;
};

/* What a context computes with. */
typedef struct lk_context_source {
    lk_model *model; /* may be NULL: state files then need lk_state_save and lk_state_load */
    const lk_graph *graph;
    const lk_backend_ops *ops;
    uint64_t n_ctx_train;
    uint32_t i_device; /* of those that the backend counts */
} lk_context_source;

/* lk_context_create over any graph and backend. params must not be NULL. */
lk_status lk_context_build(const lk_context_source *source, const lk_context_params *params,
                           lk_context **out, lk_error *err);
void lk_context_free(lk_context *context);

/* LK_E_ARG, naming the sequence, when there is none of this id. */
lk_status lk_context_check_seq(const lk_context *context, int32_t seq, lk_error *err);

/* Body of lk_context_decode_embeddings. */
lk_status lk_context_run(lk_context *context, const lk_row *rows, const float *const *embeddings,
                         size_t n_rows, lk_row_status *row_status, lk_error *err);
/* Bodies of lk_context_logits and lk_context_hidden. */
lk_status lk_context_find_out(const lk_context *context, lk_out_kind kind, size_t i_row,
                              const float **values, lk_error *err);

#endif
