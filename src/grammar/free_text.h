/* free_text.h - any text, up to a mark. */
#ifndef LK_GRAMMAR_FREE_TEXT_H
#define LK_GRAMMAR_FREE_TEXT_H

#include "grammar/grammar_builder.h"

enum { LK_FREE_MAX_MARKS = 6, LK_FREE_MAX_MARK = 64 /* bytes of one */ };

typedef struct lk_free_mark {
    const char *text; /* not empty */
    uint32_t next;    /* where a text goes on behind it */
} lk_free_mark;

/* Bytes of any kind; the first mark that they end with leads to its `next`. With `may_end` the text
 * may end at any place before. At most LK_FREE_MAX_MARKS. */
uint32_t lk_free_text(lk_grammar_builder *b, const lk_free_mark *marks, size_t n_marks,
                      bool may_end);

#endif
