/* graph.c - the builder: appends nodes and checks the shapes and formats that they are given. Plans
 * no memory (plan.c). Invariant: while graph->status is LK_OK every node and value is complete and
 * its shapes agree; after the first error nothing is added any more. */
#include "graph/graph.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "graph/plan.h"

typedef struct lk_weight_view {
    struct lk_weight_view *next;
    lk_weight w;
} lk_weight_view;

enum { FIRST_CAPACITY = 64, MAX_ENTRIES = 1 << 20 };

const char *lk_node_name(lk_node_kind kind) {
    switch (kind) {
#define LK_NODE(NAME, text, row_wise)                                                              \
    case LK_NODE_##NAME:                                                                           \
        return text;
#include "graph/nodes.def"
#undef LK_NODE
    case LK_NODE_COUNT:
        break;
    }
    return "";
}

bool lk_node_is_row_wise(lk_node_kind kind) {
    static const bool row_wise_of[] = {
#define LK_NODE(NAME, text, row_wise) row_wise,
#include "graph/nodes.def"
#undef LK_NODE
    };
    return kind < LK_NODE_COUNT && row_wise_of[kind];
}

void lk_graph_init(lk_graph *graph, const lk_allocator *allocator) {
    memset(graph, 0, sizeof *graph);
    graph->allocator = lk_allocator_or_default(allocator);
    graph->layer = -1;
    graph->hidden = -1;
    graph->logits = -1;
}

void lk_graph_deinit(lk_graph *graph) {
    const lk_allocator *a = graph->allocator;
    if (a == NULL) {
        return;
    }
    while (graph->views != NULL) {
        lk_weight_view *next = graph->views->next;
        lk_free(a, graph->views, sizeof *graph->views);
        graph->views = next;
    }
    lk_free_array(a, graph->nodes, graph->cap_nodes, sizeof *graph->nodes);
    lk_free_array(a, graph->values, graph->cap_values, sizeof *graph->values);
    lk_free_array(a, graph->ropes, graph->cap_ropes, sizeof *graph->ropes);
    lk_free_array(a, graph->kv_layers, graph->cap_kv_layers, sizeof *graph->kv_layers);
    memset(graph, 0, sizeof *graph);
}

void lk_graph_set_layer(lk_graph *graph, int32_t layer) {
    graph->layer = layer;
}

/* Makes room for one more entry of elem_size bytes in *list. */
static bool grow(lk_graph *graph, void **list, uint32_t n, uint32_t *capacity, size_t elem_size) {
    if (n < *capacity) {
        return true;
    }
    const uint32_t wider = *capacity != 0 ? *capacity * 2 : FIRST_CAPACITY;
    void *copy =
        wider <= MAX_ENTRIES ? lk_alloc_array_zero(graph->allocator, wider, elem_size) : NULL;
    if (copy == NULL) {
        graph->status = lk_fail_nomem(&graph->error, "the graph", wider * elem_size);
        return false;
    }
    if (n != 0) {
        memcpy(copy, *list, n * elem_size);
    }
    lk_free_array(graph->allocator, *list, *capacity, elem_size);
    *list = copy;
    *capacity = wider;
    return true;
}

static bool add_value(lk_graph *graph, uint32_t width, lk_row_space space, lk_value *out) {
    void *list = graph->values;
    const bool ok = grow(graph, &list, graph->n_values, &graph->cap_values, sizeof *graph->values);
    graph->values = list;
    if (!ok) {
        return false;
    }
    graph->values[graph->n_values] = (lk_value_info){.width = width,
                                                     .space = space,
                                                     .first_node = (int32_t)graph->n_nodes,
                                                     .last_node = -1,
                                                     .stage = -1};
    *out = (lk_value)graph->n_values++;
    return true;
}

/* Appends `node` with an output of `width` in `space`; returns the output, or -1. */
static lk_value add_node(lk_graph *graph, lk_node node, uint32_t width, lk_row_space space) {
    void *list = graph->nodes;
    const bool ok = grow(graph, &list, graph->n_nodes, &graph->cap_nodes, sizeof *graph->nodes);
    graph->nodes = list;
    if (!ok || !add_value(graph, width, space, &node.out)) {
        return -1;
    }
    node.layer = graph->layer;
    for (uint32_t i = 0; i < LK_NODE_MAX_INPUTS; i++) {
        if (node.in[i] >= 0) {
            graph->values[node.in[i]].last_node = (int32_t)graph->n_nodes;
        }
    }
    graph->nodes[graph->n_nodes++] = node;
    return node.out;
}

static lk_node make_node(lk_node_kind kind, lk_value in0, lk_value in1, lk_value in2) {
    lk_node node;
    memset(&node, 0, sizeof node);
    node.kind = kind;
    node.in[0] = in0;
    node.in[1] = in1;
    node.in[2] = in2;
    node.out = -1;
    return node;
}

/* True when the graph is clean so far and v is one of its values. */
static bool usable(lk_graph *graph, lk_value v) {
    if (graph->status == LK_OK && (v < 0 || (uint32_t)v >= graph->n_values)) {
        graph->status =
            lk_fail(&graph->error, LK_E_INTERNAL, LK_NOWHERE,
                    "the graph of layer %d uses value %d of %u", graph->layer, v, graph->n_values);
    }
    return graph->status == LK_OK;
}

static const lk_value_info *info_of(const lk_graph *graph, lk_value v) {
    return &graph->values[v];
}

static bool fits(lk_graph *graph, lk_status status) {
    graph->status = status;
    return status == LK_OK;
}

/* The dimensions of w, slowest ones 1; 0 means any. */
static bool check_shape(lk_graph *graph, const lk_weight *w, uint32_t n_dims, uint64_t ne0,
                        uint64_t ne1, uint64_t ne2) {
    const uint64_t expected[3] = {ne0, ne1, ne2};
    return fits(graph, lk_weight_check_shape(w, n_dims, expected, &graph->error));
}

static bool check_f32(lk_graph *graph, const lk_weight *w) {
    return fits(graph, lk_weight_check_f32(w, &graph->error));
}

/* A matrix of a product: its rows are whole blocks and whole groups of activations. */
static bool check_blocks(lk_graph *graph, const lk_weight *w) {
    return fits(graph, lk_weight_check_product(w, &graph->error));
}

static bool check_width(lk_graph *graph, const char *what, uint64_t found, uint64_t expected) {
    if (found == expected) {
        return true;
    }
    graph->status = lk_fail(&graph->error, LK_E_FORMAT, LK_AT_SUBJECT(what),
                            "%s of layer %d: a value has width %llu, expected %llu", what,
                            graph->layer, (unsigned long long)found, (unsigned long long)expected);
    return false;
}

/* A copy of w, which the graph keeps; NULL after an error. */
static lk_weight *add_view(lk_graph *graph, const lk_weight *w) {
    lk_weight_view *view = lk_alloc_zero(graph->allocator, sizeof *view);
    if (view == NULL) {
        graph->status = lk_fail_nomem(&graph->error, "a part of a tensor", sizeof *view);
        return NULL;
    }
    view->next = graph->views;
    graph->views = view;
    view->w = *w;
    return &view->w;
}

const lk_weight *lk_graph_weight_rows(lk_graph *graph, const lk_weight *w, uint64_t first,
                                      uint64_t n) {
    if (graph->status != LK_OK) {
        return NULL;
    }
    if (w->n_dims > 2 || n == 0 || first > w->ne[1] || n > w->ne[1] - first) {
        graph->status =
            lk_fail(&graph->error, LK_E_INTERNAL, LK_AT_SUBJECT(w->name),
                    "rows %llu to %llu of tensor %.128s do not exist", (unsigned long long)first,
                    (unsigned long long)(first + n - 1), w->name);
        return NULL;
    }
    lk_weight *view = add_view(graph, w);
    if (view != NULL) {
        view->data = w->data + (size_t)first * w->row_bytes;
        view->ne[1] = n;
    }
    return view;
}

const lk_weight *lk_graph_weight_shape(lk_graph *graph, const lk_weight *w, uint64_t ne0,
                                       uint64_t ne1) {
    if (graph->status != LK_OK) {
        return NULL;
    }
    const uint64_t n_rows = ne1 != 0 ? ne1 : 1;
    const uint64_t n_found = w->ne[0] * w->ne[1] * w->ne[2]; /* both sides: bytes of a file */
    if (n_found != ne0 * n_rows || ne0 % w->format->block_elems != 0 ||
        w->ne[0] % w->format->block_elems != 0) {
        graph->status = lk_fail(&graph->error, LK_E_FORMAT, LK_AT_SUBJECT(w->name),
                                "tensor %.128s (%s) has %llu elements, expected %llu rows of %llu",
                                w->name, w->format->name, (unsigned long long)n_found,
                                (unsigned long long)n_rows, (unsigned long long)ne0);
        return NULL;
    }
    lk_weight *view = add_view(graph, w);
    if (view != NULL) {
        view->n_dims = ne1 != 0 ? 2 : 1;
        view->ne[0] = ne0;
        view->ne[1] = n_rows;
        view->ne[2] = 1;
        view->row_bytes = lk_format_bytes(w->format, (size_t)ne0);
    }
    return view;
}

lk_value lk_graph_input(lk_graph *graph, uint32_t width, uint32_t max_run) {
    if (graph->status != LK_OK) {
        return -1;
    }
    if (max_run == 0 || max_run > LK_MAX_RUN) {
        graph->status = lk_fail(&graph->error, LK_E_INTERNAL, LK_AT_SUBJECT("input"),
                                "runs of %u rows, expected 1 .. %d", max_run, LK_MAX_RUN);
        return -1;
    }
    graph->n_embd = width;
    graph->max_run = max_run;
    return add_node(graph, make_node(LK_NODE_EMBED, -1, -1, -1), width, LK_ROWS_ALL);
}

lk_value lk_graph_embed(lk_graph *graph, const lk_weight *table) {
    if (graph->status != LK_OK || !check_shape(graph, table, 2, 0, 0, 0)) {
        return -1;
    }
    lk_node node = make_node(LK_NODE_EMBED, -1, -1, -1);
    node.w = table;
    graph->n_vocab = (uint32_t)table->ne[1];
    graph->n_embd = (uint32_t)table->ne[0];
    return add_node(graph, node, (uint32_t)table->ne[0], LK_ROWS_ALL);
}

lk_value lk_graph_rms_norm(lk_graph *graph, lk_value x, const lk_weight *w, float eps,
                           uint32_t group) {
    if (!usable(graph, x) || !check_f32(graph, w) || !check_shape(graph, w, 1, group, 0, 0)) {
        return -1;
    }
    const lk_value_info info = *info_of(graph, x);
    if (info.width % group != 0) {
        graph->status = lk_fail(&graph->error, LK_E_FORMAT, LK_AT_SUBJECT(w->name),
                                "tensor %.128s: a norm over %u of width %u, expected a divisor",
                                w->name, group, info.width);
        return -1;
    }
    lk_node node = make_node(LK_NODE_RMS_NORM, x, -1, -1);
    node.w = w;
    node.p.norm.eps = eps;
    node.p.norm.group = group;
    return add_node(graph, node, info.width, info.space);
}

lk_value lk_graph_layer_norm(lk_graph *graph, lk_value x, const lk_weight *w, const lk_weight *b,
                             float eps) {
    if (!usable(graph, x)) {
        return -1;
    }
    const lk_value_info info = *info_of(graph, x);
    if (!check_f32(graph, w) || !check_shape(graph, w, 1, info.width, 0, 0) ||
        !check_f32(graph, b) || !check_shape(graph, b, 1, info.width, 0, 0)) {
        return -1;
    }
    lk_node node = make_node(LK_NODE_LAYER_NORM, x, -1, -1);
    node.w = w;
    node.p.layer_norm.b = b;
    node.p.layer_norm.eps = eps;
    return add_node(graph, node, info.width, info.space);
}

lk_value lk_graph_gelu_erf(lk_graph *graph, lk_value x) {
    if (!usable(graph, x)) {
        return -1;
    }
    const lk_value_info info = *info_of(graph, x);
    return add_node(graph, make_node(LK_NODE_GELU_ERF, x, -1, -1), info.width, info.space);
}

lk_value lk_graph_matmul(lk_graph *graph, lk_value x, const lk_weight *w) {
    if (!usable(graph, x) || !check_shape(graph, w, 2, info_of(graph, x)->width, 0, 0) ||
        !check_blocks(graph, w)) {
        return -1;
    }
    const lk_value_info info = *info_of(graph, x);
    lk_node node = make_node(LK_NODE_MATMUL, x, -1, -1);
    node.w = w;
    return add_node(graph, node, (uint32_t)w->ne[1], info.space);
}

lk_value lk_graph_bias(lk_graph *graph, lk_value x, const lk_weight *b) {
    if (b == NULL) {
        return x;
    }
    if (!usable(graph, x) || !check_f32(graph, b) ||
        !check_shape(graph, b, 1, info_of(graph, x)->width, 0, 0)) {
        return -1;
    }
    const lk_value_info info = *info_of(graph, x);
    lk_node node = make_node(LK_NODE_BIAS, x, -1, -1);
    node.w = b;
    return add_node(graph, node, info.width, info.space);
}

/* ADD and the gated ones: two inputs of one shape. */
static lk_value add_pairwise(lk_graph *graph, lk_node_kind kind, lk_value a, lk_value b) {
    if (!usable(graph, a) || !usable(graph, b)) {
        return -1;
    }
    const lk_value_info info = *info_of(graph, a);
    if (!check_width(graph, lk_node_name(kind), info_of(graph, b)->width, info.width) ||
        !check_width(graph, lk_node_name(kind), info_of(graph, b)->space, info.space)) {
        return -1;
    }
    return add_node(graph, make_node(kind, a, b, -1), info.width, info.space);
}

lk_value lk_graph_add(lk_graph *graph, lk_value a, lk_value b) {
    return add_pairwise(graph, LK_NODE_ADD, a, b);
}

lk_value lk_graph_silu_mul(lk_graph *graph, lk_value gate, lk_value up) {
    return lk_graph_gated(graph, LK_NODE_SILU_MUL, gate, up);
}

static bool check_gated(lk_graph *graph, lk_node_kind kind) {
    if (kind == LK_NODE_SILU_MUL || kind == LK_NODE_GELU_MUL || kind == LK_NODE_CLAMPED_SILU_MUL) {
        return true;
    }
    graph->status = lk_fail(&graph->error, LK_E_INTERNAL, LK_NOWHERE, "%s is no gated activation",
                            lk_node_name(kind));
    return false;
}

lk_value lk_graph_gated(lk_graph *graph, lk_node_kind activation, lk_value gate, lk_value up) {
    if (graph->status != LK_OK || !check_gated(graph, activation)) {
        return -1;
    }
    return add_pairwise(graph, activation, gate, up);
}

/* SCALE and SOFTCAP. */
static lk_value add_factor(lk_graph *graph, lk_node_kind kind, lk_value x, double factor) {
    if (!usable(graph, x)) {
        return -1;
    }
    const float rounded = (float)factor;
    if (!(rounded > -1e30f && rounded < 1e30f)) {
        graph->status = lk_fail(&graph->error, LK_E_FORMAT, LK_AT_SUBJECT(lk_node_name(kind)),
                                "%s by %g, expected less than 1e30", lk_node_name(kind), factor);
        return -1;
    }
    const lk_value_info info = *info_of(graph, x);
    lk_node node = make_node(kind, x, -1, -1);
    node.p.factor = rounded;
    return add_node(graph, node, info.width, info.space);
}

lk_value lk_graph_scale(lk_graph *graph, lk_value x, double factor) {
    return factor == 1.0 ? x : add_factor(graph, LK_NODE_SCALE, x, factor);
}

lk_value lk_graph_softcap(lk_graph *graph, lk_value x, double cap) {
    return cap == 0.0 ? x : add_factor(graph, LK_NODE_SOFTCAP, x, cap);
}

lk_value lk_graph_row_gate(lk_graph *graph, lk_value x, lk_value gate) {
    if (!usable(graph, x) || !usable(graph, gate)) {
        return -1;
    }
    const lk_value_info info = *info_of(graph, x);
    if (!check_width(graph, "row_gate", info_of(graph, gate)->width, 1) ||
        !check_width(graph, "row_gate", info_of(graph, gate)->space, info.space)) {
        return -1;
    }
    return add_node(graph, make_node(LK_NODE_ROW_GATE, x, gate, -1), info.width, info.space);
}

lk_value lk_graph_temperature(lk_graph *graph, lk_value x, double scale, uint32_t period) {
    if (!usable(graph, x)) {
        return -1;
    }
    if (!(scale > -1e6 && scale < 1e6) || period == 0 || info_of(graph, x)->space != LK_ROWS_ALL) {
        graph->status = lk_fail(&graph->error, LK_E_FORMAT, LK_AT_SUBJECT("temperature"),
                                "a temperature of scale %g every %u positions, expected less than "
                                "1e6 and at least 1",
                                scale, period);
        return -1;
    }
    const lk_value_info info = *info_of(graph, x);
    lk_node node = make_node(LK_NODE_TEMPERATURE, x, -1, -1);
    node.p.temperature.scale = scale;
    node.p.temperature.period = period;
    return add_node(graph, node, info.width, info.space);
}

uint32_t lk_graph_add_rope(lk_graph *graph, const lk_rope_params *params, lk_rope_order order,
                           uint32_t n_rot) {
    if (graph->status != LK_OK) {
        return 0;
    }
    void *list = graph->ropes;
    const bool ok = grow(graph, &list, graph->n_ropes, &graph->cap_ropes, sizeof *graph->ropes);
    graph->ropes = list;
    if (!ok) {
        return 0;
    }
    lk_rope_table *table = &graph->ropes[graph->n_ropes];
    table->params = *params;
    table->order = order;
    table->n_rot = n_rot;
    if (!fits(graph,
              lk_rope_frequencies(params, n_rot, table->inv, &table->magnitude, &graph->error))) {
        return 0;
    }
    return graph->n_ropes++;
}

static bool check_heads(lk_graph *graph, const char *what, uint32_t width, uint32_t n_heads,
                        uint32_t head_dim) {
    if (head_dim == 0 || head_dim % 8 != 0 || head_dim > LK_MAX_HEAD_DIM) {
        graph->status =
            lk_fail(&graph->error, LK_E_UNSUPPORTED, LK_AT_SUBJECT(what),
                    "head size %u, expected a multiple of 8 up to %d", head_dim, LK_MAX_HEAD_DIM);
        return false;
    }
    return check_width(graph, what, width, (uint64_t)n_heads * head_dim);
}

lk_value lk_graph_rope(lk_graph *graph, lk_value x, uint32_t n_heads, uint32_t head_dim,
                       uint32_t i_rope) {
    if (!usable(graph, x) ||
        !check_heads(graph, "rope", info_of(graph, x)->width, n_heads, head_dim)) {
        return -1;
    }
    if (i_rope >= graph->n_ropes || graph->ropes[i_rope].n_rot > head_dim ||
        info_of(graph, x)->space != LK_ROWS_ALL) {
        graph->status = lk_fail(&graph->error, LK_E_INTERNAL, LK_AT_SUBJECT("rope"),
                                "rope table %u does not fit heads of %u", i_rope, head_dim);
        return -1;
    }
    const lk_value_info info = *info_of(graph, x);
    lk_node node = make_node(LK_NODE_ROPE, x, -1, -1);
    node.p.rope.n_heads = n_heads;
    node.p.rope.head_dim = head_dim;
    node.p.rope.i_rope = i_rope;
    return add_node(graph, node, info.width, info.space);
}

static bool check_attention(lk_graph *graph, const lk_attention *a) {
    if (a->n_kv_heads == 0 || a->n_heads % a->n_kv_heads != 0) {
        graph->status = lk_fail(&graph->error, LK_E_UNSUPPORTED, LK_AT_SUBJECT("attention"),
                                "%u query heads over %u key heads, expected a multiple", a->n_heads,
                                a->n_kv_heads);
        return false;
    }
    if (!(a->soft_cap >= 0.0f && a->soft_cap <= 1e30f)) {
        graph->status =
            lk_fail(&graph->error, LK_E_FORMAT, LK_AT_SUBJECT("attention"),
                    "the soft cap of the scores is %g, expected 0 .. 1e30", (double)a->soft_cap);
        return false;
    }
    return a->sinks == NULL ||
           (check_f32(graph, a->sinks) && check_shape(graph, a->sinks, 1, a->n_heads, 0, 0));
}

lk_value lk_graph_attention(lk_graph *graph, lk_value q, lk_value k, lk_value v,
                            const lk_attention *attention) {
    const lk_attention *a = attention;
    if (!usable(graph, q) || !usable(graph, k) || !usable(graph, v) ||
        !check_heads(graph, "attention", info_of(graph, q)->width, a->n_heads, a->head_dim) ||
        !check_heads(graph, "attention", info_of(graph, k)->width, a->n_kv_heads, a->head_dim) ||
        !check_heads(graph, "attention", info_of(graph, v)->width, a->n_kv_heads, a->head_dim) ||
        !check_attention(graph, a)) {
        return -1;
    }
    void *list = graph->kv_layers;
    const bool ok =
        grow(graph, &list, graph->n_kv_layers, &graph->cap_kv_layers, sizeof *graph->kv_layers);
    graph->kv_layers = list;
    if (!ok) {
        return -1;
    }
    graph->kv_layers[graph->n_kv_layers] =
        (lk_kv_layer){.n_kv_heads = a->n_kv_heads, .head_dim = a->head_dim, .window = a->window};
    graph->window = a->window > graph->window ? a->window : graph->window;
    lk_node node = make_node(LK_NODE_ATTENTION, q, k, v);
    node.p.attn = *a;
    node.p.attn.i_kv = graph->n_kv_layers++;
    return add_node(graph, node, a->n_heads * a->head_dim, LK_ROWS_ALL);
}

/* Whether x is a value of an encoder: one whose rows belong to runs. */
static bool check_encoder(lk_graph *graph, const char *what, lk_value x) {
    if (!usable(graph, x)) {
        return false;
    }
    if (graph->max_run == 0 || info_of(graph, x)->space == LK_ROWS_OUT) {
        graph->status = lk_fail(&graph->error, LK_E_INTERNAL, LK_AT_SUBJECT(what),
                                "%s of a graph that is no encoder's", what);
        return false;
    }
    return true;
}

lk_value lk_graph_run_attention(lk_graph *graph, lk_value q, lk_value k, lk_value v,
                                const lk_attention *attention) {
    const lk_attention *a = attention;
    if (!check_encoder(graph, "run_attention", q) || !usable(graph, k) || !usable(graph, v) ||
        !check_heads(graph, "attention", info_of(graph, q)->width, a->n_heads, a->head_dim) ||
        !check_heads(graph, "attention", info_of(graph, k)->width, a->n_kv_heads, a->head_dim) ||
        !check_heads(graph, "attention", info_of(graph, v)->width, a->n_kv_heads, a->head_dim) ||
        !check_width(graph, "attention", info_of(graph, k)->space, info_of(graph, q)->space) ||
        !check_width(graph, "attention", info_of(graph, v)->space, info_of(graph, q)->space) ||
        !check_attention(graph, a)) {
        return -1;
    }
    lk_node node = make_node(LK_NODE_RUN_ATTENTION, q, k, v);
    node.p.attn = *a;
    return add_node(graph, node, a->n_heads * a->head_dim, info_of(graph, q)->space);
}

lk_value lk_graph_neighbours(lk_graph *graph, lk_value x, uint32_t n_taps, uint32_t stride) {
    if (!check_encoder(graph, "neighbours", x)) {
        return -1;
    }
    const lk_value_info info = *info_of(graph, x);
    if (n_taps % 2 == 0 || (stride != 1 && (stride != 2 || info.space != LK_ROWS_ALL))) {
        graph->status = lk_fail(&graph->error, LK_E_INTERNAL, LK_AT_SUBJECT("neighbours"),
                                "%u neighbours at every %u. row", n_taps, stride);
        return -1;
    }
    lk_node node = make_node(LK_NODE_NEIGHBOURS, x, -1, -1);
    node.p.neighbours.n_taps = n_taps;
    node.p.neighbours.stride = stride;
    return add_node(graph, node, info.width * n_taps, stride == 1 ? info.space : LK_ROWS_HALF);
}

lk_value lk_graph_position(lk_graph *graph, lk_value x, const lk_weight *table) {
    if (!check_encoder(graph, "position", x)) {
        return -1;
    }
    const lk_value_info info = *info_of(graph, x);
    const uint32_t n_rows = lk_rows_of_run(info.space, graph->max_run);
    if (!check_f32(graph, table) || !check_shape(graph, table, 2, info.width, 0, 0)) {
        return -1;
    }
    if (table->ne[1] < n_rows) {
        graph->status = lk_fail(&graph->error, LK_E_FORMAT, LK_AT_SUBJECT(table->name),
                                "tensor %.128s has %llu rows, expected %u positions at least",
                                table->name, (unsigned long long)table->ne[1], n_rows);
        return -1;
    }
    lk_node node = make_node(LK_NODE_POSITION, x, -1, -1);
    node.w = table;
    return add_node(graph, node, info.width, info.space);
}

lk_value lk_graph_mean_of_two(lk_graph *graph, lk_value x) {
    if (!check_encoder(graph, "mean_of_two", x) ||
        !check_width(graph, "mean_of_two", info_of(graph, x)->space, LK_ROWS_HALF)) {
        return -1;
    }
    return add_node(graph, make_node(LK_NODE_MEAN_OF_TWO, x, -1, -1), info_of(graph, x)->width,
                    LK_ROWS_QUARTER);
}

void lk_graph_tap(lk_graph *graph, lk_value v, uint32_t stage) {
    if (usable(graph, v)) {
        graph->values[v].stage = (int32_t)stage;
    }
}

static bool check_expert_biases(lk_graph *graph, const lk_moe *moe, uint64_t width, uint64_t n_ff,
                                uint64_t n_experts) {
    return moe->gate_bias == NULL || (check_f32(graph, moe->gate_bias) &&
                                      check_shape(graph, moe->gate_bias, 2, n_ff, n_experts, 0) &&
                                      check_f32(graph, moe->up_bias) &&
                                      check_shape(graph, moe->up_bias, 2, n_ff, n_experts, 0) &&
                                      check_f32(graph, moe->down_bias) &&
                                      check_shape(graph, moe->down_bias, 2, width, n_experts, 0));
}

lk_value lk_graph_moe(lk_graph *graph, lk_value x, lk_value router_logits, const lk_moe *moe) {
    if (!usable(graph, x) || !usable(graph, router_logits) ||
        !check_gated(graph, moe->activation)) {
        return -1;
    }
    const lk_value_info info = *info_of(graph, x);
    const uint32_t n_experts = info_of(graph, router_logits)->width;
    const uint64_t n_ff = moe->gate->ne[1];
    if (!check_shape(graph, moe->gate, 3, info.width, 0, n_experts) ||
        !check_shape(graph, moe->up, 3, info.width, n_ff, n_experts) ||
        !check_shape(graph, moe->down, 3, n_ff, info.width, n_experts) ||
        !check_blocks(graph, moe->gate) || !check_blocks(graph, moe->up) ||
        !check_blocks(graph, moe->down) ||
        !check_expert_biases(graph, moe, info.width, n_ff, n_experts)) {
        return -1;
    }
    if (moe->n_used == 0 || moe->n_used > n_experts) {
        graph->status =
            lk_fail(&graph->error, LK_E_FORMAT, LK_AT_SUBJECT(moe->gate->name),
                    "%u experts used of %u (tensor %s)", moe->n_used, n_experts, moe->gate->name);
        return -1;
    }
    lk_node node = make_node(LK_NODE_MOE, x, router_logits, -1);
    node.p.moe = *moe;
    node.p.moe.n_experts = n_experts;
    node.p.moe.n_ff = (uint32_t)n_ff;
    return add_node(graph, node, info.width, info.space);
}

lk_value lk_graph_select_out(lk_graph *graph, lk_value x) {
    if (!usable(graph, x)) {
        return -1;
    }
    const lk_value_info info = *info_of(graph, x);
    if (!check_width(graph, "select", info.space, LK_ROWS_ALL)) {
        return -1;
    }
    return add_node(graph, make_node(LK_NODE_SELECT_OUT, x, -1, -1), info.width, LK_ROWS_OUT);
}

lk_value lk_graph_select_logits(lk_graph *graph, lk_value x) {
    if (!usable(graph, x)) {
        return -1;
    }
    const lk_value_info info = *info_of(graph, x);
    if (!check_width(graph, "select logits", info.space, LK_ROWS_OUT)) {
        return -1;
    }
    graph->hidden = x;
    return add_node(graph, make_node(LK_NODE_SELECT_LOGITS, x, -1, -1), info.width, LK_ROWS_LOGITS);
}

static lk_status check_finished(lk_graph *graph, lk_value logits) {
    const lk_value_info *info = info_of(graph, logits);
    const lk_row_space space = graph->hidden >= 0 ? LK_ROWS_LOGITS : LK_ROWS_OUT;
    if (graph->max_run == 0 && (info->width != graph->n_vocab || info->space != space)) {
        return lk_fail(&graph->error, LK_E_FORMAT, LK_AT_SUBJECT("logits"),
                       "the logits have width %u, expected the vocabulary's %u", info->width,
                       graph->n_vocab);
    }
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const lk_value_info *v = &graph->values[i];
        const bool used = v->last_node >= 0;
        if (used == ((lk_value)i == logits)) {
            const lk_node *node = &graph->nodes[v->first_node];
            return lk_fail(&graph->error, LK_E_INTERNAL, LK_NOWHERE, "the %s of layer %d is %s",
                           lk_node_name(node->kind), node->layer,
                           used ? "used after the logits" : "never used");
        }
    }
    return LK_OK;
}

lk_status lk_graph_finish(lk_graph *graph, lk_value logits, lk_error *err) {
    if (usable(graph, logits)) {
        graph->status = check_finished(graph, logits);
        graph->logits = logits;
    }
    if (graph->status == LK_OK) {
        graph->status = lk_graph_plan(graph, &graph->error);
    }
    if (graph->status != LK_OK && err != NULL) {
        *err = graph->error;
    }
    return graph->status;
}
