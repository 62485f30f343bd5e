/* page_layout.c - see page_layout.h. */
#include "backend/page_layout.h"

#include "base/alloc.h"

bool lk_page_layout(const lk_graph *graph, const lk_backend_params *params, size_t *offsets,
                    size_t page_bytes[2]) {
    page_bytes[0] = page_bytes[1] = 0;
    for (uint32_t i = 0; i < graph->n_kv_layers; i++) {
        const lk_kv_layer *layer = &graph->kv_layers[i];
        const size_t head_bytes = lk_kv_block_bytes(params->k_format, layer->head_dim) +
                                  lk_kv_block_bytes(params->v_format, layer->head_dim);
        size_t *total = &page_bytes[layer->window != 0];
        size_t bytes = 0;
        if (offsets != NULL) {
            offsets[i] = *total;
        }
        if (!lk_mul_size(head_bytes, layer->n_kv_heads, &bytes) ||
            !lk_add_size(*total, bytes, total)) {
            return false;
        }
    }
    return true;
}
