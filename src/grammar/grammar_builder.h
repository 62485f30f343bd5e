/* grammar_builder.h - puts a grammar together from its end to its beginning: every piece is built
 * in front of the state that follows it.
 *
 * The first failure (memory, a limit) is kept; all later calls do nothing and return
 * LK_GRAMMAR_NOTHING, so callers look at `status` where it suits them. */
#ifndef LK_GRAMMAR_BUILDER_H
#define LK_GRAMMAR_BUILDER_H

#include "grammar/code_points.h"
#include "grammar/grammar_program.h"

/* A state with one edge, made lately: the tails of characters are shared through these. */
typedef struct lk_grammar_recent {
    uint8_t low, high;
    uint32_t next;
    uint32_t state; /* LK_GRAMMAR_END: free */
} lk_grammar_recent;
enum { LK_GRAMMAR_N_RECENT = 64 };

typedef struct lk_grammar_builder {
    lk_grammar *grammar;
    lk_grammar_recent recent[LK_GRAMMAR_N_RECENT];
    lk_status status;
    lk_error *err;
} lk_grammar_builder;

/* Makes an empty grammar. */
lk_status lk_grammar_begin(lk_grammar_builder *b, const lk_allocator *allocator, lk_error *err);
/* Checks and completes it: no left recursion, some sentence exists. `name_of` gives the name of a
 * rule for messages. On success the grammar is the caller's; on failure it is freed. */
typedef const char *(*lk_grammar_name_fn)(void *ctx, uint32_t rule);
lk_status lk_grammar_finish(lk_grammar_builder *b, uint32_t root, lk_grammar_name_fn name_of,
                            void *ctx, lk_grammar **out);
void lk_grammar_free(lk_grammar *grammar);
/* Keeps a failure, if it is the first; returns it. */
lk_status lk_grammar_fail(lk_grammar_builder *b, lk_status status, lk_where where,
                          const char *format, ...) LK_PRINTF(4, 5);

/* A rule without a body yet. */
uint32_t lk_grammar_rule(lk_grammar_builder *b);
void lk_grammar_set_rule(lk_grammar_builder *b, uint32_t rule, uint32_t start);

/* A state that is filled later, for loops. */
uint32_t lk_grammar_reserve(lk_grammar_builder *b);
void lk_grammar_set_edges(lk_grammar_builder *b, uint32_t state, const lk_grammar_edge *edges,
                          size_t n);
void lk_grammar_set_split(lk_grammar_builder *b, uint32_t state, const uint32_t *targets, size_t n);

/* Pieces in front of `next`; each returns where it begins. */
uint32_t lk_grammar_edges(lk_grammar_builder *b, const lk_grammar_edge *edges, size_t n);
uint32_t lk_grammar_split(lk_grammar_builder *b, const uint32_t *targets, size_t n);
uint32_t lk_grammar_either(lk_grammar_builder *b, uint32_t one, uint32_t other);
uint32_t lk_grammar_byte(lk_grammar_builder *b, uint8_t low, uint8_t high, uint32_t next);
uint32_t lk_grammar_bytes(lk_grammar_builder *b, const void *bytes, size_t n, uint32_t next);
uint32_t lk_grammar_text(lk_grammar_builder *b, const char *text, uint32_t next);
uint32_t lk_grammar_call(lk_grammar_builder *b, uint32_t rule, uint32_t next);
/* `body` must end in LK_GRAMMAR_END. */
uint32_t lk_grammar_repeat(lk_grammar_builder *b, uint32_t body, uint32_t min, uint32_t max,
                           uint32_t next);
/* One character of n ranges, as UTF-8. */
uint32_t lk_grammar_chars(lk_grammar_builder *b, const lk_code_range *ranges, size_t n,
                          uint32_t next);
/* Any of n words (bytes; in any order, equal ones allowed), each with what follows it. Common
 * beginnings are read once: a text is read in one way however many words there are. */
typedef struct lk_grammar_word {
    const char *bytes;
    size_t n;
    uint32_t next;
} lk_grammar_word;
uint32_t lk_grammar_words(lk_grammar_builder *b, const lk_grammar_word *words, size_t n);

/* A growing list of edges, for states that are put together piece by piece. */
typedef struct lk_grammar_edge_list {
    lk_grammar_edge *edges;
    size_t n, capacity;
} lk_grammar_edge_list;
void lk_grammar_add_edge(lk_grammar_builder *b, lk_grammar_edge_list *list, uint8_t low,
                         uint8_t high, uint32_t next);
/* Edges for one character of n ranges as UTF-8; of several bytes through further states. */
void lk_grammar_add_chars(lk_grammar_builder *b, lk_grammar_edge_list *list,
                          const lk_code_range *ranges, size_t n, uint32_t next);
void lk_grammar_free_edges(lk_grammar_builder *b, lk_grammar_edge_list *list);

#endif
