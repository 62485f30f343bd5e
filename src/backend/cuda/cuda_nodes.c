/* cuda_nodes.c - the operators: which kernels compute a node, with which arguments. */
#include <string.h>

#include "backend/cuda/cuda.h"
#include "base/error.h"

enum { Q_GROUP = 32 };

lk_cuda_prep lk_cuda_prep_of(const lk_weight *w) {
    switch (w->format->type) {
    case LK_FORMAT_F16:
        return LK_CUDA_PREP_R13;
    case LK_FORMAT_BF16:
        return LK_CUDA_PREP_R16B;
    case LK_FORMAT_Q8_0:
        return LK_CUDA_PREP_Q32;
    default:
        return LK_CUDA_PREP_NONE;
    }
}

static lk_status check_product(const lk_node *node, lk_error *err) {
    switch (node->w->format->type) {
    case LK_FORMAT_F32:
    case LK_FORMAT_F16:
    case LK_FORMAT_BF16:
    case LK_FORMAT_Q8_0:
        return LK_OK;
    default:
        return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT(node->w->name),
                       "tensor %s is %s; the CUDA backend multiplies F32, F16, BF16 and Q8_0",
                       node->w->name, node->w->format->name);
    }
}

lk_status lk_cuda_check_node(const lk_node *node, lk_error *err) {
    switch (node->kind) {
    case LK_NODE_EMBED: /* of an encoder: rows that come in */
    case LK_NODE_LAYER_NORM:
    case LK_NODE_BIAS:
    case LK_NODE_ADD:
    case LK_NODE_GELU_ERF:
    case LK_NODE_POSITION:
    case LK_NODE_RUN_ATTENTION:
    case LK_NODE_NEIGHBOURS:
    case LK_NODE_MEAN_OF_TWO:
        return LK_OK;
    case LK_NODE_MATMUL:
        return check_product(node, err);
    default:
        return lk_fail(err, LK_E_UNSUPPORTED, LK_NOWHERE,
                       "the CUDA backend does not compute the operator %s",
                       lk_node_name(node->kind));
    }
}

/* ---- arguments ---- */

static uint32_t index_of(const lk_backend *b, const lk_node *node) {
    return (uint32_t)(node - b->graph->nodes);
}

static void *weight(const lk_backend *b, const lk_node *node) {
    return lk_cuda_at(b->weights[2 * index_of(b, node)]);
}

static void *value(const lk_backend *b, lk_value v) {
    return lk_cuda_at(lk_cuda_value(b, v));
}

static uint32_t width_of(const lk_backend *b, lk_value v) {
    return b->graph->values[v].width;
}

/* Flags for rows of the space of `v`. */
static lk_cuda_flags flags_of(lk_backend *b, const lk_node *node, lk_value v) {
    return (lk_cuda_flags){.bad = lk_cuda_at(b->bad),
                           .step_row = lk_cuda_at(lk_cuda_space_of(b, v)->at_step_row),
                           .node = index_of(b, node)};
}

/* ---- operators ---- */

static lk_status run_input(lk_backend *b, const lk_node *node, lk_error *err) {
    const size_t width = width_of(b, node->out);
    const uint32_t n_rows = b->step->n_rows;
    for (uint32_t r = 0; r < n_rows; r++) {
        memcpy(b->staging + r * width, b->step->rows[r].embedding, width * sizeof(float));
    }
    const lk_status status =
        lk_cuda_check(&b->driver,
                      b->driver.copy_in(lk_cuda_value(b, node->out), b->staging,
                                        n_rows * width * sizeof(float), b->stream),
                      "copying rows", err);
    if (status != LK_OK) {
        return status;
    }
    const lk_cuda_check_args args = {.x = value(b, node->out),
                                     .n_rows = n_rows,
                                     .width = (uint32_t)width,
                                     .flags = flags_of(b, node, node->out)};
    return lk_cuda_launch(b, LK_CUDA_check, lk_cuda_shape_check(&args), &args, err);
}

static lk_status prepare(lk_backend *b, const lk_node *node, lk_cuda_prep prep, lk_error *err) {
    lk_cuda_prepared *to = &b->prepared[prep];
    const lk_value v = node->in[0];
    if (prep == LK_CUDA_PREP_NONE || to->value == v) {
        return LK_OK;
    }
    to->value = v;
    const uint32_t n_rows = lk_cuda_space_of(b, v)->n_rows;
    if (prep == LK_CUDA_PREP_Q32) {
        const lk_cuda_quantize_args args = {.x = value(b, v),
                                            .q = lk_cuda_at(to->q),
                                            .d = lk_cuda_at(to->d),
                                            .sums = lk_cuda_at(to->sums),
                                            .n_rows = n_rows,
                                            .width = width_of(b, v),
                                            .group = Q_GROUP,
                                            .flags = flags_of(b, node, v)};
        return lk_cuda_launch(b, LK_CUDA_act_quantize, lk_cuda_shape_act_quantize(&args), &args,
                              err);
    }
    const lk_cuda_round_args args = {.x = value(b, v),
                                     .y = lk_cuda_at(to->x),
                                     .n_rows = n_rows,
                                     .width = width_of(b, v),
                                     .mode = prep == LK_CUDA_PREP_R13 ? LK_ROUND_13 : LK_ROUND_16B,
                                     .flags = flags_of(b, node, v)};
    return lk_cuda_launch(b, LK_CUDA_act_round, lk_cuda_shape_act_round(&args), &args, err);
}

static void count(lk_backend *b, uint32_t n_rows) {
    const uint32_t i_class = n_rows <= 4 ? n_rows - 1 : n_rows <= 16 ? 4 : 5;
    b->stats.kernel_rows[i_class]++;
    b->stats.mixed_calls[i_class] += b->step->n_runs > 1;
}

static lk_status multiply(lk_backend *b, const lk_node *node, lk_cuda_prep prep, lk_error *err) {
    const lk_cuda_matrix m = {.w = weight(b, node),
                              .row_bytes = node->w->row_bytes,
                              .n_matrices = 1,
                              .n = width_of(b, node->in[0]),
                              .n_out = width_of(b, node->out)};
    const uint32_t n_rows = lk_cuda_space_of(b, node->out)->n_rows;
    const lk_cuda_prepared *in = &b->prepared[prep];
    count(b, n_rows);
    if (prep == LK_CUDA_PREP_Q32) {
        const lk_cuda_matmul_quant_args args = {.m = m,
                                                .q = lk_cuda_at(in->q),
                                                .d = lk_cuda_at(in->d),
                                                .sums = lk_cuda_at(in->sums),
                                                .y = value(b, node->out),
                                                .y_stride = m.n_out,
                                                .n_rows = n_rows,
                                                .flags = flags_of(b, node, node->out)};
        const lk_cuda_choice choice = lk_cuda_choose_quant(node->w->format->type, &args);
        return lk_cuda_launch(b, choice.kernel, choice.shape, &args, err);
    }
    const bool is_plain = prep == LK_CUDA_PREP_NONE;
    const lk_cuda_matmul_args args = {.m = m,
                                      .x = is_plain ? value(b, node->in[0]) : lk_cuda_at(in->x),
                                      .y = value(b, node->out),
                                      .y_stride = m.n_out,
                                      .n_rows = n_rows,
                                      .flags = flags_of(b, node, node->out)};
    const lk_cuda_choice choice = lk_cuda_choose_float(node->w->format->type, &args);
    return lk_cuda_launch(b, choice.kernel, choice.shape, &args, err);
}

static lk_status run_matmul(lk_backend *b, const lk_node *node, lk_error *err) {
    const lk_cuda_prep prep = lk_cuda_prep_of(node->w);
    const lk_status status = prepare(b, node, prep, err);
    return status == LK_OK ? multiply(b, node, prep, err) : status;
}

/* Residual, bias and position: the rows that are added differ. */
static lk_status run_add(lk_backend *b, const lk_node *node, lk_error *err) {
    lk_cuda_space *space = lk_cuda_space_of(b, node->out);
    const uint32_t width = width_of(b, node->out);
    lk_cuda_add_args args = {.x = value(b, node->in[0]),
                             .y = value(b, node->out),
                             .n_rows = space->n_rows,
                             .width = width,
                             .flags = flags_of(b, node, node->out)};
    if (node->kind == LK_NODE_ADD) {
        args.b = value(b, node->in[1]);
        args.b_stride = width;
    } else {
        args.b = weight(b, node);
        args.b_stride = node->kind == LK_NODE_POSITION ? width : 0;
        args.b_rows = node->kind == LK_NODE_POSITION ? lk_cuda_at(space->at_in_run) : NULL;
    }
    return lk_cuda_launch(b, LK_CUDA_add, lk_cuda_shape_add(&args), &args, err);
}

static lk_status run_gelu_erf(lk_backend *b, const lk_node *node, lk_error *err) {
    const lk_cuda_unary_args args = {.x = value(b, node->in[0]),
                                     .y = value(b, node->out),
                                     .n_rows = lk_cuda_space_of(b, node->out)->n_rows,
                                     .width = width_of(b, node->out),
                                     .flags = flags_of(b, node, node->out)};
    return lk_cuda_launch(b, LK_CUDA_gelu_erf, lk_cuda_shape_gelu_erf(&args), &args, err);
}

static lk_status run_layer_norm(lk_backend *b, const lk_node *node, lk_error *err) {
    const uint32_t width = width_of(b, node->out);
    const lk_cuda_norm_args args = {.x = value(b, node->in[0]),
                                    .w = weight(b, node),
                                    .b = lk_cuda_at(b->weights[2 * index_of(b, node) + 1]),
                                    .y = value(b, node->out),
                                    .eps = node->p.layer_norm.eps,
                                    .n_rows = lk_cuda_space_of(b, node->out)->n_rows,
                                    .width = width,
                                    .group = width,
                                    .flags = flags_of(b, node, node->out)};
    return lk_cuda_launch(b, LK_CUDA_layer_norm, lk_cuda_shape_layer_norm(&args), &args, err);
}

static lk_status run_neighbours(lk_backend *b, const lk_node *node, lk_error *err) {
    const lk_cuda_neighbours_args args = {.x = value(b, node->in[0]),
                                          .y = value(b, node->out),
                                          .rows = lk_cuda_at(b->node_rows[index_of(b, node)].at),
                                          .n_rows = lk_cuda_space_of(b, node->out)->n_rows,
                                          .width = width_of(b, node->in[0]),
                                          .n_taps = node->p.neighbours.n_taps};
    return lk_cuda_launch(b, LK_CUDA_neighbours, lk_cuda_shape_neighbours(&args), &args, err);
}

static lk_status run_mean_of_two(lk_backend *b, const lk_node *node, lk_error *err) {
    const lk_cuda_mean_args args = {.x = value(b, node->in[0]),
                                    .y = value(b, node->out),
                                    .from = lk_cuda_at(b->node_rows[index_of(b, node)].at),
                                    .n_rows = lk_cuda_space_of(b, node->out)->n_rows,
                                    .width = width_of(b, node->out),
                                    .flags = flags_of(b, node, node->out)};
    return lk_cuda_launch(b, LK_CUDA_mean_of_two, lk_cuda_shape_mean_of_two(&args), &args, err);
}

static lk_status run_attention(lk_backend *b, const lk_node *node, lk_error *err) {
    const lk_cuda_space *space = lk_cuda_space_of(b, node->out);
    const lk_cuda_run_attention_args args = {.q = value(b, node->in[0]),
                                             .k = value(b, node->in[1]),
                                             .v = value(b, node->in[2]),
                                             .y = value(b, node->out),
                                             .rows = lk_cuda_at(space->at_run_rows),
                                             .n_rows = space->n_rows,
                                             .n_heads = node->p.attn.n_heads,
                                             .n_kv_heads = node->p.attn.n_kv_heads,
                                             .head_dim = node->p.attn.head_dim,
                                             .scale = node->p.attn.scale,
                                             .soft_cap = node->p.attn.soft_cap,
                                             .flags = flags_of(b, node, node->out)};
    return lk_cuda_launch(b, LK_CUDA_run_attention, lk_cuda_shape_run_attention(&args), &args, err);
}

lk_status lk_cuda_run_node(lk_backend *b, const lk_node *node, lk_error *err) {
    switch (node->kind) {
    case LK_NODE_EMBED:
        return run_input(b, node, err);
    case LK_NODE_MATMUL:
        return run_matmul(b, node, err);
    case LK_NODE_BIAS:
    case LK_NODE_ADD:
    case LK_NODE_POSITION:
        return run_add(b, node, err);
    case LK_NODE_GELU_ERF:
        return run_gelu_erf(b, node, err);
    case LK_NODE_LAYER_NORM:
        return run_layer_norm(b, node, err);
    case LK_NODE_NEIGHBOURS:
        return run_neighbours(b, node, err);
    case LK_NODE_MEAN_OF_TWO:
        return run_mean_of_two(b, node, err);
    case LK_NODE_RUN_ATTENTION:
        return run_attention(b, node, err);
    default: /* lk_cuda_check_node refused it */
        return lk_fail(err, LK_E_INTERNAL, LK_NOWHERE, "operator %s", lk_node_name(node->kind));
    }
}
