/* cpu_step.c - one step: has what the engine gave checked, then walks the nodes. Holds no operator.
 * Invariant: nothing is allocated here, and a row's first non-finite value stays recorded. */
#include "backend/cpu/cpu.h"
#include "backend/step_check.h"

/* Work below this many elements is done at once by the calling thread: waking the pool costs about
 * as much. */
enum { INLINE_COST = 1 << 15, MAX_ROW_BLOCK = 64, SINCOS_COST = 1 << 12 };

uint32_t lk_cpu_n_rows(const lk_backend *b, lk_row_space space) {
    return b->n_rows[space];
}

uint32_t lk_cpu_step_row(const lk_backend *b, lk_row_space space, uint32_t r) {
    r = space == LK_ROWS_LOGITS ? b->logits_rows[r] : r;
    if (space == LK_ROWS_HALF || space == LK_ROWS_QUARTER) { /* the first of those it is made of */
        const uint32_t i_run = lk_cpu_run_of(b, space, r);
        const uint32_t i = r - lk_cpu_run_first(b, space, i_run);
        return b->step->runs[i_run].first + i * (space == LK_ROWS_HALF ? 2 : 4);
    }
    return space == LK_ROWS_ALL ? r : b->out_rows[r];
}

uint32_t lk_cpu_run_first(const lk_backend *b, lk_row_space space, uint32_t i_run) {
    if (space == LK_ROWS_HALF) {
        return b->half_first[i_run];
    }
    if (space == LK_ROWS_QUARTER) {
        return b->quarter_first[i_run];
    }
    return i_run < b->step->n_runs ? b->step->runs[i_run].first : b->step->n_rows;
}

uint32_t lk_cpu_run_of(const lk_backend *b, lk_row_space space, uint32_t r) {
    uint32_t low = 0;
    uint32_t high = b->step->n_runs;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (lk_cpu_run_first(b, space, middle) <= r) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

float *lk_cpu_value(const lk_backend *b, lk_value v) {
    if (b->graph->values[v].in_logits) {
        return b->step->logits;
    }
    return b->arena + b->graph->values[v].offset * b->step->n_rows;
}

float *lk_cpu_row(const lk_backend *b, lk_value v, uint32_t r) {
    return lk_cpu_value(b, v) + (size_t)r * b->graph->values[v].width;
}

void lk_cpu_record(lk_backend *b, uint32_t step_row, const lk_node *node) {
    lk_step_row *row = &b->step->rows[step_row];
    if (row->bad_op == LK_NODE_COUNT) {
        row->bad_op = node->kind;
        row->bad_layer = node->layer;
    }
}

void lk_cpu_mark(lk_backend *b, uint32_t step_row) {
    atomic_store_explicit(&b->bad[step_row], 1u, memory_order_relaxed);
    atomic_store_explicit(&b->any_bad, 1u, memory_order_relaxed);
}

void lk_cpu_collect(lk_backend *b, const lk_node *node) {
    if (atomic_load_explicit(&b->any_bad, memory_order_relaxed) == 0) {
        return;
    }
    for (uint32_t r = 0; r < b->step->n_rows; r++) {
        if (atomic_load_explicit(&b->bad[r], memory_order_relaxed) != 0) {
            lk_cpu_record(b, r, node);
            atomic_store_explicit(&b->bad[r], 0u, memory_order_relaxed);
        }
    }
    atomic_store_explicit(&b->any_bad, 0u, memory_order_relaxed);
}

typedef struct row_blocks {
    lk_cpu_rows_fn *fn;
    void *arg;
    uint32_t n_rows;
    uint32_t block;
} row_blocks;

static void run_block(void *arg, uint32_t i_task, uint32_t i_thread) {
    (void)i_thread;
    const row_blocks *blocks = arg;
    const uint32_t begin = i_task * blocks->block;
    const uint32_t left = blocks->n_rows - begin;
    blocks->fn(blocks->arg, begin, begin + (left < blocks->block ? left : blocks->block));
}

void lk_cpu_for_rows(lk_backend *b, lk_cpu_rows_fn *fn, void *arg, uint32_t n_rows, size_t cost) {
    if (n_rows == 0) {
        return;
    }
    if (b->n_threads == 1 || n_rows == 1 || n_rows * cost < INLINE_COST) {
        fn(arg, 0, n_rows);
        return;
    }
    row_blocks blocks = {.fn = fn, .arg = arg, .n_rows = n_rows};
    blocks.block = (n_rows + 2 * b->n_threads - 1) / (2 * b->n_threads);
    blocks.block = blocks.block > MAX_ROW_BLOCK ? MAX_ROW_BLOCK : blocks.block;
    lk_pool_run(b->pool, run_block, &blocks, (n_rows + blocks.block - 1) / blocks.block);
}

bool lk_cpu_is_worth_sharing(size_t cost) {
    return cost >= INLINE_COST;
}

void lk_cpu_for_tasks(lk_backend *b, lk_pool_fn fn, void *arg, uint32_t n_tasks, size_t cost) {
    if (lk_cpu_is_worth_sharing(cost)) {
        lk_pool_run(b->pool, fn, arg, n_tasks);
        return;
    }
    for (uint32_t i = 0; i < n_tasks; i++) {
        fn(arg, i, 0);
    }
}

/* Where the runs begin in the spaces of an encoder. */
static void count_runs(lk_backend *b, const lk_step *step) {
    uint32_t n_half = 0;
    uint32_t n_quarter = 0;
    for (uint32_t i = 0; b->graph->max_run != 0 && i <= step->n_runs; i++) {
        b->half_first[i] = n_half;
        b->quarter_first[i] = n_quarter;
        if (i < step->n_runs) {
            n_half += lk_rows_of_run(LK_ROWS_HALF, step->runs[i].n);
            n_quarter += lk_rows_of_run(LK_ROWS_QUARTER, step->runs[i].n);
        }
    }
    b->n_rows[LK_ROWS_HALF] = n_half;
    b->n_rows[LK_ROWS_QUARTER] = n_quarter;
}

static void begin_step(lk_backend *b, lk_step *step) {
    uint32_t n_out = 0;
    uint32_t n_hidden = 0;
    b->step = step;
    count_runs(b, step);
    for (uint32_t r = 0; r < step->n_rows; r++) {
        lk_step_row *row = &step->rows[r];
        row->bad_op = LK_NODE_COUNT;
        row->bad_layer = -1;
        if (row->i_out >= 0) {
            b->logits_rows[row->i_out] = n_out;
        }
        if (row->wants_hidden) {
            b->hidden_rows[n_hidden++] = n_out;
        }
        if (row->i_out >= 0 || row->wants_hidden) {
            b->out_rows[n_out++] = r;
        }
    }
    b->n_rows[LK_ROWS_ALL] = step->n_rows;
    b->n_rows[LK_ROWS_OUT] = n_out;
    b->n_rows[LK_ROWS_LOGITS] = step->n_out;
    for (lk_row_space space = LK_ROWS_ALL; space < LK_N_ROW_SPACES; space++) {
        b->mixed[space] = b->n_rows[space] > 0 &&
                          step->rows[lk_cpu_step_row(b, space, 0)].i_run !=
                              step->rows[lk_cpu_step_row(b, space, b->n_rows[space] - 1)].i_run;
    }
    for (uint32_t i = 0; i < LK_CPU_PREP_COUNT; i++) {
        b->prepared[i].value = -1;
    }
}

static void fill_ropes(void *arg, uint32_t begin, uint32_t end) {
    lk_backend *b = arg;
    for (uint32_t i = 0; i < b->graph->n_ropes; i++) {
        const lk_rope_table *table = &b->graph->ropes[i];
        for (uint32_t r = begin; r < end; r++) {
            lk_rope_cos_sin(b->step->rows[r].pos, table->inv, table->n_rot / 2, table->magnitude,
                            b->rope[i] + (size_t)r * table->n_rot);
        }
    }
}

/* Whether a node has anything to do. */
static bool has_rows(const lk_backend *b, const lk_node *node) {
    /* What leads to the logits also gives out the hidden state, of rows without logits too. */
    const lk_value v = node->kind == LK_NODE_SELECT_LOGITS ? node->in[0] : node->out;
    return lk_cpu_n_rows(b, b->graph->values[v].space) > 0;
}

/* The end of the nodes that run together with node i: a run of row-wise ones, or matrix products of
 * one input. */
static uint32_t group_end(const lk_graph *graph, uint32_t i) {
    const lk_node *first = &graph->nodes[i];
    const lk_row_space space = graph->values[first->out].space;
    const bool row_wise = lk_node_is_row_wise(first->kind);
    uint32_t end = i + 1;
    for (; end < graph->n_nodes; end++) {
        const lk_node *node = &graph->nodes[end];
        const bool joins =
            row_wise ? lk_node_is_row_wise(node->kind) && graph->values[node->out].space == space
                     : first->kind == LK_NODE_MATMUL && node->kind == LK_NODE_MATMUL &&
                           node->in[0] == first->in[0] && node->layer == first->layer;
        if (!joins) {
            break;
        }
    }
    return end;
}

/* The nodes [begin, end), which run together. */
static void run_group(lk_backend *b, const lk_node *begin, const lk_node *end) {
    if (lk_node_is_row_wise(begin->kind)) {
        lk_cpu_run_row_wise(b, begin, end);
        return;
    }
    switch (begin->kind) {
    case LK_NODE_MATMUL:
        lk_cpu_run_matmul(b, begin, end);
        break;
    case LK_NODE_ATTENTION:
        lk_cpu_run_attention(b, begin);
        break;
    case LK_NODE_MOE:
        lk_cpu_run_moe(b, begin);
        break;
    case LK_NODE_NEIGHBOURS:
        lk_cpu_run_neighbours(b, begin);
        break;
    case LK_NODE_RUN_ATTENTION:
        lk_cpu_run_run_attention(b, begin);
        break;
    case LK_NODE_MEAN_OF_TWO:
        lk_cpu_run_mean_of_two(b, begin);
        break;
    case LK_NODE_SELECT_OUT:
        lk_cpu_run_select(b, begin);
        break;
    default:
        lk_cpu_run_select_logits(b, begin);
        break;
    }
}

/* Announces the next product from node i on; after the last one the first one of the next step, as
 * it will be if the rows are of the same kinds. */
static void announce(lk_backend *b, uint32_t i) {
    const lk_graph *graph = b->graph;
    for (uint32_t n = 0; n < graph->n_nodes; n++, i++) {
        i = i < graph->n_nodes ? i : 0;
        if (graph->nodes[i].kind == LK_NODE_MATMUL && has_rows(b, &graph->nodes[i])) {
            lk_cpu_announce_matmul(b, &graph->nodes[i], &graph->nodes[group_end(graph, i)]);
            return;
        }
    }
}

/* Values that somebody wants to see. */
static void show(const lk_backend *b, const lk_node *begin, const lk_node *end) {
    const lk_step *step = b->step;
    for (const lk_node *node = begin; step->show != NULL && node < end; node++) {
        const lk_value_info *info = &b->graph->values[node->out];
        if (info->stage >= 0) {
            step->show(step->show_ctx, (uint32_t)info->stage, lk_cpu_value(b, node->out),
                       lk_cpu_n_rows(b, info->space), info->width);
        }
    }
}

lk_status lk_cpu_step(lk_backend *b, lk_step *step, lk_error *err) {
    const lk_status status = lk_step_check(b->graph, &b->params, step, err);
    if (status != LK_OK) {
        return status;
    }
    begin_step(b, step);
    lk_cpu_for_rows(b, fill_ropes, b, step->n_rows, SINCOS_COST);
    const lk_graph *graph = b->graph;
    uint32_t end = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i = end) {
        const lk_node *node = &graph->nodes[i];
        end = group_end(graph, i);
        if (!has_rows(b, node)) {
            continue;
        }
        if (node->kind == LK_NODE_MATMUL) {
            announce(b, end);
        }
        run_group(b, node, &graph->nodes[end]);
        show(b, node, &graph->nodes[end]);
    }
    b->step = NULL;
    return LK_OK;
}
