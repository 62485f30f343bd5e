/* test_cancel.c - a cancelled request is out before the next step, over the fake backend: its pages
 * are free then, or, kept by the prefix cache, there for whoever needs them. labels: threads */
#include <math.h>
#include <sched.h>
#include <stdatomic.h>

#include "engine/scheduler/scheduler.h"
#include "fake_backend.h"
#include "lk_test.h"

enum { MAX_PROMPT = 200, CANCEL_AT = 5 };

/* What the steps see; the engine's thread writes until all is done. */
typedef struct watch {
    lk_engine *engine;
    lk_request *request; /* cancelled during step CANCEL_AT; NULL: none */
    atomic_bool may_step;
    int n_steps;
    uint32_t n_free[CANCEL_AT + 3]; /* pages, when a step has its own */
    int32_t n_running[CANCEL_AT + 3];
    uint64_t oldest[CANCEL_AT + 3]; /* the request that is computed first */
} watch;

static void on_step(void *ctx) {
    watch *w = ctx;
    while (!atomic_load(&w->may_step)) {
        (void)sched_yield();
    }
    const int i = w->n_steps++;
    if (i >= CANCEL_AT + 3) {
        return;
    }
    w->n_free[i] = w->engine->context->kv.pages.n_free;
    w->n_running[i] = w->engine->n_running;
    w->oldest[i] = w->engine->running[0]->request->id;
    if (i == CANCEL_AT && w->request != NULL) {
        lk_request_cancel(w->request);
    }
}

static int on_event(void *ctx, const lk_event *event) {
    if (event->kind == LK_EVENT_END) {
        *(lk_finish *)ctx = event->finish;
    }
    return 1;
}

static lk_engine *make_engine(int32_t n_slots, int64_t kv_positions) {
    lk_error err;
    lk_engine *engine = NULL;
    lk_engine_params params = LK_ENGINE_PARAMS_INIT;
    params.n_slots = n_slots;
    params.kv_positions = kv_positions;
    params.max_rows = 16;
    params.n_threads = 1;
    REQUIRE_OK(fake_engine(&params, &engine, &err), err);
    return engine;
}

static lk_request *submit(lk_engine *engine, size_t n_prompt, uint32_t flags, lk_finish *finish) {
    static const lk_logit_bias ban = {FAKE_BAD_TOKEN, -INFINITY};
    lk_error err;
    lk_request *request = NULL;
    int32_t prompt[MAX_PROMPT];
    lk_sampler_params sampler = LK_SAMPLER_PARAMS_INIT;
    lk_request_params params = LK_REQUEST_PARAMS_INIT;
    for (size_t i = 0; i < n_prompt; i++) {
        prompt[i] = (int32_t)((i * 5 + n_prompt) % (FAKE_VOCAB - 1));
    }
    sampler.logit_bias = &ban;
    sampler.n_logit_bias = 1;
    params.prompt = prompt;
    params.n_prompt = n_prompt;
    params.sampler = &sampler;
    params.max_tokens = 40;
    params.flags = flags;
    params.on_event = on_event;
    params.ctx = finish;
    REQUIRE_OK(lk_engine_submit(engine, &params, &request, &err), err);
    return request;
}

static void finish(lk_request *request) {
    lk_error err;
    REQUIRE_OK(lk_request_wait(request, 60000, &err), err);
    lk_request_release(request);
}

static void begin(watch *w, lk_engine *engine) {
    memset(w, 0, sizeof *w);
    w->engine = engine;
    fake.on_step = on_step;
    fake.ctx = w;
}

static void end(lk_engine *engine) {
    lk_engine_destroy(engine);
    fake.on_step = NULL;
}

/* 150 positions in steps of 16 rows: in step 5 the prompt is at its second page. */
static void cancel_one(uint32_t flags) {
    watch w;
    lk_finish first = 0;
    lk_finish second = 0;
    lk_engine *engine = make_engine(1, 200);
    begin(&w, engine);
    const uint32_t n_pages = engine->context->kv.pages.n_pages;
    atomic_store(&w.may_step, false); /* no step before both are there */
    w.request = submit(engine, 150, flags, &first);
    /* Needs every page that there is, and waits for the slot. */
    lk_request *other = submit(engine, 190, flags, &second);
    atomic_store(&w.may_step, true);
    finish(other);
    finish(w.request);
    CHECK(first == LK_FINISH_CANCELLED && second != 0 && second != LK_FINISH_ERROR);
    CHECK(w.oldest[CANCEL_AT] == 1 && w.n_free[CANCEL_AT] < n_pages);
    /* The very next step is the other one's, with no page of the first but those that it could
     * have had from the cache (none of them agrees). */
    CHECK(w.n_steps > CANCEL_AT + 1 && w.oldest[CANCEL_AT + 1] == 2);
    CHECK(w.n_running[CANCEL_AT + 1] == 1);
    if (flags == LK_REQUEST_NO_CACHE) {
        CHECK_MSG(w.n_free[CANCEL_AT + 1] == n_pages - 1, "%u of %u pages free",
                  w.n_free[CANCEL_AT + 1], n_pages);
    }
    end(engine);
}

LK_TEST(pages_are_free_before_the_next_step) {
    cancel_one(LK_REQUEST_NO_CACHE);
}

LK_TEST(cached_pages_are_there_for_others) {
    cancel_one(0);
}

/* A waiting request leaves the queue before the next step too. */
LK_TEST(waiting_requests_leave) {
    watch w;
    lk_finish first = 0;
    lk_finish second = 0;
    lk_engine_stats stats = LK_ENGINE_STATS_INIT;
    lk_error err;
    lk_engine *engine = make_engine(1, 200);
    begin(&w, engine);
    atomic_store(&w.may_step, false); /* the first one cannot end before the other is cancelled */
    lk_request *running = submit(engine, 150, 0, &first);
    lk_request *waiting = submit(engine, 50, 0, &second);
    lk_request_cancel(waiting);
    atomic_store(&w.may_step, true);
    finish(waiting);
    CHECK(second == LK_FINISH_CANCELLED);
    finish(running);
    CHECK(first == LK_FINISH_LENGTH);
    REQUIRE_OK(lk_engine_get_stats(engine, &stats, &err), err);
    CHECK(stats.n_waiting == 0 && stats.n_prompt_tokens == 150);
    end(engine);
}

LK_TEST_MAIN(LK_RUN(pages_are_free_before_the_next_step), LK_RUN(cached_pages_are_there_for_others),
             LK_RUN(waiting_requests_leave))
