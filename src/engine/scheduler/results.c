/* results.c - one step: rows to logits, logits to tokens, tokens to events. Runs without the
 * engine's lock; what a choice has come to is left in its `ending` for the scheduler. */
#include "base/alloc.h"
#include "base/error.h"
#include "engine/scheduler/scheduler.h"
#include "ops/math.h"

/* ---- logprobs ---- */

/* log(sum exp l): subtracted from a logit it gives the logarithm of its probability. */
static double log_sum(const float *logits, uint32_t n) {
    float most = logits[0];
    double sum = 0;
    for (uint32_t i = 1; i < n; i++) {
        most = logits[i] > most ? logits[i] : most;
    }
    for (uint32_t i = 0; i < n; i++) {
        sum += (double)lk_expf(logits[i] - most);
    }
    return (double)most + lk_log(sum);
}

/* The n_top largest logits, best first, the lower id first on a tie. */
static int32_t find_top(const float *logits, uint32_t n, double total, int32_t n_top,
                        lk_token_logprob *top) {
    int32_t n_found = 0;
    for (uint32_t i = 0; i < n; i++) {
        const float value = (float)((double)logits[i] - total);
        if (n_found == n_top && !(value > top[n_found - 1].logprob)) {
            continue;
        }
        int32_t k = n_found < n_top ? n_found++ : n_top - 1;
        for (; k > 0 && value > top[k - 1].logprob; k--) {
            top[k] = top[k - 1];
        }
        top[k] = (lk_token_logprob){(int32_t)i, value};
    }
    return n_found;
}

/* top [LK_MAX_TOP_LOGPROBS] must stay as long as the event. */
static void add_logprobs(const lk_engine *engine, const lk_choice *choice, const float *logits,
                         lk_token_logprob *top, lk_event *event) {
    const uint32_t n_vocab = engine->context->graph->n_vocab;
    const double total = log_sum(logits, n_vocab);
    event->logprob = (float)((double)logits[event->token] - total);
    if (choice->request->n_top > 0) {
        event->n_top = find_top(logits, n_vocab, total, choice->request->n_top, top);
        event->top = top;
    }
}

/* ---- events ---- */

static int send(const lk_choice *choice, const lk_event *event) {
    return choice->request->on_event(choice->request->ctx, event);
}

void lk_end_choice(lk_choice *choice, lk_finish finish, const lk_error *error) {
    lk_request *r = choice->request;
    const lk_event end = {
        .kind = LK_EVENT_END,
        .choice = choice->index,
        .finish = finish,
        .error = finish == LK_FINISH_ERROR ? error : NULL,
        .n_prompt = (int64_t)r->n_prompt,
        .n_cached = choice->n_cached < 0 ? 0 : choice->n_cached,
        .n_generated = choice->n_generated,
    };
    (void)send(choice, &end);
    lk_sampler_free(choice->sampler);
    choice->sampler = NULL;
    if (--r->n_open == 0) {
        const lk_event done = {.kind = LK_EVENT_DONE};
        (void)send(choice, &done);
        lk_request_finish(r);
    }
}

static lk_status send_prompt_token(lk_engine *engine, lk_choice *choice, const float *logits) {
    const int64_t i = choice->n_prompt_events++;
    lk_event event = {
        .kind = LK_EVENT_PROMPT_TOKEN,
        .choice = choice->index,
        .token = choice->request->prompt[i],
        .pos = i,
    };
    if (logits != NULL) {
        add_logprobs(engine, choice, logits, engine->top, &event);
    }
    (void)send(choice, &event);
    return LK_OK;
}

static void send_embedding(lk_engine *engine, lk_choice *choice) {
    const lk_request *r = choice->request;
    lk_event event = {
        .kind = LK_EVENT_EMBEDDING,
        .choice = choice->index,
        .n_prompt = (int64_t)r->n_prompt,
        .n_cached = choice->n_cached,
        .embedding = engine->pooled,
        .n_embedding = (int64_t)r->hidden_width,
    };
    lk_pooling_finish(choice, engine->pooled);
    if ((r->flags & LK_REQUEST_DIGESTS) != 0) {
        lk_logits_digest(engine->pooled, r->hidden_width, event.digest);
    }
    (void)send(choice, &event);
}

/* ---- sampling ---- */

static lk_status make_sampler(const lk_engine *engine, lk_choice *choice, lk_error *err) {
    const lk_request *r = choice->request;
    lk_sampler_params params = r->sampler;
    params.choice += (uint32_t)choice->index;
    const int32_t n_vocab = (int32_t)engine->context->graph->n_vocab;
    lk_status status = lk_sampler_build(&params, n_vocab, &choice->sampler, err);
    for (size_t i = 0; i < r->n_prompt && status == LK_OK; i++) {
        status = lk_sampler_note(choice->sampler, r->prompt[i], err);
    }
    if (status == LK_OK && r->grammar != NULL) {
        status = lk_sampler_constrain(choice->sampler, r->grammar, r->trie, err);
    }
    return status;
}

/* The token that follows the last row of the choice; appends it to what it has. */
static lk_status sample(const lk_engine *engine, lk_choice *choice, const float *logits,
                        lk_sample *chosen, lk_error *err) {
    const int64_t pos = lk_choice_length(choice) - 1;
    lk_status status = LK_OK;
    if (choice->sampler == NULL) {
        status = make_sampler(engine, choice, err);
    }
    if (status == LK_OK) {
        status = lk_sampler_choose(choice->sampler, logits, pos, chosen, err);
    }
    if (status == LK_OK) {
        status = lk_sampler_note(choice->sampler, chosen->token, err);
    }
    if (status != LK_OK) {
        return status;
    }
    const size_t n = (size_t)choice->n_generated;
    if (n == choice->capacity) {
        void *grown = choice->generated;
        if (!lk_grow_array(choice->request->allocator, &grown, n, &choice->capacity, n + 16,
                           sizeof choice->generated[0])) {
            return lk_fail_nomem(err, "the tokens of a request", n * sizeof(int32_t));
        }
        choice->generated = grown;
    }
    choice->generated[n] = chosen->token;
    choice->n_generated++;
    return LK_OK;
}

/* Whether the choice ends with the token that was just sampled and reported. */
static lk_finish ending_of(const lk_engine *engine, const lk_choice *choice, int32_t token,
                           bool goes_on) {
    const lk_request *r = choice->request;
    if (engine->tokenizer != NULL && lk_tokenizer_is_end(engine->tokenizer, token)) {
        return LK_FINISH_END;
    }
    if (!goes_on) {
        return LK_FINISH_STOP;
    }
    if (choice->sampler->matcher != NULL &&
        lk_matcher_progress(choice->sampler->matcher) == LK_GRAMMAR_COMPLETE) {
        return LK_FINISH_END;
    }
    const bool is_long = r->max_tokens >= 0 && choice->n_generated >= r->max_tokens;
    const bool is_full = lk_choice_length(choice) - 1 >= engine->params.n_ctx;
    return is_long || is_full ? LK_FINISH_LENGTH : 0;
}

/* A task: samples one token and makes its event. Touches nothing but what belongs to the choice. */
static void run_sampling(void *arg, uint32_t i_task, uint32_t i_thread) {
    lk_engine *engine = arg;
    lk_sampling *s = &engine->samplings[i_task];
    lk_choice *choice = s->choice;
    const lk_request *r = choice->request;
    lk_sample chosen = {0};
    (void)i_thread;
    s->status = sample(engine, choice, s->logits, &chosen, &choice->error);
    if (s->status != LK_OK) {
        return;
    }
    s->event = (lk_event){
        .kind = LK_EVENT_TOKEN,
        .choice = choice->index,
        .token = chosen.token,
        .pos = lk_choice_length(choice) - 1,
        .probability = chosen.probability,
        .n_prompt = (int64_t)r->n_prompt,
        .n_cached = choice->n_cached,
        .n_generated = choice->n_generated,
    };
    if ((r->flags & LK_REQUEST_DIGESTS) != 0) {
        lk_logits_digest(s->logits, engine->context->graph->n_vocab, s->event.digest);
    }
    if ((r->flags & LK_REQUEST_LOGPROBS) != 0) {
        add_logprobs(engine, choice, s->logits, s->top, &s->event);
    }
}

/* Reports samplings [first, end), of one request or of all. */
static void send_tokens(lk_engine *engine, uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; i++) {
        const lk_sampling *s = &engine->samplings[i];
        if (s->status != LK_OK) {
            s->choice->ending = LK_FINISH_ERROR;
            continue;
        }
        const int goes_on = send(s->choice, &s->event);
        s->choice->ending = ending_of(engine, s->choice, s->event.token, goes_on != 0);
    }
}

/* A task: reports the tokens of one request. Choices of one request stand beside each other. */
static void run_sending(void *arg, uint32_t i_task, uint32_t i_thread) {
    lk_engine *engine = arg;
    const uint32_t first = engine->firsts[i_task];
    const lk_request *r = engine->samplings[first].choice->request;
    uint32_t end = first + 1;
    (void)i_thread;
    while (end < engine->n_samplings && engine->samplings[end].choice->request == r) {
        end++;
    }
    send_tokens(engine, first, end);
}

/* Samples for all choices of the step that have got their logits. */
static void sample_and_send(lk_engine *engine) {
    lk_context *c = engine->context;
    c->ops->run_tasks(c->backend, run_sampling, engine, engine->n_samplings);
    if ((engine->params.flags & LK_ENGINE_PARALLEL_EVENTS) == 0) {
        send_tokens(engine, 0, engine->n_samplings);
        return;
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < engine->n_samplings; i++) {
        const lk_sampling *s = &engine->samplings[i];
        if (i == 0 || s->choice->request != s[-1].choice->request) {
            engine->firsts[n++] = i;
        }
    }
    c->ops->run_tasks(c->backend, run_sending, engine, n);
}

/* ---- one step ---- */

static lk_status take_hidden(lk_engine *engine, lk_choice *choice, size_t i_row, lk_error *err) {
    const float *hidden = NULL;
    if ((engine->rows[i_row].flags & LK_ROW_HIDDEN) == 0) {
        return LK_OK;
    }
    const lk_status status =
        lk_context_find_out(engine->context, LK_OUT_HIDDEN, i_row, &hidden, err);
    return status == LK_OK ? lk_pooling_add(choice, hidden, err) : status;
}

static lk_status take_rows(lk_engine *engine, lk_choice *choice, lk_error *err) {
    const lk_request *r = choice->request;
    const bool wants_prompt = (r->flags & LK_REQUEST_PROMPT_LOGPROBS) != 0 && choice->index == 0;
    if (wants_prompt && choice->n_prompt_events == 0) {
        (void)send_prompt_token(engine, choice, NULL);
    }
    for (uint32_t k = 0; k < choice->n_step_rows; k++) {
        const size_t i_row = choice->i_step_row + k;
        const int64_t pos = engine->rows[i_row].pos;
        const float *logits = NULL;
        lk_status status = take_hidden(engine, choice, i_row, err);
        if (status == LK_OK && (engine->rows[i_row].flags & LK_ROW_LOGITS) != 0) {
            status = lk_context_find_out(engine->context, LK_OUT_LOGITS, i_row, &logits, err);
        }
        if (status == LK_OK && logits != NULL && wants_prompt &&
            pos + 1 == choice->n_prompt_events && pos + 1 < (int64_t)r->n_prompt) {
            status = send_prompt_token(engine, choice, logits);
        } else if (status == LK_OK && logits != NULL && pos == lk_choice_length(choice) - 1) {
            lk_sampling *s = &engine->samplings[engine->n_samplings++];
            s->choice = choice;
            s->logits = logits;
            return LK_OK;
        }
        if (status != LK_OK) {
            return status;
        }
    }
    if (r->max_tokens == 0 && lk_choice_pending(engine, choice) == 0) {
        choice->ending = r->pooling != LK_POOLING_NONE ? LK_FINISH_END : LK_FINISH_LENGTH;
        if (r->pooling != LK_POOLING_NONE) {
            send_embedding(engine, choice);
        }
    }
    return LK_OK;
}

/* The first row of a choice that is not finite itself. */
static lk_status fail_choice_rows(const lk_engine *engine, const lk_choice *choice, lk_error *err) {
    const lk_row_status *bad = &engine->row_status[choice->i_step_row];
    const lk_row *row = &engine->rows[choice->i_step_row];
    for (uint32_t k = 0; k < choice->n_step_rows; k++) {
        if (engine->row_status[choice->i_step_row + k].op[0] != '\0') {
            bad = &engine->row_status[choice->i_step_row + k];
            row = &engine->rows[choice->i_step_row + k];
            break;
        }
    }
    return lk_fail(err, LK_E_NONFINITE, LK_AT_ROW(row->seq, row->pos),
                   "position %lld: a value is not finite (layer %d, operator %s)",
                   (long long)row->pos, bad->layer, bad->op);
}

void lk_compute_step(lk_engine *engine) {
    lk_error step_error;
    const lk_status step_status = lk_context_run(engine->context, engine->rows, engine->embeddings,
                                                 engine->n_rows, engine->row_status, &step_error);
    if (step_status == LK_E_CANCELLED) {
        return; /* the engine ends; nothing was committed */
    }
    engine->n_samplings = 0;
    for (int32_t i = 0; i < engine->n_stepping; i++) {
        lk_choice *choice = engine->stepping[i];
        lk_status status = step_status;
        if (step_status != LK_OK && step_status != LK_E_ROWS) {
            choice->error = step_error;
        } else if (engine->row_status[choice->i_step_row].status != LK_OK) {
            status = fail_choice_rows(engine, choice, &choice->error);
        } else {
            status = take_rows(engine, choice, &choice->error);
        }
        if (status != LK_OK) {
            choice->ending = LK_FINISH_ERROR;
        }
    }
    sample_and_send(engine);
}
