/* page_layout.h - where the layers lie in a KV page, for backends that keep pages in the form that
 * state files exchange: of each layer the key blocks of its heads, then the value blocks. */
#ifndef LK_BACKEND_PAGE_LAYOUT_H
#define LK_BACKEND_PAGE_LAYOUT_H

#include "backend/backend.h"

/* page_bytes [2]: the sizes of a page without and with windows; offsets [n_kv_layers]: of each
 * layer in a page of its kind, may be NULL. Blocks are multiples of 64 bytes. False when a size
 * overflows. */
bool lk_page_layout(const lk_graph *graph, const lk_backend_params *params, size_t *offsets,
                    size_t page_bytes[2]);

#endif
