/* cuda_memory.c - all memory of the backend: on the device the weights, the values of a step, the
 * prepared operands and the tables of rows; here what is copied to and from there. Measured first,
 * then handed out from one allocation each. */
#include "backend/cuda/cuda.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { ALIGN = 256, Q_GROUP = 32, NEIGHBOUR_WORDS = 3, RUN_ROW_WORDS = 2 };

/* Places in one piece of memory that is there (base) or only measured (base 0). */
typedef struct layout {
    uint64_t base;
    size_t used;
    bool overflow;
} layout;

static uint64_t take(layout *l, size_t count, size_t elem_size) {
    size_t bytes = 0;
    const uint64_t at = l->base + l->used;
    if (!lk_mul_size(count, elem_size, &bytes) || !lk_add_size(bytes, ALIGN - 1, &bytes) ||
        !lk_add_size(l->used, bytes / ALIGN * ALIGN, &l->used)) {
        l->overflow = true;
    }
    return at;
}

/* The same of three factors. */
static uint64_t take_rows(const lk_backend *b, layout *l, size_t width, size_t elem_size) {
    size_t count = 0;
    l->overflow = !lk_mul_size(width, b->params.max_rows, &count) || l->overflow;
    return take(l, count, elem_size);
}

/* ---- the host's ---- */

static uint32_t *take_words(layout *l, size_t count) {
    return (uint32_t *)(uintptr_t)take(l, count, sizeof(uint32_t));
}

/* The tables of rows, which the device has in the same order. */
static void carve_tables(lk_backend *b, layout *l, bool is_there) {
    const size_t max_rows = b->params.max_rows;
    static const lk_row_space spaces[] = {LK_ROWS_ALL, LK_ROWS_HALF, LK_ROWS_QUARTER};
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        lk_cuda_space *s = &b->spaces[spaces[i]];
        s->step_row = take_words(l, max_rows);
        s->in_run = take_words(l, max_rows);
        s->run_rows = (lk_cuda_run_row *)(void *)take_words(l, RUN_ROW_WORDS * max_rows);
    }
    for (uint32_t i = 0; i < b->graph->n_nodes; i++) {
        uint32_t *words = NULL;
        switch (b->graph->nodes[i].kind) {
        case LK_NODE_NEIGHBOURS:
            words = take_words(l, NEIGHBOUR_WORDS * max_rows);
            break;
        case LK_NODE_MEAN_OF_TWO:
            words = take_words(l, max_rows);
            break;
        default:
            break;
        }
        if (is_there) {
            b->node_rows[i].neighbours = (lk_cuda_neighbour_row *)(void *)words;
            b->node_rows[i].from = words;
        }
    }
}

/* The widest value that goes through the staging memory: rows that come in, values that are shown.
 */
static size_t staging_width(const lk_graph *graph) {
    size_t width = graph->n_embd;
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const lk_value_info *info = &graph->values[i];
        width = info->stage >= 0 && info->width > width ? info->width : width;
    }
    return width;
}

static void carve_host(lk_backend *b, layout *l, bool is_there) {
    const size_t n_nodes = b->graph->n_nodes;
    b->weights = (lk_cuda_ptr *)(uintptr_t)take(l, 2 * n_nodes, sizeof b->weights[0]);
    b->node_rows = (lk_cuda_node_rows *)(uintptr_t)take(l, n_nodes, sizeof b->node_rows[0]);
    if (is_there) {
        memset(b->weights, 0, 2 * n_nodes * sizeof b->weights[0]);
        memset(b->node_rows, 0, n_nodes * sizeof b->node_rows[0]);
    }
    const size_t before = l->used;
    b->host_tables = (uint32_t *)(uintptr_t)(l->base + l->used);
    carve_tables(b, l, is_there);
    b->table_words = (l->used - before) / sizeof(uint32_t);
    b->host_bad = take_words(l, b->params.max_rows);
    b->staging = (float *)(uintptr_t)take_rows(b, l, staging_width(b->graph), sizeof(float));
    b->staging_floats = staging_width(b->graph) * b->params.max_rows;
}

static lk_status allocate_host(lk_backend *b, lk_error *err) {
    layout measured = {0};
    carve_host(b, &measured, false);
    if (measured.overflow) {
        return lk_fail(err, LK_E_LIMIT, LK_NOWHERE,
                       "%u rows need more memory than can be addressed", b->params.max_rows);
    }
    b->scratch_bytes = measured.used + ALIGN;
    b->scratch = lk_alloc(b->allocator, b->scratch_bytes);
    if (b->scratch == NULL) {
        return lk_fail_nomem(err, "the scratch memory of a device", b->scratch_bytes);
    }
    layout handed = {.base = ((uintptr_t)b->scratch + ALIGN - 1) / ALIGN * ALIGN};
    carve_host(b, &handed, true);
    return LK_OK;
}

/* ---- the device's ---- */

static lk_status allocate_device(lk_backend *b, const layout *measured, const char *what,
                                 layout *handed, lk_error *err) {
    *handed = (layout){0};
    if (measured->overflow) {
        return lk_fail(err, LK_E_LIMIT, LK_NOWHERE, "%s: %u rows are more than can be addressed",
                       what, b->params.max_rows);
    }
    lk_cuda_ptr *memory = &b->memories[b->n_memories];
    lk_error reason;
    const size_t n_bytes = measured->used != 0 ? measured->used : ALIGN;
    const int result = b->driver.memory_alloc(memory, n_bytes);
    const lk_status status = lk_cuda_check(&b->driver, result, "allocating", &reason);
    if (status != LK_OK) {
        return lk_fail(err, status, LK_AT_SUBJECT(what), "%zu bytes for %s: %s", n_bytes, what,
                       reason.message);
    }
    handed->base = *memory;
    b->n_memories++;
    return LK_OK;
}

/* Values that lie in the step's own buffer. */
static size_t out_width(const lk_graph *graph) {
    size_t width = graph->values[graph->logits].width;
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const lk_value_info *info = &graph->values[i];
        width = info->in_logits && info->width > width ? info->width : width;
    }
    return width;
}

static void carve_values(lk_backend *b, layout *l) {
    b->arena = take_rows(b, l, b->graph->arena_floats, sizeof(float));
    b->out = take_rows(b, l, out_width(b->graph), sizeof(float));
}

static void measure_prepared(lk_backend *b) {
    for (uint32_t i = 0; i < b->graph->n_nodes; i++) {
        const lk_node *node = &b->graph->nodes[i];
        if (node->kind == LK_NODE_MATMUL) {
            lk_cuda_prepared *p = &b->prepared[lk_cuda_prep_of(node->w)];
            const size_t width = b->graph->values[node->in[0]].width;
            p->max_width = width > p->max_width ? width : p->max_width;
        }
    }
}

static void carve_prepared(lk_backend *b, layout *l) {
    for (lk_cuda_prep i = LK_CUDA_PREP_NONE; i < LK_CUDA_PREP_COUNT; i++) {
        lk_cuda_prepared *p = &b->prepared[i];
        if (i == LK_CUDA_PREP_Q32) {
            p->q = take_rows(b, l, p->max_width, sizeof(int8_t));
            p->d = take_rows(b, l, p->max_width / Q_GROUP, sizeof(float));
            p->sums = take_rows(b, l, p->max_width / LK_SUBGROUP, sizeof(int16_t));
        } else if (i != LK_CUDA_PREP_NONE) {
            p->x = take_rows(b, l, p->max_width, sizeof(float));
        }
    }
}

static lk_cuda_ptr on_device(const lk_backend *b, const void *host) {
    return b->tables + (uint64_t)((const uint8_t *)host - (const uint8_t *)b->host_tables);
}

/* The tables lie on the device as they lie here. */
static void place_tables(lk_backend *b) {
    static const lk_row_space spaces[] = {LK_ROWS_ALL, LK_ROWS_HALF, LK_ROWS_QUARTER};
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        lk_cuda_space *s = &b->spaces[spaces[i]];
        s->at_step_row = on_device(b, s->step_row);
        s->at_in_run = on_device(b, s->in_run);
        s->at_run_rows = on_device(b, s->run_rows);
    }
    for (uint32_t i = 0; i < b->graph->n_nodes; i++) {
        if (b->node_rows[i].from != NULL) {
            b->node_rows[i].at = on_device(b, b->node_rows[i].from);
        }
    }
}

static lk_status allocate_values(lk_backend *b, lk_error *err) {
    layout measured = {0};
    layout handed;
    carve_values(b, &measured);
    lk_status status = allocate_device(b, &measured, "the values of a step", &handed, err);
    if (status != LK_OK) {
        return status;
    }
    carve_values(b, &handed);
    measured = (layout){0};
    measure_prepared(b);
    carve_prepared(b, &measured);
    status = allocate_device(b, &measured, "the operands of a step", &handed, err);
    if (status != LK_OK) {
        return status;
    }
    carve_prepared(b, &handed);
    measured = (layout){0};
    (void)take(&measured, b->table_words, sizeof(uint32_t));
    (void)take(&measured, b->params.max_rows, sizeof(uint32_t));
    status = allocate_device(b, &measured, "the tables of a step", &handed, err);
    if (status != LK_OK) {
        return status;
    }
    b->tables = take(&handed, b->table_words, sizeof(uint32_t));
    b->bad = take(&handed, b->params.max_rows, sizeof(uint32_t));
    place_tables(b);
    return LK_OK;
}

/* ---- weights ---- */

static const lk_weight *weight_of(const lk_node *node, int which) {
    if (which == 0) {
        return node->w;
    }
    return node->kind == LK_NODE_LAYER_NORM ? node->p.layer_norm.b : NULL;
}

static size_t weight_bytes(const lk_weight *w) {
    return w->row_bytes * (size_t)(w->ne[1] * w->ne[2] * w->ne[3]);
}

/* Where the weights go; copies them when the layout has memory. Tensors were found inside their
 * file, so their sizes do not overflow. */
static lk_status place_weights(lk_backend *b, layout *l, lk_error *err) {
    lk_status status = LK_OK;
    for (uint32_t i = 0; i < 2 * b->graph->n_nodes && status == LK_OK; i++) {
        const lk_weight *w = weight_of(&b->graph->nodes[i / 2], (int)(i % 2));
        if (w == NULL) {
            continue;
        }
        const lk_cuda_ptr at = take(l, weight_bytes(w) + LK_CUDA_PADDING, 1);
        if (l->base == 0) {
            continue;
        }
        b->weights[i] = at;
        status =
            lk_cuda_check(&b->driver, b->driver.copy_in(at, w->data, weight_bytes(w), b->stream),
                          "copying weights", err);
    }
    return status;
}

static lk_status allocate_weights(lk_backend *b, lk_error *err) {
    layout measured = {0};
    layout handed;
    lk_status status = place_weights(b, &measured, err);
    if (status == LK_OK) {
        status = allocate_device(b, &measured, "the weights", &handed, err);
    }
    if (status == LK_OK) {
        status = place_weights(b, &handed, err);
    }
    if (status != LK_OK) {
        return status;
    }
    return lk_cuda_check(&b->driver, b->driver.stream_wait(b->stream), "copying weights", err);
}

lk_status lk_cuda_allocate(lk_backend *b, lk_error *err) {
    lk_status status = allocate_host(b, err);
    if (status == LK_OK) {
        status = allocate_values(b, err);
    }
    if (status == LK_OK) {
        status = allocate_weights(b, err);
    }
    return status;
}

void lk_cuda_release_memory(lk_backend *b) {
    for (uint32_t i = 0; i < b->n_memories; i++) {
        (void)b->driver.memory_free(b->memories[i]);
    }
    b->n_memories = 0;
}
