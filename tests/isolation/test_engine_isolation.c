/* test_engine_isolation.c - requests to an engine over a real model: with any number of slots, cold
 * and cached, put back for want of pages, cancelled beside each other, each gets the tokens and the
 * digests of logits, or the embedding, that it gets alone, in a context of its own, one thread, one
 * row at a time.
 *
 * The pieces that make up the prompts are few, so that prefixes are shared in all lengths; each
 * request has a code word, a seed, settings and a length of its own. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "lk/lk.h"
#include "lk_test.h"

enum { MAX_PROMPT = 160, MAX_TOKENS = 100, MAX_JOBS = 512, MAX_WIDTH = 1024 };

typedef struct job {
    int32_t prompt[MAX_PROMPT];
    size_t n_prompt;
    lk_sampler_params sampler;
    int64_t max_tokens;
    int64_t n_wanted; /* reference */
    int32_t wanted[MAX_TOKENS];
    uint8_t wanted_digests[MAX_TOKENS][16];
    int64_t cancel_after;
    lk_pooling pooling;
    bool normalise;
    uint8_t wanted_embedding[16];
    int n_embeddings;
    atomic_bool is_told; /* an event is being reported */
    lk_request *request;
    int64_t n;
    bool differs;
    lk_finish finish;
} job;

static job jobs[MAX_JOBS];

static int on_event(void *ctx, const lk_event *event) {
    job *j = ctx;
    CHECK(!atomic_exchange(&j->is_told, true));
    if (event->kind == LK_EVENT_TOKEN) {
        const int64_t i = j->n++;
        j->differs = j->differs || i >= j->n_wanted || j->wanted[i] != event->token ||
                     memcmp(j->wanted_digests[i], event->digest, 16) != 0;
        atomic_store(&j->is_told, false);
        return j->cancel_after == 0 || j->n < j->cancel_after;
    }
    if (event->kind == LK_EVENT_EMBEDDING) {
        j->n_embeddings++;
        j->differs = j->differs || memcmp(j->wanted_embedding, event->digest, 16) != 0;
    }
    if (event->kind == LK_EVENT_END) {
        j->finish = event->finish;
    }
    atomic_store(&j->is_told, false);
    return 1;
}

static void draw_job(job *j, uint64_t *rng, int32_t n_vocab, uint32_t i) {
    memset(j, 0, sizeof *j);
    /* Every second one grows from one page to three, so that pages run out. */
    const bool is_long = i % 2 == 0;
    const size_t n_common = is_long ? 50 + lk_test_random(rng) % 10 : lk_test_random(rng) % 140;
    const int32_t salt = (int32_t)(lk_test_random(rng) % 3);
    for (size_t k = 0; k < n_common; k++) {
        j->prompt[k] = (int32_t)(((size_t)salt * 31 + k * 17 + k * k / 7) % (size_t)n_vocab);
    }
    j->n_prompt = n_common;
    for (uint32_t k = 0; k < 4; k++) { /* the code word */
        j->prompt[j->n_prompt++] = (int32_t)((i * 2654435761u >> (8 * k)) % (uint32_t)n_vocab);
    }
    j->sampler = LK_SAMPLER_PARAMS_INIT;
    j->sampler.seed = lk_test_random(rng);
    j->sampler.temperature = lk_test_random(rng) % 3 == 0 ? 0 : 0.9f;
    j->sampler.repeat_penalty = lk_test_random(rng) % 3 == 0 ? 1.2f : 1;
    j->max_tokens = is_long ? MAX_TOKENS : 1 + (int64_t)(lk_test_random(rng) % 20);
    j->cancel_after = lk_test_random(rng) % 6 == 0 ? 1 + j->max_tokens / 2 : 0;
    if (i % 4 == 3) {
        j->pooling = (lk_pooling)(1 + i / 4 % 3);
        j->normalise = i % 8 == 3;
        j->max_tokens = j->cancel_after = 0;
    }
}

/* The definition: docs/numerics.md, section 16. */
static void pool(const job *j, double *sum, size_t width, uint8_t digest[16]) {
    double divisor = j->pooling == LK_POOLING_MEAN ? (double)j->n_prompt : 1.0;
    float embedding[MAX_WIDTH];
    double squares = 0;
    for (size_t i = 0; i < width; i++) {
        squares += sum[i] * sum[i];
    }
    divisor = j->normalise ? sqrt(squares) : divisor;
    for (size_t i = 0; i < width; i++) {
        embedding[i] = (float)(sum[i] / divisor);
    }
    lk_logits_digest(embedding, width, digest);
}

static void embed_alone(lk_model *model, lk_context_params params, job *j) {
    lk_error err;
    lk_context *context = NULL;
    const float *hidden = NULL;
    lk_model_info info = LK_MODEL_INFO_INIT;
    params.max_hidden = 1;
    REQUIRE_OK(lk_model_get_info(model, &info, &err), err);
    REQUIRE_OK(lk_context_create(model, &params, &context, &err), err);
    const size_t width = (size_t)info.n_embd;
    double sum[MAX_WIDTH] = {0};
    CHECK(width <= MAX_WIDTH);
    for (size_t pos = 0; pos < j->n_prompt; pos++) {
        const lk_row row = {j->prompt[pos], 0, (int64_t)pos, LK_ROW_HIDDEN, 0};
        const bool is_wanted = j->pooling == LK_POOLING_MEAN ||
                               pos == (j->pooling == LK_POOLING_FIRST ? 0 : j->n_prompt - 1);
        REQUIRE_OK(lk_context_decode(context, &row, 1, NULL, &err), err);
        REQUIRE_OK(lk_context_hidden(context, 0, &hidden, &err), err);
        for (size_t i = 0; i < width && is_wanted; i++) {
            sum[i] += (double)hidden[i];
        }
    }
    pool(j, sum, width, j->wanted_embedding);
    lk_context_destroy(context);
}

/* The same alone. */
static void compute_alone(lk_model *model, const lk_context_params *params, int32_t n_vocab,
                          job *j) {
    if (j->pooling != LK_POOLING_NONE) {
        embed_alone(model, *params, j);
        return;
    }
    lk_error err;
    lk_context *context = NULL;
    lk_sampler *sampler = NULL;
    const float *logits = NULL;
    REQUIRE_OK(lk_context_create(model, params, &context, &err), err);
    REQUIRE_OK(lk_sampler_create(&j->sampler, n_vocab, &sampler, &err), err);
    int32_t token = 0;
    for (int64_t pos = 0; j->n_wanted < j->max_tokens; pos++) {
        const bool in_prompt = pos < (int64_t)j->n_prompt;
        token = in_prompt ? j->prompt[pos] : token;
        const bool wants = pos + 1 >= (int64_t)j->n_prompt;
        const lk_row row = {token, 0, pos, wants ? LK_ROW_LOGITS : 0, 0};
        REQUIRE_OK(lk_context_decode(context, &row, 1, NULL, &err), err);
        REQUIRE_OK(lk_sampler_accept(sampler, token, &err), err);
        if (wants) {
            lk_sample sample;
            REQUIRE_OK(lk_context_logits(context, 0, &logits, &err), err);
            REQUIRE_OK(lk_sampler_sample(sampler, logits, pos, &sample, &err), err);
            lk_logits_digest(logits, (size_t)n_vocab, j->wanted_digests[j->n_wanted]);
            j->wanted[j->n_wanted++] = token = sample.token;
            if (lk_tokenizer_is_end(lk_model_tokenizer(model), token)) {
                break;
            }
        }
    }
    lk_sampler_destroy(sampler);
    lk_context_destroy(context);
}

static void submit(lk_engine *engine, job *j) {
    lk_error err;
    lk_request_params params = LK_REQUEST_PARAMS_INIT;
    params.prompt = j->prompt;
    params.n_prompt = j->n_prompt;
    params.sampler = &j->sampler;
    params.max_tokens = j->max_tokens;
    params.flags = LK_REQUEST_DIGESTS | (j->normalise ? (uint32_t)LK_REQUEST_NORMALISE : 0u);
    params.pooling = j->pooling;
    params.on_event = on_event;
    params.ctx = j;
    j->n = 0;
    j->n_embeddings = 0;
    j->differs = false;
    REQUIRE_OK(lk_engine_submit(engine, &params, &j->request, &err), err);
}

static void check_job(const job *j, uint32_t i, const char *when) {
    const bool is_whole = j->cancel_after == 0 && j->finish != LK_FINISH_CANCELLED;
    CHECK_MSG(!j->differs, "%s: request %u differs from itself alone", when, i);
    CHECK_MSG(!is_whole || j->n == j->n_wanted, "%s: request %u: %lld tokens, alone %lld", when, i,
              (long long)j->n, (long long)j->n_wanted);
    CHECK_MSG(j->n_embeddings == (j->finish == LK_FINISH_END && j->pooling != LK_POOLING_NONE) ||
                  j->pooling == LK_POOLING_NONE,
              "%s: request %u: %d embeddings", when, i, j->n_embeddings);
    CHECK_MSG(j->finish != LK_FINISH_ERROR, "%s: request %u failed", when, i);
}

typedef struct setting {
    int32_t n_slots;
    int64_t kv_positions;
    int32_t max_rows;
    uint32_t n_threads;
    uint32_t flags;
} setting;

static void run_setting(lk_model *model, const lk_context_params *alone, const setting *s,
                        uint32_t n_jobs, uint64_t *rng, uint64_t *n_preempted, uint64_t *n_cached) {
    lk_error err;
    lk_engine *engine = NULL;
    char when[64];
    lk_engine_params params = LK_ENGINE_PARAMS_INIT;
    params.n_threads = s->n_threads;
    params.n_slots = s->n_slots;
    params.kv_positions = s->kv_positions;
    params.max_rows = s->max_rows;
    params.k_type = alone->k_type;
    params.v_type = alone->v_type;
    params.flags = LK_ENGINE_POISON | s->flags;
    params.page_seed = 1 + (uint32_t)(lk_test_random(rng) % 1000);
    REQUIRE_OK(lk_engine_create(model, &params, &engine, &err), err);
    for (int round = 0; round < 2; round++) { /* cold, cached */
        (void)snprintf(when, sizeof when, "%d slots, round %d", s->n_slots, round);
        for (uint32_t i = 0; i < n_jobs; i++) {
            submit(engine, &jobs[i]);
            if (lk_test_random(rng) % 4 == 0) {
                (void)lk_request_wait(jobs[lk_test_random(rng) % (i + 1)].request, 2, NULL);
            }
            if (lk_test_random(rng) % 10 == 0) {
                lk_request_cancel(jobs[i].request);
            }
        }
        for (uint32_t i = 0; i < n_jobs; i++) {
            REQUIRE_OK(lk_request_wait(jobs[i].request, 0, &err), err);
            lk_request_release(jobs[i].request);
            check_job(&jobs[i], i, when);
        }
    }
    lk_engine_stats stats = LK_ENGINE_STATS_INIT;
    REQUIRE_OK(lk_engine_get_stats(engine, &stats, &err), err);
    *n_preempted += stats.n_preempted;
    *n_cached += stats.n_cached_tokens;
    lk_engine_destroy(engine);
}

LK_TEST(engine_isolation) {
    static const setting settings[] = {
        {1, 1024, 64, 1, 0},
        {2, 1024, 32, 2, 0},
        {4, 1024, 256, 2, LK_ENGINE_PARALLEL_EVENTS},
        {8, 170, 48, 2, 0},
        {16, 170, 64, 2, LK_ENGINE_PARALLEL_EVENTS},
    };
    static const lk_kv_type types[][2] = {
        {LK_KV_F16, LK_KV_F16}, {LK_KV_Q8_0, LK_KV_Q8_0}, {LK_KV_F32, LK_KV_Q8_0}};
    lk_error err;
    lk_model *model = NULL;
    const uint32_t n_jobs = (uint32_t)lk_test_size(6, 24, MAX_JOBS);
    uint64_t rng = lk_test_seed(20261130);
    uint64_t n_preempted = 0;
    uint64_t n_cached = 0;
    REQUIRE_OK(lk_model_open(lk_test_data("models/tiny-q4_k_m.gguf"), NULL, &model, &err), err);
    lk_model_info info = LK_MODEL_INFO_INIT;
    REQUIRE_OK(lk_model_get_info(model, &info, &err), err);
    const size_t n_types = lk_test_size(1, 3, 3);
    for (size_t t = 0; t < n_types; t++) {
        lk_context_params alone = LK_CONTEXT_PARAMS_INIT;
        alone.n_threads = 1;
        alone.kv_positions = MAX_PROMPT + MAX_TOKENS;
        alone.max_rows = alone.max_logits = 1;
        alone.k_type = types[t][0];
        alone.v_type = types[t][1];
        for (uint32_t i = 0; i < n_jobs; i++) {
            draw_job(&jobs[i], &rng, info.n_vocab, i);
            compute_alone(model, &alone, info.n_vocab, &jobs[i]);
        }
        for (size_t s = 0; s < sizeof settings / sizeof settings[0]; s++) {
            run_setting(model, &alone, &settings[s], n_jobs, &rng, &n_preempted, &n_cached);
        }
        /* Whether pages run out hangs on how fast requests come. */
        for (int again = 0; n_jobs >= 20 && n_preempted == 0 && again < 10; again++) {
            run_setting(model, &alone, &settings[3], n_jobs, &rng, &n_preempted, &n_cached);
        }
    }
    (void)printf(
        "%u requests, 5 settings, %zu KV pairs, twice: %llu put back, %llu cached tokens\n", n_jobs,
        n_types, (unsigned long long)n_preempted, (unsigned long long)n_cached);
    CHECK(n_cached > 0 && (n_jobs < 20 || n_preempted > 0));
    lk_model_close(model);
}

LK_TEST_MAIN(LK_RUN(engine_isolation))
