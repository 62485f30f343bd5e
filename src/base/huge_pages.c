/* huge_pages.c - see huge_pages.h. Without the system call of Linux it does nothing. */
#if defined(__linux__)
#define _GNU_SOURCE /* madvise */
#endif
#include "base/huge_pages.h"

#include <stdint.h>
#include <sys/mman.h>

void lk_huge_pages_ask(void *memory, size_t n_bytes) {
#if defined(__linux__)
    const size_t page = (size_t)2 << 20;
    const size_t skip = (page - (uintptr_t)memory % page) % page;
    if (n_bytes >= skip + page) {
        (void)madvise((char *)memory + skip, (n_bytes - skip) / page * page, MADV_HUGEPAGE);
    }
#else
    (void)memory;
    (void)n_bytes;
#endif
}
