/* model.h - the model as the engine sees it: weights, graph, tokenizer. Immutable after loading. */
#ifndef LK_MODEL_MODEL_H
#define LK_MODEL_MODEL_H

#include "graph/graph.h"
#include "lk/model.h"

/* Hyperparameters that the architectures share; read by the arch's own loader. */
typedef struct lk_hparams {
    uint32_t n_vocab;
    uint32_t n_layers;
    uint32_t n_embd;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    uint32_t n_rot;
    uint32_t n_ff;
    uint32_t n_experts;
    uint32_t n_experts_used;
    uint32_t n_ff_expert;
    float rms_eps;
    uint64_t n_ctx_train;
    lk_rope_params rope;
    lk_pooling pooling; /* of embeddings; LK_POOLING_NONE: the file says nothing */
} lk_hparams;

const lk_graph *lk_model_graph(const lk_model *model);
const lk_hparams *lk_model_hparams(const lk_model *model);

#endif
