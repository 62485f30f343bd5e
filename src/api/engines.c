/* engines.c - bodies of lk/engine.h: arguments are checked here, the work is in
 * src/engine/scheduler. */
#include <errno.h>
#include <time.h>

#include "api/source.h"
#include "base/error.h"
#include "base/fpenv.h"
#include "base/params.h"
#include "engine/scheduler/scheduler.h"

LK_NO_TAIL_PADDING(lk_engine_params, device);
LK_NO_TAIL_PADDING(lk_request_params, reserved);
LK_NO_TAIL_PADDING(lk_slot_info, n_generated);
LK_NO_TAIL_PADDING(lk_engine_stats, max_queued);

static lk_status fail_null(lk_error *err, const char *name) {
    return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT(name), "%s is NULL", name);
}

lk_status lk_engine_create(lk_model *model, const lk_engine_params *params, lk_engine **out,
                           lk_error *err) {
    if (out == NULL) {
        return fail_null(err, "out");
    }
    *out = NULL;
    if (model == NULL) {
        return fail_null(err, "model");
    }
    const lk_engine_params defaults = LK_ENGINE_PARAMS_INIT;
    params = params != NULL ? params : &defaults;
    lk_status status =
        lk_check_struct_size("lk_engine_params", params->struct_size, sizeof *params, err);
    if (status != LK_OK) {
        return status;
    }
    lk_context_source source;
    const lk_fpenv fpenv = lk_fpenv_enter();
    status = lk_source_of(model, params->device, &source, err);
    if (status == LK_OK) {
        status = lk_engine_build(&source, params, out, err);
    }
    lk_fpenv_leave(fpenv);
    return status;
}

void lk_engine_destroy(lk_engine *engine) {
    lk_engine_free(engine);
}

lk_status lk_engine_submit(lk_engine *engine, const lk_request_params *params, lk_request **out,
                           lk_error *err) {
    if (out == NULL) {
        return fail_null(err, "out");
    }
    *out = NULL;
    if (engine == NULL || params == NULL) {
        return fail_null(err, engine == NULL ? "engine" : "params");
    }
    return lk_engine_enqueue(engine, params, out, err);
}

void lk_request_cancel(lk_request *request) {
    if (request != NULL) {
        /* The engine looks before each step, and steps as long as there is an open request. */
        atomic_store(&request->wants_cancel, 1);
    }
}

lk_status lk_request_wait(lk_request *request, uint32_t timeout_ms, lk_error *err) {
    if (request == NULL) {
        return fail_null(err, "request");
    }
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    int result = 0;
    (void)pthread_mutex_lock(&request->mutex);
    while (!request->is_done && result != ETIMEDOUT) {
        result = timeout_ms == 0 ? pthread_cond_wait(&request->done, &request->mutex)
                                 : pthread_cond_timedwait(&request->done, &request->mutex, &until);
    }
    const bool is_done = request->is_done;
    (void)pthread_mutex_unlock(&request->mutex);
    return is_done ? LK_OK
                   : lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT("timeout_ms"),
                             "the request is not done after %u ms", timeout_ms);
}

void lk_request_release(lk_request *request) {
    if (request != NULL) {
        lk_request_cancel(request);
        lk_request_drop(request);
    }
}

lk_status lk_engine_get_slot(lk_engine *engine, int32_t slot, lk_slot_info *info, lk_error *err) {
    if (engine == NULL || info == NULL) {
        return fail_null(err, engine == NULL ? "engine" : "info");
    }
    const lk_status status =
        lk_check_struct_size("lk_slot_info", info->struct_size, sizeof *info, err);
    if (status != LK_OK) {
        return status;
    }
    if (slot < 0 || slot >= engine->params.n_slots) {
        return lk_fail(err, LK_E_ARG, LK_AT_ROW(slot, -1), "slot %d, expected 0 .. %d", slot,
                       engine->params.n_slots - 1);
    }
    (void)pthread_mutex_lock(&engine->lock);
    *info = engine->view[slot];
    (void)pthread_mutex_unlock(&engine->lock);
    return LK_OK;
}

static lk_status ask(lk_engine *engine, lk_slot_action action, int32_t slot, const char *path,
                     int64_t *n_tokens, lk_error *err) {
    if (engine == NULL || n_tokens == NULL) {
        return fail_null(err, engine == NULL ? "engine" : "n_tokens");
    }
    *n_tokens = 0;
    if (path == NULL && action != LK_SLOT_ERASE) {
        return fail_null(err, "path");
    }
    return lk_ask_slot(engine, action, slot, path, n_tokens, err);
}

lk_status lk_engine_slot_save(lk_engine *engine, int32_t slot, const char *path, int64_t *n_tokens,
                              lk_error *err) {
    return ask(engine, LK_SLOT_SAVE, slot, path, n_tokens, err);
}

lk_status lk_engine_slot_load(lk_engine *engine, int32_t slot, const char *path, int64_t *n_tokens,
                              lk_error *err) {
    return ask(engine, LK_SLOT_LOAD, slot, path, n_tokens, err);
}

lk_status lk_engine_slot_erase(lk_engine *engine, int32_t slot, int64_t *n_tokens, lk_error *err) {
    return ask(engine, LK_SLOT_ERASE, slot, NULL, n_tokens, err);
}

lk_status lk_engine_get_stats(lk_engine *engine, lk_engine_stats *stats, lk_error *err) {
    if (engine == NULL || stats == NULL) {
        return fail_null(err, engine == NULL ? "engine" : "stats");
    }
    const lk_status status =
        lk_check_struct_size("lk_engine_stats", stats->struct_size, sizeof *stats, err);
    if (status != LK_OK) {
        return status;
    }
    (void)pthread_mutex_lock(&engine->lock);
    *stats = engine->stats;
    (void)pthread_mutex_unlock(&engine->lock);
    return LK_OK;
}
