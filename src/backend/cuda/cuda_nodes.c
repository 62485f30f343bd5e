/* cuda_nodes.c - the operators: which kernels compute a node, with which arguments. */
#include <string.h>

#include "backend/cuda/cuda.h"
#include "base/error.h"

/* Whether there are kernels for the matrices of the experts. */
static lk_status check_experts(const lk_moe *moe, lk_error *err) {
    const lk_weight *const weights[] = {moe->gate, moe->up, moe->down};
    lk_status status = LK_OK;
    for (size_t i = 0; i < sizeof weights / sizeof weights[0] && status == LK_OK; i++) {
        status = lk_cuda_check_product(weights[i], err);
    }
    if (status == LK_OK && moe->n_used > LK_CUDA_MAX_USED) {
        return lk_fail(err, LK_E_UNSUPPORTED, LK_NOWHERE,
                       "a row uses %u experts; the CUDA backend computes %d at most", moe->n_used,
                       LK_CUDA_MAX_USED);
    }
    return status;
}

lk_status lk_cuda_check_node(const lk_node *node, lk_error *err) {
    switch (node->kind) {
    case LK_NODE_EMBED:
        return node->w != NULL ? lk_cuda_check_product(node->w, err) : LK_OK;
    case LK_NODE_MATMUL:
        return lk_cuda_check_product(node->w, err);
    case LK_NODE_MOE:
        return check_experts(&node->p.moe, err);
    case LK_NODE_COUNT:
        return lk_fail(err, LK_E_INTERNAL, LK_NOWHERE, "a node that is none");
    default:
        return LK_OK;
    }
}

/* ---- arguments ---- */

uint32_t lk_cuda_index(const lk_backend *b, const lk_node *node) {
    return (uint32_t)(node - b->graph->nodes);
}

void *lk_cuda_weight(const lk_backend *b, const lk_node *node, uint32_t which) {
    return lk_cuda_at(b->nodes[lk_cuda_index(b, node)].weights[which]);
}

static void *value(const lk_backend *b, lk_value v) {
    return lk_cuda_at(lk_cuda_value(b, v));
}

static uint32_t width_of(const lk_backend *b, lk_value v) {
    return b->graph->values[v].width;
}

lk_cuda_flags lk_cuda_flags_of(lk_backend *b, const lk_node *node, lk_value v) {
    return (lk_cuda_flags){.bad = lk_cuda_at(b->bad),
                           .step_row = lk_cuda_at(lk_cuda_space_of(b, v)->step_row.at),
                           .node = lk_cuda_index(b, node)};
}

static lk_cuda_flags flags_of(lk_backend *b, const lk_node *node) {
    return lk_cuda_flags_of(b, node, node->out);
}

static uint32_t n_rows_of(lk_backend *b, const lk_node *node) {
    return lk_cuda_space_of(b, node->out)->n_rows;
}

/* ---- operators ---- */

/* Vectors that the rows bring, one behind the other; returns how many. */
static uint32_t gather_inputs(lk_backend *b, size_t width) {
    float *staging = (float *)(void *)b->staging;
    uint32_t n = 0;
    for (uint32_t r = 0; r < b->step->n_rows; r++) {
        if (b->step->rows[r].embedding != NULL) {
            memcpy(staging + n++ * width, b->step->rows[r].embedding, width * sizeof(float));
        }
    }
    return n;
}

/* Rows of an encoder: all of them come in. */
static lk_status run_input(lk_backend *b, const lk_node *node, lk_error *err) {
    const uint32_t width = width_of(b, node->out);
    const size_t n = gather_inputs(b, width);
    const lk_status status =
        lk_cuda_copy_in(b, lk_cuda_value(b, node->out), b->staging, n * width * sizeof(float), err);
    if (status != LK_OK) {
        return status;
    }
    const lk_cuda_check_args args = {.x = value(b, node->out),
                                     .n_rows = b->step->n_rows,
                                     .width = width,
                                     .flags = flags_of(b, node)};
    return lk_cuda_launch(b, LK_CUDA_check, lk_cuda_shape_check(&args), &args, err);
}

static lk_status run_embed(lk_backend *b, const lk_node *node, lk_error *err) {
    const uint32_t width = width_of(b, node->out);
    const size_t n = gather_inputs(b, width);
    lk_status status = LK_OK;
    if (n != 0) {
        status = lk_cuda_copy_in(b, b->inputs, b->staging, n * width * sizeof(float), err);
    }
    const lk_cuda_embed_args args = {.table = lk_cuda_weight(b, node, LK_CUDA_W),
                                     .row_bytes = node->w->row_bytes,
                                     .type = node->w->format->type,
                                     .from = lk_cuda_at(b->rows.from.at),
                                     .embeddings = lk_cuda_at(b->inputs),
                                     .y = value(b, node->out),
                                     .n_rows = b->step->n_rows,
                                     .width = width,
                                     .flags = flags_of(b, node)};
    return status == LK_OK
               ? lk_cuda_launch(b, LK_CUDA_embed, lk_cuda_shape_embed(&args), &args, err)
               : status;
}

/* Residual, bias and position: the rows that are added differ. */
static lk_status run_add(lk_backend *b, const lk_node *node, lk_error *err) {
    lk_cuda_space *space = lk_cuda_space_of(b, node->out);
    const uint32_t width = width_of(b, node->out);
    lk_cuda_add_args args = {.x = value(b, node->in[0]),
                             .y = value(b, node->out),
                             .n_rows = space->n_rows,
                             .width = width,
                             .flags = flags_of(b, node)};
    if (node->kind == LK_NODE_ADD) {
        args.b = value(b, node->in[1]);
        args.b_stride = width;
    } else {
        args.b = lk_cuda_weight(b, node, LK_CUDA_W);
        args.b_stride = node->kind == LK_NODE_POSITION ? width : 0;
        args.b_rows = node->kind == LK_NODE_POSITION ? lk_cuda_at(space->in_run.at) : NULL;
    }
    return lk_cuda_launch(b, LK_CUDA_add, lk_cuda_shape_add(&args), &args, err);
}

static lk_status run_gelu_erf(lk_backend *b, const lk_node *node, lk_error *err) {
    const lk_cuda_unary_args args = {.x = value(b, node->in[0]),
                                     .y = value(b, node->out),
                                     .n_rows = lk_cuda_space_of(b, node->out)->n_rows,
                                     .width = width_of(b, node->out),
                                     .flags = flags_of(b, node)};
    return lk_cuda_launch(b, LK_CUDA_gelu_erf, lk_cuda_shape_gelu_erf(&args), &args, err);
}

static lk_status run_layer_norm(lk_backend *b, const lk_node *node, lk_error *err) {
    const uint32_t width = width_of(b, node->out);
    const lk_cuda_norm_args args = {.x = value(b, node->in[0]),
                                    .w = lk_cuda_weight(b, node, LK_CUDA_W),
                                    .b = lk_cuda_weight(b, node, LK_CUDA_W_BIAS),
                                    .y = value(b, node->out),
                                    .eps = node->p.layer_norm.eps,
                                    .n_rows = lk_cuda_space_of(b, node->out)->n_rows,
                                    .width = width,
                                    .group = width,
                                    .flags = flags_of(b, node)};
    return lk_cuda_launch(b, LK_CUDA_layer_norm, lk_cuda_shape_layer_norm(&args), &args, err);
}

static lk_status run_neighbours(lk_backend *b, const lk_node *node, lk_error *err) {
    const lk_cuda_neighbours_args args = {.x = value(b, node->in[0]),
                                          .y = value(b, node->out),
                                          .rows =
                                              lk_cuda_at(b->nodes[lk_cuda_index(b, node)].rows.at),
                                          .n_rows = lk_cuda_space_of(b, node->out)->n_rows,
                                          .width = width_of(b, node->in[0]),
                                          .n_taps = node->p.neighbours.n_taps};
    return lk_cuda_launch(b, LK_CUDA_neighbours, lk_cuda_shape_neighbours(&args), &args, err);
}

static lk_status run_mean_of_two(lk_backend *b, const lk_node *node, lk_error *err) {
    const lk_cuda_mean_args args = {.x = value(b, node->in[0]),
                                    .y = value(b, node->out),
                                    .from = lk_cuda_at(b->nodes[lk_cuda_index(b, node)].rows.at),
                                    .n_rows = lk_cuda_space_of(b, node->out)->n_rows,
                                    .width = width_of(b, node->out),
                                    .flags = flags_of(b, node)};
    return lk_cuda_launch(b, LK_CUDA_mean_of_two, lk_cuda_shape_mean_of_two(&args), &args, err);
}

static lk_status run_run_attention(lk_backend *b, const lk_node *node, lk_error *err) {
    const lk_cuda_space *space = lk_cuda_space_of(b, node->out);
    const lk_cuda_run_attention_args args = {.q = value(b, node->in[0]),
                                             .k = value(b, node->in[1]),
                                             .v = value(b, node->in[2]),
                                             .y = value(b, node->out),
                                             .rows = lk_cuda_at(space->run_rows.at),
                                             .n_rows = space->n_rows,
                                             .n_heads = node->p.attn.n_heads,
                                             .n_kv_heads = node->p.attn.n_kv_heads,
                                             .head_dim = node->p.attn.head_dim,
                                             .scale = node->p.attn.scale,
                                             .soft_cap = node->p.attn.soft_cap,
                                             .flags = flags_of(b, node)};
    return lk_cuda_launch(b, LK_CUDA_run_attention, lk_cuda_shape_run_attention(&args), &args, err);
}

static lk_status run_rms_norm(lk_backend *b, const lk_node *node, lk_error *err) {
    const lk_cuda_norm_args args = {.x = value(b, node->in[0]),
                                    .w = lk_cuda_weight(b, node, LK_CUDA_W),
                                    .y = value(b, node->out),
                                    .eps = node->p.norm.eps,
                                    .n_rows = n_rows_of(b, node),
                                    .width = width_of(b, node->out),
                                    .group = node->p.norm.group,
                                    .flags = flags_of(b, node)};
    return lk_cuda_launch(b, LK_CUDA_rms_norm, lk_cuda_shape_rms_norm(&args), &args, err);
}

static lk_status run_rope(lk_backend *b, const lk_node *node, lk_error *err) {
    const lk_rope_table *table = &b->graph->ropes[node->p.rope.i_rope];
    const lk_cuda_rope_args args = {.x = value(b, node->in[0]),
                                    .y = value(b, node->out),
                                    .cos_sin = lk_cuda_at(b->ropes[node->p.rope.i_rope].at),
                                    .n_rows = n_rows_of(b, node),
                                    .width = width_of(b, node->out),
                                    .head_dim = node->p.rope.head_dim,
                                    .n_rot = table->n_rot,
                                    .order = (uint32_t)table->order,
                                    .flags = flags_of(b, node)};
    return lk_cuda_launch(b, LK_CUDA_rope, lk_cuda_shape_rope(&args), &args, err);
}

static lk_status run_gated(lk_backend *b, const lk_node *node, lk_error *err) {
    const lk_cuda_gated_args args = {.gate = value(b, node->in[0]),
                                     .up = value(b, node->in[1]),
                                     .y = value(b, node->out),
                                     .kind = node->kind == LK_NODE_GELU_MUL ? LK_CUDA_GELU
                                             : node->kind == LK_NODE_CLAMPED_SILU_MUL
                                                 ? LK_CUDA_CLAMPED_SILU
                                                 : LK_CUDA_SILU,
                                     .n_rows = n_rows_of(b, node),
                                     .width = width_of(b, node->out),
                                     .flags = flags_of(b, node)};
    return lk_cuda_launch(b, LK_CUDA_gated, lk_cuda_shape_gated(&args), &args, err);
}

/* One factor for all, one for each row (temperature), or a gate for each row. */
static lk_status run_scale(lk_backend *b, const lk_node *node, lk_error *err) {
    lk_cuda_scale_args args = {.x = value(b, node->in[0]),
                               .y = value(b, node->out),
                               .n_rows = n_rows_of(b, node),
                               .width = width_of(b, node->out),
                               .flags = flags_of(b, node)};
    if (node->kind == LK_NODE_ROW_GATE) {
        args.gates = value(b, node->in[1]);
    } else if (node->kind == LK_NODE_TEMPERATURE) {
        args.factors = lk_cuda_at(b->nodes[lk_cuda_index(b, node)].rows.at);
    } else {
        args.factor = node->p.factor;
    }
    return lk_cuda_launch(b, LK_CUDA_scale, lk_cuda_shape_scale(&args), &args, err);
}

static lk_status run_softcap(lk_backend *b, const lk_node *node, lk_error *err) {
    const lk_cuda_unary_args args = {.x = value(b, node->in[0]),
                                     .y = value(b, node->out),
                                     .n_rows = n_rows_of(b, node),
                                     .width = width_of(b, node->out),
                                     .factor = node->p.factor,
                                     .flags = flags_of(b, node)};
    return lk_cuda_launch(b, LK_CUDA_softcap, lk_cuda_shape_softcap(&args), &args, err);
}

static lk_status gather(lk_backend *b, lk_value x, lk_cuda_ptr rows, uint32_t n_rows, void *y,
                        lk_error *err) {
    const lk_cuda_gather_args args = {.x = value(b, x),
                                      .rows = lk_cuda_at(rows),
                                      .y = y,
                                      .n_rows = n_rows,
                                      .width = width_of(b, x)};
    return n_rows == 0 ? LK_OK
                       : lk_cuda_launch(b, LK_CUDA_gather, lk_cuda_shape_gather(&args), &args, err);
}

static lk_status run_select(lk_backend *b, const lk_node *node, lk_error *err) {
    return gather(b, node->in[0], lk_cuda_space_of(b, node->out)->step_row.at, n_rows_of(b, node),
                  value(b, node->out), err);
}

static lk_status run_select_logits(lk_backend *b, const lk_node *node, lk_error *err) {
    const lk_status status =
        gather(b, node->in[0], b->rows.hidden.at, b->step->n_hidden, lk_cuda_at(b->hidden), err);
    return status == LK_OK
               ? gather(b, node->in[0], b->rows.logits.at, b->step->n_out, value(b, node->out), err)
               : status;
}

lk_status lk_cuda_run_node(lk_backend *b, const lk_node *node, lk_error *err) {
    static lk_status (*const operators[LK_NODE_COUNT])(lk_backend *, const lk_node *,
                                                       lk_error *) = {
        [LK_NODE_EMBED] = run_embed,
        [LK_NODE_RMS_NORM] = run_rms_norm,
        [LK_NODE_LAYER_NORM] = run_layer_norm,
        [LK_NODE_MATMUL] = lk_cuda_run_matmul,
        [LK_NODE_BIAS] = run_add,
        [LK_NODE_ADD] = run_add,
        [LK_NODE_SILU_MUL] = run_gated,
        [LK_NODE_GELU_MUL] = run_gated,
        [LK_NODE_CLAMPED_SILU_MUL] = run_gated,
        [LK_NODE_GELU_ERF] = run_gelu_erf,
        [LK_NODE_POSITION] = run_add,
        [LK_NODE_SCALE] = run_scale,
        [LK_NODE_SOFTCAP] = run_softcap,
        [LK_NODE_ROW_GATE] = run_scale,
        [LK_NODE_TEMPERATURE] = run_scale,
        [LK_NODE_ROPE] = run_rope,
        [LK_NODE_ATTENTION] = lk_cuda_run_attention,
        [LK_NODE_RUN_ATTENTION] = run_run_attention,
        [LK_NODE_NEIGHBOURS] = run_neighbours,
        [LK_NODE_MEAN_OF_TWO] = run_mean_of_two,
        [LK_NODE_MOE] = lk_cuda_run_moe,
        [LK_NODE_SELECT_OUT] = run_select,
        [LK_NODE_SELECT_LOGITS] = run_select_logits,
    };
    if (node->kind == LK_NODE_EMBED && b->graph->max_run != 0) {
        return run_input(b, node, err);
    }
    return operators[node->kind](b, node, err);
}
