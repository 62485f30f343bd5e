/* alloc.h - the library's allocation helpers over the caller's lk_allocator, and checked size
 * arithmetic. Every allocation of the library goes through here, so that a test can make the n-th
 * one fail. Memory is returned as it is (not zeroed) unless the name says so. A size of 0 allocates
 * 1 byte. */
#ifndef LK_BASE_ALLOC_H
#define LK_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lk/base.h"

#define LK_ALIGN_DEFAULT ((size_t)64)

/* The allocator of the C library. */
extern const lk_allocator lk_allocator_default;

/* `a`, or the default one when NULL. */
const lk_allocator *lk_allocator_or_default(const lk_allocator *a);

/* NULL when the size overflows or memory is short. Alignment is LK_ALIGN_DEFAULT. */
void *lk_alloc(const lk_allocator *a, size_t size);
void *lk_alloc_zero(const lk_allocator *a, size_t size);
void *lk_alloc_array(const lk_allocator *a, size_t count, size_t elem_size);
void *lk_alloc_array_zero(const lk_allocator *a, size_t count, size_t elem_size);
/* Accepts NULL. `size` is what was asked for. */
void lk_free(const lk_allocator *a, void *ptr, size_t size);
void lk_free_array(const lk_allocator *a, void *ptr, size_t count, size_t elem_size);
/* Makes room for `wanted` elements in an array of which n_used are in use and *capacity allocated:
 * at least doubles it, moves the used ones. False when memory is short; nothing has changed then.
 */
bool lk_grow_array(const lk_allocator *a, void **array, size_t n_used, size_t *capacity,
                   size_t wanted, size_t elem_size);
/* A zero-terminated copy; free with lk_free(a, s, strlen(s) + 1). */
char *lk_dup_string(const lk_allocator *a, const char *text, size_t n_bytes);

/* Checked arithmetic: false on overflow, *out untouched then. */
static inline bool lk_mul_size(size_t a, size_t b, size_t *out) {
    if (b != 0 && a > SIZE_MAX / b) {
        return false;
    }
    *out = a * b;
    return true;
}
static inline bool lk_add_size(size_t a, size_t b, size_t *out) {
    if (a > SIZE_MAX - b) {
        return false;
    }
    *out = a + b;
    return true;
}
static inline bool lk_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    if (b != 0 && a > UINT64_MAX / b) {
        return false;
    }
    *out = a * b;
    return true;
}
static inline bool lk_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    if (a > UINT64_MAX - b) {
        return false;
    }
    *out = a + b;
    return true;
}

#endif
