/* projector.h - a projector as the engine sees it: the parts of a model (weights, graph) without
 * tokens. Immutable after loading. */
#ifndef LK_MODEL_PROJECTOR_H
#define LK_MODEL_PROJECTOR_H

#include "lk/projector.h"
#include "model/model_parts.h"

struct lk_projector {
    lk_model parts; /* no tokenizer; the architecture is that of the encoder */
    const char *type;
};

/* The encoders of projectors.def. */
#define LK_PROJECTOR(name, type) extern const lk_arch lk_projector_##name;
#include "model/projectors.def"
#undef LK_PROJECTOR

/* Values of a vector. */
static inline uint32_t lk_projector_width(const lk_projector *projector) {
    const lk_graph *graph = &projector->parts.graph;
    return graph->values[graph->logits].width;
}

#endif
