/* real_context.c - see real_context.h. */
#include "real_context.h"

#include <unistd.h>

#include "lk_test.h"

lk_model *open_model(const char *path) {
    lk_error err;
    lk_model *model = NULL;
    REQUIRE_OK(lk_model_open(path, NULL, &model, &err), err);
    return model;
}

lk_context_params real_params(void) {
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_threads = 1;
    params.n_sequences = 4;
    params.kv_positions = 512;
    params.max_rows = 24;
    params.flags = LK_CONTEXT_POISON;
    return params;
}

lk_context *make_real(lk_model *model, const lk_context_params *params) {
    lk_error err;
    lk_context *context = NULL;
    const lk_context_params defaults = real_params();
    REQUIRE_OK(lk_context_create(model, params != NULL ? params : &defaults, &context, &err), err);
    return context;
}

int32_t token_of(int32_t salt, int64_t pos) {
    return (int32_t)((salt * 13 + pos * 7 + pos * pos / 11) % 100);
}

size_t add_pattern(lk_row *rows, size_t n_rows, int32_t seq, int32_t salt, int64_t pos, size_t n) {
    for (size_t i = 0; i < n; i++, pos++) {
        rows[n_rows + i] =
            (lk_row){token_of(salt, pos), seq, pos, i + 1 == n ? LK_ROW_LOGITS : 0, 0};
    }
    return n_rows + n;
}

void extend_real(lk_context *context, int32_t seq, int32_t salt, size_t n) {
    lk_error err;
    lk_row rows[256];
    int64_t pos = 0;
    REQUIRE_OK(lk_sequence_length(context, seq, &pos, &err), err);
    n = add_pattern(rows, 0, seq, salt, pos, n);
    REQUIRE_OK(lk_context_decode(context, rows, n, NULL, &err), err);
}

void digest_of_row(lk_context *context, size_t i_row, int32_t n_vocab, uint8_t digest[16]) {
    lk_error err;
    const float *logits = NULL;
    REQUIRE_OK(lk_context_logits(context, i_row, &logits, &err), err);
    lk_logits_digest(logits, (size_t)n_vocab, digest);
}

void digest_of_next(lk_context *context, int32_t seq, int32_t n_vocab, uint8_t digest[16]) {
    lk_error err;
    int64_t length = 0;
    REQUIRE_OK(lk_sequence_length(context, seq, &length, &err), err);
    const lk_row row = {3, seq, length, LK_ROW_LOGITS, 0};
    REQUIRE_OK(lk_context_decode(context, &row, 1, NULL, &err), err);
    digest_of_row(context, 0, n_vocab, digest);
    REQUIRE_OK(lk_sequence_truncate(context, seq, length, &err), err);
}

const char *scratch_path(const char *name) {
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof paths[0], "lk_fault.%ld.%s", (long)getpid(), name);
    return path;
}

void copy_poked(const char *from, const char *to, const char *tensor, uint64_t at,
                const void *bytes, size_t n_bytes) {
    lk_error err;
    lk_gguf *gguf = NULL;
    lk_gguf_tensor found;
    size_t size = 0;
    REQUIRE_OK(lk_gguf_open(from, NULL, &gguf, &err), err);
    REQUIRE_OK(lk_gguf_find_tensor(gguf, tensor, &found, &err), err);
    uint8_t *data = lk_test_read(from, &size);
    CHECK(at + n_bytes <= found.n_bytes);
    memcpy(data + found.offset + at, bytes, n_bytes);
    lk_gguf_close(gguf);
    FILE *file = fopen(to, "wb");
    if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        (void)fprintf(stderr, "cannot write %s\n", to);
        exit(1);
    }
    free(data);
}
