/* test_threads_context.c - two threads in one context, over the fake backend and with a real model:
 * one is served, the other gets LK_E_BUSY at once and disturbs nothing; cancelling from another
 * thread. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "fake_backend.h"
#include "lk_test.h"
#include "real_context.h"

static lk_context *make(void) {
    lk_error err;
    lk_context *c = NULL;
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_sequences = 2;
    params.kv_positions = 4000;
    params.max_rows = 8;
    params.n_threads = 1;
    REQUIRE_OK(fake_context(&params, &c, &err), err);
    return c;
}

/* ---- a first step that waits until the main thread has tried everything ---- */

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_inside;
    bool may_leave;
} gate;

static void wait_at_gate(void *ctx) {
    gate *g = ctx;
    (void)pthread_mutex_lock(&g->lock);
    const bool is_first = !g->is_inside;
    g->is_inside = true;
    (void)pthread_cond_broadcast(&g->changed);
    while (is_first && !g->may_leave) {
        (void)pthread_cond_wait(&g->changed, &g->lock);
    }
    (void)pthread_mutex_unlock(&g->lock);
}

typedef struct job {
    lk_context *context;
    lk_status status;
    float logits[FAKE_VOCAB];
} job;

static void *decode_two(void *arg) {
    job *j = arg;
    const float *logits = NULL;
    const lk_row rows[2] = {{3, 0, 0, 0, 0}, {4, 0, 1, LK_ROW_LOGITS, 0}};
    j->status = lk_context_decode(j->context, rows, 2, NULL, NULL);
    if (j->status == LK_OK && lk_context_logits(j->context, 1, &logits, NULL) == LK_OK) {
        memcpy(j->logits, logits, sizeof j->logits);
    }
    return NULL;
}

static void try_everything(lk_context *c) {
    const lk_row row = {1, 1, 0, LK_ROW_LOGITS, 0};
    const float *logits = NULL;
    int64_t length = 0;
    size_t n_tokens = 0;
    int32_t tokens[4];
    lk_context_stats stats = LK_CONTEXT_STATS_INIT;
    CHECK_STATUS(LK_E_BUSY, lk_context_decode(c, &row, 1, NULL, NULL));
    CHECK_STATUS(LK_E_BUSY, lk_context_logits(c, 0, &logits, NULL));
    CHECK_STATUS(LK_E_BUSY, lk_sequence_length(c, 0, &length, NULL));
    CHECK_STATUS(LK_E_BUSY, lk_sequence_tokens(c, 0, tokens, 4, &n_tokens, NULL));
    CHECK_STATUS(LK_E_BUSY, lk_sequence_clear(c, 0, NULL));
    CHECK_STATUS(LK_E_BUSY, lk_sequence_truncate(c, 0, 0, NULL));
    CHECK_STATUS(LK_E_BUSY, lk_sequence_fork(c, 0, 1, -1, NULL));
    CHECK_STATUS(LK_E_BUSY, lk_sequence_save(c, 0, "unused", NULL));
    CHECK_STATUS(LK_E_BUSY, lk_sequence_load(c, 0, "unused", NULL));
    CHECK_STATUS(LK_E_BUSY, lk_context_get_stats(c, &stats, NULL));
}

LK_TEST(the_second_thread_is_refused) {
    gate g = {.is_inside = false};
    (void)pthread_mutex_init(&g.lock, NULL);
    (void)pthread_cond_init(&g.changed, NULL);
    fake = (fake_control){.on_step = wait_at_gate, .ctx = &g};
    job j = {.context = make(), .status = LK_E_INTERNAL};
    pthread_t thread;
    if (pthread_create(&thread, NULL, decode_two, &j) != 0) {
        lk_test_skip("no thread could be started");
    }
    (void)pthread_mutex_lock(&g.lock);
    while (!g.is_inside) {
        (void)pthread_cond_wait(&g.changed, &g.lock);
    }
    (void)pthread_mutex_unlock(&g.lock);
    try_everything(j.context);
    (void)pthread_mutex_lock(&g.lock);
    g.may_leave = true;
    (void)pthread_cond_broadcast(&g.changed);
    (void)pthread_mutex_unlock(&g.lock);
    (void)pthread_join(thread, NULL);

    static const int32_t tokens[2] = {3, 4};
    float wanted[FAKE_VOCAB];
    fake_logits(tokens, 2, wanted);
    CHECK(j.status == LK_OK && memcmp(j.logits, wanted, sizeof wanted) == 0);
    CHECK(fake_is_consistent(j.context) && j.context->seqs[1].length == 0);
    fake = (fake_control){0};
    lk_context_destroy(j.context);
    (void)pthread_cond_destroy(&g.changed);
    (void)pthread_mutex_destroy(&g.lock);
}

/* ---- two threads that try hard ---- */

typedef struct worker {
    lk_context *context;
    int32_t seq;
    uint64_t n_ok;
    uint64_t n_busy;
    uint64_t n_other;
} worker;

enum { SERVED_CALLS = 3000, MOST_POSITIONS = 100 };

/* Counts a call; true when it was served. */
static bool count(worker *w, lk_status status) {
    w->n_ok += status == LK_OK;
    w->n_busy += status == LK_E_BUSY;
    w->n_other += status != LK_OK && status != LK_E_BUSY;
    if (status == LK_E_BUSY) {
        (void)sched_yield(); /* the other one may have been stopped inside */
    }
    return status == LK_OK;
}

/* Extends its own sequence by one token whenever it gets in, and clears it when it is long. */
static void *try_hard(void *arg) {
    worker *w = arg;
    int64_t length = 0;
    while (w->n_ok < SERVED_CALLS && w->n_other == 0) {
        const lk_row row = {(int32_t)(length % FAKE_BAD_TOKEN), w->seq, length, 0, 0};
        if (length == MOST_POSITIONS) {
            length = count(w, lk_sequence_clear(w->context, w->seq, NULL)) ? 0 : length;
        } else {
            length += count(w, lk_context_decode(w->context, &row, 1, NULL, NULL));
        }
    }
    return NULL;
}

static void let_others_run(void *ctx) {
    (void)ctx;
    (void)sched_yield();
}

static uint64_t run_both(lk_context *c, uint64_t *n_served) {
    worker workers[2] = {{.context = c, .seq = 0}, {.context = c, .seq = 1}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(lk_sequence_clear(c, i, NULL), (lk_error){0});
    }
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, try_hard, &workers[i]) != 0) {
            lk_test_skip("no thread could be started");
        }
    }
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(threads[i], NULL);
        CHECK(workers[i].n_other == 0 && workers[i].n_ok == SERVED_CALLS);
        *n_served += workers[i].n_ok;
    }
    return workers[0].n_busy + workers[1].n_busy;
}

LK_TEST(two_threads_that_try_hard) {
    uint64_t n_served = 0;
    uint64_t n_refused = 0;
    lk_context *c = make();
    fake = (fake_control){.on_step = let_others_run};
    /* On a loaded machine the first thread can be done before the second begins: then again. */
    for (int round = 0; round < 100 && n_refused == 0; round++) {
        n_refused = run_both(c, &n_served);
    }
    (void)printf("%llu calls served, %llu refused\n", (unsigned long long)n_served,
                 (unsigned long long)n_refused);
    CHECK(n_refused > 0);
    CHECK(fake.n_violations == 0 && fake_is_consistent(c));
    fake = (fake_control){0};

    /* What they left is right: the next row sees exactly their tokens. */
    for (int32_t seq = 0; seq < 2; seq++) {
        int32_t tokens[MOST_POSITIONS + 1];
        size_t n = 0;
        float wanted[FAKE_VOCAB];
        const float *logits = NULL;
        lk_error err;
        REQUIRE_OK(lk_sequence_tokens(c, seq, tokens, MOST_POSITIONS, &n, &err), err);
        const lk_row row = {7, seq, (int64_t)n, LK_ROW_LOGITS, 0};
        REQUIRE_OK(lk_context_decode(c, &row, 1, NULL, &err), err);
        REQUIRE_OK(lk_context_logits(c, 0, &logits, &err), err);
        tokens[n] = 7;
        fake_logits(tokens, n + 1, wanted);
        CHECK(memcmp(logits, wanted, sizeof wanted) == 0);
    }
    lk_context_destroy(c);
}

/* ---- the same with a real model, whose steps have threads of their own ---- */

typedef struct real_worker {
    lk_context *context;
    int32_t seq;
    uint64_t n_busy;
    bool is_wrong;
} real_worker;

enum { N_TOKENS = 20, N_VOCAB = 128 };

static void *extend_shared(void *arg) {
    real_worker *w = arg;
    for (int64_t pos = 0; pos < N_TOKENS && !w->is_wrong;) {
        const lk_row row = {token_of(w->seq, pos), w->seq, pos, LK_ROW_LOGITS, 0};
        const lk_status status = lk_context_decode(w->context, &row, 1, NULL, NULL);
        pos += status == LK_OK;
        w->n_busy += status == LK_E_BUSY;
        w->is_wrong = status != LK_OK && status != LK_E_BUSY;
        (void)sched_yield();
    }
    return NULL;
}

LK_TEST(two_threads_in_one_real_context) {
    lk_model *model = open_model(lk_test_data("archs/llama.gguf"));
    lk_context_params params = real_params();
    params.n_threads = 2;
    lk_context *shared = make_real(model, &params);
    real_worker workers[2] = {{.context = shared, .seq = 0}, {.context = shared, .seq = 1}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, extend_shared, &workers[i]) != 0) {
            lk_test_skip("no thread could be started");
        }
    }
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(threads[i], NULL);
        CHECK(!workers[i].is_wrong);
    }
    (void)printf("%llu calls refused\n",
                 (unsigned long long)(workers[0].n_busy + workers[1].n_busy));
    for (int32_t i = 0; i < 2; i++) {
        uint8_t wanted[16];
        uint8_t found[16];
        lk_context *alone = make_real(model, NULL);
        extend_real(alone, 0, i, N_TOKENS);
        digest_of_next(alone, 0, N_VOCAB, wanted);
        digest_of_next(shared, i, N_VOCAB, found);
        CHECK(memcmp(found, wanted, sizeof found) == 0);
        lk_context_destroy(alone);
    }
    lk_context_destroy(shared);
    lk_model_close(model);
}

/* ---- cancelling ---- */

static void *decode_for_ever(void *arg) {
    job *j = arg;
    lk_row rows[2000];
    for (int64_t i = 0; i < 2000; i++) {
        rows[i] = (lk_row){1, 0, i, 0, 0};
    }
    do {
        j->status = lk_context_decode(j->context, rows, 2000, NULL, NULL);
        if (j->status == LK_OK) {
            j->status = lk_sequence_clear(j->context, 0, NULL);
        }
    } while (j->status == LK_OK);
    return NULL;
}

LK_TEST(cancelled_from_another_thread) {
    job j = {.context = make(), .status = LK_E_INTERNAL};
    pthread_t thread;
    if (pthread_create(&thread, NULL, decode_for_ever, &j) != 0) {
        lk_test_skip("no thread could be started");
    }
    lk_context_cancel(j.context);
    (void)pthread_join(thread, NULL);
    CHECK(j.status == LK_E_CANCELLED);
    CHECK(j.context->seqs[0].length == 0 && fake_is_consistent(j.context));
    lk_context_destroy(j.context);
}

LK_TEST_MAIN(LK_RUN(the_second_thread_is_refused), LK_RUN(two_threads_that_try_hard),
             LK_RUN(two_threads_in_one_real_context), LK_RUN(cancelled_from_another_thread))
