/* alloc.c - see alloc.h. */
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static void *default_alloc(void *ctx, size_t size, size_t align) {
    (void)ctx;
    size_t rounded = 0;
    if (!lk_add_size(size, align - 1, &rounded)) {
        return NULL;
    }
    return aligned_alloc(align, rounded & ~(align - 1));
}

static void default_free(void *ctx, void *ptr, size_t size, size_t align) {
    (void)ctx;
    (void)size;
    (void)align;
    free(ptr);
}

const lk_allocator lk_allocator_default = {NULL, default_alloc, default_free};

const lk_allocator *lk_allocator_or_default(const lk_allocator *a) {
    return a != NULL ? a : &lk_allocator_default;
}

void *lk_alloc(const lk_allocator *a, size_t size) {
    return a->alloc(a->ctx, size != 0 ? size : 1, LK_ALIGN_DEFAULT);
}

void *lk_alloc_zero(const lk_allocator *a, size_t size) {
    void *ptr = lk_alloc(a, size);
    if (ptr != NULL) {
        memset(ptr, 0, size != 0 ? size : 1);
    }
    return ptr;
}

void *lk_alloc_array(const lk_allocator *a, size_t count, size_t elem_size) {
    size_t size = 0;
    return lk_mul_size(count, elem_size, &size) ? lk_alloc(a, size) : NULL;
}

void *lk_alloc_array_zero(const lk_allocator *a, size_t count, size_t elem_size) {
    size_t size = 0;
    return lk_mul_size(count, elem_size, &size) ? lk_alloc_zero(a, size) : NULL;
}

void lk_free(const lk_allocator *a, void *ptr, size_t size) {
    if (ptr != NULL) {
        a->free(a->ctx, ptr, size != 0 ? size : 1, LK_ALIGN_DEFAULT);
    }
}

void lk_free_array(const lk_allocator *a, void *ptr, size_t count, size_t elem_size) {
    lk_free(a, ptr, count * elem_size);
}

bool lk_grow_array(const lk_allocator *a, void **array, size_t n_used, size_t *capacity,
                   size_t wanted, size_t elem_size) {
    if (wanted <= *capacity) {
        return true;
    }
    size_t grown = 16;
    if (*capacity > SIZE_MAX / 2) {
        return false;
    }
    grown = 2 * *capacity > grown ? 2 * *capacity : grown;
    grown = wanted > grown ? wanted : grown;
    void *bigger = lk_alloc_array(a, grown, elem_size);
    if (bigger == NULL) {
        return false;
    }
    if (n_used != 0) {
        memcpy(bigger, *array, n_used * elem_size);
    }
    lk_free_array(a, *array, *capacity, elem_size);
    *array = bigger;
    *capacity = grown;
    return true;
}

char *lk_dup_string(const lk_allocator *a, const char *text, size_t n_bytes) {
    size_t size = 0;
    if (!lk_add_size(n_bytes, 1, &size)) {
        return NULL;
    }
    char *copy = lk_alloc(a, size);
    if (copy != NULL) {
        memcpy(copy, text, n_bytes);
        copy[n_bytes] = '\0';
    }
    return copy;
}
