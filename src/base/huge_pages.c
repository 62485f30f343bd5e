/* huge_pages.c - see huge_pages.h. Without the system call of Linux it does nothing. */
#if defined(__linux__)
#define _GNU_SOURCE /* madvise */
#endif
#include "base/huge_pages.h"

#include <stdint.h>
#include <sys/mman.h>

#include "base/alloc.h"

enum { PAGE = 2 << 20 };

void lk_huge_pages_ask(void *memory, size_t n_bytes) {
#if defined(__linux__)
    const size_t page = PAGE;
    const size_t skip = (page - (uintptr_t)memory % page) % page;
    if (n_bytes >= skip + page) {
        (void)madvise((char *)memory + skip, (n_bytes - skip) / page * page, MADV_HUGEPAGE);
    }
#else
    (void)memory;
    (void)n_bytes;
#endif
}

static size_t align_of(size_t n_bytes) {
    return n_bytes >= PAGE ? PAGE : LK_ALIGN_DEFAULT;
}

void *lk_huge_pages_alloc(const lk_allocator *a, size_t n_bytes) {
    n_bytes = n_bytes != 0 ? n_bytes : 1;
    void *memory = a->alloc(a->ctx, n_bytes, align_of(n_bytes));
    if (memory != NULL) {
        lk_huge_pages_ask(memory, n_bytes);
    }
    return memory;
}

void lk_huge_pages_free(const lk_allocator *a, void *memory, size_t n_bytes) {
    n_bytes = n_bytes != 0 ? n_bytes : 1;
    if (memory != NULL) {
        a->free(a->ctx, memory, n_bytes, align_of(n_bytes));
    }
}
