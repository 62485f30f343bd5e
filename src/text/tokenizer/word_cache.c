/* word_cache.c - see word_cache.h. */
#include "text/tokenizer/word_cache.h"

#include <string.h>

enum { SHORT_TEXT = 2048, MIN_WORDS = 256, MAX_WORDS = 8192 };

void lk_word_cache_init(lk_word_cache *cache, size_t text_bytes, const lk_allocator *allocator) {
    *cache = (lk_word_cache){NULL, 0};
    if (text_bytes < SHORT_TEXT) {
        return;
    }
    cache->n = MIN_WORDS;
    while (cache->n < MAX_WORDS && cache->n < text_bytes / 16) {
        cache->n *= 2;
    }
    cache->entries = lk_alloc_array_zero(allocator, cache->n, sizeof *cache->entries);
}

void lk_word_cache_deinit(lk_word_cache *cache, const lk_allocator *allocator) {
    lk_free_array(allocator, cache->entries, cache->n, sizeof *cache->entries);
    *cache = (lk_word_cache){NULL, 0};
}

/* The bytes of a word as two numbers, the same for the same bytes on one machine. */
static void pack(const uint8_t *word, size_t n, uint64_t packed[2]) {
    packed[0] = 0;
    packed[1] = 0;
    memcpy(packed, word, n);
}

lk_word_entry *lk_word_cache_at(const lk_word_cache *cache, const uint8_t *word, size_t n,
                                bool *found) {
    *found = false;
    if (cache->entries == NULL) {
        return NULL;
    }
    uint64_t packed[2];
    pack(word, n, packed);
    uint64_t hash = (packed[0] ^ n) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ (hash >> 32) ^ packed[1]) * 0xD6E8FEB86659FD93u;
    lk_word_entry *entry = &cache->entries[(size_t)(hash >> 40) & (cache->n - 1)];
    *found = entry->n_bytes == n && entry->word[0] == packed[0] && entry->word[1] == packed[1];
    return entry;
}

void lk_word_entry_set(lk_word_entry *entry, const uint8_t *word, size_t n, size_t first_id,
                       size_t n_ids) {
    pack(word, n, entry->word);
    entry->first_id = first_id;
    entry->n_ids = (uint16_t)n_ids; /* at most 4 for each byte of the word */
    entry->n_bytes = (uint16_t)n;
}
