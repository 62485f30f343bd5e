/* chat_parser.h - the parser of answers, and finding the syntax of a template. */
#ifndef LK_TEXT_CHAT_PARSER_H
#define LK_TEXT_CHAT_PARSER_H

#include "lk/chat_parser.h"
#include "text/calls/call_arguments.h"
#include "text/calls/call_json.h"
#include "text/calls/call_syntax.h"
#include "text/text_buffer.h"

/* Of the header of a message. */
#define LK_MAX_HEADER 512 /* bytes */

struct lk_chat_parser {
    lk_allocator allocator;
    const lk_call_syntax *syntax;                 /* NULL: calls are text */
    bool takes_calls;                             /* else the syntax is there for its headers */
    bool takes_reasoning;                         /* messages to the model itself are reasoning */
    lk_json tools;                                /* empty: none are known */
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
    lk_call_arguments values; /* in other notations */
    lk_json_unescape unescape, unescape_arguments;
};

/* A parser of one syntax (NULL: none). */
void lk_chat_parser_init(lk_chat_parser *p, const lk_call_syntax *syntax,
                         const lk_allocator *allocator);
void lk_chat_parser_deinit(lk_chat_parser *p);

#endif
