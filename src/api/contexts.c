/* contexts.c - bodies of lk/context.h that use a whole context. Arguments are checked here, the
 * work is in src/engine. */
#include <string.h>

#include "api/guard.h"
#include "base/bytes.h"
#include "base/params.h"
#include "base/sha256.h"
#include "lk/context.h"

LK_NO_TAIL_PADDING(lk_context_stats, kv_bytes);

void lk_context_destroy(lk_context *context) {
    lk_context_free(context);
}

lk_status lk_context_decode(lk_context *context, const lk_row *rows, size_t n_rows,
                            lk_row_status *row_status, lk_error *err) {
    return lk_context_decode_embeddings(context, rows, NULL, n_rows, row_status, err);
}

lk_status lk_context_decode_embeddings(lk_context *context, const lk_row *rows,
                                       const float *const *embeddings, size_t n_rows,
                                       lk_row_status *row_status, lk_error *err) {
    lk_guard guard;
    if (rows == NULL && n_rows > 0) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("rows"), "rows is NULL");
    }
    lk_status status = lk_guard_enter(&guard, context, err);
    if (status != LK_OK) {
        return status;
    }
    status = lk_context_run(context, rows, embeddings, n_rows, row_status, err);
    lk_guard_leave(&guard);
    return status;
}

static lk_status find_out(lk_context *context, lk_out_kind kind, size_t i_row, const char *name,
                          const float **values, lk_error *err) {
    lk_guard guard;
    if (values == NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT(name), "%s is NULL", name);
    }
    *values = NULL;
    lk_status status = lk_guard_enter(&guard, context, err);
    if (status != LK_OK) {
        return status;
    }
    status = lk_context_find_out(context, kind, i_row, values, err);
    lk_guard_leave(&guard);
    return status;
}

lk_status lk_context_logits(lk_context *context, size_t i_row, const float **logits,
                            lk_error *err) {
    return find_out(context, LK_OUT_LOGITS, i_row, "logits", logits, err);
}

lk_status lk_context_hidden(lk_context *context, size_t i_row, const float **hidden,
                            lk_error *err) {
    return find_out(context, LK_OUT_HIDDEN, i_row, "hidden", hidden, err);
}

void lk_context_cancel(lk_context *context) {
    if (context != NULL) {
        atomic_store(&context->wants_cancel, 1);
    }
}

lk_status lk_context_get_stats(lk_context *context, lk_context_stats *stats, lk_error *err) {
    lk_guard guard;
    if (stats == NULL || stats->struct_size != sizeof *stats) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("stats"),
                       "stats is NULL or its struct_size is not %zu", sizeof *stats);
    }
    const lk_status status = lk_guard_enter(&guard, context, err);
    if (status != LK_OK) {
        return status;
    }
    lk_backend_stats backend = {{0}, {0}, 0, 0};
    context->ops->get_stats(context->backend, &backend);
    *stats = (lk_context_stats){
        .struct_size = sizeof *stats,
        .n_steps = context->n_steps,
        .n_rows = context->n_rows,
        .pages_total = context->kv.pages.n_pages,
        .pages_free = context->kv.pages.n_free,
        .pages_copied = context->kv.pages.n_copied + context->kv.window_pages.n_copied,
        .isa = backend.isa,
        .n_threads = backend.n_threads,
        .window_pages_total = context->kv.window_pages.n_pages,
        .window_pages_free = context->kv.window_pages.n_free,
        .kv_bytes =
            (uint64_t)context->kv.pages.n_pages * context->ops->page_bytes(context->backend) +
            (uint64_t)context->kv.window_pages.n_pages *
                context->ops->window_page_bytes(context->backend),
    };
    memcpy(stats->kernel_rows, backend.kernel_rows, sizeof stats->kernel_rows);
    memcpy(stats->mixed_calls, backend.mixed_calls, sizeof stats->mixed_calls);
    lk_guard_leave(&guard);
    return LK_OK;
}

void lk_logits_digest(const float *logits, size_t n, uint8_t digest[16]) {
    uint8_t bytes[256];
    uint8_t full[32];
    lk_sha256 sha;
    lk_sha256_init(&sha);
    for (size_t i = 0; i < n;) {
        size_t n_bytes = 0;
        for (; i < n && n_bytes < sizeof bytes; i++, n_bytes += 4) {
            lk_store_u32(bytes + n_bytes, lk_f32_bits(logits[i]));
        }
        lk_sha256_update(&sha, bytes, n_bytes);
    }
    lk_sha256_final(&sha, full);
    memcpy(digest, full, 16);
}
