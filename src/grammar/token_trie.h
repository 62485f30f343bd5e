/* token_trie.h - the texts of a vocabulary as a tree of bytes, laid out in the order of a walk:
 * a node, then all below it. Immutable after creation. */
#ifndef LK_GRAMMAR_TOKEN_TRIE_H
#define LK_GRAMMAR_TOKEN_TRIE_H

#include "base/alloc.h"
#include "lk/grammar.h"
#include "text/chat/chat_parser.h"

#define LK_TRIE_MAX_DEPTH 1024u /* bytes of a token; longer ones are never allowed */
#define LK_TRIE_MAX_LONG 256u   /* tokens that are looked at one by one */
#define LK_TRIE_NO_SET UINT32_MAX

typedef struct lk_trie_node {
    uint32_t skip;        /* the node after all that are below this one */
    uint32_t first_token; /* tokens that end here: ids[first_token .. that of the next node) */
    uint32_t set;         /* which bytes occur below: an index of `sets`; few below: NO_SET */
    uint16_t depth;       /* bytes from the root; the root's is 0 */
    uint8_t byte;
} lk_trie_node;

typedef struct lk_byte_set {
    uint64_t words[4];
} lk_byte_set;

struct lk_token_trie {
    const lk_allocator *allocator;
    uint32_t n_vocab;
    uint8_t *bytes;    /* of all tokens */
    uint32_t *offsets; /* [n_vocab + 1] */
    size_t n_bytes;
    uint32_t *ids; /* [n_ids] tokens of the tree in the order of their bytes, equal ones by id */
    uint32_t n_ids;
    lk_trie_node *nodes; /* [n_nodes + 1]; the last one only ends the one before */
    uint32_t n_nodes;
    lk_byte_set *sets;
    uint32_t n_sets;
    uint32_t *ends; /* [n_ends] end tokens */
    uint32_t n_ends;
    uint32_t usual;     /* bytes that all tokens but a few have at most */
    uint32_t *long_ids; /* [n_long] those that have more, in the order of their bytes */
    uint32_t n_long;
};

static inline const uint8_t *lk_trie_token(const lk_token_trie *trie, uint32_t id, size_t *n) {
    *n = trie->offsets[id + 1] - trie->offsets[id];
    return trie->bytes + trie->offsets[id];
}
/* Bytes that two tokens have in common at their beginning. */
size_t lk_trie_common(const uint8_t *x, size_t n_x, const uint8_t *y, size_t n_y);
bool lk_trie_is_end(const lk_token_trie *trie, uint32_t id);

/* Which control tokens belong in: those of marks. NULL: none. */
typedef struct lk_trie_marks {
    const lk_call_syntax *syntax; /* NULL: marks of reasoning alone */
} lk_trie_marks;
/* Bodies of the public functions. */
lk_status lk_token_trie_build(const lk_tokenizer *tokenizer, const lk_trie_marks *marks,
                              const lk_allocator *allocator, lk_token_trie **out, lk_error *err);
void lk_token_trie_free(lk_token_trie *trie);

#endif
