/* plan.c - the memory plan: values whose lifetimes do not meet share space. Changes no node.
 * Invariant: two values of different places that overlap in the arena are never alive together,
 * where a lifetime covers the whole runs of row-wise nodes that it begins and ends in. */
#include "graph/plan.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

/* A piece of the arena, held from node `first` to node `last` (both included). */
typedef struct place {
    size_t begin;
    size_t end;
    int32_t first;
    int32_t last;
} place;

typedef struct planner {
    const lk_graph *graph;
    int32_t *run_first; /* [n_nodes] the run of row-wise nodes of one row space around node i, */
    int32_t *run_last;  /* [n_nodes] or i itself */
    lk_value *heir;     /* [n_values] the value that takes over the place of value v, or -1 */
    place *places;      /* [n_values] */
    uint32_t n_places;
} planner;

static bool same_run(const lk_graph *graph, uint32_t i, uint32_t j) {
    const lk_node *a = &graph->nodes[i];
    const lk_node *b = &graph->nodes[j];
    return lk_node_is_row_wise(a->kind) && lk_node_is_row_wise(b->kind) &&
           graph->values[a->out].space == graph->values[b->out].space;
}

static void find_runs(planner *p) {
    const uint32_t n = p->graph->n_nodes;
    for (uint32_t i = 0; i < n; i++) {
        const bool goes_on = i > 0 && same_run(p->graph, i - 1, i);
        p->run_first[i] = goes_on ? p->run_first[i - 1] : (int32_t)i;
    }
    for (uint32_t i = n; i-- > 0;) {
        const bool goes_on = i + 1 < n && same_run(p->graph, i, i + 1);
        p->run_last[i] = goes_on ? p->run_last[i + 1] : (int32_t)i;
    }
}

/* A row-wise node writes over in[0] when that is its last use. */
static void find_heirs(planner *p) {
    const lk_graph *graph = p->graph;
    for (uint32_t v = 0; v < graph->n_values; v++) {
        p->heir[v] = -1;
    }
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const lk_node *node = &graph->nodes[i];
        const lk_value in = node->in[0];
        if (in < 0 || !lk_node_is_row_wise(node->kind) || in == node->in[1]) {
            continue;
        }
        const lk_value_info *x = &graph->values[in];
        const lk_value_info *y = &graph->values[node->out];
        if (x->last_node == (int32_t)i && x->width == y->width && x->space == y->space &&
            x->stage < 0) {
            p->heir[in] = node->out;
        }
    }
}

/* The logits and the values whose place they take over. */
static void mark_logits(const planner *p, lk_graph *graph) {
    lk_value v = graph->logits;
    for (uint32_t i = graph->n_nodes; i-- > 0;) {
        const lk_node *node = &graph->nodes[i];
        if (node->out == v) {
            graph->values[v].in_logits = true;
            v = node->in[0] >= 0 && p->heir[node->in[0]] == v ? node->in[0] : -1;
        }
    }
}

static bool meets(const place *a, const place *b) {
    return a->first <= b->last && b->first <= a->last && a->begin < b->end && b->begin < a->end;
}

/* The lowest place that is free for the whole lifetime. */
static void put(planner *p, place *wanted) {
    const size_t size = wanted->end - wanted->begin;
    bool moved = true;
    while (moved) {
        moved = false;
        for (uint32_t i = 0; i < p->n_places; i++) {
            if (meets(&p->places[i], wanted)) {
                wanted->begin = p->places[i].end;
                wanted->end = wanted->begin + size;
                moved = true;
            }
        }
    }
    p->places[p->n_places++] = *wanted;
}

static void place_values(planner *p, lk_graph *graph) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const lk_node *node = &graph->nodes[i];
        const lk_value v = node->out;
        const bool is_heir = node->in[0] >= 0 && p->heir[node->in[0]] == v;
        if (graph->values[v].in_logits || is_heir) {
            continue;
        }
        lk_value end = v;
        while (p->heir[end] >= 0) {
            end = p->heir[end];
        }
        const size_t width = graph->values[v].width;
        place wanted = {.begin = 0,
                        .end = (width + LK_PLAN_ALIGN - 1) / LK_PLAN_ALIGN * LK_PLAN_ALIGN,
                        .first = p->run_first[i],
                        .last = p->run_last[graph->values[end].last_node]};
        put(p, &wanted);
        for (lk_value w = v; w >= 0; w = p->heir[w]) {
            graph->values[w].offset = wanted.begin;
        }
        graph->arena_floats = wanted.end > graph->arena_floats ? wanted.end : graph->arena_floats;
    }
}

lk_status lk_graph_plan(lk_graph *graph, lk_error *err) {
    const lk_allocator *a = graph->allocator;
    const size_t n_nodes = graph->n_nodes;
    const size_t n_values = graph->n_values;
    planner p = {.graph = graph};
    p.run_first = lk_alloc_array(a, n_nodes, sizeof *p.run_first);
    p.run_last = lk_alloc_array(a, n_nodes, sizeof *p.run_last);
    p.heir = lk_alloc_array(a, n_values, sizeof *p.heir);
    p.places = lk_alloc_array(a, n_values, sizeof *p.places);
    lk_status status = LK_OK;
    if (p.run_first == NULL || p.run_last == NULL || p.heir == NULL || p.places == NULL) {
        status = lk_fail_nomem(err, "the memory plan", n_values * sizeof *p.places);
    } else {
        graph->arena_floats = 0;
        find_runs(&p);
        find_heirs(&p);
        mark_logits(&p, graph);
        place_values(&p, graph);
    }
    lk_free_array(a, p.places, n_values, sizeof *p.places);
    lk_free_array(a, p.heir, n_values, sizeof *p.heir);
    lk_free_array(a, p.run_last, n_nodes, sizeof *p.run_last);
    lk_free_array(a, p.run_first, n_nodes, sizeof *p.run_first);
    return status;
}
