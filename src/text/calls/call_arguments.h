/* call_arguments.h - the arguments of a call in a notation that is not JSON, byte by byte, as JSON.
 *
 * Texts come out while they come in; other values of TAGS when they are whole, since only then is
 * known what they are. What comes out is the beginning of a JSON object as far as the values of
 * the input are well formed; what is no value of any kind becomes a text. */
#ifndef LK_TEXT_CALL_ARGUMENTS_H
#define LK_TEXT_CALL_ARGUMENTS_H

#include "text/calls/call_json.h"
#include "text/calls/call_syntax.h"
#include "text/calls/call_types.h"
#include "text/text_buffer.h"

enum {
    LK_CALL_MAX_ARGUMENT = 256, /* bytes of the name of an argument, or of what says its type */
    LK_CALL_MAX_DEPTH = 128,
    LK_CALL_MAX_CHECKS = 64 /* of marks inside a value */
};

typedef struct lk_call_arguments {
    const lk_call_notation *notation;
    const char *close; /* TAGS: what ends them; it is read too */
    const lk_json *tools;
    const char *tool;
    size_t n_tool;
    size_t max_value; /* bytes of a value that is no text */
    int state;
    bool has_members; /* something is out */
    lk_text_buffer name, value;
    char held[2 * LK_MAX_MARKER]; /* what may be the beginning of a mark */
    size_t n_held;
    unsigned types; /* of the value: LK_CALL_* */
    bool at_value;  /* none of its bytes has come */
    int n_checks;
    uint8_t closers[LK_CALL_MAX_DEPTH]; /* PYTHON, BARE */
    size_t depth;
    char quote;
    bool is_escaped, needs_comma;
    uint32_t n_hex, code;
    bool is_nomem;
} lk_call_arguments;

void lk_call_arguments_init(lk_call_arguments *a, const lk_allocator *allocator);
void lk_call_arguments_deinit(lk_call_arguments *a);
/* The arguments of a tool in a notation, which is not JSON. `tool` must stay. */
void lk_call_arguments_begin(lk_call_arguments *a, const lk_call_notation *notation,
                             const char *close, const lk_json *tools, const char *tool,
                             size_t n_tool, size_t max_value);
/* Appends what c says to `out`. LK_SCAN_LAST: c was the last byte of all; LK_SCAN_BAD: c, and what
 * is held before it, are no arguments. */
lk_scan lk_call_arguments_byte(lk_call_arguments *a, char c, lk_text_buffer *out);

#endif
