/* cuda_step.c - one step: checks it, copies its rows in, walks the nodes, copies out
 * what was asked for. Holds no operator.
 *
 * Invariant: when a step returns, with success or not, nothing of it is under way on the device:
 * no copy can reach the host's memory any more. */
#include <string.h>

#include "backend/cuda/cuda.h"
#include "backend/step_check.h"

enum { CLEAN = 0xff }; /* every byte of a clean row's entry in `bad` */

lk_cuda_space *lk_cuda_space_of(lk_backend *b, lk_value v) {
    return &b->spaces[b->graph->values[v].space];
}

lk_cuda_ptr lk_cuda_value(const lk_backend *b, lk_value v) {
    const lk_value_info *info = &b->graph->values[v];
    return info->in_logits ? b->out
                           : b->arena + (uint64_t)info->offset * b->step->n_rows * sizeof(float);
}

lk_status lk_cuda_launch(const lk_backend *b, lk_cuda_kernel kernel, lk_cuda_shape shape,
                         const void *args, lk_error *err) {
    static const char *const names[LK_CUDA_N_KERNELS] = {
#define LK_CUDA_KERNEL(name, what) "launching lk_cuda_" #name,
#include "backend/cuda/kern/kernels.def"
#undef LK_CUDA_KERNEL
    };
    void *params[1];
    memcpy(&params[0], &args, sizeof args); /* the driver only reads it */
    return lk_cuda_check(&b->driver,
                         b->driver.launch(b->kernels[kernel], shape.grid[0], shape.grid[1],
                                          shape.grid[2], shape.n_threads, 1, 1, 0, b->stream,
                                          params, NULL),
                         names[kernel], err);
}

lk_status lk_cuda_wait(const lk_backend *b, lk_error *err) {
    return lk_cuda_check(&b->driver, b->driver.stream_wait(b->stream), "computing", err);
}

lk_status lk_cuda_copy_in(const lk_backend *b, lk_cuda_ptr to, const void *from, size_t n_bytes,
                          lk_error *err) {
    return lk_cuda_check(&b->driver, b->driver.copy_in(to, from, n_bytes, b->stream), "copying",
                         err);
}

lk_status lk_cuda_copy_out(const lk_backend *b, void *to, lk_cuda_ptr from, size_t n_bytes,
                           lk_error *err) {
    return lk_cuda_check(&b->driver, b->driver.copy_out(to, from, n_bytes, b->stream),
                         "copying results", err);
}

static lk_status copy_tables(lk_backend *b, lk_error *err) {
    const size_t n_bytes = b->rows.n_page_entries * sizeof(uint32_t);
    lk_status status = lk_cuda_copy_in(b, b->tables, b->host_tables, b->fixed_bytes, err);
    if (status == LK_OK && n_bytes != 0) {
        status = lk_cuda_copy_in(b, b->rows.pages.at, b->rows.pages.host, n_bytes, err);
    }
    if (status == LK_OK && n_bytes != 0 && b->graph->window != 0) {
        status =
            lk_cuda_copy_in(b, b->rows.window_pages.at, b->rows.window_pages.host, n_bytes, err);
    }
    return status;
}

static lk_status begin_step(lk_backend *b, lk_step *step, lk_error *err) {
    b->step = step;
    for (uint32_t r = 0; r < step->n_rows; r++) {
        step->rows[r].bad_op = LK_NODE_COUNT;
        step->rows[r].bad_layer = -1;
    }
    for (uint32_t i = 0; i < LK_CUDA_PREP_COUNT; i++) {
        b->prepared[i].value = -1;
    }
    lk_status status = lk_cuda_fill_tables(b, err);
    if (status == LK_OK) {
        status = copy_tables(b, err);
    }
    if (status == LK_OK) {
        status = lk_cuda_check(
            &b->driver,
            b->driver.memory_fill(b->bad, CLEAN, step->n_rows * sizeof(uint32_t), b->stream),
            "clearing flags", err);
    }
    return status;
}

/* A value that somebody wants to see. */
static lk_status show(lk_backend *b, const lk_node *node, lk_error *err) {
    const lk_step *step = b->step;
    const lk_value_info *info = &b->graph->values[node->out];
    const uint32_t n_rows = lk_cuda_space_of(b, node->out)->n_rows;
    lk_status status = lk_cuda_copy_out(b, b->staging, lk_cuda_value(b, node->out),
                                        (size_t)n_rows * info->width * sizeof(float), err);
    if (status == LK_OK) {
        status = lk_cuda_wait(b, err);
    }
    if (status == LK_OK) {
        step->show(step->show_ctx, (uint32_t)info->stage, (const float *)(const void *)b->staging,
                   n_rows, info->width);
    }
    return status;
}

static lk_status walk(lk_backend *b, lk_error *err) {
    lk_status status = LK_OK;
    for (uint32_t i = 0; i < b->graph->n_nodes && status == LK_OK; i++) {
        const lk_node *node = &b->graph->nodes[i];
        /* What leads to the logits also gives out the hidden state, of rows without logits too. */
        const lk_value v = node->kind == LK_NODE_SELECT_LOGITS ? node->in[0] : node->out;
        if (lk_cuda_space_of(b, v)->n_rows == 0) {
            continue;
        }
        status = lk_cuda_run_node(b, node, err);
        if (status == LK_OK && b->step->show != NULL && b->graph->values[node->out].stage >= 0) {
            status = show(b, node, err);
        }
    }
    return status;
}

/* The first non-finite value of each row. */
static void note_rows(lk_backend *b) {
    for (uint32_t r = 0; r < b->step->n_rows; r++) {
        if (b->host_bad[r] < b->graph->n_nodes) {
            b->step->rows[r].bad_op = b->graph->nodes[b->host_bad[r]].kind;
            b->step->rows[r].bad_layer = b->graph->nodes[b->host_bad[r]].layer;
        }
    }
}

static lk_status end_step(lk_backend *b, lk_error *err) {
    const lk_value logits = b->graph->logits;
    const lk_step *step = b->step;
    const size_t n_floats =
        (size_t)lk_cuda_space_of(b, logits)->n_rows * b->graph->values[logits].width;
    const size_t n_hidden = (size_t)step->n_hidden * lk_graph_hidden_width(b->graph);
    lk_status status = LK_OK;
    if (n_floats != 0) {
        status = lk_cuda_copy_out(b, step->logits, lk_cuda_value(b, logits),
                                  n_floats * sizeof(float), err);
    }
    if (status == LK_OK && n_hidden != 0) {
        status = lk_cuda_copy_out(b, step->hidden, b->hidden, n_hidden * sizeof(float), err);
    }
    if (status == LK_OK) {
        status = lk_cuda_copy_out(b, b->host_bad, b->bad, step->n_rows * sizeof(uint32_t), err);
    }
    if (status == LK_OK) {
        status = lk_cuda_wait(b, err);
    }
    if (status == LK_OK) {
        note_rows(b);
    }
    return status;
}

lk_status lk_cuda_step(lk_backend *b, lk_step *step, lk_error *err) {
    lk_status status = lk_step_check(b->graph, &b->params, step, err);
    if (status != LK_OK) {
        return status;
    }
    status = lk_cuda_enter(b, err);
    if (status != LK_OK) {
        return status;
    }
    status = begin_step(b, step, err);
    if (status == LK_OK) {
        status = walk(b, err);
    }
    if (status == LK_OK) {
        status = end_step(b, err);
    }
    if (status != LK_OK) {
        (void)b->driver.stream_wait(b->stream);
    }
    lk_cuda_leave(b);
    b->step = NULL;
    return status;
}
