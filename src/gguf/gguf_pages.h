/* gguf_pages.h - what the library tells the system about an open file's pages. */
#ifndef LK_GGUF_GGUF_PAGES_H
#define LK_GGUF_GGUF_PAGES_H

#include "lk/gguf.h"

/* The n bytes of tensor data at p are not needed soon: their pages may leave the process's memory.
 * They stay readable. Nothing happens to data that is not mapped from a file. */
void lk_gguf_forget(const lk_gguf *gguf, const void *p, size_t n);

#endif
