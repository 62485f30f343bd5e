/* model.c - opening a model and answering questions about it; model_parts.c makes its parts.
 * Invariant: an lk_model that was handed out never changes. */
#include "lk/model.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/params.h"
#include "model/model_parts.h"

LK_NO_TAIL_PADDING(lk_model_params, flags);
LK_NO_TAIL_PADDING(lk_model_info, reserved);

static lk_status load(lk_model *model, const char *path, const lk_model_params *params,
                      lk_error *err) {
    lk_status status = lk_gguf_open(path, model->allocator, &model->gguf, err);
    if (status == LK_OK) {
        status = lk_model_find_arch(model, err);
    }
    if (status == LK_OK) {
        status = lk_model_take_weights(model, err);
    }
    if (status == LK_OK && params->progress != NULL &&
        params->progress(params->progress_ctx, "load", 0, model->n_weights) == 0) {
        return lk_fail(err, LK_E_CANCELLED, LK_NOWHERE, "loading was cancelled");
    }
    if (status == LK_OK) {
        status = lk_model_build_graph(model, err);
    }
    if (status == LK_OK) {
        status = lk_model_read_tokenizer(model, err);
    }
    if (status == LK_OK && (params->flags & LK_MODEL_NO_REPACK) == 0) {
        status = lk_repack(&model->graph, model->gguf, model->allocator, params->n_threads,
                           params->progress, params->progress_ctx, &model->repacked, err);
    }
    if (status == LK_OK && params->progress != NULL &&
        params->progress(params->progress_ctx, "load", model->n_weights, model->n_weights) == 0) {
        return lk_fail(err, LK_E_CANCELLED, LK_NOWHERE, "loading was cancelled");
    }
    return status;
}

lk_status lk_model_open(const char *path, const lk_model_params *params, lk_model **out,
                        lk_error *err) {
    const lk_model_params defaults = LK_MODEL_PARAMS_INIT;
    params = params != NULL ? params : &defaults;
    if (out == NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("out"), "out is NULL");
    }
    *out = NULL;
    if (path == NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("path"), "path is NULL");
    }
    lk_status status = lk_model_check_params(params, err);
    if (status != LK_OK) {
        return status;
    }
    const lk_allocator *a = lk_allocator_or_default(params->allocator);
    lk_model *model = lk_alloc_zero(a, sizeof *model);
    if (model == NULL) {
        return lk_fail_nomem(err, "the model", sizeof *model);
    }
    model->allocator = a;
    lk_graph_init(&model->graph, a);
    status = load(model, path, params, err);
    if (status != LK_OK) {
        lk_model_close(model);
        return status;
    }
    *out = model;
    return LK_OK;
}

void lk_model_close(lk_model *model) {
    if (model == NULL) {
        return;
    }
    const lk_allocator *a = model->allocator;
    lk_model_free_parts(model);
    lk_gguf_close(model->gguf);
    lk_free(a, model, sizeof *model);
}

lk_status lk_model_get_info(const lk_model *model, lk_model_info *info, lk_error *err) {
    if (model == NULL || info == NULL || info->struct_size != sizeof *info) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("info"),
                       "model or info is NULL, or info has an unknown size");
    }
    const lk_hparams *h = &model->hparams;
    *info = (lk_model_info){.struct_size = sizeof *info,
                            .n_vocab = (int32_t)h->n_vocab,
                            .n_layers = (int32_t)h->n_layers,
                            .n_embd = (int32_t)h->n_embd,
                            .n_heads = (int32_t)h->n_heads,
                            .n_kv_heads = (int32_t)h->n_kv_heads,
                            .head_dim = (int32_t)h->head_dim,
                            .n_experts = (int32_t)h->n_experts,
                            .n_experts_used = (int32_t)h->n_experts_used,
                            .n_ctx_train = (int64_t)h->n_ctx_train,
                            .n_params = model->n_params,
                            .n_bytes = lk_gguf_file_bytes(model->gguf),
                            .pooling = h->pooling};
    (void)snprintf(info->arch, sizeof info->arch, "%s", model->arch->name);
    lk_gguf_value name;
    if (lk_gguf_find(model->gguf, "general.name", &name, NULL) == LK_OK &&
        name.type == LK_GGUF_STRING) {
        const size_t room = sizeof info->name - 1;
        (void)snprintf(info->name, sizeof info->name, "%.*s",
                       (int)(name.n < room ? (size_t)name.n : room), name.str);
    }
    return LK_OK;
}

const lk_tokenizer *lk_model_tokenizer(const lk_model *model) {
    return model->tokenizer;
}

const lk_gguf *lk_model_gguf(const lk_model *model) {
    return model->gguf;
}

lk_status lk_model_digest(lk_model *model, uint32_t n_threads, lk_progress_fn progress,
                          void *progress_ctx, uint8_t digest[32], lk_error *err) {
    if (model == NULL || digest == NULL) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE, "model or digest is NULL");
    }
    return lk_gguf_digest(model->gguf, n_threads, progress, progress_ctx, digest, err);
}

const lk_graph *lk_model_graph(const lk_model *model) {
    return &model->graph;
}

const lk_hparams *lk_model_hparams(const lk_model *model) {
    return &model->hparams;
}
