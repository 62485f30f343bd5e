/* backend.h - what a backend is: it owns KV pages and scratch memory for one context and executes a
 * graph over the rows of one step. It knows no sequence: pages and positions are given by the
 * engine.
 *
 * Every backend gives the bits of docs/numerics.md. A backend is a folder here plus one line in
 * backends.def. */
#ifndef LK_BACKEND_BACKEND_H
#define LK_BACKEND_BACKEND_H

#include "base/pool.h"
#include "graph/graph.h"

/* One row of a step. */
typedef struct lk_step_row {
    int32_t token;
    const float *embedding; /* not NULL: these values instead of the token's embedding */
    uint32_t i_run;         /* index into lk_step.runs */
    int64_t pos;
    int32_t i_out;     /* row of the logits output, -1: not wanted */
    bool wants_hidden; /* the final hidden state */
    /* Out: first non-finite value. op LK_NODE_COUNT: clean. */
    int32_t bad_layer;
    lk_node_kind bad_op;
} lk_step_row;

/* Consecutive rows of one sequence, positions ascending by one: rows [first, first + n). The runs
 * cover all rows of the step, in order, and no two are of the same sequence. In a step of an
 * encoder a run is a window: its positions begin at 0, there are no pages, every row has an
 * `embedding`, and no row wants logits. */
typedef struct lk_step_run {
    uint32_t first;
    uint32_t n;
    const uint32_t *pages; /* the sequence's page table: page of positions 64c .. 64c+63 at [c] */
    /* Likewise the pages of the layers with windows, where the graph has some. Entries that lie
     * wholly before lk_step_window_begin of the first row are not there. */
    const uint32_t *window_pages;
} lk_step_run;

/* The first position that a query at `pos` sees through a window (0: none). */
static inline int64_t lk_step_window_begin(uint32_t window, int64_t pos) {
    return window != 0 && pos >= (int64_t)window ? pos + 1 - (int64_t)window : 0;
}

/* Shows a value that lk_graph_tap marked, as it is when its nodes are done. */
typedef void lk_show_fn(void *ctx, uint32_t stage, const float *values, uint32_t n_rows,
                        uint32_t width);

typedef struct lk_step {
    lk_step_row *rows;
    uint32_t n_rows; /* <= max_rows */
    const lk_step_run *runs;
    uint32_t n_runs;
    uint32_t
        n_out;     /* rows with i_out >= 0; their i_out are 0 .. n_out-1 in the order of the rows */
    float *logits; /* [n_out, n_vocab]; of an encoder: all rows of what it gives */
    uint32_t n_hidden; /* rows with wants_hidden; 0 where the graph has no hidden state */
    float *hidden;     /* [n_hidden, width of graph->hidden], in the order of the rows */
    lk_show_fn *show;  /* NULL: nothing is shown */
    void *show_ctx;
} lk_step;

typedef struct lk_backend_params {
    const lk_allocator *allocator;
    uint32_t n_threads;
    uint32_t isa_mask;
    uint32_t max_rows;
    uint32_t max_out;        /* rows with logits in one step, <= max_rows */
    uint32_t n_pages;        /* of the layers without windows: ids 0 .. n_pages-1 */
    uint32_t n_window_pages; /* of the layers with windows: the ids that follow */
    lk_kv_format k_format;
    lk_kv_format v_format;
    bool f32_activations;
    uint32_t device; /* of those that the backend counts; the processor's has none */
} lk_backend_params;

/* A device that a backend uses. */
typedef struct lk_backend_device {
    char name[128]; /* its maker's name */
    char kind[64];  /* how it is used, for people */
    uint64_t memory_bytes;
} lk_backend_device;

/* As in lk_context_stats. */
typedef struct lk_backend_stats {
    uint64_t kernel_rows[6];
    uint64_t mixed_calls[6];
    uint32_t isa;
    uint32_t n_threads;
} lk_backend_stats;

typedef struct lk_backend lk_backend;

typedef struct lk_backend_ops {
    const char *name;
    lk_status (*create)(const lk_graph *graph, const lk_backend_params *params, lk_backend **out,
                        lk_error *err);
    void (*destroy)(lk_backend *backend);
    /* Computes a step. Non-finite values, those of the logits included, are reported per row, not
     * by the status; the logits of such a row mean nothing. */
    lk_status (*step)(lk_backend *backend, lk_step *step, lk_error *err);
    /* KV pages. A page holds LK_CHUNK positions of all layers without windows (page_bytes bytes),
     * or of all layers with windows (window_page_bytes), by its id. The form that page_read and
     * page_write exchange, in which state files keep it, is the same for all backends: for each of
     * those KV layers the key blocks of its heads, then the value blocks of its heads, each as
     * lk_kv_block_bytes says, nothing between. page_read takes the first n_positions positions and
     * writes zero for everything that belongs to later ones. page_copy: both of one kind. */
    size_t (*page_bytes)(const lk_backend *backend);
    size_t (*window_page_bytes)(const lk_backend *backend);
    lk_status (*page_copy)(lk_backend *backend, uint32_t dst, uint32_t src, lk_error *err);
    lk_status (*page_fill)(lk_backend *backend, uint32_t page, uint8_t byte, lk_error *err);
    lk_status (*page_read)(lk_backend *backend, uint32_t page, uint32_t n_positions, void *out,
                           lk_error *err);
    lk_status (*page_write)(lk_backend *backend, uint32_t page, const void *in, lk_error *err);
    void (*get_stats)(const lk_backend *backend, lk_backend_stats *stats);
    /* Runs other tasks between two steps on the threads that the backend has here; as lk_pool_run.
     */
    void (*run_tasks)(lk_backend *backend, lk_pool_fn fn, void *arg, uint32_t n_tasks);
    /* The devices besides the processor; both NULL for the backend that uses that. The reason why
     * there is none: LK_E_UNSUPPORTED (this build cannot use them), LK_E_NOT_FOUND (no driver, or
     * one without devices), LK_E_DEVICE. */
    lk_status (*count_devices)(uint32_t *n, lk_error *err);
    lk_status (*describe_device)(uint32_t i, lk_backend_device *device, lk_error *err);
} lk_backend_ops;

#define LK_BACKEND(name) extern const lk_backend_ops lk_backend_##name;
#include "backend/backends.def"
#undef LK_BACKEND

#endif
