/* gguf_index.c - sorted orders for names and offsets: heap sort and binary search. A sorted order
 * and not a hash table, because a file can be made so that its names collide.
 * Invariant: no recursion, no memory, O(n log n) comparisons for any input. */
#include <string.h>

#include "gguf/gguf_internal.h"

static void sift_down(uint32_t *order, uint64_t root, uint64_t n, lk_gguf_less_fn less,
                      const void *ctx) {
    const uint32_t item = order[root];
    for (;;) {
        uint64_t child = 2 * root + 1;
        if (child >= n) {
            break;
        }
        if (child + 1 < n && less(ctx, order[child], order[child + 1])) {
            child++;
        }
        if (!less(ctx, item, order[child])) {
            break;
        }
        order[root] = order[child];
        root = child;
    }
    order[root] = item;
}

void lk_gguf_sort(uint32_t *order, uint64_t n, lk_gguf_less_fn less, const void *ctx) {
    uint64_t i = 1;
    while (i < n && !less(ctx, order[i], order[i - 1])) {
        i++;
    }
    if (i >= n) { /* already sorted: the usual case for offsets */
        return;
    }
    for (i = n / 2; i > 0; i--) {
        sift_down(order, i - 1, n, less, ctx);
    }
    for (i = n - 1; i > 0; i--) {
        const uint32_t last = order[i];
        order[i] = order[0];
        order[0] = last;
        sift_down(order, 0, i, less, ctx);
    }
}

bool lk_gguf_search(const uint32_t *order, uint64_t n, lk_gguf_name_fn name_of, const void *ctx,
                    const char *name, uint32_t *out) {
    uint64_t low = 0;
    uint64_t high = n;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        const int sign = strcmp(name, name_of(ctx, order[middle]));
        if (sign == 0) {
            *out = order[middle];
            return true;
        }
        if (sign < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return false;
}
