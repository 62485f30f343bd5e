/* test_windows.c - layers with sliding windows: the pages that no query can reach go back, how far
 * a sequence can go back then, and that failed calls give back what they took. That no bit changes
 * is the business of the isolation suite. labels: threads */
#include <unistd.h>

#include "engine/context.h"
#include "lk/lk.h"
#include "lk_test.h"

enum { WINDOW = 32, LENGTH = 900, MAX_ROWS = 64, N_VOCAB = 128 };

static lk_model *open_model(void) {
    lk_error err;
    lk_model *model = NULL;
    REQUIRE_OK(lk_model_open(lk_test_data("archs/gemma3.gguf"), NULL, &model, &err), err);
    return model;
}

static lk_context *make_context(lk_model *model, int32_t n_sequences, int64_t kv_positions) {
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_threads = 1;
    params.n_sequences = n_sequences;
    params.kv_positions = kv_positions;
    params.max_rows = MAX_ROWS;
    params.max_logits = 16;
    params.flags = LK_CONTEXT_POISON;
    params.page_seed = 3;
    lk_context *context = NULL;
    lk_error err;
    REQUIRE_OK(lk_context_create(model, &params, &context, &err), err);
    return context;
}

/* The next n tokens of a sequence in one call; the digest of the last row's logits. */
static lk_status feed(lk_context *c, int32_t seq, int64_t n, uint8_t digest[16], lk_error *err) {
    static lk_row rows[LENGTH];
    const int64_t begin = c->seqs[seq].length;
    for (int64_t i = 0; i < n; i++) {
        rows[i] = (lk_row){.token = (int32_t)((begin + i) * 37 % N_VOCAB),
                           .seq = seq,
                           .pos = begin + i,
                           .flags = i + 1 == n ? (uint32_t)LK_ROW_LOGITS : 0u};
    }
    const lk_status status = lk_context_decode(c, rows, (size_t)n, NULL, err);
    const float *logits = NULL;
    if (status == LK_OK) {
        REQUIRE_OK(lk_context_logits(c, (size_t)n - 1, &logits, err), *err);
        lk_logits_digest(logits, N_VOCAB, digest);
    }
    return status;
}

static uint64_t free_window_pages(lk_context *c) {
    lk_context_stats stats = LK_CONTEXT_STATS_INIT;
    lk_error err;
    REQUIRE_OK(lk_context_get_stats(c, &stats, &err), err);
    return stats.window_pages_free;
}

/* Positions 0 .. LENGTH-1 one by one, in cuts, and in one call: the same bits, few pages. */
LK_TEST(bounded_memory) {
    static const int64_t cuts[] = {1, 7, 64, 300, LENGTH};
    lk_model *model = open_model();
    uint8_t expected[16];
    for (size_t k = 0; k < sizeof cuts / sizeof cuts[0]; k++) {
        lk_context *c = make_context(model, 1, 1024);
        lk_context_stats stats = LK_CONTEXT_STATS_INIT;
        lk_error err;
        uint8_t digest[16];
        REQUIRE_OK(lk_context_get_stats(c, &stats, &err), err);
        CHECK(stats.pages_total == 16 && stats.window_pages_total < 14);
        for (int64_t done = 0; done < LENGTH;) {
            const int64_t n = cuts[k] < LENGTH - done ? cuts[k] : LENGTH - done;
            REQUIRE_OK(feed(c, 0, n, digest, &err), err);
            done += n;
            /* kept: the window of the last 64 positions, and the page in progress */
            CHECK(stats.window_pages_total - free_window_pages(c) <= (WINDOW + 64) / 64 + 2);
        }
        memcpy(k == 0 ? expected : digest, digest, sizeof digest);
        CHECK_MSG(memcmp(digest, expected, sizeof digest) == 0, "cut %lld", (long long)cuts[k]);
        int64_t shortest = 0;
        REQUIRE_OK(lk_sequence_shortest(c, 0, &shortest, &err), err);
        CHECK(shortest > 1 && shortest <= LENGTH - 64);
        lk_context_destroy(c);
    }
    lk_model_close(model);
}

LK_TEST(going_back) {
    lk_model *model = open_model();
    lk_context *c = make_context(model, 3, 3072);
    lk_error err;
    uint8_t first[16];
    uint8_t again[16];
    int64_t shortest = -1;
    REQUIRE_OK(lk_sequence_shortest(c, 0, &shortest, &err), err);
    CHECK(shortest == 0);
    REQUIRE_OK(feed(c, 0, 50, first, &err), err);
    REQUIRE_OK(lk_sequence_shortest(c, 0, &shortest, &err), err);
    CHECK(shortest == 1);
    REQUIRE_OK(feed(c, 0, 450, first, &err), err);
    REQUIRE_OK(lk_sequence_shortest(c, 0, &shortest, &err), err);
    CHECK(shortest > 300 && shortest <= 436);
    CHECK_STATUS(LK_E_LIMIT, lk_sequence_truncate(c, 0, shortest - 1, &err));
    CHECK(strstr(err.message, "cannot go back") != NULL);
    CHECK_STATUS(LK_E_LIMIT, lk_sequence_fork(c, 0, 1, 1, &err));
    CHECK(c->seqs[0].length == 500 && c->seqs[1].length == 0);
    REQUIRE_OK(lk_sequence_fork(c, 0, 1, shortest, &err), err);
    REQUIRE_OK(feed(c, 1, 500 - shortest, again, &err), err);
    CHECK(memcmp(first, again, sizeof first) == 0);
    REQUIRE_OK(lk_sequence_truncate(c, 0, shortest, &err), err);
    CHECK_STATUS(LK_E_LIMIT, lk_sequence_truncate(c, 0, shortest - 1, &err));
    REQUIRE_OK(feed(c, 0, 500 - shortest, again, &err), err);
    CHECK(memcmp(first, again, sizeof first) == 0);
    REQUIRE_OK(lk_sequence_truncate(c, 0, 0, &err), err);
    REQUIRE_OK(feed(c, 0, 500, again, &err), err);
    CHECK(memcmp(first, again, sizeof first) == 0);
    for (int32_t seq = 0; seq < 2; seq++) {
        REQUIRE_OK(lk_sequence_clear(c, seq, &err), err);
    }
    CHECK(free_window_pages(c) == c->kv.window_pages.n_pages);
    CHECK(c->kv.pages.n_free == c->kv.pages.n_pages);
    lk_context_destroy(c);
    lk_model_close(model);
}

/* A saved sequence keeps its window alone, and goes on with the same bits. */
LK_TEST(saved) {
    lk_model *model = open_model();
    lk_context *c = make_context(model, 2, 2048);
    lk_error err;
    uint8_t first[16];
    uint8_t again[16];
    char path[64];
    (void)snprintf(path, sizeof path, "windows-%d.tmp", (int)getpid());
    REQUIRE_OK(feed(c, 0, 610, first, &err), err);
    REQUIRE_OK(lk_sequence_save(c, 0, path, &err), err);
    REQUIRE_OK(lk_sequence_load(c, 1, path, &err), err);
    CHECK(c->seqs[1].first_window == c->seqs[0].first_window && c->seqs[1].first_window > 6);
    REQUIRE_OK(feed(c, 0, 90, first, &err), err);
    REQUIRE_OK(feed(c, 1, 90, again, &err), err);
    CHECK(memcmp(first, again, sizeof first) == 0);
    (void)unlink(path);
    lk_context_destroy(c);
    lk_model_close(model);
}

/* Calls that fail for want of pages, or are cancelled, after window pages have come and gone. */
LK_TEST(undone) {
    lk_model *model = open_model();
    lk_context *c = make_context(model, 2, 1024);
    lk_error err;
    uint8_t first[16];
    uint8_t again[16];
    REQUIRE_OK(feed(c, 0, 300, first, &err), err);
    const uint64_t n_free = free_window_pages(c);
    const uint32_t first_window = c->seqs[0].first_window;
    CHECK_STATUS(LK_E_FULL, feed(c, 1, LENGTH, again, &err));
    CHECK(free_window_pages(c) == n_free);
    lk_context_cancel(c);
    CHECK_STATUS(LK_E_CANCELLED, feed(c, 0, 400, again, &err));
    CHECK(free_window_pages(c) == n_free && c->seqs[0].first_window == first_window);
    REQUIRE_OK(feed(c, 0, 400, first, &err), err);
    REQUIRE_OK(lk_sequence_clear(c, 0, &err), err);
    REQUIRE_OK(feed(c, 1, 700, again, &err), err);
    CHECK(memcmp(first, again, sizeof first) == 0);
    lk_context_destroy(c);
    lk_model_close(model);
}

LK_TEST_MAIN(LK_RUN(bounded_memory), LK_RUN(going_back), LK_RUN(saved), LK_RUN(undone))
