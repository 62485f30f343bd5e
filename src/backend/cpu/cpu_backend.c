/* cpu_backend.c - the CPU backend's life and its KV pages. Computes nothing. Invariant: all memory
 * that a step uses is allocated in create. */
#include "backend/cpu/cpu.h"

#include <string.h>

#include "backend/page_layout.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/huge_pages.h"

/* Cuts one allocation into parts: a first pass without memory measures, a second one hands out. */
typedef struct layout {
    uint8_t *base; /* NULL: measure only */
    size_t used;
    bool overflow;
} layout;

static void *carve(layout *l, size_t count, size_t elem_size) {
    size_t size = 0;
    size_t end = 0;
    if (!lk_mul_size(count, elem_size, &size) || !lk_add_size(l->used, size, &end) ||
        !lk_add_size(end, LK_ALIGN_DEFAULT - 1, &end)) {
        l->overflow = true;
        return NULL;
    }
    void *part = l->base != NULL ? l->base + l->used : NULL;
    l->used = end / LK_ALIGN_DEFAULT * LK_ALIGN_DEFAULT;
    return part;
}

static size_t times(layout *l, size_t a, size_t b) {
    size_t product = 0;
    l->overflow = l->overflow || !lk_mul_size(a, b, &product);
    return product;
}

static void carve_prepared(layout *l, lk_cpu_prepared prepared[LK_CPU_PREP_COUNT], size_t n_rows) {
    for (uint32_t i = 0; i < LK_CPU_PREP_COUNT; i++) {
        lk_cpu_prepared *p = &prepared[i];
        const size_t n = times(l, n_rows, p->max_width);
        if (i == LK_CPU_PREP_R13 || i == LK_CPU_PREP_R16B) {
            p->x = carve(l, n, sizeof *p->x);
        } else if (i == LK_CPU_PREP_Q32 || i == LK_CPU_PREP_Q256) {
            p->q = carve(l, n == 0 ? 0 : times(l, n_rows, lk_cpu_q_stride(p->max_width)),
                         sizeof *p->q);
            p->d = carve(l, n / (i == LK_CPU_PREP_Q32 ? 32 : 256), sizeof *p->d);
            p->sums = carve(l, n / LK_SUBGROUP, sizeof *p->sums);
        }
    }
}

static void widen(const lk_backend *b, lk_cpu_prepared prepared[LK_CPU_PREP_COUNT],
                  const lk_weight *w) {
    lk_cpu_prepared *p = &prepared[lk_cpu_prep_of(b, w)];
    p->max_width = w->ne[0] > p->max_width ? (size_t)w->ne[0] : p->max_width;
}

/* The largest experts of the graph; all zero in a dense one. */
typedef struct moe_sizes {
    size_t n_used;
    size_t n_experts;
    size_t width;
    size_t n_ff;
} moe_sizes;

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Which kinds of prepared rows the graph needs and how wide. */
static moe_sizes measure_graph(lk_backend *b) {
    moe_sizes sizes = {0};
    for (uint32_t i = 0; i < b->graph->n_nodes; i++) {
        const lk_node *node = &b->graph->nodes[i];
        if (node->kind == LK_NODE_MATMUL) {
            widen(b, b->prepared, node->w);
        } else if (node->kind == LK_NODE_MOE) {
            widen(b, b->moe.in, node->p.moe.gate);
            widen(b, b->moe.in, node->p.moe.up);
            widen(b, b->moe.hidden, node->p.moe.down);
            sizes.n_used = larger(sizes.n_used, node->p.moe.n_used);
            sizes.n_experts = larger(sizes.n_experts, node->p.moe.n_experts);
            sizes.width = larger(sizes.width, b->graph->values[node->out].width);
            sizes.n_ff = larger(sizes.n_ff, node->p.moe.n_ff);
        }
    }
    return sizes;
}

static void carve_moe(layout *l, lk_cpu_moe *moe, const moe_sizes *sizes, size_t max_rows) {
    const size_t n = times(l, max_rows, sizes->n_used);
    moe->ids = carve(l, n, sizeof *moe->ids);
    moe->weights = carve(l, n, sizeof *moe->weights);
    moe->slot = carve(l, n, sizeof *moe->slot);
    moe->row_of = carve(l, n, sizeof *moe->row_of);
    moe->expert_of = carve(l, n, sizeof *moe->expert_of);
    moe->first = carve(l, sizes->n_experts + 1, sizeof *moe->first);
    moe->active = carve(l, sizes->n_experts, sizeof *moe->active);
    moe->gate = carve(l, times(l, n, sizes->n_ff), sizeof *moe->gate);
    moe->up = carve(l, times(l, n, sizes->n_ff), sizeof *moe->up);
    moe->down = carve(l, times(l, n, sizes->width), sizeof *moe->down);
    const bool plain = moe->in[LK_CPU_PREP_NONE].max_width != 0;
    moe->gathered = carve(l, plain ? times(l, n, sizes->width) : 0, sizeof *moe->gathered);
    carve_prepared(l, moe->in, n);
    carve_prepared(l, moe->hidden, n);
}

/* Room for the parts of all query heads over one page: what one row needs for each page of its
 * sequence, so that decoding can always be cut, also of many sequences that share no page. */
static size_t part_floats_of_page(const lk_backend *b) {
    size_t most = 0;
    for (uint32_t i = 0; b->n_threads > 1 && i < b->graph->n_nodes; i++) {
        const lk_node *node = &b->graph->nodes[i];
        if (node->kind == LK_NODE_ATTENTION) {
            const lk_attention *attn = &node->p.attn;
            most = larger(most, attn->n_heads * lk_attn_part_floats(attn->head_dim));
        }
    }
    return most;
}

/* What an encoder needs beside the rest: where runs begin, blocks of keys and values. */
static void carve_encoder(lk_backend *b, layout *l) {
    const size_t max_rows = b->params.max_rows;
    size_t head_dim = 0;
    for (uint32_t i = 0; i < b->graph->n_nodes; i++) {
        const lk_node *node = &b->graph->nodes[i];
        if (node->kind == LK_NODE_RUN_ATTENTION) {
            head_dim = larger(head_dim, node->p.attn.head_dim);
        }
    }
    b->run_chunks = (b->graph->max_run + LK_CHUNK - 1) / LK_CHUNK;
    b->run_block_bytes = lk_kv_block_bytes(LK_KV_FORMAT_F32, head_dim);
    b->half_first = carve(l, max_rows + 1, sizeof *b->half_first);
    b->quarter_first = carve(l, max_rows + 1, sizeof *b->quarter_first);
    b->run_blocks = carve(l, (size_t)b->n_threads * 2 * b->run_chunks, b->run_block_bytes);
}

static void carve_all(lk_backend *b, layout *l, const moe_sizes *sizes) {
    const lk_graph *graph = b->graph;
    const size_t max_rows = b->params.max_rows;
    b->threads = carve(l, b->n_threads, sizeof *b->threads);
    b->kv_offset = carve(l, graph->n_kv_layers, sizeof *b->kv_offset);
    b->arena = carve(l, times(l, graph->arena_floats, max_rows), sizeof *b->arena);
    carve_prepared(l, b->prepared, max_rows);
    b->rope = carve(l, graph->n_ropes, sizeof *b->rope);
    for (uint32_t i = 0; i < graph->n_ropes; i++) {
        float *table = carve(l, times(l, max_rows, graph->ropes[i].n_rot), sizeof *table);
        if (b->rope != NULL) {
            b->rope[i] = table;
        }
    }
    b->out_rows = carve(l, max_rows, sizeof *b->out_rows);
    b->logits_rows = carve(l, max_rows, sizeof *b->logits_rows);
    b->hidden_rows = carve(l, max_rows, sizeof *b->hidden_rows);
    b->first_unit = carve(l, max_rows + 1, sizeof *b->first_unit);
    b->n_ranges_done =
        carve(l, (size_t)b->n_threads * LK_CPU_UNITS_PER_THREAD, sizeof *b->n_ranges_done);
    b->parts_floats = times(l, b->params.n_pages, part_floats_of_page(b));
    b->parts = carve(l, b->parts_floats, sizeof *b->parts);
    b->blocks = carve(l, times(l, (size_t)b->n_threads * 2, b->params.n_pages), sizeof *b->blocks);
    b->bad = carve(l, max_rows, sizeof *b->bad);
    if (graph->max_run != 0) {
        carve_encoder(b, l);
    }
    if (sizes->n_used != 0) {
        carve_moe(l, &b->moe, sizes, max_rows);
    }
}

uint8_t *lk_cpu_page(const lk_backend *b, uint32_t page) {
    return page < b->params.n_pages
               ? b->pages + page * b->page_bytes
               : b->window_pages + (page - b->params.n_pages) * b->window_page_bytes;
}

static lk_status allocate(lk_backend *b, lk_error *err) {
    const lk_allocator *a = b->allocator;
    size_t all_pages = 0;
    size_t all_window_pages = 0;
    size_t page_bytes[2];
    const moe_sizes sizes = measure_graph(b);
    layout measured = {0};
    carve_all(b, &measured, &sizes);
    if (measured.overflow || !lk_page_layout(b->graph, &b->params, NULL, page_bytes) ||
        !lk_mul_size(page_bytes[0], b->params.n_pages, &all_pages) ||
        !lk_mul_size(page_bytes[1], b->params.n_window_pages, &all_window_pages)) {
        return lk_fail(err, LK_E_LIMIT, LK_NOWHERE,
                       "%u rows and %u KV pages need more memory than can be addressed",
                       b->params.max_rows, b->params.n_pages);
    }
    b->page_bytes = page_bytes[0];
    b->window_page_bytes = page_bytes[1];
    b->pages = lk_alloc(a, all_pages);
    b->window_pages = b->pages != NULL ? lk_alloc(a, all_window_pages) : NULL;
    if (b->window_pages == NULL) {
        return lk_fail_nomem(err, "the KV pages", b->pages == NULL ? all_pages : all_window_pages);
    }
    lk_huge_pages_ask(b->pages, all_pages);
    lk_huge_pages_ask(b->window_pages, all_window_pages);
    b->scratch_bytes = measured.used;
    b->scratch = lk_alloc(a, b->scratch_bytes);
    if (b->scratch == NULL) {
        return lk_fail_nomem(err, "the scratch memory", b->scratch_bytes);
    }
    lk_huge_pages_ask(b->scratch, b->scratch_bytes); /* rows of a prompt lie far apart */
    layout handed = {.base = b->scratch};
    carve_all(b, &handed, &sizes);
    (void)lk_page_layout(b->graph, &b->params, b->kv_offset, page_bytes);
    for (uint32_t r = 0; r < b->params.max_rows; r++) {
        atomic_init(&b->bad[r], 0u);
    }
    for (uint32_t i = 0; i < b->n_threads; i++) {
        atomic_init(&b->threads[i].region, 0u);
        atomic_init(&b->threads[i].next, 0u);
        b->threads[i].ahead = 0;
        b->threads[i].n_asked = 0;
    }
    lk_pool_set_idle(b->pool, lk_cpu_ask_ahead, b);
    for (uint32_t i = 0; i < b->n_threads * LK_CPU_UNITS_PER_THREAD; i++) {
        atomic_init(&b->n_ranges_done[i], 0u);
    }
    return LK_OK;
}

static void destroy(lk_backend *b) {
    if (b == NULL) {
        return;
    }
    const lk_allocator *a = b->allocator;
    lk_pool_destroy(b->pool);
    lk_free(a, b->scratch, b->scratch_bytes);
    lk_free(a, b->window_pages, b->window_page_bytes * b->params.n_window_pages);
    lk_free(a, b->pages, b->page_bytes * b->params.n_pages);
    lk_free(a, b, sizeof *b);
}

static lk_status create(const lk_graph *graph, const lk_backend_params *params, lk_backend **out,
                        lk_error *err) {
    *out = NULL;
    const lk_allocator *a = lk_allocator_or_default(params->allocator);
    lk_backend *b = lk_alloc_zero(a, sizeof *b);
    if (b == NULL) {
        return lk_fail_nomem(err, "the CPU backend", sizeof *b);
    }
    b->allocator = a;
    b->graph = graph;
    b->params = *params;
    atomic_init(&b->any_bad, 0u);
    lk_cpu_kernels_init(&b->kernels, params->isa_mask);
    b->stats.isa = b->kernels.isa;
    lk_status status = lk_pool_create(a, params->n_threads, &b->pool, err);
    if (status == LK_OK) {
        b->n_threads = lk_pool_n_threads(b->pool);
        b->stats.n_threads = b->n_threads;
        status = allocate(b, err);
    }
    if (status != LK_OK) {
        destroy(b);
        return status;
    }
    *out = b;
    return LK_OK;
}

static size_t page_bytes(const lk_backend *b) {
    return b->page_bytes;
}

static size_t window_page_bytes(const lk_backend *b) {
    return b->window_page_bytes;
}

static bool is_window_page(const lk_backend *b, uint32_t page) {
    return page >= b->params.n_pages;
}

static size_t bytes_of(const lk_backend *b, uint32_t page) {
    return is_window_page(b, page) ? b->window_page_bytes : b->page_bytes;
}

static lk_status find_page(const lk_backend *b, uint32_t page, uint8_t **out, lk_error *err) {
    if (page >= b->params.n_pages && page - b->params.n_pages >= b->params.n_window_pages) {
        return lk_fail(err, LK_E_INTERNAL, LK_NOWHERE, "KV page %u of %u and %u", page,
                       b->params.n_pages, b->params.n_window_pages);
    }
    *out = lk_cpu_page(b, page);
    return LK_OK;
}

static lk_status page_copy(lk_backend *b, uint32_t dst, uint32_t src, lk_error *err) {
    uint8_t *to = NULL;
    uint8_t *from = NULL;
    lk_status status = find_page(b, dst, &to, err);
    if (status == LK_OK) {
        status = find_page(b, src, &from, err);
    }
    if (status == LK_OK && is_window_page(b, dst) != is_window_page(b, src)) {
        return lk_fail(err, LK_E_INTERNAL, LK_NOWHERE, "KV pages %u and %u are of two kinds", dst,
                       src);
    }
    if (status == LK_OK && dst != src) {
        memcpy(to, from, bytes_of(b, dst));
    }
    return status;
}

static lk_status page_fill(lk_backend *b, uint32_t page, uint8_t byte, lk_error *err) {
    uint8_t *to = NULL;
    const lk_status status = find_page(b, page, &to, err);
    if (status == LK_OK) {
        memset(to, byte, bytes_of(b, page));
    }
    return status;
}

/* Copies positions 0 .. n-1 of one head's block, zero behind; returns the bytes of the block. */
static size_t read_block(lk_kv_format format, size_t head_dim, size_t n, const uint8_t *block,
                         uint8_t *out) {
    const size_t size = lk_kv_block_bytes(format, head_dim);
    memset(out, 0, size);
    if (format == LK_KV_FORMAT_Q8_0) {
        const size_t scales = LK_CHUNK * head_dim;
        const size_t scale_bytes = (head_dim + LK_KV_GROUP - 1) / LK_KV_GROUP * sizeof(float);
        memcpy(out, block, n * head_dim);
        memcpy(out + scales, block + scales, n * scale_bytes);
    } else {
        memcpy(out, block, n * (size / LK_CHUNK));
    }
    return size;
}

static lk_status page_read(lk_backend *b, uint32_t page, uint32_t n_positions, void *out,
                           lk_error *err) {
    uint8_t *from = NULL;
    const lk_status status = find_page(b, page, &from, err);
    if (status != LK_OK || n_positions > LK_CHUNK) {
        return status != LK_OK
                   ? status
                   : lk_fail(err, LK_E_INTERNAL, LK_NOWHERE, "%u positions of a page", n_positions);
    }
    uint8_t *to = out;
    size_t done = 0;
    for (uint32_t i = 0; i < b->graph->n_kv_layers; i++) {
        const lk_kv_layer *layer = &b->graph->kv_layers[i];
        if ((layer->window != 0) != is_window_page(b, page)) {
            continue;
        }
        for (uint32_t h = 0; h < 2 * layer->n_kv_heads; h++) {
            const lk_kv_format format =
                h < layer->n_kv_heads ? b->params.k_format : b->params.v_format;
            done += read_block(format, layer->head_dim, n_positions, from + done, to + done);
        }
    }
    return LK_OK;
}

static lk_status page_write(lk_backend *b, uint32_t page, const void *in, lk_error *err) {
    uint8_t *to = NULL;
    const lk_status status = find_page(b, page, &to, err);
    if (status == LK_OK) {
        memcpy(to, in, bytes_of(b, page));
    }
    return status;
}

static void get_stats(const lk_backend *b, lk_backend_stats *stats) {
    *stats = b->stats;
}

static void run_tasks(lk_backend *b, lk_pool_fn fn, void *arg, uint32_t n_tasks) {
    lk_pool_run(b->pool, fn, arg, n_tasks);
}

const lk_backend_ops lk_backend_cpu = {
    .name = "cpu",
    .create = create,
    .destroy = destroy,
    .step = lk_cpu_step,
    .page_bytes = page_bytes,
    .window_page_bytes = window_page_bytes,
    .page_copy = page_copy,
    .page_fill = page_fill,
    .page_read = page_read,
    .page_write = page_write,
    .get_stats = get_stats,
    .run_tasks = run_tasks,
};
