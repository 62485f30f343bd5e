/* decode.c - one call of decode as a transaction: check all rows, reserve all pages, compute in
 * micro-batches, then commit or undo sequence by sequence.
 *
 * Window pages are the exception: they are taken for each micro-batch, so that a prompt of any
 * length needs few of them. Those that a sequence began with are kept until its rows are committed.
 *
 * Nothing is allocated. Until the end the lengths of the sequences stay as they were, so undoing
 * means giving back the pages that were added and putting back a shared page that was copied. What
 * was written behind the old length of a page that is kept is never read: every write starts there.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "engine/context.h"

static lk_seq_step *step_of(lk_context *c, int32_t seq) {
    return &c->seq_steps[seq];
}

/* ---- 1. checking ---- */

static lk_status check_row(lk_context *c, const lk_row *row, size_t i_row, lk_error *err) {
    const lk_where where = LK_AT_ROW(row->seq, row->pos);
    const uint32_t n_vocab = c->graph->n_vocab;
    if (row->seq < 0 || row->seq >= c->params.n_sequences) {
        return lk_fail(err, LK_E_ARG, where, "row %zu: sequence %d, expected 0 .. %d", i_row,
                       row->seq, c->params.n_sequences - 1);
    }
    if (row->token < 0 || (uint32_t)row->token >= n_vocab) {
        return lk_fail(err, LK_E_ARG, where, "row %zu (sequence %d): token %d, expected 0 .. %u",
                       i_row, row->seq, row->token, n_vocab - 1);
    }
    if ((row->flags & ~(uint32_t)(LK_ROW_LOGITS | LK_ROW_HIDDEN)) != 0 || row->reserved != 0) {
        return lk_fail(err, LK_E_ARG, where,
                       "row %zu (sequence %d): flags 0x%x and reserved 0x%x have unknown bits",
                       i_row, row->seq, row->flags, row->reserved);
    }
    const lk_seq_step *s = step_of(c, row->seq);
    const int64_t expected = s->is_touched ? s->new_length : c->seqs[row->seq].length;
    if (row->pos != expected) {
        return lk_fail(err, LK_E_ARG, where,
                       "row %zu: sequence %d continues at position %lld, not %lld", i_row, row->seq,
                       (long long)expected, (long long)row->pos);
    }
    if (expected >= LK_MAX_POSITIONS) {
        return lk_fail(err, LK_E_LIMIT, where, "row %zu: sequence %d is full at %lld positions",
                       i_row, row->seq, (long long)LK_MAX_POSITIONS);
    }
    return LK_OK;
}

/* The vector of a row of the call; NULL: its token's. */
static const float *embedding_of(const lk_context *c, size_t i_row) {
    return c->embeddings != NULL ? c->embeddings[i_row] : NULL;
}

static void touch(lk_context *c, int32_t seq) {
    const lk_seq *sequence = &c->seqs[seq];
    *step_of(c, seq) = (lk_seq_step){
        .old_length = sequence->length,
        .new_length = sequence->length,
        .done_length = sequence->length,
        .old_n_pages = sequence->n_pages,
        .window_begin = sequence->n_pages,
        .window_end = sequence->n_pages,
        .is_touched = true,
    };
    c->touched[c->n_touched++] = seq;
}

/* A row's flag for each kind of output, and the parameter that limits them. */
static const struct {
    uint32_t flag;
    const char *limit;
    const char *what;
} out_kinds[LK_N_OUT_KINDS] = {
    [LK_OUT_LOGITS] = {LK_ROW_LOGITS, "max_logits", "logits"},
    [LK_OUT_HIDDEN] = {LK_ROW_HIDDEN, "max_hidden", "hidden states"},
};

static lk_status check_rows(lk_context *c, const lk_row *rows, size_t n_rows, lk_error *err) {
    size_t n_outs[LK_N_OUT_KINDS] = {0};
    for (size_t i = 0; i < n_rows; i++) {
        const lk_status status = check_row(c, &rows[i], i, err);
        if (status != LK_OK) {
            return status;
        }
        if (!step_of(c, rows[i].seq)->is_touched) {
            touch(c, rows[i].seq);
        }
        step_of(c, rows[i].seq)->new_length++;
        for (int kind = 0; kind < LK_N_OUT_KINDS; kind++) {
            n_outs[kind] += (rows[i].flags & out_kinds[kind].flag) != 0;
        }
    }
    for (int kind = 0; kind < LK_N_OUT_KINDS; kind++) {
        if (n_outs[kind] > c->outs[kind].capacity) {
            return lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT(out_kinds[kind].limit),
                           "%zu rows want %s, this context was created for %u", n_outs[kind],
                           out_kinds[kind].what, c->outs[kind].capacity);
        }
    }
    return LK_OK;
}

/* ---- 2. pages ---- */

static lk_kv_pages *pool_of(lk_context *c, lk_page_kind kind) {
    return kind == LK_PAGES_FULL ? &c->kv.pages : &c->kv.window_pages;
}

static uint32_t *table_of(const lk_context *c, int32_t seq, lk_page_kind kind) {
    return kind == LK_PAGES_FULL ? c->seqs[seq].pages : c->seqs[seq].window_pages;
}

/* The page of the kind at the end of the old ones. */
static uint32_t *last_page(lk_context *c, int32_t seq, lk_page_kind kind) {
    return &table_of(c, seq, kind)[step_of(c, seq)->old_n_pages - 1];
}

static lk_status fail_full(lk_context *c, int32_t seq, int64_t pos, lk_page_kind kind,
                           lk_error *err) {
    return lk_fail(err, LK_E_FULL, LK_AT_ROW(seq, pos),
                   "no KV page for sequence %d at position %lld: all %u pages of %d positions are "
                   "in use",
                   seq, (long long)pos, pool_of(c, kind)->n_pages, LK_CHUNK);
}

/* `seq` is the last holder of a page that others have left for copies in this call. If one of them
 * is longer, writing here would destroy what it needs when it is undone: then the longest takes the
 * page back and leaves its copy, still the same, to `seq`. */
static void leave_to_longest(lk_context *c, int32_t seq, lk_page_kind kind) {
    uint32_t *last = last_page(c, seq, kind);
    int32_t longest = seq;
    for (uint32_t i = 0; i < c->n_touched; i++) {
        const lk_seq_step *other = step_of(c, c->touched[i]);
        if (other->has_copy[kind] && other->copied_from[kind] == *last &&
            other->old_length > step_of(c, longest)->old_length) {
            longest = c->touched[i];
        }
    }
    if (longest == seq) {
        return;
    }
    lk_seq_step *s = step_of(c, seq);
    uint32_t *last_of_longest = last_page(c, longest, kind);
    s->has_copy[kind] = true;
    s->copied_from[kind] = *last;
    *last = *last_of_longest;
    *last_of_longest = s->copied_from[kind];
    step_of(c, longest)->has_copy[kind] = false;
}

/* The page that the first new row goes to must be this sequence's alone. */
static lk_status own_last_page(lk_context *c, int32_t seq, lk_page_kind kind, lk_error *err) {
    lk_seq_step *s = step_of(c, seq);
    if (s->old_length % LK_CHUNK == 0) {
        return LK_OK; /* no page, or the last one is complete */
    }
    lk_kv_pages *pool = pool_of(c, kind);
    uint32_t *last = last_page(c, seq, kind);
    if (lk_kv_pages_refs(pool, *last) == 1) {
        if (c->n_copies[kind] > 0) {
            leave_to_longest(c, seq, kind);
        }
        return LK_OK;
    }
    uint32_t copy = 0;
    const lk_status status = lk_kv_pages_copy(pool, *last, &copy, err);
    if (status != LK_OK) {
        return status == LK_E_FULL ? fail_full(c, seq, s->old_length, kind, err) : status;
    }
    c->n_copies[kind]++;
    s->copied_from[kind] = *last;
    s->has_copy[kind] = true;
    *last = copy;
    lk_kv_pages_release(pool, s->copied_from[kind]); /* others hold it: not the last reference */
    return LK_OK;
}

/* All pages of the layers without windows; of the others only the one that is written first. */
static lk_status reserve(lk_context *c, int32_t seq, lk_error *err) {
    lk_seq *sequence = &c->seqs[seq];
    const uint32_t n_pages = lk_seq_pages_for(step_of(c, seq)->new_length);
    lk_status status = own_last_page(c, seq, LK_PAGES_FULL, err);
    if (status == LK_OK && c->kv.window != 0) {
        status = own_last_page(c, seq, LK_PAGES_WINDOW, err);
    }
    while (status == LK_OK && sequence->n_pages < n_pages) {
        const int64_t first = (int64_t)sequence->n_pages * LK_CHUNK;
        uint32_t page = 0;
        if (sequence->n_pages == c->table_capacity) {
            status = LK_E_FULL;
        } else {
            status = lk_kv_pages_take(&c->kv.pages, &page, err);
        }
        if (status == LK_E_FULL) {
            return fail_full(c, seq, first, LK_PAGES_FULL, err);
        }
        if (status == LK_OK) {
            sequence->pages[sequence->n_pages++] = page;
        }
    }
    return status;
}

/* Window pages for the rows up to the sequence's done_length. */
static lk_status take_window_pages(lk_context *c, int32_t seq, lk_error *err) {
    lk_seq_step *s = step_of(c, seq);
    const uint32_t end = lk_seq_pages_for(s->done_length);
    while (s->window_end < end) {
        uint32_t page = 0;
        const lk_status status = lk_kv_pages_take(&c->kv.window_pages, &page, err);
        if (status == LK_E_FULL) {
            return fail_full(c, seq, (int64_t)s->window_end * LK_CHUNK, LK_PAGES_WINDOW, err);
        }
        if (status != LK_OK) {
            return status;
        }
        c->seqs[seq].window_pages[s->window_end++] = page;
    }
    return LK_OK;
}

/* Gives back the window pages of this call before page `end`. */
static void release_window_pages(lk_context *c, int32_t seq, uint32_t end) {
    lk_seq_step *s = step_of(c, seq);
    while (s->window_begin < s->window_end && s->window_begin < end) {
        lk_kv_pages_release(&c->kv.window_pages, c->seqs[seq].window_pages[s->window_begin++]);
    }
}

static void undo(lk_context *c, int32_t seq) {
    lk_seq *sequence = &c->seqs[seq];
    const lk_seq_step *s = step_of(c, seq);
    release_window_pages(c, seq, UINT32_MAX);
    while (sequence->n_pages > s->old_n_pages) {
        lk_kv_pages_release(&c->kv.pages, sequence->pages[--sequence->n_pages]);
    }
    for (int kind = 0; kind < LK_N_PAGE_KINDS; kind++) {
        if (s->has_copy[kind]) {
            lk_kv_pages *pool = pool_of(c, (lk_page_kind)kind);
            uint32_t *last = last_page(c, seq, (lk_page_kind)kind);
            lk_kv_pages_release(pool, *last);
            lk_kv_pages_share(pool, s->copied_from[kind]);
            *last = s->copied_from[kind];
        }
    }
    assert(sequence->length == s->old_length);
}

/* ---- 3. micro-batches ---- */

/* Chooses rows of the call from *i_row on, at most max_rows, without those of sequences that have
 * failed, and counts them by sequence. */
static uint32_t choose_rows(lk_context *c, const lk_row *rows, size_t n_rows, size_t *i_row,
                            uint32_t *n_seqs) {
    uint32_t n = 0;
    *n_seqs = 0;
    for (; *i_row < n_rows && n < (uint32_t)c->params.max_rows; (*i_row)++) {
        const int32_t seq = rows[*i_row].seq;
        lk_seq_step *s = step_of(c, seq);
        if (s->has_failed) {
            continue;
        }
        if (s->n_batch++ == 0) {
            c->batch_seqs[(*n_seqs)++] = seq;
        }
        n++;
    }
    return n;
}

/* One run per sequence, in the order in which they appear. */
static void make_runs(lk_context *c, uint32_t n_seqs) {
    uint32_t first = 0;
    for (uint32_t i = 0; i < n_seqs; i++) {
        lk_seq_step *s = step_of(c, c->batch_seqs[i]);
        const lk_seq *sequence = &c->seqs[c->batch_seqs[i]];
        c->runs[i] = (lk_step_run){first, s->n_batch, sequence->pages, sequence->window_pages};
        s->done_length += s->n_batch;
        s->i_run = i;
        s->i_next = first;
        first += s->n_batch;
        s->n_batch = 0;
    }
}

/* Lists a row of the call among those that want this kind. i_step: its place in the micro-batch;
 * UINT32_MAX: its sequence has failed before. */
static void list_out(lk_context *c, lk_out_kind kind, size_t i_row, int32_t seq, uint32_t i_step) {
    lk_outs *outs = &c->outs[kind];
    outs->rows[outs->n] = (lk_out_row){i_row, seq, 0, i_step == UINT32_MAX};
    if (i_step != UINT32_MAX) {
        outs->of_step[i_step] = outs->n;
    }
    outs->n++;
}

/* Puts the rows [begin, end) of the call into their runs, and lists those that want something. */
static void place_rows(lk_context *c, const lk_row *rows, size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) {
        const lk_row *row = &rows[i];
        lk_seq_step *s = step_of(c, row->seq);
        const uint32_t k = s->has_failed ? UINT32_MAX : s->i_next++;
        if (k != UINT32_MAX) {
            c->step_rows[k] = (lk_step_row){
                .token = row->token,
                .embedding = embedding_of(c, i),
                .i_run = s->i_run,
                .pos = row->pos,
                .i_out = (row->flags & LK_ROW_LOGITS) != 0 ? 0 : -1,
                .wants_hidden = (row->flags & LK_ROW_HIDDEN) != 0,
                .bad_layer = -1,
                .bad_op = LK_NODE_COUNT,
            };
            c->row_of_step[k] = i;
        }
        for (int kind = 0; kind < LK_N_OUT_KINDS; kind++) {
            if ((row->flags & out_kinds[kind].flag) != 0) {
                list_out(c, (lk_out_kind)kind, i, row->seq, k);
            }
        }
    }
}

/* Numbers the rows that want something in the order of the step, and gives the step room for it
 * behind what earlier micro-batches have used. */
static void number_outs(lk_context *c, lk_step *step, const uint32_t n_used[LK_N_OUT_KINDS]) {
    lk_outs *logits = &c->outs[LK_OUT_LOGITS];
    lk_outs *hidden = &c->outs[LK_OUT_HIDDEN];
    for (uint32_t k = 0; k < step->n_rows; k++) {
        lk_step_row *row = &c->step_rows[k];
        if (row->i_out >= 0) {
            row->i_out = (int32_t)step->n_out;
            logits->rows[logits->of_step[k]].i_values = n_used[LK_OUT_LOGITS] + step->n_out++;
        }
        if (row->wants_hidden) {
            hidden->rows[hidden->of_step[k]].i_values = n_used[LK_OUT_HIDDEN] + step->n_hidden++;
        }
    }
    step->logits = logits->values + (size_t)n_used[LK_OUT_LOGITS] * logits->width;
    if (step->n_hidden > 0) {
        step->hidden = hidden->values + (size_t)n_used[LK_OUT_HIDDEN] * hidden->width;
    }
}

/* Computes a micro-batch with the window pages that it needs. */
static lk_status compute_step(lk_context *c, lk_step *step, lk_error *err) {
    lk_status status = LK_OK;
    for (uint32_t i = 0; c->kv.window != 0 && i < step->n_runs && status == LK_OK; i++) {
        status = take_window_pages(c, c->batch_seqs[i], err);
    }
    if (status == LK_OK) {
        status = c->ops->step(c->backend, step, err);
    }
    for (uint32_t i = 0; c->kv.window != 0 && i < step->n_runs && status == LK_OK; i++) {
        const int64_t length = step_of(c, c->batch_seqs[i])->done_length;
        release_window_pages(c, c->batch_seqs[i], lk_seq_window_kept(&c->kv, length));
    }
    return status;
}

/* The earliest row of the call that is not finite. */
typedef struct failure {
    size_t i_row; /* SIZE_MAX: none */
    lk_step_row row;
} failure;

/* Records which rows of a step are not finite. */
static void collect(lk_context *c, uint32_t n_rows, const lk_row *rows, lk_row_status *row_status,
                    failure *bad) {
    for (uint32_t k = 0; k < n_rows; k++) {
        const lk_step_row *row = &c->step_rows[k];
        const size_t i_row = c->row_of_step[k];
        if (row->bad_op == LK_NODE_COUNT) {
            continue;
        }
        step_of(c, rows[i_row].seq)->has_failed = true;
        if (row_status != NULL) {
            row_status[i_row].layer = row->bad_layer;
            (void)snprintf(row_status[i_row].op, sizeof row_status[i_row].op, "%s",
                           lk_node_name(row->bad_op));
        }
        if (i_row < bad->i_row) {
            *bad = (failure){i_row, *row};
        }
    }
}

static lk_status compute(lk_context *c, const lk_row *rows, size_t n_rows,
                         lk_row_status *row_status, failure *bad, lk_error *err) {
    uint32_t n_used[LK_N_OUT_KINDS] = {0};
    for (size_t i = 0; i < n_rows;) {
        if (atomic_exchange(&c->wants_cancel, 0) != 0) {
            return lk_fail(err, LK_E_CANCELLED, LK_NOWHERE, "cancelled after %zu of %zu rows", i,
                           n_rows);
        }
        const size_t begin = i;
        uint32_t n_seqs = 0;
        const uint32_t n = choose_rows(c, rows, n_rows, &i, &n_seqs);
        make_runs(c, n_seqs);
        place_rows(c, rows, begin, i);
        if (n == 0) {
            continue;
        }
        lk_step step = {
            .rows = c->step_rows,
            .n_rows = n,
            .runs = c->runs,
            .n_runs = n_seqs,
        };
        number_outs(c, &step, n_used);
        const lk_status status = compute_step(c, &step, err);
        if (status != LK_OK) {
            return status;
        }
        n_used[LK_OUT_LOGITS] += step.n_out;
        n_used[LK_OUT_HIDDEN] += step.n_hidden;
        c->n_steps++;
        c->n_rows += n;
        collect(c, n, rows, row_status, bad);
    }
    return LK_OK;
}

/* ---- 4. the end ---- */

/* The sequence has its new rows; gives back the window pages that no later row reaches. */
static void accept(lk_context *c, int32_t seq) {
    lk_seq *sequence = &c->seqs[seq];
    const lk_seq_step *s = step_of(c, seq);
    sequence->length = s->new_length;
    if (c->kv.window == 0) {
        return;
    }
    const uint32_t kept = lk_seq_window_kept(&c->kv, s->new_length);
    while (sequence->first_window < kept && sequence->first_window < s->old_n_pages) {
        lk_kv_pages_release(&c->kv.window_pages, sequence->window_pages[sequence->first_window++]);
    }
    release_window_pages(c, seq, kept);
    sequence->first_window = kept > sequence->first_window ? kept : sequence->first_window;
}

static void commit(lk_context *c) {
    for (uint32_t i = 0; i < c->n_touched; i++) {
        const int32_t seq = c->touched[i];
        if (step_of(c, seq)->has_failed) {
            undo(c, seq);
        } else {
            accept(c, seq);
        }
    }
    for (int kind = 0; kind < LK_N_OUT_KINDS; kind++) {
        const lk_outs *outs = &c->outs[kind];
        for (uint32_t i = 0; i < outs->n; i++) {
            outs->rows[i].has_failed = step_of(c, outs->rows[i].seq)->has_failed;
        }
    }
}

/* Rows that are clean themselves, or were not computed, but belong to a sequence that failed. */
static void mark_undone(const lk_context *c, const lk_row *rows, size_t n_rows,
                        lk_row_status *row_status) {
    for (size_t i = 0; i < n_rows; i++) {
        if (c->seq_steps[rows[i].seq].has_failed) {
            row_status[i].status = LK_E_NONFINITE;
        }
    }
}

static lk_status fail_rows(const lk_row *rows, const failure *bad, lk_error *err) {
    const lk_row *row = &rows[bad->i_row];
    char layer[24] = "outside the layers";
    if (bad->row.bad_layer >= 0) {
        (void)snprintf(layer, sizeof layer, "layer %d", bad->row.bad_layer);
    }
    return lk_fail(err, LK_E_ROWS, LK_AT_ROW(row->seq, row->pos),
                   "sequence %d, position %lld: a value is not finite (%s, operator %s)", row->seq,
                   (long long)row->pos, layer, lk_node_name(bad->row.bad_op));
}

static void release_steps(lk_context *c) {
    for (uint32_t i = 0; i < c->n_touched; i++) {
        step_of(c, c->touched[i])->is_touched = false;
    }
    c->n_touched = 0;
}

/* Tokens, and digests of vectors, into the pages that were reserved. */
static void name_rows(lk_context *c, const lk_row *rows, size_t n_rows) {
    for (size_t i = 0; i < n_rows; i++) {
        lk_row_digest digest = {{0}};
        if (embedding_of(c, i) != NULL) {
            lk_logits_digest(embedding_of(c, i), c->graph->n_embd, digest.bytes);
        }
        lk_seq_name(&c->seqs[rows[i].seq], &c->kv.pages, rows[i].pos, rows[i].token, &digest);
    }
}

static void forget_outs(lk_context *c) {
    for (int kind = 0; kind < LK_N_OUT_KINDS; kind++) {
        c->outs[kind].n = 0;
    }
}

static lk_status run(lk_context *c, const lk_row *rows, size_t n_rows, lk_row_status *row_status,
                     lk_error *err) {
    lk_status status = check_rows(c, rows, n_rows, err);
    if (status != LK_OK) {
        return status; /* no page has been touched */
    }
    failure bad = {.i_row = SIZE_MAX};
    for (uint32_t i = 0; i < c->n_touched && status == LK_OK; i++) {
        status = reserve(c, c->touched[i], err);
    }
    if (status == LK_OK) {
        name_rows(c, rows, n_rows);
        for (size_t i = 0; row_status != NULL && i < n_rows; i++) {
            row_status[i] = (lk_row_status){LK_OK, -1, ""};
        }
        status = compute(c, rows, n_rows, row_status, &bad, err);
    }
    if (status != LK_OK) {
        for (uint32_t i = 0; i < c->n_touched; i++) {
            undo(c, c->touched[i]);
        }
        forget_outs(c);
        return status;
    }
    commit(c);
    if (bad.i_row == SIZE_MAX) {
        return LK_OK;
    }
    if (row_status != NULL) {
        mark_undone(c, rows, n_rows, row_status);
    }
    return fail_rows(rows, &bad, err);
}

lk_status lk_context_run(lk_context *context, const lk_row *rows, const float *const *embeddings,
                         size_t n_rows, lk_row_status *row_status, lk_error *err) {
    forget_outs(context);
    context->embeddings = embeddings;
    memset(context->n_copies, 0, sizeof context->n_copies);
    const lk_status status = run(context, rows, n_rows, row_status, err);
    release_steps(context);
    context->embeddings = NULL;
    return status;
}

lk_status lk_context_find_out(const lk_context *context, lk_out_kind kind, size_t i_row,
                              const float **values, lk_error *err) {
    const lk_outs *outs = &context->outs[kind];
    *values = NULL;
    uint32_t begin = 0;
    uint32_t end = outs->n;
    while (begin < end) {
        const uint32_t middle = begin + (end - begin) / 2;
        if (outs->rows[middle].i_row < i_row) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    if (begin == outs->n || outs->rows[begin].i_row != i_row) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE, "row %zu of the last decode was not asked for %s",
                       i_row, out_kinds[kind].what);
    }
    const lk_out_row *out = &outs->rows[begin];
    if (out->has_failed) {
        return lk_fail(err, LK_E_NONFINITE, (lk_where){out->seq, -1, UINT64_MAX, NULL},
                       "row %zu of the last decode failed, with all rows of sequence %d", i_row,
                       out->seq);
    }
    *values = outs->values + (size_t)out->i_values * outs->width;
    return LK_OK;
}
