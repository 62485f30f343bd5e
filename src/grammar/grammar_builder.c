/* grammar_builder.c - see grammar_builder.h. */
#include "grammar/grammar_builder.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

lk_status lk_grammar_fail(lk_grammar_builder *b, lk_status status, lk_where where,
                          const char *format, ...) {
    if (b->status != LK_OK) {
        return b->status;
    }
    char message[sizeof b->err->message];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    b->status = lk_fail(b->err, status, where, "%s", message);
    return b->status;
}

static void fail_memory(lk_grammar_builder *b) {
    if (b->status == LK_OK) {
        b->status =
            lk_fail_nomem(b->err, "a grammar", b->grammar->n_states * sizeof b->grammar->states[0]);
    }
}

lk_status lk_grammar_begin(lk_grammar_builder *b, const lk_allocator *allocator, lk_error *err) {
    const lk_allocator *a = lk_allocator_or_default(allocator);
    *b = (lk_grammar_builder){.err = err};
    b->grammar = lk_alloc_zero(a, sizeof *b->grammar);
    if (b->grammar == NULL) {
        b->status = lk_fail_nomem(err, "a grammar", sizeof *b->grammar);
        return b->status;
    }
    b->grammar->allocator = a;
    const uint32_t end = lk_grammar_reserve(b);
    const uint32_t nothing = lk_grammar_reserve(b);
    if (b->status == LK_OK) {
        b->grammar->states[end].kind = LK_GRAMMAR_RETURN;
        b->grammar->states[nothing].kind = LK_GRAMMAR_EDGES;
    }
    return b->status;
}

void lk_grammar_free(lk_grammar *g) {
    if (g == NULL) {
        return;
    }
    const lk_allocator *a = g->allocator;
    lk_free_array(a, g->states, g->states_capacity, sizeof g->states[0]);
    lk_free_array(a, g->edges, g->edges_capacity, sizeof g->edges[0]);
    lk_free_array(a, g->rules, g->rules_capacity, sizeof g->rules[0]);
    lk_free(a, g, sizeof *g);
}

uint32_t lk_grammar_reserve(lk_grammar_builder *b) {
    if (b->status != LK_OK) {
        return LK_GRAMMAR_NOTHING;
    }
    lk_grammar *g = b->grammar;
    if (g->n_states == LK_GRAMMAR_MAX_STATES) {
        lk_grammar_fail(b, LK_E_LIMIT, LK_AT_SUBJECT("grammar"),
                        "the grammar needs more than %d states", LK_GRAMMAR_MAX_STATES);
        return LK_GRAMMAR_NOTHING;
    }
    void *states = g->states;
    if (!lk_grow_array(g->allocator, &states, g->n_states, &g->states_capacity, g->n_states + 1,
                       sizeof g->states[0])) {
        fail_memory(b);
        return LK_GRAMMAR_NOTHING;
    }
    g->states = states;
    g->states[g->n_states] = (lk_grammar_state){.kind = LK_GRAMMAR_EDGES};
    return (uint32_t)g->n_states++;
}

/* Room for n edges; NULL after a failure. */
static lk_grammar_edge *add_edges(lk_grammar_builder *b, size_t n, uint32_t *first) {
    lk_grammar *g = b->grammar;
    *first = (uint32_t)g->n_edges;
    if (g->n_edges + n > LK_GRAMMAR_MAX_EDGES) {
        lk_grammar_fail(b, LK_E_LIMIT, LK_AT_SUBJECT("grammar"),
                        "the grammar needs more than %d edges", LK_GRAMMAR_MAX_EDGES);
        return NULL;
    }
    void *edges = g->edges;
    if (!lk_grow_array(g->allocator, &edges, g->n_edges, &g->edges_capacity, g->n_edges + n,
                       sizeof g->edges[0])) {
        fail_memory(b);
        return NULL;
    }
    g->edges = edges;
    g->n_edges += n;
    return g->edges + *first;
}

void lk_grammar_set_edges(lk_grammar_builder *b, uint32_t state, const lk_grammar_edge *edges,
                          size_t n) {
    uint32_t first = 0;
    lk_grammar_edge *own = b->status == LK_OK ? add_edges(b, n, &first) : NULL;
    if (own == NULL) {
        return;
    }
    if (n != 0) {
        memcpy(own, edges, n * sizeof own[0]);
    }
    b->grammar->states[state] =
        (lk_grammar_state){.kind = LK_GRAMMAR_EDGES, .first = first, .n = (uint32_t)n};
}

void lk_grammar_set_split(lk_grammar_builder *b, uint32_t state, const uint32_t *targets,
                          size_t n) {
    uint32_t first = 0;
    lk_grammar_edge *own = b->status == LK_OK ? add_edges(b, n, &first) : NULL;
    if (own == NULL) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        own[i] = (lk_grammar_edge){0, 0, targets[i]};
    }
    b->grammar->states[state] =
        (lk_grammar_state){.kind = LK_GRAMMAR_SPLIT, .first = first, .n = (uint32_t)n};
}

uint32_t lk_grammar_rule(lk_grammar_builder *b) {
    if (b->status != LK_OK) {
        return 0;
    }
    lk_grammar *g = b->grammar;
    void *rules = g->rules;
    if (!lk_grow_array(g->allocator, &rules, g->n_rules, &g->rules_capacity, g->n_rules + 1,
                       sizeof g->rules[0])) {
        fail_memory(b);
        return 0;
    }
    g->rules = rules;
    g->rules[g->n_rules] = LK_GRAMMAR_NOTHING;
    return (uint32_t)g->n_rules++;
}

void lk_grammar_set_rule(lk_grammar_builder *b, uint32_t rule, uint32_t start) {
    if (b->status == LK_OK) {
        b->grammar->rules[rule] = start;
    }
}

/* ---- pieces ---- */

uint32_t lk_grammar_edges(lk_grammar_builder *b, const lk_grammar_edge *edges, size_t n) {
    if (n == 0) {
        return LK_GRAMMAR_NOTHING;
    }
    const uint32_t state = lk_grammar_reserve(b);
    lk_grammar_set_edges(b, state, edges, n);
    return state;
}

uint32_t lk_grammar_split(lk_grammar_builder *b, const uint32_t *targets, size_t n) {
    if (n <= 1) {
        return n == 1 ? targets[0] : LK_GRAMMAR_NOTHING;
    }
    const uint32_t state = lk_grammar_reserve(b);
    lk_grammar_set_split(b, state, targets, n);
    return state;
}

uint32_t lk_grammar_either(lk_grammar_builder *b, uint32_t one, uint32_t other) {
    return one == other ? one : lk_grammar_split(b, (const uint32_t[]){one, other}, 2);
}

uint32_t lk_grammar_byte(lk_grammar_builder *b, uint8_t low, uint8_t high, uint32_t next) {
    const uint32_t hash = (low * 31u + high * 7u + next * 13u) % LK_GRAMMAR_N_RECENT;
    lk_grammar_recent *recent = &b->recent[hash];
    if (recent->state != LK_GRAMMAR_END && recent->low == low && recent->high == high &&
        recent->next == next) {
        return recent->state;
    }
    const lk_grammar_edge edge = {low, high, next};
    const uint32_t state = lk_grammar_edges(b, &edge, 1);
    if (b->status == LK_OK) {
        *recent = (lk_grammar_recent){low, high, next, state};
    }
    return state;
}

uint32_t lk_grammar_bytes(lk_grammar_builder *b, const void *bytes, size_t n, uint32_t next) {
    const uint8_t *own = bytes;
    for (size_t i = n; i-- > 0 && b->status == LK_OK;) {
        next = lk_grammar_byte(b, own[i], own[i], next);
    }
    return next;
}

uint32_t lk_grammar_text(lk_grammar_builder *b, const char *text, uint32_t next) {
    return lk_grammar_bytes(b, text, strlen(text), next);
}

uint32_t lk_grammar_call(lk_grammar_builder *b, uint32_t rule, uint32_t next) {
    const uint32_t state = lk_grammar_reserve(b);
    if (b->status == LK_OK) {
        b->grammar->states[state] =
            (lk_grammar_state){.kind = LK_GRAMMAR_CALL, .first = rule, .next = next};
    }
    return state;
}

uint32_t lk_grammar_repeat(lk_grammar_builder *b, uint32_t body, uint32_t min, uint32_t max,
                           uint32_t next) {
    if (max == 0) {
        return next;
    }
    const uint32_t state = lk_grammar_reserve(b);
    if (b->status == LK_OK) {
        b->grammar->states[state] = (lk_grammar_state){
            .kind = LK_GRAMMAR_REPEAT, .first = body, .n = min, .max = max, .next = next};
    }
    return state;
}

void lk_grammar_add_edge(lk_grammar_builder *b, lk_grammar_edge_list *list, uint8_t low,
                         uint8_t high, uint32_t next) {
    void *edges = list->edges;
    if (b->status != LK_OK) {
        return;
    }
    if (!lk_grow_array(b->grammar->allocator, &edges, list->n, &list->capacity, list->n + 1,
                       sizeof list->edges[0])) {
        fail_memory(b);
        return;
    }
    list->edges = edges;
    list->edges[list->n++] = (lk_grammar_edge){low, high, next};
}

void lk_grammar_free_edges(lk_grammar_builder *b, lk_grammar_edge_list *list) {
    lk_free_array(b->grammar->allocator, list->edges, list->capacity, sizeof list->edges[0]);
    *list = (lk_grammar_edge_list){NULL, 0, 0};
}

/* ---- characters ---- */

/* Code points whose UTF-8 forms have one length and, byte by byte, a range each. */
static void add_block(lk_grammar_builder *b, lk_grammar_edge_list *list, lk_code_range block,
                      uint32_t next) {
    uint8_t low[4];
    uint8_t high[4];
    const size_t n = lk_utf8_put(block.low, low);
    (void)lk_utf8_put(block.high, high);
    for (size_t i = n; i-- > 1;) {
        next = lk_grammar_byte(b, low[i], high[i], next);
    }
    lk_grammar_add_edge(b, list, low[0], high[0], next);
}

/* Cuts a range where the length changes, and where a byte but the last could not run through all
 * its values: at most 3 times at each end of each length. */
static lk_code_range take_block(lk_code_range *rest) {
    static const uint32_t last_of_length[] = {0x7F, 0x7FF, 0xFFFF};
    lk_code_range block = *rest;
    for (size_t i = 0; i < 3; i++) {
        if (block.low <= last_of_length[i] && block.high > last_of_length[i]) {
            block.high = last_of_length[i];
        }
    }
    if (block.high > 0x7F) {
        for (uint32_t bits = 6; bits <= 18; bits += 6) {
            const uint32_t tail = (1u << bits) - 1;
            if ((block.low & ~tail) == (block.high & ~tail)) {
                continue;
            }
            if ((block.low & tail) != 0) {
                block.high = block.low | tail;
            } else if ((block.high & tail) != tail) {
                block.high = (block.high & ~tail) - 1;
            }
        }
    }
    rest->low = block.high + 1;
    return block;
}

void lk_grammar_add_chars(lk_grammar_builder *b, lk_grammar_edge_list *list,
                          const lk_code_range *ranges, size_t n, uint32_t next) {
    for (size_t i = 0; i < n && b->status == LK_OK; i++) {
        lk_code_range rest = ranges[i];
        while (rest.low <= rest.high && b->status == LK_OK) {
            add_block(b, list, take_block(&rest), next);
        }
    }
}

uint32_t lk_grammar_chars(lk_grammar_builder *b, const lk_code_range *ranges, size_t n,
                          uint32_t next) {
    lk_grammar_edge_list list = {NULL, 0, 0};
    lk_grammar_add_chars(b, &list, ranges, n, next);
    const uint32_t state = lk_grammar_edges(b, list.edges, list.n);
    lk_grammar_free_edges(b, &list);
    return state;
}

/* ---- words ---- */

typedef struct trie_node {
    uint32_t child, sibling; /* 0: none */
    uint32_t state; /* what follows the words that end here, if some do; then where it begins */
    uint8_t byte;
    bool is_word;
} trie_node;

typedef struct trie {
    trie_node *nodes;
    size_t n, capacity;
} trie;

static uint32_t add_node(lk_grammar_builder *b, trie *t, uint8_t byte) {
    void *nodes = t->nodes;
    if (!lk_grow_array(b->grammar->allocator, &nodes, t->n, &t->capacity, t->n + 1,
                       sizeof t->nodes[0])) {
        fail_memory(b);
        return 0;
    }
    t->nodes = nodes;
    t->nodes[t->n] = (trie_node){.byte = byte};
    return (uint32_t)t->n++;
}

static void add_word(lk_grammar_builder *b, trie *t, const lk_grammar_word *word) {
    uint32_t at = 0;
    for (size_t i = 0; i < word->n; i++) {
        const uint8_t byte = (uint8_t)word->bytes[i];
        uint32_t child = t->nodes[at].child;
        while (child != 0 && t->nodes[child].byte != byte) {
            child = t->nodes[child].sibling;
        }
        if (child == 0) {
            child = add_node(b, t, byte);
            if (b->status != LK_OK) {
                return;
            }
            t->nodes[child].sibling = t->nodes[at].child;
            t->nodes[at].child = child;
        }
        at = child;
    }
    trie_node *node = &t->nodes[at];
    node->state = node->is_word && node->state != word->next
                      ? lk_grammar_either(b, node->state, word->next)
                      : word->next;
    node->is_word = true;
}

uint32_t lk_grammar_words(lk_grammar_builder *b, const lk_grammar_word *words, size_t n) {
    trie t = {NULL, 0, 0};
    if (b->status == LK_OK) {
        (void)add_node(b, &t, 0);
    }
    for (size_t i = 0; i < n && b->status == LK_OK; i++) {
        add_word(b, &t, &words[i]);
    }
    for (size_t i = t.n; i-- > 0 && b->status == LK_OK;) { /* children stand after their parents */
        trie_node *node = &t.nodes[i];
        lk_grammar_edge edges[256];
        size_t n_edges = 0;
        for (uint32_t c = node->child; c != 0; c = t.nodes[c].sibling) {
            edges[n_edges++] =
                (lk_grammar_edge){t.nodes[c].byte, t.nodes[c].byte, t.nodes[c].state};
        }
        const uint32_t on = lk_grammar_edges(b, edges, n_edges);
        node->state = !node->is_word ? on
                      : n_edges == 0 ? node->state
                                     : lk_grammar_either(b, node->state, on);
    }
    const uint32_t start = b->status == LK_OK ? t.nodes[0].state : LK_GRAMMAR_NOTHING;
    lk_free_array(b->grammar->allocator, t.nodes, t.capacity, sizeof t.nodes[0]);
    return start;
}
