/* slots.c - what other threads see of slots and ask of them. A command is carried out by the
 * engine's thread between two steps, without the lock, while the asking thread waits. */
#include <stddef.h>

#include "base/error.h"
#include "engine/scheduler/scheduler.h"
#include "engine/state.h"

void lk_update_view(lk_engine *engine) {
    for (int32_t i = 0; i < engine->params.n_slots; i++) {
        const lk_choice *choice = engine->by_slot[i];
        lk_slot_info *view = &engine->view[i];
        *view = LK_SLOT_INFO_INIT;
        view->n_positions = engine->context->seqs[i].length;
        if (choice != NULL) {
            view->state = choice->n_generated > 0 ? LK_SLOT_GENERATING : LK_SLOT_PROMPT;
            view->choice = choice->index;
            view->request_id = choice->request->id;
            view->n_prompt = (int64_t)choice->request->n_prompt;
            view->n_cached = choice->n_cached;
            view->n_generated = choice->n_generated;
        }
    }
    engine->stats.n_running = engine->n_running;
    engine->stats.pages_free = engine->context->kv.pages.n_free;
    engine->stats.pages_cached = engine->cache.n_nodes;
    engine->stats.pages_copied = engine->context->kv.pages.n_copied;
}

static lk_status save(lk_engine *engine, lk_slot_command *command, lk_error *err) {
    uint8_t digest[32];
    if (engine->context->seqs[command->slot].length == 0) {
        return lk_fail(err, LK_E_NOT_FOUND, LK_AT_ROW(command->slot, -1),
                       "slot %d holds nothing to be saved", command->slot);
    }
    const lk_status status =
        lk_model_digest(engine->context->model, engine->params.n_threads, NULL, NULL, digest, err);
    return status != LK_OK
               ? status
               : lk_state_save(engine->context, command->slot, command->path, digest, err);
}

static lk_status load(lk_engine *engine, lk_slot_command *command, lk_error *err) {
    uint8_t digest[32];
    lk_status status =
        lk_model_digest(engine->context->model, engine->params.n_threads, NULL, NULL, digest, err);
    if (status == LK_OK) {
        status = lk_state_load(engine->context, command->slot, command->path, digest, err);
    }
    if (status == LK_E_FULL) {
        while (lk_prefix_evict(&engine->cache)) {
        }
        status = lk_state_load(engine->context, command->slot, command->path, digest, err);
    }
    if (status == LK_OK && (engine->params.flags & LK_ENGINE_NO_CACHE) == 0) {
        lk_prefix_insert(&engine->cache, &engine->context->seqs[command->slot], true);
    }
    return status;
}

static void carry_out(lk_engine *engine, lk_slot_command *command) {
    lk_seq *seq = &engine->context->seqs[command->slot];
    if (engine->by_slot[command->slot] != NULL) {
        command->status = lk_fail(&command->error, LK_E_BUSY, LK_AT_ROW(command->slot, -1),
                                  "slot %d is in use", command->slot);
        return;
    }
    command->n_tokens = seq->length;
    switch (command->action) {
    case LK_SLOT_SAVE:
        command->status = save(engine, command, &command->error);
        break;
    case LK_SLOT_LOAD:
        command->status = load(engine, command, &command->error);
        command->n_tokens = seq->length;
        break;
    case LK_SLOT_ERASE:
        lk_seq_cut(seq, &engine->context->kv, 0);
        command->status = LK_OK;
        break;
    }
}

void lk_run_commands(lk_engine *engine) {
    while (engine->first_command != NULL) {
        lk_slot_command *command = engine->first_command;
        engine->first_command = command->next;
        if (engine->wants_stop) {
            command->status =
                lk_fail(&command->error, LK_E_CANCELLED, LK_NOWHERE, "the engine is ending");
        } else {
            (void)pthread_mutex_unlock(&engine->lock);
            carry_out(engine, command);
            (void)pthread_mutex_lock(&engine->lock);
        }
        command->is_done = true;
        lk_update_view(engine);
        (void)pthread_cond_broadcast(&engine->answered);
    }
}

lk_status lk_ask_slot(lk_engine *engine, lk_slot_action action, int32_t slot, const char *path,
                      int64_t *n_tokens, lk_error *err) {
    uint8_t digest[32];
    if (slot < 0 || slot >= engine->params.n_slots) {
        return lk_fail(err, LK_E_ARG, LK_AT_ROW(slot, -1), "slot %d, expected 0 .. %d", slot,
                       engine->params.n_slots - 1);
    }
    if (action != LK_SLOT_ERASE) {
        if (engine->context->model == NULL) {
            return lk_fail(err, LK_E_UNSUPPORTED, LK_NOWHERE, "a context without a model");
        }
        /* The first time takes long: here it holds up nobody else. */
        const lk_status status = lk_model_digest(engine->context->model, engine->params.n_threads,
                                                 NULL, NULL, digest, err);
        if (status != LK_OK) {
            return status;
        }
    }
    lk_slot_command command = {.action = action, .slot = slot, .path = path};
    (void)pthread_mutex_lock(&engine->lock);
    if (engine->wants_stop) {
        (void)pthread_mutex_unlock(&engine->lock);
        return lk_fail(err, LK_E_CANCELLED, LK_NOWHERE, "the engine is ending");
    }
    lk_slot_command **place = &engine->first_command;
    while (*place != NULL) {
        place = &(*place)->next;
    }
    *place = &command;
    (void)pthread_cond_signal(&engine->wake);
    while (!command.is_done) {
        (void)pthread_cond_wait(&engine->answered, &engine->lock);
    }
    (void)pthread_mutex_unlock(&engine->lock);
    if (command.status != LK_OK) {
        if (err != NULL) {
            *err = command.error;
        }
        return command.status;
    }
    *n_tokens = command.n_tokens;
    return LK_OK;
}
