/* encoder.h - an encoder as src/api sees it: a projector's graph over windows of features. Bodies
 * in encoder.c. Callers hold it alone. Invariant: all memory that encoding needs is allocated by
 * lk_encoder_build. */
#ifndef LK_ENGINE_ENCODER_H
#define LK_ENGINE_ENCODER_H

#include <stdatomic.h>

#include "backend/backend.h"
#include "lk/projector.h"

struct lk_encoder {
    const lk_allocator *allocator;
    const lk_projector *projector;
    const lk_graph *graph;
    const lk_backend_ops *ops;
    lk_backend *backend;
    lk_encoder_params params;
    uint32_t n_out; /* width of what it gives */
    int32_t n_stages;
    lk_step_row *rows;            /* [max_windows * window] */
    lk_step_run *runs;            /* [max_windows] */
    struct lk_stage_hash *hashes; /* [n_stages] */
    atomic_uint is_busy;
};

/* i_device: of those that the backend counts. */
lk_status lk_encoder_build(lk_projector *projector, const lk_backend_ops *ops, uint32_t i_device,
                           const lk_encoder_params *params, lk_encoder **out, lk_error *err);
void lk_encoder_free(lk_encoder *encoder);

/* Body of lk_encoder_encode; `show`, when not NULL, sees the stem (stage 0) and the layers (from 1)
 * as lk_graph_tap numbered them, a few windows at a time. */
lk_status lk_encoder_run(lk_encoder *encoder, const float *features, uint64_t n_frames,
                         float *embeddings, const lk_encode_params *params, lk_show_fn *show,
                         void *show_ctx, lk_error *err);

#endif
