/* pre_splitter.h - the list of pre-splitters. A pre-splitter is one function: the end of the word
 * that begins at `pos` (pos < n, at a character boundary; the result is one too, above pos). The
 * text is well-formed UTF-8. Its words are those that the model's own regular expression gives,
 * unmatched stretches being words as well. Invariant: cutting a whole text takes O(n), whatever it
 * holds.
 */
#ifndef LK_TEXT_PRE_SPLITTER_H
#define LK_TEXT_PRE_SPLITTER_H

#include <stddef.h>
#include <stdint.h>

#include "lk/base.h"

enum { LK_PRE_NFC = 1, LK_PRE_WHOLE_WORDS = 2, LK_PRE_ADDS_BOS = 4 };

typedef struct lk_pre_splitter {
    const char *name;  /* the proper one */
    const char *names; /* with spaces between them */
    size_t (*word_end)(const uint8_t *text, size_t n, size_t pos);
    uint32_t flags;
} lk_pre_splitter;

#define LK_PRE_SPLITTER(name, gguf_name, names, flags)                                             \
    size_t lk_pre_##name(const uint8_t *text, size_t n, size_t pos);
#include "text/splitters/pre_splitters.def"
#undef LK_PRE_SPLITTER

/* The splitter that a file's name means (NULL: the file names none). LK_E_UNSUPPORTED names an
 * unknown one. */
lk_status lk_pre_splitter_find(const char *name, const lk_pre_splitter **out, lk_error *err);
/* All of them, for tests. */
const lk_pre_splitter *lk_pre_splitter_list(size_t *n);

#endif
