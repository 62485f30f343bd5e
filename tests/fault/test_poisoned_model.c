/* test_poisoned_model.c - a NaN in a weight: the rows that it reaches fail, with their sequences,
 * and name layer and operator; no other row changes a bit. Also where no logits are asked for. */
#include <unistd.h>

#include "engine/state.h"
#include "lk_test.h"
#include "real_context.h"

static const uint8_t nan_f32[4] = {0, 0, 0xc0, 0x7f};
static const uint8_t nan_f16[2] = {0, 0x7e};

enum { N_VOCAB = 128, WIDTH = 64, BAD_TOKEN = 120 };

static const char *moe_path(void) {
    return lk_test_data("archs/qwen3moe.gguf");
}

/* The digest that a sequence alone gives in the clean model after n tokens. */
static void clean_digest(int32_t salt, size_t n, uint8_t digest[16]) {
    lk_model *model = open_model(moe_path());
    lk_context *c = make_real(model, NULL);
    extend_real(c, 0, salt, n);
    digest_of_row(c, n - 1, N_VOCAB, digest);
    lk_context_destroy(c);
    lk_model_close(model);
}

/* Only sequences with one token fail, though the row with it wants no logits. */
LK_TEST(one_embedding_row) {
    const char *path = scratch_path("embedding.gguf");
    copy_poked(moe_path(), path, "token_embd.weight", (uint64_t)BAD_TOKEN * WIDTH * 4 + 36, nan_f32,
               sizeof nan_f32);
    lk_model *model = open_model(path);
    lk_context *c = make_real(model, NULL);
    lk_row rows[160];
    lk_row_status status[160];
    lk_error err = {0};
    uint8_t found[16];
    uint8_t wanted[16];

    size_t n = add_pattern(rows, 0, 0, 1, 0, 40); /* rows 0 .. 39 */
    n = add_pattern(rows, n, 1, 2, 0, 50);        /* rows 40 .. 89 */
    n = add_pattern(rows, n, 2, 3, 0, 30);        /* rows 90 .. 119 */
    rows[40 + 27].token = BAD_TOKEN;
    CHECK_STATUS(LK_E_ROWS, lk_context_decode(c, rows, n, status, &err));
    CHECK_MSG(err.seq == 1 && err.pos == 27, "seq %d, pos %lld: %s", err.seq, (long long)err.pos,
              err.message);
    CHECK(strcmp(status[67].op, "embedding") == 0 && status[67].layer == -1);
    for (size_t i = 0; i < n; i++) {
        CHECK(status[i].status == (rows[i].seq == 1 ? LK_E_NONFINITE : LK_OK));
    }
    digest_of_row(c, 39, N_VOCAB, found);
    clean_digest(1, 40, wanted);
    CHECK(memcmp(found, wanted, sizeof found) == 0);
    digest_of_row(c, 119, N_VOCAB, found);
    clean_digest(3, 30, wanted);
    CHECK(memcmp(found, wanted, sizeof found) == 0);
    const float *logits = NULL;
    CHECK_STATUS(LK_E_NONFINITE, lk_context_logits(c, 89, &logits, &err));

    extend_real(c, 1, 2, 50); /* the failed sequence starts again, without that token */
    digest_of_row(c, 49, N_VOCAB, found);
    clean_digest(2, 50, wanted);
    CHECK(memcmp(found, wanted, sizeof found) == 0);
    lk_context_destroy(c);
    lk_model_close(model);
    (void)unlink(path);
}

/* Rows that the router sends to one expert fail, others do not. */
LK_TEST(one_expert) {
    const char *path = scratch_path("expert.gguf");
    copy_poked(moe_path(), path, "blk.1.ffn_up_exps.weight", 0, nan_f32, sizeof nan_f32);
    lk_model *poisoned = open_model(path);
    lk_model *clean = open_model(moe_path());
    lk_context_params params = real_params();
    params.n_sequences = N_VOCAB;
    params.kv_positions = N_VOCAB;
    lk_context *a = make_real(poisoned, &params);
    lk_context *b = make_real(clean, &params);
    lk_row rows[N_VOCAB];
    lk_row_status status[N_VOCAB];
    lk_error err = {0};
    for (int32_t i = 0; i < N_VOCAB; i++) {
        rows[i] = (lk_row){i, i, 0, LK_ROW_LOGITS, 0};
    }
    CHECK_STATUS(LK_E_ROWS, lk_context_decode(a, rows, N_VOCAB, status, &err));
    REQUIRE_OK(lk_context_decode(b, rows, N_VOCAB, NULL, &err), err);
    int n_failed = 0;
    for (size_t i = 0; i < N_VOCAB; i++) {
        int64_t length = 0;
        REQUIRE_OK(lk_sequence_length(a, (int32_t)i, &length, &err), err);
        CHECK(length == (status[i].status == LK_OK));
        if (status[i].status != LK_OK) {
            n_failed++;
            CHECK(strcmp(status[i].op, "experts") == 0 && status[i].layer == 1);
            continue;
        }
        uint8_t found[16];
        uint8_t wanted[16];
        digest_of_row(a, i, N_VOCAB, found);
        digest_of_row(b, i, N_VOCAB, wanted);
        CHECK(memcmp(found, wanted, sizeof found) == 0);
    }
    CHECK_MSG(n_failed > 0 && n_failed < N_VOCAB, "%d rows failed", n_failed);
    lk_context_destroy(a);
    lk_context_destroy(b);
    lk_model_close(poisoned);
    lk_model_close(clean);
    (void)unlink(path);
}

static void check_all_fail(lk_context *c, const char *tensor, int32_t layer, uint32_t flags) {
    const lk_row rows[2] = {{5, 0, 0, flags, 0}, {6, 3, 0, flags, 0}};
    lk_row_status status[2];
    lk_error err = {0};
    char wanted[32];
    CHECK_STATUS(LK_E_ROWS, lk_context_decode(c, rows, 2, status, &err));
    for (int k = 0; k < 2; k++) {
        CHECK_MSG(status[k].status == LK_E_NONFINITE && status[k].op[0] != '\0' &&
                      status[k].layer == layer,
                  "%s: layer %d, operator '%s'", tensor, status[k].layer, status[k].op);
    }
    (void)snprintf(wanted, sizeof wanted, "layer %d, operator ", layer);
    CHECK_MSG(strstr(err.message, wanted) != NULL, "%s", err.message);
}

/* A weight that every row meets: every row fails, at the layer of the weight. What lies behind the
 * last layer's keys and values is only computed for rows that want logits, and only they meet it.
 */
LK_TEST(weights_that_all_rows_meet) {
    static const struct {
        const char *tensor;
        int32_t layer;
        bool needs_logits;
    } cases[] = {
        {"blk.0.attn_norm.weight", 0, false},
        {"blk.0.attn_q.weight", 0, false},
        {"blk.1.attn_k.weight", 1, false},
        {"blk.1.attn_v.weight", 1, false},
        {"blk.0.attn_q_norm.weight", 0, false},
        {"blk.0.attn_output.weight", 0, false},
        {"blk.0.ffn_norm.weight", 0, false},
        {"blk.0.ffn_gate_inp.weight", 0, false},
        {"blk.1.attn_output.weight", 1, true},
        {"blk.1.ffn_norm.weight", 1, true},
        {"blk.1.ffn_gate_inp.weight", 1, true},
        {"output_norm.weight", -1, true},
        {"output.weight", -1, true},
    };
    const char *path = scratch_path("weight.gguf");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        copy_poked(moe_path(), path, cases[i].tensor, 0, nan_f32, sizeof nan_f32);
        lk_model *model = open_model(path);
        lk_context *c = make_real(model, NULL);
        if (!cases[i].needs_logits) {
            check_all_fail(c, cases[i].tensor, cases[i].layer, 0);
        }
        if (cases[i].layer >= 0) {
            check_all_fail(c, cases[i].tensor, cases[i].layer, LK_ROW_LOGITS);
        } else {
            const lk_row row = {5, 0, 0, LK_ROW_LOGITS, 0};
            lk_error err = {0};
            CHECK_STATUS(LK_E_ROWS, lk_context_decode(c, &row, 1, NULL, &err));
            CHECK(strstr(err.message, "outside the layers, operator ") != NULL);
        }
        lk_context_destroy(c);
        lk_model_close(model);
    }
    (void)unlink(path);
}

/* Saves a sequence of a context over the model at `path` under a digest of our own. */
static uint8_t *state_of(const char *path, size_t *size) {
    static const uint8_t digest[32] = {0};
    const char *state = scratch_path("lkstate");
    lk_error err;
    lk_model *model = open_model(path);
    lk_context *c = make_real(model, NULL);
    lk_row rows[12];
    size_t n = add_pattern(rows, 0, 0, 1, 0, 12);
    rows[n - 1].flags = 0;
    REQUIRE_OK(lk_context_decode(c, rows, n, NULL, &err), err);
    REQUIRE_OK(lk_state_save(c, 0, state, digest, &err), err);
    lk_context_destroy(c);
    lk_model_close(model);
    uint8_t *bytes = lk_test_read(state, size);
    (void)unlink(state);
    return bytes;
}

/* A quantised model whose embedding is its output matrix too: a NaN in the scale of one token's
 * row (Q6_K: the last two bytes of a block of 210) reaches every row that wants logits, and without
 * logits only the rows of that token. */
LK_TEST(one_scale_of_a_tied_matrix) {
    const char *clean = lk_test_data("models/tiny-q4_k_m.gguf");
    const char *path = scratch_path("scale.gguf");
    copy_poked(clean, path, "token_embd.weight", (uint64_t)BAD_TOKEN * 210 + 208, nan_f16,
               sizeof nan_f16);
    lk_model *model = open_model(path);
    lk_context *c = make_real(model, NULL);
    lk_error err = {0};
    lk_row_status status[2];
    const lk_row without[2] = {{BAD_TOKEN, 0, 0, 0, 0}, {7, 1, 0, 0, 0}};
    CHECK_STATUS(LK_E_ROWS, lk_context_decode(c, without, 2, status, &err));
    CHECK(status[0].status == LK_E_NONFINITE && strcmp(status[0].op, "embedding") == 0);
    CHECK(status[1].status == LK_OK);
    const lk_row with[2] = {{8, 1, 1, LK_ROW_LOGITS, 0}, {7, 2, 0, 0, 0}};
    CHECK_STATUS(LK_E_ROWS, lk_context_decode(c, with, 2, status, &err));
    CHECK(status[0].status == LK_E_NONFINITE && status[0].layer == -1);
    CHECK_MSG(strcmp(status[0].op, "matmul") == 0, "operator '%s'", status[0].op);
    CHECK(status[1].status == LK_OK);
    lk_context_destroy(c);
    lk_model_close(model);

    size_t size[2];
    uint8_t *poisoned_state = state_of(path, &size[0]);
    uint8_t *clean_state = state_of(clean, &size[1]);
    CHECK(size[0] == size[1] && memcmp(poisoned_state, clean_state, size[0]) == 0);
    free(poisoned_state);
    free(clean_state);
    (void)unlink(path);
}

LK_TEST_MAIN(LK_RUN(one_embedding_row), LK_RUN(one_expert), LK_RUN(weights_that_all_rows_meet),
             LK_RUN(one_scale_of_a_tied_matrix))
