/* cuda_memory.c - all memory of the backend: on the device the weights, KV pages, the values of a
 * step, prepared operands and tables; here what is copied to and from there. Measured first, then
 * handed out from one allocation each. */
#include "backend/cuda/cuda.h"

#include <string.h>

#include "backend/page_layout.h"
#include "base/alloc.h"
#include "base/error.h"

/* Entries of page tables that one step has room for, at most: 64 MiB of them. */
enum { ALIGN = 256, MAX_PAGE_ENTRIES = 1 << 24 };

/* Places in one piece of memory that is there (base) or only measured (base 0). */
typedef struct layout {
    uint64_t base;
    size_t used;
    bool overflow;
} layout;

static size_t times(layout *l, size_t a, size_t b) {
    size_t product = 0;
    l->overflow = !lk_mul_size(a, b, &product) || l->overflow;
    return product;
}

static uint64_t take(layout *l, size_t count, size_t elem_size) {
    size_t bytes = times(l, count, elem_size);
    const uint64_t at = l->base + l->used;
    if (!lk_add_size(bytes, ALIGN - 1, &bytes) ||
        !lk_add_size(l->used, bytes / ALIGN * ALIGN, &l->used)) {
        l->overflow = true;
    }
    return at;
}

static void *take_host(layout *l, size_t count, size_t elem_size) {
    return (void *)(uintptr_t)take(l, count, elem_size);
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* ---- the host's ---- */

/* The widest value that goes through the staging memory: rows that come in, values that are shown.
 */
static size_t staging_width(const lk_graph *graph) {
    size_t width = graph->n_embd;
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const lk_value_info *info = &graph->values[i];
        width = info->stage >= 0 ? larger(width, info->width) : width;
    }
    return width;
}

static void carve_host(lk_backend *b, layout *l) {
    b->nodes = take_host(l, b->graph->n_nodes, sizeof b->nodes[0]);
    b->kv_offset = take_host(l, b->graph->n_kv_layers, sizeof b->kv_offset[0]);
    b->ropes = take_host(l, b->graph->n_ropes, sizeof b->ropes[0]);
    b->host_bad = take_host(l, b->params.max_rows, sizeof b->host_bad[0]);
    b->staging = take_host(l, times(l, staging_width(b->graph), b->params.max_rows), sizeof(float));
    b->host_tables = take_host(l, b->table_bytes, 1);
    b->rows.pages.host = take_host(l, b->rows.page_capacity, sizeof(uint32_t));
    b->rows.window_pages.host =
        take_host(l, b->graph->window != 0 ? b->rows.page_capacity : 0, sizeof(uint32_t));
}

/* Bytes of the tables of fixed size, at most. */
static size_t measure_tables(const lk_backend *b, layout *l) {
    size_t row =
        LK_N_ROW_SPACES * (2 * sizeof(uint32_t) + sizeof(lk_cuda_run_row)) + 5 * sizeof(uint32_t);
    size_t n_tables = 3 * LK_N_ROW_SPACES + 5;
    for (uint32_t i = 0; i < b->graph->n_ropes; i++, n_tables++) {
        row += b->graph->ropes[i].n_rot * sizeof(float);
    }
    for (uint32_t i = 0; i < b->graph->n_nodes; i++, n_tables++) {
        const lk_node_kind kind = b->graph->nodes[i].kind;
        row +=
            kind == LK_NODE_NEIGHBOURS || kind == LK_NODE_MEAN_OF_TWO || kind == LK_NODE_TEMPERATURE
                ? sizeof(lk_cuda_neighbour_row)
                : 0;
    }
    return times(l, row, b->params.max_rows) + n_tables * ALIGN;
}

static lk_status fail_size(const lk_backend *b, lk_error *err) {
    return lk_fail(err, LK_E_LIMIT, LK_NOWHERE,
                   "%u rows and %u KV pages need more memory than can be addressed",
                   b->params.max_rows, b->params.n_pages);
}

static lk_status allocate_host(lk_backend *b, lk_error *err) {
    layout measured = {0};
    carve_host(b, &measured);
    if (measured.overflow || measured.used > SIZE_MAX - ALIGN) {
        return fail_size(b, err);
    }
    b->scratch_bytes = measured.used + ALIGN;
    b->scratch = lk_alloc(b->allocator, b->scratch_bytes);
    if (b->scratch == NULL) {
        return lk_fail_nomem(err, "the scratch memory of a device", b->scratch_bytes);
    }
    layout handed = {.base = ((uintptr_t)b->scratch + ALIGN - 1) / ALIGN * ALIGN};
    carve_host(b, &handed);
    memset(b->nodes, 0, b->graph->n_nodes * sizeof b->nodes[0]);
    return LK_OK;
}

/* ---- the device's ---- */

typedef void carve_fn(lk_backend *b, layout *l);

/* Measures what `carve` takes, allocates that on the device, hands it out. */
static lk_status allocate_device(lk_backend *b, carve_fn *carve, const char *what, lk_error *err) {
    layout measured = {0};
    carve(b, &measured);
    if (measured.overflow) {
        return fail_size(b, err);
    }
    lk_error reason;
    const size_t n_bytes = measured.used != 0 ? measured.used : ALIGN;
    lk_cuda_ptr *memory = &b->memories[b->n_memories];
    const lk_status status =
        lk_cuda_check(&b->driver, b->driver.memory_alloc(memory, n_bytes), "allocating", &reason);
    if (status != LK_OK) {
        return lk_fail(err, status, LK_AT_SUBJECT(what), "%zu bytes for %s: %s", n_bytes, what,
                       reason.message);
    }
    b->n_memories++;
    layout handed = {.base = *memory};
    carve(b, &handed);
    return LK_OK;
}

/* Values that lie in the step's own buffer: its rows times their width. */
static size_t out_floats(const lk_backend *b, layout *l) {
    const lk_graph *graph = b->graph;
    size_t width = graph->values[graph->logits].width;
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const lk_value_info *info = &graph->values[i];
        width = info->in_logits ? larger(width, info->width) : width;
    }
    return times(l, width, graph->max_run != 0 ? b->params.max_rows : b->params.max_out);
}

/* Room for the parts of all query heads over one page, as in the CPU backend: what one row needs
 * for each page of its sequence. */
static size_t part_floats_of_page(const lk_graph *graph) {
    size_t most = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const lk_attention *attn = &graph->nodes[i].p.attn;
        if (graph->nodes[i].kind == LK_NODE_ATTENTION) {
            most = larger(most, attn->n_heads * lk_attn_part_floats(attn->head_dim));
        }
    }
    return most;
}

static void carve_values(lk_backend *b, layout *l) {
    const size_t max_rows = b->params.max_rows;
    b->arena = take(l, times(l, b->graph->arena_floats, max_rows), sizeof(float));
    b->out = take(l, out_floats(b, l), sizeof(float));
    b->hidden = take(l, times(l, lk_graph_hidden_width(b->graph), max_rows), sizeof(float));
    b->inputs =
        take(l, times(l, b->graph->max_run == 0 ? b->graph->n_embd : 0, max_rows), sizeof(float));
    b->bad = take(l, max_rows, sizeof(uint32_t));
    b->parts_floats = times(l, part_floats_of_page(b->graph), b->params.n_pages);
    b->parts = take(l, b->parts_floats, sizeof(float));
}

static void want(lk_cuda_prepared *prepared, const lk_weight *w, size_t width) {
    lk_cuda_prepared *p = &prepared[lk_cuda_prep_of(w)];
    p->max_width = larger(p->max_width, width);
}

static void measure_operands(lk_backend *b) {
    lk_cuda_moe *moe = &b->moe;
    for (uint32_t i = 0; i < b->graph->n_nodes; i++) {
        const lk_node *node = &b->graph->nodes[i];
        if (node->kind == LK_NODE_MATMUL) {
            want(b->prepared, node->w, b->graph->values[node->in[0]].width);
        }
        if (node->kind == LK_NODE_MOE) {
            const lk_moe *p = &node->p.moe;
            const size_t width = b->graph->values[node->out].width;
            want(moe->in, p->gate, width);
            want(moe->in, p->up, width);
            want(moe->hidden, p->down, p->n_ff);
            moe->n_used = p->n_used > moe->n_used ? p->n_used : moe->n_used;
            moe->n_experts = larger(moe->n_experts, p->n_experts);
            moe->n_ff = larger(moe->n_ff, p->n_ff);
            moe->width = larger(moe->width, width);
        }
    }
}

static void carve_prepared(lk_cuda_prepared *prepared, layout *l, size_t n_rows) {
    for (lk_cuda_prep i = LK_CUDA_PREP_R13; i < LK_CUDA_PREP_COUNT; i++) {
        lk_cuda_prepared *p = &prepared[i];
        if (i == LK_CUDA_PREP_Q32 || i == LK_CUDA_PREP_Q256) {
            p->q = take(l, times(l, p->max_width, n_rows), sizeof(int8_t));
            p->d = take(l, times(l, p->max_width / lk_cuda_group_of(i), n_rows), sizeof(float));
            p->sums = take(l, times(l, p->max_width / LK_SUBGROUP, n_rows), sizeof(int16_t));
        } else {
            p->x = take(l, times(l, p->max_width, n_rows), sizeof(float));
        }
    }
}

static void carve_operands(lk_backend *b, layout *l) {
    lk_cuda_moe *moe = &b->moe;
    const size_t n = times(l, moe->n_used, b->params.max_rows);
    carve_prepared(b->prepared, l, b->params.max_rows);
    carve_prepared(moe->in, l, n);
    carve_prepared(moe->hidden, l, n);
    moe->ids = take(l, n, sizeof(int32_t));
    moe->weights = take(l, n, sizeof(float));
    moe->first = take(l, moe->n_experts + 1, sizeof(uint32_t));
    moe->slot = take(l, n, sizeof(uint32_t));
    moe->row_of = take(l, n, sizeof(uint32_t));
    moe->step_row_of = take(l, n, sizeof(uint32_t));
    moe->expert_of = take(l, n, sizeof(uint32_t));
    moe->gathered = take(l, times(l, n, moe->width), sizeof(float));
    moe->gate = take(l, times(l, n, moe->n_ff), sizeof(float));
    moe->up = take(l, times(l, n, moe->n_ff), sizeof(float));
    moe->down = take(l, times(l, n, moe->width), sizeof(float));
}

static void carve_tables(lk_backend *b, layout *l) {
    b->tables = take(l, b->table_bytes, 1);
    b->rows.pages.at = take(l, b->rows.page_capacity, sizeof(uint32_t));
    b->rows.window_pages.at =
        take(l, b->graph->window != 0 ? b->rows.page_capacity : 0, sizeof(uint32_t));
}

static void carve_pages(lk_backend *b, layout *l) {
    b->pages = take(l, b->params.n_pages, b->page_bytes);
    b->window_pages = take(l, b->params.n_window_pages, b->window_page_bytes);
}

/* The offsets count from the start of what is allocated last. */
static void carve_weights(lk_backend *b, layout *l) {
    size_t n_bytes = 0;
    (void)lk_cuda_place_weights(b, 0, &n_bytes, NULL);
    (void)take(l, n_bytes, 1);
}

static lk_status measure(lk_backend *b, lk_error *err) {
    const bool is_text = b->graph->max_run == 0;
    layout l = {0};
    size_t page_bytes[2];
    b->rows.page_capacity = is_text ? times(&l, b->params.max_rows, b->params.n_pages) : 0;
    if (b->rows.page_capacity > MAX_PAGE_ENTRIES) {
        b->rows.page_capacity = larger(MAX_PAGE_ENTRIES, b->params.n_pages);
    }
    b->table_bytes = measure_tables(b, &l);
    if (l.overflow || !lk_page_layout(b->graph, &b->params, NULL, page_bytes)) {
        return fail_size(b, err);
    }
    b->page_bytes = page_bytes[0];
    b->window_page_bytes = page_bytes[1];
    measure_operands(b);
    return LK_OK;
}

lk_status lk_cuda_allocate(lk_backend *b, lk_error *err) {
    static const struct {
        carve_fn *carve;
        const char *what;
    } parts[] = {{carve_values, "the values of a step"},
                 {carve_operands, "the operands of a step"},
                 {carve_tables, "the tables of a step"},
                 {carve_pages, "the KV pages"},
                 {carve_weights, "the weights"}};
    lk_status status = measure(b, err);
    if (status == LK_OK) {
        status = allocate_host(b, err);
    }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && status == LK_OK; i++) {
        status = allocate_device(b, parts[i].carve, parts[i].what, err);
    }
    if (status != LK_OK) {
        return status;
    }
    size_t n_bytes = 0;
    size_t page_bytes[2];
    (void)lk_page_layout(b->graph, &b->params, b->kv_offset, page_bytes);
    status = lk_cuda_place_weights(b, b->memories[b->n_memories - 1], &n_bytes, err);
    return status == LK_OK ? lk_cuda_wait(b, err) : status;
}

void lk_cuda_release_memory(lk_backend *b) {
    for (uint32_t i = 0; i < b->n_memories; i++) {
        (void)b->driver.memory_free(b->memories[i]);
    }
    b->n_memories = 0;
}
