/* verify_shape.c - the schedule of a point: the watched sequence, its neighbours, and what happens
 * to them. */
#include <string.h>

#include "verify.h"

enum { MAX_NEIGHBOURS = VERIFY_MAX_SLOTS - 2, BEFORE_TOKENS = 4 };

typedef struct shape {
    const verify_point *p;
    verify_schedule *s;
    int32_t slots[1 + MAX_NEIGHBOURS]; /* of the watched sequence and its neighbours */
    int64_t left[1 + MAX_NEIGHBOURS];  /* rows of each one that are still to be computed */
    int64_t prompt_left[1 + MAX_NEIGHBOURS];
    int32_t n; /* of them */
    bool failed;
} shape;

static verify_op *add(shape *h, verify_op_kind kind, int32_t a, int32_t b) {
    verify_op *op = verify_schedule_add(h->s, kind);
    if (op == NULL) {
        h->failed = true;
        return NULL;
    }
    op->a = a;
    op->b = b;
    return op;
}

/* Lets equal calls be one operation with a count. */
static void join_equal(verify_schedule *s) {
    if (s->n_ops < 2) {
        return;
    }
    verify_op *last = &s->ops[s->n_ops - 1];
    verify_op *before = last - 1;
    if (last->kind == VERIFY_OP_STEP && before->kind == VERIFY_OP_STEP &&
        last->n_feeds == before->n_feeds &&
        memcmp(last->feeds, before->feeds, sizeof last->feeds) == 0) {
        before->times += last->times;
        s->n_ops--;
    }
}

/* One call with rows of the sequences from .. to-1: a piece of the prompt, or one row. */
static bool step(shape *h, int32_t from, int32_t to) {
    const int64_t cut = h->p->value[VERIFY_CUT];
    verify_op *op = add(h, VERIFY_OP_STEP, 0, 0);
    for (int32_t i = from; op != NULL && i < to; i++) {
        int64_t n = h->left[i] > 0 ? 1 : 0;
        if (h->prompt_left[i] > 0) {
            n = cut > 0 && cut < h->prompt_left[i] ? cut : h->prompt_left[i];
            h->prompt_left[i] -= n;
        }
        if (n > 0) {
            op->feeds[op->n_feeds++] = (verify_feed){h->slots[i], (int32_t)n};
            h->left[i] -= n;
        }
    }
    if (op == NULL || op->n_feeds == 0) {
        h->s->n_ops -= op != NULL;
        return false;
    }
    join_equal(h->s);
    return true;
}

/* i_prompt: of texts. is_watched: the watched sequence, or one with the same prompt. */
static int32_t add_stream(shape *h, const verify *v, int64_t i_prompt, bool is_watched, int64_t n) {
    const int32_t i = h->s->n_streams++;
    const int64_t clip = h->p->value[VERIFY_CLIP];
    verify_stream *stream = &h->s->streams[i];
    if (clip == 0 || (clip == 1 && !is_watched)) {
        verify_prompt(v, i_prompt, stream);
    } else {
        verify_prompt_of_clip(v, !is_watched, stream);
    }
    stream->n = (int32_t)n;
    if (h->p->value[VERIFY_SAMPLED] != 0) {
        stream->temperature = 0.9f;
        stream->seed = 1000 + (uint64_t)i_prompt;
    }
    return i;
}

/* A target of requests has no tokens to count: one row stands for the prompt. */
static int64_t prompt_rows(const verify_stream *stream) {
    return stream->n_prompt > 0 ? (int64_t)stream->n_prompt : 1;
}

static void begin_sequence(shape *h, int32_t i, int32_t i_stream) {
    const verify_stream *stream = &h->s->streams[i_stream];
    (void)add(h, VERIFY_OP_ASSIGN, h->slots[i], i_stream);
    h->prompt_left[i] = prompt_rows(stream);
    h->left[i] = h->prompt_left[i] + stream->n - 1;
}

/* What the watched slot held before: all of a short generation. */
static void hold_before(shape *h, const verify *v) {
    const int64_t which = h->p->value[VERIFY_BEFORE];
    const int64_t i_prompt = h->p->value[VERIFY_PROMPT] + (which == 1 ? 7 : 0);
    if (which == 0) {
        return;
    }
    begin_sequence(h, 0, add_stream(h, v, i_prompt, which == 2, BEFORE_TOKENS));
    while (step(h, 0, 1)) {
    }
}

/* The watched sequence takes its start from one that is ahead, in a slot beside. */
static void fork_watched(shape *h, const verify *v, int32_t i_watched) {
    const int32_t slot = h->slots[0];
    const int32_t beside = h->s->n_slots++;
    const int64_t n = h->p->value[VERIFY_N];
    const int64_t taken = n / 4;
    const int32_t i = add_stream(h, v, h->p->value[VERIFY_PROMPT], true, n / 2 + 1);
    h->slots[0] = beside;
    begin_sequence(h, 0, i);
    while (step(h, 0, 1)) {
    }
    h->slots[0] = slot;
    const int64_t rows = prompt_rows(&h->s->streams[i_watched]);
    verify_op *op = add(h, VERIFY_OP_FORK, beside, slot);
    if (op != NULL) {
        op->c = (int32_t)(rows + taken);
        op->d = i_watched;
    }
    (void)add(h, VERIFY_OP_CLEAR, beside, 0);
    h->prompt_left[0] = 0;
    h->left[0] = n - 1 - taken;
}

/* What happens when half of the watched tokens are there. */
static void midway(shape *h, int64_t length) {
    const int64_t back = h->p->value[VERIFY_BACK];
    if (back > 0) {
        const int64_t n = back < length ? back : length - 1;
        (void)add(h, VERIFY_OP_TRUNCATE, h->slots[0], (int32_t)(length - n));
        verify_op *op = add(h, VERIFY_OP_STEP, 0, 0);
        if (op != NULL) {
            op->feeds[op->n_feeds++] = (verify_feed){h->slots[0], (int32_t)n};
        }
    }
    if (h->p->value[VERIFY_RESTART] != 0) {
        (void)add(h, VERIFY_OP_RESTART, 0, 0);
    }
    for (int32_t i = 1; h->p->value[VERIFY_CANCEL] != 0 && i < h->n; i++) {
        (void)add(h, VERIFY_OP_CLEAR, h->slots[i], 0);
        h->left[i] = 0;
        h->prompt_left[i] = 0;
    }
}

static void begin_neighbours(shape *h, const verify *v) {
    const int64_t n = h->p->value[VERIFY_N];
    for (int32_t i = 1; i < h->n; i++) {
        const bool is_equal = h->p->value[VERIFY_EQUAL] != 0;
        const int64_t i_prompt = h->p->value[VERIFY_PROMPT] + (is_equal ? 0 : i);
        begin_sequence(h, i, add_stream(h, v, i_prompt, is_equal, n));
    }
}

static void follow(shape *h, const verify *v, int64_t prompt) {
    const int64_t join = h->p->value[VERIFY_JOIN];
    const int64_t n = h->p->value[VERIFY_N];
    const int64_t length = prompt + n - 1; /* of the watched sequence at its end */
    bool joined = join == 0;
    bool was_midway = false;
    if (joined) {
        begin_neighbours(h, v);
    }
    while (!h->failed && step(h, 0, joined ? h->n : 1)) {
        const int64_t n_decoded = length - h->left[0] - prompt; /* decode rows so far */
        if (!joined && (n_decoded + 1 >= join || h->left[0] == 0)) {
            begin_neighbours(h, v);
            joined = true;
        }
        if (!was_midway && n_decoded >= n / 2) {
            was_midway = true;
            midway(h, length - h->left[0]);
        }
    }
}

bool verify_shape(const verify *v, const verify_point *p, verify_schedule *s) {
    shape h = {.p = p, .s = s};
    verify_schedule_init(s);
    const int64_t n = p->value[VERIFY_NEIGHBOURS];
    h.n = 1 + (int32_t)(n < 0 ? 0 : n > MAX_NEIGHBOURS ? MAX_NEIGHBOURS : n);
    h.slots[0] = (int32_t)p->value[VERIFY_SLOT];
    for (int32_t i = 1; i < h.n; i++) {
        h.slots[i] = i <= h.slots[0] ? i - 1 : i;
    }
    s->n_slots = h.n > h.slots[0] + 1 ? h.n : h.slots[0] + 1;
    const int32_t i_watched = add_stream(&h, v, p->value[VERIFY_PROMPT], true, p->value[VERIFY_N]);
    hold_before(&h, v);
    if (p->value[VERIFY_FORK] != 0) {
        fork_watched(&h, v, i_watched);
    } else {
        begin_sequence(&h, 0, i_watched);
    }
    follow(&h, v, prompt_rows(&s->streams[i_watched]));
    return !h.failed;
}
