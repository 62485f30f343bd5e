/* graph.h - what a model computes, as a list of operators over named activation values. Built once
 * when a model is loaded (src/model/arch), executed for every step by a backend. Knows no kernel
 * and no sequence.
 *
 * A value is [rows, width] of binary32. Rows are those of a step (LK_ROWS_ALL); after
 * lk_graph_select_out those that want logits or their hidden state (LK_ROWS_OUT); after
 * lk_graph_select_logits those that want logits (LK_ROWS_LOGITS). An encoder's graph has no tokens:
 * its rows come from outside (lk_graph_input), each run of a step is computed for itself, and has
 * fewer rows after a convolution or a mean. Builder calls check shapes and
 * formats and report the tensor's name; after a failed call the graph only remembers the first
 * error, so that an architecture reads without checks and asks lk_graph_finish once. */
#ifndef LK_GRAPH_GRAPH_H
#define LK_GRAPH_GRAPH_H

#include <stdbool.h>

#include "lk/base.h"
#include "ops/ops.h"
#include "ops/rope.h"
#include "quant/format.h"

/* A weight: borrowed pointers into the mapped file. Dimensions fastest first, 1 beyond n_dims. */
typedef struct lk_weight {
    const char *name;
    const lk_format *format;
    const uint8_t *data;
    uint32_t n_dims;
    uint64_t ne[4];
    size_t row_bytes; /* bytes of ne[0] elements */
} lk_weight;

/* Each names the tensor, what was found and what was expected. Shape: ne [n_dims], 0 means any
 * size, dimensions beyond are 1. Product: rows of whole blocks and whole activation groups. */
lk_status lk_weight_check_shape(const lk_weight *w, uint32_t n_dims, const uint64_t *ne,
                                lk_error *err);
lk_status lk_weight_check_f32(const lk_weight *w, lk_error *err);
lk_status lk_weight_check_product(const lk_weight *w, lk_error *err);

typedef int32_t lk_value; /* index into lk_graph.values; -1 after an error */

typedef enum lk_row_space {
    LK_ROWS_ALL,
    LK_ROWS_OUT,
    LK_ROWS_LOGITS,
    LK_ROWS_HALF,    /* of a run of n rows: the larger half of them, (n + 1) / 2 */
    LK_ROWS_QUARTER, /* the smaller half of those */
    LK_N_ROW_SPACES
} lk_row_space;
/* Rows of a run of n rows in LK_ROWS_ALL, HALF or QUARTER. */
static inline uint32_t lk_rows_of_run(lk_row_space space, uint32_t n) {
    const uint32_t half = n / 2 + n % 2;
    return space == LK_ROWS_HALF ? half : space == LK_ROWS_QUARTER ? half / 2 : n;
}

/* Operators of the graph. The text names the operator in errors. */
typedef enum lk_node_kind {
#define LK_NODE(NAME, text, row_wise) LK_NODE_##NAME,
#include "graph/nodes.def"
#undef LK_NODE
    LK_NODE_COUNT
} lk_node_kind;
const char *lk_node_name(lk_node_kind kind); /* "" for LK_NODE_COUNT */
bool lk_node_is_row_wise(lk_node_kind kind);

typedef struct lk_value_info {
    uint32_t width;
    lk_row_space space;
    int32_t first_node; /* where it is written */
    int32_t last_node;  /* last use; -1: none */
    /* Memory plan. In a step of n_rows rows the value lies `offset * n_rows` floats from the start
     * of the arena, its rows `width` floats apart; offset is a multiple of LK_PLAN_ALIGN. A value
     * keeps its place through the whole run of row-wise nodes that it is written or last used in. A
     * row-wise node may find its output in the place of in[0] and nowhere else among its inputs.
     * The logits have no place, nor have the values that row-wise nodes turn into them one after
     * the other: they lie in the step's own buffer. */
    size_t offset;
    bool in_logits;
    int32_t stage; /* of lk_graph_tap; -1: none. Such a value keeps its place to itself */
} lk_value_info;

enum { LK_PLAN_ALIGN = 16 };

enum { LK_NODE_MAX_INPUTS = 3 };

/* Attention of one layer. */
typedef struct lk_attention {
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    float scale;
    uint32_t window;        /* positions that a query sees, its own included; 0: all */
    float soft_cap;         /* of the scores; 0: none */
    const lk_weight *sinks; /* f32 [n_heads], or NULL */
    uint32_t i_kv;          /* index of the KV layer, given by the builder */
} lk_attention;

/* The experts of one layer. Biases: f32, one vector for each expert; all three or none. */
typedef struct lk_moe {
    const lk_weight *gate; /* [width, n_ff, n_experts] */
    const lk_weight *up;
    const lk_weight *down;      /* [n_ff, width, n_experts] */
    const lk_weight *gate_bias; /* [n_ff, n_experts], or NULL */
    const lk_weight *up_bias;
    const lk_weight *down_bias; /* [width, n_experts] */
    const uint8_t *strips[3];   /* of gate, up and down, as lk_node.strips; expert by expert */
    uint32_t n_used;
    bool normalise;          /* the weights of the chosen ones are divided by their sum */
    lk_node_kind activation; /* LK_NODE_SILU_MUL or another gated one */
    uint32_t n_experts;      /* this and n_ff are given by the builder */
    uint32_t n_ff;
} lk_moe;

typedef struct lk_node {
    lk_node_kind kind;
    int32_t layer; /* -1 outside the layers */
    lk_value in[LK_NODE_MAX_INPUTS];
    lk_value out;
    const lk_weight *w; /* matrix, norm or bias weight; experts: 3-dimensional */
    /* MATMUL: the matrix as strips (quant/strip.h), or NULL: not repacked. Set after the graph is
     * finished (model/repack.c). */
    const uint8_t *strips;
    union {
        struct {
            float eps;
            uint32_t group; /* elements per norm: the width, or head_dim for a norm per head */
        } norm;
        struct {
            const lk_weight *b; /* bias */
            float eps;
        } layer_norm;
        struct {
            uint32_t n_heads;
            uint32_t head_dim;
            uint32_t i_rope; /* index into lk_graph.ropes */
        } rope;
        lk_attention attn; /* ATTENTION: in = q, k, v; stores k and v, then attends.
                              RUN_ATTENTION: in = q, k, v; every row sees all rows of its run */
        struct {
            uint32_t n_taps; /* row i has the rows i * stride - n_taps / 2 .. of its run */
            uint32_t stride;
        } neighbours;
        lk_moe moe;   /* MOE: in[0] = x, in[1] = router logits */
        float factor; /* SCALE; SOFTCAP: the cap */
        struct {
            double scale;
            uint32_t period;
        } temperature;
    } p;
} lk_node;

typedef struct lk_rope_table {
    lk_rope_params params;
    lk_rope_order order;
    uint32_t n_rot;
    /* frequencies, computed once at lk_graph_add_rope */
    double inv[LK_MAX_HEAD_DIM / 2];
    double magnitude;
} lk_rope_table;

typedef struct lk_kv_layer {
    uint32_t n_kv_heads;
    uint32_t head_dim;
    uint32_t window; /* as in lk_attention */
} lk_kv_layer;

typedef struct lk_graph {
    const lk_allocator *allocator;
    lk_node *nodes;
    uint32_t n_nodes, cap_nodes;
    lk_value_info *values;
    uint32_t n_values, cap_values;
    lk_rope_table *ropes;
    uint32_t n_ropes, cap_ropes;
    lk_kv_layer *kv_layers;
    uint32_t n_kv_layers, cap_kv_layers;
    uint32_t window;              /* the widest window of a KV layer; 0: none has one */
    struct lk_weight_view *views; /* of lk_graph_weight_rows, the last one first */
    int32_t layer;                /* given to the nodes that are added now */
    uint32_t n_vocab;
    uint32_t n_embd;     /* width of an embedding, or of an input row */
    uint32_t max_run;    /* rows of a run of an encoder's step, at most; 0: no encoder */
    lk_value hidden;     /* LK_ROWS_OUT: what lk_graph_select_logits took; -1: none */
    lk_value logits;     /* LK_ROWS_LOGITS (LK_ROWS_OUT where hidden is -1), width n_vocab; an
                            encoder's: what it gives */
    size_t arena_floats; /* memory plan: floats per row over all values */
    lk_status status;    /* first error of the builder */
    lk_error error;
} lk_graph;

void lk_graph_init(lk_graph *graph, const lk_allocator *allocator);
void lk_graph_deinit(lk_graph *graph);
void lk_graph_set_layer(lk_graph *graph, int32_t layer);
/* Rows [first, first + n) of a matrix as a weight of their own, which the graph keeps; NULL after
 * an error. For matrices that a file stores fused. */
const lk_weight *lk_graph_weight_rows(lk_graph *graph, const lk_weight *w, uint64_t first,
                                      uint64_t n);

/* The same data as a matrix of ne1 rows of ne0, which together are as many elements; a vector where
 * ne1 is 0. For tensors that a file keeps in another shape. */
const lk_weight *lk_graph_weight_shape(lk_graph *graph, const lk_weight *w, uint64_t ne0,
                                       uint64_t ne1);

lk_value lk_graph_embed(lk_graph *graph, const lk_weight *table);
/* Instead of embeddings: rows that the step brings. Runs have at most max_run rows, 1 ..
 * LK_MAX_RUN. */
enum { LK_MAX_RUN = 4096 };
lk_value lk_graph_input(lk_graph *graph, uint32_t width, uint32_t max_run);
lk_value lk_graph_rms_norm(lk_graph *graph, lk_value x, const lk_weight *w, float eps,
                           uint32_t group);
/* Layer norm over the whole width. */
lk_value lk_graph_layer_norm(lk_graph *graph, lk_value x, const lk_weight *w, const lk_weight *b,
                             float eps);
lk_value lk_graph_matmul(lk_graph *graph, lk_value x, const lk_weight *w);
/* Adds b to every row. b may be NULL: returns x then (an optional bias). */
lk_value lk_graph_bias(lk_graph *graph, lk_value x, const lk_weight *b);
lk_value lk_graph_add(lk_graph *graph, lk_value a, lk_value b);
lk_value lk_graph_gelu_erf(lk_graph *graph, lk_value x);
lk_value lk_graph_silu_mul(lk_graph *graph, lk_value gate, lk_value up);
/* As lk_graph_silu_mul, with the activation LK_NODE_SILU_MUL, GELU_MUL or CLAMPED_SILU_MUL. */
lk_value lk_graph_gated(lk_graph *graph, lk_node_kind activation, lk_value gate, lk_value up);
/* Every element times `factor`, which is finite; x itself where that is 1. */
lk_value lk_graph_scale(lk_graph *graph, lk_value x, double factor);
/* tanh(x / cap) * cap; x itself where cap is 0. */
lk_value lk_graph_softcap(lk_graph *graph, lk_value x, double cap);
/* Every row of x times the logistic of its gate [rows, 1]. */
lk_value lk_graph_row_gate(lk_graph *graph, lk_value x, lk_value gate);
/* Every row times 1 + scale * ln(floor(position / period) + 1). */
lk_value lk_graph_temperature(lk_graph *graph, lk_value x, double scale, uint32_t period);
/* Returns the index for lk_graph_rope. */
uint32_t lk_graph_add_rope(lk_graph *graph, const lk_rope_params *params, lk_rope_order order,
                           uint32_t n_rot);
lk_value lk_graph_rope(lk_graph *graph, lk_value x, uint32_t n_heads, uint32_t head_dim,
                       uint32_t i_rope);
lk_value lk_graph_attention(lk_graph *graph, lk_value q, lk_value k, lk_value v,
                            const lk_attention *attention);
/* Every row sees all rows of its run, and no others. Nothing is kept. */
lk_value lk_graph_run_attention(lk_graph *graph, lk_value q, lk_value k, lk_value v,
                                const lk_attention *attention);
/* What a convolution along the rows of a run multiplies: row i of the output is made of the n_taps
 * (odd) rows of x around row i * stride, zeros outside the run; element c * n_taps + t is element c
 * of the t-th of them. stride 2: the output is in LK_ROWS_HALF. */
lk_value lk_graph_neighbours(lk_graph *graph, lk_value x, uint32_t n_taps, uint32_t stride);
/* Adds row i of the table [width, rows] to row i of each run. */
lk_value lk_graph_position(lk_graph *graph, lk_value x, const lk_weight *table);
/* The means of rows 2i and 2i + 1 of each run, from LK_ROWS_HALF to LK_ROWS_QUARTER. */
lk_value lk_graph_mean_of_two(lk_graph *graph, lk_value x);
/* Has the backend show this value (lk_step.show) as `stage`. */
void lk_graph_tap(lk_graph *graph, lk_value v, uint32_t stage);
lk_value lk_graph_moe(lk_graph *graph, lk_value x, lk_value router_logits, const lk_moe *moe);
/* From here on only the rows that want something. */
lk_value lk_graph_select_out(lk_graph *graph, lk_value x);
/* x is the final hidden state, normed: given out for the rows that want it. From here on only the
 * rows that want logits. A graph without this gives logits alone. */
lk_value lk_graph_select_logits(lk_graph *graph, lk_value x);
/* Marks the logits (an encoder's: its last value), plans memory; returns the first error of all. A
 * value that nothing uses is an error too. */
lk_status lk_graph_finish(lk_graph *graph, lk_value logits, lk_error *err);

/* Elements of a hidden state that is given out; 0: none is. */
static inline uint32_t lk_graph_hidden_width(const lk_graph *graph) {
    return graph->hidden >= 0 ? graph->values[graph->hidden].width : 0;
}

#endif
