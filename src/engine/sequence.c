/* sequence.c - see sequence.h. */
#include "engine/sequence.h"

#include <assert.h>
#include <string.h>

int64_t lk_seq_shortest(const lk_seq *seq, const lk_kv *kv) {
    if (seq->first_window == 0) {
        return seq->length > 0 ? 1 : 0;
    }
    return (int64_t)seq->first_window * LK_CHUNK + kv->window - 1;
}

void lk_seq_cut(lk_seq *seq, lk_kv *kv, int64_t length) {
    assert(length >= 0 && length <= seq->length);
    assert(length == 0 || length >= lk_seq_shortest(seq, kv));
    const uint32_t n_kept = lk_seq_pages_for(length);
    while (seq->n_pages > n_kept) {
        seq->n_pages--;
        lk_kv_pages_release(&kv->pages, seq->pages[seq->n_pages]);
        if (kv->window != 0 && seq->n_pages >= seq->first_window) {
            lk_kv_pages_release(&kv->window_pages, seq->window_pages[seq->n_pages]);
        }
    }
    seq->first_window = length != 0 ? seq->first_window : 0;
    seq->length = length;
}

void lk_seq_share(lk_seq *dst, const lk_seq *src, lk_kv *kv, int64_t length) {
    assert(dst->n_pages == 0 && length >= 0 && length <= src->length);
    assert(length == 0 || length >= lk_seq_shortest(src, kv));
    const uint32_t kept = lk_seq_window_kept(kv, length);
    dst->n_pages = lk_seq_pages_for(length);
    dst->first_window = 0;
    if (length != 0) {
        dst->first_window = kept > src->first_window ? kept : src->first_window;
    }
    for (uint32_t i = 0; i < dst->n_pages; i++) {
        dst->pages[i] = src->pages[i];
        lk_kv_pages_share(&kv->pages, src->pages[i]);
        if (kv->window != 0 && i >= dst->first_window) {
            dst->window_pages[i] = src->window_pages[i];
            lk_kv_pages_share(&kv->window_pages, src->window_pages[i]);
        }
    }
    dst->length = length;
}

void lk_seq_get_tokens(const lk_seq *seq, const lk_kv_pages *pages, size_t n, int32_t *tokens) {
    assert(n <= (size_t)seq->length);
    for (size_t i = 0; i < n; i += LK_CHUNK) {
        const size_t n_here = n - i < LK_CHUNK ? n - i : LK_CHUNK;
        memcpy(tokens + i, pages->tokens + (size_t)seq->pages[i / LK_CHUNK] * LK_CHUNK,
               n_here * sizeof tokens[0]);
    }
}

bool lk_seq_has_vectors(const lk_seq *seq, const lk_kv_pages *pages, size_t n) {
    static const lk_row_digest none;
    assert(n <= (size_t)seq->length);
    for (size_t i = 0; i < n; i++) {
        const lk_row_digest *page = pages->digests + (size_t)seq->pages[i / LK_CHUNK] * LK_CHUNK;
        if (memcmp(&page[i % LK_CHUNK], &none, sizeof none) != 0) {
            return true;
        }
    }
    return false;
}

void lk_seq_name(const lk_seq *seq, lk_kv_pages *pages, int64_t pos, int32_t token,
                 const lk_row_digest *digest) {
    const uint32_t page = seq->pages[pos / LK_CHUNK];
    const size_t i = (size_t)page * LK_CHUNK + (size_t)(pos % LK_CHUNK);
    assert(pages->refs[page] == 1);
    pages->tokens[i] = token;
    pages->digests[i] = *digest;
}
