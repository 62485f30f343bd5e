/* jinja_lexer.h - a template as tokens: text between the tags, and what stands in them. White space
 * is as transformers sets it: trim_blocks and lstrip_blocks are on, a final newline is dropped. */
#ifndef LK_TEXT_JINJA_LEXER_H
#define LK_TEXT_JINJA_LEXER_H

#include "text/jinja/jinja_value.h"

typedef enum lk_jtoken_kind {
    LK_JT_TEXT, /* outside tags */
    LK_JT_BLOCK_BEGIN,
    LK_JT_BLOCK_END,
    LK_JT_PRINT_BEGIN,
    LK_JT_PRINT_END,
    LK_JT_NAME,
    LK_JT_STRING,
    LK_JT_INTEGER,
    LK_JT_FLOAT,
    LK_JT_OPERATOR, /* its characters are the token's bytes */
    LK_JT_END
} lk_jtoken_kind;

typedef struct lk_jtoken {
    lk_jtoken_kind kind;
    uint32_t line;
    const uint8_t *bytes; /* of the source; for a STRING the inside of the quotes */
    size_t n;
} lk_jtoken;

typedef struct lk_jlexer {
    lk_jheap *heap;
    const uint8_t *source; /* line ends made "\n" */
    size_t n;
    size_t pos;
    uint32_t line;
    int state;       /* text, block, print */
    uint32_t n_open; /* brackets open in the tag */
    char open[LK_J_MAX_NESTING];
    bool at_line_start;  /* the last tag ended a line */
    bool begins_tag;     /* "{{" or "{%" is next */
    const char *problem; /* why a token could not be read */
    bool in_raw;
} lk_jlexer;

/* The source must be well-formed UTF-8. False: memory is short. */
bool lk_jlexer_init(lk_jlexer *lexer, lk_jheap *heap, const char *source, size_t n);
/* False: `problem` and `line` say why. After the end it gives END. */
bool lk_jlexer_next(lk_jlexer *lexer, lk_jtoken *token);
/* The text of a STRING token without its escapes, or NULL: out of memory, or `problem`. */
const lk_jstring *lk_jlexer_string(lk_jlexer *lexer, const lk_jtoken *token);

#endif
