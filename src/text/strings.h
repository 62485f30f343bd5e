/* strings.h - a numbered list of byte strings in one block of memory, with a hash table from string
 * to number. The numbers are the order of lk_strings_push. Invariant: a look-up visits at most
 * LK_MAX_PROBES slots; strings that collide more are refused.
 */
#ifndef LK_TEXT_STRINGS_H
#define LK_TEXT_STRINGS_H

#include "base/alloc.h"

#define LK_MAX_PROBES ((size_t)256)
#define LK_NO_STRING UINT32_MAX

typedef struct lk_strings_slot {
    uint32_t hash;
    uint32_t id_plus_1; /* 0: free */
} lk_strings_slot;

typedef struct lk_strings {
    const lk_allocator *allocator;
    uint8_t *data;
    size_t data_bytes; /* capacity */
    uint32_t *offsets; /* [capacity + 1] */
    uint32_t n;
    uint32_t capacity;
    lk_strings_slot *slots;
    size_t n_slots; /* a power of two, or 0 when nothing is indexed */
    size_t longest; /* bytes of the longest indexed string */
} lk_strings;

/* Room for `capacity` strings of data_bytes in all, data_bytes < 2^32, and an index when asked for.
 * False when memory is short; nothing is held then. */
bool lk_strings_init(lk_strings *s, const lk_allocator *allocator, uint32_t capacity,
                     size_t data_bytes, bool indexed);
void lk_strings_deinit(lk_strings *s);
/* Appends a string, within the capacities, and indexes it when asked for; of equal strings the
 * first one is found. False when too many strings collide. */
bool lk_strings_push(lk_strings *s, const void *bytes, size_t n_bytes, bool indexed);
/* The first string that equals these bytes, or LK_NO_STRING. */
uint32_t lk_strings_find(const lk_strings *s, const void *bytes, size_t n_bytes);

/* A hint that these bytes will be pushed or looked up soon: the table is larger than the caches. */
void lk_strings_hint(const lk_strings *s, const void *bytes, size_t n_bytes);

/* Where a look-up begins; a function of its own so that a test can make strings collide. */
uint32_t lk_strings_hash(const uint8_t *bytes, size_t n_bytes);

static inline const uint8_t *lk_strings_get(const lk_strings *s, uint32_t id, size_t *n_bytes) {
    *n_bytes = s->offsets[id + 1] - s->offsets[id];
    return s->data + s->offsets[id];
}

/* Slots of a table for n entries: a power of two, at most half full. */
static inline size_t lk_table_size(size_t n) {
    size_t size = 16;
    while (size / 2 < n) {
        size *= 2;
    }
    return size;
}

#endif
