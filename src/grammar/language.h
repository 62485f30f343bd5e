/* language.h - regular languages of characters as complete machines: from each state exactly one
 * way on for each class of characters, or none. They come from patterns and from lists of words;
 * two can be intersected or subtracted. Sizes are limited; what is beyond is LK_E_LIMIT. */
#ifndef LK_GRAMMAR_LANGUAGE_H
#define LK_GRAMMAR_LANGUAGE_H

#include "grammar/code_points.h"

#define LK_LANGUAGE_MAX_STATES 16384u
#define LK_LANGUAGE_MAX_ENTRIES ((size_t)1 << 22) /* states times classes */
#define LK_LANGUAGE_NONE UINT32_MAX

typedef struct lk_language {
    uint32_t *cuts; /* [n_classes] the first character of each class, ascending from 0 */
    uint32_t n_classes;
    uint32_t *next;    /* [n_states, n_classes] LK_LANGUAGE_NONE: the text cannot go on so */
    uint8_t *is_end;   /* [n_states] */
    uint32_t n_states; /* the first is the start; 0: the empty language */
    size_t next_capacity, end_capacity, cuts_capacity;
} lk_language;

void lk_language_free(lk_language *l, const lk_allocator *a);

/* All of these set *out to a language that the caller frees, or leave it empty on failure. */

/* Texts of min to max characters (max UINT32_MAX: no end). */
lk_status lk_language_lengths(uint32_t min, uint32_t max, const lk_allocator *a, lk_language *out,
                              lk_error *err);
typedef struct lk_language_word {
    const char *text; /* well-formed UTF-8 */
    size_t n;
} lk_language_word;
lk_status lk_language_words(const lk_language_word *words, size_t n, const lk_allocator *a,
                            lk_language *out, lk_error *err);
/* What is in x and, or and not, in y. */
typedef enum lk_language_operator { LK_LANGUAGE_AND, LK_LANGUAGE_AND_NOT } lk_language_operator;
lk_status lk_language_combine(const lk_language *x, const lk_language *y, lk_language_operator op,
                              const lk_allocator *a, lk_language *out, lk_error *err);
bool lk_language_is_empty(const lk_language *l);
bool lk_language_accepts(const lk_language *l, const char *text, size_t n);

/* For pattern.c: a state with no way on yet. LK_LANGUAGE_NONE when memory is short or there are too
 * many (*err says which). */
uint32_t lk_language_add(lk_language *l, const lk_allocator *a, lk_error *err, lk_status *status);
/* Sorts the characters at which classes begin, and takes them over. */
bool lk_language_cut(lk_language *l, uint32_t *cuts, size_t n, const lk_allocator *a);
uint32_t lk_language_class(const lk_language *l, uint32_t cp);
/* The characters from class *c on that lead from a state to one other; *c moves on behind them.
 * False after the last. */
typedef struct lk_language_run {
    uint32_t low, high;
    uint32_t target;
} lk_language_run;
bool lk_language_next_run(const lk_language *l, uint32_t state, uint32_t *c, lk_language_run *run);
/* Removes the ways into states from which no end is reached. */
lk_status lk_language_trim(lk_language *l, const lk_allocator *a, lk_error *err);

#endif
