/* gbnf.h - grammars in GBNF: `name ::= alternatives`, literals, classes, groups, repetitions. */
#ifndef LK_GRAMMAR_GBNF_H
#define LK_GRAMMAR_GBNF_H

#include "lk/grammar.h"

/* Body of lk_grammar_create_gbnf. */
lk_status lk_gbnf_compile(const char *text, size_t n_bytes, const lk_allocator *allocator,
                          lk_grammar **out, lk_error *err);

#endif
