/* loader.h - the state behind the functions of arch.h, for model.c. */
#ifndef LK_MODEL_LOADER_H
#define LK_MODEL_LOADER_H

#include "model/arch.h"

struct lk_loader {
    const lk_gguf *gguf;
    const char *arch;
    lk_graph *graph; /* its status and error are the loader's */
    lk_weight *weights;
    size_t n_weights;
    size_t next_weight; /* where the search begins: files keep the order of the layers */
    bool *weight_used;  /* [n_weights] */
    /* Not NULL: there are no weights yet, and this one gives what is asked for, so that what an
     * architecture wants can be listed. NULL where an optional tensor is not wanted, or an error is
     * set. */
    const lk_weight *(*invent)(void *ctx, const char *name, const lk_tensor_shape *shape,
                               bool required);
    void *invent_ctx;
    bool *key_used; /* [lk_gguf_n_meta] */
};

/* Fails when a key of the architecture or a tensor was not asked for. */
void lk_loader_check_all_used(lk_loader *loader);

#endif
