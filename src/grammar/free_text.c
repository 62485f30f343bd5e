/* free_text.c - see free_text.h: the automaton of Aho and Corasick for a few short marks. A state
 * is the longest beginning of a mark that the text so far ends with, as the parser of answers holds
 * it back. */
#include "grammar/free_text.h"

#include <string.h>

enum { MAX_NODES = LK_FREE_MAX_MARKS * LK_FREE_MAX_MARK + 1 };

typedef struct node {
    const char *text; /* the beginning of a mark */
    size_t n;
    uint32_t state;
} node;

typedef struct automaton {
    const lk_free_mark *marks;
    size_t n_marks;
    node nodes[MAX_NODES];
    size_t n_nodes;
} automaton;

static const node *find_node(const automaton *a, const char *text, size_t n) {
    for (size_t i = 0; i < a->n_nodes; i++) {
        if (a->nodes[i].n == n && memcmp(a->nodes[i].text, text, n) == 0) {
            return &a->nodes[i];
        }
    }
    return NULL;
}

static void add_nodes(lk_grammar_builder *b, automaton *a) {
    a->nodes[a->n_nodes++] = (node){"", 0, lk_grammar_reserve(b)};
    for (size_t i = 0; i < a->n_marks; i++) {
        const size_t n_mark = strlen(a->marks[i].text);
        for (size_t n = 1; n < n_mark && n <= LK_FREE_MAX_MARK; n++) {
            if (find_node(a, a->marks[i].text, n) == NULL) {
                a->nodes[a->n_nodes++] = (node){a->marks[i].text, n, lk_grammar_reserve(b)};
            }
        }
    }
}

/* Where a byte leads to: the longest end of what is held with it that begins or is a mark. */
static uint32_t step(const automaton *a, const node *from, uint8_t byte) {
    char held[LK_FREE_MAX_MARK + 1];
    memcpy(held, from->text, from->n);
    held[from->n] = (char)byte;
    for (size_t i = 0; i <= from->n; i++) {
        const size_t n = from->n + 1 - i;
        for (size_t k = 0; k < a->n_marks; k++) {
            if (strlen(a->marks[k].text) == n && memcmp(a->marks[k].text, held + i, n) == 0) {
                return a->marks[k].next;
            }
        }
        const node *to = find_node(a, held + i, n);
        if (to != NULL) {
            return to->state;
        }
    }
    return a->nodes[0].state;
}

static void set_node(lk_grammar_builder *b, const automaton *a, const node *own, bool may_end) {
    lk_grammar_edge_list list = {NULL, 0, 0};
    for (unsigned first = 0; first < 256 && b->status == LK_OK;) {
        const uint32_t next = step(a, own, (uint8_t)first);
        unsigned last = first;
        while (last < 255 && step(a, own, (uint8_t)(last + 1)) == next) {
            last++;
        }
        lk_grammar_add_edge(b, &list, (uint8_t)first, (uint8_t)last, next);
        first = last + 1;
    }
    if (may_end) {
        const uint32_t on = lk_grammar_edges(b, list.edges, list.n);
        lk_grammar_set_split(b, own->state, (const uint32_t[]){on, LK_GRAMMAR_END}, 2);
    } else {
        lk_grammar_set_edges(b, own->state, list.edges, list.n);
    }
    lk_grammar_free_edges(b, &list);
}

uint32_t lk_free_text(lk_grammar_builder *b, const lk_free_mark *marks, size_t n_marks,
                      bool may_end) {
    automaton a = {.marks = marks, .n_marks = n_marks};
    add_nodes(b, &a);
    for (size_t i = 0; i < a.n_nodes && b->status == LK_OK; i++) {
        set_node(b, &a, &a.nodes[i], may_end);
    }
    return b->status == LK_OK ? a.nodes[0].state : LK_GRAMMAR_NOTHING;
}
