/* pattern_nfa.h - what stands between the text of a pattern and its language: states with ways that
 * read nothing. */
#ifndef LK_GRAMMAR_PATTERN_NFA_H
#define LK_GRAMMAR_PATTERN_NFA_H

#include "grammar/language.h"

enum { LK_NFA_MAX_STATES = 20000, LK_NFA_MAX_GROUPS = 100, LK_NFA_MAX_SETS = 4096 };
#define LK_NFA_NONE UINT32_MAX

typedef enum lk_nfa_kind {
    LK_NFA_SET,   /* reads a character of set `other` */
    LK_NFA_SPLIT, /* to `next` and, unless LK_NFA_NONE, to `other` */
    LK_NFA_BEGIN, /* ^ */
    LK_NFA_END,   /* $ */
    LK_NFA_FOUND  /* whatever follows, the text matches */
} lk_nfa_kind;

typedef struct lk_nfa_state {
    lk_nfa_kind kind;
    uint32_t next, other;
} lk_nfa_state;

typedef struct lk_nfa {
    const lk_allocator *a;
    lk_nfa_state *states;
    size_t n_states, states_capacity;
    lk_code_points *sets;
    size_t n_sets, sets_capacity;
    uint32_t start;
} lk_nfa;

/* Reads a pattern; lk_nfa_free in any case. */
lk_status lk_nfa_parse(const char *text, size_t n, const lk_allocator *a, lk_nfa *nfa,
                       lk_error *err);
void lk_nfa_free(lk_nfa *nfa);

/* The characters of \p{name}. *known: whether there is such a class. */
bool lk_pattern_category(const char *name, size_t n, lk_code_points *set, const lk_allocator *a,
                         bool *known);

#endif
