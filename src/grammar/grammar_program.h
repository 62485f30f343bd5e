/* grammar_program.h - a compiled grammar: a network of states over bytes, in which a rule may call
 * other rules, itself included, and a repetition may count.
 *
 * Reading a sentence means to walk from the start of the root rule to its return, taking an edge
 * for each byte; calls and counted repetitions put a frame on a stack that RETURN takes off again.
 * Immutable after lk_grammar_finish: any number of threads may read one. Invariant of a finished
 * grammar: no walk meets a rule again without having read a byte, and `depth` of every state is
 * right, so a walk that keeps to it can always be completed within LK_GRAMMAR_MAX_DEPTH frames. */
#ifndef LK_GRAMMAR_PROGRAM_H
#define LK_GRAMMAR_PROGRAM_H

#include <stdbool.h>

#include "base/alloc.h"
#include "lk/grammar.h"

typedef enum lk_grammar_kind {
    LK_GRAMMAR_EDGES,  /* reads one byte; without an edge: a dead end */
    LK_GRAMMAR_SPLIT,  /* goes to each of its targets without reading */
    LK_GRAMMAR_CALL,   /* walks through a rule, then goes to `next` */
    LK_GRAMMAR_REPEAT, /* walks `min` to `max` times through a body, then goes to `next` */
    LK_GRAMMAR_RETURN  /* the end of a rule or of the body of a repetition */
} lk_grammar_kind;

typedef struct lk_grammar_edge {
    uint8_t low, high; /* of a SPLIT: 0 */
    uint32_t next;
} lk_grammar_edge;

typedef struct lk_grammar_state {
    lk_grammar_kind kind;
    uint32_t first;   /* EDGES, SPLIT: its first edge; CALL: the rule; REPEAT: start of the body */
    uint32_t n;       /* EDGES, SPLIT: number of edges; REPEAT: min */
    uint32_t max;     /* REPEAT; LK_GRAMMAR_NO_MAX: no end */
    uint32_t next;    /* CALL, REPEAT */
    uint32_t depth;   /* frames that the shallowest way to the end of the rule needs */
    bool is_nullable; /* the end of the rule may be reached without a byte */
} lk_grammar_state;

/* The first two states of every grammar. */
#define LK_GRAMMAR_END 0u     /* RETURN */
#define LK_GRAMMAR_NOTHING 1u /* EDGES without an edge */
#define LK_GRAMMAR_NO_MAX UINT32_MAX
#define LK_GRAMMAR_NEVER UINT32_MAX /* depth of a state without a way to the end */

struct lk_grammar {
    const lk_allocator *allocator;
    lk_grammar_state *states;
    size_t n_states, states_capacity;
    lk_grammar_edge *edges;
    size_t n_edges, edges_capacity;
    uint32_t *rules; /* start of each rule */
    size_t n_rules, rules_capacity;
    uint32_t root; /* rule */

    /* Bytes that no edge tells apart are of one class. */
    uint8_t class_of[256];
    uint32_t n_classes;
};

#endif
