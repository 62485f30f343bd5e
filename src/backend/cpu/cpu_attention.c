/* cpu_attention.c - attention over the KV pages. First the keys and values of all rows of the step
 * are stored, then queries attend. A unit is one run, one key head and a block of queries (heads of
 * the group and rows of the run). Where there are too few units for the threads, or they are long,
 * each is cut into ranges of chunks: the tasks write the parts of single chunks, and whoever is the
 * last of a unit joins them, in order. Invariant: a query reads positions 0 .. its own (those of
 * the layer's window) of its own run's page table, whatever else lies in the pages. */
#include "backend/cpu/cpu.h"

/* Tasks for each thread, at least, and chunks of a task, at most, if cutting can do it; below
 * MIN_RANGE chunks it is not worth the parts. */
enum { TASKS_PER_THREAD = 4, MAX_RANGE = 64, MIN_RANGE = 4 };

typedef struct attention_job {
    lk_backend *b;
    const lk_node *node;
    uint32_t heads_per_kv;   /* query heads of one key head */
    uint32_t heads_per_task; /* of those, in one task */
    uint32_t rows_per_task;
    size_t k_bytes; /* of one head's block */
    size_t v_bytes;
    size_t offset;     /* of the layer in a page */
    uint32_t n_ranges; /* of a unit; 1: tasks are units and there are no parts */
    size_t max_chunks; /* of a unit: parts that each query has room for */
} attention_job;

typedef struct attention_unit {
    const lk_step_run *run;
    uint32_t i_kv_head;
    uint32_t row; /* rows [row, row_end) of the step x query heads [head, head_end) */
    uint32_t row_end;
    uint32_t head;
    uint32_t head_end;
    size_t chunk; /* chunks [chunk, chunk_end) that some query sees */
    size_t chunk_end;
} attention_unit;

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

/* The run that unit i belongs to. */
static uint32_t find_run(const lk_backend *b, uint32_t i_unit) {
    uint32_t low = 0;
    uint32_t high = b->step->n_runs;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (b->first_unit[middle] <= i_unit) {
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

static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static attention_unit find_unit(const attention_job *job, uint32_t i_unit) {
    const lk_backend *b = job->b;
    const uint32_t i_run = find_run(b, i_unit);
    const lk_step_run *run = &b->step->runs[i_run];
    const uint32_t n_blocks = blocks_of_run(job, run);
    const uint32_t i_block = (i_unit - b->first_unit[i_run]) % n_blocks;
    const uint32_t head_blocks =
        (job->heads_per_kv + job->heads_per_task - 1) / job->heads_per_task;
    attention_unit unit = {.run = run, .i_kv_head = (i_unit - b->first_unit[i_run]) / n_blocks};
    unit.row = run->first + i_block / head_blocks * job->rows_per_task;
    unit.row_end = smaller(unit.row + job->rows_per_task, run->first + run->n);
    const uint32_t first_head = unit.i_kv_head * job->heads_per_kv;
    unit.head = first_head + i_block % head_blocks * job->heads_per_task;
    unit.head_end = smaller(unit.head + job->heads_per_task, first_head + job->heads_per_kv);
    unit.chunk = first_key(job->node, b->step->rows[unit.row].pos) / LK_CHUNK;
    unit.chunk_end = (size_t)b->step->rows[unit.row_end - 1].pos / LK_CHUNK + 1;
    return unit;
}

/* The parts of one query of a unit, from chunk unit->chunk on. */
static float *parts_of(const attention_job *job, uint32_t row, uint32_t head) {
    const lk_attention *attn = &job->node->p.attn;
    const size_t i_query = (size_t)row * attn->n_heads + head;
    return job->b->parts + i_query * job->max_chunks * lk_attn_part_floats(attn->head_dim);
}

static float *out_of(const attention_job *job, uint32_t row, uint32_t head) {
    const lk_attention *attn = &job->node->p.attn;
    return lk_cpu_value(job->b, job->node->out) +
           ((size_t)row * attn->n_heads + head) * attn->head_dim;
}

static float sink_of(const attention_job *job, uint32_t head) {
    const lk_weight *sinks = job->node->p.attn.sinks;
    return sinks != NULL ? ((const float *)(const void *)sinks->data)[head] : 0.0f;
}

static void add_queries(const attention_job *job, const attention_unit *unit, uint32_t *flags,
                        lk_attn_args *args) {
    const lk_backend *b = job->b;
    const lk_attention *attn = &job->node->p.attn;
    const float *q = lk_cpu_value(b, job->node->in[0]);
    for (uint32_t r = unit->row; r < unit->row_end; r++) {
        for (uint32_t h = unit->head; h < unit->head_end; h++) {
            const size_t i = args->n_queries++;
            args->q[i] = q + ((size_t)r * attn->n_heads + h) * attn->head_dim;
            args->n_keys[i] = (size_t)b->step->rows[r].pos + 1;
            args->first_key[i] = first_key(job->node, b->step->rows[r].pos);
            args->flag[i] = &flags[i];
            args->sink[i] = sink_of(job, h);
            args->out[i] = args->in_parts
                               ? parts_of(job, r, h) + (args->chunk_begin - unit->chunk) *
                                                           lk_attn_part_floats(attn->head_dim)
                               : out_of(job, r, h);
        }
    }
}

/* The chunks [begin, end) of a unit. */
static void attend(const attention_job *job, const attention_unit *unit, size_t begin, size_t end,
                   uint32_t i_thread) {
    lk_backend *b = job->b;
    const lk_attention *attn = &job->node->p.attn;
    const uint8_t **k_blocks = b->blocks + (size_t)i_thread * 2 * b->params.n_pages;
    const uint8_t **v_blocks = k_blocks + b->params.n_pages;
    const uint32_t *pages = table_of(job->node, unit->run);
    for (size_t c = begin; c < end; c++) {
        const uint8_t *layer = lk_cpu_page(b, pages[c]) + job->offset;
        k_blocks[c] = layer + unit->i_kv_head * job->k_bytes;
        v_blocks[c] = layer + attn->n_kv_heads * job->k_bytes + unit->i_kv_head * job->v_bytes;
    }
    lk_attn_args args = {.k_format = b->params.k_format,
                         .v_format = b->params.v_format,
                         .head_dim = attn->head_dim,
                         .scale = attn->scale,
                         .k_blocks = k_blocks,
                         .v_blocks = v_blocks,
                         .soft_cap = attn->soft_cap,
                         .has_sinks = attn->sinks != NULL,
                         .in_parts = job->n_ranges > 1,
                         .chunk_begin = begin,
                         .chunk_end = end};
    uint32_t flags[LK_ATTN_MAX_QUERIES] = {0};
    add_queries(job, unit, flags, &args);
    b->kernels.attention(&args);
    const uint32_t n_heads = unit->head_end - unit->head;
    for (size_t i = 0; i < args.n_queries; i++) {
        const bool is_bad =
            flags[i] != 0 ||
            (!args.in_parts && b->kernels.check_finite(args.out[i], args.head_dim) != 0);
        if (is_bad) {
            lk_cpu_mark(b, unit->row + (uint32_t)i / n_heads);
        }
    }
}

static void attend_unit(void *arg, uint32_t i_task, uint32_t i_thread) {
    const attention_job *job = arg;
    const attention_unit unit = find_unit(job, i_task);
    attend(job, &unit, unit.chunk, unit.chunk_end, i_thread);
}

/* The outputs of a unit from its parts. */
static void join(const attention_job *job, const attention_unit *unit) {
    lk_backend *b = job->b;
    const lk_attention *attn = &job->node->p.attn;
    for (uint32_t r = unit->row; r < unit->row_end; r++) {
        const int64_t pos = b->step->rows[r].pos;
        const size_t first = first_key(job->node, pos) / LK_CHUNK;
        for (uint32_t h = unit->head; h < unit->head_end; h++) {
            const lk_attn_parts parts = {.head_dim = attn->head_dim,
                                         .n_parts = (size_t)pos / LK_CHUNK + 1 - first,
                                         .parts = parts_of(job, r, h) +
                                                  (first - unit->chunk) *
                                                      lk_attn_part_floats(attn->head_dim),
                                         .has_sink = attn->sinks != NULL,
                                         .sink = sink_of(job, h),
                                         .out = out_of(job, r, h)};
            b->kernels.attention_join(&parts);
            if (b->kernels.check_finite(parts.out, parts.head_dim) != 0) {
                lk_cpu_mark(b, r);
            }
        }
    }
}

static void attend_range(void *arg, uint32_t i_task, uint32_t i_thread) {
    const attention_job *job = arg;
    const uint32_t i_unit = i_task / job->n_ranges;
    const uint32_t i_range = i_task % job->n_ranges;
    const attention_unit unit = find_unit(job, i_unit);
    const size_t n_chunks = unit.chunk_end - unit.chunk;
    const size_t begin = unit.chunk + n_chunks * i_range / job->n_ranges;
    const size_t end = unit.chunk + n_chunks * (i_range + 1) / job->n_ranges;
    if (begin < end) {
        attend(job, &unit, begin, end, i_thread);
    }
    const uint32_t n_done =
        atomic_fetch_add_explicit(&job->b->n_ranges_done[i_unit], 1u, memory_order_acq_rel) + 1;
    if (n_done == job->n_ranges) {
        join(job, &unit);
    }
}

/* Numbers the units of all runs; returns the work of all together, roughly in elements. */
static size_t count_units(attention_job *job) {
    lk_backend *b = job->b;
    const lk_attention *attn = &job->node->p.attn;
    size_t cost = 0;
    b->first_unit[0] = 0;
    for (uint32_t i = 0; i < b->step->n_runs; i++) {
        const lk_step_run *run = &b->step->runs[i];
        const int64_t last = b->step->rows[run->first + run->n - 1].pos;
        const size_t begin = first_key(job->node, b->step->rows[run->first].pos) / LK_CHUNK;
        const size_t n_chunks = (size_t)last / LK_CHUNK + 1 - begin;
        job->max_chunks = n_chunks > job->max_chunks ? n_chunks : job->max_chunks;
        b->first_unit[i + 1] = b->first_unit[i] + blocks_of_run(job, run) * attn->n_kv_heads;
        cost += run->n * ((size_t)last + 1 - first_key(job->node, last));
    }
    return cost * 2 * attn->n_heads * attn->head_dim;
}

/* Into how many ranges the units are cut. */
static uint32_t choose_ranges(const attention_job *job) {
    const lk_backend *b = job->b;
    const lk_attention *attn = &job->node->p.attn;
    const size_t n_units = b->first_unit[b->step->n_runs];
    const size_t n_parts = (size_t)b->step->n_rows * attn->n_heads * job->max_chunks;
    if (n_units == 0 || n_units >= (size_t)b->n_threads * LK_CPU_UNITS_PER_THREAD ||
        n_parts * lk_attn_part_floats(attn->head_dim) > b->parts_floats) {
        return 1;
    }
    const size_t wanted = (b->n_threads * (size_t)TASKS_PER_THREAD + n_units - 1) / n_units;
    const size_t needed = (job->max_chunks + MAX_RANGE - 1) / MAX_RANGE;
    const size_t most = (job->max_chunks + MIN_RANGE - 1) / MIN_RANGE;
    const size_t n = wanted > needed ? wanted : needed;
    return (uint32_t)(n < most ? n : most);
}

void lk_cpu_run_attention(lk_backend *b, const lk_node *node) {
    const lk_attention *attn = &node->p.attn;
    attention_job job = {.b = b, .node = node, .offset = b->kv_offset[attn->i_kv]};
    job.k_bytes = lk_kv_block_bytes(b->params.k_format, attn->head_dim);
    job.v_bytes = lk_kv_block_bytes(b->params.v_format, attn->head_dim);
    job.heads_per_kv = attn->n_heads / attn->n_kv_heads;
    job.heads_per_task = smaller(job.heads_per_kv, LK_ATTN_MAX_QUERIES);
    job.rows_per_task = LK_ATTN_MAX_QUERIES / job.heads_per_task;
    lk_cpu_for_rows(b, store_rows, &job, b->step->n_rows,
                    2 * (size_t)attn->n_kv_heads * attn->head_dim);

    const size_t cost = count_units(&job);
    const uint32_t n_units = b->first_unit[b->step->n_runs];
    job.n_ranges = choose_ranges(&job);
    if (job.n_ranges == 1) {
        lk_cpu_for_tasks(b, attend_unit, &job, n_units, cost);
    } else {
        for (uint32_t i = 0; i < n_units; i++) {
            atomic_store_explicit(&b->n_ranges_done[i], 0u, memory_order_relaxed);
        }
        lk_cpu_for_tasks(b, attend_range, &job, n_units * job.n_ranges, cost);
    }
    lk_cpu_collect(b, node);
}
