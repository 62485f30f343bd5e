/* model_check.c - whether a file can be run, and what is missing if not, without reading weights.
 * Makes the parts of a model as lk_model_open does, but goes on where a part fails. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/params.h"
#include "lk/model.h"
#include "model/model_parts.h"

LK_NO_TAIL_PADDING(lk_model_problem, message);

enum { MAX_FORMATS = 64 };

typedef struct check {
    lk_model model; /* its parts are made one after the other */
    lk_model_problem_fn *report;
    void *ctx;
} check;

/* Reports the error of a part; out of memory is the check's own failure. */
static lk_status report(const check *c, const char *kind, lk_status status, const lk_error *reason,
                        lk_error *err) {
    if (status == LK_E_NOMEM) {
        if (err != NULL) {
            *err = *reason;
        }
        return status;
    }
    const lk_model_problem problem = {sizeof problem, status, kind, reason->subject,
                                      reason->message};
    c->report(c->ctx, &problem);
    return LK_OK;
}

/* Tensors of a format without code: one report per format, naming its first tensor. *all_known:
 * there is none. */
static lk_status check_formats(const check *c, bool *all_known, lk_error *err) {
    uint32_t seen[MAX_FORMATS];
    uint32_t n_seen = 0;
    lk_gguf *gguf = c->model.gguf;
    *all_known = true;
    for (uint64_t i = 0; i < lk_gguf_n_tensors(gguf); i++) {
        lk_gguf_tensor tensor;
        lk_status status = lk_gguf_tensor_at(gguf, i, &tensor, err);
        bool is_new = lk_format_find(tensor.type) == NULL;
        for (uint32_t k = 0; k < n_seen; k++) {
            is_new = is_new && seen[k] != tensor.type;
        }
        if (status == LK_OK && is_new && n_seen < MAX_FORMATS) {
            seen[n_seen++] = tensor.type;
            *all_known = false;
            const char *name = lk_format_name(tensor.type);
            lk_error reason;
            status = lk_fail(&reason, LK_E_UNSUPPORTED, LK_AT_SUBJECT(tensor.name),
                             "format %s (%u), first met in tensor %.128s, is not supported",
                             name != NULL ? name : "unknown", tensor.type, tensor.name);
            status = report(c, "format", status, &reason, err);
        }
        if (status != LK_OK) {
            return status;
        }
    }
    return LK_OK;
}

/* Keys and tensors, as far as the architecture is known and the formats are. */
static lk_status check_graph(check *c, bool *is_built, lk_error *err) {
    lk_error reason;
    *is_built = false;
    lk_status status = lk_model_take_weights(&c->model, &reason);
    if (status == LK_OK) {
        status = lk_model_build_graph(&c->model, &reason);
        *is_built = status == LK_OK;
    }
    return status != LK_OK ? report(c, "model", status, &reason, err) : LK_OK;
}

static lk_status run(check *c, lk_error *err) {
    lk_error reason;
    bool formats_known = false;
    bool is_built = false;
    const lk_status arch = lk_model_find_arch(&c->model, &reason);
    lk_status status = arch != LK_OK ? report(c, "architecture", arch, &reason, err) : LK_OK;
    if (status == LK_OK) {
        status = check_formats(c, &formats_known, err);
    }
    if (status == LK_OK && arch == LK_OK && formats_known) {
        status = check_graph(c, &is_built, err);
    }
    if (status == LK_OK) {
        /* Without a graph the vocabulary has no rows to be compared with. */
        c->model.hparams.n_vocab = is_built ? c->model.hparams.n_vocab : INT32_MAX;
        const lk_status tokenizer = lk_model_read_tokenizer(&c->model, &reason);
        status = tokenizer != LK_OK ? report(c, "tokenizer", tokenizer, &reason, err) : LK_OK;
    }
    return status;
}

lk_status lk_model_check(lk_gguf *gguf, lk_model_problem_fn *fn, void *ctx, lk_error *err) {
    if (gguf == NULL || fn == NULL) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE, "gguf or fn is NULL");
    }
    const lk_allocator *a = lk_allocator_or_default(NULL);
    check *c = lk_alloc_zero(a, sizeof *c);
    if (c == NULL) {
        return lk_fail_nomem(err, "the check of a model", sizeof *c);
    }
    c->report = fn;
    c->ctx = ctx;
    c->model.allocator = a;
    c->model.gguf = gguf;
    lk_graph_init(&c->model.graph, a);
    const lk_status status = run(c, err);
    lk_model_free_parts(&c->model);
    lk_free(a, c, sizeof *c);
    return status;
}
