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
} matrix;

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
    const size_t i_expert = i_task / m->n_strips;
    const size_t first = i_task % m->n_strips * LK_STRIP_ROWS;
    const size_t left = (size_t)w->ne[1] - first;
    lk_strip_make(w->format, w->data + (i_expert * (size_t)w->ne[1] + first) * w->row_bytes,
                  w->row_bytes, left < LK_STRIP_ROWS ? left : LK_STRIP_ROWS, (size_t)w->ne[0],
                  m->out + i_task * m->strip_bytes);
}

static lk_status repack_all(const matrix_list *list, const lk_gguf *gguf, lk_pool *pool,
                            lk_progress_fn progress, void *progress_ctx, lk_repacked *out,
                            lk_error *err) {
    size_t done = 0;
    for (size_t i = 0; i < list->n; i++) {
        matrix *m = &list->items[i];
        if (progress != NULL && progress(progress_ctx, "repack", done, list->n_bytes) == 0) {
            return lk_fail(err, LK_E_CANCELLED, LK_NOWHERE, "loading was cancelled");
        }
        m->out = out->memory + done;
        lk_pool_run(pool, make_strip, m, (uint32_t)(m->n_strips * m->n_experts));
        *m->slot = m->out;
        done += m->n_bytes;
        lk_gguf_forget(gguf, m->w->data, (size_t)(m->w->ne[1] * m->w->ne[2]) * m->w->row_bytes);
    }
    if (progress != NULL && progress(progress_ctx, "repack", done, list->n_bytes) == 0) {
        return lk_fail(err, LK_E_CANCELLED, LK_NOWHERE, "loading was cancelled");
    }
    return LK_OK;
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
        status = repack_all(&list, gguf, pool, progress, progress_ctx, out, err);
    }
    lk_pool_destroy(pool);
    lk_free_array(a, items, n_matrices, sizeof *items);
    return status;
}

void lk_repack_free(const lk_allocator *a, lk_repacked *repacked) {
    lk_huge_pages_free(a, repacked->memory, repacked->n_bytes);
    *repacked = (lk_repacked){NULL, 0};
}
