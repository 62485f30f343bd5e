/* cuda_matmul.c - matrix products: activations are prepared once per value and kind, then a kernel
 * computes all outputs over all rows, of one matrix or of one for each expert. */
#include "backend/cuda/cuda.h"
#include "base/error.h"

lk_cuda_prep lk_cuda_prep_of(const lk_weight *w) {
    switch (w->format->type) {
    case LK_FORMAT_F32:
        return LK_CUDA_PREP_NONE;
    case LK_FORMAT_F16:
        return LK_CUDA_PREP_R13;
    case LK_FORMAT_BF16:
        return LK_CUDA_PREP_R16B;
    default:
        return w->format->act_group == 32 ? LK_CUDA_PREP_Q32 : LK_CUDA_PREP_Q256;
    }
}

uint32_t lk_cuda_group_of(lk_cuda_prep prep) {
    return prep == LK_CUDA_PREP_Q32 ? 32u : 256u;
}

static bool is_quantised(lk_cuda_prep prep) {
    return prep == LK_CUDA_PREP_Q32 || prep == LK_CUDA_PREP_Q256;
}

lk_status lk_cuda_check_product(const lk_weight *w, lk_error *err) {
    const lk_cuda_matmul_quant_args one = {.m = {.n_matrices = 1, .n_out = 1}, .n_rows = 1};
    if (!is_quantised(lk_cuda_prep_of(w)) ||
        lk_cuda_choose_quant(w->format->type, &one).kernel != LK_CUDA_N_KERNELS) {
        return LK_OK;
    }
    return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT(w->name),
                   "tensor %s is %s, a format that the CUDA backend does not multiply", w->name,
                   w->format->name);
}

lk_status lk_cuda_prepare(const lk_backend *b, lk_cuda_prep prep, lk_cuda_ptr x, uint32_t n_rows,
                          uint32_t width, const lk_cuda_prepared *to, lk_cuda_flags flags,
                          lk_error *err) {
    if (prep == LK_CUDA_PREP_NONE) {
        return LK_OK;
    }
    if (is_quantised(prep)) {
        const lk_cuda_quantize_args args = {.x = lk_cuda_at(x),
                                            .q = lk_cuda_at(to->q),
                                            .d = lk_cuda_at(to->d),
                                            .sums = lk_cuda_at(to->sums),
                                            .n_rows = n_rows,
                                            .width = width,
                                            .group = lk_cuda_group_of(prep),
                                            .flags = flags};
        return lk_cuda_launch(b, LK_CUDA_act_quantize, lk_cuda_shape_act_quantize(&args), &args,
                              err);
    }
    const lk_cuda_round_args args = {.x = lk_cuda_at(x),
                                     .y = lk_cuda_at(to->x),
                                     .n_rows = n_rows,
                                     .width = width,
                                     .mode = prep == LK_CUDA_PREP_R13 ? LK_ROUND_13 : LK_ROUND_16B,
                                     .flags = flags};
    return lk_cuda_launch(b, LK_CUDA_act_round, lk_cuda_shape_act_round(&args), &args, err);
}

/* One call for all rows: the counters say how many share the weights that are read. */
static void count(lk_backend *b, uint32_t n_rows) {
    const uint32_t i_class = n_rows <= 4 ? n_rows - 1 : n_rows <= 16 ? 4 : 5;
    b->stats.kernel_rows[i_class]++;
    b->stats.mixed_calls[i_class] += b->step->n_runs > 1 && n_rows > 1;
}

lk_status lk_cuda_multiply(lk_backend *b, const lk_weight *w, const lk_cuda_matrix *m,
                           const lk_cuda_prepared *in, lk_cuda_ptr x, lk_cuda_ptr y,
                           uint32_t n_rows, lk_cuda_flags flags, lk_error *err) {
    const lk_cuda_prep prep = lk_cuda_prep_of(w);
    count(b, n_rows);
    if (is_quantised(prep)) {
        const lk_cuda_matmul_quant_args args = {.m = *m,
                                                .q = lk_cuda_at(in->q),
                                                .d = lk_cuda_at(in->d),
                                                .sums = lk_cuda_at(in->sums),
                                                .y = lk_cuda_at(y),
                                                .y_stride = m->n_out,
                                                .n_rows = n_rows,
                                                .flags = flags};
        const lk_cuda_choice choice = lk_cuda_choose_quant(w->format->type, &args);
        return lk_cuda_launch(b, choice.kernel, choice.shape, &args, err);
    }
    const lk_cuda_matmul_args args = {.m = *m,
                                      .x = lk_cuda_at(prep == LK_CUDA_PREP_NONE ? x : in->x),
                                      .y = lk_cuda_at(y),
                                      .y_stride = m->n_out,
                                      .n_rows = n_rows,
                                      .flags = flags};
    const lk_cuda_choice choice = lk_cuda_choose_float(w->format->type, &args);
    return lk_cuda_launch(b, choice.kernel, choice.shape, &args, err);
}

lk_status lk_cuda_run_matmul(lk_backend *b, const lk_node *node, lk_error *err) {
    const lk_value v = node->in[0];
    const lk_cuda_prep prep = lk_cuda_prep_of(node->w);
    lk_cuda_prepared *in = &b->prepared[prep];
    const uint32_t n_rows = lk_cuda_space_of(b, v)->n_rows;
    const lk_cuda_matrix m = {.w = lk_cuda_weight(b, node, LK_CUDA_W),
                              .row_bytes = node->w->row_bytes,
                              .n_matrices = 1,
                              .n = b->graph->values[v].width,
                              .n_out = b->graph->values[node->out].width};
    lk_status status = LK_OK;
    if (prep != LK_CUDA_PREP_NONE && in->value != v) {
        in->value = v;
        status = lk_cuda_prepare(b, prep, lk_cuda_value(b, v), n_rows, m.n, in,
                                 lk_cuda_flags_of(b, node, v), err);
    }
    if (status == LK_OK) {
        status =
            lk_cuda_multiply(b, node->w, &m, in, lk_cuda_value(b, v), lk_cuda_value(b, node->out),
                             n_rows, lk_cuda_flags_of(b, node, node->out), err);
    }
    return status;
}
