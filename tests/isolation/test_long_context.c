/* test_long_context.c - attention over many chunks: where the keys of a sequence are cut into
 * ranges for several threads, the rows have the bits of one thread. labels: threads */
#include <stdlib.h>
#include <string.h>

#include "lk/lk.h"
#include "lk_test.h"

enum { N_SEQS = 2, N_THREAD_COUNTS = 4 };

typedef struct lengths {
    int32_t prompt; /* of sequence 0; sequence 1 has a third of it */
    int32_t n_steps;
} lengths;

static int32_t token_at(int32_t seq, int32_t pos, int32_t n_vocab) {
    return (int32_t)((uint32_t)(pos * 7919 + seq * 104729 + 11) % (uint32_t)n_vocab);
}

static void fill_prompt(lk_context *context, int32_t seq, int32_t n, int32_t n_vocab) {
    lk_error err;
    lk_row *rows = calloc((size_t)n, sizeof rows[0]);
    for (int32_t i = 0; i < n; i++) {
        rows[i] = (lk_row){token_at(seq, i, n_vocab), seq, i, 0, 0};
    }
    REQUIRE_OK(lk_context_decode(context, rows, (size_t)n, NULL, &err), err);
    free(rows);
}

/* Digests of n_steps steps: sequence 0 alone, every other one with sequence 1. */
static void run_steps(lk_context *context, lengths l, int32_t n_vocab, uint8_t (*digests)[16]) {
    lk_error err;
    int32_t other = 0;
    for (int32_t step = 0; step < l.n_steps; step++) {
        const int32_t n_rows = 1 + step % 2;
        lk_row rows[N_SEQS];
        for (int32_t seq = 0; seq < n_rows; seq++) {
            const int32_t pos = seq == 0 ? l.prompt + step : l.prompt / 3 + other;
            rows[seq] = (lk_row){token_at(seq, pos, n_vocab), seq, pos, LK_ROW_LOGITS, 0};
        }
        other += n_rows - 1;
        REQUIRE_OK(lk_context_decode(context, rows, (size_t)n_rows, NULL, &err), err);
        for (int32_t i = 0; i < n_rows; i++) {
            const float *logits = NULL;
            REQUIRE_OK(lk_context_logits(context, (size_t)i, &logits, &err), err);
            lk_logits_digest(logits, (size_t)n_vocab, digests[step * N_SEQS + i]);
        }
    }
}

static void check_type(lk_model *model, lk_kv_type type, lengths l, int32_t n_vocab) {
    static const uint32_t thread_counts[N_THREAD_COUNTS] = {1, 2, 3, 8};
    const size_t n_bytes = (size_t)l.n_steps * N_SEQS * 16;
    uint8_t(*want)[16] = calloc(1, n_bytes);
    uint8_t(*got)[16] = calloc(1, n_bytes);
    for (int i = 0; i < N_THREAD_COUNTS; i++) {
        lk_error err;
        lk_context *context = NULL;
        lk_context_params params = LK_CONTEXT_PARAMS_INIT;
        params.n_threads = thread_counts[i];
        params.kv_positions = 2 * l.prompt + 256;
        params.n_sequences = N_SEQS;
        params.max_logits = N_SEQS;
        params.k_type = type;
        params.v_type = type;
        params.flags = LK_CONTEXT_POISON;
        params.page_seed = 3;
        REQUIRE_OK(lk_context_create(model, &params, &context, &err), err);
        fill_prompt(context, 0, l.prompt, n_vocab);
        fill_prompt(context, 1, l.prompt / 3, n_vocab);
        run_steps(context, l, n_vocab, i == 0 ? want : got);
        CHECK(i == 0 || memcmp(got, want, n_bytes) == 0);
        lk_context_destroy(context);
    }
    free(got);
    free(want);
}

LK_TEST(threads_share_long_contexts) {
    lk_error err;
    lk_model *model = NULL;
    REQUIRE_OK(lk_model_open(lk_test_data("models/tiny-q4_k_m.gguf"), NULL, &model, &err), err);
    lk_model_info info = LK_MODEL_INFO_INIT;
    REQUIRE_OK(lk_model_get_info(model, &info, &err), err);
    const lengths l = {(int32_t)lk_test_size(700, 1500, 6000), (int32_t)lk_test_size(4, 6, 70)};
    for (int type = LK_KV_F32; type <= LK_KV_Q8_0; type++) {
        check_type(model, (lk_kv_type)type, l, info.n_vocab);
    }
    lk_model_close(model);
}

LK_TEST_MAIN(LK_RUN(threads_share_long_contexts))
