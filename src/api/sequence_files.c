/* sequence_files.c - bodies of lk_sequence_save and lk_sequence_load: the engine does the work, the
 * model's digest comes from the model. */
#include "api/guard.h"
#include "engine/state.h"
#include "lk/context.h"

typedef lk_status state_fn(lk_context *context, int32_t seq, const char *path,
                           const uint8_t digest[32], lk_error *err);

static lk_status with_digest(state_fn *fn, lk_context *context, int32_t seq, const char *path,
                             lk_error *err) {
    lk_guard guard;
    uint8_t digest[32];
    if (path == NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("path"), "path is NULL");
    }
    lk_status status = lk_guard_enter(&guard, context, err);
    if (status != LK_OK) {
        return status;
    }
    if (context->model == NULL) {
        status = lk_fail(err, LK_E_UNSUPPORTED, LK_NOWHERE, "this context has no model file");
    } else {
        status =
            lk_model_digest(context->model, context->params.n_threads, NULL, NULL, digest, err);
    }
    if (status == LK_OK) {
        status = fn(context, seq, path, digest, err);
    }
    lk_guard_leave(&guard);
    return status;
}

lk_status lk_sequence_save(lk_context *context, int32_t seq, const char *path, lk_error *err) {
    return with_digest(lk_state_save, context, seq, path, err);
}

lk_status lk_sequence_load(lk_context *context, int32_t seq, const char *path, lk_error *err) {
    return with_digest(lk_state_load, context, seq, path, err);
}
