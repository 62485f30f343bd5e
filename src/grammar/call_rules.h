/* call_rules.h - which calls of tools an answer may hold: the text of lk_grammar_create_tool_calls,
 * read and checked. */
#ifndef LK_GRAMMAR_CALL_RULES_H
#define LK_GRAMMAR_CALL_RULES_H

#include "base/json.h"
#include "text/chat/chat_parser.h"

typedef struct lk_tool {
    const char *name; /* in the table, likewise below */
    size_t n_name;
    uint32_t parameters; /* value of the table; 0: none are declared */
    uint32_t index;      /* in `tools` */
    bool is_strict;
    uint32_t rule; /* of its arguments, call_grammar.c */
} lk_tool;

typedef struct lk_call_rules {
    lk_json json;
    const lk_call_syntax *syntax;
    const char *reasoning_open, *reasoning_close; /* NULL: the answer has no reasoning */
    lk_chat_place place;                          /* where the answer begins */
    uint32_t content; /* value of the table: the schema of an answer without calls; 0: any text */
    bool is_forced;   /* it must be calls, else it may hold some */
    bool is_parallel;
    lk_tool *tools; /* those that may be called */
    size_t n_tools, tools_capacity;
} lk_call_rules;

/* On success lk_call_rules_deinit gives the memory back; on failure nothing is held. */
lk_status lk_call_rules_read(const char *text, size_t n_bytes, const lk_allocator *allocator,
                             lk_call_rules *rules, lk_error *err);
void lk_call_rules_deinit(lk_call_rules *rules);

#endif
