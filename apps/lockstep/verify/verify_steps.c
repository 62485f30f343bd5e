/* verify_steps.c - see verify_steps.h. It keeps its own picture of every slot (stream and length),
 * and of every stream the tokens that are known so far. */
#include "verify_steps.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lk/context.h"
#include "shared/console.h"

typedef struct slot {
    int32_t stream; /* -1: idle */
    int64_t length; /* rows that it has */
    int64_t known;  /* tokens that it knows: the prompt's and those chosen */
} slot;

typedef struct steps {
    const verify_engine_ops *ops;
    void *engine;
    void *context;
    const verify_target *target;
    const verify_schedule *s;
    const verify_point *p;
    verify_result *result;
    char *why;
    slot slots[VERIFY_MAX_SLOTS];
    verify_heard heard[VERIFY_MAX_STREAMS]; /* recordings, when a slot first follows the stream */
    verify_step_row *rows;                  /* [max_rows + 1] */
    size_t n_rows;
    size_t max_rows;
    verify_status status; /* other than VERIFY_RAN: the run means nothing */
    bool cancel_is_late;  /* a cancel may still be waiting for the next call */
} steps;

/* The target did what it should not: a finding of this run. */
static void note(steps *r, const char *what, const char *why) {
    if (r->result->failure[0] == '\0') {
        (void)snprintf(r->result->failure, sizeof r->result->failure, "call %d: %s%s%.300s",
                       r->result->n_steps, what, why[0] != '\0' ? ": " : "", why);
    }
}

static int64_t end_of(const verify_stream *stream) {
    return (int64_t)stream->n_prompt + (stream->n > 0 ? stream->n - 1 : 0);
}

static int32_t token_at(const steps *r, const slot *sl, int64_t pos) {
    const verify_stream *stream = &r->s->streams[sl->stream];
    const size_t i = (size_t)pos;
    return i < stream->n_prompt ? stream->prompt[i]
                                : r->result->outputs[sl->stream].ids[i - stream->n_prompt];
}

/* What stands in the place of the token, *n floats; NULL: nothing does. */
static const float *vector_at(const steps *r, const slot *sl, int64_t pos, size_t *n) {
    const verify_stream *stream = &r->s->streams[sl->stream];
    const verify_clip *clip = stream->clip;
    const verify_heard *heard = &r->heard[sl->stream];
    const size_t i = clip != NULL ? (size_t)pos - clip->first : 0;
    const bool is_heard = clip != NULL && (size_t)pos >= clip->first && i < heard->n;
    const bool is_given = stream->vector != NULL && (size_t)pos == stream->i_vector;
    *n = is_heard ? heard->width : is_given ? stream->n_vector : 0;
    return is_heard ? heard->vectors + i * heard->width : is_given ? stream->vector : NULL;
}

static void add_row(steps *r, const int64_t planned[VERIFY_MAX_SLOTS], int32_t i_slot) {
    const slot *sl = &r->slots[i_slot];
    const verify_stream *stream = &r->s->streams[sl->stream];
    const int64_t pos = sl->length + planned[i_slot];
    const bool chooses = pos + 1 >= (int64_t)stream->n_prompt && stream->n > 0;
    verify_step_row *row = &r->rows[r->n_rows++];
    *row =
        (verify_step_row){token_at(r, sl, pos), i_slot, pos, chooses || r->s->wants_all, NULL, 0};
    row->vector = vector_at(r, sl, pos, &row->n_vector);
}

/* Lays out the rows of a call; planned[slot]: how many each slot gets. */
static void lay_out(steps *r, const verify_op *op, int64_t planned[VERIFY_MAX_SLOTS]) {
    int64_t want[VERIFY_MAX_SLOTS] = {0};
    r->n_rows = 0;
    memset(planned, 0, VERIFY_MAX_SLOTS * sizeof planned[0]);
    for (int32_t k = 0; k < op->n_feeds; k++) {
        const slot *sl = &r->slots[op->feeds[k].slot];
        if (sl->stream >= 0 && want[op->feeds[k].slot] == 0) {
            const int64_t end = end_of(&r->s->streams[sl->stream]);
            const int64_t left = (sl->known < end ? sl->known : end) - sl->length;
            const int64_t n = op->feeds[k].n_rows;
            want[op->feeds[k].slot] = n < left ? n : left;
        }
    }
    const int64_t turn = op->kind == VERIFY_OP_MIX ? 1 : INT64_MAX;
    for (bool more = true; more;) {
        more = false;
        for (int32_t k = 0; k < op->n_feeds; k++) {
            const int32_t i = op->feeds[k].slot;
            for (int64_t n = 0; n < turn && planned[i] < want[i]; n++) {
                add_row(r, planned, i);
                planned[i]++;
                more = true;
            }
        }
    }
}

static int32_t choose_largest(const float *logits, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++) {
        if (logits[i] > logits[best]) {
            best = i;
        }
    }
    return best;
}

static float logprob_of(const float *logits, int32_t n, int32_t token) {
    const float largest = logits[choose_largest(logits, n)];
    double sum = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += exp((double)(logits[i] - largest));
    }
    return (float)((double)(logits[token] - largest) - log(sum));
}

static bool is_finite(const float *logits, int32_t n) {
    bool finite = true;
    for (int32_t i = 0; i < n; i++) {
        finite = finite && isfinite(logits[i]);
    }
    return finite;
}

static void note_conflict(verify_output *o, int64_t pos) {
    if (o->conflict < 0 || pos < o->conflict) {
        o->conflict = pos;
    }
}

static void record_row(const steps *r, verify_output *o, size_t i_row, const float *logits) {
    const verify_step_row *row = &r->rows[i_row];
    verify_row *record = &o->rows[row->pos];
    uint8_t digest[16];
    lk_logits_digest(logits, (size_t)r->target->n_vocab, digest);
    if (record->has_digest && memcmp(digest, record->digest, sizeof digest) != 0) {
        note_conflict(o, row->pos);
    } else if (!record->has_digest) {
        memcpy(record->digest, digest, sizeof digest);
        record->has_digest = true;
        record->i_step = r->result->n_steps - 1;
        record->i_row = (int32_t)i_row;
    }
}

/* The token that follows row i_row. */
static bool choose(steps *r, verify_output *o, size_t i_row, const float *logits) {
    const verify_step_row *row = &r->rows[i_row];
    slot *sl = &r->slots[row->slot];
    const verify_stream *stream = &r->s->streams[sl->stream];
    const int64_t i = row->pos + 1 - (int64_t)stream->n_prompt;
    int32_t token = choose_largest(logits, r->target->n_vocab);
    if (i < 0 || i >= stream->n) {
        return true;
    }
    if (stream->temperature > 0 &&
        !r->ops->sample(r->engine, r->context, stream, logits, row->pos, &token, r->why)) {
        return false;
    }
    if (i < o->n_tokens && o->ids[i] != token) {
        note_conflict(o, row->pos);
    } else if (i >= o->n_tokens) {
        o->ids[i] = token;
        o->n_tokens = (int32_t)i + 1;
        if ((r->target->can & VERIFY_CAN_LOGPROBS) != 0) {
            o->logprobs[i] = logprob_of(logits, r->target->n_vocab, token);
        }
    }
    sl->known = row->pos + 2 > sl->known ? row->pos + 2 : sl->known;
    return true;
}

/* Takes the logits of a call's rows, but those of bad slots. */
static bool take_logits(steps *r, uint32_t bad_slots) {
    for (size_t i = 0; i < r->n_rows; i++) {
        const verify_step_row *row = &r->rows[i];
        verify_output *o = &r->result->outputs[r->slots[row->slot].stream];
        if (!row->wants_logits || (bad_slots >> row->slot & 1u) != 0) {
            continue;
        }
        const float *logits = r->ops->logits(r->engine, r->context, i, r->why);
        if (logits == NULL) {
            note(r, "no logits of a row that was computed", r->why);
            return false;
        }
        if (!is_finite(logits, r->target->n_vocab) &&
            (o->nonfinite < 0 || row->pos < o->nonfinite)) {
            o->nonfinite = row->pos;
        }
        if (o->rows != NULL) {
            record_row(r, o, i, logits);
        }
        if (!choose(r, o, i, logits)) {
            note(r, "a token could not be drawn", r->why);
            return false;
        }
    }
    return true;
}

typedef struct canceller {
    const steps *r;
    long delay_ns;
} canceller;

static void *cancel_soon(void *arg) {
    const canceller *c = arg;
    const struct timespec delay = {0, c->delay_ns};
    (void)nanosleep(&delay, NULL);
    c->r->ops->cancel(c->r->engine, c->r->context);
    return NULL;
}

/* Before the call begins, inside it, or too late: which of them is up to the clock, the result has
 * to be right in each case. */
static verify_step_status decode_and_cancel(steps *r, verify_step_report *report) {
    canceller c = {r, (long)(r->result->n_steps % 5) * 200000};
    pthread_t thread;
    r->cancel_is_late = true;
    if (c.delay_ns == 0 || pthread_create(&thread, NULL, cancel_soon, &c) != 0) {
        r->ops->cancel(r->engine, r->context);
        return r->ops->decode(r->engine, r->context, r->rows, r->n_rows, report);
    }
    const verify_step_status status =
        r->ops->decode(r->engine, r->context, r->rows, r->n_rows, report);
    (void)pthread_join(thread, NULL);
    return status;
}

/* One call; a cancelled one is made again, so that what follows is the same in every run. */
static verify_step_status call(steps *r, bool cancel, verify_step_report *report) {
    verify_step_status status = VERIFY_STEP_CANCELLED;
    memset(report, 0, sizeof *report);
    r->result->n_steps++;
    if (cancel) {
        status = decode_and_cancel(r, report);
    } else {
        status = r->ops->decode(r->engine, r->context, r->rows, r->n_rows, report);
    }
    for (int again = 0; status == VERIFY_STEP_CANCELLED && again < 2 && r->cancel_is_late;
         again++) {
        status = r->ops->decode(r->engine, r->context, r->rows, r->n_rows, report);
    }
    return status;
}

static void refuse_slots(steps *r, const verify_step_report *report) {
    for (int32_t i = 0; i < VERIFY_MAX_SLOTS; i++) {
        if ((report->bad_slots >> i & 1u) != 0 && r->slots[i].stream >= 0) {
            verify_output *o = &r->result->outputs[r->slots[i].stream];
            o->refused_layer = report->layer;
            (void)snprintf(o->refused, sizeof o->refused, "%s",
                           report->op[0] != '\0' ? report->op : "not finite");
            r->slots[i].stream = -1;
        }
    }
}

static bool do_bad(steps *r) {
    verify_step_report report;
    r->rows[r->n_rows] = r->rows[r->n_rows - 1];
    r->rows[r->n_rows++].pos += 3;
    if (call(r, false, &report) != VERIFY_STEP_REFUSED) {
        note(r, "a row at a wrong position was not refused", report.why);
        return false;
    }
    return true;
}

static bool do_step(steps *r, const verify_op *op) {
    int64_t planned[VERIFY_MAX_SLOTS];
    verify_step_report report;
    lay_out(r, op, planned);
    if (r->n_rows == 0) {
        return true;
    }
    if (op->kind == VERIFY_OP_BAD) {
        return do_bad(r);
    }
    const verify_step_status status = call(r, op->kind == VERIFY_OP_CANCEL, &report);
    if (status != VERIFY_STEP_DONE && status != VERIFY_STEP_NONFINITE) {
        note(r, status == VERIFY_STEP_FULL ? "no room" : "the call failed", report.why);
        return false;
    }
    const uint32_t bad_slots = status == VERIFY_STEP_NONFINITE ? report.bad_slots : 0;
    const bool ok = take_logits(r, bad_slots);
    for (int32_t i = 0; i < VERIFY_MAX_SLOTS; i++) {
        r->slots[i].length += planned[i];
    }
    refuse_slots(r, &report);
    return ok;
}

/* The recording of a stream, when a slot begins to follow it. */
static bool hear(steps *r, int32_t stream) {
    const verify_clip *clip = stream >= 0 ? r->s->streams[stream].clip : NULL;
    if (clip == NULL || r->heard[stream].n > 0) {
        return true;
    }
    const verify_status status = verify_hear(r->ops, r->engine, r->p, clip, &r->heard[stream],
                                             &r->result->outputs[stream], r->why);
    if (status == VERIFY_FAILED) {
        note(r, "the recording could not be encoded", r->why);
    } else {
        r->status = status;
    }
    return status == VERIFY_RAN;
}

static bool do_clear(steps *r, int32_t i, int32_t stream) {
    slot *sl = &r->slots[i];
    if (!hear(r, stream)) {
        return false;
    }
    if (sl->stream >= 0 && sl->length < end_of(&r->s->streams[sl->stream])) {
        r->result->outputs[sl->stream].is_cut_off = true;
    }
    *sl = (slot){stream, 0, stream >= 0 ? (int64_t)r->s->streams[stream].n_prompt : 0};
    if (!r->ops->clear(r->engine, r->context, i, r->why)) {
        note(r, "a sequence could not be cleared", r->why);
        return false;
    }
    return true;
}

static int64_t shortest(steps *r, int32_t i) {
    return r->ops->shortest != NULL ? r->ops->shortest(r->engine, r->context, i) : 0;
}

static bool do_truncate(steps *r, const verify_op *op) {
    slot *sl = &r->slots[op->a];
    const int64_t length = op->b < sl->length ? op->b : sl->length;
    if (sl->stream < 0 || (length > 0 && length < shortest(r, op->a))) {
        return true; /* behind a window: nobody can go there */
    }
    sl->length = length;
    if (!r->ops->truncate(r->engine, r->context, op->a, length, r->why)) {
        note(r, "a sequence could not go back", r->why);
        return false;
    }
    return true;
}

/* Rows that dst's stream has in common with what src holds. */
static int64_t shared_rows(const steps *r, const slot *src, int32_t stream, int64_t length) {
    const verify_stream *to = &r->s->streams[stream];
    const verify_clip *heard = r->s->streams[src->stream].clip;
    int64_t n = 0;
    if (heard != to->clip) { /* other vectors stand at equal tokens */
        const verify_clip *first = heard != NULL ? heard : to->clip;
        length = (int64_t)first->first < length ? (int64_t)first->first : length;
    }
    while (n < length && n < src->length && n < end_of(to) &&
           (n < (int64_t)to->n_prompt ? token_at(r, src, n) == to->prompt[n]
                                      : r->s->streams[src->stream].n_prompt == to->n_prompt)) {
        n++;
    }
    return n;
}

static bool do_fork(steps *r, const verify_op *op) {
    const slot src = r->slots[op->a];
    if (op->a == op->b || src.stream < 0 || op->d >= r->s->n_streams) {
        return true;
    }
    const int64_t length = shared_rows(r, &src, op->d, op->c);
    if (!do_clear(r, op->b, op->d) || length == 0 || length < shortest(r, op->a)) {
        return r->result->failure[0] == '\0'; /* from the start, then */
    }
    if (!r->ops->fork(r->engine, r->context, op->a, op->b, length, r->why)) {
        note(r, "a sequence could not be forked", r->why);
        return false;
    }
    /* The tokens that the rows taken stand for, and the one that the last of them chose. */
    const verify_stream *stream = &r->s->streams[op->d];
    const verify_output *from = &r->result->outputs[src.stream];
    verify_output *to = &r->result->outputs[op->d];
    const bool same = r->s->streams[src.stream].n_prompt == stream->n_prompt;
    const int64_t n = same ? length + 1 - (int64_t)stream->n_prompt : 0;
    for (int64_t i = 0; i < n && i < from->n_tokens && i < stream->n; i++) {
        if (i >= to->n_tokens) {
            to->ids[i] = from->ids[i];
            to->logprobs[i] = from->logprobs[i];
            to->n_tokens = (int32_t)i + 1;
        }
    }
    slot *dst = &r->slots[op->b];
    dst->length = length;
    dst->known = n > 0 ? length + 1 : (int64_t)stream->n_prompt;
    if (dst->length == (int64_t)stream->n_prompt && n <= 0) {
        dst->length--; /* its own last row of the prompt has to be computed to choose a token */
        return r->ops->truncate(r->engine, r->context, op->b, dst->length, r->why);
    }
    return true;
}

static verify_status begin(steps *r) {
    int64_t longest = 0;
    for (int32_t i = 0; i < r->s->n_streams; i++) {
        const int64_t n = end_of(&r->s->streams[i]) + 1;
        longest = n > longest ? n : longest;
    }
    return r->ops->begin(r->engine, r->p, r->s->n_slots, (longest + 64) * r->s->n_slots,
                         (int32_t)r->max_rows + 1, &r->context, r->why);
}

static bool do_restart(steps *r) {
    char paths[VERIFY_MAX_SLOTS][320];
    const char *folder = getenv("TMPDIR");
    bool ok = true;
    for (int32_t i = 0; i < r->s->n_slots && ok; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%.200s/lockstep-verify-%ld-%d.state",
                       folder != NULL ? folder : "/tmp", (long)getpid(), i);
        ok = r->slots[i].stream < 0 || r->slots[i].length == 0 ||
             r->ops->save(r->engine, r->context, i, paths[i], r->why);
    }
    if (ok) {
        r->ops->end(r->engine, r->context);
        r->context = NULL;
        ok = begin(r) == VERIFY_RAN;
    }
    for (int32_t i = 0; i < r->s->n_slots && ok; i++) {
        ok = r->slots[i].stream < 0 || r->slots[i].length == 0 ||
             r->ops->load(r->engine, r->context, i, paths[i], r->why);
    }
    for (int32_t i = 0; i < r->s->n_slots; i++) {
        (void)unlink(paths[i]);
    }
    if (!ok) {
        note(r, "sequences could not be saved and restored", r->why);
    }
    return ok;
}

static bool do_op(steps *r, const verify_op *op) {
    bool ok = true;
    switch (op->kind) {
    case VERIFY_OP_ASSIGN:
        return op->b >= r->s->n_streams || do_clear(r, op->a, op->b);
    case VERIFY_OP_STEP:
    case VERIFY_OP_MIX:
    case VERIFY_OP_CANCEL:
    case VERIFY_OP_BAD:
        r->n_rows = 1;
        for (int32_t i = 0; i < op->times && ok && r->n_rows > 0; i++) {
            ok = do_step(r, op); /* no rows are left: none will be */
        }
        return ok;
    case VERIFY_OP_FORK:
        return do_fork(r, op);
    case VERIFY_OP_TRUNCATE:
        return do_truncate(r, op);
    case VERIFY_OP_CLEAR:
        return do_clear(r, op->a, -1);
    case VERIFY_OP_RESTART:
        return do_restart(r);
    }
    return false;
}

/* The most rows that one call can have. */
static size_t most_rows(const verify_schedule *s) {
    int64_t longest = 1;
    for (int32_t i = 0; i < s->n_streams; i++) {
        const int64_t n = end_of(&s->streams[i]);
        longest = n > longest ? n : longest;
    }
    int64_t most = 1;
    for (size_t i = 0; i < s->n_ops; i++) {
        int64_t n = 0;
        for (int32_t k = 0; k < s->ops[i].n_feeds; k++) {
            const int64_t rows = s->ops[i].feeds[k].n_rows;
            n += rows < longest ? rows : longest;
        }
        most = n > most ? n : most;
    }
    return (size_t)most;
}

verify_status verify_steps_run(const verify_engine_ops *ops, void *engine,
                               const verify_target *target, const verify_schedule *s,
                               const verify_point *p, verify_result *result, char why[VERIFY_WHY]) {
    steps r = {.ops = ops,
               .engine = engine,
               .target = target,
               .s = s,
               .p = p,
               .result = result,
               .why = why,
               .max_rows = most_rows(s),
               .status = VERIFY_RAN};
    for (int32_t i = 0; i < VERIFY_MAX_SLOTS; i++) {
        r.slots[i].stream = -1;
    }
    why[0] = '\0';
    r.rows = calloc(r.max_rows + 1, sizeof r.rows[0]);
    if (r.rows == NULL) {
        (void)snprintf(why, VERIFY_WHY, "out of memory for %zu rows", r.max_rows);
        return VERIFY_BROKEN;
    }
    const double start = lk_console_seconds();
    verify_status status = begin(&r);
    for (size_t i = 0; status == VERIFY_RAN && i < s->n_ops; i++) {
        if (!do_op(&r, &s->ops[i])) {
            break; /* it is in result->failure: a finding */
        }
    }
    status = status == VERIFY_RAN ? r.status : status;
    /* Where the schedule has no more rows for a stream, that is its end. */
    for (int32_t i = 0; i < s->n_streams; i++) {
        result->outputs[i].is_cut_off =
            result->outputs[i].is_cut_off ||
            (result->failure[0] == '\0' && result->outputs[i].refused[0] == '\0' &&
             result->outputs[i].n_tokens < s->streams[i].n);
    }
    result->seconds = lk_console_seconds() - start;
    if (r.context != NULL) {
        ops->end(engine, r.context);
    }
    for (int32_t i = 0; i < s->n_streams; i++) {
        verify_heard_deinit(&r.heard[i]);
    }
    free(r.rows);
    return status;
}
