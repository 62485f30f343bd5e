/* call_literal.h - values of arguments that are written as they come to a model: JSON, Python's
 * literals, plain texts; as JSON. */
#ifndef LK_TEXT_CALL_LITERAL_H
#define LK_TEXT_CALL_LITERAL_H

#include "text/calls/call_arguments.h"

/* Appends a byte of a text as it stands inside a JSON string. False when memory is short. */
bool lk_json_escape_byte(char c, lk_text_buffer *out);

/* Appends a whole value: as it is where it is JSON of one of the types, the JSON of Python's
 * literals, else a text. False when memory is short. */
bool lk_call_literal(const lk_text_buffer *value, unsigned types, lk_text_buffer *out);
/* Whether a value is the beginning of a JSON list or object that has stopped inside a string: what
 * looks like a mark there is none. */
bool lk_call_literal_is_open(const lk_text_buffer *value);

/* lk_call_arguments_byte for PYTHON and BARE. */
lk_scan lk_call_values_byte(lk_call_arguments *a, char c, lk_text_buffer *out);

#endif
