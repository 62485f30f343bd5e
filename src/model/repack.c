/* repack.c - see repack.h. Invariant: a node's strips are set only when they are complete. */
#include "model/repack.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/huge_pages.h"
#include "base/pool.h"
#include "gguf/gguf_pages.h"
#include "quant/strip.h"

/* One matrix, or the matrices of one weight's experts, and where its strips are wanted. */
typedef struct matrix {
    const lk_weight *w;
    const uint8_t **slot;
    size_t strip_bytes;
    size_t n_strips; /* of one expert */
    size_t n_experts;
    size_t n_bytes;
    uint8_t *out;
    size_t first; /* strip of the slice in hand */
} matrix;

/* Strips that are made before the pages of their rows are given back: so much of a matrix is in
 * memory twice, and progress is reported so often. */
enum { SLICE_BYTES = 16 << 20 };

typedef struct matrix_list {
    matrix *items; /* NULL: count only */
    size_t n;
    size_t n_bytes;
    bool too_large;
} matrix_list;

static void add_matrix(matrix_list *list, const lk_weight *w, const uint8_t **slot) {
    if (!lk_strip_has(w->format) || w->ne[1] < LK_STRIP_ROWS) {
        return; /* too few rows: padding would cost more than strips gain */
    }
    matrix m = {.w = w, .slot = slot, .n_experts = (size_t)w->ne[2]};
    m.strip_bytes =
        lk_strip_shape_of(w->format->block_elems, w->format->block_bytes, (size_t)w->ne[0]).bytes;
    m.n_strips = lk_strip_count((size_t)w->ne[1]);
    list->too_large = list->too_large || !lk_mul_size(m.strip_bytes, m.n_strips, &m.n_bytes) ||
                      !lk_mul_size(m.n_bytes, m.n_experts, &m.n_bytes) ||
                      !lk_add_size(list->n_bytes, m.n_bytes, &list->n_bytes);
    list->too_large = list->too_large || m.n_bytes / m.strip_bytes > UINT32_MAX; /* tasks */
    if (list->items != NULL) {
        list->items[list->n] = m;
    }
    list->n++;
}

static void list_matrices(lk_graph *graph, matrix_list *list) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        lk_node *node = &graph->nodes[i];
        if (node->kind == LK_NODE_MATMUL) {
            add_matrix(list, node->w, &node->strips);
        } else if (node->kind == LK_NODE_MOE) {
            add_matrix(list, node->p.moe.gate, &node->p.moe.strips[0]);
            add_matrix(list, node->p.moe.up, &node->p.moe.strips[1]);
            add_matrix(list, node->p.moe.down, &node->p.moe.strips[2]);
        }
    }
}

static void make_strip(void *arg, uint32_t i_task, uint32_t i_thread) {
    (void)i_thread;
    const matrix *m = arg;
    const lk_weight *w = m->w;
    const size_t i_strip = m->first + i_task;
    const size_t i_expert = i_strip / m->n_strips;
    const size_t first = i_strip % m->n_strips * LK_STRIP_ROWS;
    const size_t left = (size_t)w->ne[1] - first;
    lk_strip_make(w->format, w->data + (i_expert * (size_t)w->ne[1] + first) * w->row_bytes,
                  w->row_bytes, left < LK_STRIP_ROWS ? left : LK_STRIP_ROWS, (size_t)w->ne[0],
                  m->out + i_strip * m->strip_bytes);
}

typedef struct repack {
    const lk_gguf *gguf;
    lk_pool *pool;
    lk_progress_fn progress;
    void *progress_ctx;
    size_t done;
    size_t n_bytes;
} repack;

static lk_status report(const repack *r, lk_error *err) {
    if (r->progress != NULL && r->progress(r->progress_ctx, "repack", r->done, r->n_bytes) == 0) {
        return lk_fail(err, LK_E_CANCELLED, LK_NOWHERE, "loading was cancelled");
    }
    return LK_OK;
}

/* The first row of a strip; of the strip after the last one: the end of the rows. */
static size_t row_of(const matrix *m, size_t i_strip) {
    const size_t n_rows = (size_t)m->w->ne[1];
    return i_strip / m->n_strips * n_rows + i_strip % m->n_strips * LK_STRIP_ROWS;
}

static lk_status repack_matrix(repack *r, matrix *m, lk_error *err) {
    const size_t n_strips = m->n_strips * m->n_experts;
    const size_t n_slice = SLICE_BYTES / m->strip_bytes + 1;
    lk_status status = LK_OK;
    for (m->first = 0; m->first < n_strips && status == LK_OK; m->first += n_slice) {
        const size_t left = n_strips - m->first;
        const size_t n = left < n_slice ? left : n_slice;
        lk_pool_run(r->pool, make_strip, m, (uint32_t)n);
        const size_t first_row = row_of(m, m->first);
        lk_gguf_forget(r->gguf, m->w->data + first_row * m->w->row_bytes,
                       (row_of(m, m->first + n) - first_row) * m->w->row_bytes);
        r->done += n * m->strip_bytes;
        status = report(r, err);
    }
    return status;
}

static lk_status repack_all(repack *r, const matrix_list *list, const lk_repacked *out,
                            lk_error *err) {
    lk_status status = report(r, err);
    for (size_t i = 0; i < list->n && status == LK_OK; i++) {
        matrix *m = &list->items[i];
        m->out = out->memory + r->done;
        status = repack_matrix(r, m, err);
        if (status == LK_OK) {
            *m->slot = m->out;
        }
    }
    return status;
}

lk_status lk_repack(lk_graph *graph, const lk_gguf *gguf, const lk_allocator *a, uint32_t n_threads,
                    lk_progress_fn progress, void *progress_ctx, lk_repacked *out, lk_error *err) {
    *out = (lk_repacked){NULL, 0};
    matrix_list list = {.items = NULL};
    list_matrices(graph, &list);
    if (list.too_large) {
        return lk_fail(err, LK_E_LIMIT, LK_NOWHERE,
                       "the matrices need more memory than can be addressed");
    }
    if (list.n == 0) {
        return LK_OK;
    }
    const size_t n_matrices = list.n;
    matrix *items = lk_alloc_array(a, n_matrices, sizeof *items);
    if (items == NULL) {
        return lk_fail_nomem(err, "the list of matrices", n_matrices * sizeof *items);
    }
    list = (matrix_list){.items = items};
    list_matrices(graph, &list);
    lk_pool *pool = NULL;
    lk_status status = lk_pool_create(a, n_threads, &pool, err);
    if (status == LK_OK) {
        out->memory = lk_huge_pages_alloc(a, list.n_bytes);
        out->n_bytes = list.n_bytes;
        status =
            out->memory != NULL ? LK_OK : lk_fail_nomem(err, "the repacked weights", list.n_bytes);
    }
    if (status == LK_OK) {
        repack r = {.gguf = gguf,
                    .pool = pool,
                    .progress = progress,
                    .progress_ctx = progress_ctx,
                    .n_bytes = list.n_bytes};
        status = repack_all(&r, &list, out, err);
    }
    lk_pool_destroy(pool);
    lk_free_array(a, items, n_matrices, sizeof *items);
    return status;
}

void lk_repack_free(const lk_allocator *a, lk_repacked *repacked) {
    lk_huge_pages_free(a, repacked->memory, repacked->n_bytes);
    *repacked = (lk_repacked){NULL, 0};
}
