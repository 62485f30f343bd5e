/* cpu_matmul.c - matrix products: activations are prepared once per value and kind and shared, then
 * tiles of output rows are the tasks, each over all rows of the step. Invariant: a tile is computed
 * by one kernel call whose result for a row does not depend on the other rows. */
#include "backend/cpu/cpu.h"

#include <string.h>

#include "quant/strip.h"

enum {
    MIN_TILE = 16,
    MAX_TILE = 256,     /* with many rows, which kernels arrange once for all outputs of a task */
    MAX_TILE_FEW = 512, /* with few: weights are asked for ahead only within a task */
    FEW_ROWS = 16,
    TASKS_PER_THREAD_FEW = 8,
    TASKS_PER_THREAD = 4, /* with many rows: what is arranged once serves more outputs */
    MAX_TOGETHER = 16
};

lk_cpu_prep lk_cpu_prep_of(const lk_backend *b, const lk_weight *w) {
    if (b->params.f32_activations) {
        return LK_CPU_PREP_NONE;
    }
    switch (w->format->type) {
    case LK_FORMAT_F32:
        return LK_CPU_PREP_NONE;
    case LK_FORMAT_F16:
        return LK_CPU_PREP_R13;
    case LK_FORMAT_BF16:
        return LK_CPU_PREP_R16B;
    default:
        return w->format->act_group == 32 ? LK_CPU_PREP_Q32 : LK_CPU_PREP_Q256;
    }
}

static uint32_t group_of(lk_cpu_prep prep) {
    return prep == LK_CPU_PREP_Q32 ? 32u : 256u;
}

size_t lk_cpu_q_stride(size_t n) {
    return ((n + 63) / 64 | 1) * 64;
}

void lk_cpu_prepare_row(const lk_backend *b, lk_cpu_prep prep, const float *x, size_t n,
                        const lk_cpu_prepared *to, size_t r, uint32_t *flag) {
    switch (prep) {
    case LK_CPU_PREP_R13:
        b->kernels.act_round(x, n, LK_ROUND_13, to->x + r * n, flag);
        break;
    case LK_CPU_PREP_R16B:
        b->kernels.act_round(x, n, LK_ROUND_16B, to->x + r * n, flag);
        break;
    case LK_CPU_PREP_Q32:
    case LK_CPU_PREP_Q256: {
        const uint32_t group = group_of(prep);
        b->kernels.act_quantize(x, n, group, to->q + r * lk_cpu_q_stride(n),
                                to->d + r * (n / group), to->sums + r * (n / LK_SUBGROUP), flag);
        break;
    }
    case LK_CPU_PREP_NONE:
    case LK_CPU_PREP_COUNT:
        break;
    }
}

lk_cpu_operand lk_cpu_operand_of(lk_cpu_prep prep, const lk_cpu_prepared *prepared, const float *x,
                                 size_t width, size_t first) {
    lk_cpu_operand operand = {.prep = prep, .width = width, .x_stride = width};
    if (prep == LK_CPU_PREP_NONE) {
        operand.x = x + first * width;
    } else if (prep == LK_CPU_PREP_R13 || prep == LK_CPU_PREP_R16B) {
        operand.x = prepared->x + first * width;
    } else {
        operand.q = prepared->q + first * lk_cpu_q_stride(width);
        operand.d = prepared->d + first * (width / group_of(prep));
        operand.sums = prepared->sums + first * (width / LK_SUBGROUP);
    }
    return operand;
}

uint32_t lk_cpu_tile(const lk_backend *b, size_t n_out, uint32_t n_rows) {
    const bool is_few = n_rows <= FEW_ROWS;
    const size_t most = is_few ? MAX_TILE_FEW : MAX_TILE;
    const size_t n_tasks = b->n_threads * (is_few ? TASKS_PER_THREAD_FEW : TASKS_PER_THREAD);
    const size_t wanted = n_out / n_tasks;
    const size_t tile = wanted / MIN_TILE * MIN_TILE;
    return tile < MIN_TILE ? MIN_TILE : (uint32_t)(tile > most ? most : tile);
}

static void call_quant(const lk_backend *b, const lk_cpu_product *p, uint32_t begin, uint32_t end) {
    const lk_act_rows rows = {.q = p->in.q,
                              .d = p->in.d,
                              .sums = p->in.sums,
                              .q_stride = lk_cpu_q_stride(p->in.width),
                              .n = p->in.width,
                              .group = group_of(p->in.prep),
                              .n_rows = p->n_rows};
    for (size_t i = 0; i < lk_format_count(); i++) {
        if (lk_format_at(i) == p->w->format && p->strips != NULL) {
            b->kernels.matmul_strips[i](p->w->format, p->strips, begin, end, &rows, p->y,
                                        p->y_stride);
        } else if (lk_format_at(i) == p->w->format) {
            b->kernels.matmul_format[i](p->w->format, p->data, p->w->row_bytes, begin, end, &rows,
                                        p->y, p->y_stride);
        }
    }
}

static void call_kernel(const lk_backend *b, const lk_cpu_product *p, uint32_t begin,
                        uint32_t end) {
    const lk_cpu_operand *in = &p->in;
    const size_t row_bytes = p->w->row_bytes;
    if (b->params.f32_activations) {
        lk_matmul_f32act_ref(p->w->format, p->data, row_bytes, in->width, begin, end, in->x,
                             in->x_stride, p->n_rows, p->y, p->y_stride);
        return;
    }
    switch (in->prep) {
    case LK_CPU_PREP_NONE:
        b->kernels.matmul_f32(p->data, row_bytes, in->width, begin, end, in->x, in->x_stride,
                              p->n_rows, p->y, p->y_stride);
        break;
    case LK_CPU_PREP_R13:
        b->kernels.matmul_f16(p->data, row_bytes, in->width, begin, end, in->x, in->x_stride,
                              p->n_rows, p->y, p->y_stride);
        break;
    case LK_CPU_PREP_R16B:
        b->kernels.matmul_bf16(p->data, row_bytes, in->width, begin, end, in->x, in->x_stride,
                               p->n_rows, p->y, p->y_stride);
        break;
    case LK_CPU_PREP_Q32:
    case LK_CPU_PREP_Q256:
        call_quant(b, p, begin, end);
        break;
    case LK_CPU_PREP_COUNT:
        break;
    }
}

void lk_cpu_multiply(lk_backend *b, const lk_cpu_product *p, uint32_t begin, uint32_t end) {
    call_kernel(b, p, begin, end);
    for (uint32_t r = 0; r < p->n_rows; r++) {
        if (b->kernels.check_finite(p->y + r * p->y_stride + begin, end - begin) != 0) {
            lk_cpu_mark(b, lk_cpu_step_row(b, p->space, p->row_of != NULL ? p->row_of[r] : r));
        }
    }
}

void lk_cpu_count(lk_backend *b, uint32_t n_rows, bool mixed, uint32_t n_calls) {
    const uint32_t i_class = n_rows <= 4 ? n_rows - 1 : n_rows <= 16 ? 4 : 5;
    b->stats.kernel_rows[i_class] += n_calls;
    b->stats.mixed_calls[i_class] += mixed ? n_calls : 0;
}

typedef struct prepare_job {
    lk_backend *b;
    const lk_node *node;
    lk_cpu_prep prep;
    const float *x;
    size_t width;
    lk_row_space space;
} prepare_job;

static void prepare_rows(void *arg, uint32_t begin, uint32_t end) {
    const prepare_job *job = arg;
    for (uint32_t r = begin; r < end; r++) {
        uint32_t flag = 0;
        lk_cpu_prepare_row(job->b, job->prep, job->x + r * job->width, job->width,
                           &job->b->prepared[job->prep], r, &flag);
        if (flag != 0) {
            lk_cpu_record(job->b, lk_cpu_step_row(job->b, job->space, r), job->node);
        }
    }
}

/* The node's input as its weight needs it, prepared unless an earlier node did. */
static lk_cpu_operand prepare(lk_backend *b, const lk_node *node, const lk_weight *w) {
    const lk_value v = node->in[0];
    const lk_value_info *info = &b->graph->values[v];
    const lk_cpu_prep prep = lk_cpu_prep_of(b, w);
    const float *x = lk_cpu_value(b, v);
    if (prep != LK_CPU_PREP_NONE && b->prepared[prep].value != v) {
        prepare_job job = {b, node, prep, x, info->width, info->space};
        lk_cpu_for_rows(b, prepare_rows, &job, lk_cpu_n_rows(b, info->space), info->width);
        b->prepared[prep].value = v;
    }
    return lk_cpu_operand_of(prep, &b->prepared[prep], x, info->width, 0);
}

/* Products that run together, and the first unit of each: sixteen outputs, or what is left. */
typedef struct matmul_job {
    lk_backend *b;
    uint32_t n_products;
    uint32_t first_unit[MAX_TOGETHER + 1];
    lk_cpu_product products[MAX_TOGETHER];
} matmul_job;

static uint32_t units_of(uint32_t n_out) {
    return (n_out + MIN_TILE - 1) / MIN_TILE;
}

static void run_span(void *arg, uint32_t begin, uint32_t end) {
    const matmul_job *job = arg;
    for (uint32_t i = 0; begin < end; i++) {
        if (begin >= job->first_unit[i + 1]) {
            continue;
        }
        const lk_cpu_product *product = &job->products[i];
        const uint32_t stop = end < job->first_unit[i + 1] ? end : job->first_unit[i + 1];
        const uint32_t o_end = (stop - job->first_unit[i]) * MIN_TILE;
        lk_cpu_multiply(job->b, product, (begin - job->first_unit[i]) * MIN_TILE,
                        o_end < product->n_out ? o_end : product->n_out);
        begin = stop;
    }
}

static void run_together(lk_backend *b, const lk_node *begin, const lk_node *end) {
    matmul_job job = {.b = b};
    size_t n_out = 0;
    for (const lk_node *node = begin; node < end; node++) {
        const lk_value_info *out = &b->graph->values[node->out];
        const uint32_t i = job.n_products++;
        job.products[i] = (lk_cpu_product){.w = node->w,
                                           .data = node->w->data,
                                           .strips = node->strips,
                                           .n_out = out->width,
                                           .in = prepare(b, node, node->w),
                                           .n_rows = lk_cpu_n_rows(b, out->space),
                                           .y = lk_cpu_value(b, node->out),
                                           .y_stride = out->width,
                                           .space = out->space};
        job.first_unit[i + 1] = job.first_unit[i] + units_of(out->width);
        n_out += out->width;
    }
    const uint32_t n_rows = job.products[0].n_rows;
    const uint32_t most = lk_cpu_tile(b, n_out, n_rows) / MIN_TILE;
    for (uint32_t i = 0; i < job.n_products; i++) {
        const uint32_t n_units = job.first_unit[i + 1] - job.first_unit[i];
        lk_cpu_count(b, n_rows, b->mixed[job.products[i].space], (n_units + most - 1) / most);
    }
    if (lk_cpu_is_worth_sharing(n_out * job.products[0].in.width * n_rows)) {
        lk_cpu_share(b, run_span, &job, job.first_unit[job.n_products], most);
    } else {
        run_span(&job, 0, job.first_unit[job.n_products]);
    }
    lk_cpu_collect(b, begin);
}

void lk_cpu_run_matmul(lk_backend *b, const lk_node *begin, const lk_node *end) {
    while (begin < end) {
        const lk_node *stop = end - begin > MAX_TOGETHER ? begin + MAX_TOGETHER : end;
        run_together(b, begin, stop);
        begin = stop;
    }
}

/* The first weights of a node's unit. */
static const uint8_t *unit_at(const lk_node *node, uint32_t i_unit) {
    const lk_format *format = node->w->format;
    if (node->strips == NULL) {
        return node->w->data + (size_t)i_unit * MIN_TILE * node->w->row_bytes;
    }
    return node->strips + i_unit * lk_strip_shape_of(format->block_elems, format->block_bytes,
                                                     (size_t)node->w->ne[0])
                                       .bytes;
}

void lk_cpu_announce_matmul(lk_backend *b, const lk_node *begin, const lk_node *end) {
    uint32_t n_units = 0;
    end = end - begin > MAX_TOGETHER ? begin + MAX_TOGETHER : end;
    for (const lk_node *node = begin; node < end; node++) {
        n_units += units_of(b->graph->values[node->out].width);
    }
    for (uint32_t i = 0; i < b->n_threads; i++) {
        uint32_t unit = lk_cpu_region_begin(b, n_units, i);
        const lk_node *node = begin;
        while (unit >= units_of(b->graph->values[node->out].width) && node + 1 < end) {
            unit -= units_of(b->graph->values[node->out].width);
            node++;
        }
        lk_cpu_announce(b, i, unit_at(node, unit));
    }
}
