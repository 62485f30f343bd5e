/* model_parts.h - what a model consists of, and the steps that make it from an open file. Each step
 * needs those before it; each reports the first thing that is missing or not as it should be. */
#ifndef LK_MODEL_MODEL_PARTS_H
#define LK_MODEL_MODEL_PARTS_H

#include "model/arch.h"
#include "model/repack.h"

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

/* What a caller asks for, of a model as of a projector. */
lk_status lk_model_check_params(const lk_model_params *params, lk_error *err);
/* The architecture that the file names. */
lk_status lk_model_find_arch(lk_model *model, lk_error *err);
/* The list of weights: every tensor in a format that this build computes with. */
lk_status lk_model_take_weights(lk_model *model, lk_error *err);
/* The graph, by the architecture: keys and tensors as it needs them, and no others. */
lk_status lk_model_build_graph(lk_model *model, lk_error *err);
/* A file without a tokenizer is one that works on ids alone. */
lk_status lk_model_read_tokenizer(lk_model *model, lk_error *err);
/* Frees what the steps made; not the file. */
void lk_model_free_parts(lk_model *model);

#endif
