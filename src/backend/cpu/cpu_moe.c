/* cpu_moe.c - experts: routes each row, groups the (row, expert) assignments by expert so that an
 * expert's weights are read once for all its rows, and combines per row in ascending expert id.
 * Invariant: what a row gets depends on its own router logits and values alone; the grouping only
 * decides where in the scratch memory that happens. */
#include "backend/cpu/cpu.h"

#include <string.h>

#include "quant/strip.h"

typedef struct moe_job {
    lk_backend *b;
    const lk_node *node;
    lk_row_space space;
    uint32_t n_rows;
    uint32_t n_used;
    uint32_t n_active;
    size_t width;
    size_t n_ff;
    uint32_t tile;
    uint32_t n_tiles; /* of one matrix of one expert */
} moe_job;

static uint32_t step_row(const moe_job *job, uint32_t r) {
    return lk_cpu_step_row(job->b, job->space, r);
}

static void route_rows(void *arg, uint32_t begin, uint32_t end) {
    const moe_job *job = arg;
    lk_backend *b = job->b;
    const size_t n_experts = job->node->p.moe.n_experts;
    const float *logits = lk_cpu_value(b, job->node->in[1]);
    for (uint32_t r = begin; r < end; r++) {
        uint32_t flag = 0;
        b->kernels.route(logits + r * n_experts, n_experts, job->n_used, job->node->p.moe.normalise,
                         b->moe.ids + (size_t)r * job->n_used,
                         b->moe.weights + (size_t)r * job->n_used, &flag);
        if (flag != 0) {
            lk_cpu_record(b, step_row(job, r), job->node);
        }
    }
}

/* Sorts the assignments by expert, in the order of the rows. */
static void group_by_expert(moe_job *job) {
    lk_cpu_moe *moe = &job->b->moe;
    const uint32_t n_experts = job->node->p.moe.n_experts;
    const uint32_t n = job->n_rows * job->n_used;
    memset(moe->first, 0, (n_experts + 1) * sizeof *moe->first);
    for (uint32_t i = 0; i < n; i++) {
        moe->first[moe->ids[i] + 1]++;
    }
    job->n_active = 0;
    for (uint32_t e = 0; e < n_experts; e++) {
        if (moe->first[e + 1] != 0) {
            moe->active[job->n_active++] = e;
        }
        moe->first[e + 1] += moe->first[e];
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t slot = moe->first[moe->ids[i]]++;
        moe->slot[i] = slot;
        moe->row_of[slot] = i / job->n_used;
        moe->expert_of[slot] = (uint32_t)moe->ids[i];
    }
    for (uint32_t e = n_experts; e > 0; e--) { /* each has moved to the next one's start */
        moe->first[e] = moe->first[e - 1];
    }
    moe->first[0] = 0;
}

static void prepare_inputs(void *arg, uint32_t begin, uint32_t end) {
    const moe_job *job = arg;
    lk_backend *b = job->b;
    const lk_cpu_prep gate = lk_cpu_prep_of(b, job->node->p.moe.gate);
    const lk_cpu_prep up = lk_cpu_prep_of(b, job->node->p.moe.up);
    const float *value = lk_cpu_value(b, job->node->in[0]);
    for (uint32_t i = begin; i < end; i++) {
        const float *x = value + b->moe.row_of[i] * job->width;
        uint32_t flag = 0;
        if (gate == LK_CPU_PREP_NONE || up == LK_CPU_PREP_NONE) {
            memcpy(b->moe.gathered + i * job->width, x, job->width * sizeof *x);
        }
        lk_cpu_prepare_row(b, gate, x, job->width, &b->moe.in[gate], i, &flag);
        if (up != gate) {
            lk_cpu_prepare_row(b, up, x, job->width, &b->moe.in[up], i, &flag);
        }
        if (flag != 0) {
            lk_cpu_mark(b, step_row(job, b->moe.row_of[i]));
        }
    }
}

/* Tile i_tile of expert i_expert's matrix in `w`, over the expert's rows. */
static void multiply_expert(const moe_job *job, const lk_weight *w, const uint8_t *strips,
                            uint32_t i_expert, uint32_t i_tile, const lk_cpu_prepared *prepared,
                            const float *x, size_t width, float *y) {
    lk_backend *b = job->b;
    const uint32_t first = b->moe.first[i_expert];
    const lk_cpu_prep prep = lk_cpu_prep_of(b, w);
    const uint32_t n_out = (uint32_t)w->ne[1];
    if (strips != NULL) {
        const lk_strip_shape shape =
            lk_strip_shape_of(w->format->block_elems, w->format->block_bytes, width);
        strips += i_expert * lk_strip_count(n_out) * shape.bytes;
    }
    const lk_cpu_product product = {.w = w,
                                    .data = w->data + (size_t)i_expert * n_out * w->row_bytes,
                                    .strips = strips,
                                    .n_out = n_out,
                                    .in = lk_cpu_operand_of(prep, &prepared[prep], x, width, first),
                                    .n_rows = b->moe.first[i_expert + 1] - first,
                                    .y = y + (size_t)first * n_out,
                                    .y_stride = n_out,
                                    .space = job->space,
                                    .row_of = b->moe.row_of + first};
    const uint32_t begin = i_tile * job->tile;
    const uint32_t left = n_out - begin;
    lk_cpu_multiply(b, &product, begin, begin + (left < job->tile ? left : job->tile));
}

static void run_gate_up(void *arg, uint32_t i_task, uint32_t i_thread) {
    (void)i_thread;
    const moe_job *job = arg;
    lk_cpu_moe *moe = &job->b->moe;
    const uint32_t i_expert = moe->active[i_task / (2 * job->n_tiles)];
    const bool is_up = i_task / job->n_tiles % 2 != 0;
    multiply_expert(job, is_up ? job->node->p.moe.up : job->node->p.moe.gate,
                    job->node->p.moe.strips[is_up ? 1 : 0], i_expert, i_task % job->n_tiles,
                    moe->in, moe->gathered, job->width, is_up ? moe->up : moe->gate);
}

static void run_down(void *arg, uint32_t i_task, uint32_t i_thread) {
    (void)i_thread;
    const moe_job *job = arg;
    lk_cpu_moe *moe = &job->b->moe;
    multiply_expert(job, job->node->p.moe.down, job->node->p.moe.strips[2],
                    moe->active[i_task / job->n_tiles], i_task % job->n_tiles, moe->hidden,
                    moe->gate, job->n_ff, moe->down);
}

/* Adds the bias of assignment i's expert to its row y, if there are biases. */
static void add_bias(const moe_job *job, const lk_weight *bias, uint32_t i, size_t n, float *y) {
    if (bias != NULL) {
        const float *row = (const float *)(const void *)bias->data + job->b->moe.expert_of[i] * n;
        job->b->kernels.add(y, row, n, y);
    }
}

static void activate(void *arg, uint32_t begin, uint32_t end) {
    const moe_job *job = arg;
    lk_backend *b = job->b;
    const lk_moe *moe = &job->node->p.moe;
    const lk_cpu_prep prep = lk_cpu_prep_of(b, moe->down);
    for (uint32_t i = begin; i < end; i++) {
        float *hidden = b->moe.gate + i * job->n_ff;
        float *up = b->moe.up + i * job->n_ff;
        uint32_t flag = 0;
        if (moe->gate_bias != NULL) { /* an activation may hide what a sum has become */
            add_bias(job, moe->gate_bias, i, job->n_ff, hidden);
            add_bias(job, moe->up_bias, i, job->n_ff, up);
            flag =
                b->kernels.check_finite(hidden, job->n_ff) | b->kernels.check_finite(up, job->n_ff);
        }
        lk_cpu_gated(b, moe->activation)(hidden, up, job->n_ff, hidden);
        flag |= b->kernels.check_finite(hidden, job->n_ff);
        lk_cpu_prepare_row(b, prep, hidden, job->n_ff, &b->moe.hidden[prep], i, &flag);
        if (flag != 0) {
            lk_cpu_mark(b, step_row(job, b->moe.row_of[i]));
        }
    }
}

static void combine_rows(void *arg, uint32_t begin, uint32_t end) {
    const moe_job *job = arg;
    lk_backend *b = job->b;
    for (uint32_t r = begin; r < end; r++) {
        float *y = lk_cpu_value(b, job->node->out) + r * job->width;
        memset(y, 0, job->width * sizeof *y);
        for (uint32_t i = r * job->n_used; i < (r + 1) * job->n_used; i++) {
            const uint32_t slot = b->moe.slot[i];
            float *x = b->moe.down + slot * job->width;
            add_bias(job, job->node->p.moe.down_bias, slot, job->width, x);
            b->kernels.scale_add(x, b->moe.weights[i], job->width, y);
        }
        if (b->kernels.check_finite(y, job->width) != 0) {
            lk_cpu_record(b, step_row(job, r), job->node);
        }
    }
}

/* Counts n_matrices products of each active expert. */
static void count_calls(const moe_job *job, uint32_t n_matrices) {
    lk_backend *b = job->b;
    for (uint32_t i = 0; i < job->n_active; i++) {
        const uint32_t first = b->moe.first[b->moe.active[i]];
        const uint32_t end = b->moe.first[b->moe.active[i] + 1];
        const uint32_t first_row = step_row(job, b->moe.row_of[first]);
        const uint32_t last_row = step_row(job, b->moe.row_of[end - 1]);
        const bool mixed = b->step->rows[first_row].i_run != b->step->rows[last_row].i_run;
        lk_cpu_count(b, end - first, mixed, n_matrices * job->n_tiles);
    }
}

static void set_tiles(moe_job *job, size_t n_out) {
    job->tile = lk_cpu_tile(job->b, n_out * job->n_active, job->n_rows);
    job->n_tiles = (uint32_t)((n_out + job->tile - 1) / job->tile);
}

void lk_cpu_run_moe(lk_backend *b, const lk_node *node) {
    const lk_value_info *info = &b->graph->values[node->out];
    moe_job job = {.b = b,
                   .node = node,
                   .space = info->space,
                   .n_rows = lk_cpu_n_rows(b, info->space),
                   .n_used = node->p.moe.n_used,
                   .width = info->width,
                   .n_ff = node->p.moe.n_ff};
    const uint32_t n = job.n_rows * job.n_used;
    const size_t cost = (size_t)n * job.width * job.n_ff;
    lk_cpu_for_rows(b, route_rows, &job, job.n_rows, node->p.moe.n_experts);
    group_by_expert(&job);
    lk_cpu_for_rows(b, prepare_inputs, &job, n, job.width);
    set_tiles(&job, job.n_ff);
    lk_cpu_for_tasks(b, run_gate_up, &job, job.n_active * 2 * job.n_tiles, cost);
    count_calls(&job, 2);
    lk_cpu_for_rows(b, activate, &job, n, job.n_ff);
    set_tiles(&job, job.width);
    lk_cpu_for_tasks(b, run_down, &job, job.n_active * job.n_tiles, cost);
    count_calls(&job, 1);
    lk_cpu_for_rows(b, combine_rows, &job, job.n_rows, job.n_used * job.width);
    lk_cpu_collect(b, node);
}
