/* detokenize.c - token ids -> bytes. What a token stands for was worked out when the vocabulary was
 * read. */
#include <string.h>

#include "base/error.h"
#include "text/tokenizer/tokenizer.h"

#define ALL_FLAGS ((uint32_t)(LK_DETOKENIZE_SPECIAL | LK_DETOKENIZE_KEEP_SPACE))

/* The bytes that are written for a token; none for control tokens unless they are asked for. */
static const uint8_t *bytes_of(const lk_tokenizer *t, uint32_t id, uint32_t flags, size_t *n) {
    const uint8_t *bytes = lk_strings_get(&t->vocab.pieces, id, n);
    const lk_token_type type = (lk_token_type)t->vocab.types[id];
    if ((flags & LK_DETOKENIZE_SPECIAL) == 0 &&
        (type == LK_TOKEN_CONTROL || type == LK_TOKEN_UNKNOWN)) {
        *n = 0;
    }
    return bytes;
}

lk_status lk_tokenizer_decode(const lk_tokenizer *t, const int32_t *ids, size_t n_ids,
                              uint32_t flags, char *bytes, size_t capacity, size_t *n_bytes,
                              lk_error *err) {
    if (n_bytes != NULL) {
        *n_bytes = 0;
    }
    if (t == NULL || n_bytes == NULL || (ids == NULL && n_ids != 0) ||
        (bytes == NULL && capacity != 0) || (flags & ~ALL_FLAGS) != 0) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE,
                       "lk_tokenizer_decode: tokenizer, ids, bytes or n_bytes is missing, or the "
                       "flags 0x%lx are unknown",
                       (unsigned long)flags);
    }
    bool drops_space = t->add_space_prefix && (flags & LK_DETOKENIZE_KEEP_SPACE) == 0;
    size_t total = 0;
    for (size_t i = 0; i < n_ids; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= t->vocab.n_tokens) {
            return lk_fail(err, LK_E_ARG, LK_NOWHERE,
                           "token id %ld at %zu is outside the vocabulary of %lu tokens",
                           (long)ids[i], i, (unsigned long)t->vocab.n_tokens);
        }
        size_t n = 0;
        const uint8_t *piece = bytes_of(t, (uint32_t)ids[i], flags, &n);
        if (n != 0 && drops_space) {
            const size_t dropped = piece[0] == ' ';
            piece += dropped;
            n -= dropped;
            drops_space = false;
        }
        if (total < capacity) {
            memcpy(bytes + total, piece, n < capacity - total ? n : capacity - total);
        }
        if (!lk_add_size(total, n, &total)) {
            return lk_fail(err, LK_E_LIMIT, LK_NOWHERE, "the text of the tokens is too long");
        }
    }
    *n_bytes = total;
    if (total > capacity) {
        return lk_fail(err, LK_E_LIMIT, LK_NOWHERE, "the text has %zu bytes, room for %zu", total,
                       capacity);
    }
    return LK_OK;
}

lk_status lk_tokenizer_token_bytes(const lk_tokenizer *t, int32_t id, uint32_t flags, char *bytes,
                                   size_t capacity, size_t *n_bytes, lk_error *err) {
    return lk_tokenizer_decode(t, &id, 1, flags | LK_DETOKENIZE_KEEP_SPACE, bytes, capacity,
                               n_bytes, err);
}
