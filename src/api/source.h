/* source.h - what a public call makes contexts from: a model and the backend of this machine. */
#ifndef LK_API_SOURCE_H
#define LK_API_SOURCE_H

#include "engine/context.h"
#include "model/model.h"

static inline lk_context_source lk_source_of(lk_model *model) {
    return (lk_context_source){
        .model = model,
        .graph = lk_model_graph(model),
        .ops = &lk_backend_cpu,
        .n_ctx_train = lk_model_hparams(model)->n_ctx_train,
    };
}

#endif
