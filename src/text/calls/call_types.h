/* call_types.h - which types of JSON the arguments of tools may have, as their schemas say. Only
 * what decides between a text and other values is looked at; what is not understood allows all
 * types. */
#ifndef LK_TEXT_CALL_TYPES_H
#define LK_TEXT_CALL_TYPES_H

#include "base/json.h"

enum {
    LK_CALL_NULL = 1,
    LK_CALL_BOOLEAN = 2,
    LK_CALL_NUMBER = 4,
    LK_CALL_STRING = 8,
    LK_CALL_ARRAY = 16,
    LK_CALL_OBJECT = 32,
    LK_CALL_ANY = 63
};

/* The type of a value of a table, as a bit. */
unsigned lk_call_type_of(const lk_json *json, uint32_t value);
/* The bit of a type's name ("integer" is a number); 0: none. */
unsigned lk_call_type_named(const char *name, size_t n);

/* The types of an argument of a tool. `tools`: OpenAI's list, read; empty: all types. */
unsigned lk_call_types(const lk_json *tools, const char *tool, size_t n_tool, const char *argument,
                       size_t n_argument);

#endif
