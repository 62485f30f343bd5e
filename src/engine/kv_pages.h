/* kv_pages.h - the KV pages of one kind in a context (of the layers without windows, or of those
 * with windows): which are free, how many sequences hold each, and the tokens of their positions,
 * with a digest of the vector where one took the token's place.
 * The contents live in the backend. Tokens are kept per page, so that a fork shares them with the
 * page and a context of many sequences stays small.
 *
 * Invariant: a page is in the free list if and only if its reference count is 0. Nothing here
 * allocates after lk_kv_pages_init. */
#ifndef LK_ENGINE_KV_PAGES_H
#define LK_ENGINE_KV_PAGES_H

#include <stdbool.h>

#include "backend/backend.h"

/* What tells two vectors apart: lk_logits_digest of one; all zero at a position that is a token. */
typedef struct lk_row_digest {
    uint8_t bytes[16];
} lk_row_digest;

typedef struct lk_kv_pages {
    const lk_allocator *allocator;
    const lk_backend_ops *ops;
    lk_backend *backend; /* borrowed */
    uint32_t first;      /* id of the first page; the others follow */
    uint32_t n_pages;
    uint32_t n_free;
    uint32_t *free_pages;   /* [n_pages]; the last of n_free is handed out next */
    uint32_t *refs;         /* [n_pages] sequences that hold page first + i */
    int32_t *tokens;        /* [n_pages, LK_CHUNK], or NULL */
    lk_row_digest *digests; /* [n_pages, LK_CHUNK], or NULL */
    bool poison;            /* fill pages with NaN patterns when they are taken and given back */
    uint32_t seed;          /* nonzero: hand out free pages in a shuffled order */
    uint64_t n_taken;
    uint64_t n_copied;
} lk_kv_pages;

/* What lk_kv_pages_init makes. */
typedef struct lk_kv_pages_params {
    uint32_t first;
    uint32_t n_pages;
    bool keeps_tokens;
    bool poison;
    uint32_t seed;
} lk_kv_pages_params;
/* *pages is zeroed first, so that deinit is safe after a failure. */
lk_status lk_kv_pages_init(lk_kv_pages *pages, const lk_allocator *allocator,
                           const lk_kv_pages_params *params, lk_error *err);
void lk_kv_pages_deinit(lk_kv_pages *pages);
/* The backend whose pages these are; set once, before the first page is taken. */
void lk_kv_pages_attach(lk_kv_pages *pages, const lk_backend_ops *ops, lk_backend *backend);

/* A free page, with one reference. LK_E_FULL when there is none (*err is left to the caller then,
 * who knows the sequence). */
lk_status lk_kv_pages_take(lk_kv_pages *pages, uint32_t *page, lk_error *err);
/* A new page with the contents of `src`, one reference. LK_E_FULL as above. */
lk_status lk_kv_pages_copy(lk_kv_pages *pages, uint32_t src, uint32_t *page, lk_error *err);
uint32_t lk_kv_pages_refs(const lk_kv_pages *pages, uint32_t page);
void lk_kv_pages_share(lk_kv_pages *pages, uint32_t page);   /* one reference more */
void lk_kv_pages_release(lk_kv_pages *pages, uint32_t page); /* one less; free at 0 */

#endif
