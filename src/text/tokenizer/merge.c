/* merge.c - see merge.h. */
#include "text/tokenizer/merge.h"

#include <string.h>

#define DEAD (UINT32_MAX - 1) /* next[] of a symbol that was joined to its left neighbour */

void lk_merge_list_init(lk_merge_list *list, const lk_allocator *allocator) {
    *list = (lk_merge_list){.allocator = allocator};
}

void lk_merge_list_deinit(lk_merge_list *list) {
    lk_free_array(list->allocator, list->values, list->capacity, 3 * sizeof *list->values);
    lk_free_array(list->allocator, list->queue, list->queue_capacity, sizeof *list->queue);
    *list = (lk_merge_list){.allocator = list->allocator};
}

bool lk_merge_list_resize(lk_merge_list *list, size_t n) {
    if (n > list->capacity) {
        const size_t capacity = n < 256 ? 256 : n + n / 4;
        lk_free_array(list->allocator, list->values, list->capacity, 3 * sizeof *list->values);
        list->capacity = 0;
        list->values = lk_alloc_array(list->allocator, capacity, 3 * sizeof *list->values);
        if (list->values == NULL) {
            return false;
        }
        list->capacity = capacity;
        list->prev = list->values + capacity;
        list->next = list->prev + capacity;
    }
    list->n = n;
    return true;
}

static bool queue_append(lk_merge_list *list, uint64_t key) {
    if (list->n_queue == list->queue_capacity) {
        /* One key for each symbol is nearly always enough, two of them always. */
        size_t capacity = list->n < 256 ? 256 : list->n;
        capacity = list->queue_capacity < capacity ? capacity : 2 * list->queue_capacity;
        uint64_t *queue = lk_alloc_array(list->allocator, capacity, sizeof *queue);
        if (queue == NULL) {
            return false;
        }
        if (list->n_queue != 0) {
            memcpy(queue, list->queue, list->n_queue * sizeof *queue);
        }
        lk_free_array(list->allocator, list->queue, list->queue_capacity, sizeof *queue);
        list->queue = queue;
        list->queue_capacity = capacity;
    }
    list->queue[list->n_queue++] = key;
    return true;
}

static void sift_up(uint64_t *queue, size_t i) {
    const uint64_t key = queue[i];
    while (i > 0 && queue[(i - 1) / 2] > key) {
        queue[i] = queue[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    queue[i] = key;
}

static void sift_down(uint64_t *queue, size_t n, size_t i) {
    const uint64_t key = queue[i];
    for (size_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && queue[child + 1] < queue[child]) {
            child++;
        }
        if (queue[child] >= key) {
            break;
        }
        queue[i] = queue[child];
        i = child;
    }
    queue[i] = key;
}

static uint64_t queue_pop(lk_merge_list *list) {
    const uint64_t top = list->queue[0];
    list->n_queue--;
    if (list->n_queue != 0) {
        list->queue[0] = list->queue[list->n_queue];
        sift_down(list->queue, list->n_queue, 0);
    }
    return top;
}

/* Links all symbols and puts the pairs that have a rank into the queue. */
static bool start(lk_merge_list *list, lk_rank_fn rank, const void *ctx) {
    const uint32_t n = (uint32_t)list->n;
    list->n_queue = 0;
    for (uint32_t i = 0; i < n; i++) {
        list->prev[i] = i == 0 ? LK_NO_SYMBOL : i - 1;
        list->next[i] = i + 1 == n ? LK_NO_SYMBOL : i + 1;
    }
    for (uint32_t i = 0; i + 1 < n; i++) {
        uint32_t joined = 0;
        const uint32_t r = rank(ctx, list, i, i + 1, &joined);
        if (r != LK_NO_RANK && !queue_append(list, (uint64_t)r << 32 | i)) {
            return false;
        }
    }
    for (size_t i = list->n_queue / 2; i-- > 0;) {
        sift_down(list->queue, list->n_queue, i);
    }
    return true;
}

static bool push_pair(lk_merge_list *list, uint32_t left, uint32_t right, lk_rank_fn rank,
                      const void *ctx) {
    if (left == LK_NO_SYMBOL || right == LK_NO_SYMBOL) {
        return true;
    }
    uint32_t joined = 0;
    const uint32_t r = rank(ctx, list, left, right, &joined);
    if (r == LK_NO_RANK) {
        return true;
    }
    if (!queue_append(list, (uint64_t)r << 32 | left)) {
        return false;
    }
    sift_up(list->queue, list->n_queue - 1);
    return true;
}

bool lk_merge_all(lk_merge_list *list, lk_rank_fn rank, const void *ctx) {
    if (!start(list, rank, ctx)) {
        return false;
    }
    while (list->n_queue != 0) {
        const uint64_t key = queue_pop(list);
        const uint32_t left = (uint32_t)key;
        const uint32_t right = list->next[left];
        uint32_t joined = 0;
        if (right >= DEAD || rank(ctx, list, left, right, &joined) != (uint32_t)(key >> 32)) {
            continue;
        }
        const uint32_t after = list->next[right];
        list->values[left] = joined;
        list->next[left] = after;
        list->next[right] = DEAD;
        if (after != LK_NO_SYMBOL) {
            list->prev[after] = left;
        }
        if (!push_pair(list, list->prev[left], left, rank, ctx) ||
            !push_pair(list, left, after, rank, ctx)) {
            return false;
        }
    }
    return true;
}
