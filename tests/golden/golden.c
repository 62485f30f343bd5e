/* golden.c - see golden.h. */
#include "golden.h"

#include <math.h>

#include "lk_test.h"

lk_model *golden_open(const char *path) {
    lk_error err;
    lk_model *model = NULL;
    REQUIRE_OK(lk_model_open(path, NULL, &model, &err), err);
    return model;
}

lk_model *golden_open_mapped(const char *path) {
    lk_error err;
    lk_model *model = NULL;
    lk_model_params params = LK_MODEL_PARAMS_INIT;
    params.flags = LK_MODEL_NO_REPACK;
    REQUIRE_OK(lk_model_open(path, &params, &model, &err), err);
    return model;
}

lk_context *golden_context(lk_model *model, const golden_setup *setup, int64_t n_positions) {
    lk_error err;
    lk_context *context = NULL;
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_threads = setup->n_threads != 0 ? setup->n_threads : 1;
    params.isa_mask = setup->isa_mask;
    params.kv_positions = n_positions;
    params.max_rows = setup->max_rows != 0 ? setup->max_rows : 256;
    params.max_logits = 1024;
    params.k_type = setup->k_type;
    params.v_type = setup->v_type;
    params.flags = setup->flags;
    REQUIRE_OK(lk_context_create(model, &params, &context, &err), err);
    return context;
}

void golden_logits(lk_context *context, int32_t n_vocab, const int32_t *ids, int32_t n_ids,
                   const int32_t *wanted, int32_t n_wanted, float *out) {
    lk_error err;
    lk_row *rows = calloc((size_t)n_ids, sizeof *rows);
    if (rows == NULL) {
        exit(1);
    }
    int32_t k = 0;
    for (int32_t i = 0; i < n_ids; i++) {
        rows[i].token = ids[i];
        rows[i].pos = i;
        if (k < n_wanted && wanted[k] == i) {
            rows[i].flags = LK_ROW_LOGITS;
            k++;
        }
    }
    REQUIRE_OK(lk_sequence_clear(context, 0, &err), err);
    REQUIRE_OK(lk_context_decode(context, rows, (size_t)n_ids, NULL, &err), err);
    for (int32_t i = 0; i < n_wanted; i++) {
        const float *logits = NULL;
        REQUIRE_OK(lk_context_logits(context, (size_t)wanted[i], &logits, &err), err);
        memcpy(out + (size_t)i * (size_t)n_vocab, logits, (size_t)n_vocab * sizeof *out);
    }
    free(rows);
}

double golden_relative_error(const float *a, const float *b, size_t n) {
    double difference = 0;
    double norm = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)a[i] - (double)b[i];
        difference += d * d;
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / norm);
}

static int32_t best_two(const float *logits, int32_t n, float *gap) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++) {
        if (logits[i] > logits[best]) {
            best = i;
        }
    }
    float second = -INFINITY;
    for (int32_t i = 0; i < n; i++) {
        if (i != best && logits[i] > second) {
            second = logits[i];
        }
    }
    *gap = logits[best] - second;
    return best;
}

void golden_greedy(lk_context *context, int32_t n_vocab, const int32_t *ids, int32_t n_ids,
                   int32_t n_new, int32_t *out, float *gaps) {
    lk_error err;
    float *logits = malloc((size_t)n_vocab * sizeof *logits);
    if (logits == NULL) {
        exit(1);
    }
    const int32_t last = n_ids - 1;
    golden_logits(context, n_vocab, ids, n_ids, &last, 1, logits);
    for (int32_t i = 0; i < n_new; i++) {
        float gap = 0;
        out[i] = best_two(logits, n_vocab, &gap);
        if (gaps != NULL) {
            gaps[i] = gap;
        }
        if (i + 1 < n_new) {
            const lk_row row = {out[i], 0, n_ids + i, LK_ROW_LOGITS, 0};
            const float *next = NULL;
            REQUIRE_OK(lk_context_decode(context, &row, 1, NULL, &err), err);
            REQUIRE_OK(lk_context_logits(context, 0, &next, &err), err);
            memcpy(logits, next, (size_t)n_vocab * sizeof *logits);
        }
    }
    free(logits);
}
