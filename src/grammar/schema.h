/* schema.h - JSON schemas to grammars. */
#ifndef LK_GRAMMAR_SCHEMA_H
#define LK_GRAMMAR_SCHEMA_H

#include "grammar/grammar_builder.h"
#include "text/calls/call_syntax.h"

/* Body of lk_grammar_create_json_schema. */
lk_status lk_schema_compile(const char *text, size_t n_bytes, const lk_allocator *allocator,
                            lk_grammar **out, lk_error *err);
/* A rule of a grammar in the making, for a schema. A failure is kept by the builder. With a
 * notation it is of the arguments of a call in it (text/call_syntax.h): of TAGS up to what ends
 * them, of PYTHON and BARE with their closing bracket. */
uint32_t lk_schema_compile_rule(lk_grammar_builder *b, const char *text, size_t n_bytes,
                                const lk_call_notation *notation);

#endif
