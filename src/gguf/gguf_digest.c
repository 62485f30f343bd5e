/* gguf_digest.c - the model digest (see lk/gguf.h), computed on a pool of its own for the call.
 * Invariant: the digest depends on the bytes of the files alone, not on threads or on the order in
 * which chunks are done. */
#include <string.h>

#include "base/pool.h"
#include "base/sha256.h"
#include "gguf/gguf_internal.h"

#define CHUNK_BYTES ((uint64_t)4 << 20)
enum {
    DIGEST_BYTES = 32,
    CHUNKS_PER_THREAD = 4 /* between two reports of progress */
};

typedef struct work {
    const lk_gguf *gguf;
    uint8_t (*digests)[DIGEST_BYTES]; /* per file: directory, then its chunks */
    uint64_t first;                   /* pieces are done in batches, this one's first */
} work;

static uint64_t part_pieces(const lk_gguf_part *part) {
    return 1 + (part->size - part->data_start + CHUNK_BYTES - 1) / CHUNK_BYTES;
}

static void piece_of(const lk_gguf *gguf, uint64_t i, const uint8_t **data, uint64_t *n_bytes) {
    const lk_gguf_part *part = gguf->parts;
    while (i >= part_pieces(part)) {
        i -= part_pieces(part);
        part++;
    }
    if (i == 0) {
        *data = part->data;
        *n_bytes = part->data_start;
        return;
    }
    const uint64_t start = part->data_start + (i - 1) * CHUNK_BYTES;
    const uint64_t left = part->size - start;
    *data = part->data + start;
    *n_bytes = left < CHUNK_BYTES ? left : CHUNK_BYTES;
}

static void digest_piece(void *arg, uint32_t i_task, uint32_t i_thread) {
    const work *w = arg;
    const uint8_t *data;
    uint64_t n_bytes;
    (void)i_thread;
    piece_of(w->gguf, w->first + i_task, &data, &n_bytes);
    lk_sha256_of(data, (size_t)n_bytes, w->digests[w->first + i_task]);
}

static lk_status digest_all(work *w, uint64_t n_pieces, lk_pool *pool, lk_progress_fn progress,
                            void *progress_ctx, lk_error *err) {
    const uint64_t total = lk_gguf_file_bytes(w->gguf);
    const uint64_t batch = (uint64_t)lk_pool_n_threads(pool) * CHUNKS_PER_THREAD;
    uint64_t done = 0;
    if (progress != NULL && !progress(progress_ctx, "digest", 0, total)) {
        return lk_fail(err, LK_E_CANCELLED, LK_NOWHERE, "the digest was cancelled");
    }
    for (w->first = 0; w->first < n_pieces; w->first += batch) {
        const uint64_t left = n_pieces - w->first;
        const uint32_t n = (uint32_t)(left < batch ? left : batch);
        lk_pool_run(pool, digest_piece, w, n);
        for (uint32_t i = 0; i < n; i++) {
            const uint8_t *data;
            uint64_t n_bytes;
            piece_of(w->gguf, w->first + i, &data, &n_bytes);
            done += n_bytes;
        }
        if (progress != NULL && !progress(progress_ctx, "digest", done, total)) {
            return lk_fail(err, LK_E_CANCELLED, LK_NOWHERE, "the digest was cancelled");
        }
    }
    return LK_OK;
}

/* Threads that arrive at the same time compute the same bytes; the first to finish stores them. */
static void keep(lk_gguf *gguf, const uint8_t digest[DIGEST_BYTES]) {
    int expected = LK_GGUF_DIGEST_NONE;
    if (atomic_compare_exchange_strong(&gguf->digest_state, &expected, LK_GGUF_DIGEST_WRITING)) {
        memcpy(gguf->digest, digest, DIGEST_BYTES);
        atomic_store_explicit(&gguf->digest_state, LK_GGUF_DIGEST_READY, memory_order_release);
    }
}

lk_status lk_gguf_digest(lk_gguf *gguf, uint32_t n_threads, lk_progress_fn progress,
                         void *progress_ctx, uint8_t digest[32], lk_error *err) {
    if (atomic_load_explicit(&gguf->digest_state, memory_order_acquire) == LK_GGUF_DIGEST_READY) {
        memcpy(digest, gguf->digest, DIGEST_BYTES);
        return LK_OK;
    }
    memset(digest, 0, DIGEST_BYTES);
    uint64_t n_pieces = 0;
    for (uint32_t i = 0; i < gguf->n_parts; i++) {
        n_pieces += part_pieces(&gguf->parts[i]);
    }
    work w = {gguf, NULL, 0};
    w.digests = lk_alloc_array(gguf->allocator, (size_t)n_pieces, DIGEST_BYTES);
    if (w.digests == NULL) {
        return lk_fail_nomem(err, "the digest", (size_t)n_pieces * DIGEST_BYTES);
    }
    lk_pool *pool = NULL;
    lk_status status = lk_pool_create(gguf->allocator, n_threads, &pool, err);
    if (status == LK_OK) {
        status = digest_all(&w, n_pieces, pool, progress, progress_ctx, err);
    }
    lk_pool_destroy(pool);
    if (status == LK_OK) {
        lk_sha256_of(w.digests, (size_t)n_pieces * DIGEST_BYTES, digest);
        keep(gguf, digest);
    }
    lk_free_array(gguf->allocator, w.digests, (size_t)n_pieces, DIGEST_BYTES);
    return status;
}
