/* test_arch_refs.c - every architecture against logits of an independent float64 implementation
 * (tests/data/archs/README.md): tiny models with float32 weights, so that the real rules and the
 * float32-activation mode compute the same expressions. Models that are not in tests/data are read
 * from the shared folder where it is there. The mistakes at the end show that the comparison can
 * fail. */
#include <math.h>

#include "lk/context.h"
#include "lk_test.h"
#include "model/model.h"

enum { N_LENGTHS = 4, MAX_TOKENS = 700, MAX_POSITIONS = 5, N_VOCAB = 128 };

typedef struct sequence {
    uint32_t n_tokens;
    int32_t tokens[MAX_TOKENS];
    uint32_t n_positions;
    int32_t positions[MAX_POSITIONS];
} sequence;

typedef struct reference {
    const char *name;
    uint32_t n_lengths; /* of the four sequences, the first ones */
} reference;

static const reference references[] = {
    {"llama", 3},        {"llama-linear", 4}, {"llama-yarn", 4}, {"llama-rope-freqs", 4},
    {"llama-untied", 3}, {"llama-bias", 3},   {"qwen2", 3},      {"qwen3", 3},
    {"qwen3moe", 3},     {"granite", 3},      {"smollm3", 3},    {"olmo2", 3},
    {"phi3", 3},         {"mistral3", 4},     {"gemma2", 3},     {"gemma3", 3},
    {"gpt-oss", 4},      {"qwen2moe", 3},     {"qwen2vl", 3},    {"glm4", 3},
};

static uint32_t read_numbers(const char *line, const char *word, uint32_t max, int32_t *out) {
    CHECK_MSG(strncmp(line, word, strlen(word)) == 0, "sequences.txt: expected %s", word);
    char *at = NULL;
    const long n = strtol(line + strlen(word), &at, 10);
    CHECK(n >= 1 && n <= (long)max);
    for (long i = 0; i < n; i++) {
        out[i] = (int32_t)strtol(at, &at, 10);
    }
    return (uint32_t)n;
}

static void read_sequences(sequence sequences[N_LENGTHS]) {
    size_t size = 0;
    char *text = (char *)lk_test_read(lk_test_data("archs/sequences.txt"), &size);
    char *line = text;
    for (int i = 0; i < N_LENGTHS; i++) {
        sequence *s = &sequences[i];
        s->n_tokens = read_numbers(line, "tokens", MAX_TOKENS, s->tokens);
        line = strchr(line, '\n') + 1;
        s->n_positions = read_numbers(line, "positions", MAX_POSITIONS, s->positions);
        line = strchr(line, '\n') + 1;
    }
    free(text);
}

/* tests/data/archs/NAME, else the shared folder's, else NULL. */
static const char *find_file(const char *name, const char *suffix) {
    char path[256];
    (void)snprintf(path, sizeof path, "archs/%s%s", name, suffix);
    FILE *file = fopen(lk_test_data(path), "rb");
    if (file != NULL) {
        (void)fclose(file);
        return lk_test_data(path);
    }
    (void)snprintf(path, sizeof path, "refs/archs/%s%s", name, suffix);
    return lk_test_shared(path);
}

static double relative_l2(const float *found, const float *expected, size_t n) {
    double difference = 0.0;
    double norm = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)found[i] - (double)expected[i];
        difference += d * d;
        norm += (double)expected[i] * (double)expected[i];
    }
    return sqrt(difference / norm);
}

/* The worst row of one sequence; *expected moves on to the next sequence's rows. */
static double worst_row(lk_context *context, const sequence *s, const float **expected) {
    lk_error err;
    static lk_row rows[MAX_TOKENS];
    for (uint32_t i = 0; i < s->n_tokens; i++) {
        rows[i] = (lk_row){.token = s->tokens[i], .pos = i};
    }
    for (uint32_t i = 0; i < s->n_positions; i++) {
        rows[s->positions[i]].flags = LK_ROW_LOGITS;
    }
    REQUIRE_OK(lk_sequence_clear(context, 0, &err), err);
    REQUIRE_OK(lk_context_decode(context, rows, s->n_tokens, NULL, &err), err);
    double worst = 0.0;
    for (uint32_t i = 0; i < s->n_positions; i++) {
        const float *row = NULL;
        REQUIRE_OK(lk_context_logits(context, (size_t)s->positions[i], &row, &err), err);
        const double error = relative_l2(row, *expected, N_VOCAB);
        worst = error > worst ? error : worst;
        *expected += N_VOCAB;
    }
    return worst;
}

typedef struct result {
    double worst; /* of all sequences */
    double last;  /* of the last one */
} result;

static result compare(lk_model *model, const reference *ref, const char *logits_path,
                      bool f32_activations) {
    static sequence sequences[N_LENGTHS];
    read_sequences(sequences);
    size_t size = 0;
    uint8_t *bytes = lk_test_read(logits_path, &size);
    const float *expected = (const float *)(const void *)bytes;
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_threads = 2;
    params.kv_positions = 1024;
    params.k_type = LK_KV_F32;
    params.v_type = LK_KV_F32;
    params.flags = LK_CONTEXT_POISON | (f32_activations ? LK_CONTEXT_F32_ACTIVATIONS : 0u);
    lk_context *context = NULL;
    lk_error err;
    REQUIRE_OK(lk_context_create(model, &params, &context, &err), err);
    CHECK(lk_model_graph(model)->n_vocab == N_VOCAB);
    result r = {0.0, 0.0};
    for (uint32_t i = 0; i < ref->n_lengths; i++) {
        r.last = worst_row(context, &sequences[i], &expected);
        r.worst = r.last > r.worst ? r.last : r.worst;
    }
    CHECK((size_t)((const uint8_t *)expected - bytes) == size);
    lk_context_destroy(context);
    free(bytes);
    return r;
}

LK_TEST(architectures) {
    for (size_t i = 0; i < sizeof references / sizeof references[0]; i++) {
        const reference *ref = &references[i];
        const char *path = find_file(ref->name, ".gguf");
        if (path == NULL) {
            (void)printf("  %-18s not here\n", ref->name);
            continue;
        }
        lk_error err;
        lk_model *model = NULL;
        REQUIRE_OK(lk_model_open(path, NULL, &model, &err), err);
        const char *logits = find_file(ref->name, ".logits.f32");
        const double test_mode = compare(model, ref, logits, true).worst;
        const double rules = compare(model, ref, logits, false).worst;
        (void)printf("  %-18s float32 activations %.2g, lk1 %.2g\n", ref->name, test_mode, rules);
        CHECK_MSG(test_mode <= 1e-5, "%s: relative error %g", ref->name, test_mode);
        CHECK_MSG(rules <= 1e-5, "%s: relative error %g", ref->name, rules);
        lk_model_close(model);
    }
}

/* Spoils the graph of a model; false where there is nothing to spoil. */
typedef bool spoil_fn(lk_graph *graph);

static bool other_pairing(lk_graph *graph) {
    lk_rope_table *table = &graph->ropes[0];
    table->order = table->order == LK_ROPE_NEOX ? LK_ROPE_NORMAL : LK_ROPE_NEOX;
    return graph->n_ropes == 1;
}

static bool recompute_rope(lk_graph *graph, const lk_rope_params *params) {
    lk_rope_table *table = &graph->ropes[0];
    return lk_rope_frequencies(params, table->n_rot, table->inv, &table->magnitude, NULL) == LK_OK;
}

static bool double_base(lk_graph *graph) {
    lk_rope_params params = graph->ropes[0].params;
    params.base *= 2.0;
    return recompute_rope(graph, &params);
}

static bool no_scaling(lk_graph *graph) {
    lk_rope_params params = graph->ropes[0].params;
    params.scaling = LK_ROPE_SCALING_NONE;
    params.attn_factor = 1.0;
    return recompute_rope(graph, &params);
}

static bool linear_for_yarn(lk_graph *graph) {
    lk_rope_params params = graph->ropes[0].params;
    params.scaling = LK_ROPE_SCALING_LINEAR;
    params.attn_factor = 1.0;
    return recompute_rope(graph, &params);
}

static bool no_magnitude(lk_graph *graph) {
    graph->ropes[0].magnitude = 1.0;
    return true;
}

static bool no_factors(lk_graph *graph) {
    lk_rope_params params = graph->ropes[0].params;
    params.factors = NULL;
    return recompute_rope(graph, &params);
}

/* The weights of the chosen experts are divided by their sum, or not, against what is right. */
static bool other_weights(lk_graph *graph) {
    bool found = false;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i].kind == LK_NODE_MOE) {
            graph->nodes[i].p.moe.normalise = !graph->nodes[i].p.moe.normalise;
            found = true;
        }
    }
    return found;
}

/* The biases become zero. */
static bool no_biases(lk_graph *graph) {
    static const float zeros[64];
    static lk_weight none[16];
    uint32_t n = 0;
    for (uint32_t i = 0; i < graph->n_nodes && n < 16; i++) {
        lk_node *node = &graph->nodes[i];
        if (node->kind == LK_NODE_BIAS) {
            none[n] = *node->w;
            none[n].data = (const uint8_t *)(const void *)zeros;
            node->w = &none[n++];
        }
    }
    return n != 0;
}

/* Takes a row-wise node of one input out of the computation. */
static void bypass(lk_node *node) {
    node->kind = LK_NODE_SCALE;
    node->p.factor = 1.0f;
}

/* Bypasses the nodes of a kind inside the layers, or outside them; false where there is none. */
static bool bypass_all(lk_graph *graph, lk_node_kind kind, bool in_layers) {
    bool found = false;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        lk_node *node = &graph->nodes[i];
        if (node->kind == kind && (node->layer >= 0) == in_layers) {
            bypass(node);
            found = true;
        }
    }
    return found;
}

static bool no_residual_scale(lk_graph *graph) {
    return bypass_all(graph, LK_NODE_SCALE, true);
}

/* The first and the last node of a kind outside the layers. */
static bool bypass_outside(lk_graph *graph, lk_node_kind kind, bool first) {
    lk_node *found = NULL;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        lk_node *node = &graph->nodes[i];
        if (node->kind == kind && node->layer < 0 && (found == NULL || !first)) {
            found = node;
        }
    }
    if (found != NULL) {
        bypass(found);
    }
    return found != NULL;
}

static bool no_embedding_scale(lk_graph *graph) {
    return bypass_outside(graph, LK_NODE_SCALE, true);
}

static bool no_logit_scale(lk_graph *graph) {
    return bypass_outside(graph, LK_NODE_SCALE, false);
}

static bool no_final_cap(lk_graph *graph) {
    return bypass_all(graph, LK_NODE_SOFTCAP, false);
}

static bool no_temperature(lk_graph *graph) {
    return bypass_all(graph, LK_NODE_TEMPERATURE, true);
}

static bool no_row_gate(lk_graph *graph) {
    return bypass_all(graph, LK_NODE_ROW_GATE, true);
}

static bool no_head_norms(lk_graph *graph) {
    bool found = false;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        lk_node *node = &graph->nodes[i];
        if (node->kind == LK_NODE_RMS_NORM && (strstr(node->w->name, "attn_q_norm") != NULL ||
                                               strstr(node->w->name, "attn_k_norm") != NULL)) {
            bypass(node);
            found = true;
        }
    }
    return found;
}

static bool no_norms_after(lk_graph *graph) {
    bool found = false;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        lk_node *node = &graph->nodes[i];
        if (node->kind == LK_NODE_RMS_NORM && strstr(node->w->name, ".post_") != NULL) {
            bypass(node);
            found = true;
        }
    }
    return found;
}

/* The first half of a fused matrix is taken for up, the second for gate. */
static bool up_first(lk_graph *graph) {
    bool found = false;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        lk_node *node = &graph->nodes[i];
        if (node->kind == LK_NODE_SILU_MUL) {
            const lk_value gate = node->in[0];
            node->in[0] = node->in[1];
            node->in[1] = gate;
            found = true;
        }
    }
    return found;
}

static bool silu_for_other(lk_graph *graph) {
    bool found = false;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        lk_node *node = &graph->nodes[i];
        if (node->kind == LK_NODE_GELU_MUL) {
            node->kind = LK_NODE_SILU_MUL;
            found = true;
        } else if (node->kind == LK_NODE_MOE && node->p.moe.activation != LK_NODE_SILU_MUL) {
            node->p.moe.activation = LK_NODE_SILU_MUL;
            found = true;
        }
    }
    return found;
}

static bool all_of_the_head(lk_graph *graph) {
    const lk_rope_params params = graph->ropes[0].params;
    graph->ropes[0].n_rot = 16;
    return recompute_rope(graph, &params);
}

static bool yarn_magnitude(lk_graph *graph) {
    graph->ropes[0].magnitude = 1.0 + 0.1 * log(graph->ropes[0].params.factor);
    return true;
}

static bool one_base(lk_graph *graph) {
    graph->ropes[1] = graph->ropes[0];
    return graph->n_ropes == 2;
}

/* The attention of layer i, or NULL. */
static lk_attention *attention_of(lk_graph *graph, uint32_t i_layer) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i].kind == LK_NODE_ATTENTION &&
            graph->nodes[i].layer == (int32_t)i_layer) {
            return &graph->nodes[i].p.attn;
        }
    }
    return NULL;
}

typedef enum window_change { WINDOW_WIDER, WINDOW_NONE, WINDOW_OTHER } window_change;

/* Kept in step: what the attention sees and what is kept of its keys. */
static bool change_windows(lk_graph *graph, window_change change) {
    bool found = false;
    for (uint32_t i = 0; i < graph->n_kv_layers; i++) {
        lk_attention *a = attention_of(graph, i);
        const bool slides = a->window != 0;
        found = found || slides;
        if (change == WINDOW_OTHER) {
            a->window = slides ? 0 : 32;
        } else if (slides) {
            a->window = change == WINDOW_NONE ? 0 : a->window + 1;
        }
        graph->kv_layers[i].window = a->window;
    }
    return found;
}

static bool window_wider(lk_graph *graph) {
    return change_windows(graph, WINDOW_WIDER);
}

static bool no_window(lk_graph *graph) {
    return change_windows(graph, WINDOW_NONE);
}

static bool window_in_others(lk_graph *graph) {
    return change_windows(graph, WINDOW_OTHER);
}

static bool no_score_cap(lk_graph *graph) {
    bool found = false;
    for (uint32_t i = 0; i < graph->n_kv_layers; i++) {
        found = found || attention_of(graph, i)->soft_cap != 0.0f;
        attention_of(graph, i)->soft_cap = 0.0f;
    }
    return found;
}

static bool no_sinks(lk_graph *graph) {
    bool found = false;
    for (uint32_t i = 0; i < graph->n_kv_layers; i++) {
        found = found || attention_of(graph, i)->sinks != NULL;
        attention_of(graph, i)->sinks = NULL;
    }
    return found;
}

static bool usual_score_scale(lk_graph *graph) {
    for (uint32_t i = 0; i < graph->n_kv_layers; i++) {
        attention_of(graph, i)->scale =
            (float)(1.0 / sqrt((double)attention_of(graph, i)->head_dim));
    }
    return true;
}

/* The biases of matrices whose names begin so after the layer. */
static bool no_biases_of(lk_graph *graph, const char *const *names) {
    bool found = false;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        lk_node *node = &graph->nodes[i];
        for (size_t k = 0; node->kind == LK_NODE_BIAS && names[k] != NULL; k++) {
            if (strstr(node->w->name, names[k]) != NULL) {
                bypass(node);
                found = true;
            }
        }
    }
    return found;
}

static bool no_qkv_biases(lk_graph *graph) {
    static const char *const names[] = {"attn_q.", "attn_k.", "attn_v.", NULL};
    return no_biases_of(graph, names);
}

static bool no_output_bias(lk_graph *graph) {
    static const char *const names[] = {"attn_output.", NULL};
    return no_biases_of(graph, names);
}

/* A mistake, and how far it moves the last sequence's rows according to the reference. */
typedef struct mistake {
    const char *model;
    const char *what;
    spoil_fn *spoil;
    double change;
} mistake;

static const mistake mistakes[] = {
    {"llama", "other rotary pairing", other_pairing, 1.2},
    {"llama", "rotary base doubled", double_base, 0.98},
    {"llama-yarn", "no rotary scaling", no_scaling, 0.93},
    {"llama-yarn", "linear scaling instead of YaRN", linear_for_yarn, 0.86},
    {"llama-yarn", "YaRN without the magnitude", no_magnitude, 0.36},
    {"llama-rope-freqs", "rope_freqs ignored", no_factors, 1.2},
    {"qwen2", "other rotary pairing", other_pairing, 0.98},
    {"qwen2", "biases ignored", no_biases, 1.2},
    {"qwen3moe", "expert weights not renormalised", other_weights, 0.31},
    {"qwen2moe", "expert weights renormalised", other_weights, 0.587},
    {"qwen2moe", "gate of the shared expert ignored", no_row_gate, 0.829},
    {"qwen2moe", "biases ignored", no_biases, 1.36},
    {"qwen2vl", "other rotary pairing", other_pairing, 1.19},
    {"qwen2vl", "biases ignored", no_biases, 1.38},
    {"granite", "rotary base doubled", double_base, 0.059},
    {"granite", "attention scale ignored", usual_score_scale, 0.43},
    {"granite", "residual scale ignored", no_residual_scale, 1.1},
    {"granite", "embedding scale ignored", no_embedding_scale, 1.3},
    {"granite", "logit scale ignored", no_logit_scale, 7.0},
    {"smollm3", "other rotary pairing", other_pairing, 1.4},
    {"smollm3", "rotary base doubled", double_base, 0.95},
    {"olmo2", "other rotary pairing", other_pairing, 0.93},
    {"olmo2", "query and key norms ignored", no_head_norms, 0.83},
    {"phi3", "other rotary pairing", other_pairing, 0.75},
    {"phi3", "all of the head rotated", all_of_the_head, 0.64},
    {"glm4", "other rotary pairing", other_pairing, 0.758},
    {"glm4", "all of the head rotated", all_of_the_head, 0.936},
    {"glm4", "biases ignored", no_biases, 1.22},
    {"glm4", "norms after the blocks ignored", no_norms_after, 1.04},
    {"glm4", "up before gate", up_first, 1.08},
    {"mistral3", "other rotary pairing", other_pairing, 0.83},
    {"mistral3", "no rotary scaling", no_scaling, 0.84},
    {"mistral3", "linear scaling instead of YaRN", linear_for_yarn, 0.41},
    {"mistral3", "YaRN magnitude although it is cancelled", yarn_magnitude, 0.4},
    {"mistral3", "no temperature scale", no_temperature, 0.13},
    {"gemma2", "other rotary pairing", other_pairing, 1.1},
    {"gemma2", "window one wider", window_wider, 0.12},
    {"gemma2", "no window", no_window, 0.77},
    {"gemma2", "window in the other layers", window_in_others, 0.9},
    {"gemma2", "no attention soft cap", no_score_cap, 0.18},
    {"gemma2", "no final soft cap", no_final_cap, 0.27},
    {"gemma2", "embedding not multiplied by sqrt(d)", no_embedding_scale, 1.0},
    {"gemma2", "SiLU instead of GELU", silu_for_other, 0.15},
    {"gemma3", "query and key norms ignored", no_head_norms, 0.74},
    {"gemma3", "window one wider", window_wider, 0.27},
    {"gemma3", "no window", no_window, 0.85},
    {"gemma3", "window in the other layers", window_in_others, 0.85},
    {"gemma3", "one rotary base for all layers", one_base, 0.75},
    {"gemma3", "embedding not multiplied by sqrt(d)", no_embedding_scale, 0.95},
    {"gemma3", "SiLU instead of GELU", silu_for_other, 0.2},
    {"gpt-oss", "other rotary pairing", other_pairing, 1.1},
    {"gpt-oss", "no rotary scaling", no_scaling, 0.79},
    {"gpt-oss", "YaRN without the magnitude", no_magnitude, 0.28},
    {"gpt-oss", "query, key, value biases ignored", no_qkv_biases, 0.6},
    {"gpt-oss", "output bias ignored", no_output_bias, 0.48},
    {"gpt-oss", "window one wider", window_wider, 0.093},
    {"gpt-oss", "no window", no_window, 0.79},
    {"gpt-oss", "window in the other layers", window_in_others, 0.93},
    {"gpt-oss", "sinks ignored", no_sinks, 0.41},
    {"gpt-oss", "plain SiLU gate", silu_for_other, 0.68},
};

LK_TEST(mistakes_are_seen) {
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        const mistake *m = &mistakes[i];
        const reference *ref = references;
        while (strcmp(ref->name, m->model) != 0) {
            ref++;
        }
        lk_error err;
        lk_model *model = NULL;
        REQUIRE_OK(lk_model_open(find_file(m->model, ".gguf"), NULL, &model, &err), err);
        CHECK(m->spoil((lk_graph *)(uintptr_t)lk_model_graph(model)));
        const double found = compare(model, ref, find_file(m->model, ".logits.f32"), false).last;
        CHECK_MSG(found > 0.9 * m->change && found < 1.1 * m->change,
                  "%s, %s: relative error %g, expected %g", m->model, m->what, found, m->change);
        lk_model_close(model);
    }
}

LK_TEST_MAIN(LK_RUN(architectures), LK_RUN(mistakes_are_seen))
