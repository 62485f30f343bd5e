/* jinja_heap.h - memory and work of one compilation or one rendering: everything is allocated from
 * blocks that are freed together, and both bytes and steps have a limit. After the first failure
 * `failure` says why; the caller turns it into a message. */
#ifndef LK_TEXT_JINJA_HEAP_H
#define LK_TEXT_JINJA_HEAP_H

#include "base/alloc.h"

typedef struct lk_jblock lk_jblock;

typedef struct lk_jheap {
    const lk_allocator *allocator;
    lk_jblock *blocks;
    size_t used; /* bytes taken from the allocator */
    size_t max_bytes;
    uint64_t steps;
    uint64_t max_steps;
    lk_status failure; /* LK_OK, LK_E_NOMEM or LK_E_LIMIT */
} lk_jheap;

void lk_jheap_init(lk_jheap *heap, const lk_allocator *allocator, size_t max_bytes,
                   uint64_t max_steps);
void lk_jheap_deinit(lk_jheap *heap);
/* Aligned for any object; NULL sets `failure`. */
void *lk_jheap_alloc(lk_jheap *heap, size_t n_bytes);
void *lk_jheap_array(lk_jheap *heap, size_t count, size_t elem_size);
/* A copy with room for `count` elements of an array that had n of them; the old one is left. */
void *lk_jheap_grow(lk_jheap *heap, const void *array, size_t n, size_t count, size_t elem_size);
/* Doubles a full array; `array` is the address of the pointer to it. False sets `failure`. */
bool lk_jheap_make_room(lk_jheap *heap, void *array, size_t n, size_t *capacity, size_t elem_size);

/* Counts n steps of work; false (and `failure`) when the limit is passed. */
bool lk_jheap_charge(lk_jheap *heap, uint64_t n);
/* Work on n bytes. */
static inline bool lk_jheap_charge_bytes(lk_jheap *heap, size_t n) {
    return lk_jheap_charge(heap, 1 + n / 16);
}

#endif
