/* json_text.h - the texts of JSON: white space, strings, literal values, in front of a state. */
#ifndef LK_GRAMMAR_JSON_TEXT_H
#define LK_GRAMMAR_JSON_TEXT_H

#include "base/json.h"
#include "grammar/grammar_builder.h"
#include "grammar/language.h"

/* White space between tokens: nothing, one space, or one line end and at most this many spaces. */
enum { LK_JSON_MAX_INDENT = 32 };
uint32_t lk_json_space(lk_grammar_builder *b, uint32_t next);
/* After a colon: nothing or one space. */
uint32_t lk_json_one_space(lk_grammar_builder *b, uint32_t next);

/* One character inside a string, escaped or not. */
uint32_t lk_json_char(lk_grammar_builder *b, uint32_t next);
/* A string of min to max characters (LK_GRAMMAR_NO_MAX: no end), with its quotation marks. */
uint32_t lk_json_string(lk_grammar_builder *b, uint32_t min, uint32_t max, uint32_t next);
/* A string of the language, with its quotation marks. What must be escaped is; with `is_name`,
 * strings that need an escape are left out, so that each has one form only. */
uint32_t lk_json_string_of(lk_grammar_builder *b, const lk_language *language, bool is_name,
                           uint32_t next);

/* Appends a value as text without white space. The list is freed with lk_json_free_buffer. */
typedef struct lk_json_buffer {
    char *bytes;
    size_t n, capacity;
} lk_json_buffer;
void lk_json_write(lk_grammar_builder *b, const lk_json *json, uint32_t value, lk_json_buffer *out);
/* The same for a string that is given by its bytes. */
void lk_json_write_string(lk_grammar_builder *b, const char *text, size_t n, lk_json_buffer *out);
void lk_json_free_buffer(lk_grammar_builder *b, lk_json_buffer *buffer);

#endif
