/* cuda_weights.c - the weights of a graph on the device, each tensor once, in the file's own
 * layout. Tensors were found inside their file when it was opened, so their sizes do not overflow.
 */
#include "backend/cuda/cuda.h"

#include "base/alloc.h"
#include "base/error.h"

enum { ALIGN = 256 };

void lk_cuda_weights_of(const lk_node *node, const lk_weight *weights[LK_CUDA_N_WEIGHTS]) {
    for (uint32_t i = 0; i < LK_CUDA_N_WEIGHTS; i++) {
        weights[i] = NULL;
    }
    weights[LK_CUDA_W] = node->w;
    switch (node->kind) {
    case LK_NODE_LAYER_NORM:
        weights[LK_CUDA_W_BIAS] = node->p.layer_norm.b;
        break;
    case LK_NODE_ATTENTION:
        weights[LK_CUDA_W_SINKS] = node->p.attn.sinks;
        break;
    case LK_NODE_MOE:
        weights[LK_CUDA_W_GATE] = node->p.moe.gate;
        weights[LK_CUDA_W_UP] = node->p.moe.up;
        weights[LK_CUDA_W_DOWN] = node->p.moe.down;
        weights[LK_CUDA_W_GATE_BIAS] = node->p.moe.gate_bias;
        weights[LK_CUDA_W_UP_BIAS] = node->p.moe.up_bias;
        weights[LK_CUDA_W_DOWN_BIAS] = node->p.moe.down_bias;
        break;
    default:
        break;
    }
}

static size_t bytes_of(const lk_weight *w) {
    return w->row_bytes * (size_t)(w->ne[1] * w->ne[2] * w->ne[3]);
}

/* Where the same data went for an earlier node (embeddings that are the output matrix too); 0: it
 * is new. `place`: 1 plus the offset, before there is memory. */
static lk_cuda_ptr find_earlier(const lk_backend *b, uint32_t i_node, const lk_weight *w) {
    for (uint32_t i = 0; i < i_node; i++) {
        const lk_weight *weights[LK_CUDA_N_WEIGHTS];
        lk_cuda_weights_of(&b->graph->nodes[i], weights);
        for (uint32_t k = 0; k < LK_CUDA_N_WEIGHTS; k++) {
            if (weights[k] != NULL && weights[k]->data == w->data &&
                bytes_of(weights[k]) == bytes_of(w)) {
                return b->nodes[i].weights[k];
            }
        }
    }
    return 0;
}

lk_status lk_cuda_place_weights(lk_backend *b, lk_cuda_ptr base, size_t *n_bytes, lk_error *err) {
    lk_status status = LK_OK;
    size_t used = 0;
    for (uint32_t i = 0; i < b->graph->n_nodes && status == LK_OK; i++) {
        const lk_weight *weights[LK_CUDA_N_WEIGHTS];
        lk_cuda_weights_of(&b->graph->nodes[i], weights);
        for (uint32_t k = 0; k < LK_CUDA_N_WEIGHTS && status == LK_OK; k++) {
            lk_cuda_ptr *at = &b->nodes[i].weights[k];
            if (weights[k] == NULL) {
                continue;
            }
            *at = find_earlier(b, i, weights[k]);
            if (*at != 0) {
                continue;
            }
            *at = base + ALIGN + used; /* never 0, also before there is memory */
            used += (bytes_of(weights[k]) + LK_CUDA_PADDING + ALIGN - 1) / ALIGN * ALIGN;
            if (base != 0) {
                status = lk_cuda_copy_in(b, *at, weights[k]->data, bytes_of(weights[k]), err);
            }
        }
    }
    *n_bytes = used + ALIGN;
    return status;
}
