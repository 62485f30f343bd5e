/* sequence.h - one sequence: how long it is and which pages hold its positions. Page c holds the
 * positions 64c .. 64c+63; the last one is filled in part. Layers with windows have pages of their
 * own: those that no query can reach any more are given back, so that their number does not grow
 * with the sequence.
 *
 * Invariant, whenever no call is inside the context: n_pages == ceil(length / LK_CHUNK), and each
 * page is held once. A page held by several sequences is never written. Where layers have windows,
 * the window pages first_window .. n_pages-1 are held, and a query at position `length` reaches no
 * earlier one. */
#ifndef LK_ENGINE_SEQUENCE_H
#define LK_ENGINE_SEQUENCE_H

#include "engine/kv_pages.h"

/* The pages of a context. */
typedef struct lk_kv {
    lk_kv_pages pages;        /* of the layers without windows; with the tokens */
    lk_kv_pages window_pages; /* of the layers with windows */
    uint32_t window;          /* the widest one, 0: no layer has one */
} lk_kv;

/* This many positions at the end of a sequence can always be cut off again: their windows are kept
 * too. */
enum { LK_WINDOW_SLACK = LK_CHUNK };

typedef struct lk_seq {
    int64_t length;
    uint32_t n_pages;
    uint32_t first_window;
    uint32_t *pages;        /* page table, memory of the context */
    uint32_t *window_pages; /* likewise, where layers have windows */
} lk_seq;

/* Pages that hold the first `length` positions. */
static inline uint32_t lk_seq_pages_for(int64_t length) {
    return (uint32_t)((length + LK_CHUNK - 1) / LK_CHUNK);
}

/* First window page that a sequence of this length keeps. */
static inline uint32_t lk_seq_window_kept(const lk_kv *kv, int64_t length) {
    const uint32_t reach = kv->window != 0 ? kv->window + LK_WINDOW_SLACK : 0;
    return (uint32_t)(lk_step_window_begin(reach, length) / LK_CHUNK);
}

/* The least length but 0 that seq, which is not empty, can be cut to: what a query there reaches is
 * still held. */
int64_t lk_seq_shortest(const lk_seq *seq, const lk_kv *kv);
/* Keeps the first `length` positions (at most seq->length, and 0 or at least lk_seq_shortest) and
 * gives back the other pages. */
void lk_seq_cut(lk_seq *seq, lk_kv *kv, int64_t length);
/* dst, which is empty, becomes the first `length` positions of src (limits as above); pages are
 * shared. */
void lk_seq_share(lk_seq *dst, const lk_seq *src, lk_kv *kv, int64_t length);
/* Copies the first n tokens (at most seq->length). */
void lk_seq_get_tokens(const lk_seq *seq, const lk_kv_pages *pages, size_t n, int32_t *tokens);
/* Whether one of the first n positions (at most seq->length) was given as a vector. */
bool lk_seq_has_vectors(const lk_seq *seq, const lk_kv_pages *pages, size_t n);
/* Writes token and digest of a position whose page the sequence holds alone. */
void lk_seq_name(const lk_seq *seq, lk_kv_pages *pages, int64_t pos, int32_t token,
                 const lk_row_digest *digest);

#endif
