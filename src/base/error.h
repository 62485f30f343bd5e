/* error.h - filling an lk_error in one line. */
#ifndef LK_BASE_ERROR_H
#define LK_BASE_ERROR_H

#include "lk/base.h"

/* Where a failure happened. LK_NOWHERE, or a designated initialiser over it. */
typedef struct lk_where {
    int32_t seq;
    int64_t pos;
    uint64_t offset;
    const char *subject; /* NULL = "" */
} lk_where;

#define LK_NOWHERE ((lk_where){-1, -1, UINT64_MAX, NULL})
#define LK_AT_OFFSET(off, subj) ((lk_where){-1, -1, (off), (subj)})
#define LK_AT_SUBJECT(subj) ((lk_where){-1, -1, UINT64_MAX, (subj)})
#define LK_AT_ROW(seq, pos) ((lk_where){(seq), (pos), UINT64_MAX, NULL})

#if defined(__GNUC__)
#define LK_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define LK_PRINTF(fmt, first)
#endif

/* Fills *err (when not NULL) and returns `status`: `return lk_fail(err, LK_E_ARG, LK_NOWHERE,
 * "...")`. */
lk_status lk_fail(lk_error *err, lk_status status, lk_where where, const char *format, ...)
    LK_PRINTF(4, 5);
/* lk_fail for a failed allocation of `what`. */
lk_status lk_fail_nomem(lk_error *err, const char *what, size_t n_bytes);
/* LK_OK, or LK_E_ARG for a parameter outside min .. max. */
lk_status lk_check_range(const char *name, int64_t value, int64_t min, int64_t max, lk_error *err);
/* The same for several parameters: the first that is outside is the error. */
typedef struct lk_range {
    const char *name;
    int64_t value, min, max;
} lk_range;
lk_status lk_check_ranges(const lk_range *ranges, size_t n, lk_error *err);
/* LK_OK, or LK_E_ARG for a caller's struct `name` of another size than this library's. */
lk_status lk_check_struct_size(const char *name, size_t found, size_t known, lk_error *err);

#endif
