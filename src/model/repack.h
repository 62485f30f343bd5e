/* repack.h - the matrices of a graph as strips, which kernels read faster than the file's rows. */
#ifndef LK_MODEL_REPACK_H
#define LK_MODEL_REPACK_H

#include "graph/graph.h"
#include "lk/gguf.h"

/* The memory of all strips. */
typedef struct lk_repacked {
    uint8_t *memory;
    size_t n_bytes;
} lk_repacked;

/* Makes strips of every matrix whose format has them and enters them in the graph's nodes. The
 * pages of the file that held a matrix are given back as soon as its strips are there, so memory
 * grows by no second copy. Runs on n_threads threads (0: one per processor); calls `progress` (may
 * be NULL) with phase "repack" and bytes. Fails with LK_E_NOMEM, LK_E_LIMIT (too many threads),
 * LK_E_CANCELLED. *out is the caller's, to be released with lk_repack_free in any case; it must
 * outlive the graph's use. */
lk_status lk_repack(lk_graph *graph, const lk_gguf *gguf, const lk_allocator *a, uint32_t n_threads,
                    lk_progress_fn progress, void *progress_ctx, lk_repacked *out, lk_error *err);
void lk_repack_free(const lk_allocator *a, lk_repacked *repacked);

#endif
