/* prefix_cache.c - see prefix_cache.h. */
#include "engine/scheduler/prefix_cache.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

#define NONE UINT32_MAX

lk_status lk_prefix_init(lk_prefix_cache *cache, const lk_allocator *allocator, lk_kv_pages *pages,
                         lk_error *err) {
    assert(pages->first == 0);
    *cache = (lk_prefix_cache){
        .allocator = allocator,
        .pages = pages,
        .n_pages = pages->n_pages,
        .first_root = NONE,
        .newest = NONE,
        .oldest = NONE,
    };
    cache->nodes = lk_alloc_array_zero(allocator, cache->n_pages, sizeof cache->nodes[0]);
    return cache->nodes != NULL
               ? LK_OK
               : lk_fail_nomem(err, "the prefix cache", cache->n_pages * sizeof cache->nodes[0]);
}

void lk_prefix_deinit(lk_prefix_cache *cache) {
    if (cache->nodes == NULL) {
        return;
    }
    lk_prefix_clear(cache);
    lk_free_array(cache->allocator, cache->nodes, cache->n_pages, sizeof cache->nodes[0]);
    memset(cache, 0, sizeof *cache);
}

/* ---- the list by age ---- */

static void leave_list(lk_prefix_cache *cache, uint32_t i) {
    const lk_prefix_node *node = &cache->nodes[i];
    if (node->newer != NONE) {
        cache->nodes[node->newer].older = node->older;
    } else {
        cache->newest = node->older;
    }
    if (node->older != NONE) {
        cache->nodes[node->older].newer = node->newer;
    } else {
        cache->oldest = node->newer;
    }
}

static void join_list(lk_prefix_cache *cache, uint32_t i) {
    lk_prefix_node *node = &cache->nodes[i];
    node->newer = NONE;
    node->older = cache->newest;
    if (cache->newest != NONE) {
        cache->nodes[cache->newest].newer = i;
    } else {
        cache->oldest = i;
    }
    cache->newest = i;
}

/* Makes a node and then all above it the most recent ones. */
static void touch_path(lk_prefix_cache *cache, uint32_t i) {
    for (; i != NONE; i = cache->nodes[i].parent) {
        leave_list(cache, i);
        join_list(cache, i);
    }
}

/* ---- the tree ---- */

static uint32_t *children_of(lk_prefix_cache *cache, uint32_t parent) {
    return parent == NONE ? &cache->first_root : &cache->nodes[parent].first_child;
}

static void add_node(lk_prefix_cache *cache, uint32_t page, uint32_t parent, uint32_t n_tokens) {
    uint32_t *first = children_of(cache, parent);
    cache->nodes[page] = (lk_prefix_node){
        .parent = parent,
        .first_child = NONE,
        .next = *first,
        .prev = NONE,
        .n_tokens = n_tokens,
    };
    if (*first != NONE) {
        cache->nodes[*first].prev = page;
    }
    *first = page;
    join_list(cache, page);
    lk_kv_pages_share(cache->pages, page);
    cache->n_nodes++;
}

/* Takes a leaf out and gives its page back. */
static void remove_leaf(lk_prefix_cache *cache, uint32_t page) {
    lk_prefix_node *node = &cache->nodes[page];
    assert(node->n_tokens > 0 && node->first_child == NONE);
    if (node->prev != NONE) {
        cache->nodes[node->prev].next = node->next;
    } else {
        *children_of(cache, node->parent) = node->next;
    }
    if (node->next != NONE) {
        cache->nodes[node->next].prev = node->prev;
    }
    leave_list(cache, page);
    node->n_tokens = 0;
    cache->n_nodes--;
    lk_kv_pages_release(cache->pages, page);
}

/* Positions in which a node's page agrees with the n positions of `key` from `first` on. */
static uint32_t count_same(const lk_prefix_cache *cache, uint32_t page, const lk_prefix_key *key,
                           int64_t first, int64_t n) {
    static const lk_row_digest none;
    const int32_t *own = cache->pages->tokens + (size_t)page * LK_CHUNK;
    const lk_row_digest *own_digests = cache->pages->digests + (size_t)page * LK_CHUNK;
    uint32_t most = cache->nodes[page].n_tokens;
    most = n < (int64_t)most ? (uint32_t)n : most;
    uint32_t same = 0;
    for (; same < most && own[same] == key->tokens[first + same]; same++) {
        const lk_row_digest *digest = key->digests != NULL ? &key->digests[first + same] : &none;
        if (memcmp(&own_digests[same], digest, sizeof *digest) != 0) {
            break;
        }
    }
    return same;
}

int64_t lk_prefix_find(lk_prefix_cache *cache, const lk_prefix_key *key, int64_t n,
                       uint32_t *found) {
    uint32_t parent = NONE;
    int64_t length = 0;
    while (length < n) {
        uint32_t best = NONE;
        uint32_t best_same = 0;
        for (uint32_t i = *children_of(cache, parent); i != NONE; i = cache->nodes[i].next) {
            const uint32_t same = count_same(cache, i, key, length, n - length);
            if (same > best_same) {
                best = i;
                best_same = same;
            }
        }
        if (best_same < LK_PREFIX_MIN_PARTIAL) {
            break;
        }
        found[length / LK_CHUNK] = best;
        length += best_same;
        parent = best;
        if (best_same < LK_CHUNK) {
            break;
        }
    }
    touch_path(cache, parent);
    return length;
}

/* The child that spells exactly the first n positions of `key`, or NONE. */
static uint32_t find_child(lk_prefix_cache *cache, uint32_t parent, const lk_prefix_key *key,
                           uint32_t n) {
    uint32_t i = *children_of(cache, parent);
    while (i != NONE && (cache->nodes[i].n_tokens != n || count_same(cache, i, key, 0, n) != n)) {
        i = cache->nodes[i].next;
    }
    return i;
}

void lk_prefix_insert(lk_prefix_cache *cache, const lk_seq *seq, bool with_partial) {
    uint32_t parent = NONE;
    for (uint32_t i = 0; i < seq->n_pages; i++) {
        const uint32_t page = seq->pages[i];
        const int64_t rest = seq->length - (int64_t)i * LK_CHUNK;
        const uint32_t n = rest < LK_CHUNK ? (uint32_t)rest : LK_CHUNK;
        const lk_prefix_key key = {cache->pages->tokens + (size_t)page * LK_CHUNK,
                                   cache->pages->digests + (size_t)page * LK_CHUNK};
        uint32_t node = find_child(cache, parent, &key, n);
        if (node == NONE) {
            /* A page that is in the tree holds more here than this sequence has of it. */
            if (cache->nodes[page].n_tokens != 0 || (n < LK_CHUNK && !with_partial)) {
                break;
            }
            add_node(cache, page, parent, n);
            node = page;
        }
        parent = node;
        if (n < LK_CHUNK) {
            break;
        }
    }
    touch_path(cache, parent);
}

bool lk_prefix_evict(lk_prefix_cache *cache) {
    for (uint32_t i = cache->oldest; i != NONE; i = cache->nodes[i].newer) {
        if (cache->nodes[i].first_child == NONE && cache->pages->refs[i] == 1) {
            remove_leaf(cache, i);
            return true;
        }
    }
    return false;
}

void lk_prefix_clear(lk_prefix_cache *cache) {
    /* Children are older than their parents: each is a leaf when its turn comes. */
    while (cache->oldest != NONE) {
        remove_leaf(cache, cache->oldest);
    }
}
