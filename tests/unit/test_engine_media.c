/* test_engine_media.c - vectors in the place of a prompt's tokens, over the fake backend: each
 * request gets what it gets alone, the prefix cache finds a clip again and never takes one for
 * another, and spans that do not fit are refused. Random traffic with them is in test_engine.c. */
#include <math.h>

#include "fake_backend.h"
#include "lk_test.h"

enum { N_PROMPT = 200, FIRST = 10, N_TOKENS = 12 };

typedef struct heard {
    int32_t tokens[N_TOKENS];
    uint8_t digests[N_TOKENS][16];
    int64_t n;
    int64_t n_cached;
} heard;

static int on_event(void *ctx, const lk_event *event) {
    heard *h = ctx;
    if (event->kind == LK_EVENT_TOKEN && h->n < N_TOKENS) {
        memcpy(h->digests[h->n], event->digest, 16);
        h->tokens[h->n++] = event->token;
    } else if (event->kind == LK_EVENT_END) {
        CHECK(event->finish == LK_FINISH_LENGTH);
        h->n_cached = event->n_cached;
    }
    return 1;
}

static int32_t prompt[N_PROMPT + N_TOKENS];
static float vectors[2][N_PROMPT][FAKE_EMBD];

static void fill(void) {
    for (int32_t i = 0; i < N_PROMPT; i++) {
        prompt[i] = i * 5 % FAKE_BAD_TOKEN;
        for (int32_t k = 0; k < FAKE_EMBD; k++) {
            vectors[0][i][k] = (float)(i * 3 + k);
            vectors[1][i][k] = (float)(i * 3 + k) + 0.5f;
        }
    }
}

static lk_engine *make_engine(void) {
    lk_error err;
    lk_engine *engine = NULL;
    lk_engine_params params = LK_ENGINE_PARAMS_INIT;
    params.n_threads = 1;
    params.n_slots = 2;
    params.kv_positions = 2000;
    params.max_rows = 48;
    params.flags = LK_ENGINE_POISON;
    REQUIRE_OK(fake_engine(&params, &engine, &err), err);
    return engine;
}

/* Greedy; the fake's bad token is banned. */
static lk_request_params request_of(heard *h, lk_sampler_params *sampler) {
    static const lk_logit_bias ban = {FAKE_BAD_TOKEN, -INFINITY};
    *sampler = LK_SAMPLER_PARAMS_INIT;
    sampler->temperature = 0;
    sampler->logit_bias = &ban;
    sampler->n_logit_bias = 1;
    lk_request_params params = LK_REQUEST_PARAMS_INIT;
    params.prompt = prompt;
    params.n_prompt = N_PROMPT;
    params.sampler = sampler;
    params.max_tokens = N_TOKENS;
    params.flags = LK_REQUEST_DIGESTS;
    params.on_event = on_event;
    params.ctx = h;
    return params;
}

/* What the definition gives for n vectors of a clip from token FIRST on. */
static void check_alone(const heard *h, int clip, size_t n) {
    static int32_t tokens[N_PROMPT + N_TOKENS];
    static const float *embeddings[N_PROMPT + N_TOKENS];
    memcpy(tokens, prompt, sizeof tokens);
    memset(embeddings, 0, sizeof embeddings);
    for (size_t i = FIRST; i < FIRST + n; i++) {
        embeddings[i] = vectors[clip][i];
    }
    CHECK(h->n == N_TOKENS);
    for (size_t i = 0; i < N_TOKENS; i++) {
        float logits[FAKE_VOCAB];
        uint8_t digest[16];
        fake_logits_of(tokens, embeddings, N_PROMPT + i, logits);
        lk_logits_digest(logits, FAKE_VOCAB, digest);
        CHECK(memcmp(digest, h->digests[i], 16) == 0);
        tokens[N_PROMPT + i] = h->tokens[i];
    }
}

LK_TEST(cache_tells_clips_apart) {
    /* The last row is always computed, and fewer than 8 positions of a page are not taken. */
    static const struct {
        int clip;
        size_t n; /* vectors */
        int64_t n_cached;
    } steps[] = {{0, 0, 0},     {0, 100, 10}, {0, 100, 192}, {1, 100, 10},
                 {1, 100, 192}, {0, 99, 109}, {0, 100, 192}, {0, 0, 192}};
    lk_engine *engine = make_engine();
    fill();
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        lk_error err;
        lk_sampler_params sampler;
        heard h = {.n = 0};
        lk_request_params params = request_of(&h, &sampler);
        const lk_media_span span = {FIRST, steps[i].n, vectors[steps[i].clip][FIRST]};
        params.media = &span;
        params.n_media = steps[i].n != 0 ? 1 : 0;
        lk_request *request = NULL;
        REQUIRE_OK(lk_engine_submit(engine, &params, &request, &err), err);
        REQUIRE_OK(lk_request_wait(request, 60000, &err), err);
        lk_request_release(request);
        check_alone(&h, steps[i].clip, steps[i].n);
        CHECK_MSG(h.n_cached == steps[i].n_cached, "step %zu: %lld cached, expected %lld", i,
                  (long long)h.n_cached, (long long)steps[i].n_cached);
    }
    lk_engine_destroy(engine);
}

LK_TEST(spans_are_checked) {
    const float *v = vectors[0][0];
    const lk_media_span spans[][2] = {
        {{0, 0, v}, {0, 0, NULL}},       {{190, 11, v}, {0, 0, NULL}},
        {{201, 1, v}, {0, 0, NULL}},     {{5, 5, NULL}, {0, 0, NULL}},
        {{5, 5, v}, {9, 1, v}},          {{5, SIZE_MAX, v}, {0, 0, NULL}},
        {{SIZE_MAX, 1, v}, {0, 0, NULL}}};
    lk_engine *engine = make_engine();
    fill();
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        lk_error err;
        lk_sampler_params sampler;
        lk_request *request = NULL;
        heard h = {.n = 0};
        lk_request_params params = request_of(&h, &sampler);
        params.media = spans[i];
        params.n_media = spans[i][1].n != 0 ? 2 : 1;
        CHECK_STATUS(LK_E_ARG, lk_engine_submit(engine, &params, &request, &err));
        CHECK(strcmp(err.subject, "media") == 0 && request == NULL);
        params.n_media = LK_MAX_MEDIA + 1;
        CHECK_STATUS(LK_E_ARG, lk_engine_submit(engine, &params, &request, &err));
        const lk_media_span infinite = {5, 5, v};
        params.media = &infinite;
        params.n_media = 1;
        vectors[0][4][2] = INFINITY;
        CHECK_STATUS(LK_E_NONFINITE, lk_engine_submit(engine, &params, &request, &err));
        CHECK(strstr(err.message, "value 2 of vector 4") != NULL);
        vectors[0][4][2] = 0.0f;
    }
    lk_engine_destroy(engine);
}

LK_TEST_MAIN(LK_RUN(cache_tells_clips_apart), LK_RUN(spans_are_checked))
