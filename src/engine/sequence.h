/* sequence.h - one sequence: how long it is and which pages hold its positions. Page c holds the
 * positions 64c .. 64c+63; the last one is filled in part.
 *
 * Invariant, whenever no call is inside the context: n_pages == ceil(length / LK_CHUNK), and each
 * page is held once. A page held by several sequences is never written. */
#ifndef LK_ENGINE_SEQUENCE_H
#define LK_ENGINE_SEQUENCE_H

#include "engine/kv_pages.h"

typedef struct lk_seq {
    int64_t length;
    uint32_t n_pages;
    uint32_t *pages; /* page table, memory of the context */
} lk_seq;

/* Pages that hold the first `length` positions. */
static inline uint32_t lk_seq_pages_for(int64_t length) {
    return (uint32_t)((length + LK_CHUNK - 1) / LK_CHUNK);
}

/* Keeps the first `length` positions (at most seq->length) and gives back the other pages. */
void lk_seq_cut(lk_seq *seq, lk_kv_pages *pages, int64_t length);
/* dst, which is empty, becomes the first `length` positions of src; pages are shared. */
void lk_seq_share(lk_seq *dst, const lk_seq *src, lk_kv_pages *pages, int64_t length);
/* Copies the first n tokens (at most seq->length). */
void lk_seq_get_tokens(const lk_seq *seq, const lk_kv_pages *pages, size_t n, int32_t *tokens);
/* Writes the token of a position whose page the sequence holds alone. */
void lk_seq_set_token(const lk_seq *seq, lk_kv_pages *pages, int64_t pos, int32_t token);

#endif
