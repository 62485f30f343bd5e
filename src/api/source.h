/* source.h - what a public call makes contexts from: a model and the backend of a device. */
#ifndef LK_API_SOURCE_H
#define LK_API_SOURCE_H

#include "api/device_list.h"
#include "engine/context.h"
#include "model/model.h"

/* The statuses of lk_device_find. */
static inline lk_status lk_source_of(lk_model *model, uint32_t device, lk_context_source *source,
                                     lk_error *err) {
    *source = (lk_context_source){
        .model = model,
        .graph = lk_model_graph(model),
        .n_ctx_train = lk_model_hparams(model)->n_ctx_train,
    };
    return lk_device_find(device, &source->ops, &source->i_device, err);
}

#endif
