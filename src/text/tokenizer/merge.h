/* merge.h - joining neighbours of a list, always the pair of the lowest rank first and of equal
 * ranks the leftmost, until no pair has a rank: the core of both kinds of BPE.
 *
 * A priority queue of (rank, position) keys over a linked list: O(n log n) for n symbols. Keys are
 * never removed early; a key whose pair is gone or has another rank by now is skipped when it comes
 * up. Memory: at most 15 bytes for each symbol and 24 for each in the queue.
 */
#ifndef LK_TEXT_MERGE_H
#define LK_TEXT_MERGE_H

#include "text/tokenizer/vocab.h"

#define LK_NO_SYMBOL UINT32_MAX

typedef struct lk_merge_list {
    const lk_allocator *allocator;
    uint32_t *values; /* what a symbol is; the caller's meaning. [capacity] each */
    uint32_t *prev;
    uint32_t *next; /* LK_NO_SYMBOL at the end */
    size_t capacity;
    size_t n;
    uint64_t *queue; /* binary heap of rank << 32 | symbol */
    size_t n_queue;
    size_t queue_capacity;
} lk_merge_list;

/* The rank of joining symbol `left` with its right neighbour, LK_NO_RANK when they stay apart;
 * *joined is the value that the left one then gets. */
typedef uint32_t (*lk_rank_fn)(const void *ctx, const lk_merge_list *list, uint32_t left,
                               uint32_t right, uint32_t *joined);

void lk_merge_list_init(lk_merge_list *list, const lk_allocator *allocator);
void lk_merge_list_deinit(lk_merge_list *list);
/* Makes room for n symbols, fewer than 2^32 - 1; what was in the list is lost. False when memory is
 * short. */
bool lk_merge_list_resize(lk_merge_list *list, size_t n);
/* Joins the n symbols whose values are set. Afterwards the list starts at symbol 0 and goes along
 * `next`. False when memory is short. */
bool lk_merge_all(lk_merge_list *list, lk_rank_fn rank, const void *ctx);

#endif
