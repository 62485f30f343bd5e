/* huge_pages.h - asks the system for huge pages under memory that is about to be used. */
#ifndef LK_BASE_HUGE_PAGES_H
#define LK_BASE_HUGE_PAGES_H

#include <stddef.h>

/* A wish: whole 2 MiB pages of [memory, memory + n_bytes) may become huge at their first use. */
void lk_huge_pages_ask(void *memory, size_t n_bytes);

#endif
