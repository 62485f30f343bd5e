/* test_graph.c - the builder's checks (each names the tensor, what was found and what was expected)
 * and the memory plan: no two values that are alive together may overlap. */
#include "graph/graph.h"
#include "lk_test.h"

enum { WIDTH = 64, HIDDEN = 96, VOCAB = 32, HEAD_DIM = 16, N_HEADS = 4, N_KV = 2 };

static lk_weight weight(const char *name, uint32_t type, uint32_t n_dims, uint64_t ne0,
                        uint64_t ne1, uint64_t ne2) {
    static const uint8_t nothing[4];
    const lk_format *format = lk_format_find(type);
    return (lk_weight){.name = name,
                       .format = format,
                       .data = nothing,
                       .n_dims = n_dims,
                       .ne = {ne0, ne1, ne2, 1},
                       .row_bytes = (size_t)ne0 / format->block_elems * format->block_bytes};
}

static lk_weight matrix(const char *name, uint64_t n_in, uint64_t n_out) {
    return weight(name, LK_FORMAT_F32, 2, n_in, n_out, 1);
}

static lk_weight vector(const char *name, uint64_t n) {
    return weight(name, LK_FORMAT_F32, 1, n, 1, 1);
}

/* A decoder of n_layers; the weights live in `w`. */
typedef struct weights {
    lk_weight embed, norm, q, k, v, o, gate, up, down, head_norm;
} weights;

static weights make_weights(void) {
    return (weights){matrix("embed", WIDTH, VOCAB),          vector("norm", WIDTH),
                     matrix("q", WIDTH, N_HEADS * HEAD_DIM), matrix("k", WIDTH, N_KV * HEAD_DIM),
                     matrix("v", WIDTH, N_KV * HEAD_DIM),    matrix("o", N_HEADS * HEAD_DIM, WIDTH),
                     matrix("gate", WIDTH, HIDDEN),          matrix("up", WIDTH, HIDDEN),
                     matrix("down", HIDDEN, WIDTH),          vector("head_norm", HEAD_DIM)};
}

static lk_value build(lk_graph *g, const weights *w, int n_layers) {
    const lk_rope_params rope = LK_ROPE_PARAMS_DEFAULT;
    const lk_attention attention = {
        .n_heads = N_HEADS, .n_kv_heads = N_KV, .head_dim = HEAD_DIM, .scale = 0.25f};
    const uint32_t i_rope = lk_graph_add_rope(g, &rope, LK_ROPE_NEOX, HEAD_DIM);
    lk_value x = lk_graph_embed(g, &w->embed);
    for (int i = 0; i < n_layers; i++) {
        lk_graph_set_layer(g, i);
        lk_value h = lk_graph_rms_norm(g, x, &w->norm, 1e-6f, WIDTH);
        lk_value q = lk_graph_matmul(g, h, &w->q);
        lk_value k = lk_graph_matmul(g, h, &w->k);
        const lk_value v = lk_graph_matmul(g, h, &w->v);
        q = lk_graph_rms_norm(g, q, &w->head_norm, 1e-6f, HEAD_DIM);
        k = lk_graph_rms_norm(g, k, &w->head_norm, 1e-6f, HEAD_DIM);
        q = lk_graph_rope(g, q, N_HEADS, HEAD_DIM, i_rope);
        k = lk_graph_rope(g, k, N_KV, HEAD_DIM, i_rope);
        lk_value o = lk_graph_attention(g, q, k, v, &attention);
        if (i + 1 == n_layers) {
            o = lk_graph_select_out(g, o);
            x = lk_graph_select_out(g, x);
        }
        x = lk_graph_add(g, x, lk_graph_matmul(g, o, &w->o));
        h = lk_graph_rms_norm(g, x, &w->norm, 1e-6f, WIDTH);
        const lk_value gate = lk_graph_matmul(g, h, &w->gate);
        const lk_value up = lk_graph_matmul(g, h, &w->up);
        x = lk_graph_add(g, x, lk_graph_matmul(g, lk_graph_silu_mul(g, gate, up), &w->down));
    }
    lk_graph_set_layer(g, -1);
    x = lk_graph_rms_norm(g, x, &w->norm, 1e-6f, WIDTH);
    return lk_graph_matmul(g, x, &w->embed);
}

static bool apart(const lk_value_info *a, const lk_value_info *b) {
    return a->offset >= b->offset + b->width || b->offset >= a->offset + a->width;
}

/* Whether the output of node i may be written while its inputs are read. */
static bool output_is_apart(const lk_graph *g, uint32_t i) {
    const lk_node *node = &g->nodes[i];
    const lk_value_info *out = &g->values[node->out];
    for (uint32_t k = 0; k < LK_NODE_MAX_INPUTS; k++) {
        if (node->in[k] >= 0) {
            const lk_value_info *in = &g->values[node->in[k]];
            const bool takes_over = k == 0 && lk_node_is_row_wise(node->kind) &&
                                    in->offset == out->offset && in->width == out->width;
            if (!takes_over && !apart(in, out)) {
                return false;
            }
        }
    }
    return true;
}

/* Values of a run of row-wise nodes must be apart, but for those that take over a place. */
static bool runs_are_apart(const lk_graph *g, uint32_t i) {
    for (uint32_t j = i + 1; j < g->n_nodes; j++) {
        const lk_value_info *a = &g->values[g->nodes[i].out];
        const lk_value_info *b = &g->values[g->nodes[j].out];
        if (!lk_node_is_row_wise(g->nodes[j].kind) || !lk_node_is_row_wise(g->nodes[i].kind) ||
            a->space != b->space) {
            return true;
        }
        if (!apart(a, b) && (a->offset != b->offset || a->width != b->width)) {
            return false;
        }
    }
    return true;
}

/* Counts the faults of a plan: walks the nodes with an owner for every float of the arena. */
static uint32_t plan_faults(const lk_graph *g) {
    int32_t *owner = malloc(g->arena_floats * sizeof *owner);
    uint32_t n_faults = 0;
    if (owner == NULL) {
        exit(1);
    }
    memset(owner, 0xff, g->arena_floats * sizeof *owner);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const lk_node *node = &g->nodes[i];
        for (uint32_t k = 0; k < LK_NODE_MAX_INPUTS; k++) {
            const lk_value v = node->in[k];
            for (uint32_t f = 0; v >= 0 && !g->values[v].in_logits && f < g->values[v].width; f++) {
                n_faults += owner[g->values[v].offset + f] != v; /* was overwritten */
            }
        }
        if (g->values[node->out].in_logits) {
            continue;
        }
        const lk_value_info *out = &g->values[node->out];
        n_faults +=
            out->offset % LK_PLAN_ALIGN != 0 || !output_is_apart(g, i) || !runs_are_apart(g, i);
        for (uint32_t f = 0; f < out->width && out->offset + f < g->arena_floats; f++) {
            owner[out->offset + f] = node->out;
        }
        n_faults += out->offset + out->width > g->arena_floats;
    }
    free(owner);
    return n_faults;
}

LK_TEST(plan) {
    for (int n_layers = 1; n_layers <= 6; n_layers++) {
        lk_graph g;
        lk_error err;
        const weights w = make_weights();
        lk_graph_init(&g, NULL);
        REQUIRE_OK(lk_graph_finish(&g, build(&g, &w, n_layers), &err), err);
        CHECK(g.n_kv_layers == (uint32_t)n_layers && g.n_vocab == VOCAB);
        CHECK(plan_faults(&g) == 0);
        /* Depth costs nothing: x, and the widest stage beside it. */
        CHECK_MSG(g.arena_floats <= 2 * WIDTH + 2 * HIDDEN + 64, "%zu floats", g.arena_floats);
        lk_graph_deinit(&g);
    }
}

LK_TEST(wrong_plans_are_seen) {
    lk_graph g;
    lk_error err;
    const weights w = make_weights();
    lk_graph_init(&g, NULL);
    REQUIRE_OK(lk_graph_finish(&g, build(&g, &w, 2), &err), err);
    const lk_value_info x = g.values[g.nodes[0].out];
    for (int32_t i = 1; i < x.last_node; i++) { /* what is made while x lives, put on top of it */
        lk_value_info *v = &g.values[g.nodes[i].out];
        const size_t offset = v->offset;
        v->offset = x.offset;
        CHECK_MSG(plan_faults(&g) != 0, "node %d may write over x", i);
        v->offset = offset;
    }
    CHECK(x.last_node > 8);
    lk_graph_deinit(&g);
}

/* Builds, expects `status` and every one of the texts in the message. */
static void expect(lk_graph *g, lk_value logits, lk_status status, const char *text1,
                   const char *text2) {
    lk_error err = {0};
    CHECK_STATUS(status, lk_graph_finish(g, logits, &err));
    CHECK_MSG(strstr(err.message, text1) != NULL && strstr(err.message, text2) != NULL,
              "message \"%s\" lacks \"%s\" or \"%s\"", err.message, text1, text2);
    lk_graph_deinit(g);
}

static void expect_broken(weights w, lk_status status, const char *text1, const char *text2) {
    lk_graph g;
    lk_graph_init(&g, NULL);
    expect(&g, build(&g, &w, 2), status, text1, text2);
}

LK_TEST(shapes) {
    weights w = make_weights();
    w.q = matrix("blk.0.attn_q.weight", WIDTH + 1, N_HEADS * HEAD_DIM);
    expect_broken(w, LK_E_FORMAT, "blk.0.attn_q.weight has shape [65, 64]", "expected [64, any]");
    w = make_weights();
    w.k = matrix("k", WIDTH, 40);
    expect_broken(w, LK_E_FORMAT, "a norm over 16 of width 40", "expected a divisor");
    w = make_weights();
    w.norm = vector("n", WIDTH - 1);
    expect_broken(w, LK_E_FORMAT, "tensor n has shape [63]", "expected [64]");
    w = make_weights();
    w.norm = matrix("n", WIDTH, 2);
    expect_broken(w, LK_E_FORMAT, "tensor n has shape [64, 2]", "expected [64]");
    w = make_weights();
    w.norm = weight("n", LK_FORMAT_F16, 1, WIDTH, 1, 1);
    expect_broken(w, LK_E_UNSUPPORTED, "tensor n has format F16", "expected F32");
    w = make_weights();
    w.down = matrix("d", HIDDEN, WIDTH - 2);
    expect_broken(w, LK_E_FORMAT, "width 62", "expected 64");
    w = make_weights();
    w.q = weight("q", LK_FORMAT_Q4_K, 2, WIDTH, WIDTH, 1);
    expect_broken(w, LK_E_UNSUPPORTED, "tensor q has rows of 64 elements", "multiple of 256");
}

LK_TEST(structure) {
    const weights w = make_weights();
    lk_graph g;
    lk_graph_init(&g, NULL); /* logits for all rows */
    lk_value x = lk_graph_embed(&g, &w.embed);
    expect(&g, lk_graph_matmul(&g, x, &w.embed), LK_E_FORMAT, "logits", "");
    lk_graph_init(&g, NULL); /* a value that nobody reads */
    x = lk_graph_embed(&g, &w.embed);
    (void)lk_graph_matmul(&g, x, &w.q);
    x = lk_graph_select_out(&g, x);
    expect(&g, lk_graph_matmul(&g, x, &w.embed), LK_E_INTERNAL, "matmul", "never used");
    lk_graph_init(&g, NULL); /* values of different row spaces */
    x = lk_graph_embed(&g, &w.embed);
    x = lk_graph_add(&g, lk_graph_select_out(&g, x), x);
    expect(&g, x, LK_E_FORMAT, "add", "");
    lk_graph_init(&g, NULL); /* head size 12 */
    x = lk_graph_embed(&g, &w.embed);
    x = lk_graph_attention(&g, x, x, x, &(lk_attention){4, 4, 12, 1.0f, 0, 0.0f, NULL, 0});
    expect(&g, x, LK_E_UNSUPPORTED, "head size 12", "multiple of 8");
    lk_graph_init(&g, NULL); /* 4 query heads over 3 key heads */
    x = lk_graph_embed(&g, &w.embed);
    const lk_weight kv = matrix("kv", WIDTH, 48);
    const lk_value k = lk_graph_matmul(&g, x, &kv);
    x = lk_graph_attention(&g, x, k, k, &(lk_attention){4, 3, 16, 1.0f, 0, 0.0f, NULL, 0});
    expect(&g, x, LK_E_UNSUPPORTED, "4 query heads over 3", "");
}

LK_TEST(experts) {
    const weights w = make_weights();
    const lk_weight router = matrix("router", WIDTH, 8);
    lk_weight gate = weight("gate", LK_FORMAT_F32, 3, WIDTH, HIDDEN, 8);
    lk_weight up = weight("up", LK_FORMAT_F32, 3, WIDTH, HIDDEN, 8);
    lk_weight down = weight("down", LK_FORMAT_F32, 3, HIDDEN, WIDTH, 7);
    lk_graph g;
    lk_graph_init(&g, NULL);
    lk_value x = lk_graph_embed(&g, &w.embed);
    lk_moe moe = {
        .gate = &gate, .up = &up, .down = &down, .n_used = 2, .activation = LK_NODE_SILU_MUL};
    x = lk_graph_moe(&g, x, lk_graph_matmul(&g, x, &router), &moe);
    expect(&g, x, LK_E_FORMAT, "tensor down has shape [96, 64, 7]", "expected [96, 64, 8]");
    down.ne[2] = 8;
    moe.n_used = 9;
    lk_graph_init(&g, NULL);
    x = lk_graph_embed(&g, &w.embed);
    x = lk_graph_moe(&g, x, lk_graph_matmul(&g, x, &router), &moe);
    expect(&g, x, LK_E_FORMAT, "9 experts used of 8", "gate");
}

LK_TEST(allocation_failures) {
    const weights w = make_weights();
    lk_test_allocator a;
    uint64_t n = 1;
    for (;; n++) {
        lk_test_allocator_init(&a);
        a.fail_at = n;
        lk_graph g;
        lk_error err = {0};
        lk_graph_init(&g, &a.base);
        const lk_status status = lk_graph_finish(&g, build(&g, &w, 20), &err);
        CHECK((status == LK_OK) == (a.n_failed == 0));
        CHECK(status == LK_OK || status == LK_E_NOMEM);
        lk_graph_deinit(&g);
        CHECK(a.n_live == 0 && a.live_bytes == 0);
        if (status == LK_OK) {
            break;
        }
    }
    CHECK(n > 5);
}

LK_TEST_MAIN(LK_RUN(plan), LK_RUN(wrong_plans_are_seen), LK_RUN(shapes), LK_RUN(structure),
             LK_RUN(experts), LK_RUN(allocation_failures))
