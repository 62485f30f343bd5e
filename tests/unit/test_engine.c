/* test_engine.c - the engine over the fake backend: every token and digest of every request is that
 * of a run alone, whatever else is going on; limits, errors, cancels and deadlines concern only
 * their own request. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "engine/scheduler/scheduler.h"
#include "fake_backend.h"
#include "lk_test.h"

enum { MAX_PROMPT = 220, MAX_TOKENS = 48, MAX_TEST_CHOICES = 3 };

/* What came of one choice. */
typedef struct outcome {
    int32_t tokens[MAX_TOKENS + 256];
    uint8_t digests[MAX_TOKENS + 256][16];
    int64_t n;
    int n_ends;
    lk_finish finish;
    lk_status error;
    int64_t n_cached;
    int64_t n_generated;
} outcome;

/* A request of the test: what is asked for and what came. Written by the engine's thread until it
 * is done. */
typedef struct job {
    int32_t prompt[MAX_PROMPT];
    size_t n_prompt;
    float vectors[MAX_PROMPT][FAKE_EMBD];
    const float *embeddings[MAX_PROMPT]; /* NULL: the token */
    lk_media_span media[2];
    lk_sampler_params sampler;
    lk_request_params params;
    lk_request *request;
    outcome outcomes[MAX_TEST_CHOICES];
    int64_t stop_after;   /* tokens; 0: never */
    int64_t cancel_after; /* tokens of choice 0 after which the callback cancels; 0: never */
    _Atomic(lk_request *) to_cancel;
    float prompt_logprobs[MAX_PROMPT];
    int64_t n_prompt_events;
    float logprobs[MAX_TOKENS];
    lk_token_logprob top[MAX_TOKENS][4];
    int n_done;
} job;

static int on_event(void *ctx, const lk_event *event) {
    job *j = ctx;
    if (event->kind == LK_EVENT_DONE) {
        j->n_done++;
        return 1;
    }
    if (event->kind == LK_EVENT_PROMPT_TOKEN) {
        CHECK(event->pos == j->n_prompt_events && event->token == j->prompt[event->pos]);
        j->prompt_logprobs[j->n_prompt_events++] = event->logprob;
        return 1;
    }
    outcome *o = &j->outcomes[event->choice];
    if (event->kind == LK_EVENT_END) {
        o->n_ends++;
        o->finish = event->finish;
        o->n_cached = event->n_cached;
        o->n_generated = event->n_generated;
        o->error = event->error != NULL ? event->error->status : LK_OK;
        return 1;
    }
    CHECK(event->kind == LK_EVENT_TOKEN && event->n_generated == o->n + 1 && o->n_ends == 0);
    CHECK(event->pos == (int64_t)j->n_prompt + o->n);
    memcpy(o->digests[o->n], event->digest, 16);
    if (o->n < MAX_TOKENS) {
        j->logprobs[o->n] = event->logprob;
        for (int32_t i = 0; i < event->n_top && i < 4; i++) {
            j->top[o->n][i] = event->top[i];
        }
    }
    o->tokens[o->n++] = event->token;
    if (j->cancel_after != 0 && o->n == j->cancel_after && event->choice == 0) {
        lk_request_cancel(atomic_load(&j->to_cancel));
    }
    return j->stop_after == 0 || o->n < j->stop_after;
}

/* Greedy, 16 tokens, with digests; the fake's bad token is never sampled. */
static void job_init(job *j) {
    memset(j, 0, sizeof *j);
    j->sampler = LK_SAMPLER_PARAMS_INIT;
    j->sampler.temperature = 0;
    j->params = LK_REQUEST_PARAMS_INIT;
    j->params.max_tokens = 16;
    j->params.flags = LK_REQUEST_DIGESTS;
    static const lk_logit_bias ban = {FAKE_BAD_TOKEN, -INFINITY};
    j->sampler.logit_bias = &ban;
    j->sampler.n_logit_bias = 1;
}

static void fill_prompt(job *j, uint32_t salt, size_t n) {
    for (size_t i = 0; i < n; i++) {
        j->prompt[i] = (int32_t)((salt * 7 + i * 5 + i * i / 9) % (FAKE_VOCAB - 1));
    }
    j->n_prompt = n;
}

/* Vectors instead of the prompt's tokens first .. first + n - 1; those of few salts occur. */
static void add_media(job *j, uint32_t salt, size_t first, size_t n) {
    for (size_t i = first; i < first + n; i++) {
        for (size_t k = 0; k < FAKE_EMBD; k++) {
            j->vectors[i][k] = (float)(salt * 31 + i * 3 + k) * 0.5f;
        }
        j->embeddings[i] = j->vectors[i];
    }
    j->media[j->params.n_media++] = (lk_media_span){first, n, j->vectors[first]};
    j->params.media = j->media;
}

static void submit(lk_engine *engine, job *j) {
    lk_error err;
    j->params.prompt = j->prompt;
    j->params.n_prompt = j->n_prompt;
    j->params.sampler = &j->sampler;
    j->params.on_event = on_event;
    j->params.ctx = j;
    REQUIRE_OK(lk_engine_submit(engine, &j->params, &j->request, &err), err);
    atomic_store(&j->to_cancel, j->request);
}

static void finish(job *j) {
    lk_error err;
    REQUIRE_OK(lk_request_wait(j->request, 60000, &err), err);
    lk_request_release(j->request);
    j->request = NULL;
    CHECK(j->n_done == 1);
}

/* The tokens that a choice has when it is alone; `n` of them, from the definition. */
static int64_t run_alone(const job *j, int32_t choice, int64_t n, int64_t n_ctx, outcome *out) {
    lk_error err;
    static int32_t tokens[4096];
    static const float *embeddings[4096];
    float logits[FAKE_VOCAB];
    lk_sampler *sampler = NULL;
    memset(embeddings, 0, sizeof embeddings);
    memcpy(embeddings, j->embeddings, j->n_prompt * sizeof embeddings[0]);
    lk_sampler_params params = j->sampler;
    params.choice += (uint32_t)choice;
    REQUIRE_OK(lk_sampler_create(&params, FAKE_VOCAB, &sampler, &err), err);
    memcpy(tokens, j->prompt, j->n_prompt * sizeof tokens[0]);
    for (size_t i = 0; i < j->n_prompt; i++) {
        REQUIRE_OK(lk_sampler_accept(sampler, tokens[i], &err), err);
    }
    int64_t i = 0;
    for (; i < n && (int64_t)j->n_prompt + i <= n_ctx; i++) {
        lk_sample sample;
        const int64_t n_tokens = (int64_t)j->n_prompt + i;
        fake_logits_of(tokens, embeddings, (size_t)n_tokens, logits);
        REQUIRE_OK(lk_sampler_sample(sampler, logits, n_tokens - 1, &sample, &err), err);
        REQUIRE_OK(lk_sampler_accept(sampler, sample.token, &err), err);
        lk_logits_digest(logits, FAKE_VOCAB, out->digests[i]);
        out->tokens[i] = tokens[n_tokens] = sample.token;
    }
    lk_sampler_destroy(sampler);
    return i;
}

/* Everything that came is what comes alone. A choice that was cut short has a beginning of it. */
static void check_job(const job *j, int64_t n_ctx) {
    static outcome alone;
    for (int32_t c = 0; c < j->params.n_choices; c++) {
        const outcome *o = &j->outcomes[c];
        int64_t n = j->params.max_tokens < 0 ? INT64_MAX : j->params.max_tokens;
        n = j->stop_after != 0 && j->stop_after < n ? j->stop_after : n;
        const bool is_whole = o->finish == LK_FINISH_LENGTH || o->finish == LK_FINISH_STOP;
        const int64_t n_alone = run_alone(j, c, is_whole ? n : o->n, n_ctx, &alone);
        CHECK(o->n_ends == 1);
        CHECK_MSG(o->n == n_alone, "choice %d: %lld tokens, alone %lld", c, (long long)o->n,
                  (long long)n_alone);
        const size_t n_same = (size_t)(o->n < n_alone ? o->n : n_alone);
        CHECK(memcmp(o->tokens, alone.tokens, n_same * sizeof o->tokens[0]) == 0);
        if ((j->params.flags & LK_REQUEST_DIGESTS) != 0) {
            CHECK(memcmp(o->digests, alone.digests, n_same * 16) == 0);
        }
    }
}

/* Pages, references, free list, page tables and cache agree. Only while nothing runs. */
static bool is_consistent(lk_engine *engine) {
    (void)pthread_mutex_lock(&engine->lock);
    const lk_kv_pages *pages = &engine->context->kv.pages;
    uint32_t *refs = calloc(pages->n_pages, sizeof refs[0]);
    bool ok = refs != NULL && engine->n_running == 0;
    for (int32_t i = 0; ok && i < engine->params.n_slots; i++) {
        const lk_seq *seq = &engine->context->seqs[i];
        ok = seq->n_pages == lk_seq_pages_for(seq->length);
        for (uint32_t k = 0; k < seq->n_pages; k++) {
            refs[seq->pages[k]]++;
        }
    }
    uint32_t n_nodes = 0;
    uint32_t n_unused = 0;
    for (uint32_t i = 0; ok && i < pages->n_pages; i++) {
        n_nodes += engine->cache.nodes[i].n_tokens != 0;
        refs[i] += engine->cache.nodes[i].n_tokens != 0;
        ok = refs[i] == pages->refs[i];
        n_unused += refs[i] == 0;
    }
    ok = ok && n_unused == pages->n_free && n_nodes == engine->cache.n_nodes;
    free(refs);
    (void)pthread_mutex_unlock(&engine->lock);
    return ok;
}

static lk_engine *make_engine(int32_t n_slots, int64_t kv_positions, int32_t max_rows,
                              uint32_t flags) {
    lk_error err;
    lk_engine *engine = NULL;
    lk_engine_params params = LK_ENGINE_PARAMS_INIT;
    params.n_threads = 1;
    params.n_slots = n_slots;
    params.kv_positions = kv_positions;
    params.max_rows = max_rows;
    params.flags = LK_ENGINE_POISON | flags;
    params.page_seed = 5;
    REQUIRE_OK(fake_engine(&params, &engine, &err), err);
    return engine;
}

static lk_engine_stats stats_of(lk_engine *engine) {
    lk_error err;
    lk_engine_stats stats = LK_ENGINE_STATS_INIT;
    REQUIRE_OK(lk_engine_get_stats(engine, &stats, &err), err);
    return stats;
}

/* ---- many at once ---- */

static void draw_job(job *j, uint64_t *rng, int64_t n_ctx) {
    job_init(j);
    /* Few salts: prefixes are shared; lengths differ, so they part inside and between pages. */
    const size_t n = 1 + lk_test_random(rng) % (MAX_PROMPT - 1);
    fill_prompt(j, (uint32_t)(lk_test_random(rng) % 4), n);
    if (lk_test_random(rng) % 3 == 0) {
        j->prompt[n - 1] = (int32_t)(lk_test_random(rng) % (FAKE_VOCAB - 1));
    }
    j->sampler.seed = lk_test_random(rng);
    if (lk_test_random(rng) % 2 == 0) {
        j->sampler.temperature = 0.9f;
        j->sampler.top_k = (int32_t)(lk_test_random(rng) % 10);
    }
    if (lk_test_random(rng) % 4 == 0) {
        j->sampler.repeat_penalty = 1.3f;
        j->sampler.penalty_last_n = 20;
    }
    j->params.max_tokens = (int64_t)(lk_test_random(rng) % MAX_TOKENS);
    if ((int64_t)n > n_ctx) {
        j->n_prompt = (size_t)n_ctx;
    }
    if (j->n_prompt >= 16 && lk_test_random(rng) % 2 == 0) { /* the same tokens, other vectors */
        add_media(j, (uint32_t)(lk_test_random(rng) % 2), 3, j->n_prompt / 3);
        add_media(j, (uint32_t)(lk_test_random(rng) % 2), j->n_prompt / 2 + 1, j->n_prompt / 4);
    }
    j->params.n_choices = 1 + (int32_t)(lk_test_random(rng) % MAX_TEST_CHOICES);
    switch (lk_test_random(rng) % 8) {
    case 0:
        j->cancel_after = 1 + (int64_t)(lk_test_random(rng) % 8);
        break;
    case 1:
        j->stop_after = 1 + (int64_t)(lk_test_random(rng) % 8);
        break;
    case 2:
        j->params.flags |= LK_REQUEST_NO_CACHE;
        break;
    case 3:
        j->params.flags |= LK_REQUEST_PROMPT_LOGPROBS;
        break;
    case 4:
        j->params.timeout_ms = 1 + (uint32_t)(lk_test_random(rng) % 30);
        break;
    default:
        break;
    }
}

typedef struct client {
    lk_engine *engine;
    job *jobs;
    size_t n_jobs;
    uint64_t rng;
} client;

/* Keeps up to 12 requests going; lets some of them be cancelled from outside. */
static void *run_client(void *arg) {
    client *c = arg;
    enum { OPEN = 12 };
    for (size_t i = 0; i < c->n_jobs + OPEN; i++) {
        if (i >= OPEN && i - OPEN < c->n_jobs) {
            finish(&c->jobs[i - OPEN]);
        }
        if (i < c->n_jobs) {
            submit(c->engine, &c->jobs[i]);
            if (lk_test_random(&c->rng) % 16 == 0) {
                lk_request_cancel(c->jobs[i].request);
            }
        }
    }
    return NULL;
}

static lk_engine_stats run_many(int32_t n_slots, int64_t kv_positions, int32_t max_rows,
                                uint32_t flags, size_t n_jobs, uint64_t seed) {
    enum { N_CLIENTS = 3 };
    lk_engine *engine = make_engine(n_slots, kv_positions, max_rows, flags);
    job *jobs = calloc(N_CLIENTS * n_jobs, sizeof jobs[0]);
    const int64_t n_ctx = engine->params.n_ctx;
    client clients[N_CLIENTS];
    pthread_t threads[N_CLIENTS];
    uint64_t rng = seed;
    if (jobs == NULL) {
        exit(1);
    }
    for (size_t i = 0; i < N_CLIENTS * n_jobs; i++) {
        draw_job(&jobs[i], &rng, n_ctx);
    }
    for (size_t i = 0; i < N_CLIENTS; i++) {
        clients[i] = (client){engine, jobs + i * n_jobs, n_jobs, seed + i};
        CHECK(pthread_create(&threads[i], NULL, run_client, &clients[i]) == 0);
    }
    for (size_t i = 0; i < N_CLIENTS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    for (size_t i = 0; i < N_CLIENTS * n_jobs; i++) {
        check_job(&jobs[i], n_ctx);
    }
    CHECK(is_consistent(engine));
    const lk_engine_stats stats = stats_of(engine);
    CHECK(stats.n_waiting == 0 && stats.n_running == 0);
    lk_engine_destroy(engine);
    free(jobs);
    CHECK(fake.n_violations == 0);
    return stats;
}

LK_TEST(many_requests) {
    static const int32_t slots[] = {1, 2, 4, 8, 16};
    const uint64_t seed = lk_test_seed(41);
    const size_t n = (size_t)lk_test_size(12, 100, 3000);
    uint64_t n_preempted = 0;
    uint64_t n_cached = 0;
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        /* Plenty of pages; so few that choices are put back; no cache at all. */
        lk_engine_stats stats = run_many(slots[i], 6000, 64, 0, n, seed + i);
        n_cached += stats.n_cached_tokens;
        stats = run_many(slots[i], 300, 20, i % 2 == 0 ? LK_ENGINE_PARALLEL_EVENTS : 0, n,
                         seed + 10 + i);
        n_preempted += stats.n_preempted;
        n_cached += stats.n_cached_tokens;
        stats = run_many(slots[i], 500, 33, LK_ENGINE_NO_CACHE, n / 2 + 1, seed + 20 + i);
        n_preempted += stats.n_preempted;
        CHECK(stats.n_cached_tokens == 0 && stats.pages_cached == 0);
    }
    (void)printf("%llu preempted, %llu tokens from the cache\n", (unsigned long long)n_preempted,
                 (unsigned long long)n_cached);
    CHECK(n_preempted > 0 && n_cached > 1000);
}

/* ---- one by one ---- */

LK_TEST(cache_counts) {
    lk_engine *engine = make_engine(2, 2000, 64, 0);
    static job j;
    const struct {
        uint32_t salt;
        size_t n;
        int64_t n_cached;
    } steps[] = {
        /* The last row is always computed; fewer than 8 positions of a page are not worth a copy.
         */
        {1, 200, 0}, {1, 201, 200}, {1, 130, 128}, {1, 64, 63}, {1, 210, 201},
        {2, 70, 0},  {2, 5, 0},     {2, 9, 8},     {1, 1, 0},   {1, 200, 192},
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        job_init(&j);
        fill_prompt(&j, steps[i].salt, steps[i].n);
        j.params.max_tokens = 1;
        submit(engine, &j);
        finish(&j);
        check_job(&j, 256);
        CHECK_MSG(j.outcomes[0].n_cached == steps[i].n_cached, "step %zu: %lld cached", i,
                  (long long)j.outcomes[0].n_cached);
    }
    /* A second turn finds prompt and answer of the first. */
    job_init(&j);
    fill_prompt(&j, 3, 100);
    submit(engine, &j);
    finish(&j);
    int32_t answer[16];
    memcpy(answer, j.outcomes[0].tokens, sizeof answer);
    job_init(&j);
    fill_prompt(&j, 3, 100);
    memcpy(j.prompt + 100, answer, sizeof answer);
    j.n_prompt = 118;
    submit(engine, &j);
    finish(&j);
    check_job(&j, 256);
    CHECK(j.outcomes[0].n_cached == 115); /* the last sampled token was never computed */
    CHECK(is_consistent(engine));
    lk_engine_destroy(engine);
}

/* Reference for logprobs: plain libm. */
static double logprob_of(const int32_t *tokens, size_t n, int32_t token) {
    float logits[FAKE_VOCAB];
    double sum = 0;
    fake_logits(tokens, n, logits);
    for (int i = 0; i < FAKE_VOCAB; i++) {
        sum += exp((double)logits[i] - (double)logits[token]);
    }
    return -log(sum);
}

LK_TEST(logprobs) {
    lk_engine *engine = make_engine(2, 600, 16, 0);
    static job j;
    static int32_t all[MAX_PROMPT + MAX_TOKENS];
    for (int round = 0; round < 2; round++) {
        job_init(&j);
        fill_prompt(&j, 6, 150);
        j.params.flags |= LK_REQUEST_LOGPROBS | LK_REQUEST_PROMPT_LOGPROBS;
        j.params.n_top_logprobs = 3;
        j.params.max_tokens = 8;
        submit(engine, &j);
        finish(&j);
        check_job(&j, 256);
        CHECK(j.n_prompt_events == 150 && j.outcomes[0].n_cached == 0);
        for (size_t i = 1; i < 150; i++) {
            const double wanted = logprob_of(j.prompt, i, j.prompt[i]);
            CHECK(fabs((double)j.prompt_logprobs[i] - wanted) < 1e-4);
        }
        memcpy(all, j.prompt, 150 * sizeof all[0]);
        for (size_t i = 0; i < 8; i++) {
            const int32_t token = j.outcomes[0].tokens[i];
            CHECK(fabs((double)j.logprobs[i] - logprob_of(all, 150 + i, token)) < 1e-4);
            CHECK(j.top[i][0].token == token && j.top[i][0].logprob == j.logprobs[i]);
            CHECK(j.top[i][1].logprob <= j.top[i][0].logprob &&
                  j.top[i][2].logprob <= j.top[i][1].logprob);
            all[150 + i] = token;
        }
    }
    lk_engine_destroy(engine);
}

LK_TEST(ends) {
    lk_engine *engine = make_engine(2, 300, 32, 0);
    static job a;
    static job b;
    /* Until the sequence is full: one token more than there are positions. */
    job_init(&a);
    fill_prompt(&a, 1, 200);
    a.params.max_tokens = -1;
    submit(engine, &a);
    /* Nothing to sample. */
    job_init(&b);
    fill_prompt(&b, 2, 90);
    b.params.max_tokens = 0;
    submit(engine, &b);
    finish(&a);
    finish(&b);
    CHECK(a.outcomes[0].finish == LK_FINISH_LENGTH && a.outcomes[0].n == 256 - 200 + 1);
    check_job(&a, 256);
    CHECK(b.outcomes[0].finish == LK_FINISH_LENGTH && b.outcomes[0].n == 0);
    job_init(&a);
    fill_prompt(&a, 1, 10);
    a.stop_after = 5;
    submit(engine, &a);
    finish(&a);
    CHECK(a.outcomes[0].finish == LK_FINISH_STOP);
    check_job(&a, 256);
    CHECK(is_consistent(engine));
    lk_engine_destroy(engine);
}

static void wait_ms(long ms) {
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&t, NULL);
}

static void slow_step(void *ctx) {
    (void)ctx;
    wait_ms(5);
}

LK_TEST(cancel_and_deadline) {
    lk_engine *engine = make_engine(1, 256, 32, 0);
    static job jobs[4];
    fake.on_step = slow_step;
    for (int i = 0; i < 4; i++) {
        job_init(&jobs[i]);
        fill_prompt(&jobs[i], (uint32_t)i, 20);
        jobs[i].params.max_tokens = 200;
    }
    jobs[1].params.timeout_ms = 20; /* passes while it waits */
    jobs[2].params.max_tokens = 3;
    jobs[3].params.timeout_ms = 100; /* passes while it runs, or earlier on a busy machine */
    submit(engine, &jobs[0]);
    submit(engine, &jobs[1]);
    submit(engine, &jobs[2]);
    wait_ms(40);
    lk_request_cancel(jobs[0].request);
    finish(&jobs[0]);
    finish(&jobs[1]);
    finish(&jobs[2]);
    submit(engine, &jobs[3]);
    finish(&jobs[3]);
    CHECK(jobs[0].outcomes[0].finish == LK_FINISH_CANCELLED);
    CHECK(jobs[1].outcomes[0].finish == LK_FINISH_DEADLINE && jobs[1].outcomes[0].n == 0);
    CHECK(jobs[2].outcomes[0].finish == LK_FINISH_LENGTH);
    CHECK(jobs[3].outcomes[0].finish == LK_FINISH_DEADLINE && jobs[3].outcomes[0].n < 200);
    for (int i = 0; i < 4; i++) {
        check_job(&jobs[i], 256);
    }
    CHECK(is_consistent(engine));
    /* Releasing what runs cancels it; destroying the engine ends what is left. */
    for (int i = 0; i < 3; i++) {
        job_init(&jobs[i]);
        fill_prompt(&jobs[i], (uint32_t)i, 20);
        jobs[i].params.max_tokens = 200;
        submit(engine, &jobs[i]);
    }
    lk_request_release(jobs[0].request);
    lk_engine_destroy(engine);
    for (int i = 0; i < 3; i++) {
        CHECK(jobs[i].n_done == 1 && jobs[i].outcomes[0].finish == LK_FINISH_CANCELLED);
        check_job(&jobs[i], 256);
    }
    CHECK_STATUS(LK_OK, lk_request_wait(jobs[1].request, 1, NULL));
    lk_request_release(jobs[1].request);
    lk_request_release(jobs[2].request);
    fake.on_step = NULL;
}

LK_TEST(errors_stay_alone) {
    lk_engine *engine = make_engine(4, 1000, 32, 0);
    static job jobs[3];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) {
            job_init(&jobs[i]);
            fill_prompt(&jobs[i], (uint32_t)(10 * round + i), 40);
        }
        jobs[1].prompt[25] = FAKE_BAD_TOKEN;
        for (int i = 0; i < 3; i++) {
            submit(engine, &jobs[i]);
        }
        for (int i = 0; i < 3; i++) {
            finish(&jobs[i]);
        }
        CHECK(jobs[1].outcomes[0].finish == LK_FINISH_ERROR &&
              jobs[1].outcomes[0].error == LK_E_NONFINITE && jobs[1].outcomes[0].n == 0);
        check_job(&jobs[0], 256);
        check_job(&jobs[2], 256);
        CHECK(jobs[0].outcomes[0].finish == LK_FINISH_LENGTH);
    }
    /* A device that fails ends what was in the step; what comes later is well. */
    fake.fail_step_at = 3;
    job_init(&jobs[0]);
    fill_prompt(&jobs[0], 77, 40);
    submit(engine, &jobs[0]);
    finish(&jobs[0]);
    CHECK(jobs[0].outcomes[0].finish == LK_FINISH_ERROR &&
          jobs[0].outcomes[0].error == LK_E_DEVICE);
    job_init(&jobs[0]);
    fill_prompt(&jobs[0], 77, 40);
    submit(engine, &jobs[0]);
    finish(&jobs[0]);
    CHECK(jobs[0].outcomes[0].finish == LK_FINISH_LENGTH);
    check_job(&jobs[0], 256);
    /* A bias that bans everything is seen when sampling. */
    static lk_logit_bias ban[FAKE_VOCAB];
    for (int32_t i = 0; i < FAKE_VOCAB; i++) {
        ban[i] = (lk_logit_bias){i, -INFINITY};
    }
    job_init(&jobs[0]);
    fill_prompt(&jobs[0], 78, 40);
    jobs[0].sampler.logit_bias = ban;
    jobs[0].sampler.n_logit_bias = FAKE_VOCAB;
    submit(engine, &jobs[0]);
    finish(&jobs[0]);
    CHECK(jobs[0].outcomes[0].finish == LK_FINISH_ERROR && jobs[0].outcomes[0].error == LK_E_ARG);
    CHECK(is_consistent(engine));
    lk_engine_destroy(engine);
}

/* ---- limits and arguments ---- */

static lk_status try_submit(lk_engine *engine, job *j, lk_error *err) {
    lk_request *request = NULL;
    j->params.prompt = j->prompt;
    j->params.n_prompt = j->n_prompt;
    j->params.sampler = &j->sampler;
    j->params.on_event = on_event;
    j->params.ctx = j;
    const lk_status status = lk_engine_submit(engine, &j->params, &request, err);
    CHECK((status == LK_OK) == (request != NULL));
    if (status == LK_OK) {
        (void)lk_request_wait(request, 0, NULL);
    }
    lk_request_release(request);
    return status;
}

#define REFUSED(status, what, change)                                                              \
    do {                                                                                           \
        job_init(&j);                                                                              \
        fill_prompt(&j, 1, 20);                                                                    \
        change;                                                                                    \
        CHECK_STATUS(status, try_submit(engine, &j, &err));                                        \
        CHECK_MSG(strcmp(err.subject, what) == 0, "subject %s, expected %s", err.subject, what);   \
        CHECK(j.n_done == 0);                                                                      \
    } while (0)

LK_TEST(refused_requests) {
    lk_error err;
    static job j;
    lk_engine *engine = make_engine(1, 100, 32, 0);
    CHECK(engine->params.n_ctx == 100);
    REFUSED(LK_E_ARG, "prompt", j.n_prompt = 0);
    REFUSED(LK_E_LIMIT, "prompt", fill_prompt(&j, 1, 101));
    REFUSED(LK_E_ARG, "prompt", j.prompt[3] = FAKE_VOCAB);
    REFUSED(LK_E_ARG, "prompt", j.prompt[3] = -1);
    REFUSED(LK_E_ARG, "max_tokens", j.params.max_tokens = -2);
    REFUSED(LK_E_ARG, "n_choices", j.params.n_choices = 0);
    REFUSED(LK_E_ARG, "n_choices", j.params.n_choices = LK_MAX_CHOICES + 1);
    REFUSED(LK_E_ARG, "n_top_logprobs", j.params.n_top_logprobs = LK_MAX_TOP_LOGPROBS + 1);
    REFUSED(LK_E_ARG, "flags", j.params.flags = 1u << 20);
    REFUSED(LK_E_ARG, "struct_size", j.params.struct_size--);
    REFUSED(LK_E_ARG, "reserved", j.params.reserved = 1);
    REFUSED(LK_E_ARG, "temperature", j.sampler.temperature = NAN);
    REFUSED(LK_E_ARG, "top_p", j.sampler.top_p = 2);
    job_init(&j);
    CHECK_STATUS(LK_E_ARG, lk_engine_submit(engine, NULL, &j.request, &err));
    CHECK_STATUS(LK_E_ARG, lk_engine_submit(NULL, &j.params, &j.request, &err));
    CHECK_STATUS(LK_E_ARG, lk_request_wait(NULL, 0, &err));
    lk_request_cancel(NULL);
    lk_request_release(NULL);
    lk_engine_destroy(NULL);
    lk_engine_destroy(engine);

    lk_engine_params params = LK_ENGINE_PARAMS_INIT;
    const struct {
        const char *name;
        int32_t n_slots, max_rows, max_queued;
        int64_t kv_positions, n_ctx;
        uint32_t flags;
    } bad[] = {
        {"n_slots", 0, 64, 8, 0, 0, 0},       {"max_rows", 8, 7, 8, 0, 0, 0},
        {"max_rows", 1, 4097, 8, 0, 0, 0},    {"max_queued", 1, 64, 0, 0, 0, 0},
        {"kv_positions", 1, 64, 8, -1, 0, 0}, {"n_ctx", 1, 64, 8, 100, 101, 0},
        {"n_ctx", 1, 64, 8, 0, -1, 0},        {"flags", 1, 64, 8, 0, 0, 8},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        params.n_slots = bad[i].n_slots;
        params.max_rows = bad[i].max_rows;
        params.max_queued = bad[i].max_queued;
        params.kv_positions = bad[i].kv_positions;
        params.n_ctx = bad[i].n_ctx;
        params.flags = bad[i].flags;
        CHECK_STATUS(LK_E_ARG, fake_engine(&params, &engine, &err));
        CHECK_MSG(strcmp(err.subject, bad[i].name) == 0, "%s", err.message);
        CHECK(engine == NULL);
    }
}

LK_TEST(full_queue) {
    lk_error err;
    lk_engine *engine = NULL;
    static job jobs[6];
    lk_engine_params params = LK_ENGINE_PARAMS_INIT;
    params.n_threads = 1;
    params.max_queued = 3;
    fake.on_step = slow_step;
    REQUIRE_OK(fake_engine(&params, &engine, &err), err);
    job_init(&jobs[0]);
    fill_prompt(&jobs[0], 0, 20);
    jobs[0].params.n_choices = 3;
    submit(engine, &jobs[0]);
    while (stats_of(engine).n_running == 0) {
        wait_ms(1);
    }
    /* Two choices of the first still wait. */
    job_init(&jobs[1]);
    fill_prompt(&jobs[1], 1, 20);
    submit(engine, &jobs[1]);
    job_init(&jobs[2]);
    fill_prompt(&jobs[2], 2, 20);
    jobs[2].params.n_choices = 2;
    CHECK_STATUS(LK_E_LIMIT, try_submit(engine, &jobs[2], &err));
    CHECK(strcmp(err.subject, "queue") == 0);
    jobs[2].params.n_choices = 4;
    CHECK_STATUS(LK_E_ARG, try_submit(engine, &jobs[2], &err));
    finish(&jobs[0]);
    finish(&jobs[1]);
    check_job(&jobs[0], 256);
    check_job(&jobs[1], 256);
    /* Not for ever. */
    jobs[2].params.n_choices = 2;
    CHECK_STATUS(LK_OK, try_submit(engine, &jobs[2], &err));
    check_job(&jobs[2], 256);
    fake.on_step = NULL;
    lk_engine_destroy(engine);
}

LK_TEST(slots) {
    lk_error err;
    static job j;
    int64_t n = -1;
    lk_engine *engine = make_engine(2, 400, 32, 0);
    lk_slot_info info = LK_SLOT_INFO_INIT;
    CHECK_STATUS(LK_OK, lk_engine_get_slot(engine, 1, &info, &err));
    CHECK(info.state == LK_SLOT_IDLE && info.n_positions == 0);
    CHECK_STATUS(LK_E_ARG, lk_engine_get_slot(engine, 2, &info, &err));
    CHECK_STATUS(LK_E_ARG, lk_engine_slot_erase(engine, -1, &n, &err));
    job_init(&j);
    fill_prompt(&j, 4, 100);
    submit(engine, &j);
    finish(&j);
    while (stats_of(engine).n_running != 0) {
        wait_ms(1);
    }
    CHECK_STATUS(LK_E_UNSUPPORTED, lk_engine_slot_save(engine, 0, "x", &n, &err));
    CHECK_STATUS(LK_OK, lk_engine_slot_erase(engine, 0, &n, &err));
    CHECK(n == 115);
    CHECK_STATUS(LK_OK, lk_engine_get_slot(engine, 0, &info, &err));
    CHECK(info.n_positions == 0);
    fake.on_step = slow_step;
    job_init(&j);
    fill_prompt(&j, 4, 100);
    j.params.max_tokens = 100;
    submit(engine, &j);
    do {
        CHECK_STATUS(LK_OK, lk_engine_get_slot(engine, 0, &info, &err));
    } while (info.state != LK_SLOT_GENERATING);
    CHECK(info.request_id == 2 && info.n_prompt == 100 && info.n_cached == 99);
    CHECK_STATUS(LK_E_BUSY, lk_engine_slot_erase(engine, 0, &n, &err));
    lk_request_release(j.request);
    lk_engine_destroy(engine);
    fake.on_step = NULL;
}

/* Every allocation that creating an engine and running a request makes fails once. */
LK_TEST(short_memory) {
    lk_error err;
    static job j;
    lk_test_allocator memory;
    lk_engine_params params = LK_ENGINE_PARAMS_INIT;
    params.n_threads = 1;
    params.allocator = &memory.base;
    uint64_t n_calls = 0;
    for (uint64_t n = 0; n <= n_calls; n++) {
        lk_engine *engine = NULL;
        lk_test_allocator_init(&memory);
        memory.fail_at = n;
        lk_status status = fake_engine(&params, &engine, &err);
        CHECK((status == LK_OK) == (engine != NULL));
        if (status == LK_OK) {
            job_init(&j);
            fill_prompt(&j, 1, 30);
            j.sampler.temperature = 1;
            status = try_submit(engine, &j, &err);
            if (status == LK_OK && j.outcomes[0].finish == LK_FINISH_ERROR) {
                status = j.outcomes[0].error;
            } else if (status == LK_OK) {
                check_job(&j, 256);
            }
        }
        lk_engine_destroy(engine);
        CHECK_MSG(status == (n == 0 ? LK_OK : LK_E_NOMEM), "allocation %llu: %s",
                  (unsigned long long)n, lk_status_name(status));
        CHECK(memory.n_live == 0);
        n_calls = n == 0 ? memory.n_calls : n_calls;
    }
    CHECK(n_calls > 20);
}

LK_TEST_MAIN(LK_RUN(many_requests), LK_RUN(cache_counts), LK_RUN(logprobs), LK_RUN(ends),
             LK_RUN(cancel_and_deadline), LK_RUN(errors_stay_alone), LK_RUN(refused_requests),
             LK_RUN(full_queue), LK_RUN(slots), LK_RUN(short_memory))
