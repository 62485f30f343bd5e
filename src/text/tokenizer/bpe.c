/* bpe.c - byte-level BPE: a text is cut into words, the bytes of a word are joined by rank. Words
 * of up to SHORT bytes are merged in place; longer ones by a priority queue, so that any input
 * costs O(n log n). Short words that were seen before in the same call are copied from the output.
 */
#include <string.h>

#include "base/error.h"
#include "text/tokenizer/tokenizer.h"

enum { SHORT = 64 };

static lk_status fail_byte(lk_encoder *e, uint8_t byte) {
    return lk_fail(e->err, LK_E_UNSUPPORTED, LK_NOWHERE,
                   "the vocabulary has no token for byte 0x%02x and no unknown token",
                   (unsigned)byte);
}

/* The token of one byte; the unknown token where there is none. */
static lk_status byte_token(lk_encoder *e, uint8_t byte, uint32_t *id) {
    *id = e->t->byte_ids[byte];
    if (*id == LK_NO_TOKEN) {
        if (e->t->unknown < 0) {
            return fail_byte(e, byte);
        }
        *id = (uint32_t)e->t->unknown;
    }
    return LK_OK;
}

static uint32_t rank_of(const lk_vocab *v, uint32_t left, uint32_t right, uint32_t *joined) {
    return v->n_merge_slots != 0 ? lk_vocab_merge(v, left, right, joined) : LK_NO_RANK;
}

static uint32_t rank_in_list(const void *ctx, const lk_merge_list *list, uint32_t left,
                             uint32_t right, uint32_t *joined) {
    return rank_of(ctx, list->values[left], list->values[right], joined);
}

/* Merges the word in place: rank[i] and joined[i] belong to the pair that begins at i. */
static lk_status encode_short(lk_encoder *e, const uint8_t *word, size_t n) {
    const lk_vocab *v = &e->t->vocab;
    uint32_t ids[SHORT], rank[SHORT], joined[SHORT];
    for (size_t i = 0; i < n; i++) {
        const lk_status status = byte_token(e, word[i], &ids[i]);
        if (status != LK_OK) {
            return status;
        }
    }
    for (size_t i = 0; i + 1 < n; i++) {
        rank[i] = rank_of(v, ids[i], ids[i + 1], &joined[i]);
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++) {
            best = rank[i] < rank[best] ? i : best;
        }
        if (rank[best] == LK_NO_RANK) {
            break;
        }
        ids[best] = joined[best];
        n--;
        for (size_t i = best + 1; i < n; i++) {
            ids[i] = ids[i + 1];
            rank[i] = i + 1 < n ? rank[i + 1] : LK_NO_RANK;
            joined[i] = i + 1 < n ? joined[i + 1] : 0;
        }
        if (best > 0) {
            rank[best - 1] = rank_of(v, ids[best - 1], ids[best], &joined[best - 1]);
        }
        if (best + 1 < n) {
            rank[best] = rank_of(v, ids[best], ids[best + 1], &joined[best]);
        }
    }
    for (size_t i = 0; i < n; i++) {
        lk_encoder_emit(e, ids[i]);
    }
    return LK_OK;
}

static lk_status encode_long(lk_encoder *e, const uint8_t *word, size_t n) {
    if (!lk_merge_list_resize(&e->list, n)) {
        return lk_fail_nomem(e->err, "a long word", n * 12);
    }
    for (size_t i = 0; i < n; i++) {
        const lk_status status = byte_token(e, word[i], &e->list.values[i]);
        if (status != LK_OK) {
            return status;
        }
    }
    if (!lk_merge_all(&e->list, rank_in_list, &e->t->vocab)) {
        return lk_fail_nomem(e->err, "a long word", n * 16);
    }
    for (uint32_t i = 0; i != LK_NO_SYMBOL; i = e->list.next[i]) {
        lk_encoder_emit(e, e->list.values[i]);
    }
    return LK_OK;
}

static lk_status encode_word(lk_encoder *e, const uint8_t *word, size_t n) {
    const lk_vocab *v = &e->t->vocab;
    if (v->pieces.n_slots != 0) { /* LK_PRE_WHOLE_WORDS */
        const uint32_t id = lk_strings_find(&v->pieces, word, n);
        if (id != LK_NO_STRING) {
            lk_encoder_emit(e, id);
            return LK_OK;
        }
    }
    return n <= SHORT ? encode_short(e, word, n) : encode_long(e, word, n);
}

/* encode_word, or a copy of what it gave for the same word. */
static lk_status encode_cached(lk_encoder *e, const uint8_t *word, size_t n) {
    bool found = false;
    lk_word_entry *entry = lk_word_cache_at(&e->words, word, n, &found);
    if (found) {
        lk_encoder_repeat(e, entry);
        return LK_OK;
    }
    const size_t first = e->n_ids;
    const lk_status status = encode_word(e, word, n);
    if (status == LK_OK && entry != NULL) {
        lk_word_entry_set(entry, word, n, first, e->n_ids - first);
    }
    return status;
}

lk_status lk_bpe_encode(lk_encoder *e, const uint8_t *text, size_t n) {
    lk_status status = LK_OK;
    for (size_t pos = 0; pos < n && status == LK_OK;) {
        const size_t end = e->t->pre->word_end(text, n, pos);
        if (end <= pos || end > n) {
            return lk_fail(e->err, LK_E_INTERNAL, LK_NOWHERE,
                           "the pre-splitter gave a word from %zu to %zu in a text of %zu bytes",
                           pos, end, n);
        }
        status = end - pos <= LK_CACHED_BYTES ? encode_cached(e, text + pos, end - pos)
                                              : encode_word(e, text + pos, end - pos);
        pos = end;
    }
    return status;
}
