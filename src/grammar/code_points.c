/* code_points.c - see code_points.h. */
#include "grammar/code_points.h"

#include <string.h>

/* Where the first range begins that ends at or after cp. */
static size_t find(const lk_code_points *set, uint32_t cp) {
    size_t low = 0;
    size_t high = set->n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (set->ranges[middle].high < cp) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool lk_code_points_has(const lk_code_points *set, uint32_t cp) {
    const size_t i = find(set, cp);
    return i < set->n && set->ranges[i].low <= cp;
}

static bool add_range(lk_code_points *set, uint32_t low, uint32_t high, const lk_allocator *a) {
    if (low > high) {
        return true;
    }
    const size_t first = find(set, low != 0 ? low - 1 : 0); /* touching ranges are joined */
    size_t end = first;
    while (end < set->n && set->ranges[end].low <= high + 1) {
        low = set->ranges[end].low < low ? set->ranges[end].low : low;
        high = set->ranges[end].high > high ? set->ranges[end].high : high;
        end++;
    }
    void *ranges = set->ranges;
    if (!lk_grow_array(a, &ranges, set->n, &set->capacity, set->n + 1, sizeof set->ranges[0])) {
        return false;
    }
    set->ranges = ranges;
    if (set->n != end) {
        memmove(set->ranges + first + 1, set->ranges + end, (set->n - end) * sizeof set->ranges[0]);
    }
    set->n = set->n - (end - first) + 1;
    set->ranges[first] = (lk_code_range){low, high};
    return true;
}

bool lk_code_points_add(lk_code_points *set, uint32_t low, uint32_t high, const lk_allocator *a) {
    high = high < LK_MAX_CODE_POINT ? high : LK_MAX_CODE_POINT;
    if (low <= 0xDFFF && high >= 0xD800) { /* no surrogates */
        return (low >= 0xD800 || add_range(set, low, 0xD7FF, a)) &&
               (high <= 0xDFFF || add_range(set, 0xE000, high, a));
    }
    return add_range(set, low, high, a);
}

bool lk_code_points_invert(lk_code_points *set, const lk_allocator *a) {
    lk_code_points out = {NULL, 0, 0};
    uint32_t from = 0;
    bool ok = true;
    for (size_t i = 0; i < set->n && ok; i++) {
        if (set->ranges[i].low > from) {
            ok = lk_code_points_add(&out, from, set->ranges[i].low - 1, a);
        }
        from = set->ranges[i].high + 1;
    }
    if (ok && from <= LK_MAX_CODE_POINT) {
        ok = lk_code_points_add(&out, from, LK_MAX_CODE_POINT, a);
    }
    lk_code_points_free(set, a);
    *set = out;
    return ok;
}

void lk_code_points_free(lk_code_points *set, const lk_allocator *a) {
    lk_free_array(a, set->ranges, set->capacity, sizeof set->ranges[0]);
    *set = (lk_code_points){NULL, 0, 0};
}
