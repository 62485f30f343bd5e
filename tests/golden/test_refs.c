/* test_refs.c - the graph and the definition against independent float32 and float64
 * implementations.
 *
 * Graph: in the float32-activation mode with f32 KV, every reference row within 1e-4 (F16
 * weights: 1.5e-3) and every greedy continuation equal (F16: up to the first step whose two best
 * logits lie within 0.02). Definition: the real rules against that mode within 1e-5 (f32 weights)
 * and 1e-3 (F16 weights); the small Q8_0 model within 0.04 of the F16 references. stories260K is in
 * the tree; the rest is read from the shared references where they are. */
#include <jansson.h>
#include <unistd.h>

#include "golden.h"
#include "lk/quantize.h"
#include "lk_test.h"

enum { MAX_IDS = 1024 };

static int32_t read_ids(const json_t *array, int32_t *out) {
    const size_t n = json_array_size(array);
    for (size_t i = 0; i < n && i < MAX_IDS; i++) {
        out[i] = (int32_t)json_integer_value(json_array_get(array, i));
    }
    return (int32_t)n;
}

static json_t *load_json(const char *path) {
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (root == NULL) {
        (void)fprintf(stderr, "%s: %s\n", path, error.text);
        exit(1);
    }
    return root;
}

/* Worst relative error over rows. */
static double worst_row(const float *a, const float *b, int32_t n_rows, int32_t n_vocab) {
    double worst = 0;
    for (int32_t i = 0; i < n_rows; i++) {
        const double e = golden_relative_error(a + (size_t)i * (size_t)n_vocab,
                                               b + (size_t)i * (size_t)n_vocab, (size_t)n_vocab);
        worst = e > worst ? e : worst;
    }
    return worst;
}

/* The context in the float32-activation mode (graph) and the one with the real rules. */
typedef struct pair {
    lk_model *model;
    lk_context *graph;
    lk_context *real;
    int32_t n_vocab;
} pair;

static pair open_pair(const char *path) {
    pair p = {.model = golden_open(path)};
    lk_model_info info = LK_MODEL_INFO_INIT;
    lk_error err;
    REQUIRE_OK(lk_model_get_info(p.model, &info, &err), err);
    p.n_vocab = info.n_vocab;
    golden_setup setup = {
        .n_threads = 2, .isa_mask = LK_CPU_ALL, .k_type = LK_KV_F32, .v_type = LK_KV_F32};
    p.real = golden_context(p.model, &setup, 1024);
    setup.flags = LK_CONTEXT_F32_ACTIVATIONS;
    p.graph = golden_context(p.model, &setup, 1024);
    return p;
}

static void close_pair(pair *p) {
    lk_context_destroy(p->graph);
    lk_context_destroy(p->real);
    lk_model_close(p->model);
}

/* Greedy ids against the expected ones, up to the first step whose expected gap is below min_gap.
 */
static void check_greedy(const char *what, const int32_t *found, const int32_t *expected,
                         const float *gaps, int32_t n, float min_gap) {
    for (int32_t i = 0; i < n; i++) {
        if (gaps[i] < min_gap) {
            return;
        }
        if (found[i] != expected[i]) {
            CHECK_MSG(0, "%s: greedy token %d is %d, expected %d (gap %g)", what, i, found[i],
                      expected[i], (double)gaps[i]);
            return;
        }
    }
}

LK_TEST(stories260k) {
    static int32_t ids[MAX_IDS];
    static int32_t found[MAX_IDS];
    static float gaps[MAX_IDS];
    int32_t wanted[64];
    pair p = open_pair(lk_test_data("llama2c/stories260K.f32.gguf"));
    json_t *expected = load_json(lk_test_data("llama2c/stories260K.expected.json"));
    const int32_t n = read_ids(json_object_get(expected, "greedy_ids"), ids);
    size_t size = 0;
    float *truth =
        (float *)(void *)lk_test_read(lk_test_data("llama2c/stories260K.logits.f32"), &size);
    CHECK(n == 257 && size == 64u * 512u * 4u);
    float *graph = malloc(size);
    float *real = malloc(size);
    for (int32_t i = 0; i < 64; i++) {
        wanted[i] = i;
    }
    golden_logits(p.graph, p.n_vocab, ids, 64, wanted, 64, graph);
    golden_logits(p.real, p.n_vocab, ids, 64, wanted, 64, real);
    const double graph_error = worst_row(graph, truth, 64, p.n_vocab);
    const double real_error = worst_row(real, graph, 64, p.n_vocab);
    (void)printf("stories260K: graph %.3g of the reference, real rules %.3g of the graph\n",
                 graph_error, real_error);
    CHECK(graph_error <= 1e-4);
    CHECK(real_error <= 1e-5);
    golden_greedy(p.real, p.n_vocab, ids, 1, n - 1, found, gaps);
    check_greedy("stories260K", found, ids + 1, gaps, n - 1, 0.0f);
    json_decref(expected);
    expected = load_json(lk_test_data("llama2c/prompts.expected.json"));
    for (size_t i = 0; i < json_array_size(expected); i++) {
        const json_t *item = json_array_get(expected, i);
        int32_t prompt[64];
        const int32_t n_prompt = read_ids(json_object_get(item, "prompt_ids"), prompt);
        const int32_t n_all = read_ids(json_object_get(item, "greedy_ids"), ids);
        golden_greedy(p.graph, p.n_vocab, prompt, n_prompt, n_all - n_prompt, found, gaps);
        check_greedy(json_string_value(json_object_get(item, "prompt")), found, ids + n_prompt,
                     gaps, n_all - n_prompt, 0.0f);
    }
    json_decref(expected);
    free(truth);
    free(graph);
    free(real);
    close_pair(&p);
}

typedef struct limits {
    double graph;      /* graph mode against the reference; 0: not checked */
    double real;       /* real rules against the graph mode; 0: not checked */
    double real_truth; /* real rules against the reference; 0: not checked */
    float greedy_gap;  /* greedy tokens equal up to a step with a gap below this; negative: not
                          checked */
} limits;

/* One prompt of models/refs/<name>/index.json. worst [3]: as in limits. */
static void check_prompt(const pair *p, const json_t *prompt, const char *folder,
                         const limits *limit, double worst[3]) {
    static int32_t ids[MAX_IDS];
    static int32_t expected[MAX_IDS];
    static int32_t found[MAX_IDS];
    static float gaps[MAX_IDS];
    int32_t wanted[16];
    const char *name = json_string_value(json_object_get(prompt, "name"));
    const int32_t n = read_ids(json_object_get(prompt, "ids"), ids);
    const int32_t n_wanted = read_ids(json_object_get(prompt, "logit_positions"), wanted);
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", folder,
                   json_string_value(json_object_get(prompt, "logits_file")));
    size_t size = 0;
    float *truth = (float *)(void *)lk_test_read(lk_test_shared(path), &size);
    CHECK(size == (size_t)n_wanted * (size_t)p->n_vocab * sizeof *truth);
    float *graph = malloc(size);
    float *real = malloc(size);
    golden_logits(p->real, p->n_vocab, ids, n, wanted, n_wanted, real);
    double error[3] = {0, 0, worst_row(real, truth, n_wanted, p->n_vocab)};
    if (limit->graph > 0 || limit->real > 0) {
        golden_logits(p->graph, p->n_vocab, ids, n, wanted, n_wanted, graph);
        error[0] = worst_row(graph, truth, n_wanted, p->n_vocab);
        error[1] = worst_row(real, graph, n_wanted, p->n_vocab);
    }
    CHECK_MSG(limit->graph <= 0 || error[0] <= limit->graph, "%s: graph %g", name, error[0]);
    CHECK_MSG(limit->real <= 0 || error[1] <= limit->real, "%s: real rules %g", name, error[1]);
    CHECK_MSG(limit->real_truth <= 0 || error[2] <= limit->real_truth,
              "%s: against the reference %g", name, error[2]);
    for (int i = 0; i < 3; i++) {
        worst[i] = error[i] > worst[i] ? error[i] : worst[i];
    }
    if (limit->greedy_gap >= 0) {
        const int32_t n_new = read_ids(json_object_get(prompt, "greedy"), expected);
        const json_t *list = json_object_get(prompt, "greedy_gaps");
        for (int32_t i = 0; i < n_new; i++) {
            gaps[i] = (float)json_number_value(json_array_get(list, (size_t)i));
        }
        golden_greedy(p->graph, p->n_vocab, ids, n, n_new, found, NULL);
        check_greedy(name, found, expected, gaps, n_new, limit->greedy_gap);
    }
    free(truth);
    free(graph);
    free(real);
}

static void check_model(const char *model_path, const char *folder, const limits *limit,
                        const char *what) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/index.json", folder);
    pair p = open_pair(model_path);
    json_t *index = load_json(lk_test_shared(path));
    const json_t *prompts = json_object_get(index, "prompts");
    double worst[3] = {0, 0, 0};
    CHECK(json_array_size(prompts) == 8);
    for (size_t i = 0; i < json_array_size(prompts); i++) {
        check_prompt(&p, json_array_get(prompts, i), folder, limit, worst);
    }
    (void)printf("%s: worst row: graph %.3g of the reference, real rules %.3g of the graph, %.3g "
                 "of the reference\n",
                 what, worst[0], worst[1], worst[2]);
    json_decref(index);
    close_pair(&p);
}

static int have_shared(void) {
    if (getenv("LK_SHORT") != NULL) {
        (void)printf("short form: stories260K alone is checked\n");
        return 0;
    }
    if (lk_test_shared("models/refs/tiny/index.json") != NULL) {
        return 1;
    }
    (void)printf("the shared references are absent: stories260K alone was checked\n");
    return 0;
}

LK_TEST(tiny_f32) {
    const limits limit = {1e-4, 1e-5, 0, 0.0f};
    if (have_shared()) {
        check_model(lk_test_shared("models/tiny-f32.gguf"), "models/refs/tiny", &limit, "tiny F32");
    }
}

LK_TEST(tiny_f16) {
    const limits limit = {1.5e-3, 1e-3, 0, 0.02f};
    char path[64];
    lk_error err;
    if (!have_shared()) {
        return;
    }
    (void)snprintf(path, sizeof path, "tiny-f16-%d.tmp", (int)getpid());
    lk_quantize_params params = LK_QUANTIZE_PARAMS_INIT;
    params.type = LK_QUANTIZE_F16;
    REQUIRE_OK(lk_quantize(lk_test_shared("models/tiny-f32.gguf"), path, &params, &err), err);
    check_model(path, "models/refs/tiny", &limit, "tiny F16");
    (void)unlink(path);
}

LK_TEST(small_q8_0) {
    const limits limit = {0, 0, 0.04, -1.0f};
    if (have_shared()) {
        check_model(lk_test_shared("models/small-q8_0.gguf"), "models/refs/small", &limit,
                    "small Q8_0");
    }
}

LK_TEST_MAIN(LK_RUN(stories260k), LK_RUN(tiny_f32), LK_RUN(tiny_f16), LK_RUN(small_q8_0))
