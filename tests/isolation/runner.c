/* runner.c - see runner.h. Keeps its own picture of every slot (stream and length) and checks the
 * context's answer to each operation against it. */
#include "runner.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lk_test.h"

enum { MAX_STEP_ROWS = MAX_SLOTS * 512 + 1 };

typedef struct slot {
    int32_t stream; /* -1: idle */
    int32_t length;
} slot;

typedef struct run {
    lk_context *context;
    const reference_set *set;
    const schedule *s;
    coverage *seen;
    failure *failed;
    slot slots[MAX_SLOTS];
    int32_t i_op;
    lk_row *rows;      /* [MAX_STEP_ROWS] */
    int32_t *row_slot; /* [MAX_STEP_ROWS] */
    size_t n_rows;
    int cancel_is_late; /* a cancel may still be waiting for the next decode */
} run;

static int fail(run *r, const char *what, lk_status status, const lk_error *err) {
    if (r->failed->i_op < 0) {
        r->failed->i_op = r->i_op;
        (void)snprintf(r->failed->text, sizeof r->failed->text, "operation %d: %s: %s %.300s",
                       r->i_op, what, lk_status_name(status),
                       status != LK_OK && err != NULL ? err->message : "");
    }
    return 0;
}

static void add_row(run *r, const int32_t planned[MAX_SLOTS], int32_t i_slot, int last) {
    const slot *sl = &r->slots[i_slot];
    const int32_t pos = sl->length + planned[i_slot];
    lk_row *row = &r->rows[r->n_rows];
    row->token = stream_token(sl->stream, pos, r->set->n_vocab);
    row->seq = r->s->slot_to_seq[i_slot];
    row->pos = pos;
    row->flags = last || (r->s->logits_mask >> (pos % 32) & 1u) ? (uint32_t)LK_ROW_LOGITS : 0u;
    /* Beside logits, without them, and neither. */
    row->flags |= r->s->logits_mask >> ((pos + 11) % 32) & 1u ? (uint32_t)LK_ROW_HIDDEN : 0u;
    row->reserved = 0;
    r->row_slot[r->n_rows++] = i_slot;
}

/* Lays out the rows of a step; planned[slot] becomes the rows that each slot advances by. */
static void lay_out_rows(run *r, const op *o, int32_t planned[MAX_SLOTS]) {
    int32_t want[MAX_SLOTS] = {0};
    int32_t order[MAX_SLOTS];
    int32_t n_order = 0;
    r->n_rows = 0;
    memset(planned, 0, MAX_SLOTS * sizeof planned[0]);
    for (int32_t k = 0; k < o->n_feeds; k++) {
        const int32_t i = o->feeds[k].slot;
        const slot *sl = &r->slots[i];
        if (sl->stream < 0 || want[i] != 0) {
            continue;
        }
        const int32_t left = stream_rows(sl->stream) - sl->length;
        want[i] = o->feeds[k].n < left ? o->feeds[k].n : left;
        if (want[i] > 0) {
            order[n_order++] = i;
        }
    }
    if (o->kind == OP_MIX) {
        for (int more = 1; more;) {
            more = 0;
            for (int32_t k = 0; k < n_order; k++) {
                const int32_t i = order[k];
                if (planned[i] < want[i]) {
                    add_row(r, planned, i, planned[i] + 1 == want[i]);
                    planned[i]++;
                    more = 1;
                }
            }
        }
    } else {
        for (int32_t k = 0; k < n_order; k++) {
            const int32_t i = order[k];
            for (; planned[i] < want[i]; planned[i]++) {
                add_row(r, planned, i, planned[i] + 1 == want[i]);
            }
        }
    }
}

/* Nonzero when what row i got is what the sequence gets alone. */
static int compare_values(run *r, size_t i, int is_hidden) {
    lk_error err;
    const float *values = NULL;
    const char *name = is_hidden ? "hidden state" : "logits";
    const lk_status status = is_hidden ? lk_context_hidden(r->context, i, &values, &err)
                                       : lk_context_logits(r->context, i, &values, &err);
    if (status != LK_OK) {
        return fail(r, name, status, &err);
    }
    uint8_t digest[16];
    lk_logits_digest(values, (size_t)(is_hidden ? r->set->n_embd : r->set->n_vocab), digest);
    const int32_t stream = r->slots[r->row_slot[i]].stream;
    const row_digests *expected =
        &r->set->digests[r->s->k_type][r->s->v_type][stream][r->rows[i].pos];
    if (memcmp(digest, is_hidden ? expected->hidden : expected->logits, 16) == 0) {
        return 1;
    }
    if (r->failed->i_op < 0) {
        r->failed->i_op = r->i_op;
        (void)snprintf(r->failed->text, sizeof r->failed->text,
                       "operation %d: slot %d, stream %d, position %d, row %zu of %zu: the %s "
                       "differ from those of the sequence alone",
                       r->i_op, r->row_slot[i], stream, (int)r->rows[i].pos, i, r->n_rows, name);
    }
    return 0;
}

static int compare_rows(run *r) {
    for (size_t i = 0; i < r->n_rows; i++) {
        const uint32_t flags = r->rows[i].flags;
        if (((flags & LK_ROW_LOGITS) != 0 && !compare_values(r, i, 0)) ||
            ((flags & LK_ROW_HIDDEN) != 0 && !compare_values(r, i, 1))) {
            return 0;
        }
        r->seen->rows_compared += (flags & LK_ROW_LOGITS) != 0;
        r->seen->hidden_compared += (flags & LK_ROW_HIDDEN) != 0;
    }
    return 1;
}

static int check_length(run *r, int32_t i_slot) {
    lk_error err;
    int64_t length = -1;
    const lk_status status =
        lk_sequence_length(r->context, r->s->slot_to_seq[i_slot], &length, &err);
    if (status != LK_OK || length != r->slots[i_slot].length) {
        return fail(r, "the sequence has another length than expected", status, &err);
    }
    return 1;
}

typedef struct canceller {
    lk_context *context;
    long delay_ns;
} canceller;

static void *cancel_soon(void *arg) {
    const canceller *c = arg;
    const struct timespec delay = {0, c->delay_ns};
    (void)nanosleep(&delay, NULL);
    lk_context_cancel(c->context);
    return NULL;
}

/* A decode that another thread cancels: before it begins, between two micro-batches, or too late.
 * Which of them is up to the clock; the result must be right in each case. */
static lk_status decode_and_cancel(run *r, lk_error *err) {
    canceller c = {r->context, (long)r->i_op % 5 * 200000};
    pthread_t thread;
    if (c.delay_ns == 0 || pthread_create(&thread, NULL, cancel_soon, &c) != 0) {
        lk_context_cancel(r->context);
        r->cancel_is_late = 0;
        return lk_context_decode(r->context, r->rows, r->n_rows, NULL, err);
    }
    const lk_status status = lk_context_decode(r->context, r->rows, r->n_rows, NULL, err);
    (void)pthread_join(thread, NULL);
    /* Not seen by this decode, or a late one was seen in its place. */
    r->cancel_is_late = status != LK_E_CANCELLED || r->cancel_is_late;
    return status;
}

static int do_step(run *r, const op *o) {
    lk_error err;
    int32_t planned[MAX_SLOTS];
    lay_out_rows(r, o, planned);
    if (r->n_rows == 0) {
        return 1;
    }
    if (o->kind == OP_BAD) {
        r->rows[r->n_rows] = r->rows[r->n_rows - 1];
        r->rows[r->n_rows].pos += 3;
        const lk_status status = lk_context_decode(r->context, r->rows, r->n_rows + 1, NULL, &err);
        r->seen->bad_steps++;
        return status == LK_E_ARG ? 1 : fail(r, "a row at a wrong position", status, &err);
    }
    lk_status status = o->kind == OP_CANCEL
                           ? decode_and_cancel(r, &err)
                           : lk_context_decode(r->context, r->rows, r->n_rows, NULL, &err);
    if (status == LK_E_CANCELLED && o->kind != OP_CANCEL && r->cancel_is_late) {
        r->cancel_is_late = 0; /* it came after its own decode and met this one */
        status = lk_context_decode(r->context, r->rows, r->n_rows, NULL, &err);
    }
    if (status == LK_E_CANCELLED && o->kind == OP_CANCEL) {
        r->seen->cancelled++;
        return 1;
    }
    if (status == LK_E_FULL) { /* allowed when pages are short; nothing may have changed */
        r->seen->full++;
        return 1;
    }
    if (status != LK_OK) {
        return fail(r, "decode", status, &err);
    }
    r->seen->rows_computed += r->n_rows;
    if (!compare_rows(r)) {
        return 0;
    }
    for (int32_t i = 0; i < MAX_SLOTS; i++) {
        r->slots[i].length += planned[i];
    }
    return 1;
}

static int do_save(run *r, const op *o) {
    lk_error err;
    char path[64];
    if (o->a == o->b || r->slots[o->a].stream < 0) {
        return 1;
    }
    (void)snprintf(path, sizeof path, "state-%d.tmp", (int)getpid());
    lk_status status = lk_sequence_save(r->context, r->s->slot_to_seq[o->a], path, &err);
    if (status == LK_OK) {
        status = lk_sequence_load(r->context, r->s->slot_to_seq[o->b], path, &err);
    }
    (void)unlink(path);
    if (status == LK_E_FULL) {
        r->seen->full++;
        return 1;
    }
    if (status != LK_OK) {
        return fail(r, "save and load", status, &err);
    }
    r->slots[o->b] = r->slots[o->a];
    r->seen->saves++;
    return 1;
}

/* Whether a slot can go back to n positions; 0 and less than what it has are always fine. */
static int is_reachable(run *r, int32_t i_slot, int32_t n) {
    int64_t shortest = -1;
    (void)lk_sequence_shortest(r->context, r->s->slot_to_seq[i_slot], &shortest, NULL);
    return n == 0 || n >= shortest;
}

/* *done: the slot has gone back; 0 where a window has left behind what it would need. */
static int do_truncate(run *r, int32_t i_slot, int32_t n, int *done) {
    lk_error err;
    slot *sl = &r->slots[i_slot];
    *done = 1;
    if (sl->stream < 0) {
        return 1;
    }
    n = n < sl->length ? n : sl->length;
    if (!is_reachable(r, i_slot, n)) {
        const lk_status refused =
            lk_sequence_truncate(r->context, r->s->slot_to_seq[i_slot], n, &err);
        *done = 0;
        r->seen->unreachable++;
        return refused == LK_E_LIMIT ? 1 : fail(r, "truncate too far", refused, &err);
    }
    sl->length = n;
    r->seen->truncations++;
    const lk_status status =
        lk_sequence_truncate(r->context, r->s->slot_to_seq[i_slot], sl->length, &err);
    return status == LK_OK ? 1 : fail(r, "truncate", status, &err);
}

static int do_fork(run *r, const op *o) {
    lk_error err;
    if (o->a == o->b || r->slots[o->a].stream < 0) {
        return 1;
    }
    const int32_t n = o->c < r->slots[o->a].length ? o->c : r->slots[o->a].length;
    const lk_status status =
        lk_sequence_fork(r->context, r->s->slot_to_seq[o->a], r->s->slot_to_seq[o->b], n, &err);
    if (!is_reachable(r, o->a, n)) {
        r->seen->unreachable++;
        return status == LK_E_LIMIT ? 1 : fail(r, "fork too far back", status, &err);
    }
    if (status != LK_OK) {
        return fail(r, "fork", status, &err);
    }
    r->slots[o->b].stream = r->slots[o->a].stream;
    r->slots[o->b].length = n;
    r->seen->forks++;
    return 1;
}

static int do_clear(run *r, int32_t i_slot, int32_t stream) {
    lk_error err;
    r->slots[i_slot].stream = stream;
    r->slots[i_slot].length = 0;
    const lk_status status = lk_sequence_clear(r->context, r->s->slot_to_seq[i_slot], &err);
    return status == LK_OK ? 1 : fail(r, "clear", status, &err);
}

static int do_op(run *r, const op *o) {
    int done = 1;
    switch (o->kind) {
    case OP_STEP:
    case OP_MIX:
    case OP_BAD:
    case OP_CANCEL:
        return do_step(r, o);
    case OP_ASSIGN:
        return do_clear(r, o->a, o->b);
    case OP_CLEAR:
        return do_clear(r, o->a, -1);
    case OP_FORK:
        return do_fork(r, o);
    case OP_TRUNC:
        return do_truncate(r, o->a, o->b, &done);
    case OP_SAVE:
        return do_save(r, o);
    case OP_SWITCH: {
        const int32_t from = r->slots[o->a].stream;
        const int32_t shared = from >= 0 ? stream_shared(from, o->b) : 0;
        if (!do_truncate(r, o->a, shared, &done)) {
            return 0;
        }
        if (!done && !do_truncate(r, o->a, 0, &done)) { /* then from the start */
            return 0;
        }
        if (from >= 0) {
            r->slots[o->a].stream = o->b;
        }
        return 1;
    }
    }
    return 0;
}

static void add_coverage(run *r) {
    lk_context_stats stats = {.struct_size = sizeof stats};
    if (lk_context_get_stats(r->context, &stats, NULL) != LK_OK) {
        return;
    }
    const int isa = (stats.isa & LK_CPU_AVX512) != 0    ? 2
                    : (stats.isa & LK_CPU_AVXVNNI) != 0 ? 3
                    : (stats.isa & LK_CPU_AVX2) != 0    ? 1
                                                        : 0;
    for (int i = 0; i < 6; i++) {
        r->seen->mixed_calls[isa][i] += stats.mixed_calls[i];
    }
    r->seen->pages_copied += stats.pages_copied;
    r->seen->window_pages += stats.window_pages_total;
}

int schedule_run(lk_model *model, const reference_set *set, const schedule *s, coverage *seen,
                 failure *failed) {
    lk_error err;
    run r = {.set = set, .s = s, .seen = seen, .failed = failed};
    failed->i_op = -1;
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_threads = s->n_threads;
    params.isa_mask = s->isa_mask;
    params.kv_positions = 64 * 40;
    params.n_sequences = MAX_SLOTS;
    params.max_rows = s->max_rows;
    params.max_logits = MAX_STEP_ROWS;
    params.max_hidden = MAX_STEP_ROWS;
    params.k_type = (lk_kv_type)s->k_type;
    params.v_type = (lk_kv_type)s->v_type;
    params.flags = LK_CONTEXT_POISON;
    params.page_seed = s->page_seed;
    const lk_status status = lk_context_create(model, &params, &r.context, &err);
    if (status != LK_OK) {
        r.i_op = 0;
        return fail(&r, "create", status, &err);
    }
    r.rows = calloc(MAX_STEP_ROWS + 1, sizeof *r.rows);
    r.row_slot = calloc(MAX_STEP_ROWS + 1, sizeof *r.row_slot);
    for (int i = 0; i < MAX_SLOTS; i++) {
        r.slots[i].stream = -1;
    }
    int ok = r.rows != NULL && r.row_slot != NULL;
    for (r.i_op = 0; ok && r.i_op < s->n_ops; r.i_op++) {
        ok = do_op(&r, &s->ops[r.i_op]);
        for (int32_t i = 0; ok && i < MAX_SLOTS; i++) {
            ok = check_length(&r, i);
        }
    }
    add_coverage(&r);
    free(r.rows);
    free(r.row_slot);
    lk_context_destroy(r.context);
    return ok;
}

static int still_fails(lk_model *model, const reference_set *set, const schedule *s) {
    coverage seen = {0};
    failure failed;
    return !schedule_run(model, set, s, &seen, &failed);
}

/* Keeps a change of one setting when the schedule still fails. */
#define TRY(field, value)                                                                          \
    do {                                                                                           \
        schedule t = *s;                                                                           \
        t.field = (value);                                                                         \
        if (still_fails(model, set, &t)) {                                                         \
            *s = t;                                                                                \
        }                                                                                          \
    } while (0)

void schedule_shrink(lk_model *model, const reference_set *set, schedule *s) {
    for (int changed = 1; changed;) {
        changed = 0;
        for (int32_t size = s->n_ops / 2; size >= 1; size /= 2) {
            for (int32_t from = 0; from + size <= s->n_ops;) {
                schedule t = *s;
                memmove(&t.ops[from], &t.ops[from + size],
                        (size_t)(t.n_ops - from - size) * sizeof t.ops[0]);
                t.n_ops -= size;
                if (still_fails(model, set, &t)) {
                    *s = t;
                    changed = 1;
                } else {
                    from += size;
                }
            }
        }
        for (int32_t i = 0; i < s->n_ops; i++) {
            for (int32_t k = 0; k < s->ops[i].n_feeds; k++) {
                const int32_t n = s->ops[i].feeds[k].n;
                TRY(ops[i].feeds[k].n, 1);
                TRY(ops[i].feeds[k].n, s->ops[i].feeds[k].n / 2 + 1);
                changed |= s->ops[i].feeds[k].n < n;
            }
        }
    }
    TRY(n_threads, 1);
    TRY(page_seed, 0);
    TRY(isa_mask, 0);
    TRY(max_rows, 512);
    TRY(logits_mask, ~0u);
}
