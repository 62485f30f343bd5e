/* jinja_heap.c - see jinja_heap.h. */
#include "text/jinja/jinja_heap.h"

#include <string.h>

#define BLOCK_BYTES ((size_t)16384)
#define ALIGN ((size_t)16)

struct lk_jblock {
    lk_jblock *next;
    size_t size; /* of the allocation, this head included */
    size_t used;
    size_t pad;
};

void lk_jheap_init(lk_jheap *heap, const lk_allocator *allocator, size_t max_bytes,
                   uint64_t max_steps) {
    *heap = (lk_jheap){
        .allocator = allocator, .max_bytes = max_bytes, .max_steps = max_steps, .failure = LK_OK};
}

void lk_jheap_deinit(lk_jheap *heap) {
    for (lk_jblock *block = heap->blocks; block != NULL;) {
        lk_jblock *next = block->next;
        lk_free(heap->allocator, block, block->size);
        block = next;
    }
    heap->blocks = NULL;
    heap->used = 0;
}

static lk_jblock *add_block(lk_jheap *heap, size_t n_bytes) {
    size_t size = 0;
    if (!lk_add_size(n_bytes, sizeof(lk_jblock), &size) || size > heap->max_bytes - heap->used) {
        heap->failure = LK_E_LIMIT;
        return NULL;
    }
    if (size < BLOCK_BYTES && BLOCK_BYTES <= heap->max_bytes - heap->used) {
        size = BLOCK_BYTES;
    }
    lk_jblock *block = lk_alloc(heap->allocator, size);
    if (block == NULL) {
        heap->failure = LK_E_NOMEM;
        return NULL;
    }
    heap->used += size;
    *block = (lk_jblock){.size = size, .used = sizeof *block};
    if (heap->blocks != NULL && n_bytes >= BLOCK_BYTES / 2) { /* the open block stays in front */
        block->next = heap->blocks->next;
        heap->blocks->next = block;
    } else {
        block->next = heap->blocks;
        heap->blocks = block;
    }
    return block;
}

void *lk_jheap_alloc(lk_jheap *heap, size_t n_bytes) {
    if (n_bytes > SIZE_MAX - ALIGN) {
        heap->failure = LK_E_LIMIT;
        return NULL;
    }
    n_bytes = (n_bytes + ALIGN - 1) & ~(ALIGN - 1);
    lk_jblock *block = heap->blocks;
    if (block == NULL || block->size - block->used < n_bytes) {
        block = add_block(heap, n_bytes);
        if (block == NULL) {
            return NULL;
        }
    }
    void *at = (char *)block + block->used;
    block->used += n_bytes;
    return at;
}

void *lk_jheap_array(lk_jheap *heap, size_t count, size_t elem_size) {
    size_t n_bytes = 0;
    if (!lk_mul_size(count, elem_size, &n_bytes)) {
        heap->failure = LK_E_LIMIT;
        return NULL;
    }
    return lk_jheap_alloc(heap, n_bytes);
}

void *lk_jheap_grow(lk_jheap *heap, const void *array, size_t n, size_t count, size_t elem_size) {
    void *grown = lk_jheap_array(heap, count, elem_size);
    if (grown != NULL && n != 0) {
        memcpy(grown, array, n * elem_size);
    }
    return grown;
}

bool lk_jheap_make_room(lk_jheap *heap, void *array, size_t n, size_t *capacity, size_t elem_size) {
    if (n < *capacity) {
        return true;
    }
    const size_t grown_to = *capacity == 0 ? 16 : 2 * *capacity;
    void *old = NULL;
    memcpy(&old, array, sizeof old);
    void *grown = lk_jheap_grow(heap, old, n, grown_to, elem_size);
    if (grown == NULL) {
        return false;
    }
    memcpy(array, &grown, sizeof grown);
    *capacity = grown_to;
    return true;
}

bool lk_jheap_charge(lk_jheap *heap, uint64_t n) {
    heap->steps += n;
    if (heap->steps > heap->max_steps) {
        heap->failure = LK_E_LIMIT;
        return false;
    }
    return true;
}
