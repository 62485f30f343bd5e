/* huge_pages.h - asks the system for huge pages under memory that is about to be used, and
 * allocates memory that they can lie under. */
#ifndef LK_BASE_HUGE_PAGES_H
#define LK_BASE_HUGE_PAGES_H

#include "lk/base.h"

/* A wish: whole 2 MiB pages of [memory, memory + n_bytes) may become huge at their first use. */
void lk_huge_pages_ask(void *memory, size_t n_bytes);

/* From the allocator, at a multiple of 2 MiB where it is that large (else of LK_ALIGN_DEFAULT), and
 * asked for. NULL when memory is short. */
void *lk_huge_pages_alloc(const lk_allocator *a, size_t n_bytes);
void lk_huge_pages_free(const lk_allocator *a, void *memory, size_t n_bytes); /* accepts NULL */

#endif
