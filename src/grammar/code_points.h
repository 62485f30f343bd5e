/* code_points.h - sets of code points: ranges in order, with gaps between them. */
#ifndef LK_GRAMMAR_CODE_POINTS_H
#define LK_GRAMMAR_CODE_POINTS_H

#include <stdbool.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/utf8_bytes.h"

typedef struct lk_code_range {
    uint32_t low, high;
} lk_code_range;

typedef struct lk_code_points {
    lk_code_range *ranges;
    size_t n, capacity;
} lk_code_points;

/* False when memory is short. */
bool lk_code_points_add(lk_code_points *set, uint32_t low, uint32_t high, const lk_allocator *a);
/* All code points that are not in the set; surrogates are in no set. */
bool lk_code_points_invert(lk_code_points *set, const lk_allocator *a);
bool lk_code_points_has(const lk_code_points *set, uint32_t cp);
void lk_code_points_free(lk_code_points *set, const lk_allocator *a);

#endif
