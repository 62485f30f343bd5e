/* word_cache.h - short words that one call of encode has seen before, and where their ids stand in
 * its output: text repeats its words, so most of them are copied instead of merged. Invariant: the
 * ids are those that encoding the word again would give. What an entry does not hold in full (its
 * ids lie beyond the capacity of the output) was only counted and is only counted again. */
#ifndef LK_TEXT_WORD_CACHE_H
#define LK_TEXT_WORD_CACHE_H

#include "base/alloc.h"

#define LK_CACHED_BYTES ((size_t)16) /* longer words are not kept */

typedef struct lk_word_entry {
    uint64_t word[2]; /* its bytes, the rest zero */
    size_t first_id;
    uint16_t n_ids;
    uint16_t n_bytes; /* 0: free */
} lk_word_entry;

typedef struct lk_word_cache {
    lk_word_entry *entries; /* direct-mapped by hash; NULL for short texts */
    size_t n;               /* a power of two */
} lk_word_cache;

/* Sizes the cache for a text; without memory it stays empty, which only costs time. */
void lk_word_cache_init(lk_word_cache *cache, size_t text_bytes, const lk_allocator *allocator);
void lk_word_cache_deinit(lk_word_cache *cache, const lk_allocator *allocator);
/* The entry where a word of 1 to LK_CACHED_BYTES bytes is or would be; *found says which. NULL when
 * the cache is empty. */
lk_word_entry *lk_word_cache_at(const lk_word_cache *cache, const uint8_t *word, size_t n,
                                bool *found);
/* Replaces an entry. */
void lk_word_entry_set(lk_word_entry *entry, const uint8_t *word, size_t n, size_t first_id,
                       size_t n_ids);

#endif
