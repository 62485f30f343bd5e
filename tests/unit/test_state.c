/* test_state.c - saved sequences over the fake backend: round trips, what a file must not hold,
 * foreign and ill-fitting files. Damage is tested in tests/fault/test_state_damage.c. */
#include "engine/state.h"
#include "fake_backend.h"
#include "lk_test.h"
#include "test_folder.h"

static const uint8_t digest[32] = {1, 2, 3};

static const char *const file_names[] = {"saved.lkstate", NULL};

static const char *file_path(void) {
    return test_folder_path(file_names[0]);
}

static lk_context *make(int64_t kv_positions, lk_kv_type v_type, uint32_t flags) {
    lk_error err;
    lk_context *context = NULL;
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_sequences = 3;
    params.kv_positions = kv_positions;
    params.max_rows = 64;
    params.n_threads = 1;
    params.v_type = v_type;
    params.flags = LK_CONTEXT_POISON | flags;
    REQUIRE_OK(fake_context(&params, &context, &err), err);
    return context;
}

static void extend(lk_context *c, int32_t seq, int64_t n, int32_t salt) {
    lk_error err;
    int64_t pos = 0;
    REQUIRE_OK(lk_sequence_length(c, seq, &pos, &err), err);
    for (int64_t end = pos + n; pos < end; pos++) {
        const lk_row row = {(int32_t)((pos * 3 + salt) % FAKE_BAD_TOKEN), seq, pos, LK_ROW_LOGITS,
                            0};
        REQUIRE_OK(lk_context_decode(c, &row, 1, NULL, &err), err);
    }
}

/* Whether the next row of both gives the same logits. */
static bool go_on_alike(lk_context *a, int32_t seq_a, lk_context *b, int32_t seq_b) {
    lk_error err;
    float first[FAKE_VOCAB];
    const float *logits = NULL;
    extend(a, seq_a, 1, 5);
    REQUIRE_OK(lk_context_logits(a, 0, &logits, &err), err);
    memcpy(first, logits, sizeof first);
    extend(b, seq_b, 1, 5);
    REQUIRE_OK(lk_context_logits(b, 0, &logits, &err), err);
    return memcmp(first, logits, sizeof first) == 0;
}

LK_TEST(round_trip) {
    test_folder_make();
    static const int64_t lengths[] = {0, 1, 63, 64, 65, 128, 200};
    lk_error err;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        lk_context *a = make(300, LK_KV_F16, 0);
        lk_context *b = make(300, LK_KV_F16, 0);
        extend(a, 1, lengths[i], 1);
        extend(b, 2, 30, 2);
        REQUIRE_OK(lk_state_save(a, 1, file_path(), digest, &err), err);
        REQUIRE_OK(lk_state_load(b, 2, file_path(), digest, &err), err);
        int32_t from_a[256];
        int32_t from_b[256];
        size_t n_a = 0;
        size_t n_b = 0;
        REQUIRE_OK(lk_sequence_tokens(a, 1, from_a, 256, &n_a, &err), err);
        REQUIRE_OK(lk_sequence_tokens(b, 2, from_b, 256, &n_b, &err), err);
        CHECK(n_a == n_b && memcmp(from_a, from_b, n_a * sizeof from_a[0]) == 0);
        CHECK(fake_is_consistent(b) && go_on_alike(a, 1, b, 2));
        lk_context_destroy(a);
        lk_context_destroy(b);
    }
    test_folder_remove(file_names);
}

/* Sequences of tokens that differ in vectors alone: loading gives back the digests, and with them
 * what the prefix cache compares. */
LK_TEST(vectors_are_kept) {
    test_folder_make();
    lk_error err;
    lk_context *a = make(300, LK_KV_F16, 0);
    lk_context *b = make(300, LK_KV_F16, 0);
    const float vector[FAKE_EMBD] = {1.0f, 2.0f, 3.0f, 4.0f};
    const float *const embeddings[1] = {vector};
    for (int64_t pos = 0; pos < 130; pos++) {
        const lk_row row = {1, 0, pos, 0, 0};
        REQUIRE_OK(
            lk_context_decode_embeddings(a, &row, pos % 3 == 2 ? embeddings : NULL, 1, NULL, &err),
            err);
    }
    REQUIRE_OK(lk_state_save(a, 0, file_path(), digest, &err), err);
    REQUIRE_OK(lk_state_load(b, 1, file_path(), digest, &err), err);
    for (size_t i = 0; i < 130; i++) {
        const size_t at = i % LK_CHUNK;
        const lk_row_digest *saved =
            a->kv.pages.digests + a->seqs[0].pages[i / LK_CHUNK] * LK_CHUNK;
        const lk_row_digest *loaded =
            b->kv.pages.digests + b->seqs[1].pages[i / LK_CHUNK] * LK_CHUNK;
        CHECK(memcmp(&saved[at], &loaded[at], sizeof saved[at]) == 0);
        CHECK((saved[at].bytes[0] | saved[at].bytes[1]) != 0 || i % 3 != 2);
    }
    CHECK(go_on_alike(a, 0, b, 1));
    lk_context_destroy(a);
    lk_context_destroy(b);
    test_folder_remove(file_names);
}

/* What a sequence once had behind its present length, and other sequences' past in its page, stay
 * out: the file depends on the tokens alone. */
LK_TEST(file_holds_nothing_else) {
    test_folder_make();
    lk_error err;
    size_t size[2];
    uint8_t *bytes[2];
    for (int i = 0; i < 2; i++) {
        lk_context *c = make(300, LK_KV_F16, 0);
        if (i == 1) {
            extend(c, 0, 130, 9);
            REQUIRE_OK(lk_sequence_clear(c, 0, &err), err);
            extend(c, 0, 70, 1);
            extend(c, 0, 50, 2);
            REQUIRE_OK(lk_sequence_truncate(c, 0, 70, &err), err);
        } else {
            extend(c, 0, 70, 1);
        }
        REQUIRE_OK(lk_state_save(c, 0, file_path(), digest, &err), err);
        bytes[i] = lk_test_read(file_path(), &size[i]);
        lk_context_destroy(c);
    }
    CHECK(size[0] == size[1] && memcmp(bytes[0], bytes[1], size[0]) == 0);
    free(bytes[0]);
    free(bytes[1]);
    test_folder_remove(file_names);
}

static void check_refused(lk_context *c, const uint8_t d[32], lk_status expected,
                          const char *message) {
    lk_error err = {0};
    int64_t length = 0;
    CHECK_STATUS(expected, lk_state_load(c, 0, file_path(), d, &err));
    CHECK_MSG(strstr(err.message, message) != NULL, "message: %s", err.message);
    CHECK_STATUS(LK_OK, lk_sequence_length(c, 0, &length, &err));
    CHECK(length == 20 && fake_is_consistent(c));
}

LK_TEST(foreign_files) {
    test_folder_make();
    static const uint8_t other[32] = {1, 2, 4};
    lk_error err;
    lk_context *c = make(300, LK_KV_F16, 0);
    extend(c, 0, 100, 1);
    REQUIRE_OK(lk_state_save(c, 0, file_path(), digest, &err), err);
    REQUIRE_OK(lk_sequence_truncate(c, 0, 20, &err), err);
    check_refused(c, other, LK_E_MISMATCH, "the model differs");
    lk_context *q = make(300, LK_KV_Q8_0, 0);
    extend(q, 0, 20, 1);
    check_refused(q, digest, LK_E_MISMATCH, "the type of the values differs");
    lk_context_destroy(q);
    q = make(300, LK_KV_F16, LK_CONTEXT_F32_ACTIVATIONS);
    extend(q, 0, 20, 1);
    check_refused(q, digest, LK_E_MISMATCH, "the activation mode differs");
    lk_context_destroy(q);
    CHECK_STATUS(LK_E_ARG, lk_state_load(c, 3, file_path(), digest, &err));
    CHECK_STATUS(LK_E_IO, lk_state_load(c, 0, "no/such/file", digest, &err));
    CHECK_STATUS(LK_E_IO, lk_state_load(c, 0, ".", digest, &err));
    CHECK_STATUS(LK_E_IO, lk_state_save(c, 0, "no/such/file", digest, &err));
    CHECK_STATUS(LK_E_UNSUPPORTED, lk_sequence_save(c, 0, file_path(), &err)); /* no model */
    lk_context_destroy(c);
    test_folder_remove(file_names);
}

LK_TEST(no_room) {
    test_folder_make();
    lk_error err;
    lk_context *c = make(300, LK_KV_F16, 0);
    extend(c, 0, 200, 1);
    REQUIRE_OK(lk_state_save(c, 0, file_path(), digest, &err), err);
    lk_context_destroy(c);

    c = make(100, LK_KV_F16, 0); /* 4 pages in all; the file needs 4 */
    extend(c, 0, 20, 1);
    check_refused(c, digest, LK_E_FULL, "needs 4 KV pages, 3 of 4 are free");
    REQUIRE_OK(lk_sequence_clear(c, 0, &err), err);
    REQUIRE_OK(lk_state_load(c, 0, file_path(), digest, &err), err);
    CHECK(c->kv.pages.n_free == 0 && c->seqs[0].length == 200 && fake_is_consistent(c));
    lk_context_destroy(c);

    c = make(1, LK_KV_F16, 0);
    CHECK(c->kv.pages.n_pages == 2);
    CHECK_STATUS(LK_E_FULL, lk_state_load(c, 1, file_path(), digest, &err));
    lk_context_destroy(c);
    test_folder_remove(file_names);
}

LK_TEST_MAIN(LK_RUN(round_trip), LK_RUN(vectors_are_kept), LK_RUN(file_holds_nothing_else),
             LK_RUN(foreign_files), LK_RUN(no_room))
