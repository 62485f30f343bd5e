/* sequence.c - see sequence.h. */
#include "engine/sequence.h"

#include <assert.h>
#include <string.h>

void lk_seq_cut(lk_seq *seq, lk_kv_pages *pages, int64_t length) {
    assert(length >= 0 && length <= seq->length);
    const uint32_t n_kept = lk_seq_pages_for(length);
    while (seq->n_pages > n_kept) {
        lk_kv_pages_release(pages, seq->pages[--seq->n_pages]);
    }
    seq->length = length;
}

void lk_seq_share(lk_seq *dst, const lk_seq *src, lk_kv_pages *pages, int64_t length) {
    assert(dst->n_pages == 0 && length >= 0 && length <= src->length);
    dst->n_pages = lk_seq_pages_for(length);
    for (uint32_t i = 0; i < dst->n_pages; i++) {
        dst->pages[i] = src->pages[i];
        lk_kv_pages_share(pages, src->pages[i]);
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

void lk_seq_set_token(const lk_seq *seq, lk_kv_pages *pages, int64_t pos, int32_t token) {
    const uint32_t page = seq->pages[pos / LK_CHUNK];
    assert(pages->refs[page] == 1);
    pages->tokens[(size_t)page * LK_CHUNK + (size_t)(pos % LK_CHUNK)] = token;
}
