/* projector.c - opening a projector file and answering questions about it. Knows no encoder beyond
 * projectors.def. Invariant: an lk_projector that was handed out never changes. */
#include "model/projector.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/params.h"

LK_NO_TAIL_PADDING(lk_projector_info, n_bytes);

static const struct {
    const char *type;
    const lk_arch *arch;
} kinds[] = {
#define LK_PROJECTOR(name, type) {type, &lk_projector_##name},
#include "model/projectors.def"
#undef LK_PROJECTOR
};

static bool is_text(const lk_gguf_value *value, const char *text) {
    return value->type == LK_GGUF_STRING && value->n == strlen(text) &&
           memcmp(value->str, text, (size_t)value->n) == 0;
}

/* The text of a key, for messages. */
static void copy_text(const lk_gguf_value *value, char text[64]) {
    const bool is_string = value->type == LK_GGUF_STRING;
    const int n = value->n < 63 ? (int)value->n : 63;
    (void)snprintf(text, 64, "%.*s", is_string ? n : 0, is_string ? value->str : "");
}

static lk_status check_file(const lk_gguf *gguf, lk_error *err) {
    static const char key[] = "general.architecture";
    lk_gguf_value value;
    char found[64] = "";
    if (lk_gguf_find(gguf, key, &value, NULL) == LK_OK) {
        if (is_text(&value, "clip")) {
            return LK_OK;
        }
        copy_text(&value, found);
    }
    return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT(key),
                   "the file is no projector: key %s is \"%s\", expected \"clip\"", key, found);
}

static lk_status find_kind(lk_projector *projector, lk_error *err) {
    static const char *const keys[] = {"clip.audio.projector_type", "clip.projector_type"};
    lk_gguf_value value;
    char found[64] = "";
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        if (lk_gguf_find(projector->parts.gguf, keys[k], &value, NULL) != LK_OK) {
            continue;
        }
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            if (is_text(&value, kinds[i].type)) {
                projector->type = kinds[i].type;
                projector->parts.arch = kinds[i].arch;
                return LK_OK;
            }
        }
        copy_text(&value, found);
        break;
    }
    return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT("clip.projector_type"),
                   "projector type \"%s\" (key clip.projector_type) is not supported", found);
}

static lk_status load(lk_projector *projector, const char *path, const lk_model_params *params,
                      lk_error *err) {
    lk_model *parts = &projector->parts;
    lk_status status = lk_gguf_open(path, parts->allocator, &parts->gguf, err);
    if (status == LK_OK) {
        status = check_file(parts->gguf, err);
    }
    if (status == LK_OK) {
        status = find_kind(projector, err);
    }
    if (status == LK_OK) {
        status = lk_model_take_weights(parts, err);
    }
    if (status == LK_OK) {
        status = lk_model_build_graph(parts, err);
    }
    if (status == LK_OK && (params->flags & LK_MODEL_NO_REPACK) == 0) {
        status = lk_repack(&parts->graph, parts->gguf, parts->allocator, params->n_threads,
                           params->progress, params->progress_ctx, &parts->repacked, err);
    }
    return status;
}

lk_status lk_projector_open(const char *path, const lk_model_params *params, lk_projector **out,
                            lk_error *err) {
    const lk_model_params defaults = LK_MODEL_PARAMS_INIT;
    params = params != NULL ? params : &defaults;
    if (out == NULL || path == NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT(out == NULL ? "out" : "path"),
                       "path and out must not be NULL");
    }
    *out = NULL;
    lk_status status = lk_model_check_params(params, err);
    if (status != LK_OK) {
        return status;
    }
    const lk_allocator *a = lk_allocator_or_default(params->allocator);
    lk_projector *projector = lk_alloc_zero(a, sizeof *projector);
    if (projector == NULL) {
        return lk_fail_nomem(err, "the projector", sizeof *projector);
    }
    projector->parts.allocator = a;
    lk_graph_init(&projector->parts.graph, a);
    status = load(projector, path, params, err);
    if (status != LK_OK) {
        lk_projector_close(projector);
        return status;
    }
    *out = projector;
    return LK_OK;
}

void lk_projector_close(lk_projector *projector) {
    if (projector == NULL) {
        return;
    }
    const lk_allocator *a = projector->parts.allocator;
    lk_model_free_parts(&projector->parts);
    lk_gguf_close(projector->parts.gguf);
    lk_free(a, projector, sizeof *projector);
}

/* Features, stem, layers, embeddings. */
static int32_t count_stages(const lk_projector *projector) {
    return (int32_t)projector->parts.hparams.n_layers + 3;
}

lk_status lk_projector_get_info(const lk_projector *projector, lk_projector_info *info,
                                lk_error *err) {
    if (projector == NULL || info == NULL || info->struct_size != sizeof *info) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("info"),
                       "projector or info is NULL, or info has an unknown size");
    }
    const lk_model *parts = &projector->parts;
    *info = (lk_projector_info){.struct_size = sizeof *info,
                                .n_mels = (int32_t)parts->graph.n_embd,
                                .n_layers = (int32_t)parts->hparams.n_layers,
                                .n_embd = (int32_t)parts->hparams.n_embd,
                                .n_out = (int32_t)lk_projector_width(projector),
                                .window_frames = (int32_t)parts->graph.max_run,
                                .n_stages = count_stages(projector),
                                .n_params = parts->n_params,
                                .n_bytes = lk_gguf_file_bytes(parts->gguf)};
    (void)snprintf(info->type, sizeof info->type, "%s", projector->type);
    lk_gguf_value name;
    if (lk_gguf_find(parts->gguf, "general.name", &name, NULL) == LK_OK &&
        name.type == LK_GGUF_STRING) {
        const size_t room = sizeof info->name - 1;
        (void)snprintf(info->name, sizeof info->name, "%.*s",
                       (int)(name.n < room ? (size_t)name.n : room), name.str);
    }
    return LK_OK;
}

uint64_t lk_projector_n_tokens(const lk_projector *projector, uint64_t n_frames) {
    const uint32_t window = projector->parts.graph.max_run;
    const uint64_t full = lk_rows_of_run(LK_ROWS_QUARTER, window);
    return n_frames / window * full +
           lk_rows_of_run(LK_ROWS_QUARTER, (uint32_t)(n_frames % window));
}

lk_status lk_projector_stage(const lk_projector *projector, int32_t i, char name[24],
                             lk_error *err) {
    if (projector == NULL || name == NULL || i < 0 || i >= count_stages(projector)) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("i"), "a projector has no stage %d", i);
    }
    if (i < 2) {
        (void)snprintf(name, 24, "%s", i == 0 ? "features" : "stem");
    } else if (i + 1 == count_stages(projector)) {
        (void)snprintf(name, 24, "embeddings");
    } else {
        (void)snprintf(name, 24, "layer %d", i - 2);
    }
    return LK_OK;
}

const lk_gguf *lk_projector_gguf(const lk_projector *projector) {
    return projector->parts.gguf;
}
