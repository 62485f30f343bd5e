/* vocab.h - the vocabulary of a tokenizer: texts, types, scores, merges and what looks them up.
 *
 * It is filled from an lk_vocab_source, which says nothing about where the data came from: this
 * module does not know GGUF. Immutable after creation. Invariant: building takes bounded time and
 * memory for any source, and everything that encoding and decoding rely on has been checked.
 */
#ifndef LK_TEXT_VOCAB_H
#define LK_TEXT_VOCAB_H

#include "base/alloc.h"
#include "lk/tokenizer.h"
#include "text/strings.h"

#define LK_MAX_VOCAB ((uint64_t)1 << 22)  /* tokens */
#define LK_MAX_MERGES ((uint64_t)1 << 23) /* merges of a byte-level vocabulary */
#define LK_MAX_TOKEN_BYTES ((size_t)1024) /* of a token's text */

typedef enum lk_vocab_kind {
    LK_VOCAB_BYTE_LEVEL, /* "gpt2": texts in byte characters, ranked merges */
    LK_VOCAB_SPM         /* "llama": texts with U+2581 for the space, scores */
} lk_vocab_kind;

/* Element i of a list of strings: borrowed bytes that live until the creation returns. */
typedef lk_status (*lk_vocab_string_fn)(void *ctx, uint64_t i, const char **text, uint64_t *n_bytes,
                                        lk_error *err);

/* What a file says of its tokenizer. Ids and flags are -1 where it says nothing. */
typedef struct lk_vocab_source {
    const char *kind; /* "gpt2" or "llama" */
    const char *pre;  /* NULL: not given */
    uint64_t n_tokens;
    lk_vocab_string_fn token;
    void *token_ctx;
    uint64_t n_merges;
    lk_vocab_string_fn merge; /* "left right" */
    void *merge_ctx;
    const void *scores; /* little-endian f32, unaligned, [n_tokens]; NULL: none */
    const void *types; /* little-endian 32-bit lk_token_type, unaligned, [n_tokens]; NULL: normal */
    int64_t bos, eos, eot, eom, unknown;
    int add_bos, add_eos, add_space_prefix;
} lk_vocab_source;
#define LK_VOCAB_SOURCE_INIT                                                                       \
    ((lk_vocab_source){.bos = -1,                                                                  \
                       .eos = -1,                                                                  \
                       .eot = -1,                                                                  \
                       .eom = -1,                                                                  \
                       .unknown = -1,                                                              \
                       .add_bos = -1,                                                              \
                       .add_eos = -1,                                                              \
                       .add_space_prefix = -1})

typedef struct lk_merge_slot {
    uint32_t left, right;
    uint32_t rank;   /* LK_NO_RANK: free */
    uint32_t result; /* the id that the pair becomes */
} lk_merge_slot;
#define LK_NO_RANK UINT32_MAX

typedef struct lk_vocab {
    const lk_allocator *allocator;
    lk_vocab_kind kind;
    uint32_t n_tokens;
    lk_strings texts; /* as in the file */
    lk_strings
        pieces; /* the bytes that a token stands for; indexed: those that may come out of merging */
    uint8_t *types;        /* [n_tokens] lk_token_type */
    uint32_t *keys;        /* SPM: [n_tokens] order of merging, the smallest first */
    lk_merge_slot *merges; /* byte level */
    size_t n_merge_slots;  /* a power of two, or 0 */
} lk_vocab;

/* `index_pieces`: whether look-ups by piece are needed (SPM always has them). On failure the
 * vocabulary is empty and holds no memory. */
lk_status lk_vocab_init(lk_vocab *v, lk_vocab_kind kind, bool index_pieces,
                        const lk_vocab_source *source, const lk_allocator *allocator,
                        lk_error *err);
void lk_vocab_deinit(lk_vocab *v);

/* Where the look-up of a pair begins. */
static inline size_t lk_merge_hash(uint32_t left, uint32_t right) {
    return (size_t)((((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u) >> 32);
}

/* Rank of merging two neighbours, LK_NO_RANK when they do not merge; *result is set when they do.
 * Only where n_merge_slots is not 0. */
static inline uint32_t lk_vocab_merge(const lk_vocab *v, uint32_t left, uint32_t right,
                                      uint32_t *result) {
    const size_t hash = lk_merge_hash(left, right);
    const size_t mask = v->n_merge_slots - 1;
    for (size_t probe = 0; probe < LK_MAX_PROBES; probe++) {
        const lk_merge_slot *slot = &v->merges[(hash + probe) & mask];
        if ((slot->left == left && slot->right == right) || slot->rank == LK_NO_RANK) {
            *result = slot->result;
            return slot->rank;
        }
    }
    return LK_NO_RANK;
}

#endif
