/* serve_job.c - see serve_job.h. */
#include "serve_job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "serve_counters.h"
#include "shared/console.h"

bool serve_fail_status(serve_problem *problem, const lk_error *err) {
    switch (err->status) {
    case LK_E_ARG:
        return serve_fail(problem, 400, "invalid_value", err->subject, "%s", err->message);
    case LK_E_LIMIT:
        if (strcmp(err->subject, "queue") == 0) {
            return serve_fail(problem, 503, "queue_full", NULL,
                              "the server is busy: %s; try again later", err->message);
        }
        return serve_fail(problem, 400,
                          strcmp(err->subject, "prompt") == 0 ? "context_length_exceeded"
                                                              : "out_of_range",
                          err->subject, "%s", err->message);
    case LK_E_CANCELLED:
        return serve_fail(problem, 503, "shutting_down", NULL, "the server is shutting down");
    case LK_E_UNSUPPORTED:
    case LK_E_FORMAT:
        return serve_fail(problem, 400, "unsupported_value", err->subject, "%s", err->message);
    default:
        return serve_fail(problem, 500, lk_status_name(err->status), err->subject, "%s",
                          err->message);
    }
}

/* ---- life ---- */

static void tokens_free(serve_tokens *tokens) {
    free(tokens->items);
    free(tokens->tops);
}

static void job_free(serve_job *job) {
    for (size_t i = 0; i < job->n_choices; i++) {
        lk_text_stream_deinit(&job->choices[i].stream);
        serve_answer_free(&job->choices[i].answer);
        free(job->choices[i].text.data);
        tokens_free(&job->choices[i].tokens);
        free(job->choices[i].embedding);
    }
    for (size_t i = 0; job->prompts != NULL && i < job->settings.n_prompts; i++) {
        lk_request_release(job->prompts[i].request);
        free(job->prompts[i].ids);
        tokens_free(&job->prompts[i].echoed);
    }
    for (size_t i = 0; i < job->n_clips; i++) {
        free(job->vectors[i].values);
    }
    free(job->event_head.data);
    free(job->choices);
    free(job->prompts);
    free(job->biases);
    lk_grammar_destroy(job->grammar);
    serve_settings_free(&job->settings);
    (void)pthread_mutex_destroy(&job->lock);
    free(job);
}

/* A seed that every JSON reader keeps exactly. */
static bool draw_seed(uint64_t *seed) {
    const bool ok = getrandom(seed, sizeof *seed, 0) == (ssize_t)sizeof *seed;
    *seed >>= 12;
    return ok;
}

/* The biases of the request, and those that ban the end tokens. */
static bool make_biases(serve_job *job) {
    const serve_settings *s = &job->settings;
    const int32_t n_vocab = lk_tokenizer_n_vocab(job->tokenizer);
    size_t n = (size_t)s->sampler.n_logit_bias;
    size_t n_ends = 0;
    for (int32_t id = 0; s->ignore_eos && id < n_vocab; id++) {
        n_ends += lk_tokenizer_is_end(job->tokenizer, id) != 0;
    }
    job->biases = calloc(n + n_ends + 1, sizeof job->biases[0]);
    if (job->biases == NULL) {
        return false;
    }
    if (n > 0) {
        memcpy(job->biases, s->biases, n * sizeof job->biases[0]);
    }
    for (int32_t id = 0; s->ignore_eos && id < n_vocab; id++) {
        if (lk_tokenizer_is_end(job->tokenizer, id)) {
            job->biases[n++] = (lk_logit_bias){id, -INFINITY};
        }
    }
    job->sampler = s->sampler;
    job->sampler.n_logit_bias = (int32_t)n;
    job->sampler.logit_bias = job->biases;
    return s->has_seed || draw_seed(&job->sampler.seed);
}

static void make_id(serve_job *job) {
    uint64_t words[2] = {0, 0};
    (void)!getrandom(words, sizeof words, 0);
    (void)snprintf(job->id, sizeof job->id, "%s-%08llx%08llx",
                   job->settings.kind == SERVE_CHAT ? "chatcmpl" : "cmpl",
                   (unsigned long long)(words[0] & 0xffffffffu),
                   (unsigned long long)(words[1] & 0xffffffffu));
    job->created = (int64_t)time(NULL);
}

serve_job *serve_job_create(serve_settings *settings, const lk_tokenizer *tokenizer,
                            serve_counters *counters) {
    serve_job *job = calloc(1, sizeof *job);
    if (job == NULL || pthread_mutex_init(&job->lock, NULL) != 0) {
        free(job);
        serve_settings_free(settings);
        return NULL;
    }
    job->settings = *settings;
    job->tokenizer = tokenizer;
    job->call_syntax = "";
    job->counters = counters;
    job->n_holders = 1;
    job->prompts = calloc(settings->n_prompts, sizeof job->prompts[0]);
    const size_t n_choices = settings->n_prompts * (size_t)settings->n;
    job->choices = calloc(n_choices, sizeof job->choices[0]);
    if (job->prompts == NULL || job->choices == NULL || !make_biases(job)) {
        job_free(job);
        return NULL;
    }
    job->n_choices = n_choices;
    for (size_t i = 0; i < n_choices; i++) {
        job->choices[i].stream.stops = job->settings.stops;
        job->choices[i].stream.n_stops = job->settings.n_stops;
    }
    for (size_t i = 0; i < settings->n_prompts; i++) {
        job->prompts[i].job = job;
        job->prompts[i].i_first = i * (size_t)settings->n;
    }
    make_id(job);
    return job;
}

void serve_job_hold(serve_job *job) {
    (void)pthread_mutex_lock(&job->lock);
    job->n_holders++;
    (void)pthread_mutex_unlock(&job->lock);
}

void serve_job_drop(serve_job *job) {
    if (job == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&job->lock);
    const bool is_last = --job->n_holders == 0;
    (void)pthread_mutex_unlock(&job->lock);
    if (is_last) {
        job_free(job);
    }
}

/* ---- events ---- */

static bool grow(void **items, size_t *capacity, size_t wanted, size_t size) {
    if (wanted <= *capacity) {
        return true;
    }
    const size_t larger = 2 * wanted + 8;
    void *grown = realloc(*items, larger * size);
    if (grown == NULL) {
        return false;
    }
    *items = grown;
    *capacity = larger;
    return true;
}

static bool add_token(serve_tokens *tokens, const lk_event *event) {
    void *items = tokens->items;
    void *tops = tokens->tops;
    const size_t n_top = (size_t)event->n_top;
    const bool ok = grow(&items, &tokens->capacity, tokens->n + 1, sizeof tokens->items[0]) &&
                    (n_top == 0 || grow(&tops, &tokens->tops_capacity, tokens->n_tops + n_top,
                                        sizeof tokens->tops[0]));
    tokens->items = items;
    tokens->tops = tops;
    if (!ok) {
        return false;
    }
    serve_token *token = &tokens->items[tokens->n++];
    *token = (serve_token){event->token, event->n_top, tokens->n_tops, event->logprob, {0}};
    memcpy(token->digest, event->digest, sizeof token->digest);
    if (n_top > 0) {
        memcpy(tokens->tops + tokens->n_tops, event->top, n_top * sizeof tokens->tops[0]);
        tokens->n_tops += n_top;
    }
    return true;
}

/* Control tokens are no text, unless they are marks, which the answer is taken apart by. */
static uint32_t text_flags(const serve_job *job, const serve_choice *choice, int32_t token) {
    size_t n = 0;
    const char *text = lk_tokenizer_token_text(job->tokenizer, token, &n);
    return choice->answer.has_marks &&
                   lk_tokenizer_token_type(job->tokenizer, token) == LK_TOKEN_CONTROL &&
                   !lk_tokenizer_is_end(job->tokenizer, token) &&
                   lk_chat_syntax_has_mark(job->call_syntax, text, n)
               ? LK_DETOKENIZE_SPECIAL
               : 0;
}

static bool push_text(serve_choice *choice, const char *bytes, size_t n) {
    return choice->answer.parser != NULL
               ? serve_answer_push(&choice->answer, bytes, n)
               : lk_text_stream_push(&choice->stream, bytes, n, &choice->text);
}

static bool add_text(const serve_job *job, serve_choice *choice, int32_t token) {
    char small[256];
    char *bytes = small;
    size_t n = 0;
    const uint32_t flags = text_flags(job, choice, token);
    lk_status status =
        lk_tokenizer_token_bytes(job->tokenizer, token, flags, small, sizeof small, &n, NULL);
    if (status == LK_E_LIMIT && (bytes = malloc(n)) != NULL) {
        status = lk_tokenizer_token_bytes(job->tokenizer, token, flags, bytes, n, &n, NULL);
    }
    const bool ok = status == LK_OK && push_text(choice, bytes, n);
    if (bytes != small) {
        free(bytes);
    }
    return ok;
}

static void fail_memory(serve_choice *choice) {
    choice->error.status = LK_E_NOMEM;
    (void)snprintf(choice->error.message, sizeof choice->error.message,
                   "out of memory for the answer");
}

/* Whether the choice goes on. */
static int take_token(serve_job *job, serve_choice *choice, const lk_event *event) {
    const double now = lk_console_seconds();
    serve_counters *counters = job->counters;
    (void)pthread_mutex_lock(&counters->lock);
    if (event->n_generated == 1) {
        serve_observe(&counters->first_token_s, now - job->start_s);
    } else {
        serve_observe(&counters->next_token_s, now - job->last_s);
    }
    (void)pthread_mutex_unlock(&counters->lock);
    job->first_s = job->first_s == 0 ? now : job->first_s;
    job->last_s = now;
    choice->n_cached = event->n_cached;
    if (!add_token(&choice->tokens, event) || !add_text(job, choice, event->token)) {
        fail_memory(choice);
        return 0;
    }
    return !choice->stream.is_stopped && !choice->answer.is_full;
}

static void end_choice(serve_job *job, serve_choice *choice, const lk_event *event) {
    choice->n_cached = event->n_cached;
    if (event->error != NULL) {
        choice->error = *event->error;
    }
    choice->finish = choice->error.status != LK_OK ? LK_FINISH_ERROR : event->finish;
    if (choice->answer.parser != NULL ? !serve_answer_finish(&choice->answer)
                                      : !lk_text_stream_finish(&choice->stream, &choice->text)) {
        fail_memory(choice);
        choice->finish = LK_FINISH_ERROR;
    }
    if (choice->finish == LK_FINISH_ERROR) {
        (void)pthread_mutex_lock(&job->counters->lock);
        job->counters->errors[choice->error.status & 31]++;
        (void)pthread_mutex_unlock(&job->counters->lock);
    }
}

static void count_end(serve_job *job) {
    (void)pthread_mutex_lock(&job->counters->lock);
    serve_observe(&job->counters->whole_s, lk_console_seconds() - job->start_s);
    job->counters->open_jobs--;
    (void)pthread_mutex_unlock(&job->counters->lock);
}

static void take_embedding(serve_choice *choice, const lk_event *event) {
    const size_t n = (size_t)event->n_embedding;
    choice->embedding = malloc(n * sizeof choice->embedding[0]);
    if (choice->embedding == NULL) {
        fail_memory(choice);
        return;
    }
    memcpy(choice->embedding, event->embedding, n * sizeof choice->embedding[0]);
    choice->n_embedding = n;
}

static bool submit_next(serve_job *job, serve_problem *problem);

/* One prompt is done: its place is for the next one, where some wait. */
static void go_on(serve_job *job) {
    serve_problem problem;
    if (job->settings.kind == SERVE_EMBEDDING && !submit_next(job, &problem)) {
        (void)pthread_mutex_lock(&job->lock);
        job->problem = problem;
        (void)pthread_mutex_unlock(&job->lock);
    }
}

static int on_event(void *ctx, const lk_event *event) {
    serve_prompt *prompt = ctx;
    serve_job *job = prompt->job;
    serve_choice *choice = &job->choices[prompt->i_first + (size_t)event->choice];
    int goes_on = 1;
    if (event->kind == LK_EVENT_DONE) {
        go_on(job);
    }
    (void)pthread_mutex_lock(&job->lock);
    switch (event->kind) {
    case LK_EVENT_PROMPT_TOKEN:
        if (!add_token(&prompt->echoed, event)) {
            fail_memory(choice);
        }
        break;
    case LK_EVENT_TOKEN:
        goes_on = take_token(job, choice, event);
        break;
    case LK_EVENT_EMBEDDING:
        take_embedding(choice, event);
        break;
    case LK_EVENT_END:
        end_choice(job, choice, event);
        /* A list of embeddings is whole or it is nothing. */
        job->is_cancelled = job->is_cancelled || (job->settings.kind == SERVE_EMBEDDING &&
                                                  choice->finish != LK_FINISH_END);
        break;
    case LK_EVENT_DONE:
        if (--job->n_open == 0) {
            count_end(job);
        }
        break;
    }
    if (job->wake_ctx != NULL && (job->wants_all || job->n_open == 0)) {
        job->wake(job->wake_ctx);
    }
    (void)pthread_mutex_unlock(&job->lock);
    if (event->kind == LK_EVENT_DONE) {
        serve_job_drop(job);
    }
    return goes_on;
}

/* ---- the engine ---- */

/* Which field the rules of calls came from. */
static bool fail_tools(serve_problem *problem, const lk_error *err) {
    const char *param = "tools";
    if (err->status == LK_E_NOMEM || err->status == LK_E_INTERNAL) {
        return serve_fail(problem, 500, "out_of_memory", NULL, "%s", err->message);
    }
    if (strcmp(err->subject, "tool_choice") == 0) {
        param = err->subject;
    } else if (strcmp(err->subject, "content") == 0) {
        param = "response_format";
    }
    return serve_fail(problem, 400,
                      err->status == LK_E_UNSUPPORTED ? "unsupported_value" : "invalid_value",
                      param, "%s", err->message);
}

bool serve_job_constrain(serve_job *job, const lk_token_trie *trie, serve_problem *problem) {
    const char *text = job->settings.grammar_text;
    const size_t n = text != NULL ? strlen(text) : 0;
    lk_error err;
    lk_status status = LK_OK;
    job->trie = trie;
    switch (job->settings.grammar) {
    case SERVE_GBNF:
        status = lk_grammar_create_gbnf(text, n, NULL, &job->grammar, &err);
        break;
    case SERVE_JSON_SCHEMA:
        status = lk_grammar_create_json_schema(text, n, NULL, &job->grammar, &err);
        break;
    case SERVE_JSON_OBJECT:
        status = lk_grammar_create_json_object(NULL, &job->grammar, &err);
        break;
    case SERVE_TOOL_CALLS:
        status = lk_grammar_create_tool_calls(text, n, NULL, &job->grammar, &err);
        return status == LK_OK || fail_tools(problem, &err);
    default:
        break;
    }
    if (status == LK_OK || status == LK_E_NOMEM) {
        return status == LK_OK || serve_fail_status(problem, &err);
    }
    return serve_fail(problem, 400, "invalid_value",
                      job->settings.grammar == SERVE_GBNF ? "grammar" : "response_format", "%s",
                      err.message);
}

/* What is left of the job's time, at least a millisecond; 0: any. */
static uint32_t time_left_ms(const serve_job *job) {
    const double left = (double)job->timeout_ms - 1000 * (lk_console_seconds() - job->start_s);
    if (job->timeout_ms == 0) {
        return 0;
    }
    return left > 1 ? (uint32_t)left : 1;
}

static bool submit(serve_job *job, serve_prompt *prompt, serve_problem *problem) {
    const serve_settings *s = &job->settings;
    lk_error err;
    lk_request_params params = LK_REQUEST_PARAMS_INIT;
    lk_sampler_params sampler = job->sampler;
    /* Choices of several prompts differ as those of one do. */
    sampler.choice = (uint32_t)prompt->i_first;
    params.prompt = prompt->ids;
    params.n_prompt = prompt->n_ids;
    params.media = job->spans;
    params.n_media = job->n_clips;
    params.sampler = &sampler;
    params.max_tokens = s->max_tokens;
    params.n_choices = (int32_t)s->n;
    params.n_top_logprobs = s->logprobs ? (int32_t)s->n_top : 0;
    params.flags =
        (s->receipt ? LK_REQUEST_DIGESTS : 0u) | (s->logprobs ? LK_REQUEST_LOGPROBS : 0u) |
        (s->logprobs && s->echo ? LK_REQUEST_PROMPT_LOGPROBS : 0u) |
        (s->cache_prompt ? 0u : LK_REQUEST_NO_CACHE) | (s->normalise ? LK_REQUEST_NORMALISE : 0u);
    params.timeout_ms = time_left_ms(job);
    params.on_event = on_event;
    params.ctx = prompt;
    params.grammar = job->grammar;
    params.trie = job->grammar != NULL ? job->trie : NULL;
    params.pooling = s->pooling;
    (void)pthread_mutex_lock(&job->lock);
    job->n_holders++;
    job->n_open++;
    (void)pthread_mutex_unlock(&job->lock);
    lk_request *request = NULL;
    const lk_status status = lk_engine_submit(job->engine, &params, &request, &err);
    (void)pthread_mutex_lock(&job->lock);
    /* Who cancelled the job meanwhile has not met this one. */
    lk_request *unwanted = job->is_cancelled ? request : NULL;
    prompt->request = unwanted == NULL ? request : NULL;
    if (status != LK_OK) {
        job->n_holders--; /* the caller holds the job still, and serve_job_start keeps it open */
        job->n_open--;
    }
    (void)pthread_mutex_unlock(&job->lock);
    lk_request_release(unwanted);
    if (status == LK_OK) {
        return true;
    }
    (void)serve_fail_status(problem, &err);
    if (s->kind == SERVE_EMBEDDING && strcmp(problem->param, "prompt") == 0) {
        (void)snprintf(problem->param, sizeof problem->param, "input");
    }
    return false;
}

/* The next prompt, where there is one and the job goes on. */
static bool submit_next(serve_job *job, serve_problem *problem) {
    (void)pthread_mutex_lock(&job->lock);
    const bool has_next = job->n_submitted < job->settings.n_prompts && !job->is_cancelled;
    const size_t i = has_next ? job->n_submitted++ : 0;
    (void)pthread_mutex_unlock(&job->lock);
    if (!has_next || submit(job, &job->prompts[i], problem)) {
        return true;
    }
    serve_job_cancel(job);
    return false;
}

bool serve_job_start(serve_job *job, lk_engine *engine, uint32_t timeout_ms, size_t n_at_once,
                     serve_problem *problem) {
    const size_t n_prompts = job->settings.n_prompts;
    const bool in_turn = job->settings.kind == SERVE_EMBEDDING && n_at_once < n_prompts;
    job->start_s = lk_console_seconds();
    job->engine = engine;
    job->timeout_ms = timeout_ms;
    (void)pthread_mutex_lock(&job->counters->lock);
    job->counters->jobs++;
    job->counters->open_jobs++;
    (void)pthread_mutex_unlock(&job->counters->lock);
    (void)pthread_mutex_lock(&job->lock);
    job->n_open++; /* so that the first prompts do not end the job alone */
    (void)pthread_mutex_unlock(&job->lock);
    bool ok = true;
    for (size_t i = 0; i < (in_turn ? n_at_once : n_prompts) && ok; i++) {
        ok = submit_next(job, problem);
    }
    (void)pthread_mutex_lock(&job->lock);
    if (--job->n_open == 0) {
        count_end(job);
    }
    (void)pthread_mutex_unlock(&job->lock);
    return ok;
}

bool serve_job_is_done(serve_job *job) {
    (void)pthread_mutex_lock(&job->lock);
    const bool is_done = job->n_open == 0 && job->n_submitted == job->settings.n_prompts;
    (void)pthread_mutex_unlock(&job->lock);
    return is_done;
}

void serve_job_cancel(serve_job *job) {
    (void)pthread_mutex_lock(&job->lock);
    job->is_cancelled = true;
    for (size_t i = 0; i < job->settings.n_prompts; i++) {
        lk_request *request = job->prompts[i].request;
        job->prompts[i].request = NULL;
        if (request != NULL) {
            (void)pthread_mutex_unlock(&job->lock);
            lk_request_release(request);
            (void)pthread_mutex_lock(&job->lock);
        }
    }
    (void)pthread_mutex_unlock(&job->lock);
}
