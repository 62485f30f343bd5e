/* cpu_rowwise.c - the row-wise operators and the selection of output rows. A run of row-wise nodes
 * is taken through one block of rows after the other, so that a block stays in the cache; the
 * memory plan keeps all values of such a run apart. Every output row is checked. */
#include "backend/cpu/cpu.h"

#include <string.h>

#include "ops/math.h"
#include "ops/rope.h"

typedef struct row_wise_job {
    lk_backend *b;
    const lk_node *begin;
    const lk_node *end;
} row_wise_job;

static void embed_row(const lk_backend *b, const lk_node *node, uint32_t r, float *y, size_t n) {
    const lk_weight *w = node->w;
    if (b->step->rows[r].embedding != NULL) {
        memcpy(y, b->step->rows[r].embedding, n * sizeof *y);
        return;
    }
    w->format->decode(w->data + (size_t)b->step->rows[r].token * w->row_bytes, y, n);
}

static void norm_row(const lk_backend *b, const lk_node *node, const float *x, float *y, size_t n,
                     uint32_t *flag) {
    const size_t group = node->p.norm.group;
    for (size_t i = 0; i < n; i += group) {
        b->kernels.rms_norm(x + i, (const float *)(const void *)node->w->data, node->p.norm.eps,
                            group, y + i, flag);
    }
}

static void rope_row(const lk_backend *b, const lk_node *node, uint32_t r, const float *x, float *y,
                     size_t n) {
    const lk_rope_table *table = &b->graph->ropes[node->p.rope.i_rope];
    const float *cos_sin = b->rope[node->p.rope.i_rope] + (size_t)r * table->n_rot;
    if (x != y) {
        memcpy(y, x, n * sizeof *y);
    }
    for (size_t i = 0; i < n; i += node->p.rope.head_dim) {
        b->kernels.rope(y + i, table->n_rot, table->order, cos_sin);
    }
}

/* The table's row for row r of the space. */
static const float *position_row(const lk_backend *b, const lk_node *node, lk_row_space space,
                                 uint32_t r, size_t n) {
    const uint32_t i_run = lk_cpu_run_of(b, space, r);
    const float *table = (const float *)(const void *)node->w->data;
    return table + (size_t)(r - lk_cpu_run_first(b, space, i_run)) * n;
}

lk_gated_fn *lk_cpu_gated(const lk_backend *b, lk_node_kind activation) {
    switch (activation) {
    case LK_NODE_GELU_MUL:
        return b->kernels.gelu_mul;
    case LK_NODE_CLAMPED_SILU_MUL:
        return b->kernels.clamped_silu_mul;
    default:
        return b->kernels.silu_mul;
    }
}

/* The factor of a row: the logistic of its gate. */
static float logistic(float gate) {
    return 1.0f / (1.0f + lk_expf(-gate));
}

/* The factor of a position (section 7). */
static float temperature(const lk_node *node, int64_t pos) {
    const int64_t n = pos / node->p.temperature.period;
    return n == 0 ? 1.0f : (float)(1.0 + node->p.temperature.scale * lk_log((double)n + 1.0));
}

static void run_row(lk_backend *b, const lk_node *node, uint32_t r) {
    const lk_value_info *out = &b->graph->values[node->out];
    const size_t n = out->width;
    float *y = lk_cpu_row(b, node->out, r);
    const float *x = node->in[0] >= 0 ? lk_cpu_row(b, node->in[0], r) : NULL;
    uint32_t flag = 0;
    switch (node->kind) {
    case LK_NODE_EMBED:
        embed_row(b, node, r, y, n);
        break;
    case LK_NODE_RMS_NORM:
        norm_row(b, node, x, y, n, &flag);
        break;
    case LK_NODE_LAYER_NORM:
        b->kernels.layer_norm(x, (const float *)(const void *)node->w->data,
                              (const float *)(const void *)node->p.layer_norm.b->data,
                              node->p.layer_norm.eps, n, y, &flag);
        break;
    case LK_NODE_GELU_ERF:
        b->kernels.gelu_erf(x, n, y);
        break;
    case LK_NODE_POSITION:
        b->kernels.add(x, position_row(b, node, out->space, r, n), n, y);
        break;
    case LK_NODE_BIAS:
        b->kernels.add(x, (const float *)(const void *)node->w->data, n, y);
        break;
    case LK_NODE_ADD:
        b->kernels.add(x, lk_cpu_row(b, node->in[1], r), n, y);
        break;
    case LK_NODE_SILU_MUL:
    case LK_NODE_GELU_MUL:
    case LK_NODE_CLAMPED_SILU_MUL:
        lk_cpu_gated(b, node->kind)(x, lk_cpu_row(b, node->in[1], r), n, y);
        break;
    case LK_NODE_SCALE:
        b->kernels.scale(x, node->p.factor, n, y);
        break;
    case LK_NODE_SOFTCAP:
        b->kernels.softcap(x, node->p.factor, n, y);
        break;
    case LK_NODE_ROW_GATE:
        b->kernels.scale(x, logistic(*lk_cpu_row(b, node->in[1], r)), n, y);
        break;
    case LK_NODE_TEMPERATURE:
        b->kernels.scale(x, temperature(node, b->step->rows[r].pos), n, y);
        break;
    case LK_NODE_ROPE:
        rope_row(b, node, r, x, y, n);
        break;
    default:
        break;
    }
    if ((flag | b->kernels.check_finite(y, n)) != 0) {
        lk_cpu_record(b, lk_cpu_step_row(b, out->space, r), node);
    }
}

static void run_rows(void *arg, uint32_t begin, uint32_t end) {
    const row_wise_job *job = arg;
    for (const lk_node *node = job->begin; node < job->end; node++) {
        for (uint32_t r = begin; r < end; r++) {
            run_row(job->b, node, r);
        }
    }
}

void lk_cpu_run_row_wise(lk_backend *b, const lk_node *begin, const lk_node *end) {
    row_wise_job job = {b, begin, end};
    size_t cost = 0;
    for (const lk_node *node = begin; node < end; node++) {
        cost += b->graph->values[node->out].width;
    }
    lk_cpu_for_rows(b, run_rows, &job, lk_cpu_n_rows(b, b->graph->values[begin->out].space), cost);
}

void lk_cpu_run_select(lk_backend *b, const lk_node *node) {
    const size_t width = b->graph->values[node->out].width;
    for (uint32_t i = 0; i < lk_cpu_n_rows(b, LK_ROWS_OUT); i++) {
        memcpy(lk_cpu_row(b, node->out, i), lk_cpu_row(b, node->in[0], b->out_rows[i]),
               width * sizeof(float));
    }
}

void lk_cpu_run_select_logits(lk_backend *b, const lk_node *node) {
    const lk_step *step = b->step;
    const size_t width = b->graph->values[node->out].width;
    for (uint32_t i = 0; i < step->n_hidden; i++) {
        memcpy(step->hidden + i * width, lk_cpu_row(b, node->in[0], b->hidden_rows[i]),
               width * sizeof(float));
    }
    for (uint32_t i = 0; i < step->n_out; i++) {
        memcpy(lk_cpu_row(b, node->out, i), lk_cpu_row(b, node->in[0], b->logits_rows[i]),
               width * sizeof(float));
    }
}
