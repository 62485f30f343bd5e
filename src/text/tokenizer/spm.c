/* spm.c - SentencePiece BPE: the characters of a text are joined by score, the best pair first,
 * wherever the joined text is a token. A character that no token holds becomes its bytes' tokens,
 * or the unknown token (one for a stretch of such characters).
 *
 * A joined text never crosses a place where the two characters around it are neighbours in no
 * token. The text is cut at those places first, which changes no result and keeps the pieces short.
 * t->pairs is a bitmap of hashed pairs of neighbours; a collision costs a cut, never a result.
 */
#include <string.h>

#include "base/error.h"
#include "text/tokenizer/tokenizer.h"
#include "text/unicode/normalize.h"
#include "text/unicode/unicode.h"

#define PAIR_BITS 20u
#define PAIR_WORDS (((size_t)1 << PAIR_BITS) / 64)

static size_t pair_bit(uint32_t a, uint32_t b) {
    const uint64_t h = ((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15u;
    return (size_t)(h >> (64 - PAIR_BITS));
}

lk_status lk_spm_prepare(lk_tokenizer *t, lk_error *err) {
    t->pairs = lk_alloc_array_zero(&t->allocator, PAIR_WORDS, sizeof *t->pairs);
    if (t->pairs == NULL) {
        return lk_fail_nomem(err, "the pairs of characters", PAIR_WORDS * sizeof *t->pairs);
    }
    for (uint32_t id = 0; id < t->vocab.n_tokens; id++) {
        size_t n = 0, length = 0;
        const uint8_t *text = lk_strings_get(&t->vocab.pieces, id, &n);
        if (t->vocab.keys[id] == LK_NO_RANK || !lk_utf8_is_valid(text, n)) {
            continue; /* never the result of joining */
        }
        uint32_t before = 0;
        for (size_t i = 0; i < n; i += length) {
            const uint32_t cp = lk_utf8_get(text + i, &length);
            const size_t bit = pair_bit(before, cp);
            t->pairs[bit / 64] |= (uint64_t)(i > 0) << bit % 64;
            before = cp;
        }
    }
    return LK_OK;
}

void lk_spm_release(lk_tokenizer *t) {
    lk_free_array(&t->allocator, t->pairs, PAIR_WORDS, sizeof *t->pairs);
    t->pairs = NULL;
}

/* What lk_merge_all works on; the values of the symbols are where they begin in `text`. */
typedef struct piece {
    lk_encoder *e;
    const uint8_t *text;
    uint32_t n;
} piece;

static uint32_t symbol_end(const piece *p, const lk_merge_list *list, uint32_t symbol) {
    return list->next[symbol] == LK_NO_SYMBOL ? p->n : list->values[list->next[symbol]];
}

static uint32_t rank_in_piece(const void *ctx, const lk_merge_list *list, uint32_t left,
                              uint32_t right, uint32_t *joined) {
    const piece *p = ctx;
    const lk_vocab *v = &p->e->t->vocab;
    *joined = list->values[left];
    const uint32_t n = symbol_end(p, list, right) - *joined;
    const uint32_t id = lk_strings_find(&v->pieces, p->text + *joined, n);
    if (id == LK_NO_STRING) {
        return LK_NO_RANK;
    }
    if (v->types[id] == LK_TOKEN_UNUSED && p->e->splits != NULL) {
        p->e->splits[id] = (uint16_t)(list->values[right] - *joined);
    }
    return v->keys[id];
}

/* A character without a token. *in_unknown: the last thing emitted was the unknown token. */
static lk_status emit_bytes(lk_encoder *e, const uint8_t *text, size_t n, bool *in_unknown) {
    const lk_tokenizer *t = e->t;
    uint8_t space[3] = {0xE2, 0x96, 0x81}; /* the model's own form of the space */
    if (n == 1 && text[0] == ' ') {
        text = space;
        n = sizeof space;
    }
    bool has_bytes = true;
    for (size_t i = 0; i < n; i++) {
        has_bytes = has_bytes && t->byte_ids[text[i]] != LK_NO_TOKEN;
    }
    if (has_bytes) {
        for (size_t i = 0; i < n; i++) {
            lk_encoder_emit(e, t->byte_ids[text[i]]);
        }
        *in_unknown = false;
        return LK_OK;
    }
    if (t->unknown < 0) {
        size_t length = 0;
        return lk_fail(e->err, LK_E_UNSUPPORTED, LK_NOWHERE,
                       "the vocabulary has no token for U+%04lX, none for its bytes and no unknown "
                       "token",
                       (unsigned long)lk_utf8_get(text, &length));
    }
    if (!*in_unknown) {
        lk_encoder_emit(e, (uint32_t)t->unknown);
    }
    e->n_unknown++;
    *in_unknown = true;
    return LK_OK;
}

/* Emits text[0 .. n), a symbol after joining. A token of type UNUSED is taken apart again into what
 * it was made of. */
static lk_status emit_symbol(lk_encoder *e, const uint8_t *text, size_t n, bool *in_unknown) {
    const lk_vocab *v = &e->t->vocab;
    uint16_t waiting[LK_MAX_TOKEN_BYTES]; /* lengths of the parts to come, the next one last */
    size_t n_waiting = 0;
    const size_t whole = n;
    for (size_t pos = 0; pos < whole;) {
        const uint32_t id = lk_strings_find(&v->pieces, text + pos, n);
        const size_t split = id != LK_NO_STRING && v->types[id] == LK_TOKEN_UNUSED &&
                                     e->splits != NULL && n <= LK_MAX_TOKEN_BYTES
                                 ? e->splits[id]
                                 : 0;
        if (split != 0 && split < n) {
            waiting[n_waiting++] = (uint16_t)(n - split);
            n = split;
            continue;
        }
        if (id != LK_NO_STRING) {
            lk_encoder_emit(e, id);
            *in_unknown = false;
        } else {
            const lk_status status = emit_bytes(e, text + pos, n, in_unknown);
            if (status != LK_OK) {
                return status;
            }
        }
        pos += n;
        n = n_waiting > 0 ? waiting[--n_waiting] : 0;
    }
    return LK_OK;
}

/* text[0 .. n) holds n_chars characters and no place to cut at. */
static lk_status merge_piece(lk_encoder *e, const uint8_t *text, size_t n, size_t n_chars,
                             bool *in_unknown) {
    if (n_chars == 1) {
        return emit_symbol(e, text, n, in_unknown);
    }
    if (!lk_merge_list_resize(&e->list, n_chars)) {
        return lk_fail_nomem(e->err, "a long piece", n_chars * 12);
    }
    uint32_t *values = e->list.values;
    for (size_t i = 0, pos = 0; i < n_chars; i++) {
        values[i] = (uint32_t)pos;
        pos += lk_utf8_length(text[pos]);
    }
    const piece p = {e, text, (uint32_t)n};
    if (!lk_merge_all(&e->list, rank_in_piece, &p)) {
        return lk_fail_nomem(e->err, "a long piece", n_chars * 16);
    }
    for (uint32_t i = 0; i != LK_NO_SYMBOL; i = e->list.next[i]) {
        const uint32_t first = values[i];
        const lk_status status =
            emit_symbol(e, text + first, symbol_end(&p, &e->list, i) - first, in_unknown);
        if (status != LK_OK) {
            return status;
        }
    }
    return LK_OK;
}

/* merge_piece, or a copy of what it gave for the same text. What holds the unknown token is not
 * kept: it depends on what stands before it. */
static lk_status encode_piece(lk_encoder *e, const uint8_t *text, size_t n, size_t n_chars,
                              bool *in_unknown) {
    bool found = false;
    lk_word_entry *entry =
        n <= LK_CACHED_BYTES ? lk_word_cache_at(&e->words, text, n, &found) : NULL;
    if (found) {
        lk_encoder_repeat(e, entry);
        *in_unknown = false;
        return LK_OK;
    }
    const size_t first = e->n_ids;
    e->n_unknown = 0;
    const lk_status status = merge_piece(e, text, n, n_chars, in_unknown);
    if (status == LK_OK && entry != NULL && e->n_unknown == 0) {
        lk_word_entry_set(entry, text, n, first, e->n_ids - first);
    }
    return status;
}

lk_status lk_spm_encode(lk_encoder *e, const uint8_t *text, size_t n) {
    bool in_unknown = false;
    for (size_t pos = 0; pos < n;) {
        size_t length = 0, n_chars = 1;
        uint32_t before = lk_utf8_get(text + pos, &length);
        size_t end = pos + length;
        for (; end < n; end += length, n_chars++) {
            const uint32_t cp = lk_utf8_get(text + end, &length);
            const size_t bit = pair_bit(before, cp);
            if ((e->t->pairs[bit / 64] >> bit % 64 & 1) == 0) {
                break;
            }
            before = cp;
        }
        const lk_status status = encode_piece(e, text + pos, end - pos, n_chars, &in_unknown);
        if (status != LK_OK) {
            return status;
        }
        pos = end;
    }
    return LK_OK;
}
