/* model.c - opening a model: the file, its weights, the architecture's graph, the tokenizer. Knows
 * no architecture beyond archs.def. Invariant: an lk_model that was handed out never changes. */
#include "lk/model.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fpenv.h"
#include "base/params.h"
#include "model/loader.h"
#include "model/model_vocab.h"
#include "model/repack.h"

LK_NO_TAIL_PADDING(lk_model_params, flags);
LK_NO_TAIL_PADDING(lk_model_info, n_bytes);

struct lk_model {
    const lk_allocator *allocator;
    lk_gguf *gguf;
    const lk_arch *arch;
    lk_weight *weights; /* [n_weights], in the order of the file */
    size_t n_weights;
    uint64_t n_params;
    lk_hparams hparams;
    lk_graph graph;
    lk_repacked repacked;
    lk_tokenizer *tokenizer;
};

static const lk_arch *const archs[] = {
#define LK_ARCH(name) &lk_arch_##name,
#include "model/archs.def"
#undef LK_ARCH
};

int lk_arch_is_supported(const char *arch) {
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        if (strcmp(arch, archs[i]->name) == 0) {
            return 1;
        }
    }
    return 0;
}

static lk_status find_arch(lk_model *model, lk_error *err) {
    static const char key[] = "general.architecture";
    lk_gguf_value value;
    const lk_status status = lk_gguf_find(model->gguf, key, &value, err);
    if (status != LK_OK) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT(key), "key %s is missing", key);
    }
    if (value.type != LK_GGUF_STRING) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT(key), "key %s has type %s, expected string",
                       key, lk_gguf_type_name(value.type));
    }
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        if (value.n == strlen(archs[i]->name) &&
            memcmp(value.str, archs[i]->name, (size_t)value.n) == 0) {
            model->arch = archs[i];
            return LK_OK;
        }
    }
    return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT(key),
                   "architecture \"%.*s\" is not supported", value.n < 64 ? (int)value.n : 64,
                   value.str);
}

static lk_status take_weight(lk_model *model, const lk_gguf_tensor *tensor, lk_weight *w,
                             lk_error *err) {
    const lk_format *format = lk_format_find(tensor->type);
    if (format == NULL) {
        const char *name = lk_format_name(tensor->type);
        return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT(tensor->name),
                       "tensor %.128s has format %s (%u), which is not supported", tensor->name,
                       name != NULL ? name : "unknown", tensor->type);
    }
    *w = (lk_weight){.name = tensor->name,
                     .format = format,
                     .data = tensor->data,
                     .n_dims = tensor->n_dims,
                     .row_bytes =
                         (size_t)(tensor->ne[0] / format->block_elems) * format->block_bytes};
    uint64_t n = 1;
    for (uint32_t i = 0; i < 4; i++) {
        w->ne[i] = tensor->ne[i];
        n *= tensor->ne[i]; /* cannot overflow: the reader checked the tensor's bytes */
    }
    model->n_params += n;
    return LK_OK;
}

static lk_status take_weights(lk_model *model, lk_error *err) {
    const uint64_t n = lk_gguf_n_tensors(model->gguf);
    model->weights = lk_alloc_array_zero(model->allocator, (size_t)n, sizeof *model->weights);
    if (model->weights == NULL) {
        return lk_fail_nomem(err, "the list of weights", (size_t)n * sizeof *model->weights);
    }
    model->n_weights = (size_t)n;
    for (uint64_t i = 0; i < n; i++) {
        lk_gguf_tensor tensor;
        lk_status status = lk_gguf_tensor_at(model->gguf, i, &tensor, err);
        if (status == LK_OK) {
            status = take_weight(model, &tensor, &model->weights[i], err);
        }
        if (status != LK_OK) {
            return status;
        }
    }
    return LK_OK;
}

static lk_status build_graph(lk_model *model, lk_error *err) {
    const lk_allocator *a = model->allocator;
    const size_t n_meta = (size_t)lk_gguf_n_meta(model->gguf);
    lk_loader loader = {.gguf = model->gguf,
                        .arch = model->arch->name,
                        .graph = &model->graph,
                        .weights = model->weights,
                        .n_weights = model->n_weights};
    loader.weight_used = lk_alloc_array_zero(a, model->n_weights, sizeof *loader.weight_used);
    loader.key_used = lk_alloc_array_zero(a, n_meta, sizeof *loader.key_used);
    if (loader.weight_used == NULL || loader.key_used == NULL) {
        lk_loader_fail(&loader, LK_E_NOMEM, "the loader", "cannot allocate the loader's lists");
    } else {
        model->arch->build(&loader, &model->graph, &model->hparams);
        lk_loader_check_all_used(&loader);
    }
    lk_free_array(a, loader.key_used, n_meta, sizeof *loader.key_used);
    lk_free_array(a, loader.weight_used, model->n_weights, sizeof *loader.weight_used);
    return lk_graph_finish(&model->graph, model->graph.logits, err);
}

/* A file without a tokenizer is one that works on ids alone. */
static lk_status read_tokenizer(lk_model *model, lk_error *err) {
    lk_error reason;
    const lk_status status =
        lk_tokenizer_create_from_gguf(model->gguf, model->allocator, &model->tokenizer, &reason);
    if (status == LK_E_NOT_FOUND) {
        return LK_OK;
    }
    if (status != LK_OK) {
        if (err != NULL) {
            *err = reason;
        }
        return status;
    }
    const int32_t n_tokens = lk_tokenizer_n_vocab(model->tokenizer);
    if (n_tokens > (int32_t)model->hparams.n_vocab) { /* fewer are fine: padded embeddings */
        return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT("token_embd.weight"),
                       "tensor token_embd.weight has %u rows, expected one for each of the "
                       "tokenizer's %d tokens",
                       model->hparams.n_vocab, n_tokens);
    }
    return LK_OK;
}

static lk_status load(lk_model *model, const char *path, const lk_model_params *params,
                      lk_error *err) {
    lk_status status = lk_gguf_open(path, model->allocator, &model->gguf, err);
    if (status == LK_OK) {
        status = find_arch(model, err);
    }
    if (status == LK_OK) {
        status = take_weights(model, err);
    }
    if (status == LK_OK && params->progress != NULL &&
        params->progress(params->progress_ctx, "load", 0, model->n_weights) == 0) {
        return lk_fail(err, LK_E_CANCELLED, LK_NOWHERE, "loading was cancelled");
    }
    if (status == LK_OK) {
        const lk_fpenv env = lk_fpenv_enter();
        status = build_graph(model, err);
        lk_fpenv_leave(env);
    }
    if (status == LK_OK) {
        status = read_tokenizer(model, err);
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
    if (params->struct_size != sizeof *params) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("struct_size"),
                       "lk_model_params.struct_size is %zu, this library knows %zu",
                       params->struct_size, sizeof *params);
    }
    if ((params->flags & ~(uint32_t)LK_MODEL_NO_REPACK) != 0) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("flags"),
                       "lk_model_params.flags is %#x, only LK_MODEL_NO_REPACK is known",
                       params->flags);
    }
    const lk_allocator *a = lk_allocator_or_default(params->allocator);
    lk_model *model = lk_alloc_zero(a, sizeof *model);
    if (model == NULL) {
        return lk_fail_nomem(err, "the model", sizeof *model);
    }
    model->allocator = a;
    lk_graph_init(&model->graph, a);
    const lk_status status = load(model, path, params, err);
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
    lk_tokenizer_close(model->tokenizer);
    lk_graph_deinit(&model->graph);
    lk_repack_free(a, &model->repacked);
    lk_free_array(a, model->weights, model->n_weights, sizeof *model->weights);
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
                            .n_bytes = lk_gguf_file_bytes(model->gguf)};
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
