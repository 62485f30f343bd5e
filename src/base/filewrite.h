/* filewrite.h - a file that is replaced as a whole or not at all: bytes go to a temporary file in
 * the same folder, which is synced and renamed over the target when all went well. */
#ifndef LK_BASE_FILEWRITE_H
#define LK_BASE_FILEWRITE_H

#include "lk/base.h"

typedef struct lk_filewrite lk_filewrite;

/* Creates the temporary file "<path>.<process>-<number>.tmp", with the permissions that a new file
 * gets. On success *out is owned by the caller (lk_filewrite_abort, or lk_filewrite_commit, which
 * also frees). The target is untouched until the commit. LK_E_IO, LK_E_NOMEM. */
lk_status lk_filewrite_create(const char *path, const lk_allocator *a, lk_filewrite **out,
                              lk_error *err);
/* Appends. After a failure only lk_filewrite_abort is useful: every later call fails too. */
lk_status lk_filewrite_append(lk_filewrite *file, const void *data, size_t n_bytes, lk_error *err);
uint64_t lk_filewrite_size(const lk_filewrite *file);
/* The temporary file's path, to read back what was written; lives as long as `file`. */
const char *lk_filewrite_temporary(const lk_filewrite *file);
/* Syncs and renames. On failure the temporary file is removed and the target is as it was, except
 * when the message says that only the folder could not be synced. Frees `file` either way. */
lk_status lk_filewrite_commit(lk_filewrite *file, lk_error *err);
/* Removes the temporary file; accepts NULL. */
void lk_filewrite_abort(lk_filewrite *file);

#endif
