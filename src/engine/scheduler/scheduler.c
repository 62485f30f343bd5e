/* scheduler.c - the life of an engine and its thread: take in what was asked for, plan a step,
 * compute it, hand out what came of it, again. */
#include "engine/scheduler/scheduler.h"

#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fpenv.h"

int64_t lk_now_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- the thread ---- */

/* Why a choice must end before it is computed further; 0: it need not. */
static lk_finish reason_to_end(const lk_engine *engine, const lk_choice *choice, int64_t now_ns) {
    const lk_request *r = choice->request;
    if (engine->wants_stop || atomic_load(&r->wants_cancel) != 0) {
        return LK_FINISH_CANCELLED;
    }
    return r->deadline_ns != 0 && now_ns >= r->deadline_ns ? LK_FINISH_DEADLINE : 0;
}

static void add_ended(lk_engine *engine, lk_choice **ended, lk_choice *choice, lk_finish finish) {
    choice->ending = finish;
    choice->is_done = true;
    choice->next = *ended;
    *ended = choice;
    engine->stats.n_finished[finish]++;
}

/* Takes out what is cancelled or late, from the slots and the queue. */
static lk_choice *sweep(lk_engine *engine) {
    const int64_t now_ns = lk_now_ns();
    lk_choice *ended = NULL;
    for (int32_t i = engine->n_running - 1; i >= 0; i--) {
        lk_choice *choice = engine->running[i];
        const lk_finish finish = reason_to_end(engine, choice, now_ns);
        if (finish != 0) {
            lk_vacate(engine, choice);
            add_ended(engine, &ended, choice, finish);
        }
    }
    lk_choice **place = &engine->first_waiting;
    while (*place != NULL) {
        lk_choice *choice = *place;
        const lk_finish finish = reason_to_end(engine, choice, now_ns);
        if (finish == 0) {
            place = &choice->next;
            continue;
        }
        *place = choice->next;
        engine->stats.n_waiting--;
        add_ended(engine, &ended, choice, finish);
    }
    return ended;
}

static void count_step(lk_engine *engine, const lk_choice *choice) {
    const int64_t n_prompt = (int64_t)choice->request->n_prompt;
    const int64_t first = engine->rows[choice->i_step_row].pos;
    const int64_t end = first + choice->n_step_rows;
    if (first < n_prompt) {
        engine->stats.n_computed_tokens += (uint64_t)((end < n_prompt ? end : n_prompt) - first);
    }
    const bool has_sampled =
        choice->ending != LK_FINISH_ERROR && lk_choice_length(choice) == end + 1;
    engine->stats.n_generated_tokens += has_sampled;
}

/* After a step: takes out what has ended, and gives prompts that are complete to the cache. */
static lk_choice *settle(lk_engine *engine, int64_t step_ns) {
    lk_choice *ended = NULL;
    engine->stats.n_steps++;
    engine->stats.n_rows += engine->n_rows;
    engine->stats.step_ns += (uint64_t)step_ns;
    for (int32_t i = engine->n_stepping - 1; i >= 0; i--) {
        lk_choice *choice = engine->stepping[i];
        const lk_request *r = choice->request;
        count_step(engine, choice);
        if (choice->ending != 0) {
            lk_vacate(engine, choice);
            add_ended(engine, &ended, choice, choice->ending);
        } else if (choice->n_generated == 1 && (r->flags & LK_REQUEST_NO_CACHE) == 0 &&
                   (engine->params.flags & LK_ENGINE_NO_CACHE) == 0) {
            lk_prefix_insert(&engine->cache, lk_choice_seq(engine, choice), r->n_choices > 1);
        }
    }
    return ended;
}

/* Leaves the lock meanwhile. */
static void send_ended(lk_engine *engine, lk_choice *ended) {
    if (ended == NULL) {
        return;
    }
    lk_update_view(engine);
    (void)pthread_mutex_unlock(&engine->lock);
    while (ended != NULL) {
        lk_choice *next = ended->next; /* the last one of a request may free it */
        lk_end_choice(ended, ended->ending, &ended->error);
        ended = next;
    }
    (void)pthread_mutex_lock(&engine->lock);
}

static void step(lk_engine *engine) {
    const int64_t start_ns = lk_now_ns();
    (void)pthread_mutex_unlock(&engine->lock);
    const lk_fpenv fpenv = lk_fpenv_enter();
    lk_compute_step(engine);
    lk_fpenv_leave(fpenv);
    (void)pthread_mutex_lock(&engine->lock);
    send_ended(engine, settle(engine, lk_now_ns() - start_ns));
}

static void *run_engine(void *arg) {
    lk_engine *engine = arg;
    (void)pthread_mutex_lock(&engine->lock);
    for (;;) {
        lk_run_commands(engine);
        send_ended(engine, sweep(engine));
        if (engine->wants_stop && engine->first_waiting == NULL && engine->n_running == 0) {
            break;
        }
        lk_admit(engine);
        lk_plan_step(engine);
        lk_update_view(engine);
        if (engine->n_rows > 0) {
            step(engine);
        } else if (engine->first_waiting == NULL && engine->first_command == NULL &&
                   !engine->wants_stop) {
            (void)pthread_cond_wait(&engine->wake, &engine->lock);
        }
    }
    lk_run_commands(engine);
    (void)pthread_mutex_unlock(&engine->lock);
    return NULL;
}

/* ---- life ---- */

/* Checks what the context does not check, and fills in the defaults. */
static lk_status fill_params(lk_engine *engine, const lk_context_source *source,
                             const lk_engine_params *given, lk_error *err) {
    lk_engine_params *p = &engine->params;
    *p = *given;
    const lk_range ranges[] = {
        {"n_slots", p->n_slots, 1, LK_MAX_SEQUENCES},
        {"max_rows", p->max_rows, p->n_slots, LK_MAX_ROWS},
        {"max_queued", p->max_queued, 1, LK_MAX_QUEUED},
        {"flags", p->flags, 0, LK_ENGINE_POISON | LK_ENGINE_NO_CACHE | LK_ENGINE_PARALLEL_EVENTS},
        {"kv_positions", p->kv_positions, 0, INT64_MAX},
    };
    const lk_status status = lk_check_ranges(ranges, sizeof ranges / sizeof ranges[0], err);
    if (status != LK_OK) {
        return status;
    }
    const int64_t n_train = (int64_t)source->n_ctx_train;
    if (p->kv_positions == 0) {
        p->kv_positions = n_train > p->n_ctx ? n_train : p->n_ctx;
    }
    int64_t most = p->kv_positions;
    most = most < LK_MAX_POSITIONS ? most : LK_MAX_POSITIONS;
    if (p->n_ctx == 0) {
        p->n_ctx = n_train < most ? n_train : most;
    }
    return lk_check_range("n_ctx", p->n_ctx, 1, most, err);
}

static lk_status create_context(lk_engine *engine, const lk_context_source *source, lk_error *err) {
    const lk_engine_params *p = &engine->params;
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.allocator = engine->allocator;
    params.n_threads = p->n_threads;
    params.isa_mask = p->isa_mask;
    params.kv_positions = p->kv_positions;
    params.n_sequences = p->n_slots;
    params.max_rows = p->max_rows;
    params.max_logits = p->n_slots + LK_EXTRA_LOGITS;
    params.k_type = p->k_type;
    params.v_type = p->v_type;
    params.flags = (p->flags & LK_ENGINE_POISON) != 0 ? LK_CONTEXT_POISON : 0;
    params.page_seed = p->page_seed;
    params.device = p->device;
    params.max_hidden = source->graph->hidden >= 0 ? (uint32_t)p->max_rows : 0;
    const lk_status status = lk_context_build(source, &params, &engine->context, err);
    if (status == LK_OK && engine->context->kv.window != 0) {
        /* Pages of layers with windows go back while a sequence grows: a prefix has none left. */
        engine->params.flags |= LK_ENGINE_NO_CACHE;
    }
    return status;
}

static lk_status allocate(lk_engine *engine, lk_error *err) {
    const lk_allocator *a = engine->allocator;
    const size_t n_slots = (size_t)engine->params.n_slots;
    const size_t max_rows = (size_t)engine->params.max_rows;
    const size_t n_pages = engine->context->kv.pages.n_pages;
    const size_t width = lk_graph_hidden_width(engine->context->graph);
    engine->view = lk_alloc_array_zero(a, n_slots, sizeof engine->view[0]);
    engine->running = lk_alloc_array_zero(a, n_slots, sizeof(lk_choice *));
    engine->by_slot = lk_alloc_array_zero(a, n_slots, sizeof(lk_choice *));
    engine->stepping = lk_alloc_array_zero(a, n_slots, sizeof(lk_choice *));
    engine->slot_used = lk_alloc_array_zero(a, n_slots, sizeof engine->slot_used[0]);
    engine->rows = lk_alloc_array(a, max_rows, sizeof engine->rows[0]);
    engine->embeddings = lk_alloc_array(a, max_rows, sizeof(const float *));
    engine->row_status = lk_alloc_array(a, max_rows, sizeof engine->row_status[0]);
    engine->found = lk_alloc_array(a, n_pages, sizeof engine->found[0]);
    engine->samplings = lk_alloc_array(a, n_slots, sizeof engine->samplings[0]);
    engine->firsts = lk_alloc_array(a, n_slots, sizeof engine->firsts[0]);
    engine->pooled = lk_alloc_array(a, width + 1, sizeof engine->pooled[0]);
    engine->stamps = lk_alloc_array_zero(a, n_pages, sizeof engine->stamps[0]);
    if (engine->view == NULL || engine->running == NULL || engine->by_slot == NULL ||
        engine->stepping == NULL || engine->samplings == NULL || engine->slot_used == NULL ||
        engine->rows == NULL || engine->embeddings == NULL || engine->row_status == NULL ||
        engine->found == NULL || engine->stamps == NULL || engine->pooled == NULL ||
        engine->firsts == NULL) {
        return lk_fail_nomem(err, "an engine's tables", n_pages * sizeof engine->found[0]);
    }
    return lk_prefix_init(&engine->cache, a, &engine->context->kv.pages, err);
}

static lk_status start(lk_engine *engine, lk_error *err) {
    if (pthread_mutex_init(&engine->lock, NULL) != 0) {
        return lk_fail_nomem(err, "an engine's lock", sizeof engine->lock);
    }
    if (pthread_cond_init(&engine->wake, NULL) != 0) {
        (void)pthread_mutex_destroy(&engine->lock);
        return lk_fail_nomem(err, "an engine's lock", sizeof engine->wake);
    }
    if (pthread_cond_init(&engine->answered, NULL) != 0) {
        (void)pthread_cond_destroy(&engine->wake);
        (void)pthread_mutex_destroy(&engine->lock);
        return lk_fail_nomem(err, "an engine's lock", sizeof engine->answered);
    }
    engine->has_lock = true;
    lk_update_view(engine);
    engine->has_thread = pthread_create(&engine->thread, NULL, run_engine, engine) == 0;
    return engine->has_thread ? LK_OK : lk_fail_nomem(err, "an engine's thread", 0);
}

lk_status lk_engine_build(const lk_context_source *source, const lk_engine_params *params,
                          lk_engine **out, lk_error *err) {
    *out = NULL;
    lk_status status =
        lk_check_struct_size("lk_engine_params", params->struct_size, sizeof *params, err);
    if (status != LK_OK) {
        return status;
    }
    const lk_allocator *a = lk_allocator_or_default(params->allocator);
    lk_engine *engine = lk_alloc_zero(a, sizeof *engine);
    if (engine == NULL) {
        return lk_fail_nomem(err, "an engine", sizeof *engine);
    }
    engine->allocator = a;
    engine->tokenizer = source->model != NULL ? lk_model_tokenizer(source->model) : NULL;
    status = fill_params(engine, source, params, err);
    if (status == LK_OK) {
        status = create_context(engine, source, err);
    }
    if (status == LK_OK) {
        status = allocate(engine, err);
    }
    if (status == LK_OK) {
        engine->stats = LK_ENGINE_STATS_INIT;
        engine->stats.n_ctx = engine->params.n_ctx;
        engine->stats.kv_positions = engine->params.kv_positions;
        engine->stats.n_slots = engine->params.n_slots;
        engine->stats.max_queued = engine->params.max_queued;
        engine->stats.pages_total = engine->context->kv.pages.n_pages;
        status = start(engine, err);
    }
    if (status != LK_OK) {
        lk_engine_free(engine);
        return status;
    }
    *out = engine;
    return LK_OK;
}

void lk_engine_free(lk_engine *engine) {
    if (engine == NULL) {
        return;
    }
    const lk_allocator *a = engine->allocator;
    const size_t n_slots = (size_t)engine->params.n_slots;
    const size_t max_rows = (size_t)engine->params.max_rows;
    const size_t n_pages = engine->context != NULL ? engine->context->kv.pages.n_pages : 0;
    const size_t width =
        engine->context != NULL ? lk_graph_hidden_width(engine->context->graph) : 0;
    if (engine->has_thread) {
        (void)pthread_mutex_lock(&engine->lock);
        engine->wants_stop = true;
        atomic_store(&engine->context->wants_cancel, 1);
        (void)pthread_cond_signal(&engine->wake);
        (void)pthread_mutex_unlock(&engine->lock);
        (void)pthread_join(engine->thread, NULL);
    }
    if (engine->has_lock) {
        (void)pthread_cond_destroy(&engine->answered);
        (void)pthread_cond_destroy(&engine->wake);
        (void)pthread_mutex_destroy(&engine->lock);
    }
    lk_prefix_deinit(&engine->cache);
    lk_free_array(a, engine->pooled, width + 1, sizeof engine->pooled[0]);
    lk_free_array(a, engine->firsts, n_slots, sizeof engine->firsts[0]);
    lk_free_array(a, engine->samplings, n_slots, sizeof engine->samplings[0]);
    lk_free_array(a, engine->stamps, n_pages, sizeof engine->stamps[0]);
    lk_free_array(a, engine->found, n_pages, sizeof engine->found[0]);
    lk_free_array(a, engine->row_status, max_rows, sizeof engine->row_status[0]);
    lk_free_array(a, engine->embeddings, max_rows, sizeof(const float *));
    lk_free_array(a, engine->rows, max_rows, sizeof engine->rows[0]);
    lk_free_array(a, engine->slot_used, n_slots, sizeof engine->slot_used[0]);
    lk_free_array(a, engine->stepping, n_slots, sizeof(lk_choice *));
    lk_free_array(a, engine->by_slot, n_slots, sizeof(lk_choice *));
    lk_free_array(a, engine->running, n_slots, sizeof(lk_choice *));
    lk_free_array(a, engine->view, n_slots, sizeof engine->view[0]);
    lk_context_free(engine->context);
    lk_free(a, engine, sizeof *engine);
}

/* ---- requests ---- */

/* With the lock. */
static lk_status check_queue(const lk_engine *engine, int32_t n_choices, lk_error *err) {
    if (engine->wants_stop) {
        return lk_fail(err, LK_E_CANCELLED, LK_NOWHERE, "the engine is ending");
    }
    const lk_status status =
        lk_check_range("n_choices", n_choices, 1, engine->params.max_queued, err);
    if (status != LK_OK) {
        return status;
    }
    if (n_choices > engine->params.max_queued - engine->stats.n_waiting) {
        return lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT("queue"),
                       "%d sequences wait already, at most %d may", engine->stats.n_waiting,
                       engine->params.max_queued);
    }
    return LK_OK;
}

lk_status lk_engine_enqueue(lk_engine *engine, const lk_request_params *params, lk_request **out,
                            lk_error *err) {
    lk_request *request = NULL;
    lk_status status = lk_request_create(engine, params, &request, err);
    if (status != LK_OK) {
        return status;
    }
    (void)pthread_mutex_lock(&engine->lock);
    status = check_queue(engine, request->n_choices, err);
    if (status == LK_OK) {
        *out = request;
        request->id = ++engine->stats.n_requests;
        for (int32_t i = 0; i < request->n_choices; i++) {
            request->choices[i].arrival = ++engine->n_arrived;
            lk_queue_add(engine, &request->choices[i]);
        }
        (void)pthread_cond_signal(&engine->wake);
    }
    (void)pthread_mutex_unlock(&engine->lock);
    if (status != LK_OK) {
        lk_request_drop(request);
        lk_request_drop(request);
    }
    return status;
}
