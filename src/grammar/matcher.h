/* matcher.h - reads a text byte by byte under a grammar, and computes masks.
 *
 * All ways to read the text so far are followed at once: a way is a state that wants a byte, and a
 * stack of frames. The set of all ways is a place. Places, frames and masks are kept and found
 * again, so that a place that has been left before costs one look at a table; what is kept is
 * thrown away when it has grown beyond LK_MATCHER_CACHE_BYTES. Invariant: results depend on the
 * grammar, the tree of tokens and the bytes read since the beginning alone, never on what is kept.
 * One thread at a time. */
#ifndef LK_GRAMMAR_MATCHER_H
#define LK_GRAMMAR_MATCHER_H

#include "grammar/grammar_program.h"
#include "grammar/token_trie.h"

#define LK_MATCHER_CACHE_BYTES ((size_t)24 << 20)

/* What a RETURN goes back to. Frame 0 is the empty stack. */
typedef struct lk_frame {
    uint32_t state;
    uint32_t count; /* of a REPEAT: rounds begun */
    uint32_t below;
    uint32_t depth; /* frames in the stack with this one on top */
    uint32_t plain; /* the same stack with plain counts (lk_matcher_plain); 0: not looked for */
} lk_frame;

typedef struct lk_way {
    uint32_t state; /* EDGES */
    uint32_t stack;
} lk_way;

typedef struct lk_place {
    uint32_t first_way;
    uint32_t n_ways;
    uint32_t mask;  /* index of the masks kept; LK_NO_MASK */
    uint32_t plain; /* see lk_matcher_plain; LK_NO_PLACE: not looked for */
    bool is_end;    /* the text is a sentence */
} lk_place;
#define LK_NO_MASK UINT32_MAX
#define LK_NO_PLACE UINT32_MAX
#define LK_DEAD_PLACE 0u /* no way, no end */

/* The step from a place by a class of bytes. Its cost is a matter of the place and the class. */
typedef struct lk_move {
    uint32_t to;   /* LK_NO_PLACE: not computed */
    uint16_t cost; /* at least 1, at most LK_GRAMMAR_MAX_STEP_WORK */
    uint16_t mark; /* the last tour that counted it */
} lk_move;

/* What is still to be looked at before the next byte. */
typedef struct lk_item {
    uint32_t state, count, stack;
} lk_item;

typedef struct lk_slot {
    uint32_t stamp; /* free unless it is that of the table */
    uint32_t index;
} lk_slot;

typedef struct lk_slots {
    lk_slot *slots;
    size_t n_slots; /* a power of two */
    uint32_t stamp;
} lk_slots;

typedef struct lk_matcher {
    const lk_allocator *allocator;
    const lk_grammar *grammar;
    const lk_token_trie *trie; /* NULL: no masks */
    lk_frame *frames;
    size_t n_frames, frames_capacity;
    lk_slots frame_slots;
    lk_place *places;
    size_t n_places, places_capacity;
    lk_slots place_slots;
    lk_way *ways;
    size_t n_ways, ways_capacity;
    lk_move *moves; /* [n_places * n_classes] */
    size_t moves_capacity;
    lk_item *items; /* of the place in work; all that have been met */
    size_t n_items, items_capacity;
    lk_slots item_slots;
    size_t effort;   /* of the place in work, in EFFORTs */
    uint32_t *masks; /* [n_masks, n_words] */
    size_t n_masks, masks_capacity;
    uint32_t *mask; /* [n_words] the last one asked for */
    size_t n_words;
    uint16_t n_tours; /* the mark of the last one */
    uint32_t start;   /* the place of the empty text */
    uint32_t at;      /* the place of the text */
    bool is_finished; /* an end token has been accepted */
} lk_matcher;

/* `matcher` is the caller's storage. On failure it holds nothing. */
lk_status lk_matcher_init(lk_matcher *matcher, const lk_grammar *grammar, const lk_token_trie *trie,
                          const lk_allocator *allocator, lk_error *err);
void lk_matcher_deinit(lk_matcher *matcher);
/* Back to the beginning. */
void lk_matcher_rewind(lk_matcher *matcher);

/* Moves on by bytes or by a token. LK_E_ARG when the text cannot go on so; nothing has changed
 * then, nor after any other failure. */
lk_status lk_matcher_bytes(lk_matcher *matcher, const uint8_t *bytes, size_t n, lk_error *err);
lk_status lk_matcher_token(lk_matcher *matcher, uint32_t token, lk_error *err);
lk_grammar_progress lk_matcher_progress(const lk_matcher *matcher);

/* The mask of the place: bit t % 32 of words[t / 32], n_words of them. They are the matcher's,
 * until its next call. */
lk_status lk_matcher_mask(lk_matcher *matcher, const uint32_t **words, lk_error *err);

/* For the parts of the matcher. */

/* Moves of a mask or a token, counted together: each once, whether it was known before or not. */
typedef struct lk_tour {
    uint32_t work;
    uint32_t limit; /* of the work */
} lk_tour;
lk_tour lk_matcher_begin_tour(lk_matcher *matcher, uint32_t limit);
lk_status lk_matcher_count(lk_matcher *matcher, lk_tour *tour, lk_move *move, lk_error *err);

/* The place after a byte of this class; counted when `tour` is not NULL. */
lk_status lk_matcher_step(lk_matcher *matcher, uint32_t place, uint32_t class, lk_tour *tour,
                          uint32_t *next, lk_error *err);
/* A place from which the same tokens of usual length lead on, in which counts that none of them can
 * bring to an end are all alike. */
lk_status lk_matcher_plain(lk_matcher *matcher, uint32_t place, uint32_t *plain, lk_error *err);

/* Counts that stay as they are, since their limits are further away than tokens are long. */
#define LK_COUNT_FREE (UINT32_MAX - 1)  /* the repetition may end or go on */
#define LK_COUNT_BELOW (UINT32_MAX - 2) /* it must go on */

#endif
