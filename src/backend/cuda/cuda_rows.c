/* cuda_rows.c - the tables that tell kernels about the rows of a step: which belong together, where
 * their pages are, the angles of their positions. Made here, where the runs are known, so that no
 * kernel searches. They lie one behind the other, for as many rows as the step has, so that one
 * copy brings them to the device. */
#include "backend/cuda/cuda.h"
#include "base/error.h"
#include "ops/math.h"
#include "ops/rope.h"

enum { ALIGN = 16 };

/* The next table of `bytes`; *used: bytes of all so far. */
static lk_cuda_table take(const lk_backend *b, size_t *used, size_t bytes) {
    const size_t at = *used;
    *used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return (lk_cuda_table){b->host_tables + at, b->tables + at};
}

static size_t node_bytes(const lk_node *node) {
    switch (node->kind) {
    case LK_NODE_NEIGHBOURS:
        return sizeof(lk_cuda_neighbour_row);
    case LK_NODE_MEAN_OF_TWO:
        return sizeof(uint32_t);
    case LK_NODE_TEMPERATURE:
        return sizeof(float);
    default:
        return 0;
    }
}

size_t lk_cuda_place_tables(lk_backend *b, uint32_t n_rows) {
    const size_t n = n_rows;
    size_t used = 0;
    for (lk_row_space i = LK_ROWS_ALL; i < LK_N_ROW_SPACES; i++) {
        lk_cuda_space *s = &b->spaces[i];
        const size_t in_runs = b->graph->max_run != 0 ? n : 0;
        s->step_row = take(b, &used, n * sizeof(uint32_t));
        s->in_run = take(b, &used, in_runs * sizeof(uint32_t));
        s->run_rows = take(b, &used, in_runs * sizeof(lk_cuda_run_row));
    }
    lk_cuda_rows *r = &b->rows;
    lk_cuda_table *const of_rows[] = {&r->from, &r->pos, &r->logits, &r->hidden, &r->first_page};
    for (size_t i = 0; i < sizeof of_rows / sizeof of_rows[0]; i++) {
        *of_rows[i] = take(b, &used, n * sizeof(uint32_t));
    }
    for (uint32_t i = 0; i < b->graph->n_ropes; i++) {
        b->ropes[i] = take(b, &used, n * b->graph->ropes[i].n_rot * sizeof(float));
    }
    for (uint32_t i = 0; i < b->graph->n_nodes; i++) {
        b->nodes[i].rows = take(b, &used, n * node_bytes(&b->graph->nodes[i]));
    }
    return used;
}

/* ---- encoders ---- */

/* Adds the rows of a run of `n` to a space. */
static void add_run(lk_cuda_space *s, lk_row_space space, uint32_t first, uint32_t n) {
    uint32_t *step_row = s->step_row.host;
    uint32_t *in_run = s->in_run.host;
    lk_cuda_run_row *run_rows = s->run_rows.host;
    const uint32_t begin = s->n_rows;
    const uint32_t n_here = lk_rows_of_run(space, n);
    const uint32_t stride = space == LK_ROWS_HALF ? 2 : space == LK_ROWS_QUARTER ? 4 : 1;
    for (uint32_t i = 0; i < n_here; i++) {
        step_row[begin + i] = first + i * stride; /* the first of those it is made of */
        in_run[begin + i] = i;
        run_rows[begin + i] = (lk_cuda_run_row){begin, begin + n_here};
    }
    s->n_rows += n_here;
}

/* Goes through the runs of a node's input and output together. */
static void fill_node(lk_backend *b, const lk_node *node, void *rows) {
    lk_cuda_neighbour_row *neighbours = rows;
    uint32_t *from = rows;
    const uint32_t *in_run = lk_cuda_space_of(b, node->out)->in_run.host;
    const lk_row_space in_space = b->graph->values[node->in[0]].space;
    const lk_row_space out_space = b->graph->values[node->out].space;
    uint32_t in_first = 0;
    uint32_t r = 0;
    for (uint32_t i = 0; i < b->step->n_runs; i++) {
        const uint32_t n_in = lk_rows_of_run(in_space, b->step->runs[i].n);
        const uint32_t end = r + lk_rows_of_run(out_space, b->step->runs[i].n);
        for (; r < end; r++) {
            if (node->kind == LK_NODE_MEAN_OF_TWO) {
                from[r] = in_first + 2 * in_run[r];
                continue;
            }
            neighbours[r] = (lk_cuda_neighbour_row){
                .centre = (int32_t)(in_first + in_run[r] * node->p.neighbours.stride),
                .begin = (int32_t)in_first,
                .end = (int32_t)(in_first + n_in)};
        }
        in_first += n_in;
    }
}

static void fill_encoder(lk_backend *b) {
    static const lk_row_space spaces[] = {LK_ROWS_ALL, LK_ROWS_HALF, LK_ROWS_QUARTER};
    for (size_t k = 0; k < sizeof spaces / sizeof spaces[0]; k++) {
        for (uint32_t i = 0; i < b->step->n_runs; i++) {
            add_run(&b->spaces[spaces[k]], spaces[k], b->step->runs[i].first, b->step->runs[i].n);
        }
    }
    for (uint32_t i = 0; i < b->graph->n_nodes; i++) {
        if (node_bytes(&b->graph->nodes[i]) != 0) {
            fill_node(b, &b->graph->nodes[i], b->nodes[i].rows.host);
        }
    }
}

/* ---- text ---- */

/* Whose embedding each row is: a token's, or the next of the vectors. */
static void fill_from(lk_backend *b) {
    int32_t *from = b->rows.from.host;
    int32_t n_vectors = 0;
    for (uint32_t r = 0; r < b->step->n_rows; r++) {
        const lk_step_row *row = &b->step->rows[r];
        from[r] = row->embedding != NULL ? -1 - n_vectors++ : row->token;
    }
}

/* Positions, and the rows that want something. */
static void fill_outputs(lk_backend *b) {
    const lk_step *step = b->step;
    uint32_t *all_rows = b->spaces[LK_ROWS_ALL].step_row.host;
    uint32_t *out_rows = b->spaces[LK_ROWS_OUT].step_row.host;
    uint32_t *logits_step_rows = b->spaces[LK_ROWS_LOGITS].step_row.host;
    uint32_t *logits = b->rows.logits.host;
    uint32_t *hidden = b->rows.hidden.host;
    uint32_t *pos = b->rows.pos.host;
    uint32_t n_out = 0;
    uint32_t n_hidden = 0;
    for (uint32_t r = 0; r < step->n_rows; r++) {
        const lk_step_row *row = &step->rows[r];
        all_rows[r] = r;
        pos[r] = (uint32_t)row->pos;
        if (row->i_out >= 0) {
            logits[row->i_out] = n_out;
            logits_step_rows[row->i_out] = r;
        }
        if (row->wants_hidden) {
            hidden[n_hidden++] = n_out;
        }
        if (row->i_out >= 0 || row->wants_hidden) {
            out_rows[n_out++] = r;
        }
    }
    b->spaces[LK_ROWS_ALL].n_rows = step->n_rows;
    b->spaces[LK_ROWS_OUT].n_rows = n_out;
    b->spaces[LK_ROWS_LOGITS].n_rows = step->n_out;
}

static lk_status fill_pages(lk_backend *b, lk_error *err) {
    const lk_step *step = b->step;
    const bool has_windows = b->graph->window != 0;
    uint32_t *first_page = b->rows.first_page.host;
    uint32_t *pages = b->rows.pages.host;
    uint32_t *window_pages = b->rows.window_pages.host;
    size_t n = 0;
    b->rows.max_chunks = 0;
    for (uint32_t i = 0; i < step->n_runs; i++) {
        const lk_step_run *run = &step->runs[i];
        const int64_t first_pos = step->rows[run->first].pos;
        const uint32_t n_chunks = (uint32_t)((first_pos + run->n - 1) / LK_CHUNK + 1);
        const uint32_t begin =
            (uint32_t)(lk_step_window_begin(b->graph->window, first_pos) / LK_CHUNK);
        if (n_chunks > b->rows.page_capacity - n) {
            return lk_fail(err, LK_E_LIMIT, LK_NOWHERE,
                           "the sequences of a step have more than %zu pages together",
                           b->rows.page_capacity);
        }
        for (uint32_t r = run->first; r < run->first + run->n; r++) {
            first_page[r] = (uint32_t)n;
        }
        for (uint32_t c = 0; c < n_chunks; c++) {
            pages[n + c] = run->pages[c];
            if (has_windows) { /* those before the window are not there, and are not read */
                window_pages[n + c] = c < begin ? 0 : run->window_pages[c] - b->params.n_pages;
            }
        }
        n += n_chunks;
        b->rows.max_chunks = n_chunks > b->rows.max_chunks ? n_chunks : b->rows.max_chunks;
    }
    b->rows.n_page_entries = n;
    return LK_OK;
}

/* A task: the angles of one row, for every table. */
static void fill_ropes(void *arg, uint32_t r, uint32_t i_thread) {
    const lk_backend *b = arg;
    (void)i_thread;
    for (uint32_t i = 0; i < b->graph->n_ropes; i++) {
        const lk_rope_table *table = &b->graph->ropes[i];
        float *cos_sin = b->ropes[i].host;
        lk_rope_cos_sin(b->step->rows[r].pos, table->inv, table->n_rot / 2, table->magnitude,
                        cos_sin + (size_t)r * table->n_rot);
    }
}

/* The factor of a position (section 7 of docs/numerics.md). */
static float temperature(const lk_node *node, int64_t pos) {
    const int64_t n = pos / node->p.temperature.period;
    return n == 0 ? 1.0f : (float)(1.0 + node->p.temperature.scale * lk_log((double)n + 1.0));
}

static lk_status fill_text(lk_backend *b, lk_error *err) {
    fill_from(b);
    fill_outputs(b);
    lk_pool_run(b->pool, fill_ropes, b, b->step->n_rows);
    for (uint32_t i = 0; i < b->graph->n_nodes; i++) {
        const lk_node *node = &b->graph->nodes[i];
        float *factors = b->nodes[i].rows.host;
        for (uint32_t r = 0; node->kind == LK_NODE_TEMPERATURE && r < b->step->n_rows; r++) {
            factors[r] = temperature(node, b->step->rows[r].pos);
        }
    }
    return fill_pages(b, err);
}

lk_status lk_cuda_fill_tables(lk_backend *b, lk_error *err) {
    b->fixed_bytes = lk_cuda_place_tables(b, b->step->n_rows);
    for (lk_row_space i = LK_ROWS_ALL; i < LK_N_ROW_SPACES; i++) {
        b->spaces[i].n_rows = 0;
    }
    if (b->graph->max_run != 0) {
        fill_encoder(b);
        return LK_OK;
    }
    return fill_text(b, err);
}
