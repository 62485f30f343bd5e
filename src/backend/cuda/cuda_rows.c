/* cuda_rows.c - the tables that tell kernels which rows belong together in a step: made here, where
 * the runs are known, so that no kernel searches. */
#include "backend/cuda/cuda.h"

/* Adds the rows of a run of `n` to a space. */
static void add_run(lk_cuda_space *s, lk_row_space space, uint32_t first, uint32_t n) {
    const uint32_t begin = s->n_rows;
    const uint32_t n_here = lk_rows_of_run(space, n);
    const uint32_t stride = space == LK_ROWS_HALF ? 2 : space == LK_ROWS_QUARTER ? 4 : 1;
    for (uint32_t i = 0; i < n_here; i++) {
        s->step_row[begin + i] = first + i * stride; /* the first of those it is made of */
        s->in_run[begin + i] = i;
        s->run_rows[begin + i] = (lk_cuda_run_row){begin, begin + n_here};
    }
    s->n_rows += n_here;
}

/* Goes through the runs of a node's input and output together. */
static void fill_node(lk_backend *b, const lk_node *node, lk_cuda_node_rows *rows) {
    const lk_cuda_space *out = lk_cuda_space_of(b, node->out);
    const lk_row_space in_space = b->graph->values[node->in[0]].space;
    const lk_row_space out_space = b->graph->values[node->out].space;
    uint32_t in_first = 0;
    uint32_t r = 0;
    for (uint32_t i = 0; i < b->step->n_runs; i++) {
        const uint32_t n_in = lk_rows_of_run(in_space, b->step->runs[i].n);
        const uint32_t end = r + lk_rows_of_run(out_space, b->step->runs[i].n);
        for (; r < end; r++) {
            if (node->kind == LK_NODE_MEAN_OF_TWO) {
                rows->from[r] = in_first + 2 * out->in_run[r];
                continue;
            }
            rows->neighbours[r] = (lk_cuda_neighbour_row){
                .centre = (int32_t)(in_first + out->in_run[r] * node->p.neighbours.stride),
                .begin = (int32_t)in_first,
                .end = (int32_t)(in_first + n_in)};
        }
        in_first += n_in;
    }
}

void lk_cuda_fill_tables(lk_backend *b) {
    static const lk_row_space spaces[] = {LK_ROWS_ALL, LK_ROWS_HALF, LK_ROWS_QUARTER};
    for (size_t k = 0; k < sizeof spaces / sizeof spaces[0]; k++) {
        lk_cuda_space *s = &b->spaces[spaces[k]];
        s->n_rows = 0;
        for (uint32_t i = 0; i < b->step->n_runs; i++) {
            add_run(s, spaces[k], b->step->runs[i].first, b->step->runs[i].n);
        }
    }
    for (uint32_t i = 0; i < b->graph->n_nodes; i++) {
        if (b->node_rows[i].from != NULL) {
            fill_node(b, &b->graph->nodes[i], &b->node_rows[i]);
        }
    }
}
