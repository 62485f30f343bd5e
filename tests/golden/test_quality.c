/* test_quality.c - how close the definition is to the model: the real rules against float32
 * activations over the same weights (the graph that test_refs proves). Perplexity within 0.2 per
 * cent, the worst row's relative error within 0.05 (Q8_0) and 0.1 (Q4_K_M), the mean
 * Kullback-Leibler divergence within 1.5 times its first value. Windows of 512 tokens, the last
 * half scored. docs/quality.md has the figures. Bounded: two windows of tests/data/text on the
 * shipped model. LK_FULL=1: more models, and windows of the shared held-out text. LK_SHORT=1:
 * nothing, since other builds have the same bits. */
#include <math.h>
#include <unistd.h>

#include "golden.h"
#include "lk/quantize.h"
#include "lk_test.h"

enum { WINDOW = 512, FIRST = WINDOW / 2, MAX_TOKENS = 200000 };

typedef struct quality_case {
    const char *label;
    const char *model; /* under the shared folder, NULL: the shipped small model */
    double max_row_error;
    double max_kl; /* 1.5 times the value first measured */
    int full_only;
} quality_case;

typedef struct quality {
    double nll[2];         /* graph, real */
    double change_squared; /* sum of (real - graph)^2 of the rows' negative log-likelihoods */
    double kl;
    double worst_row;
    int64_t n;
} quality;

/* log of the sum of exp over the row, in binary64. */
static double log_sum_exp(const float *logits, int32_t n) {
    float max = logits[0];
    for (int32_t i = 1; i < n; i++) {
        max = logits[i] > max ? logits[i] : max;
    }
    double sum = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += exp((double)logits[i] - (double)max);
    }
    return (double)max + log(sum);
}

static void compare_row(const float *graph, const float *real, int32_t n_vocab, int32_t target,
                        quality *q) {
    const double z_graph = log_sum_exp(graph, n_vocab);
    const double z_real = log_sum_exp(real, n_vocab);
    for (int32_t i = 0; i < n_vocab; i++) {
        const double log_p = (double)graph[i] - z_graph;
        q->kl += exp(log_p) * (log_p - ((double)real[i] - z_real));
    }
    const double nll_graph = z_graph - (double)graph[target];
    const double nll_real = z_real - (double)real[target];
    q->nll[0] += nll_graph;
    q->nll[1] += nll_real;
    q->change_squared += (nll_real - nll_graph) * (nll_real - nll_graph);
    const double error = golden_relative_error(real, graph, (size_t)n_vocab);
    q->worst_row = error > q->worst_row ? error : q->worst_row;
    q->n++;
}

static quality measure(lk_model *model, const int32_t *ids, int32_t n_windows) {
    quality q = {{0, 0}, 0, 0, 0, 0};
    lk_error err;
    lk_model_info info = LK_MODEL_INFO_INIT;
    REQUIRE_OK(lk_model_get_info(model, &info, &err), err);
    golden_setup setup = {
        .n_threads = 2, .isa_mask = LK_CPU_ALL, .k_type = LK_KV_F16, .v_type = LK_KV_F16};
    lk_context *real = golden_context(model, &setup, WINDOW);
    setup.flags = LK_CONTEXT_F32_ACTIVATIONS;
    setup.k_type = setup.v_type = LK_KV_F32;
    lk_context *graph = golden_context(model, &setup, WINDOW);
    int32_t wanted[WINDOW];
    const int32_t n_wanted = WINDOW - 1 - FIRST;
    for (int32_t i = 0; i < n_wanted; i++) {
        wanted[i] = FIRST + i;
    }
    const size_t n_values = (size_t)n_wanted * (size_t)info.n_vocab;
    float *rows[2] = {malloc(n_values * sizeof(float)), malloc(n_values * sizeof(float))};
    for (int32_t w = 0; w < n_windows; w++) {
        const int32_t *window = ids + (size_t)w * WINDOW;
        golden_logits(graph, info.n_vocab, window, WINDOW, wanted, n_wanted, rows[0]);
        golden_logits(real, info.n_vocab, window, WINDOW, wanted, n_wanted, rows[1]);
        for (int32_t i = 0; i < n_wanted; i++) {
            const size_t at = (size_t)i * (size_t)info.n_vocab;
            compare_row(rows[0] + at, rows[1] + at, info.n_vocab, window[wanted[i] + 1], &q);
        }
    }
    free(rows[0]);
    free(rows[1]);
    lk_context_destroy(graph);
    lk_context_destroy(real);
    return q;
}

/* Mean negative log-likelihood of the windows by the real rules. */
static double mean_nll(lk_model *model, const int32_t *ids, int32_t n_windows) {
    const int32_t n_vocab = lk_tokenizer_n_vocab(lk_model_tokenizer(model));
    const golden_setup setup = {
        .n_threads = 2, .isa_mask = LK_CPU_ALL, .k_type = LK_KV_F16, .v_type = LK_KV_F16};
    lk_context *context = golden_context(model, &setup, WINDOW);
    int32_t wanted[WINDOW];
    const int32_t n_wanted = WINDOW - 1 - FIRST;
    for (int32_t i = 0; i < n_wanted; i++) {
        wanted[i] = FIRST + i;
    }
    float *rows = malloc((size_t)n_wanted * (size_t)n_vocab * sizeof *rows);
    double sum = 0;
    for (int32_t w = 0; w < n_windows; w++) {
        const int32_t *window = ids + (size_t)w * WINDOW;
        golden_logits(context, n_vocab, window, WINDOW, wanted, n_wanted, rows);
        for (int32_t i = 0; i < n_wanted; i++) {
            const float *row = rows + (size_t)i * (size_t)n_vocab;
            sum += log_sum_exp(row, n_vocab) - (double)row[window[wanted[i] + 1]];
        }
    }
    free(rows);
    lk_context_destroy(context);
    return sum / ((double)n_wanted * n_windows);
}

static int32_t *tokenize(const lk_model *model, const char *path, int32_t *n_windows) {
    lk_error err;
    size_t n_text = 0;
    size_t n_ids = 0;
    char *text = (char *)lk_test_read(path, &n_text);
    int32_t *ids = malloc(MAX_TOKENS * sizeof *ids);
    REQUIRE_OK(lk_tokenizer_encode(lk_model_tokenizer(model), text, n_text, LK_TOKENIZE_ADD_SPECIAL,
                                   ids, MAX_TOKENS, &n_ids, &err),
               err);
    free(text);
    const int32_t n_whole = (int32_t)(n_ids / WINDOW);
    *n_windows = n_whole < *n_windows ? n_whole : *n_windows;
    return ids;
}

/* Our Q4_K_M of the tiny model against the peer's: perplexity within 1 per cent. */
static void compare_quantisers(int full) {
    lk_error err;
    char path[64];
    const char *source = lk_test_shared("models/tiny-f32.gguf");
    if (source == NULL) {
        (void)printf("the shared models are absent: the quantisers are not compared\n");
        return;
    }
    (void)snprintf(path, sizeof path, "tiny-q4_k_m-%d.tmp", (int)getpid());
    lk_quantize_params params = LK_QUANTIZE_PARAMS_INIT;
    params.type = LK_QUANTIZE_Q4_K_M;
    REQUIRE_OK(lk_quantize(source, path, &params, &err), err);
    lk_model *ours = golden_open(path);
    lk_model *peers = golden_open(lk_test_data("models/tiny-q4_k_m.gguf"));
    int32_t n_windows = full ? 20 : 6;
    int32_t *ids = tokenize(ours, lk_test_shared("models/heldout.txt"), &n_windows);
    const double our_ppl = exp(mean_nll(ours, ids, n_windows));
    const double peers_ppl = exp(mean_nll(peers, ids, n_windows));
    (void)printf("tiny Q4_K_M, %d windows: perplexity %.3f by our quantiser, %.3f by the peer's\n",
                 n_windows, our_ppl, peers_ppl);
    CHECK(our_ppl <= 1.01 * peers_ppl);
    free(ids);
    lk_model_close(ours);
    lk_model_close(peers);
    (void)unlink(path);
}

static void run_case(const quality_case *c, int32_t n_windows_max) {
    const char *path =
        c->model != NULL ? lk_test_shared(c->model) : LK_SOURCE_DIR "/models/small-q4_k_m.gguf";
    if (path == NULL) {
        lk_test_skip("the shared models are absent");
    }
    lk_model *model = golden_open(path);
    const char *text_path = lk_test_shared("models/heldout.txt");
    if (n_windows_max <= 2 || text_path == NULL) {
        text_path = lk_test_data("text/heldout-head.txt");
    }
    int32_t n_windows = n_windows_max;
    int32_t *ids = tokenize(model, text_path, &n_windows);
    const quality q = measure(model, ids, n_windows);
    const double n = (double)q.n;
    const double ppl[2] = {exp(q.nll[0] / n), exp(q.nll[1] / n)};
    const double change = 100.0 * (ppl[1] / ppl[0] - 1.0);
    const double sampling = 100.0 * sqrt(q.change_squared) / n; /* standard error of `change` */
    (void)printf("%s: %lld rows: perplexity %.4f, float32 activations and f32 KV %.4f "
                 "(%+.3f +- %.3f per cent); mean KL %.3g; worst row %.4f\n",
                 c->label, (long long)q.n, ppl[1], ppl[0], change, sampling, q.kl / n, q.worst_row);
    CHECK(q.n >= 500);
    /* Two windows are a small sample: the full run says whether 0.2 per cent holds. */
    CHECK_MSG(change <= 0.2 + (n_windows_max <= 2 ? 3 * sampling : 0),
              "%s: perplexity rises by %.3f per cent", c->label, change);
    CHECK_MSG(q.kl / n <= c->max_kl, "%s: mean KL %g, limit %g", c->label, q.kl / n, c->max_kl);
    CHECK_MSG(q.worst_row <= c->max_row_error, "%s: worst row %g, limit %g", c->label, q.worst_row,
              c->max_row_error);
    free(ids);
    lk_model_close(model);
}

int main(void) {
    static const quality_case cases[] = {
        {"small Q4_K_M", NULL, 0.1, 7.4e-4, 0},
        {"small Q8_0", "models/small-q8_0.gguf", 0.05, 2.7e-4, 1},
        {"tiny Q4_K_M", "models/tiny-q4_k_m.gguf", 0.1, 7.2e-4, 1},
        {"tiny Q8_0", "models/tiny-q8_0.gguf", 0.05, 2.9e-4, 1},
    };
    const int full = getenv("LK_FULL") != NULL;
    if (getenv("LK_SHORT") != NULL) {
        (void)printf(
            "short form: the bits are those of test_digests, quality is not measured again\n");
        return 0;
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (full || !cases[i].full_only) {
            run_case(&cases[i], full ? 20 : 2);
        }
    }
    compare_quantisers(full);
    return lk_test_failures() == 0 ? 0 : 1;
}
