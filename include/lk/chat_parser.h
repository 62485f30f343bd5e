/* lk/chat_parser.h - what a model answers, taken apart while it comes: text, reasoning, calls of
 * tools.
 *
 * Models write calls each in a syntax of their own (<tool_call>{...}</tool_call>,
 * [TOOL_CALLS][...],
 * ...). Which one a chat template uses is found by rendering a conversation with a call and reading
 * it back. The text that is pushed must hold the control tokens of the syntax (lk_tokenizer's
 * LK_DETOKENIZE_SPECIAL), but not the token that ends the answer. It may be cut anywhere: the
 * deltas, joined, are the same.
 *
 * Thread rule: one thread at a time in a parser.
 */
#ifndef LK_CHAT_PARSER_H
#define LK_CHAT_PARSER_H

#include "lk/base.h"
#include "lk/chat.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lk_chat_parser lk_chat_parser;

typedef enum lk_chat_delta_kind {
    LK_DELTA_TEXT = 1,
    LK_DELTA_REASONING = 2,
    LK_DELTA_CALL_BEGIN = 3,     /* name and id are known */
    LK_DELTA_CALL_ARGUMENTS = 4, /* more of the arguments' JSON text */
    LK_DELTA_CALL_END = 5
} lk_chat_delta_kind;

/* Pointers are valid during the call of lk_chat_delta_fn; texts are not zero-terminated. */
typedef struct lk_chat_delta {
    lk_chat_delta_kind kind;
    int32_t call;     /* CALL_*: counts up from 0 */
    const char *text; /* TEXT, REASONING, CALL_ARGUMENTS: what is new; CALL_BEGIN: the name */
    size_t n_text;
    const char *id; /* CALL_BEGIN: zero-terminated; the model's own, or nine letters and digits */
    int32_t is_complete; /* CALL_END: 0 when the answer ended inside the arguments */
    int32_t reserved;
} lk_chat_delta;

typedef void (*lk_chat_delta_fn)(void *ctx, const lk_chat_delta *delta);

enum {
    LK_PARSE_TOOL_CALLS = 1, /* else calls are text */
    LK_PARSE_REASONING = 2   /* else <think>...</think> is text */
};
#define LK_MAX_CALL_NAME 256                /* bytes of a name or id */
#define LK_MAX_CALL_BYTES ((size_t)1 << 20) /* of one call, while its name is not known */
#define LK_MAX_CALLS 1024                   /* in one answer */

typedef struct lk_chat_parser_params {
    size_t struct_size;
    const lk_allocator *allocator; /* NULL: the C library's; must outlive the parser */
    const char *syntax;           /* a name of lk_chat_syntax_name; NULL: the one of the template */
    const lk_chat_prompt *prompt; /* where it ends inside reasoning, so does the answer begin; NULL:
                                     it does not */
    uint64_t id_seed;             /* for the ids of calls */
    lk_chat_delta_fn on_delta;
    void *ctx;
    uint32_t flags;
    uint32_t reserved; /* 0 */
    const char *tools; /* JSON: the tools of the prompt; NULL: not known. Where a syntax writes
                          texts and other values alike, their schemas say which is meant. */
    size_t n_tools;    /* bytes */
} lk_chat_parser_params;
#define LK_CHAT_PARSER_PARAMS_INIT                                                                 \
    ((lk_chat_parser_params){.struct_size = sizeof(lk_chat_parser_params),                         \
                             .flags = LK_PARSE_TOOL_CALLS | LK_PARSE_REASONING})

/* On success *out is owned by the caller (lk_chat_parser_destroy). LK_E_UNSUPPORTED: the template
 * has no call syntax, or none that is known; LK_E_NOT_FOUND: no syntax of that name; LK_E_FORMAT:
 * the tools are no JSON; LK_E_ARG, LK_E_LIMIT, LK_E_NOMEM. Template and tools are not needed
 * afterwards. */
LK_API lk_status lk_chat_parser_create(const lk_chat_template *chat_template,
                                       const lk_chat_parser_params *params, lk_chat_parser **out,
                                       lk_error *err);
LK_API void lk_chat_parser_destroy(lk_chat_parser *parser); /* accepts NULL */

/* More of the answer; deltas come before this returns. LK_E_NOMEM, LK_E_LIMIT: the parser is of no
 * more use. */
LK_API lk_status lk_chat_parser_push(lk_chat_parser *parser, const char *text, size_t n_bytes,
                                     lk_error *err);
/* The end of the answer: what was held back comes. */
LK_API lk_status lk_chat_parser_finish(lk_chat_parser *parser, lk_error *err);

/* The syntax in use ("hermes", "mistral", ...; "" for none), and the i-th of all that are known,
 * NULL after the last. Without LK_PARSE_TOOL_CALLS only one whose answers have marks all the same
 * (messages with headers) is in use. */
LK_API const char *lk_chat_parser_syntax(const lk_chat_parser *parser);
LK_API const char *lk_chat_syntax_name(size_t i);
/* The marks around reasoning; NULL for both: reasoning is text. Static strings. */
LK_API void lk_chat_parser_reasoning(const lk_chat_parser *parser, const char **open,
                                     const char **close);
/* Where the answer stands. A new parser: where it begins. */
typedef enum lk_chat_place {
    LK_CHAT_IN_TEXT = 0,
    LK_CHAT_IN_REASONING = 1,
    LK_CHAT_IN_CALLS = 2, /* behind an opening mark */
    LK_CHAT_IN_HEADER = 3 /* before the header of a message */
} lk_chat_place;
LK_API lk_chat_place lk_chat_parser_place(const lk_chat_parser *parser);
/* Whether the text of a control token is a mark, or part of one, of a syntax ("" or NULL: none) or
 * of reasoning. Such tokens must be in what a parser is given; others say nothing to it. */
LK_API int lk_chat_syntax_has_mark(const char *syntax, const char *text, size_t n_bytes);

#ifdef __cplusplus
}
#endif
#endif
