/* verify_schedule.h - what a target is asked to compute: streams (a prompt and how many tokens
 * follow) and a list of operations on slots.
 *
 * A slot is a sequence of the target: its number is the sequence id. It follows a stream from the
 * start, after ASSIGN, or from another slot's place, after FORK. Rows are given to a slot by count:
 * a row is the next position of its stream, a token of the prompt or, after those, the token that
 * was chosen from the row before. A slot never gets more rows than tokens are known, and stops when
 * its stream has all its tokens: counts are clipped. So every list of operations is valid, and the
 * shrinker may remove what it likes.
 *
 * Token i of a stream (i = 0 .. n-1) is chosen from the logits of position n_prompt - 1 + i. */
#ifndef LK_VERIFY_SCHEDULE_H
#define LK_VERIFY_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verify_clip.h"

enum { VERIFY_MAX_SLOTS = 16, VERIFY_MAX_STREAMS = 32, VERIFY_MAX_OPS = 1 << 16 };

typedef struct verify_stream {
    const int32_t *prompt; /* [n_prompt] ids; NULL where no model is open (a target of texts) */
    size_t n_prompt;
    const char *text;        /* the prompt as text; NULL where it is random ids */
    const char *code_word;   /* only this stream's text holds it; NULL: none */
    const verify_clip *clip; /* heard in the place of the prompt's tokens clip->first ..; or NULL */
    int32_t n;               /* tokens to generate */
    float temperature;       /* 0: greedy */
    uint64_t seed;
    uint64_t key; /* equal for streams whose outputs must be equal */
    const float
        *vector;     /* [n_vector] takes the place of token i_vector of the prompt; NULL: none */
    size_t n_vector; /* width of the model's embedding */
    size_t i_vector;
} verify_stream;

typedef enum verify_op_kind {
    VERIFY_OP_ASSIGN, /* A slot.stream      clear the slot, follow a stream from its start */
    VERIFY_OP_STEP,   /* S slot.rows,...    one call, rows of each slot in this order */
    VERIFY_OP_MIX,    /* M slot.rows,...    the same, rows of the slots in turn, one by one */
    VERIFY_OP_CANCEL, /* X slot.rows,...    the same, cancelled by another thread: done or not */
    VERIFY_OP_BAD,    /* B slot.rows,...    the same with a wrong position last: must be refused */
    VERIFY_OP_FORK,   /* F src.dst.rows.stream   dst, on `stream`, takes the first rows of src */
    VERIFY_OP_TRUNCATE, /* T slot.rows        keep so many rows */
    VERIFY_OP_CLEAR,    /* C slot */
    VERIFY_OP_RESTART   /* R                  save all slots, begin anew, load them */
} verify_op_kind;

typedef struct verify_feed {
    int32_t slot;
    int32_t n_rows;
} verify_feed;

typedef struct verify_op {
    verify_op_kind kind;
    int32_t a, b, c, d;
    int32_t times; /* STEP: so many calls one after another; else 1 */
    int32_t n_feeds;
    verify_feed feeds[VERIFY_MAX_SLOTS];
} verify_op;

typedef struct verify_schedule {
    int32_t n_streams;
    verify_stream streams[VERIFY_MAX_STREAMS];
    int32_t n_slots; /* 1 + the largest slot */
    size_t n_ops;
    size_t capacity;
    verify_op *ops;
    bool wants_all; /* digests of the prompt's rows too, where the target has bits */
} verify_schedule;

void verify_schedule_init(verify_schedule *s);
void verify_schedule_deinit(verify_schedule *s);
/* The next operation, all zero but kind and times; NULL when there is no memory or room. */
verify_op *verify_schedule_add(verify_schedule *s, verify_op_kind kind);
bool verify_schedule_copy(verify_schedule *to, const verify_schedule *from);
/* "A0.0;S0.24;S0.1*39;A1.1;S0.1,1.17": the operations as text, and back. Streams are not in it.
 * verify_schedule_print returns memory that the caller frees, or NULL. */
char *verify_schedule_print(const verify_schedule *s);
bool verify_schedule_parse(verify_schedule *s, const char *text, char *why, size_t size);

/* For a target that cannot compose steps: when each stream begins, in the order of `arrivals`. */
typedef struct verify_arrival {
    int32_t stream;
    int32_t after;        /* the stream that it waits for; -1: begins at once */
    int32_t after_tokens; /* ... to have produced so many tokens; its n: to be done */
    bool cut_off;         /* cleared before its end: cancel it ... */
    int32_t n_tokens;     /* ... after so many tokens; else the stream's n */
} verify_arrival;
/* Fills arrivals [VERIFY_MAX_STREAMS]; returns how many. A stream comes after the one that it waits
 * for; one that gets no rows is not among them. Forks, truncations and restarts have no
 * meaning there (verify_schedule_needs says whether a schedule has some). */
int32_t verify_schedule_arrivals(const verify_schedule *s,
                                 verify_arrival arrivals[VERIFY_MAX_STREAMS]);
/* The capabilities (verify_target.h) that the operations need. */
uint32_t verify_schedule_needs(const verify_schedule *s);

#endif
