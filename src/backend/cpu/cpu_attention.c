/* cpu_attention.c - attention over the KV pages. First the keys and values of all rows of the step
 * are stored, then queries attend: a task is one run, one key head and a block of queries (heads of
 * the group and rows of the run). Invariant: a query reads positions 0 .. its own (those of the
 * layer's window) of its own run's page table, whatever else lies in the pages. */
#include "backend/cpu/cpu.h"

typedef struct attention_job {
    lk_backend *b;
    const lk_node *node;
    uint32_t heads_per_kv;   /* query heads of one key head */
    uint32_t heads_per_task; /* of those, in one task */
    uint32_t rows_per_task;
    size_t k_bytes; /* of one head's block */
    size_t v_bytes;
    size_t offset; /* of the layer in a page */
} attention_job;

/* The page table that the layer's keys and values are in. */
static const uint32_t *table_of(const lk_node *node, const lk_step_run *run) {
    return node->p.attn.window != 0 ? run->window_pages : run->pages;
}

static void store_rows(void *arg, uint32_t begin, uint32_t end) {
    const attention_job *job = arg;
    lk_backend *b = job->b;
    const lk_node *node = job->node;
    const size_t head_dim = node->p.attn.head_dim;
    const uint32_t n_kv_heads = node->p.attn.n_kv_heads;
    for (uint32_t r = begin; r < end; r++) {
        const lk_step_row *row = &b->step->rows[r];
        const uint32_t *pages = table_of(node, &b->step->runs[row->i_run]);
        uint8_t *k_block = lk_cpu_page(b, pages[row->pos / LK_CHUNK]) + job->offset;
        uint8_t *v_block = k_block + n_kv_heads * job->k_bytes;
        const float *k = lk_cpu_value(b, node->in[1]) + (size_t)r * n_kv_heads * head_dim;
        const float *v = lk_cpu_value(b, node->in[2]) + (size_t)r * n_kv_heads * head_dim;
        const size_t i_in_page = (size_t)(row->pos % LK_CHUNK);
        uint32_t flag = 0;
        for (uint32_t h = 0; h < n_kv_heads; h++) {
            b->kernels.kv_store(b->params.k_format, k + h * head_dim, head_dim,
                                k_block + h * job->k_bytes, i_in_page, &flag);
            b->kernels.kv_store(b->params.v_format, v + h * head_dim, head_dim,
                                v_block + h * job->v_bytes, i_in_page, &flag);
        }
        if (flag != 0) {
            lk_cpu_record(b, r, node);
        }
    }
}

static uint32_t blocks_of_run(const attention_job *job, const lk_step_run *run) {
    const uint32_t row_blocks = (run->n + job->rows_per_task - 1) / job->rows_per_task;
    const uint32_t head_blocks =
        (job->heads_per_kv + job->heads_per_task - 1) / job->heads_per_task;
    return row_blocks * head_blocks;
}

/* The run that task i belongs to. */
static uint32_t find_run(const lk_backend *b, uint32_t i_task) {
    uint32_t low = 0;
    uint32_t high = b->step->n_runs;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (b->first_task[middle] <= i_task) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static size_t first_key(const lk_node *node, int64_t pos) {
    return (size_t)lk_step_window_begin(node->p.attn.window, pos);
}

/* Fills in rows [row, row_end) x query heads [head, head_end). */
static void add_queries(const attention_job *job, lk_attn_args *args, uint32_t *flags, uint32_t row,
                        uint32_t row_end, uint32_t head, uint32_t head_end) {
    const lk_backend *b = job->b;
    const size_t head_dim = args->head_dim;
    const size_t width = job->node->p.attn.n_heads * head_dim;
    const float *q = lk_cpu_value(b, job->node->in[0]);
    float *out = lk_cpu_value(b, job->node->out);
    const lk_weight *sinks = job->node->p.attn.sinks;
    for (uint32_t r = row; r < row_end; r++) {
        for (uint32_t h = head; h < head_end; h++) {
            const size_t i = args->n_queries++;
            args->q[i] = q + r * width + h * head_dim;
            args->out[i] = out + r * width + h * head_dim;
            args->n_keys[i] = (size_t)b->step->rows[r].pos + 1;
            args->first_key[i] = first_key(job->node, b->step->rows[r].pos);
            args->flag[i] = &flags[i];
            if (sinks != NULL) {
                args->sink[i] = ((const float *)(const void *)sinks->data)[h];
            }
        }
    }
}

static void attend(void *arg, uint32_t i_task, uint32_t i_thread) {
    const attention_job *job = arg;
    lk_backend *b = job->b;
    const uint32_t n_kv_heads = job->node->p.attn.n_kv_heads;
    const uint32_t i_run = find_run(b, i_task);
    const lk_step_run *run = &b->step->runs[i_run];
    const uint32_t n_blocks = blocks_of_run(job, run);
    const uint32_t i_kv_head = (i_task - b->first_task[i_run]) / n_blocks;
    const uint32_t i_block = (i_task - b->first_task[i_run]) % n_blocks;
    const uint32_t head_blocks =
        (job->heads_per_kv + job->heads_per_task - 1) / job->heads_per_task;
    const uint32_t row = run->first + i_block / head_blocks * job->rows_per_task;
    const uint32_t rows_left = run->first + run->n - row;
    const uint32_t row_end =
        row + (rows_left < job->rows_per_task ? rows_left : job->rows_per_task);
    const uint32_t first_head = i_kv_head * job->heads_per_kv;
    const uint32_t head = first_head + i_block % head_blocks * job->heads_per_task;
    const uint32_t heads_left = first_head + job->heads_per_kv - head;
    const uint32_t head_end =
        head + (heads_left < job->heads_per_task ? heads_left : job->heads_per_task);

    const uint8_t **k_blocks = b->blocks + (size_t)i_thread * 2 * b->params.n_pages;
    const uint8_t **v_blocks = k_blocks + b->params.n_pages;
    const size_t n_chunks = (size_t)b->step->rows[row_end - 1].pos / LK_CHUNK + 1;
    const uint32_t *pages = table_of(job->node, run);
    for (size_t c = first_key(job->node, b->step->rows[row].pos) / LK_CHUNK; c < n_chunks; c++) {
        const uint8_t *layer = lk_cpu_page(b, pages[c]) + job->offset;
        k_blocks[c] = layer + i_kv_head * job->k_bytes;
        v_blocks[c] = layer + n_kv_heads * job->k_bytes + i_kv_head * job->v_bytes;
    }
    lk_attn_args args = {.k_format = b->params.k_format,
                         .v_format = b->params.v_format,
                         .head_dim = job->node->p.attn.head_dim,
                         .scale = job->node->p.attn.scale,
                         .k_blocks = k_blocks,
                         .v_blocks = v_blocks,
                         .soft_cap = job->node->p.attn.soft_cap,
                         .has_sinks = job->node->p.attn.sinks != NULL};
    uint32_t flags[LK_ATTN_MAX_QUERIES] = {0};
    add_queries(job, &args, flags, row, row_end, head, head_end);
    b->kernels.attention(&args);
    for (size_t i = 0; i < args.n_queries; i++) {
        if ((flags[i] | b->kernels.check_finite(args.out[i], args.head_dim)) != 0) {
            lk_cpu_mark(b, row + (uint32_t)i / (head_end - head));
        }
    }
}

void lk_cpu_run_attention(lk_backend *b, const lk_node *node) {
    const uint32_t n_kv_heads = node->p.attn.n_kv_heads;
    const size_t head_dim = node->p.attn.head_dim;
    attention_job job = {.b = b, .node = node, .offset = b->kv_offset[node->p.attn.i_kv]};
    job.k_bytes = lk_kv_block_bytes(b->params.k_format, head_dim);
    job.v_bytes = lk_kv_block_bytes(b->params.v_format, head_dim);
    job.heads_per_kv = node->p.attn.n_heads / n_kv_heads;
    job.heads_per_task =
        job.heads_per_kv > LK_ATTN_MAX_QUERIES ? LK_ATTN_MAX_QUERIES : job.heads_per_kv;
    job.rows_per_task = LK_ATTN_MAX_QUERIES / job.heads_per_task;
    lk_cpu_for_rows(b, store_rows, &job, b->step->n_rows, 2 * n_kv_heads * head_dim);

    size_t cost = 0;
    b->first_task[0] = 0;
    for (uint32_t i = 0; i < b->step->n_runs; i++) {
        const lk_step_run *run = &b->step->runs[i];
        b->first_task[i + 1] = b->first_task[i] + blocks_of_run(&job, run) * n_kv_heads;
        cost += run->n * (size_t)b->step->rows[run->first + run->n - 1].pos;
    }
    cost *= 2 * node->p.attn.n_heads * head_dim;
    lk_cpu_for_tasks(b, attend, &job, b->first_task[b->step->n_runs], cost);
    lk_cpu_collect(b, node);
}
