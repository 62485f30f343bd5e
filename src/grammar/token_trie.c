/* token_trie.c - see token_trie.h. */
#include "grammar/token_trie.h"

#include <string.h>

#include "base/error.h"
#include "text/tokenizer/tokenizer.h"

/* Nodes with more than this many below get a set. */
enum { FEW_BELOW = 8 };

bool lk_trie_is_end(const lk_token_trie *trie, uint32_t id) {
    for (uint32_t i = 0; i < trie->n_ends; i++) {
        if (trie->ends[i] == id) {
            return true;
        }
    }
    return false;
}

/* The bytes that a token adds to a text; none for those that are never allowed. */
static const uint8_t *usable_bytes(const lk_tokenizer *t, uint32_t id, const lk_trie_marks *marks,
                                   size_t *n) {
    const uint8_t *bytes = lk_strings_get(&t->vocab.pieces, id, n);
    const uint8_t type = t->vocab.types[id];
    const bool is_mark = marks != NULL && type == LK_TOKEN_CONTROL &&
                         lk_call_syntax_has_mark(marks->syntax, (const char *)bytes, *n);
    const bool is_text = type == LK_TOKEN_NORMAL || type == LK_TOKEN_USER_DEFINED ||
                         type == LK_TOKEN_BYTE || is_mark;
    if (!is_text || *n > LK_TRIE_MAX_DEPTH || lk_tokenizer_is_end(t, (int32_t)id)) {
        *n = 0;
    }
    return bytes;
}

/* Copies the texts and lists the tokens that have one. */
static bool take_tokens(lk_token_trie *trie, const lk_tokenizer *t, const lk_trie_marks *marks) {
    const lk_allocator *a = trie->allocator;
    for (uint32_t id = 0; id < trie->n_vocab; id++) {
        size_t n = 0;
        (void)usable_bytes(t, id, marks, &n);
        trie->n_bytes += n;
        trie->n_ids += n != 0;
        trie->n_ends += lk_tokenizer_is_end(t, (int32_t)id) != 0;
    }
    trie->bytes = lk_alloc(a, trie->n_bytes);
    trie->offsets = lk_alloc_array(a, (size_t)trie->n_vocab + 1, sizeof trie->offsets[0]);
    trie->ids = lk_alloc_array(a, trie->n_ids, sizeof trie->ids[0]);
    trie->ends = lk_alloc_array(a, trie->n_ends, sizeof trie->ends[0]);
    if (trie->bytes == NULL || trie->offsets == NULL || trie->ids == NULL || trie->ends == NULL) {
        return false;
    }
    size_t at = 0;
    uint32_t n_ids = 0;
    uint32_t n_ends = 0;
    for (uint32_t id = 0; id < trie->n_vocab; id++) {
        size_t n = 0;
        const uint8_t *bytes = usable_bytes(t, id, marks, &n);
        trie->offsets[id] = (uint32_t)at;
        if (n != 0) {
            memcpy(trie->bytes + at, bytes, n);
            trie->ids[n_ids++] = id;
        }
        if (lk_tokenizer_is_end(t, (int32_t)id)) {
            trie->ends[n_ends++] = id;
        }
        at += n;
    }
    trie->offsets[trie->n_vocab] = (uint32_t)at;
    return true;
}

static bool is_before(const lk_token_trie *trie, uint32_t a, uint32_t b) {
    size_t n_a = 0;
    size_t n_b = 0;
    const uint8_t *x = lk_trie_token(trie, a, &n_a);
    const uint8_t *y = lk_trie_token(trie, b, &n_b);
    const int order = memcmp(x, y, n_a < n_b ? n_a : n_b);
    return order != 0 ? order < 0 : n_a != n_b ? n_a < n_b : a < b;
}

/* Merges runs of doubling length. */
static bool sort_tokens(lk_token_trie *trie) {
    const size_t n = trie->n_ids;
    uint32_t *spare = lk_alloc_array(trie->allocator, n, sizeof spare[0]);
    if (spare == NULL) {
        return false;
    }
    uint32_t *from = trie->ids;
    uint32_t *to = spare;
    for (size_t run = 1; run < n; run *= 2) {
        for (size_t begin = 0; begin < n; begin += 2 * run) {
            const size_t middle = begin + run < n ? begin + run : n;
            const size_t end = middle + run < n ? middle + run : n;
            size_t i = begin;
            size_t k = middle;
            for (size_t out = begin; out < end; out++) {
                const bool left = k == end || (i < middle && !is_before(trie, from[k], from[i]));
                to[out] = left ? from[i++] : from[k++];
            }
        }
        uint32_t *was_from = from;
        from = to;
        to = was_from;
    }
    if (from != trie->ids) {
        memcpy(trie->ids, from, n * sizeof from[0]);
    }
    lk_free_array(trie->allocator, spare, n, sizeof spare[0]);
    return true;
}

size_t lk_trie_common(const uint8_t *x, size_t n_x, const uint8_t *y, size_t n_y) {
    size_t n = 0;
    while (n < n_x && n < n_y && x[n] == y[n]) {
        n++;
    }
    return n;
}

static uint32_t count_nodes(const lk_token_trie *trie) {
    uint32_t n = 1;
    const uint8_t *before = NULL;
    size_t n_before = 0;
    for (uint32_t i = 0; i < trie->n_ids; i++) {
        size_t n_own = 0;
        const uint8_t *own = lk_trie_token(trie, trie->ids[i], &n_own);
        n += (uint32_t)(n_own - lk_trie_common(before, n_before, own, n_own));
        before = own;
        n_before = n_own;
    }
    return n;
}

/* One node for each byte that a token does not share with the one before it. */
static void lay_nodes(lk_token_trie *trie) {
    uint32_t open[LK_TRIE_MAX_DEPTH + 1]; /* nodes on the path */
    uint32_t n_open = 1;
    uint32_t n = 1;
    const uint8_t *before = NULL;
    size_t n_before = 0;
    open[0] = 0;
    trie->nodes[0] = (lk_trie_node){.set = LK_TRIE_NO_SET};
    for (uint32_t i = 0; i < trie->n_ids; i++) {
        size_t n_own = 0;
        const uint8_t *own = lk_trie_token(trie, trie->ids[i], &n_own);
        const size_t n_common = lk_trie_common(before, n_before, own, n_own);
        while (n_open > n_common + 1) {
            trie->nodes[open[--n_open]].skip = n;
        }
        for (size_t k = n_common; k < n_own; k++) {
            trie->nodes[n] = (lk_trie_node){.set = LK_TRIE_NO_SET,
                                            .first_token = i,
                                            .depth = (uint16_t)(k + 1),
                                            .byte = own[k]};
            open[n_open++] = n++;
        }
        before = own;
        n_before = n_own;
    }
    while (n_open > 0) {
        trie->nodes[open[--n_open]].skip = n;
    }
    trie->nodes[n] = (lk_trie_node){.skip = n + 1, .first_token = trie->n_ids};
}

/* From the last node to the first: what is below a node has been met when it comes. */
static bool collect_sets(lk_token_trie *trie) {
    for (uint32_t i = 0; i < trie->n_nodes; i++) {
        trie->n_sets += trie->nodes[i].skip - i > FEW_BELOW;
    }
    trie->sets = lk_alloc_array(trie->allocator, trie->n_sets, sizeof trie->sets[0]);
    lk_byte_set *below =
        lk_alloc_array_zero(trie->allocator, LK_TRIE_MAX_DEPTH + 2, sizeof below[0]);
    uint32_t n = 0;
    const bool ok = trie->sets != NULL && below != NULL;
    for (uint32_t i = trie->n_nodes; ok && i-- > 0;) {
        lk_trie_node *node = &trie->nodes[i];
        lk_byte_set *own = &below[node->depth + 1];
        lk_byte_set *upper = &below[node->depth];
        if (node->skip - i > FEW_BELOW) {
            node->set = n;
            trie->sets[n++] = *own;
        }
        for (int w = 0; w < 4; w++) {
            upper->words[w] |= own->words[w];
        }
        upper->words[node->byte / 64] |= (uint64_t)1 << (node->byte % 64);
        *own = (lk_byte_set){{0}};
    }
    lk_free_array(trie->allocator, below, LK_TRIE_MAX_DEPTH + 2, sizeof below[0]);
    return ok;
}

/* The few longest tokens are set apart, so that the others are short. */
static bool list_long(lk_token_trie *trie) {
    uint32_t counts[LK_TRIE_MAX_DEPTH + 1] = {0};
    for (uint32_t i = 0; i < trie->n_ids; i++) {
        counts[trie->offsets[trie->ids[i] + 1] - trie->offsets[trie->ids[i]]]++;
    }
    trie->usual = LK_TRIE_MAX_DEPTH;
    while (trie->usual > 1 && trie->n_long + counts[trie->usual] <= LK_TRIE_MAX_LONG) {
        trie->n_long += counts[trie->usual--];
    }
    trie->long_ids = lk_alloc_array(trie->allocator, trie->n_long, sizeof trie->long_ids[0]);
    uint32_t n = 0;
    for (uint32_t i = 0; i < trie->n_ids && trie->long_ids != NULL; i++) {
        const uint32_t id = trie->ids[i];
        if (trie->offsets[id + 1] - trie->offsets[id] > trie->usual) {
            trie->long_ids[n++] = id;
        }
    }
    return trie->long_ids != NULL;
}

static bool build(lk_token_trie *trie, const lk_tokenizer *tokenizer, const lk_trie_marks *marks) {
    if (!take_tokens(trie, tokenizer, marks) || !sort_tokens(trie) || !list_long(trie)) {
        return false;
    }
    trie->n_nodes = count_nodes(trie);
    trie->nodes = lk_alloc_array(trie->allocator, (size_t)trie->n_nodes + 1, sizeof trie->nodes[0]);
    if (trie->nodes == NULL) {
        return false;
    }
    lay_nodes(trie);
    return collect_sets(trie);
}

lk_status lk_token_trie_build(const lk_tokenizer *tokenizer, const lk_trie_marks *marks,
                              const lk_allocator *allocator, lk_token_trie **out, lk_error *err) {
    const lk_allocator *a = lk_allocator_or_default(allocator);
    *out = NULL;
    lk_token_trie *trie = lk_alloc_zero(a, sizeof *trie);
    if (trie != NULL) {
        trie->allocator = a;
        trie->n_vocab = tokenizer->vocab.n_tokens;
        if (!build(trie, tokenizer, marks)) {
            lk_token_trie_free(trie);
            trie = NULL;
        }
    }
    *out = trie;
    return trie != NULL ? LK_OK
                        : lk_fail_nomem(err, "the tree of a vocabulary",
                                        (size_t)tokenizer->vocab.n_tokens * sizeof(lk_trie_node));
}

void lk_token_trie_free(lk_token_trie *trie) {
    if (trie == NULL) {
        return;
    }
    const lk_allocator *a = trie->allocator;
    lk_free(a, trie->bytes, trie->n_bytes);
    lk_free_array(a, trie->offsets, (size_t)trie->n_vocab + 1, sizeof trie->offsets[0]);
    lk_free_array(a, trie->ids, trie->n_ids, sizeof trie->ids[0]);
    lk_free_array(a, trie->ends, trie->n_ends, sizeof trie->ends[0]);
    lk_free_array(a, trie->long_ids, trie->n_long, sizeof trie->long_ids[0]);
    lk_free_array(a, trie->nodes, (size_t)trie->n_nodes + 1, sizeof trie->nodes[0]);
    lk_free_array(a, trie->sets, trie->n_sets, sizeof trie->sets[0]);
    lk_free(a, trie, sizeof *trie);
}
