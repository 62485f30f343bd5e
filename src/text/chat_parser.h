/* chat_parser.h - the parser of answers, and finding the syntax of a template. */
#ifndef LK_TEXT_CHAT_PARSER_H
#define LK_TEXT_CHAT_PARSER_H

#include "lk/chat_parser.h"
#include "text/call_json.h"
#include "text/text_buffer.h"

typedef enum lk_call_form {
    LK_CALL_FORM_OBJECT,
    LK_CALL_FORM_ARRAY,
    LK_CALL_FORM_NAMED,
    LK_CALL_FORM_START
} lk_call_form;

typedef struct lk_call_syntax {
    const char *name;
    lk_call_form form;
    const char *open, *call_open, *name_end, *call_close, *close;
} lk_call_syntax;

/* NULL after the last. */
const lk_call_syntax *lk_call_syntax_at(size_t i);
/* LK_E_NOT_FOUND. */
lk_status lk_call_syntax_find(const char *name, const lk_call_syntax **out, lk_error *err);
/* Body of lk_chat_syntax_has_mark; NULL: marks of reasoning alone. */
bool lk_call_syntax_has_mark(const lk_call_syntax *syntax, const char *text, size_t n);

#define LK_MAX_MARKER 64 /* bytes */

struct lk_chat_parser {
    lk_allocator allocator;
    const lk_call_syntax *syntax;                 /* NULL: calls are text */
    const char *reasoning_open, *reasoning_close; /* NULL: reasoning is text */
    lk_chat_delta_fn on_delta;
    void *ctx;
    uint64_t id_state;
    int state;
    lk_status status;     /* of the first failure */
    lk_text_buffer space; /* blanks that are text only when text follows */
    lk_text_buffer raw;   /* what has been read of a call whose name is not known yet */
    lk_text_buffer out;   /* a delta in the making */
    lk_chat_delta_kind out_kind;
    char partial[LK_MAX_MARKER]; /* what may be the beginning of a marker */
    size_t n_partial;
    bool has_text; /* something of this section was given out, or blanks count from here */
    bool at_start; /* nothing but blanks has come */
    bool in_list;  /* ARRAY: after its bracket */
    /* The call. */
    int32_t n_calls;
    bool has_begun, has_arguments, arguments_are_text;
    char name[LK_MAX_CALL_NAME + LK_MAX_MARKER];
    size_t n_name;
    char id[LK_MAX_CALL_NAME + 1];
    size_t n_id;
    lk_text_buffer arguments; /* those that came before the name */
    lk_call_object object;
    lk_json_scan scan;
    lk_json_unescape unescape, unescape_arguments;
};

/* A parser of one syntax (NULL: none). */
void lk_chat_parser_init(lk_chat_parser *p, const lk_call_syntax *syntax,
                         const lk_allocator *allocator);
void lk_chat_parser_deinit(lk_chat_parser *p);

#endif
