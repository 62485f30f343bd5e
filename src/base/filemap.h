/* filemap.h - a file mapped read-only into memory. An empty file maps to data == NULL, size 0. */
#ifndef LK_BASE_FILEMAP_H
#define LK_BASE_FILEMAP_H

#include <stdbool.h>

#include "lk/base.h"

typedef struct lk_filemap {
    const uint8_t *data;
    size_t size;
} lk_filemap;

/* Only regular files. LK_E_IO with the system's reason on failure, *out zeroed then. */
lk_status lk_filemap_open(const char *path, lk_filemap *out, lk_error *err);
/* Whether both paths lead to one file (links followed); false when one of them leads to none. */
bool lk_filemap_is_same(const char *path, const char *other);
/* Bytes [p, p + n) of the map are not needed soon: whole pages of them leave the process's memory,
 * and come back from the file when they are read again. */
void lk_filemap_forget(const lk_filemap *map, const void *p, size_t n);
void lk_filemap_close(lk_filemap *map); /* zeroes *map; accepts a zeroed one */

#endif
