/* call_syntax.h - the syntaxes in which models write calls of tools: the tables of
 * call_syntaxes.def and call_notations.def. */
#ifndef LK_TEXT_CALL_SYNTAX_H
#define LK_TEXT_CALL_SYNTAX_H

#include <stdbool.h>

#include "lk/base.h"

typedef enum lk_call_form {
    LK_CALL_FORM_OBJECT,
    LK_CALL_FORM_ARRAY,
    LK_CALL_FORM_NAMED,
    LK_CALL_FORM_START,
    LK_CALL_FORM_MESSAGES
} lk_call_form;

typedef enum lk_notation_kind {
    LK_NOTATION_JSON,
    LK_NOTATION_TAGS,
    LK_NOTATION_PYTHON,
    LK_NOTATION_BARE
} lk_notation_kind;
typedef enum lk_notation_types {
    LK_NOTATION_NONE,
    LK_NOTATION_TRUTH,
    LK_NOTATION_NAMES
} lk_notation_types;
typedef enum lk_notation_style {
    LK_NOTATION_PLAIN,
    LK_NOTATION_LINE,
    LK_NOTATION_CDATA
} lk_notation_style;
#define LK_CDATA_OPEN "<![CDATA["
#define LK_CDATA_CLOSE "]]>"

typedef struct lk_call_notation {
    lk_notation_kind kind;
    const char *open, *name_end, *value_open, *value_close;
    lk_notation_types types;
    lk_notation_style style;
} lk_call_notation;

typedef struct lk_call_syntax {
    const char *name;
    lk_call_form form;
    const char *open, *call_open, *name_end, *call_close, *close;
    const char *between; /* NULL: one call behind `open` */
    const lk_call_notation *arguments;
    const char *dropped;
} lk_call_syntax;

#define LK_MAX_MARKER 64 /* bytes */

/* Of MESSAGES. */
#define LK_MESSAGE_START "<|start|>"
#define LK_MESSAGE_CHANNEL "<|channel|>"
#define LK_MESSAGE_BODY "<|message|>"

/* NULL after the last. */
const lk_call_syntax *lk_call_syntax_at(size_t i);
/* LK_E_NOT_FOUND. */
lk_status lk_call_syntax_find(const char *name, const lk_call_syntax **out, lk_error *err);
/* Whether answers hold marks that are no text also where no tools are: headers, or what `dropped`
 * lists. */
bool lk_call_syntax_frames(const lk_call_syntax *syntax);
/* The mark of `dropped` at *at, whose length goes to *n; *at moves on. NULL after the last. */
const char *lk_call_syntax_dropped(const char **at, size_t *n);
/* Body of lk_chat_syntax_has_mark; NULL: marks of reasoning alone. */
bool lk_call_syntax_has_mark(const lk_call_syntax *syntax, const char *text, size_t n);

/* Marks of reasoning; `hint` shows in the templates that write them. NULL after the last. */
typedef struct lk_reasoning_marks {
    const char *open, *close, *hint;
} lk_reasoning_marks;
const lk_reasoning_marks *lk_reasoning_marks_at(size_t i);

#endif
