/* added_tokens.h - the tokens that are recognised in a text before anything else: control and
 * user-defined ones. Of those that begin at a place the longest counts; the leftmost place wins.
 * Invariant: a look at one place costs at most LK_MAX_TOKEN_BYTES steps. */
#ifndef LK_TEXT_ADDED_TOKENS_H
#define LK_TEXT_ADDED_TOKENS_H

#include "text/tokenizer/vocab.h"

enum { LK_ADDED_USER = 1, LK_ADDED_CONTROL = 2 };

#define LK_MAX_ADDED ((uint32_t)1 << 18) /* tokens */

typedef struct lk_added_tokens {
    uint32_t *ids; /* sorted by text; of equal texts the lowest id alone */
    uint32_t n;
    uint32_t capacity;
    uint32_t first[257]; /* ids[first[b] .. first[b + 1]) begin with byte b */
    uint8_t sets[256];   /* LK_ADDED_* of the tokens that begin with this byte */
} lk_added_tokens;

lk_status lk_added_tokens_init(lk_added_tokens *added, const lk_vocab *vocab, lk_error *err);
void lk_added_tokens_deinit(lk_added_tokens *added, const lk_allocator *allocator);

/* The first token of the sets `sets` (LK_ADDED_*) in text[pos .. n): returns where it begins and
 * sets *id and *length; n when there is none. Control tokens are found only where all their bytes
 * are 0 in `foreign` [n], unless it is NULL. */
size_t lk_added_tokens_next(const lk_added_tokens *added, const lk_vocab *vocab, uint32_t sets,
                            const uint8_t *text, const uint8_t *foreign, size_t n, size_t pos,
                            uint32_t *id, size_t *length);

#endif
