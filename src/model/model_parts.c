/* model_parts.c - the parts of a model that a GGUF file gives: architecture, weights, graph,
 * tokenizer. Knows no architecture beyond archs.def. Reads no weights, but for tables such as
 * rotary factors.
 */
#include "model/model_parts.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fpenv.h"
#include "model/loader.h"
#include "model/model_vocab.h"

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

lk_status lk_model_check_params(const lk_model_params *params, lk_error *err) {
    const lk_status status =
        lk_check_struct_size("lk_model_params", params->struct_size, sizeof *params, err);
    if (status == LK_OK && (params->flags & ~(uint32_t)LK_MODEL_NO_REPACK) != 0) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("flags"),
                       "lk_model_params.flags is %#x, only LK_MODEL_NO_REPACK is known",
                       params->flags);
    }
    return status;
}

lk_status lk_model_find_arch(lk_model *model, lk_error *err) {
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
    const bool is_projector = value.n == 4 && memcmp(value.str, "clip", 4) == 0;
    return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT(key),
                   "architecture \"%.*s\" is not supported%s", value.n < 64 ? (int)value.n : 64,
                   value.str, is_projector ? " as a model: it is the encoder of one" : "");
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
                     .row_bytes = lk_format_bytes(format, (size_t)tensor->ne[0])};
    uint64_t n = 1;
    for (uint32_t i = 0; i < 4; i++) {
        w->ne[i] = tensor->ne[i];
        n *= tensor->ne[i]; /* cannot overflow: the reader checked the tensor's bytes */
    }
    model->n_params += n;
    return LK_OK;
}

lk_status lk_model_take_weights(lk_model *model, lk_error *err) {
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

lk_status lk_model_build_graph(lk_model *model, lk_error *err) {
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
        const lk_fpenv env = lk_fpenv_enter();
        model->arch->build(&loader, &model->graph, &model->hparams);
        lk_fpenv_leave(env);
        lk_loader_check_all_used(&loader);
    }
    lk_free_array(a, loader.key_used, n_meta, sizeof *loader.key_used);
    lk_free_array(a, loader.weight_used, model->n_weights, sizeof *loader.weight_used);
    return lk_graph_finish(&model->graph, model->graph.logits, err);
}

/* A file without a tokenizer is one that works on ids alone. */
lk_status lk_model_read_tokenizer(lk_model *model, lk_error *err) {
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

void lk_model_free_parts(lk_model *model) {
    const lk_allocator *a = model->allocator;
    lk_tokenizer_close(model->tokenizer);
    lk_graph_deinit(&model->graph);
    lk_repack_free(a, &model->repacked);
    lk_free_array(a, model->weights, model->n_weights, sizeof *model->weights);
}
