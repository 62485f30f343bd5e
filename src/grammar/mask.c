/* mask.c - which tokens can follow: a walk through the tree of the vocabulary along with the
 * places. A branch whose byte leads nowhere is left out as a whole; a branch all of whose bytes
 * lead back to the place where the walk began is taken as a whole. The few very long tokens are
 * left out of the walk, whose result is kept, and are tried one by one. */
#include <string.h>

#include "base/error.h"
#include "grammar/matcher.h"

typedef struct walk {
    lk_matcher *m;
    uint32_t *words;
    uint32_t start;
    lk_byte_set loops; /* bytes that lead from `start` to itself */
    lk_tour tour;
    lk_error *err;
} walk;

static lk_status find_loops(walk *w) {
    const lk_grammar *g = w->m->grammar;
    lk_status status = LK_OK;
    uint32_t next = 0;
    for (uint32_t byte = 0; byte < 256 && status == LK_OK; byte++) {
        if (byte == 0 || g->class_of[byte] != g->class_of[byte - 1]) {
            status = lk_matcher_step(w->m, w->start, g->class_of[byte], &w->tour, &next, w->err);
        }
        if (next == w->start) {
            w->loops.words[byte / 64] |= (uint64_t)1 << (byte % 64);
        }
    }
    return status;
}

static bool is_within(const lk_byte_set *set, const lk_byte_set *other) {
    uint64_t outside = 0;
    for (int i = 0; i < 4; i++) {
        outside |= set->words[i] & ~other->words[i];
    }
    return outside == 0;
}

static void allow(walk *w, uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; i++) {
        const uint32_t id = w->m->trie->ids[i];
        w->words[id / 32] |= 1u << (id % 32);
    }
}

static lk_status walk_tree(walk *w) {
    lk_matcher *m = w->m;
    const lk_token_trie *trie = m->trie;
    const lk_trie_node *nodes = trie->nodes;
    const uint32_t n_classes = m->grammar->n_classes;
    uint32_t at[LK_TRIE_MAX_DEPTH + 1];
    at[0] = w->start;
    uint32_t i = 1;
    while (i < trie->n_nodes) {
        const lk_trie_node *node = &nodes[i];
        const uint32_t from = at[node->depth - 1];
        const uint32_t class = m->grammar->class_of[node->byte];
        const lk_move *move = &m->moves[from * (size_t)n_classes + class];
        uint32_t to = move->to;
        if (to == LK_NO_PLACE || move->mark != m->n_tours) {
            const lk_status status = lk_matcher_step(m, from, class, &w->tour, &to, w->err);
            if (status != LK_OK) {
                return status;
            }
        }
        if (to == LK_DEAD_PLACE) {
            i = node->skip;
            continue;
        }
        if (node->depth > trie->usual) {
            i = node->skip; /* long tokens only */
            continue;
        }
        if (to == w->start && node->set != LK_TRIE_NO_SET &&
            is_within(&trie->sets[node->set], &w->loops)) {
            allow(w, node->first_token, nodes[node->skip].first_token);
            i = node->skip;
            continue;
        }
        at[node->depth] = to;
        if (node->first_token != nodes[i + 1].first_token) {
            allow(w, node->first_token, nodes[i + 1].first_token);
        }
        i++;
    }
    return LK_OK;
}

/* Tries the long tokens from the place itself. Each begins where it parts from the one before. */
static lk_status add_long(lk_matcher *m, lk_error *err) {
    const lk_token_trie *trie = m->trie;
    uint32_t at[LK_TRIE_MAX_DEPTH + 1];
    const uint8_t *before = NULL;
    size_t n_before = 0;
    size_t n_read = 0; /* bytes of `before` that have been followed */
    at[0] = m->at;
    lk_tour tour = lk_matcher_begin_tour(m, LK_GRAMMAR_MAX_TOKEN_WORK);
    for (uint32_t i = 0; i < trie->n_long; i++) {
        const uint32_t id = trie->long_ids[i];
        size_t n = 0;
        const uint8_t *bytes = lk_trie_token(trie, id, &n);
        const size_t n_common = lk_trie_common(before, n_before, bytes, n);
        n_read = n_read < n_common ? n_read : n_common;
        while (n_read < n && at[n_read] != LK_DEAD_PLACE) {
            const lk_status status = lk_matcher_step(
                m, at[n_read], m->grammar->class_of[bytes[n_read]], &tour, &at[n_read + 1], err);
            if (status != LK_OK) {
                return status;
            }
            n_read++;
        }
        /* A branch that was taken as a whole may have had it. */
        const uint32_t bit = 1u << (id % 32);
        m->mask[id / 32] &= ~bit;
        if (n_read == n && at[n] != LK_DEAD_PLACE) {
            m->mask[id / 32] |= bit;
        }
        before = bytes;
        n_before = n;
    }
    return LK_OK;
}

/* Room for one more mask; *mask is its index. */
static bool add_mask(lk_matcher *m, uint32_t *mask) {
    void *masks = m->masks;
    const size_t used = m->n_masks * m->n_words;
    if (!lk_grow_array(m->allocator, &masks, used, &m->masks_capacity, used + m->n_words,
                       sizeof m->masks[0])) {
        return false;
    }
    m->masks = masks;
    memset(m->masks + used, 0, m->n_words * sizeof m->masks[0]);
    *mask = (uint32_t)m->n_masks++;
    return true;
}

static lk_status compute(lk_matcher *m, uint32_t place, uint32_t *mask, lk_error *err) {
    if (!add_mask(m, mask)) {
        return lk_fail_nomem(err, "a mask of the vocabulary", m->n_words * sizeof m->masks[0]);
    }
    walk w = {.m = m, .words = m->masks + *mask * m->n_words, .start = place, .err = err};
    w.tour = lk_matcher_begin_tour(m, LK_GRAMMAR_MAX_MASK_WORK);
    lk_status status = find_loops(&w);
    if (status == LK_OK) {
        status = walk_tree(&w);
    }
    if (status != LK_OK) {
        m->n_masks--;
        return status;
    }
    for (uint32_t i = 0; m->places[place].is_end && i < m->trie->n_ends; i++) {
        w.words[m->trie->ends[i] / 32] |= 1u << (m->trie->ends[i] % 32);
    }
    m->places[place].mask = *mask;
    return LK_OK;
}

lk_status lk_matcher_mask(lk_matcher *m, const uint32_t **words, lk_error *err) {
    if (m->is_finished) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("grammar"),
                       "nothing comes after the end of the text");
    }
    uint32_t plain = 0;
    lk_status status = lk_matcher_plain(m, m->at, &plain, err);
    uint32_t mask = status == LK_OK ? m->places[plain].mask : LK_NO_MASK;
    if (status == LK_OK && mask == LK_NO_MASK) {
        status = compute(m, plain, &mask, err);
    }
    if (status == LK_OK) {
        memcpy(m->mask, m->masks + mask * m->n_words, m->n_words * sizeof m->mask[0]);
        status = add_long(m, err);
    }
    if (status == LK_OK) {
        *words = m->mask;
    }
    return status;
}
