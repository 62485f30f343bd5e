/* prefix_cache.h - KV pages that may be used again: a tree in which a path from a root spells the
 * tokens (and digests of vectors) of a prefix, a page for each node. Full pages have children; a
 * page that is filled in part is a leaf. A page is in the tree at most once, so its number is also
 * that of its node.
 *
 * The tree holds one reference to each of its pages. Tokens are always compared, there are no
 * hashes to trust but those that stand for vectors (128 bits of SHA-256). Nothing is allocated
 * after init. One thread at a time.
 *
 * Invariant: a child is never used more recently than its parent, so the least recent node that
 * nobody else holds is found from the old end of one list. */
#ifndef LK_ENGINE_PREFIX_CACHE_H
#define LK_ENGINE_PREFIX_CACHE_H

#include "engine/sequence.h"

/* A page that agrees in fewer positions is not worth the copy that writing to it takes. */
enum { LK_PREFIX_MIN_PARTIAL = 8 };

typedef struct lk_prefix_node {
    uint32_t parent;
    uint32_t first_child;
    uint32_t next; /* sibling */
    uint32_t prev;
    uint32_t newer;
    uint32_t older;
    uint32_t n_tokens; /* 0: this page is not in the tree */
} lk_prefix_node;

typedef struct lk_prefix_cache {
    const lk_allocator *allocator;
    lk_kv_pages *pages;
    lk_prefix_node *nodes; /* [n_pages] */
    uint32_t n_pages;
    uint32_t first_root;
    uint32_t newest;
    uint32_t oldest;
    uint32_t n_nodes;
} lk_prefix_cache;

lk_status lk_prefix_init(lk_prefix_cache *cache, const lk_allocator *allocator, lk_kv_pages *pages,
                         lk_error *err);
/* The pages must be there still. */
void lk_prefix_deinit(lk_prefix_cache *cache);

/* What a prefix spells. */
typedef struct lk_prefix_key {
    const int32_t *tokens;
    const lk_row_digest *digests; /* NULL: tokens alone */
} lk_prefix_key;

/* The longest known prefix of the first n positions of `key`: returns its positions and puts its
 * pages, one for every LK_CHUNK positions, into `found` (room for lk_seq_pages_for(n)); takes no
 * reference. */
int64_t lk_prefix_find(lk_prefix_cache *cache, const lk_prefix_key *key, int64_t n,
                       uint32_t *found);
/* Adds the pages of a sequence that the tree does not have; the last one only with_partial. */
void lk_prefix_insert(lk_prefix_cache *cache, const lk_seq *seq, bool with_partial);
/* Gives back the least recently used page that nobody else holds. False when there is none. */
bool lk_prefix_evict(lk_prefix_cache *cache);
/* Forgets everything, also pages that sequences hold (these keep them). */
void lk_prefix_clear(lk_prefix_cache *cache);

#endif
