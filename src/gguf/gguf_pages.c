/* gguf_pages.c - see gguf_pages.h. */
#include "gguf/gguf_pages.h"

#include "gguf/gguf_internal.h"

void lk_gguf_forget(const lk_gguf *gguf, const void *p, size_t n) {
    for (uint32_t i = 0; i < gguf->n_parts; i++) {
        if (gguf->parts[i].map.data != NULL) {
            lk_filemap_forget(&gguf->parts[i].map, p, n); /* the one that holds it */
        }
    }
}
