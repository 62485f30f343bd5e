/* schedule.h - a schedule of the isolation suite: the settings of a context and a list of
 * operations on its slots, drawn from a seed, printed as text and read back, so that a failure can
 * be shrunk and replayed.
 *
 * A slot follows a stream: a fixed list of token ids. Streams of one family share a prefix, so that
 * a slot may fall back into the prefix and go on along another member. Any list of operations is
 * valid: counts are clipped where they do not fit, so that the shrinker may remove what it likes.
 */
#ifndef LK_SCHEDULE_H
#define LK_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

enum {
    N_STREAMS = 14, /* 12 short ones in 4 families of 3, 2 long ones */
    N_SHORT = 12,
    SHORT_ROWS = 96,
    LONG_ROWS = 600,
    MAX_SLOTS = 6,
    MAX_OPS = 160,
    MAX_FEEDS = MAX_SLOTS
};

typedef enum op_kind {
    OP_ASSIGN, /* A slot stream: clear the slot, follow a stream from its start */
    OP_STEP,   /* S slot.n,...: one decode call, n rows of each slot named, in this order */
    OP_MIX,    /* M: the same, rows of the slots interleaved one by one */
    OP_BAD, /* B: the same with a row at a wrong position at the end: must fail and change nothing
             */
    OP_CANCEL, /* X: the same, cancelled by another thread: done or not at all */
    OP_FORK,   /* F src dst n: dst takes the first n positions of src */
    OP_TRUNC,  /* T slot n: keep n positions */
    OP_SWITCH, /* W slot stream: fall back to the shared prefix and follow another member of the
                  family */
    OP_CLEAR,  /* C slot */
    OP_SAVE    /* V src dst: save src to a file, load it into dst */
} op_kind;

typedef struct op {
    op_kind kind;
    int32_t a, b, c;
    int32_t n_feeds;
    struct {
        int32_t slot;
        int32_t n;
    } feeds[MAX_FEEDS];
} op;

typedef struct schedule {
    int32_t k_type, v_type; /* lk_kv_type */
    uint32_t n_threads;
    uint32_t isa_mask;
    int32_t max_rows;
    uint32_t page_seed;
    int32_t slot_to_seq[MAX_SLOTS]; /* a permutation */
    uint32_t
        logits_mask; /* a row wants logits when bit (pos mod 32) is set, or it is its feed's last */
    int32_t n_ops;
    op ops[MAX_OPS];
} schedule;

/* Length of the prefix that two streams share. */
int32_t stream_shared(int32_t a, int32_t b);
int32_t stream_rows(int32_t stream);
/* Token at a position of a stream, in [0, n_vocab). */
int32_t stream_token(int32_t stream, int32_t pos, int32_t n_vocab);

/* Schedule number i of a seed. `wide`: long cuts of up to 512 rows are among it. */
void schedule_draw(schedule *s, uint64_t seed, uint32_t i, int wide, int scalar);
/* Text form; `capacity` of 16 KiB suffices. */
void schedule_print(const schedule *s, char *out, size_t capacity);
/* Returns 0 when the text cannot be read. */
int schedule_parse(schedule *s, const char *text);

#endif
