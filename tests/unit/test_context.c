/* test_context.c - the engine's transactions, page tables and copy-on-write over the fake backend:
 * single cases, and random schedules against a plain model of what each sequence should be. */
#include "fake_backend.h"
#include "lk_test.h"

enum { MAX_LENGTH = 1200 };

static lk_context *make(lk_context_params params) {
    lk_error err;
    lk_context *context = NULL;
    REQUIRE_OK(fake_context(&params, &context, &err), err);
    return context;
}

static lk_context_params small_params(void) {
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_sequences = 4;
    params.kv_positions = 600;
    params.max_rows = 16;
    params.max_logits = 64;
    params.n_threads = 1;
    params.flags = LK_CONTEXT_POISON;
    return params;
}

static int32_t token_at(int32_t seq, int64_t pos) {
    return (int32_t)((seq * 7 + pos * 5 + pos / 9) % FAKE_BAD_TOKEN);
}

/* n rows that continue a sequence, all with logits. */
static size_t add_rows(lk_row *rows, size_t n_rows, int32_t seq, int64_t pos, size_t n) {
    for (size_t i = 0; i < n; i++, pos++) {
        rows[n_rows + i] = (lk_row){token_at(seq, pos), seq, pos, LK_ROW_LOGITS, 0};
    }
    return n_rows + n;
}

/* Row i_row's logits are those that follow the first `length` tokens of the sequence by token_at.
 */
static bool is_right(lk_context *c, size_t i_row, int32_t seq, size_t length) {
    int32_t tokens[MAX_LENGTH];
    float wanted[FAKE_VOCAB];
    const float *logits = NULL;
    for (size_t i = 0; i < length; i++) {
        tokens[i] = token_at(seq, (int64_t)i);
    }
    fake_logits(tokens, length, wanted);
    return lk_context_logits(c, i_row, &logits, NULL) == LK_OK &&
           memcmp(logits, wanted, sizeof wanted) == 0;
}

/* Rows of two sequences, interleaved one by one, cut into micro-batches of 16. */
LK_TEST(interleaved_rows) {
    lk_error err;
    lk_context *c = make(small_params());
    lk_row rows[60];
    lk_row_status status[60];
    fake = (fake_control){0};
    for (size_t i = 0; i < 30; i++) {
        (void)add_rows(rows, 2 * i, 1, (int64_t)i, 1);
        (void)add_rows(rows, 2 * i + 1, 3, (int64_t)i, 1);
    }
    memset(status, 0xaa, sizeof status);
    REQUIRE_OK(lk_context_decode(c, rows, 60, status, &err), err);
    for (size_t i = 0; i < 60; i++) {
        CHECK(is_right(c, i, rows[i].seq, i / 2 + 1));
        CHECK(status[i].status == LK_OK && status[i].op[0] == '\0' && status[i].layer == -1);
    }
    CHECK(fake.n_steps == 4 && fake.max_rows == 16 && fake.n_mixed == 4);
    CHECK(fake.n_violations == 0 && fake_is_consistent(c));
    lk_context_stats stats = LK_CONTEXT_STATS_INIT;
    REQUIRE_OK(lk_context_get_stats(c, &stats, &err), err);
    CHECK(stats.n_rows == 60 && stats.n_steps == 4 && stats.pages_free == stats.pages_total - 2);
    lk_context_destroy(c);
}

/* A fork shares pages; both go on; neither sees the other. */
LK_TEST(fork_copies_on_write) {
    lk_error err;
    lk_context *c = make(small_params());
    lk_row rows[64];
    size_t n = add_rows(rows, 0, 0, 0, 40);
    REQUIRE_OK(lk_context_decode(c, rows, n, NULL, &err), err);
    n = add_rows(rows, 0, 0, 40, 50);
    REQUIRE_OK(lk_context_decode(c, rows, n, NULL, &err), err); /* 90: a page and a part */
    REQUIRE_OK(lk_sequence_fork(c, 0, 1, -1, &err), err);
    REQUIRE_OK(lk_sequence_fork(c, 0, 2, 70, &err), err);
    CHECK(c->kv.pages.n_free == c->kv.pages.n_pages - 2 && fake_is_consistent(c));

    /* One call in which all three write to the shared page: two copy, the last need not. */
    for (int32_t seq = 0; seq < 3; seq++) {
        const int64_t pos = seq == 2 ? 70 : 90;
        rows[seq] = (lk_row){seq, seq, pos, LK_ROW_LOGITS, 0};
    }
    REQUIRE_OK(lk_context_decode(c, rows, 3, NULL, &err), err);
    CHECK(c->kv.pages.n_copied == 2 && fake_is_consistent(c));
    for (int32_t seq = 0; seq < 3; seq++) {
        int32_t tokens[91];
        int32_t read_back[91] = {0};
        float wanted[FAKE_VOCAB];
        const float *logits = NULL;
        size_t n_tokens = 0;
        const size_t length = seq == 2 ? 71 : 91;
        for (size_t i = 0; i + 1 < length; i++) {
            tokens[i] = token_at(0, (int64_t)i);
        }
        tokens[length - 1] = seq;
        fake_logits(tokens, length, wanted);
        REQUIRE_OK(lk_context_logits(c, (size_t)seq, &logits, &err), err);
        CHECK(memcmp(logits, wanted, sizeof wanted) == 0);
        REQUIRE_OK(lk_sequence_tokens(c, seq, read_back, 91, &n_tokens, &err), err);
        CHECK(n_tokens == length && memcmp(read_back, tokens, length * sizeof tokens[0]) == 0);
    }
    lk_context_destroy(c);
}

static void check_refused(lk_context *c, lk_row *rows, size_t n, lk_status expected,
                          const char *message) {
    lk_error err = {0};
    lk_row_status status[64];
    CHECK_STATUS(expected, lk_context_decode(c, rows, n, status, &err));
    CHECK_MSG(strstr(err.message, message) != NULL, "message: %s", err.message);
    int64_t length = -1;
    CHECK_STATUS(LK_OK, lk_sequence_length(c, 0, &length, &err));
    CHECK(length == 10 && fake_is_consistent(c));
}

LK_TEST(bad_rows_are_named) {
    lk_error err;
    lk_context *c = make(small_params());
    lk_row rows[64];
    size_t n = add_rows(rows, 0, 0, 0, 10);
    REQUIRE_OK(lk_context_decode(c, rows, n, NULL, &err), err);

    n = add_rows(rows, 0, 0, 10, 4);
    rows[3].pos = 14;
    check_refused(c, rows, n, LK_E_ARG, "row 3: sequence 0 continues at position 13, not 14");
    rows[3] = (lk_row){5, 4, 0, 0, 0};
    check_refused(c, rows, n, LK_E_ARG, "row 3: sequence 4, expected 0 .. 3");
    rows[3] = (lk_row){5, -1, 0, 0, 0};
    check_refused(c, rows, n, LK_E_ARG, "row 3: sequence -1, expected 0 .. 3");
    rows[3] = (lk_row){FAKE_VOCAB, 0, 13, 0, 0};
    check_refused(c, rows, n, LK_E_ARG, "row 3 (sequence 0): token 24, expected 0 .. 23");
    rows[3] = (lk_row){-1, 0, 13, 0, 0};
    check_refused(c, rows, n, LK_E_ARG, "token -1, expected 0 .. 23");
    rows[3] = (lk_row){1, 0, 13, 4, 0};
    check_refused(c, rows, n, LK_E_ARG, "unknown bits");
    rows[3] = (lk_row){1, 0, 13, 0, 9};
    check_refused(c, rows, n, LK_E_ARG, "unknown bits");
    rows[3] = (lk_row){1, 1, 5, 0, 0};
    check_refused(c, rows, n, LK_E_ARG, "sequence 1 continues at position 0, not 5");
    CHECK_STATUS(LK_E_ARG, lk_context_decode(c, NULL, 1, NULL, &err));
    CHECK_STATUS(LK_E_ARG, lk_context_decode(NULL, rows, 1, NULL, &err));
    CHECK_STATUS(LK_OK, lk_context_decode(c, NULL, 0, NULL, &err));
    lk_context_destroy(c);
}

LK_TEST(too_many_logits_and_full) {
    lk_error err;
    lk_context_params params = small_params();
    params.max_logits = 5;
    params.kv_positions = 70;
    params.n_sequences = 1;
    lk_context *c = make(params);
    lk_row rows[200];
    CHECK(c->kv.pages.n_pages == 2);
    size_t n = add_rows(rows, 0, 0, 0, 6);
    CHECK_STATUS(LK_E_LIMIT, lk_context_decode(c, rows, n, NULL, &err));
    CHECK(strstr(err.message, "6 rows want logits, this context was created for 5") != NULL);
    rows[0].flags = 0;
    REQUIRE_OK(lk_context_decode(c, rows, n, NULL, &err), err);
    n = add_rows(rows, 0, 0, 6, 123);
    for (size_t i = 0; i < n; i++) {
        rows[i].flags = 0;
    }
    CHECK_STATUS(LK_E_FULL, lk_context_decode(c, rows, n, NULL, &err));
    CHECK_MSG(err.seq == 0 && err.pos == 128, "seq %d pos %lld", err.seq, (long long)err.pos);
    CHECK(fake_is_consistent(c) && c->seqs[0].length == 6);
    REQUIRE_OK(lk_context_decode(c, rows, n - 1, NULL, &err), err); /* the pages hold 128 */
    lk_context_destroy(c);

    /* Any split of kv_positions among the sequences fits. */
    params = small_params();
    params.kv_positions = 262;
    c = make(params);
    const size_t lengths[4] = {65, 65, 65, 67};
    for (int32_t seq = 0; seq < 4; seq++) {
        n = add_rows(rows, 0, seq, 0, lengths[seq]);
        for (size_t i = 0; i < n; i++) {
            rows[i].flags = 0;
        }
        REQUIRE_OK(lk_context_decode(c, rows, n, NULL, &err), err);
    }
    lk_context_destroy(c);
}

/* Rows that want logits, their hidden state, both and nothing, in any cut. */
LK_TEST(hidden_states) {
    lk_error err;
    lk_context_params params = small_params();
    params.max_hidden = 50;
    lk_context *c = make(params);
    lk_row rows[120];
    int32_t tokens[120];
    const float *values = NULL;
    float wanted[FAKE_WIDTH];
    size_t n = add_rows(rows, 0, 0, 0, 60);
    n = add_rows(rows, n, 1, 0, 60);
    for (size_t i = 0; i < n; i++) {
        rows[i].flags = (i % 3 == 0 ? (uint32_t)LK_ROW_LOGITS : 0u) |
                        (i % 5 < 2 ? (uint32_t)LK_ROW_HIDDEN : 0u);
    }
    REQUIRE_OK(lk_context_decode(c, rows, n, NULL, &err), err);
    for (size_t i = 0; i < n; i++) {
        const size_t pos = i % 60;
        tokens[pos] = rows[i].token;
        const lk_status status = lk_context_hidden(c, i, &values, &err);
        CHECK((status == LK_OK) == (i % 5 < 2) && (values != NULL) == (status == LK_OK));
        fake_hidden(tokens, pos + 1, wanted);
        CHECK(status != LK_OK || memcmp(wanted, values, sizeof wanted) == 0);
        CHECK((lk_context_logits(c, i, &values, &err) == LK_OK) == (i % 3 == 0));
    }
    n = add_rows(rows, 0, 2, 0, 51);
    for (size_t i = 0; i < n; i++) {
        rows[i].flags = LK_ROW_HIDDEN;
    }
    CHECK_STATUS(LK_E_LIMIT, lk_context_decode(c, rows, n, NULL, &err));
    CHECK(strcmp(err.subject, "max_hidden") == 0 && fake.n_violations == 0);
    CHECK_STATUS(LK_E_ARG, lk_context_hidden(c, 0, NULL, &err));
    lk_context_destroy(c);
}

/* A row that is not finite undoes its sequence in the whole call, and no other. */
LK_TEST(failed_rows) {
    lk_error err = {0};
    lk_context *c = make(small_params());
    lk_row rows[80];
    lk_row_status status[80];
    const float *logits = NULL;
    size_t n = add_rows(rows, 0, 0, 0, 30);
    n = add_rows(rows, n, 2, 0, 10);
    REQUIRE_OK(lk_context_decode(c, rows, n, NULL, &err), err);
    REQUIRE_OK(lk_sequence_fork(c, 0, 1, -1, &err), err);

    /* Sequence 0 is clean in the first micro-batch of 16 and fails in the second, in a row that
     * wants no logits; sequence 1 shares its page. */
    n = add_rows(rows, 0, 0, 30, 20);
    rows[17].token = FAKE_BAD_TOKEN;
    rows[17].flags = 0;
    n = add_rows(rows, n, 1, 30, 5);
    n = add_rows(rows, n, 0, 50, 10);
    n = add_rows(rows, n, 2, 10, 5);
    memset(status, 0xaa, sizeof status);
    fake = (fake_control){0};
    CHECK_STATUS(LK_E_ROWS, lk_context_decode(c, rows, n, status, &err));
    CHECK_MSG(err.seq == 0 && err.pos == 47 && strstr(err.message, "layer 3, operator matmul"),
              "seq %d pos %lld: %s", err.seq, (long long)err.pos, err.message);
    for (size_t i = 0; i < n; i++) {
        const bool failed = rows[i].seq == 0;
        CHECK(status[i].status == (failed ? LK_E_NONFINITE : LK_OK));
        CHECK((status[i].op[0] != '\0') == (i == 17));
        const lk_status expected =
            i == 17 ? LK_E_ARG : (failed ? LK_E_NONFINITE : LK_OK); /* 17 asked for none */
        CHECK_STATUS(expected, lk_context_logits(c, i, &logits, NULL));
        CHECK((logits != NULL) == (expected == LK_OK));
    }
    CHECK(strcmp(status[17].op, "matmul") == 0 && status[17].layer == FAKE_BAD_LAYER);
    CHECK(c->seqs[0].length == 30 && c->seqs[1].length == 35 && c->seqs[2].length == 15);
    CHECK(fake_is_consistent(c) && fake.n_violations == 0);
    CHECK(is_right(c, 35 + 0, 2, 11) && is_right(c, 39, 2, 15));

    /* Sequence 0 goes on as if nothing had been. */
    n = add_rows(rows, 0, 0, 30, 40);
    REQUIRE_OK(lk_context_decode(c, rows, n, NULL, &err), err);
    CHECK(is_right(c, 39, 0, 70) && fake_is_consistent(c));
    lk_context_destroy(c);
}

LK_TEST(failed_device_undoes_all) {
    lk_error err = {0};
    lk_context *c = make(small_params());
    lk_row rows[80];
    const float *logits = NULL;
    size_t n = add_rows(rows, 0, 0, 0, 30);
    REQUIRE_OK(lk_context_decode(c, rows, n, NULL, &err), err);
    REQUIRE_OK(lk_sequence_fork(c, 0, 1, -1, &err), err);
    n = add_rows(rows, 0, 0, 30, 40);
    n = add_rows(rows, n, 1, 30, 3);
    for (uint64_t at = 1; at <= 3; at++) {
        fake = (fake_control){.fail_step_at = at};
        CHECK_STATUS(LK_E_DEVICE, lk_context_decode(c, rows, n, NULL, &err));
        CHECK(fake_is_consistent(c) && c->seqs[0].length == 30 && c->seqs[1].length == 30);
        CHECK_STATUS(LK_E_ARG, lk_context_logits(c, 0, &logits, NULL));
    }
    fake = (fake_control){.fail_copy_at = 1};
    CHECK_STATUS(LK_E_DEVICE, lk_context_decode(c, rows, n, NULL, &err));
    CHECK(fake_is_consistent(c));
    fake = (fake_control){0};
    REQUIRE_OK(lk_context_decode(c, rows, n, NULL, &err), err);
    CHECK(is_right(c, 39, 0, 70) && fake_is_consistent(c));
    lk_context_destroy(c);
}

static void cancel_at_second_step(void *ctx) {
    if (fake.n_steps == 2) {
        lk_context_cancel(ctx);
    }
}

LK_TEST(cancelling) {
    lk_error err = {0};
    lk_context *c = make(small_params());
    lk_row rows[64];
    const size_t n = add_rows(rows, 0, 0, 0, 50);
    fake = (fake_control){.on_step = cancel_at_second_step, .ctx = c};
    CHECK_STATUS(LK_E_CANCELLED, lk_context_decode(c, rows, n, NULL, &err));
    CHECK(fake.n_steps == 2 && c->seqs[0].length == 0 && fake_is_consistent(c));
    fake = (fake_control){0};
    REQUIRE_OK(lk_context_decode(c, rows, n, NULL, &err), err); /* the request was used up */
    CHECK(is_right(c, 49, 0, 50));
    lk_context_cancel(c); /* before a call: that call is the one */
    rows[0] = (lk_row){1, 1, 0, 0, 0};
    CHECK_STATUS(LK_E_CANCELLED, lk_context_decode(c, rows, 1, NULL, &err));
    REQUIRE_OK(lk_context_decode(c, rows, 1, NULL, &err), err);
    lk_context_destroy(c);
}

LK_TEST(sequence_arguments) {
    lk_error err = {0};
    lk_context *c = make(small_params());
    lk_row rows[64];
    int64_t length = 0;
    size_t n_tokens = 0;
    const size_t n = add_rows(rows, 0, 0, 0, 20);
    REQUIRE_OK(lk_context_decode(c, rows, n, NULL, &err), err);
    CHECK_STATUS(LK_E_ARG, lk_sequence_length(c, 4, &length, &err));
    CHECK_STATUS(LK_E_ARG, lk_sequence_clear(c, -1, &err));
    CHECK_STATUS(LK_E_ARG, lk_sequence_truncate(c, 0, 21, &err));
    CHECK(strstr(err.message, "cannot keep 21 positions of sequence 0: it has 20") != NULL);
    CHECK_STATUS(LK_E_ARG, lk_sequence_truncate(c, 0, -1, &err));
    CHECK_STATUS(LK_E_ARG, lk_sequence_fork(c, 0, 0, -1, &err));
    CHECK_STATUS(LK_E_ARG, lk_sequence_fork(c, 0, 1, 21, &err));
    CHECK_STATUS(LK_E_ARG, lk_sequence_fork(c, 0, 1, -2, &err));
    CHECK_STATUS(LK_E_ARG, lk_sequence_fork(c, 0, 4, 1, &err));
    CHECK_STATUS(LK_E_ARG, lk_sequence_tokens(c, 0, NULL, 3, &n_tokens, &err));
    int32_t tokens[3];
    REQUIRE_OK(lk_sequence_tokens(c, 0, tokens, 3, &n_tokens, &err), err);
    CHECK(n_tokens == 20 && tokens[2] == token_at(0, 2));
    REQUIRE_OK(lk_sequence_truncate(c, 0, 0, &err), err);
    CHECK(c->kv.pages.n_free == c->kv.pages.n_pages);
    CHECK_STATUS(LK_E_ARG, lk_sequence_length(NULL, 0, &length, &err));
    lk_context_stats stats = {0};
    CHECK_STATUS(LK_E_ARG, lk_context_get_stats(c, &stats, &err));
    lk_context_destroy(c);
    lk_context_destroy(NULL);
}

LK_TEST(parameters_are_checked) {
    lk_error err;
    lk_context *c = NULL;
    const lk_context_params good = small_params();
    static const char *const names[] = {"n_sequences", "n_sequences",  "max_rows", "max_rows",
                                        "max_logits",  "max_logits",   "k_type",   "v_type",
                                        "n_threads",   "kv_positions", "flags",    "struct_size",
                                        "max_hidden"};
    enum { N_CASES = sizeof names / sizeof names[0] };
    lk_context_params bad[N_CASES];
    for (size_t i = 0; i < N_CASES; i++) {
        bad[i] = good;
    }
    bad[0].n_sequences = 0;
    bad[1].n_sequences = LK_MAX_SEQUENCES + 1;
    bad[2].max_rows = 0;
    bad[3].max_rows = LK_MAX_ROWS + 1;
    bad[4].max_logits = 0;
    bad[5].max_logits = LK_MAX_LOGITS + 1;
    bad[6].k_type = (lk_kv_type)3;
    bad[7].v_type = (lk_kv_type)3;
    bad[8].n_threads = 257;
    bad[9].kv_positions = -1;
    bad[10].flags = 4;
    bad[11].struct_size = 8;
    bad[12].max_hidden = LK_MAX_LOGITS + 1;
    for (size_t i = 0; i < N_CASES; i++) {
        memset(&err, 0, sizeof err);
        CHECK_STATUS(LK_E_ARG, fake_context(&bad[i], &c, &err));
        CHECK_MSG(c == NULL && strcmp(err.subject, names[i]) == 0, "case %zu: %s", i, err.subject);
    }
    lk_context_params p = good;
    p.kv_positions = INT64_MAX;
    CHECK_STATUS(LK_E_LIMIT, fake_context(&p, &c, &err));
    p.kv_positions = (int64_t)1 << 37; /* 2^31 pages: refused for want of memory, cleanly */
    lk_test_allocator t;
    lk_test_allocator_init(&t);
    t.fail_at = 3;
    t.persistent = 1;
    p.allocator = &t.base;
    CHECK_STATUS(LK_E_NOMEM, fake_context(&p, &c, &err));
    CHECK(t.n_live == 0);
}

/* ---- random schedules ---- */

enum { N_SEQS = 5 };

typedef struct plain_model {
    int32_t tokens[N_SEQS][MAX_LENGTH];
    size_t length[N_SEQS];
} plain_model;

static void check_state(lk_context *c, const plain_model *m, uint64_t seed) {
    int32_t tokens[MAX_LENGTH];
    bool ok = fake_is_consistent(c);
    for (int32_t seq = 0; seq < N_SEQS; seq++) {
        size_t n = 0;
        ok = ok && lk_sequence_tokens(c, seq, tokens, MAX_LENGTH, &n, NULL) == LK_OK &&
             n == m->length[seq] && memcmp(tokens, m->tokens[seq], n * sizeof tokens[0]) == 0;
    }
    CHECK_MSG(ok, "the context differs from the model, seed %llu", (unsigned long long)seed);
}

/* Random rows of random sequences, sometimes with a bad token. Returns their number. */
static size_t random_rows(uint64_t *rng, const plain_model *m, lk_row *rows, size_t max_rows) {
    size_t length[N_SEQS];
    memcpy(length, m->length, sizeof length);
    const size_t n_wanted = 1 + lk_test_random(rng) % max_rows;
    const uint64_t burst = 1 + lk_test_random(rng) % 20;
    const bool has_bad = lk_test_random(rng) % 8 == 0;
    size_t n = 0;
    while (n < n_wanted) {
        const int32_t seq = (int32_t)(lk_test_random(rng) % N_SEQS);
        for (uint64_t k = lk_test_random(rng) % burst + 1; k > 0 && n < n_wanted; k--) {
            if (length[seq] == MAX_LENGTH) {
                break;
            }
            const bool is_bad = has_bad && lk_test_random(rng) % 30 == 0;
            const uint64_t token = lk_test_random(rng) % FAKE_BAD_TOKEN;
            rows[n++] =
                (lk_row){is_bad ? FAKE_BAD_TOKEN : (int32_t)token, seq, (int64_t)length[seq]++,
                         lk_test_random(rng) % 3 == 0 ? LK_ROW_LOGITS : 0, 0};
        }
        if (length[seq] == MAX_LENGTH) {
            break;
        }
    }
    return n;
}

/* Applies committed rows to the model and compares the logits. */
static void apply_rows(lk_context *c, plain_model *m, const lk_row *rows, size_t n,
                       const lk_row_status *status, uint64_t seed) {
    for (size_t i = 0; i < n; i++) {
        const float *logits = NULL;
        float wanted[FAKE_VOCAB];
        const lk_status got = lk_context_logits(c, i, &logits, NULL);
        if (status[i].status != LK_OK) {
            CHECK(got == ((rows[i].flags & LK_ROW_LOGITS) ? LK_E_NONFINITE : LK_E_ARG));
            continue;
        }
        const int32_t seq = rows[i].seq;
        m->tokens[seq][m->length[seq]++] = rows[i].token;
        if ((rows[i].flags & LK_ROW_LOGITS) == 0) {
            CHECK(got == LK_E_ARG);
            continue;
        }
        fake_logits(m->tokens[seq], m->length[seq], wanted);
        CHECK_MSG(got == LK_OK && memcmp(logits, wanted, sizeof wanted) == 0,
                  "row %zu of sequence %d differs, seed %llu", i, seq, (unsigned long long)seed);
    }
}

static void random_decode(lk_context *c, plain_model *m, uint64_t *rng, uint64_t seed) {
    enum { MOST = 150 };
    lk_row rows[MOST];
    lk_row_status status[MOST];
    const size_t n = random_rows(rng, m, rows, MOST);
    fake = (fake_control){0};
    if (lk_test_random(rng) % 10 == 0) {
        fake.fail_step_at = 1 + lk_test_random(rng) % 4;
    }
    if (lk_test_random(rng) % 10 == 0) {
        fake.fail_copy_at = 1 + lk_test_random(rng) % 2;
    }
    const lk_status got = lk_context_decode(c, rows, n, status, NULL);
    CHECK(fake.n_violations == 0);
    if (got == LK_OK || got == LK_E_ROWS) {
        apply_rows(c, m, rows, n, status, seed);
    } else {
        CHECK(got == LK_E_FULL || got == LK_E_DEVICE);
    }
}

static void random_fork(lk_context *c, plain_model *m, uint64_t *rng) {
    const int32_t src = (int32_t)(lk_test_random(rng) % N_SEQS);
    const int32_t dst = (src + 1 + (int32_t)(lk_test_random(rng) % (N_SEQS - 1))) % N_SEQS;
    const size_t n = lk_test_random(rng) % (m->length[src] + 1);
    CHECK_STATUS(LK_OK, lk_sequence_fork(c, src, dst, (int64_t)n, NULL));
    memcpy(m->tokens[dst], m->tokens[src], n * sizeof m->tokens[0][0]);
    m->length[dst] = n;
}

static void random_cut(lk_context *c, plain_model *m, uint64_t *rng) {
    const int32_t seq = (int32_t)(lk_test_random(rng) % N_SEQS);
    const size_t n = lk_test_random(rng) % 3 == 0 ? 0 : lk_test_random(rng) % (m->length[seq] + 1);
    CHECK_STATUS(LK_OK, n == 0 ? lk_sequence_clear(c, seq, NULL)
                               : lk_sequence_truncate(c, seq, (int64_t)n, NULL));
    m->length[seq] = n;
}

static void run_schedule(uint64_t seed) {
    uint64_t rng = seed;
    plain_model model;
    memset(model.length, 0, sizeof model.length);
    lk_context_params params = small_params();
    params.n_sequences = N_SEQS;
    params.kv_positions = (int64_t)(300 + lk_test_random(&rng) % 1500);
    params.max_rows = (int32_t)(1 + lk_test_random(&rng) % 60);
    params.max_logits = 150;
    params.page_seed = (uint32_t)(lk_test_random(&rng) % 3);
    lk_context *c = make(params);
    for (int step = 0; step < 40; step++) {
        const uint64_t what = lk_test_random(&rng) % 10;
        if (what < 6) {
            random_decode(c, &model, &rng, seed);
        } else if (what < 8) {
            random_fork(c, &model, &rng);
        } else {
            random_cut(c, &model, &rng);
        }
        check_state(c, &model, seed);
    }
    lk_context_destroy(c);
}

LK_TEST(random_schedules) {
    const uint64_t seed = lk_test_seed(1);
    const uint64_t n = lk_test_size(100, 400, 20000);
    for (uint64_t i = 0; i < n; i++) {
        run_schedule(seed + i);
    }
}

/* Vector `which`, for every position. */
static const float *vector_of(int which, int64_t pos) {
    static float vectors[3][MAX_LENGTH][FAKE_EMBD];
    for (int k = 0; k < FAKE_EMBD; k++) {
        vectors[which][pos][k] = (float)(which * 100 + pos) + 0.25f * (float)k;
    }
    return vectors[which][pos];
}

/* Vectors in the middle of a sequence, in several cuts, beside another sequence; then what a fork,
 * a truncation and another vector at the same place give. Tokens stay names. */
LK_TEST(vectors_in_place_of_tokens) {
    enum { N = 150, FIRST = 60, END = 130 };
    lk_error err;
    lk_context *c = make(small_params());
    static lk_row rows[2 * N];
    static const float *embeddings[2 * N];
    static const float *wanted_vectors[N];
    int32_t tokens[N];
    float wanted[FAKE_VOCAB];
    const float *logits = NULL;
    for (int64_t i = 0; i < N; i++) {
        tokens[i] = token_at(0, i);
        wanted_vectors[i] = i >= FIRST && i < END ? vector_of(0, i) : NULL;
        rows[2 * i] = (lk_row){tokens[i], 0, i, i + 40 >= N ? LK_ROW_LOGITS : 0u, 0};
        embeddings[2 * i] = wanted_vectors[i];
        rows[2 * i + 1] = (lk_row){tokens[i], 1, i, i == 0 ? LK_ROW_LOGITS : 0u, 0};
        embeddings[2 * i + 1] = i == 0 ? vector_of(1, 0) : NULL;
    }
    REQUIRE_OK(lk_context_decode_embeddings(c, rows, embeddings, 200, NULL, &err), err);
    REQUIRE_OK(lk_context_decode_embeddings(c, rows + 200, embeddings + 200, 100, NULL, &err), err);
    for (size_t i = 0; i < 40; i++) {
        const size_t pos = N - 40 + i;
        fake_logits_of(tokens, wanted_vectors, pos + 1, wanted);
        REQUIRE_OK(lk_context_logits(c, 2 * pos - 200, &logits, &err), err);
        CHECK(memcmp(logits, wanted, sizeof wanted) == 0);
    }
    int32_t found[N];
    size_t n_found = 0;
    REQUIRE_OK(lk_sequence_tokens(c, 0, found, N, &n_found, &err), err);
    CHECK(n_found == N && memcmp(found, tokens, sizeof tokens) == 0);
    /* A fork inside the vectors goes on with another one; the source keeps its own. */
    REQUIRE_OK(lk_sequence_fork(c, 0, 2, 100, &err), err);
    const lk_row next = {tokens[100], 2, 100, LK_ROW_LOGITS, 0};
    const float *other = vector_of(2, 100);
    REQUIRE_OK(lk_context_decode_embeddings(c, &next, &other, 1, NULL, &err), err);
    REQUIRE_OK(lk_context_logits(c, 0, &logits, &err), err);
    wanted_vectors[100] = other;
    fake_logits_of(tokens, wanted_vectors, 101, wanted);
    CHECK(memcmp(logits, wanted, sizeof wanted) == 0);
    wanted_vectors[100] = vector_of(0, 100);
    const lk_kv_pages *pages = &c->kv.pages;
    const lk_row_digest *own = &pages->digests[c->seqs[0].pages[1] * LK_CHUNK];
    const lk_row_digest *forked = &pages->digests[c->seqs[2].pages[1] * LK_CHUNK];
    CHECK(memcmp(own, forked, 36 * sizeof own[0]) == 0);
    CHECK(memcmp(&own[36], &forked[36], sizeof own[0]) != 0);
    CHECK(lk_seq_has_vectors(&c->seqs[0], pages, 61));
    CHECK(!lk_seq_has_vectors(&c->seqs[0], pages, 60));
    /* Without an array, and with one that is NULL throughout, rows are tokens again. */
    REQUIRE_OK(lk_sequence_truncate(c, 0, 60, &err), err);
    const lk_row again = {tokens[60], 0, 60, LK_ROW_LOGITS, 0};
    REQUIRE_OK(lk_context_decode(c, &again, 1, NULL, &err), err);
    CHECK(is_right(c, 0, 0, 61) && !lk_seq_has_vectors(&c->seqs[0], pages, 61));
    /* The name is checked as any token. */
    const lk_row bad = {FAKE_VOCAB, 0, 61, 0, 0};
    CHECK_STATUS(LK_E_ARG, lk_context_decode_embeddings(c, &bad, &other, 1, NULL, &err));
    CHECK(fake_is_consistent(c));
    lk_context_destroy(c);
}

LK_TEST(digest_of_logits) {
    /* SHA-256 of 00000000 0000803f, from an independent implementation. */
    static const uint8_t wanted[16] = {0x22, 0xb6, 0xf4, 0x3b, 0xd8, 0xd2, 0x77, 0x38,
                                       0xd3, 0x21, 0x3f, 0x29, 0xe9, 0x6b, 0x62, 0xd0};
    const float logits[2] = {0.0f, 1.0f};
    uint8_t digest[16];
    lk_logits_digest(logits, 2, digest);
    CHECK(memcmp(digest, wanted, sizeof digest) == 0);
}

LK_TEST_MAIN(LK_RUN(interleaved_rows), LK_RUN(fork_copies_on_write), LK_RUN(bad_rows_are_named),
             LK_RUN(too_many_logits_and_full), LK_RUN(hidden_states), LK_RUN(failed_rows),
             LK_RUN(failed_device_undoes_all), LK_RUN(cancelling), LK_RUN(sequence_arguments),
             LK_RUN(parameters_are_checked), LK_RUN(random_schedules),
             LK_RUN(vectors_in_place_of_tokens), LK_RUN(digest_of_logits))
