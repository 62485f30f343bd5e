/* test_cpu_backend.c - the CPU backend's promises below the engine: a row's logits are the same
 * bits however steps are cut and mixed, on any number of threads and any instruction set, wherever
 * its pages lie and whatever lay in them; non-finite values are reported with layer and operator on
 * the rows that they reach and on no others; a step allocates nothing. labels: threads */
#include <math.h>

#include "backend/cpu/kernels.h"
#include "base/bytes.h"
#include "base/fpenv.h"
#include "step_driver.h"

enum { MAX_TOKENS = 96 };

static int32_t tokens_a[MAX_TOKENS];
static int32_t tokens_b[MAX_TOKENS];
static int32_t tokens_c[MAX_TOKENS];

static void make_tokens(int32_t *tokens, uint64_t seed, uint32_t n_vocab) {
    for (int i = 0; i < MAX_TOKENS; i++) {
        tokens[i] = (int32_t)(lk_test_random(&seed) % n_vocab);
    }
}

static lk_model *open_model(const char *name) {
    lk_error err;
    lk_model *model = NULL;
    REQUIRE_OK(lk_model_open(lk_test_data(name), NULL, &model, &err), err);
    const uint32_t n_vocab = lk_model_graph(model)->n_vocab;
    make_tokens(tokens_a, 1, n_vocab);
    make_tokens(tokens_b, 2, n_vocab);
    make_tokens(tokens_c, 3, n_vocab);
    return model;
}

/* The tests change graphs and weights of a model that nobody else uses. */
static lk_graph *graph_of(lk_model *model) {
    return (lk_graph *)(uintptr_t)lk_model_graph(model);
}

static float *make_logits(const lk_model *model, uint32_t n_rows) {
    float *logits = calloc((size_t)n_rows * lk_model_graph(model)->n_vocab, sizeof *logits);
    if (logits == NULL) {
        exit(1);
    }
    return logits;
}

/* Logits of the first n tokens alone: scalar, one thread, one row a step. */
static float *run_alone(lk_model *model, const lk_backend_params *base, const int32_t *tokens,
                        uint32_t n) {
    lk_backend_params params = *base;
    params.n_threads = 1;
    params.isa_mask = 0;
    lk_driver d;
    lk_driver_init(&d, model, &params);
    float *logits = make_logits(model, n);
    lk_driver_seq seq = lk_driver_seq_make(tokens, n, logits, 0, 1);
    lk_driver_run(&d, &seq, 1);
    CHECK(seq.n_bad == 0);
    lk_driver_deinit(&d);
    return logits;
}

static bool same(const lk_model *model, const float *a, const float *b, uint32_t n_rows) {
    return memcmp(a, b, (size_t)n_rows * lk_model_graph(model)->n_vocab * sizeof *a) == 0;
}

/* Everything that must not matter, for one model and pair of KV formats. */
typedef struct variant {
    uint32_t n_threads;
    uint32_t isa_mask;
    uint32_t cut;
    uint32_t first_page;
    uint32_t stride;
} variant;
static const variant variants[] = {
    {1, LK_ISA_ALL, 64, 0, 1},   {2, LK_ISA_AVX2, 7, 9, 5},  {3, LK_ISA_ALL, 3, 63, 63},
    {2, 0, 512, 1, 3},           {5, LK_ISA_ALL, 17, 2, 31}, {2, LK_ISA_ALL, 2, 4, 9},
    {1, LK_ISA_AVX2, 512, 8, 1},
};

static void check_variants(lk_model *model, const char *name, const lk_backend_params *base,
                           uint32_t n) {
    float *expected = run_alone(model, base, tokens_a, n);
    float *logits = make_logits(model, n);
    const size_t step = (size_t)lk_test_size(3, 1, 1);
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i += step) {
        const variant *v = &variants[i];
        lk_backend_params params = *base;
        params.n_threads = v->n_threads;
        params.isa_mask = v->isa_mask;
        lk_driver d;
        lk_driver_init(&d, model, &params);
        lk_error err;
        const uint32_t n_pages = params.n_pages + params.n_window_pages;
        for (uint32_t p = 0; p < n_pages; p++) { /* NaN in every position */
            REQUIRE_OK(d.ops->page_fill(d.backend, p, 0xff, &err), err);
        }
        lk_driver_seq seq = lk_driver_seq_make(tokens_a, n, logits, v->first_page, v->stride);
        lk_driver_run(&d, &seq, v->cut);
        CHECK(seq.n_bad == 0);
        CHECK_MSG(same(model, logits, expected, n), "%s, kv %d %d: variant %zu differs", name,
                  (int)base->k_format, (int)base->v_format, i);
        lk_driver_deinit(&d);
    }
    free(logits);
    free(expected);
}

LK_TEST(cuts_threads_and_instruction_sets) {
    static const char *const names[] = {"models/tiny-q4_k_m.gguf", "archs/qwen3moe.gguf",
                                        "archs/llama.gguf",        "archs/gemma2.gguf",
                                        "archs/gemma3.gguf",       "archs/gpt-oss.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        lk_model *model = open_model(names[i]);
        const lk_backend_params params = lk_driver_params();
        check_variants(model, names[i], &params,
                       (uint32_t)(i == 0 ? lk_test_size(4, 20, 60) : lk_test_size(20, 80, 90)));
        lk_model_close(model);
    }
}

LK_TEST(kv_formats) {
    lk_model *model = open_model("archs/llama.gguf");
    for (int k = LK_KV_FORMAT_F32; k <= LK_KV_FORMAT_Q8_0; k++) {
        for (int v = LK_KV_FORMAT_F32; v <= LK_KV_FORMAT_Q8_0; v++) {
            lk_backend_params params = lk_driver_params();
            params.k_format = (lk_kv_format)k;
            params.v_format = (lk_kv_format)v;
            check_variants(model, "llama", &params, (uint32_t)lk_test_size(20, 80, 90));
        }
    }
    lk_model_close(model);
}

/* Weights of the products in another format: copies that the graph's nodes point to. */
typedef struct other_weights {
    lk_weight w[64];
    uint32_t n;
} other_weights;

static const lk_weight *convert(other_weights *o, const lk_weight *w, const lk_format *format) {
    const size_t n_rows = (size_t)(w->ne[1] * w->ne[2]);
    const size_t n = (size_t)w->ne[0];
    if (format->encode == NULL || n % format->block_elems != 0 ||
        (format->act_group != 0 && n % format->act_group != 0) || o->n == 64) {
        return w;
    }
    lk_weight *to = &o->w[o->n++];
    *to = *w;
    to->format = format;
    to->row_bytes = n / format->block_elems * format->block_bytes;
    uint8_t *data = malloc(n_rows * to->row_bytes);
    if (data == NULL) {
        exit(1);
    }
    for (size_t r = 0; r < n_rows; r++) {
        format->encode((const float *)(const void *)(w->data + r * w->row_bytes),
                       data + r * to->row_bytes, n);
    }
    to->data = data;
    return to;
}

static void convert_graph(lk_graph *graph, other_weights *o, const lk_format *format) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        lk_node *node = &graph->nodes[i];
        if (node->kind == LK_NODE_MATMUL) {
            node->w = convert(o, node->w, format);
        } else if (node->kind == LK_NODE_MOE) {
            node->p.moe.gate = convert(o, node->p.moe.gate, format);
            node->p.moe.up = convert(o, node->p.moe.up, format);
            node->p.moe.down = convert(o, node->p.moe.down, format);
        }
    }
}

static void free_weights(other_weights *o) {
    for (uint32_t i = 0; i < o->n; i++) {
        free((void *)(uintptr_t)o->w[i].data);
    }
}

/* The real rules against float32 activations over the same weights: the worst row. (Not for
 * experts: a rounding can choose another expert.) */
static double rounding_error(lk_model *model, uint32_t n) {
    lk_backend_params params = lk_driver_params();
    float *rules = run_alone(model, &params, tokens_a, n);
    params.f32_activations = true;
    float *exact = run_alone(model, &params, tokens_a, n);
    const uint32_t n_vocab = lk_model_graph(model)->n_vocab;
    double worst = 0.0;
    for (uint32_t r = 0; r < n; r++) {
        double difference = 0.0;
        double norm = 0.0;
        for (uint32_t i = 0; i < n_vocab; i++) {
            const double e = (double)exact[r * n_vocab + i];
            const double delta = (double)rules[r * n_vocab + i] - e;
            difference += delta * delta;
            norm += e * e;
        }
        const double error = sqrt(difference / norm);
        worst = error > worst ? error : worst;
    }
    free(exact);
    free(rules);
    return worst;
}

LK_TEST(weight_formats) {
    static const char *const names[] = {"archs/qwen2.gguf", "archs/phi3.gguf",
                                        "archs/qwen3moe.gguf", "archs/gpt-oss.gguf"};
    for (size_t m = 0; m < sizeof names / sizeof names[0]; m++) {
        for (size_t i = 0; i < lk_format_count(); i++) {
            const lk_format *format = lk_format_at(i);
            other_weights other = {.n = 0};
            lk_model *model = open_model(names[m]);
            convert_graph(graph_of(model), &other, format);
            if (other.n != 0) {
                const lk_backend_params params = lk_driver_params();
                check_variants(model, format->name, &params, (uint32_t)lk_test_size(5, 20, 40));
                const double bound = format->type == LK_FORMAT_F32 ? 1e-6
                                     : format->act_group == 0      ? 1e-3
                                                                   : 0.1;
                const double error = m < 2 ? rounding_error(model, 12) : 0.0;
                CHECK_MSG(error <= bound, "%s %s: %g", names[m], format->name, error);
            }
            lk_model_close(model);
            free_weights(&other);
        }
    }
}

/* Three sequences join, pause and share steps; each must give what it gives alone. */
static void check_mixing(const char *name, uint32_t n, uint64_t seed) {
    lk_model *model = open_model(name);
    lk_backend_params params = lk_driver_params();
    params.n_threads = 2;
    const int32_t *tokens[3] = {tokens_a, tokens_b, tokens_c};
    float *expected[3];
    float *logits[3];
    lk_driver_seq seqs[3];
    lk_driver_seq *order[3];
    for (uint32_t i = 0; i < 3; i++) {
        expected[i] = run_alone(model, &params, tokens[i], n);
        logits[i] = make_logits(model, n);
        seqs[i] = lk_driver_seq_make(tokens[i], n, logits[i], i, 3);
    }
    lk_driver d;
    lk_driver_init(&d, model, &params);
    while (seqs[0].n_done < n || seqs[1].n_done < n || seqs[2].n_done < n) {
        uint32_t n_rows[3];
        const uint32_t turn = (uint32_t)(lk_test_random(&seed) % 3);
        for (uint32_t i = 0; i < 3; i++) {
            order[i] = &seqs[(i + turn) % 3];
            const uint32_t left = n - order[i]->n_done;
            const uint64_t draw = lk_test_random(&seed);
            const uint32_t wanted = draw % 4 == 0 ? 0 : draw % 4 == 1 ? 20 : 1;
            n_rows[i] = left < wanted ? left : wanted;
        }
        if (n_rows[0] + n_rows[1] + n_rows[2] != 0) {
            lk_driver_step(&d, order, n_rows, 3);
        }
    }
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_MSG(same(model, logits[i], expected[i], n), "%s: sequence %u differs", name, i);
        free(logits[i]);
        free(expected[i]);
    }
    lk_backend_stats stats;
    d.ops->get_stats(d.backend, &stats);
    CHECK(stats.mixed_calls[1] + stats.mixed_calls[2] > 0);
    CHECK(n < 20 || stats.mixed_calls[5] > 0);
    CHECK(stats.kernel_rows[0] > 0 && stats.mixed_calls[0] == 0);
    lk_driver_deinit(&d);
    lk_model_close(model);
}

LK_TEST(mixing) {
    const uint64_t seed = lk_test_seed(7);
    const uint32_t n = (uint32_t)lk_test_size(18, MAX_TOKENS, MAX_TOKENS);
    check_mixing("models/tiny-q4_k_m.gguf", n / 6, seed);
    check_mixing("archs/qwen3moe.gguf", n, seed);
    check_mixing("archs/qwen2.gguf", n, seed);
}

LK_TEST(counters) {
    lk_model *model = open_model("archs/llama.gguf");
    const lk_backend_params params = lk_driver_params();
    lk_driver d;
    lk_driver_init(&d, model, &params);
    float *logits = make_logits(model, 64);
    static const uint32_t cuts[] = {1, 2, 3, 4, 5, 16, 17};
    static const uint32_t classes[] = {0, 1, 2, 3, 4, 4, 5};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        lk_backend_stats before;
        lk_backend_stats after;
        lk_driver_seq seq = lk_driver_seq_make(tokens_a, cuts[i], logits, 0, 1);
        d.ops->get_stats(d.backend, &before);
        lk_driver_run(&d, &seq, cuts[i]);
        d.ops->get_stats(d.backend, &after);
        for (uint32_t k = 0; k < 6; k++) {
            CHECK((after.kernel_rows[k] > before.kernel_rows[k]) == (k == classes[i]));
            CHECK(after.mixed_calls[k] == 0);
        }
    }
    lk_driver_seq a = lk_driver_seq_make(tokens_a, 1, logits, 0, 1);
    lk_driver_seq b = lk_driver_seq_make(tokens_b, 1, logits, 1, 1);
    lk_driver_seq *both[2] = {&a, &b};
    const uint32_t ones[2] = {1, 1};
    lk_driver_step(&d, both, ones, 2);
    lk_backend_stats stats;
    d.ops->get_stats(d.backend, &stats);
    CHECK(stats.mixed_calls[1] > 0 && stats.n_threads == 1);
    free(logits);
    lk_driver_deinit(&d);
    lk_model_close(model);
}

/* A page written by one sequence and used by another through a copy, and through the exchanged
 * form; what lies behind the positions read must not come out. */
LK_TEST(pages) {
    lk_model *model = open_model("archs/qwen2.gguf");
    for (int format = LK_KV_FORMAT_F32; format <= LK_KV_FORMAT_Q8_0; format++) {
        lk_backend_params params = lk_driver_params();
        params.k_format = (lk_kv_format)format;
        params.v_format = (lk_kv_format)((format + 1) % 3);
        float *expected = run_alone(model, &params, tokens_a, 40);
        float *logits = make_logits(model, 40);
        lk_driver d;
        lk_driver_init(&d, model, &params);
        lk_error err;
        const size_t size = d.ops->page_bytes(d.backend);
        uint8_t *bytes = malloc(size);
        uint8_t *again = malloc(size);
        if (bytes == NULL || again == NULL) {
            exit(1);
        }
        for (uint32_t p = 0; p < params.n_pages; p++) {
            REQUIRE_OK(d.ops->page_fill(d.backend, p, 0xff, &err), err);
        }
        lk_driver_seq seq = lk_driver_seq_make(tokens_a, 20, logits, 3, 1);
        lk_driver_run(&d, &seq, 20);
        REQUIRE_OK(d.ops->page_copy(d.backend, 7, 3, &err), err);
        REQUIRE_OK(d.ops->page_read(d.backend, 7, 20, bytes, &err), err);
        REQUIRE_OK(d.ops->page_write(d.backend, 9, bytes, &err), err);
        REQUIRE_OK(d.ops->page_read(d.backend, 9, 64, again, &err), err);
        CHECK(memcmp(bytes, again, size) == 0);
        REQUIRE_OK(d.ops->page_read(d.backend, 9, 0, again, &err), err);
        for (size_t i = 0; i < size; i++) {
            CHECK(again[i] == 0);
        }
        seq = lk_driver_seq_make(tokens_a, 40, logits, 9, 1);
        seq.n_done = 20;
        lk_driver_run(&d, &seq, 7);
        CHECK(same(model, logits, expected, 40));
        CHECK_STATUS(LK_E_INTERNAL, d.ops->page_copy(d.backend, 64, 0, &err));
        CHECK_STATUS(LK_E_INTERNAL, d.ops->page_read(d.backend, 0, 65, bytes, &err));
        free(again);
        free(bytes);
        lk_driver_deinit(&d);
        free(logits);
        free(expected);
    }
    lk_model_close(model);
}

enum { N_WEIGHTS = 6 }; /* at most, of one node */

/* A weight of node i with a NaN (or infinity) in its middle; NULL where the node has none. */
static const lk_weight **weight_of(lk_node *node, int i_weight) {
    if (node->kind == LK_NODE_MOE) {
        const lk_weight **weights[N_WEIGHTS] = {&node->p.moe.gate,    &node->p.moe.up,
                                                &node->p.moe.down,    &node->p.moe.gate_bias,
                                                &node->p.moe.up_bias, &node->p.moe.down_bias};
        return *weights[i_weight] != NULL ? weights[i_weight] : NULL;
    }
    if (node->kind == LK_NODE_ATTENTION) {
        return i_weight == 0 && node->p.attn.sinks != NULL ? &node->p.attn.sinks : NULL;
    }
    return i_weight == 0 && node->w != NULL ? &node->w : NULL;
}

static lk_weight poison(const lk_weight *w, float value, uint8_t **data) {
    const size_t size = w->row_bytes * (size_t)(w->ne[1] * w->ne[2]);
    lk_weight bad = *w;
    *data = malloc(size);
    if (*data == NULL) {
        exit(1);
    }
    memcpy(*data, w->data, size);
    /* in every expert; biases of experts are rows */
    const size_t n = (size_t)(strstr(w->name, "_exps.bias") != NULL ? w->ne[1] : w->ne[2]);
    for (size_t i = 0; i < n; i++) {
        memcpy(*data + i * (size / n) + w->row_bytes / 2 / sizeof value * sizeof value, &value,
               sizeof value);
    }
    bad.data = *data;
    return bad;
}

static void check_poisoned(lk_model *model, const char *name, uint32_t i_node, int i_weight,
                           float value) {
    lk_graph *graph = graph_of(model);
    lk_node *node = &graph->nodes[i_node];
    const lk_weight **place = weight_of(node, i_weight);
    if (place == NULL || node->kind == LK_NODE_EMBED ||
        (node->kind == LK_NODE_ATTENTION && value < 0.0f)) { /* a sink of -inf takes no share */
        return;
    }
    const lk_weight *good = *place;
    uint8_t *data = NULL;
    const lk_weight bad = poison(good, value, &data);
    *place = &bad;
    lk_backend_params params = lk_driver_params();
    params.n_threads = 2;
    lk_driver d;
    lk_driver_init(&d, model, &params);
    for (uint32_t n = 1; n <= 9; n += 8) {
        float *logits = make_logits(model, n);
        lk_driver_seq seq = lk_driver_seq_make(tokens_a, n, logits, 0, 1);
        lk_driver_run(&d, &seq, n);
        CHECK_MSG(seq.n_bad == n && seq.bad_layer == node->layer && seq.bad_op == node->kind,
                  "%s: %u of %u rows bad, in layer %d, %s; expected layer %d, %s (%s)", name,
                  seq.n_bad, n, seq.bad_layer, lk_node_name(seq.bad_op), node->layer,
                  lk_node_name(node->kind), good->name);
        free(logits);
    }
    lk_driver_deinit(&d);
    *place = good;
    free(data);
}

LK_TEST(poisoned_weights_are_named) {
    static const char *const names[] = {"archs/llama.gguf",    "archs/qwen2.gguf",
                                        "archs/qwen3moe.gguf", "archs/gpt-oss.gguf",
                                        "archs/gemma2.gguf",   "archs/qwen2moe.gguf"};
    const size_t step = (size_t)lk_test_size(2, 1, 1);
    for (size_t m = 0; m < sizeof names / sizeof names[0]; m += step) {
        lk_model *model = open_model(names[m]);
        for (uint32_t i = 0; i < lk_model_graph(model)->n_nodes; i++) {
            for (int k = 0; k < N_WEIGHTS; k++) {
                check_poisoned(model, names[m], i, k, NAN);
                check_poisoned(model, names[m], i, k, -INFINITY);
            }
        }
        lk_model_close(model);
    }
}

/* A NaN in one token's embedding: reaches the rows of that sequence from there on; also where no
 * row wants logits. The other sequence of the steps is untouched, and so is a later one on the same
 * pages. */
LK_TEST(poison_stays_in_its_sequence) {
    lk_model *model = open_model("archs/llama-yarn.gguf");
    lk_backend_params params = lk_driver_params();
    float *expected = run_alone(model, &params, tokens_b, 40);
    float *expected_a = run_alone(model, &params, tokens_a, 40);
    tokens_a[10] = 127;
    for (int i = 0; i < MAX_TOKENS; i++) {
        tokens_b[i] = tokens_b[i] == 127 ? 126 : tokens_b[i];
        tokens_a[i] = i != 10 && tokens_a[i] == 127 ? 126 : tokens_a[i];
    }
    free(expected);
    free(expected_a);
    expected = run_alone(model, &params, tokens_b, 40);
    lk_node *embed = &graph_of(model)->nodes[0];
    const lk_weight *good = embed->w;
    uint8_t *data = NULL;
    lk_weight bad = poison(good, 0.0f, &data);
    const float nan = NAN;
    memcpy(data, good->data, good->row_bytes * (size_t)good->ne[1]);
    memcpy(data + 127 * good->row_bytes + 8, &nan, sizeof nan);
    bad.data = data;
    embed->w = &bad;
    float *logits = make_logits(model, 40);
    lk_driver d;
    params.n_threads = 2;
    lk_driver_init(&d, model, &params);
    for (uint32_t cut = 1; cut <= 40; cut += 13) {
        lk_driver_seq a = lk_driver_seq_make(tokens_a, 40, NULL, 0, 2);
        lk_driver_seq b = lk_driver_seq_make(tokens_b, 40, logits, 1, 2);
        lk_driver_seq *both[2] = {&a, &b};
        while (b.n_done < 40) {
            const uint32_t left = 40 - b.n_done;
            const uint32_t n = left < cut ? left : cut;
            const uint32_t n_rows[2] = {n, n};
            lk_driver_step(&d, both, n_rows, 2);
        }
        CHECK(a.n_bad == 30 && a.bad_op == LK_NODE_EMBED && a.bad_layer == -1);
        CHECK(b.n_bad == 0 && same(model, logits, expected, 40));
    }
    lk_driver_seq later = lk_driver_seq_make(tokens_b, 40, logits, 0, 2);
    lk_driver_run(&d, &later, 40);
    CHECK(later.n_bad == 0 && same(model, logits, expected, 40));
    lk_driver_deinit(&d);
    embed->w = good;
    free(data);
    free(logits);
    free(expected);
    lk_model_close(model);
}

LK_TEST(allocation) {
    lk_model *model = open_model("archs/gpt-oss.gguf");
    lk_test_allocator a;
    for (uint64_t n = 1;; n++) {
        lk_test_allocator_init(&a);
        a.fail_at = n;
        lk_backend_params params = lk_driver_params();
        params.allocator = &a.base;
        params.n_threads = 2;
        lk_backend *backend = NULL;
        lk_error err;
        const lk_status status =
            lk_backend_cpu.create(lk_model_graph(model), &params, &backend, &err);
        CHECK((status == LK_OK) == (a.n_failed == 0) && (status == LK_OK) == (backend != NULL));
        lk_backend_cpu.destroy(backend);
        CHECK(a.n_live == 0 && a.live_bytes == 0);
        if (status == LK_OK) {
            CHECK(n > 4);
            break;
        }
    }
    lk_test_allocator_init(&a);
    lk_backend_params params = lk_driver_params();
    params.allocator = &a.base;
    lk_driver d;
    lk_driver_init(&d, model, &params);
    const uint64_t n_calls = a.n_calls;
    float *logits = make_logits(model, 20);
    lk_driver_seq seq = lk_driver_seq_make(tokens_a, 20, logits, 0, 1);
    lk_driver_run(&d, &seq, 6);
    CHECK(a.n_calls == n_calls);
    free(logits);
    lk_driver_deinit(&d);
    lk_model_close(model);
}

/* What the engine promises is checked, since pages and positions become addresses. */
LK_TEST(inconsistent_steps) {
    lk_model *model = open_model("archs/llama.gguf");
    const lk_backend_params params = lk_driver_params();
    lk_driver d;
    lk_driver_init(&d, model, &params);
    float logits[128];
    uint32_t page = 0;
    for (int fault = 0; fault <= 8; fault++) {
        lk_step_row rows[2] = {{.token = 1, .pos = 0, .i_out = -1},
                               {.token = 1, .pos = 1, .i_out = 0}};
        lk_step_run run = {.first = 0, .n = 2, .pages = &page};
        lk_step step = {
            .rows = rows, .n_rows = 2, .runs = &run, .n_runs = 1, .n_out = 1, .logits = logits};
        page = fault == 1 ? 64 : 0;
        rows[1].token = fault == 2 ? 128 : fault == 3 ? -1 : 1;
        rows[1].pos = fault == 4 ? 2 : 1;
        run.n = fault == 5 ? 1 : 2;
        step.n_out = fault == 6 ? 0 : 1;
        rows[0].pos = fault == 7 ? -1 : 0;
        rows[1].i_run = fault == 8 ? 1 : 0;
        lk_error err;
        const lk_status status = d.ops->step(d.backend, &step, &err);
        CHECK_MSG((status == LK_OK) == (fault == 0), "fault %d: %s", fault, lk_status_name(status));
    }
    lk_driver_deinit(&d);
    lk_model_close(model);
}

/* Likewise the pages of layers with windows, from the first one that a query reaches on. */
LK_TEST(inconsistent_window_pages) {
    lk_model *model = open_model("archs/gemma3.gguf");
    const lk_backend_params params = lk_driver_params();
    lk_driver d;
    lk_driver_init(&d, model, &params);
    for (uint32_t fault = 0; fault < 4; fault++) {
        lk_driver_seq seq = lk_driver_seq_make(tokens_a, 80, NULL, 0, 1);
        lk_driver_run(&d, &seq, 80);
        lk_step_row row = {.token = 1, .pos = 100, .i_out = -1};
        uint32_t window_pages[2] = {fault == 1 ? 9999 : seq.window_pages[0], seq.window_pages[1]};
        window_pages[1] = fault == 2 ? 128 : fault == 3 ? 0 : window_pages[1];
        row.pos = fault == 1 ? 100 : 70; /* a window of 32 at 100 begins in page 1 */
        const lk_step_run run = {
            .first = 0, .n = 1, .pages = seq.pages, .window_pages = window_pages};
        lk_step step = {.rows = &row, .n_rows = 1, .runs = &run, .n_runs = 1};
        lk_error err;
        const lk_status status = d.ops->step(d.backend, &step, &err);
        CHECK_MSG((status == LK_OK) == (fault < 2), "fault %u: %s", fault, lk_status_name(status));
    }
    lk_driver_deinit(&d);
    lk_model_close(model);
}

LK_TEST_MAIN(LK_RUN(cuts_threads_and_instruction_sets), LK_RUN(kv_formats), LK_RUN(weight_formats),
             LK_RUN(mixing), LK_RUN(counters), LK_RUN(pages), LK_RUN(poisoned_weights_are_named),
             LK_RUN(poison_stays_in_its_sequence), LK_RUN(allocation), LK_RUN(inconsistent_steps),
             LK_RUN(inconsistent_window_pages))
