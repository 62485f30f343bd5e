/* quantize_mix.h - which format each tensor of a model gets for a target type. Knows names and
 * shapes, no data. */
#ifndef LK_MODEL_QUANTIZE_MIX_H
#define LK_MODEL_QUANTIZE_MIX_H

#include <stdbool.h>

#include "lk/gguf.h"

/* What the choice depends on besides the tensor. */
typedef struct lk_quantize_mix {
    uint32_t type; /* lk_quantize_type */
    int32_t n_layers;
    int64_t n_experts; /* 0: dense */
    bool is_tied;      /* the token embedding is the output matrix too */
    bool is_70b;       /* the Llama 2 70B shape: 80 layers, eight queries on one value head */
} lk_quantize_mix;

/* False when `type` is none. */
bool lk_quantize_mix_init(lk_quantize_mix *mix, const lk_gguf *gguf, uint32_t type);
/* The format of a tensor; *wanted is what it would be if its rows divided into blocks. */
uint32_t lk_quantize_mix_format(const lk_quantize_mix *mix, const lk_gguf_tensor *tensor,
                                uint32_t *wanted);

#endif
