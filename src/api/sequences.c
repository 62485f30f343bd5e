/* sequences.c - bodies of lk/context.h that concern one sequence. */
#include "api/guard.h"
#include "lk/context.h"

/* lk_guard_enter, and the sequence exists. */
static lk_status enter(lk_guard *guard, lk_context *context, int32_t seq, lk_error *err) {
    lk_status status = lk_guard_enter(guard, context, err);
    if (status != LK_OK) {
        return status;
    }
    status = lk_context_check_seq(context, seq, err);
    if (status != LK_OK) {
        lk_guard_leave(guard);
    }
    return status;
}

lk_status lk_sequence_length(lk_context *context, int32_t seq, int64_t *length, lk_error *err) {
    lk_guard guard;
    if (length == NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("length"), "length is NULL");
    }
    *length = 0;
    const lk_status status = enter(&guard, context, seq, err);
    if (status != LK_OK) {
        return status;
    }
    *length = context->seqs[seq].length;
    lk_guard_leave(&guard);
    return LK_OK;
}

lk_status lk_sequence_tokens(lk_context *context, int32_t seq, int32_t *tokens, size_t capacity,
                             size_t *n_tokens, lk_error *err) {
    lk_guard guard;
    if (n_tokens == NULL || (tokens == NULL && capacity > 0)) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("tokens"), "tokens or n_tokens is NULL");
    }
    *n_tokens = 0;
    const lk_status status = enter(&guard, context, seq, err);
    if (status != LK_OK) {
        return status;
    }
    const lk_seq *sequence = &context->seqs[seq];
    const size_t n = (size_t)sequence->length;
    lk_seq_get_tokens(sequence, &context->kv.pages, n < capacity ? n : capacity, tokens);
    *n_tokens = n;
    lk_guard_leave(&guard);
    return LK_OK;
}

lk_status lk_sequence_clear(lk_context *context, int32_t seq, lk_error *err) {
    lk_guard guard;
    const lk_status status = enter(&guard, context, seq, err);
    if (status != LK_OK) {
        return status;
    }
    lk_seq_cut(&context->seqs[seq], &context->kv, 0);
    lk_guard_leave(&guard);
    return LK_OK;
}

/* Whether what a query at position `length` reaches is still there. */
static lk_status check_reach(const lk_context *context, int32_t seq, int64_t length,
                             lk_error *err) {
    const int64_t shortest = lk_seq_shortest(&context->seqs[seq], &context->kv);
    if (length == 0 || length >= shortest) {
        return LK_OK;
    }
    return lk_fail(err, LK_E_LIMIT, LK_AT_ROW(seq, length),
                   "sequence %d cannot go back to %lld positions: behind a window of %u it keeps "
                   "what %lld and more need",
                   seq, (long long)length, context->kv.window, (long long)shortest);
}

lk_status lk_sequence_shortest(lk_context *context, int32_t seq, int64_t *length, lk_error *err) {
    lk_guard guard;
    if (length == NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("length"), "length is NULL");
    }
    *length = 0;
    const lk_status status = enter(&guard, context, seq, err);
    if (status != LK_OK) {
        return status;
    }
    *length = lk_seq_shortest(&context->seqs[seq], &context->kv);
    lk_guard_leave(&guard);
    return LK_OK;
}

lk_status lk_sequence_truncate(lk_context *context, int32_t seq, int64_t length, lk_error *err) {
    lk_guard guard;
    lk_status status = enter(&guard, context, seq, err);
    if (status != LK_OK) {
        return status;
    }
    lk_seq *sequence = &context->seqs[seq];
    if (length < 0 || length > sequence->length) {
        status = lk_fail(err, LK_E_ARG, LK_AT_ROW(seq, length),
                         "cannot keep %lld positions of sequence %d: it has %lld",
                         (long long)length, seq, (long long)sequence->length);
    } else {
        status = check_reach(context, seq, length, err);
    }
    if (status == LK_OK) {
        lk_seq_cut(sequence, &context->kv, length);
    }
    lk_guard_leave(&guard);
    return status;
}

static lk_status fork_sequence(lk_context *context, int32_t src, int32_t dst, int64_t length,
                               lk_error *err) {
    const lk_status status = lk_context_check_seq(context, dst, err);
    if (status != LK_OK) {
        return status;
    }
    const lk_seq *source = &context->seqs[src];
    lk_seq *target = &context->seqs[dst];
    const int64_t n = length == -1 ? source->length : length;
    if (src == dst) {
        return lk_fail(err, LK_E_ARG, LK_AT_ROW(src, -1), "sequence %d cannot be forked to itself",
                       src);
    }
    if (n < 0 || n > source->length) {
        return lk_fail(err, LK_E_ARG, LK_AT_ROW(src, n),
                       "cannot fork %lld positions of sequence %d: it has %lld", (long long)n, src,
                       (long long)source->length);
    }
    const lk_status reach = check_reach(context, src, n, err);
    if (reach != LK_OK) {
        return reach;
    }
    lk_seq_cut(target, &context->kv, 0);
    lk_seq_share(target, source, &context->kv, n);
    return LK_OK;
}

lk_status lk_sequence_fork(lk_context *context, int32_t src, int32_t dst, int64_t length,
                           lk_error *err) {
    lk_guard guard;
    lk_status status = enter(&guard, context, src, err);
    if (status != LK_OK) {
        return status;
    }
    status = fork_sequence(context, src, dst, length, err);
    lk_guard_leave(&guard);
    return status;
}
