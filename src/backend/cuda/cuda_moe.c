/* cuda_moe.c - experts: rows are routed and their assignments (row, expert) sorted by expert on the
 * device, so that a product reads the weights of an expert once for all its rows; the results are
 * added up per row in ascending expert id. */
#include "backend/cuda/cuda.h"

typedef struct moe_job {
    lk_backend *b;
    const lk_node *node;
    const lk_moe *p;
    uint32_t n_rows;
    uint32_t n; /* assignments */
    uint32_t width;
    lk_cuda_flags row_flags; /* of rows, and of assignments */
    lk_cuda_flags flags;
    lk_error *err;
} moe_job;

static lk_status route(const moe_job *job) {
    lk_backend *b = job->b;
    const lk_cuda_moe *moe = &b->moe;
    const lk_cuda_route_args args = {.logits = lk_cuda_at(lk_cuda_value(b, job->node->in[1])),
                                     .ids = lk_cuda_at(moe->ids),
                                     .weights = lk_cuda_at(moe->weights),
                                     .n_rows = job->n_rows,
                                     .n_experts = job->p->n_experts,
                                     .n_used = job->p->n_used,
                                     .normalise = job->p->normalise,
                                     .flags = job->row_flags};
    const lk_status status =
        lk_cuda_launch(b, LK_CUDA_route, lk_cuda_shape_route(&args), &args, job->err);
    if (status != LK_OK) {
        return status;
    }
    const lk_cuda_group_args group = {.ids = lk_cuda_at(moe->ids),
                                      .step_row = job->row_flags.step_row,
                                      .first = lk_cuda_at(moe->first),
                                      .slot = lk_cuda_at(moe->slot),
                                      .row_of = lk_cuda_at(moe->row_of),
                                      .step_row_of = lk_cuda_at(moe->step_row_of),
                                      .expert_of = lk_cuda_at(moe->expert_of),
                                      .n_rows = job->n_rows,
                                      .n_used = job->p->n_used,
                                      .n_experts = job->p->n_experts};
    return lk_cuda_launch(b, LK_CUDA_group_experts, lk_cuda_shape_group_experts(&group), &group,
                          job->err);
}

static lk_status gather(const moe_job *job) {
    lk_backend *b = job->b;
    const lk_cuda_gather_args args = {.x = lk_cuda_at(lk_cuda_value(b, job->node->in[0])),
                                      .rows = lk_cuda_at(b->moe.row_of),
                                      .y = lk_cuda_at(b->moe.gathered),
                                      .n_rows = job->n,
                                      .width = job->width};
    return lk_cuda_launch(b, LK_CUDA_gather, lk_cuda_shape_gather(&args), &args, job->err);
}

/* Rows x beside the weights w, unless they were prepared for `before`. */
static lk_status prepare(const moe_job *job, const lk_weight *w, const lk_weight *before,
                         lk_cuda_ptr x, uint32_t width, const lk_cuda_prepared *to) {
    const lk_cuda_prep prep = lk_cuda_prep_of(w);
    if (before != NULL && lk_cuda_prep_of(before) == prep) {
        return LK_OK;
    }
    return lk_cuda_prepare(job->b, prep, x, job->n, width, &to[prep], job->flags, job->err);
}

/* The product with every expert's matrix, and its bias. */
static lk_status multiply(const moe_job *job, uint32_t i_weight, uint32_t i_bias,
                          const lk_cuda_prepared *in, lk_cuda_ptr x, uint32_t width,
                          lk_cuda_ptr y) {
    lk_backend *b = job->b;
    const lk_weight *weights[LK_CUDA_N_WEIGHTS];
    lk_cuda_weights_of(job->node, weights);
    const lk_weight *w = weights[i_weight];
    const lk_cuda_matrix m = {.w = lk_cuda_weight(b, job->node, i_weight),
                              .row_bytes = w->row_bytes,
                              .matrix_bytes = w->row_bytes * w->ne[1],
                              .first = lk_cuda_at(b->moe.first),
                              .n_matrices = job->p->n_experts,
                              .n = width,
                              .n_out = (uint32_t)w->ne[1]};
    const lk_status status =
        lk_cuda_multiply(b, w, &m, &in[lk_cuda_prep_of(w)], x, y, job->n, job->flags, job->err);
    if (status != LK_OK || weights[i_bias] == NULL) {
        return status;
    }
    const lk_cuda_add_args args = {.x = lk_cuda_at(y),
                                   .b = lk_cuda_weight(b, job->node, i_bias),
                                   .b_rows = lk_cuda_at(b->moe.expert_of),
                                   .y = lk_cuda_at(y),
                                   .b_stride = m.n_out,
                                   .n_rows = job->n,
                                   .width = m.n_out,
                                   .flags = job->flags};
    return lk_cuda_launch(b, LK_CUDA_add, lk_cuda_shape_add(&args), &args, job->err);
}

static lk_status activate(const moe_job *job) {
    lk_backend *b = job->b;
    const lk_cuda_gated_args args = {.gate = lk_cuda_at(b->moe.gate),
                                     .up = lk_cuda_at(b->moe.up),
                                     .y = lk_cuda_at(b->moe.gate),
                                     .kind = job->p->activation == LK_NODE_GELU_MUL ? LK_CUDA_GELU
                                             : job->p->activation == LK_NODE_CLAMPED_SILU_MUL
                                                 ? LK_CUDA_CLAMPED_SILU
                                                 : LK_CUDA_SILU,
                                     .n_rows = job->n,
                                     .width = job->p->n_ff,
                                     .flags = job->flags};
    return lk_cuda_launch(b, LK_CUDA_gated, lk_cuda_shape_gated(&args), &args, job->err);
}

static lk_status combine(const moe_job *job) {
    lk_backend *b = job->b;
    const lk_cuda_combine_args args = {.x = lk_cuda_at(b->moe.down),
                                       .slot = lk_cuda_at(b->moe.slot),
                                       .weights = lk_cuda_at(b->moe.weights),
                                       .y = lk_cuda_at(lk_cuda_value(b, job->node->out)),
                                       .n_rows = job->n_rows,
                                       .n_used = job->p->n_used,
                                       .width = job->width,
                                       .flags = job->row_flags};
    return lk_cuda_launch(b, LK_CUDA_combine_experts, lk_cuda_shape_combine_experts(&args), &args,
                          job->err);
}

static lk_status run_experts(const moe_job *job) {
    const lk_cuda_moe *moe = &job->b->moe;
    const lk_moe *p = job->p;
    lk_status status = gather(job);
    if (status == LK_OK) {
        status = prepare(job, p->gate, NULL, moe->gathered, job->width, moe->in);
    }
    if (status == LK_OK) {
        status = prepare(job, p->up, p->gate, moe->gathered, job->width, moe->in);
    }
    if (status == LK_OK) {
        status = multiply(job, LK_CUDA_W_GATE, LK_CUDA_W_GATE_BIAS, moe->in, moe->gathered,
                          job->width, moe->gate);
    }
    if (status == LK_OK) {
        status = multiply(job, LK_CUDA_W_UP, LK_CUDA_W_UP_BIAS, moe->in, moe->gathered, job->width,
                          moe->up);
    }
    if (status == LK_OK) {
        status = activate(job);
    }
    if (status == LK_OK) {
        status = prepare(job, p->down, NULL, moe->gate, p->n_ff, moe->hidden);
    }
    if (status == LK_OK) {
        status = multiply(job, LK_CUDA_W_DOWN, LK_CUDA_W_DOWN_BIAS, moe->hidden, moe->gate, p->n_ff,
                          moe->down);
    }
    return status;
}

lk_status lk_cuda_run_moe(lk_backend *b, const lk_node *node, lk_error *err) {
    const uint32_t n_rows = lk_cuda_space_of(b, node->out)->n_rows;
    moe_job job = {.b = b,
                   .node = node,
                   .p = &node->p.moe,
                   .n_rows = n_rows,
                   .n = n_rows * node->p.moe.n_used,
                   .width = b->graph->values[node->out].width,
                   .row_flags = lk_cuda_flags_of(b, node, node->out),
                   .err = err};
    job.flags = job.row_flags;
    job.flags.step_row = lk_cuda_at(b->moe.step_row_of);
    lk_status status = route(&job);
    if (status == LK_OK) {
        status = run_experts(&job);
    }
    return status == LK_OK ? combine(&job) : status;
}
