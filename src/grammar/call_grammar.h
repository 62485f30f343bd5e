/* call_grammar.h - calls of tools as grammars. */
#ifndef LK_GRAMMAR_CALL_GRAMMAR_H
#define LK_GRAMMAR_CALL_GRAMMAR_H

#include "lk/grammar.h"

/* Body of lk_grammar_create_tool_calls. */
lk_status lk_call_grammar_compile(const char *text, size_t n_bytes, const lk_allocator *allocator,
                                  lk_grammar **out, lk_error *err);

#endif
