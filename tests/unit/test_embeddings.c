/* test_embeddings.c - embeddings from an engine over the fake backend: each is what the definition
 * makes of the hidden states of its text (docs/numerics.md, section 16), beside requests that
 * generate, put back for want of pages, with and without hits in the cache. labels: threads */
#include <math.h>

#include "engine/scheduler/scheduler.h"
#include "fake_backend.h"
#include "lk_test.h"

enum { MAX_PROMPT = 220, N_JOBS = 24 };

typedef struct job {
    int32_t prompt[MAX_PROMPT];
    lk_sampler_params sampler;
    lk_request_params params;
    lk_request *request;
    float embedding[FAKE_WIDTH];
    uint8_t digest[16];
    int n_embeddings;
    int64_t n_tokens;
    int64_t n_cached;
    lk_finish finish;
} job;

static int on_event(void *ctx, const lk_event *event) {
    job *j = ctx;
    if (event->kind == LK_EVENT_EMBEDDING) {
        CHECK(event->n_embedding == FAKE_WIDTH && j->finish == 0);
        memcpy(j->embedding, event->embedding, sizeof j->embedding);
        memcpy(j->digest, event->digest, 16);
        j->n_embeddings++;
    } else if (event->kind == LK_EVENT_END) {
        j->finish = event->finish;
        j->n_cached = event->n_cached;
    }
    j->n_tokens += event->kind == LK_EVENT_TOKEN;
    return 1;
}

/* n tokens; pooling NONE: a request that generates. */
static void job_init(job *j, uint32_t salt, size_t n, lk_pooling pooling, bool normalise) {
    memset(j, 0, sizeof *j);
    for (size_t i = 0; i < n; i++) {
        j->prompt[i] = (int32_t)((salt * 7 + i * 5 + i * i / 9) % (FAKE_VOCAB - 1));
    }
    static const lk_logit_bias ban = {FAKE_BAD_TOKEN, -INFINITY};
    j->sampler = LK_SAMPLER_PARAMS_INIT;
    j->sampler.temperature = 0;
    j->sampler.logit_bias = &ban;
    j->sampler.n_logit_bias = 1;
    j->params = LK_REQUEST_PARAMS_INIT;
    j->params.sampler = &j->sampler;
    j->params.prompt = j->prompt;
    j->params.n_prompt = n;
    j->params.pooling = pooling;
    j->params.max_tokens = pooling != LK_POOLING_NONE ? 0 : 100;
    j->params.flags = LK_REQUEST_DIGESTS | (normalise ? (uint32_t)LK_REQUEST_NORMALISE : 0u);
    j->params.on_event = on_event;
    j->params.ctx = j;
}

static void submit(lk_engine *engine, job *j) {
    lk_error err;
    REQUIRE_OK(lk_engine_submit(engine, &j->params, &j->request, &err), err);
}

static void finish(job *j) {
    lk_error err;
    REQUIRE_OK(lk_request_wait(j->request, 60000, &err), err);
    lk_request_release(j->request);
}

/* From the definition. */
static void embed_alone(const job *j, float *embedding) {
    const size_t n = j->params.n_prompt;
    const bool is_mean = j->params.pooling == LK_POOLING_MEAN;
    double sum[FAKE_WIDTH] = {0};
    double squares = 0;
    for (size_t i = 1; i <= n; i++) {
        float hidden[FAKE_WIDTH];
        fake_hidden(j->prompt, i, hidden);
        for (int k = 0; k < FAKE_WIDTH; k++) {
            const bool is_wanted = is_mean || i == (j->params.pooling == LK_POOLING_FIRST ? 1 : n);
            sum[k] += is_wanted ? (double)hidden[k] : 0;
        }
    }
    for (int k = 0; k < FAKE_WIDTH; k++) {
        squares += sum[k] * sum[k];
    }
    double divisor = is_mean ? (double)n : 1;
    divisor = (j->params.flags & LK_REQUEST_NORMALISE) != 0 ? sqrt(squares) : divisor;
    for (int k = 0; k < FAKE_WIDTH; k++) {
        embedding[k] = (float)(sum[k] / divisor);
    }
}

static void check_job(const job *j) {
    float wanted[FAKE_WIDTH];
    uint8_t digest[16];
    if (j->params.pooling == LK_POOLING_NONE) {
        CHECK(j->n_embeddings == 0 && j->n_tokens > 0);
        return;
    }
    embed_alone(j, wanted);
    lk_logits_digest(wanted, FAKE_WIDTH, digest);
    CHECK(j->n_embeddings == 1 && j->finish == LK_FINISH_END && j->n_tokens == 0);
    CHECK(memcmp(wanted, j->embedding, sizeof wanted) == 0);
    CHECK(memcmp(digest, j->digest, 16) == 0);
    CHECK(j->params.pooling == LK_POOLING_LAST || j->n_cached == 0);
}

static lk_engine *make_engine(int32_t n_slots, int64_t kv_positions) {
    lk_error err;
    lk_engine *engine = NULL;
    lk_engine_params params = LK_ENGINE_PARAMS_INIT;
    params.n_slots = n_slots;
    params.kv_positions = kv_positions;
    params.max_rows = 16;
    params.n_threads = 1;
    params.flags = LK_ENGINE_POISON;
    REQUIRE_OK(fake_engine(&params, &engine, &err), err);
    return engine;
}

LK_TEST(beside_others) {
    static job jobs[N_JOBS];
    lk_error err;
    lk_engine *engine = make_engine(6, 200);
    lk_engine_stats stats = LK_ENGINE_STATS_INIT;
    /* Whether pages run out hangs on how fast requests come. */
    for (int round = 0; round < 2 || (round < 100 && stats.n_preempted == 0); round++) {
        for (uint32_t i = 0; i < N_JOBS; i++) {
            const bool generates = i % 2 == 1;
            job_init(&jobs[i], generates ? i : i % 2, generates ? 50 + i : 1 + i * 9 % 190,
                     generates ? LK_POOLING_NONE : (lk_pooling)(1 + i / 2 % 3), i % 8 == 0);
            submit(engine, &jobs[i]);
        }
        for (uint32_t i = 0; i < N_JOBS; i++) {
            finish(&jobs[i]);
            check_job(&jobs[i]);
        }
        REQUIRE_OK(lk_engine_get_stats(engine, &stats, &err), err);
    }
    CHECK(stats.n_preempted > 0);
    lk_engine_destroy(engine);
}

/* The last token alone is computed where all before it is known. */
LK_TEST(hits) {
    static job j;
    lk_engine *engine = make_engine(1, 200);
    for (int round = 0; round < 2; round++) {
        job_init(&j, 5, 100, LK_POOLING_LAST, false);
        submit(engine, &j);
        finish(&j);
        check_job(&j);
        CHECK(j.n_cached == (round == 0 ? 0 : 99));
    }
    lk_engine_destroy(engine);
}

static void refused(lk_engine *engine, job *j) {
    lk_error err;
    CHECK_STATUS(LK_E_ARG, lk_engine_submit(engine, &j->params, &j->request, &err));
    CHECK_MSG(strcmp(err.subject, "pooling") == 0, "%s", err.message);
}

LK_TEST(refused_parameters) {
    static job j;
    lk_engine *engine = make_engine(1, 200);
    job_init(&j, 1, 9, (lk_pooling)(LK_POOLING_LAST + 1), false);
    refused(engine, &j);
    job_init(&j, 1, 9, LK_POOLING_MEAN, false);
    j.params.max_tokens = 1;
    refused(engine, &j);
    job_init(&j, 1, 9, LK_POOLING_MEAN, false);
    j.params.n_choices = 2;
    refused(engine, &j);
    job_init(&j, 1, 9, LK_POOLING_LAST, false);
    j.params.flags |= LK_REQUEST_PROMPT_LOGPROBS;
    refused(engine, &j);
    lk_engine_destroy(engine);
}

LK_TEST_MAIN(LK_RUN(beside_others), LK_RUN(hits), LK_RUN(refused_parameters))
