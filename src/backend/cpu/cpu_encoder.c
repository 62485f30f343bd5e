/* cpu_encoder.c - the operators of encoders that take several rows of a run: the neighbours that a
 * convolution multiplies, attention among all rows of a run, the mean of two rows. Invariant: what
 * a row gets depends on the rows of its own run, not on the runs beside it. */
#include <string.h>

#include "backend/cpu/cpu.h"

typedef struct node_job {
    lk_backend *b;
    const lk_node *node;
    lk_row_space space; /* of the output */
} node_job;

static node_job job_of(lk_backend *b, const lk_node *node) {
    return (node_job){b, node, b->graph->values[node->out].space};
}

/* ---- neighbours ---- */

static void gather_rows(void *arg, uint32_t begin, uint32_t end) {
    const node_job *job = arg;
    const lk_backend *b = job->b;
    const lk_value in = job->node->in[0];
    const lk_value_info *info = &b->graph->values[in];
    const size_t n_taps = job->node->p.neighbours.n_taps;
    const uint32_t stride = job->node->p.neighbours.stride;
    for (uint32_t r = begin; r < end; r++) {
        const uint32_t i_run = lk_cpu_run_of(b, job->space, r);
        const int64_t centre = (int64_t)(r - lk_cpu_run_first(b, job->space, i_run)) * stride;
        const uint32_t first = lk_cpu_run_first(b, info->space, i_run);
        const int64_t n = lk_cpu_run_first(b, info->space, i_run + 1) - first;
        float *y = lk_cpu_row(b, job->node->out, r);
        for (size_t t = 0; t < n_taps; t++) {
            const int64_t i = centre + (int64_t)t - (int64_t)(n_taps / 2);
            const bool is_inside = i >= 0 && i < n;
            const float *x = is_inside ? lk_cpu_row(b, in, first + (uint32_t)i) : NULL;
            for (size_t c = 0; c < info->width; c++) {
                y[c * n_taps + t] = is_inside ? x[c] : 0.0f;
            }
        }
    }
}

void lk_cpu_run_neighbours(lk_backend *b, const lk_node *node) {
    node_job job = job_of(b, node);
    lk_cpu_for_rows(b, gather_rows, &job, lk_cpu_n_rows(b, job.space),
                    b->graph->values[node->out].width);
}

/* ---- attention ---- */

/* Keys and values of one head of a run in blocks of LK_CHUNK rows. */
static void store_run(const node_job *job, uint32_t first, uint32_t n, uint32_t i_kv_head,
                      uint8_t *k_blocks, uint8_t *v_blocks) {
    lk_backend *b = job->b;
    const size_t head_dim = job->node->p.attn.head_dim;
    for (uint32_t i = 0; i < n; i++) {
        const size_t at = i / LK_CHUNK * b->run_block_bytes;
        uint32_t flag = 0;
        b->kernels.kv_store(LK_KV_FORMAT_F32,
                            lk_cpu_row(b, job->node->in[1], first + i) + i_kv_head * head_dim,
                            head_dim, k_blocks + at, i % LK_CHUNK, &flag);
        b->kernels.kv_store(LK_KV_FORMAT_F32,
                            lk_cpu_row(b, job->node->in[2], first + i) + i_kv_head * head_dim,
                            head_dim, v_blocks + at, i % LK_CHUNK, &flag);
        if (flag != 0) {
            lk_cpu_mark(b, lk_cpu_step_row(b, job->space, first + i));
        }
    }
}

/* Up to LK_ATTN_MAX_QUERIES rows of one head. */
static void attend_rows(const node_job *job, lk_attn_args *args, uint32_t first, uint32_t n,
                        uint32_t head) {
    lk_backend *b = job->b;
    uint32_t flags[LK_ATTN_MAX_QUERIES] = {0};
    args->n_queries = n;
    for (uint32_t i = 0; i < n; i++) {
        const size_t at = (size_t)head * args->head_dim;
        args->q[i] = lk_cpu_row(b, job->node->in[0], first + i) + at;
        args->out[i] = lk_cpu_row(b, job->node->out, first + i) + at;
        args->flag[i] = &flags[i];
    }
    b->kernels.attention(args);
    for (uint32_t i = 0; i < n; i++) {
        if ((flags[i] | b->kernels.check_finite(args->out[i], args->head_dim)) != 0) {
            lk_cpu_mark(b, lk_cpu_step_row(b, job->space, first + i));
        }
    }
}

enum { MAX_RUN_CHUNKS = LK_MAX_RUN / LK_CHUNK };

/* A task: one key head of one run. */
static void attend_head(void *arg, uint32_t i_task, uint32_t i_thread) {
    const node_job *job = arg;
    lk_backend *b = job->b;
    const lk_attention *attn = &job->node->p.attn;
    const uint32_t i_run = i_task / attn->n_kv_heads;
    const uint32_t i_kv_head = i_task % attn->n_kv_heads;
    const uint32_t first = lk_cpu_run_first(b, job->space, i_run);
    const uint32_t n = lk_cpu_run_first(b, job->space, i_run + 1) - first;
    uint8_t *k_blocks = b->run_blocks + (size_t)i_thread * 2 * b->run_chunks * b->run_block_bytes;
    uint8_t *v_blocks = k_blocks + b->run_chunks * b->run_block_bytes;
    store_run(job, first, n, i_kv_head, k_blocks, v_blocks);
    const uint8_t *k[MAX_RUN_CHUNKS];
    const uint8_t *v[MAX_RUN_CHUNKS];
    for (uint32_t c = 0; c * LK_CHUNK < n; c++) {
        k[c] = k_blocks + c * b->run_block_bytes;
        v[c] = v_blocks + c * b->run_block_bytes;
    }
    lk_attn_args args = {.k_format = LK_KV_FORMAT_F32,
                         .v_format = LK_KV_FORMAT_F32,
                         .head_dim = attn->head_dim,
                         .scale = attn->scale,
                         .k_blocks = k,
                         .v_blocks = v,
                         .soft_cap = attn->soft_cap};
    for (uint32_t i = 0; i < LK_ATTN_MAX_QUERIES; i++) {
        args.n_keys[i] = n;
    }
    const uint32_t group = attn->n_heads / attn->n_kv_heads;
    for (uint32_t head = i_kv_head * group; head < (i_kv_head + 1) * group; head++) {
        for (uint32_t i = 0; i < n; i += LK_ATTN_MAX_QUERIES) {
            const uint32_t left = n - i;
            attend_rows(job, &args, first + i,
                        left < LK_ATTN_MAX_QUERIES ? left : LK_ATTN_MAX_QUERIES, head);
        }
    }
}

void lk_cpu_run_run_attention(lk_backend *b, const lk_node *node) {
    node_job job = job_of(b, node);
    const lk_attention *attn = &node->p.attn;
    const size_t cost = (size_t)lk_cpu_n_rows(b, job.space) * attn->n_heads * attn->head_dim * 64;
    lk_cpu_for_tasks(b, attend_head, &job, b->step->n_runs * attn->n_kv_heads, cost);
    lk_cpu_collect(b, node);
}

/* ---- mean ---- */

static void mean_rows(void *arg, uint32_t begin, uint32_t end) {
    const node_job *job = arg;
    lk_backend *b = job->b;
    const size_t n = b->graph->values[job->node->out].width;
    for (uint32_t r = begin; r < end; r++) {
        const uint32_t i_run = lk_cpu_run_of(b, LK_ROWS_QUARTER, r);
        const uint32_t i = r - lk_cpu_run_first(b, LK_ROWS_QUARTER, i_run);
        const uint32_t from = lk_cpu_run_first(b, LK_ROWS_HALF, i_run) + 2 * i;
        float *y = lk_cpu_row(b, job->node->out, r);
        b->kernels.add(lk_cpu_row(b, job->node->in[0], from),
                       lk_cpu_row(b, job->node->in[0], from + 1), n, y);
        b->kernels.scale(y, 0.5f, n, y);
        if (b->kernels.check_finite(y, n) != 0) {
            lk_cpu_record(b, lk_cpu_step_row(b, LK_ROWS_QUARTER, r), job->node);
        }
    }
}

void lk_cpu_run_mean_of_two(lk_backend *b, const lk_node *node) {
    node_job job = job_of(b, node);
    lk_cpu_for_rows(b, mean_rows, &job, lk_cpu_n_rows(b, LK_ROWS_QUARTER),
                    b->graph->values[node->out].width);
}
