/* schema.h - JSON schemas to grammars. */
#ifndef LK_GRAMMAR_SCHEMA_H
#define LK_GRAMMAR_SCHEMA_H

#include "lk/grammar.h"

/* Body of lk_grammar_create_json_schema. */
lk_status lk_schema_compile(const char *text, size_t n_bytes, const lk_allocator *allocator,
                            lk_grammar **out, lk_error *err);

#endif
