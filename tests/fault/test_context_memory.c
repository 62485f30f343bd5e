/* test_context_memory.c - the n-th allocation fails, for all n, over the fake backend: a clean
 * status, nothing leaks, the context is unharmed. Decoding allocates nothing. */
#include <unistd.h>

#include "engine/state.h"
#include "fake_backend.h"
#include "lk_test.h"

static const uint8_t digest[32] = {9};

static lk_context_params params_with(lk_test_allocator *t) {
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.allocator = &t->base;
    params.n_sequences = 3;
    params.kv_positions = 300;
    params.max_rows = 16;
    params.n_threads = 1;
    return params;
}

static lk_context *make(lk_test_allocator *t) {
    lk_error err;
    lk_context *c = NULL;
    lk_test_allocator_init(t);
    const lk_context_params params = params_with(t);
    REQUIRE_OK(fake_context(&params, &c, &err), err);
    return c;
}

static void extend(lk_context *c, int32_t seq, int64_t n) {
    lk_error err;
    lk_row rows[200];
    int64_t pos = 0;
    REQUIRE_OK(lk_sequence_length(c, seq, &pos, &err), err);
    for (int64_t i = 0; i < n; i++, pos++) {
        rows[i] = (lk_row){(int32_t)(pos % FAKE_BAD_TOKEN), seq, pos, LK_ROW_LOGITS, 0};
    }
    REQUIRE_OK(lk_context_decode(c, rows, (size_t)n, NULL, &err), err);
}

LK_TEST(creating) {
    uint64_t n = 1;
    for (bool is_done = false; !is_done; n++) {
        lk_test_allocator t;
        lk_error err = {0};
        lk_context *c = NULL;
        lk_test_allocator_init(&t);
        t.fail_at = n;
        const lk_context_params params = params_with(&t);
        const lk_status status = fake_context(&params, &c, &err);
        is_done = t.n_failed == 0;
        CHECK_STATUS(is_done ? LK_OK : LK_E_NOMEM, status);
        CHECK(is_done || (c == NULL && t.n_live == 0));
        lk_context_destroy(c);
        CHECK(t.n_live == 0 && t.live_bytes == 0);
    }
    CHECK(n > 10);
}

LK_TEST(decoding_allocates_nothing) {
    lk_test_allocator t;
    lk_error err;
    lk_context *c = make(&t);
    const uint64_t before = t.n_calls;
    extend(c, 0, 100);
    REQUIRE_OK(lk_sequence_fork(c, 0, 1, 90, &err), err);
    extend(c, 1, 40);
    REQUIRE_OK(lk_sequence_truncate(c, 1, 3, &err), err);
    CHECK(t.n_calls == before);
    lk_context_destroy(c);
    CHECK(t.n_live == 0);
}

LK_TEST(saving_and_loading) {
    char path[128];
    (void)snprintf(path, sizeof path, "test_context_memory.%ld.lkstate", (long)getpid());
    lk_test_allocator t;
    lk_error err;
    lk_context *c = make(&t);
    extend(c, 0, 100);
    extend(c, 1, 20);
    uint64_t n_failures = 0;
    for (int is_load = 0; is_load < 2; is_load++) {
        lk_status status = LK_E_NOMEM;
        for (uint64_t n = 1; status != LK_OK; n++) {
            const int64_t n_live = t.n_live;
            t.n_calls = 0;
            t.fail_at = n;
            status = is_load ? lk_state_load(c, 1, path, digest, &err)
                             : lk_state_save(c, 0, path, digest, &err);
            CHECK(status == LK_OK || status == LK_E_NOMEM);
            CHECK(t.n_live == n_live && fake_is_consistent(c));
            CHECK(is_load || (status == LK_OK) == (access(path, F_OK) == 0));
            CHECK(c->seqs[1].length == (is_load && status == LK_OK ? 100 : 20));
            n_failures += status != LK_OK;
        }
    }
    CHECK(n_failures >= 4);
    t.fail_at = 0;
    extend(c, 1, 10);
    lk_context_destroy(c);
    CHECK(t.n_live == 0);
    (void)unlink(path);
}

LK_TEST_MAIN(LK_RUN(creating), LK_RUN(decoding_allocates_nothing), LK_RUN(saving_and_loading))
