/* server_generate.c - the endpoints that generate text: decode the request, make its prompts, hand
 * the job to the engine, and answer at once (a stream) or when all is there. */
#include <stdlib.h>
#include <string.h>

#include "server_media.h"

/* ---- prompts ---- */

static bool encode_text(const server *s, const char *text, size_t n, bool goes_on,
                        serve_prompt *prompt, serve_problem *problem) {
    lk_error err;
    size_t capacity = n / 2 + 16;
    const uint32_t flags = LK_TOKENIZE_ADD_SPECIAL | LK_TOKENIZE_PARSE_SPECIAL;
    for (;;) {
        free(prompt->ids);
        prompt->ids = malloc(capacity * sizeof prompt->ids[0]);
        if (prompt->ids == NULL) {
            return serve_fail(problem, 500, "out_of_memory", NULL, "out of memory for the prompt");
        }
        const lk_status status = lk_tokenizer_encode(s->tokenizer, text, n, flags, prompt->ids,
                                                     capacity, &prompt->n_ids, &err);
        if (status == LK_OK) {
            break;
        }
        if (status != LK_E_LIMIT || prompt->n_ids <= capacity) {
            return serve_fail_status(problem, &err);
        }
        capacity = prompt->n_ids;
    }
    /* A prompt is to be continued: the end that some models add does not belong here. */
    if (goes_on && prompt->n_ids > 1 && lk_tokenizer_adds_eos(s->tokenizer) &&
        prompt->ids[prompt->n_ids - 1] == lk_tokenizer_eos(s->tokenizer)) {
        prompt->n_ids--;
    }
    return true;
}

static bool copy_ids(const json_t *list, serve_prompt *prompt, serve_problem *problem) {
    prompt->n_ids = json_array_size(list);
    prompt->ids = malloc((prompt->n_ids + 1) * sizeof prompt->ids[0]);
    if (prompt->ids == NULL) {
        return serve_fail(problem, 500, "out_of_memory", NULL, "out of memory for the prompt");
    }
    for (size_t i = 0; i < prompt->n_ids; i++) {
        prompt->ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    }
    return true;
}

/* Puts the prompt's text before that of its choices. */
static bool echo_prompt(const server *s, serve_job *job, const serve_prompt *prompt) {
    size_t n = 0;
    const uint32_t flags = LK_DETOKENIZE_SPECIAL;
    (void)lk_tokenizer_decode(s->tokenizer, prompt->ids, prompt->n_ids, flags, NULL, 0, &n, NULL);
    char *text = malloc(n + 1);
    json_t *clean = NULL;
    if (text != NULL && lk_tokenizer_decode(s->tokenizer, prompt->ids, prompt->n_ids, flags, text,
                                            n, &n, NULL) == LK_OK) {
        clean = server_text(text, n);
    }
    free(text);
    bool ok = clean != NULL;
    for (size_t i = 0; i < (size_t)job->settings.n && ok; i++) {
        ok = lk_buffer_add(&job->choices[prompt->i_first + i].text, json_string_value(clean),
                           json_string_length(clean));
    }
    json_decref(clean);
    return ok;
}

static bool make_prompt(server *s, serve_job *job, size_t i, serve_problem *problem) {
    serve_prompt *prompt = &job->prompts[i];
    const serve_settings *settings = &job->settings;
    bool ok = false;
    if (settings->kind == SERVE_CHAT) {
        ok =
            server_encode_chat(s, settings->root, NULL, &prompt->ids, &prompt->n_ids, job, problem);
        ok = ok && (job->n_clips == 0 || server_media_place(s, job, problem));
    } else {
        const json_t *given = serve_prompt_at(settings, i);
        ok = json_is_string(given)
                 ? encode_text(s, json_string_value(given), json_string_length(given),
                               settings->kind != SERVE_EMBEDDING, prompt, problem)
                 : copy_ids(given, prompt, problem);
    }
    if (ok && prompt->n_ids == 0) {
        return serve_fail(problem, 400, "invalid_value",
                          settings->kind == SERVE_EMBEDDING ? "input" : "prompt",
                          "text %zu of the request is empty", i);
    }
    if (ok && settings->echo && !echo_prompt(s, job, prompt)) {
        return serve_fail(problem, 500, "out_of_memory", NULL, "out of memory for the prompt");
    }
    return ok;
}

/* ---- jobs ---- */

static bool check_model(const server *s, const char *model, serve_problem *problem) {
    if (model == NULL || strcmp(model, s->model_id) == 0) {
        return true;
    }
    return serve_fail(problem, 404, "model_not_found", "model",
                      "the model '%.200s' does not exist here, '%.200s' does", model, s->model_id);
}

/* The shorter one of the request's own limit and the server's; 0: none. */
static uint32_t time_limit_ms(const server *s, const serve_settings *settings) {
    const int64_t own = settings->timeout_ms;
    const int64_t most = s->options.request_timeout_s * 1000;
    return (uint32_t)(own != 0 && (most == 0 || own < most) ? own : most);
}

/* What the recordings have left of it. */
static uint32_t time_left_ms(const server *s, const serve_job *job) {
    const uint32_t limit = time_limit_ms(s, &job->settings);
    const uint32_t used = (uint32_t)(1000 * job->clip_work_s);
    return limit == 0 || used == 0 ? limit : used < limit ? limit - used : 1;
}

/* The body to a job without prompts; *clips are the recordings of its messages, if not given. */
static bool decode_job(exchange *x, serve_kind kind, serve_clips *clips, bool are_given,
                       serve_problem *problem) {
    server *s = x->server;
    serve_settings settings;
    if (!serve_decode(kind, x->body, x->n_body, &s->defaults, &settings, problem)) {
        return false;
    }
    free(x->body);
    x->body = NULL;
    if (!check_model(s, settings.model, problem) ||
        (!are_given && kind == SERVE_CHAT &&
         !serve_take_clips(json_object_get(settings.root, "messages"), clips, problem))) {
        serve_settings_free(&settings);
        return false;
    }
    x->job = serve_job_create(&settings, s->tokenizer, &s->counters);
    if (x->job == NULL) {
        return serve_fail(problem, 500, "out_of_memory", NULL, "out of memory for the request");
    }
    (void)atomic_fetch_add(&s->n_answers, 1);
    return true;
}

/* Grammar and prompts. */
static bool prepare_job(exchange *x, serve_job *job, serve_problem *problem) {
    server *s = x->server;
    /* Calls of tools have a grammar that also depends on the prompt (server_calls.c). */
    bool ok = (job->settings.tools != NULL && job->settings.grammar != SERVE_GBNF) ||
              serve_job_constrain(job, s->trie, problem);
    for (size_t i = 0; i < job->settings.n_prompts && ok; i++) {
        ok = make_prompt(s, job, i, problem);
    }
    serve_settings_trim(&job->settings);
    job->wake = server_wake;
    job->wake_ctx = x;
    job->wants_all = job->settings.stream;
    return ok;
}

/* The job is done: nobody else uses it. */
static enum MHD_Result answer_embeddings(exchange *x) {
    lk_buffer text = {0};
    if (!server_render_embeddings(x->server, x->job, &text)) {
        serve_problem problem;
        free(text.data);
        (void)serve_fail(&problem, 500, "out_of_memory", NULL, "out of memory for the answer");
        return server_reply_problem(x, &problem);
    }
    return server_reply_text(x, MHD_HTTP_OK, "application/json", text.data, text.n, false);
}

static enum MHD_Result answer_whole(exchange *x) {
    serve_problem problem;
    json_t *answer = NULL;
    (void)pthread_mutex_lock(&x->job->lock);
    if (x->job->n_open > 0) {
        server_suspend(x);
        (void)pthread_mutex_unlock(&x->job->lock);
        return MHD_YES;
    }
    const bool has_failed = server_find_failure(x->job, &problem);
    const bool is_transcript = x->transcript != NULL && !has_failed;
    const bool is_embedding = x->job->settings.kind == SERVE_EMBEDDING;
    if (!has_failed && !is_embedding && !is_transcript) {
        answer = server_render_whole(x->server, x->job);
    }
    (void)pthread_mutex_unlock(&x->job->lock);
    if (!has_failed && is_embedding) {
        return answer_embeddings(x);
    }
    if (is_transcript) {
        return server_reply_transcript(x);
    }
    return has_failed ? server_reply_problem(x, &problem)
                      : server_reply_json(x, MHD_HTTP_OK, answer);
}

typedef enum step { STEP_FAILED, STEP_WAITS, STEP_GOES_ON } step;

/* The body to a job, and its recordings on their way to vectors. Takes the clips over. */
static step begin_job(exchange *x, serve_kind kind, serve_clips *clips, bool are_given,
                      serve_problem *problem) {
    const bool ok =
        atomic_load(&x->server->is_draining)
            ? serve_fail(problem, 503, "shutting_down", NULL, "the server is shutting down")
            : decode_job(x, kind, clips, are_given, problem);
    if (!ok) {
        serve_clips_free(clips);
        return STEP_FAILED;
    }
    server_watch_working(x->server, x->socket, x->job);
    if (clips->n == 0) {
        return STEP_GOES_ON;
    }
    return server_media_start(x, clips, time_limit_ms(x->server, &x->job->settings), problem)
               ? STEP_WAITS
               : STEP_FAILED;
}

enum MHD_Result server_generate(exchange *x, serve_kind kind, serve_clips *clips) {
    serve_problem problem = {.status = 500, .type = "server_error"};
    server *s = x->server;
    serve_clips none = {.n = 0};
    step next = STEP_GOES_ON;
    if (x->media != NULL) { /* woken: the recordings are vectors */
        next = server_media_finish(x, &problem) ? STEP_GOES_ON : STEP_FAILED;
    } else if (x->job != NULL) {
        return answer_whole(x); /* woken */
    } else {
        next = begin_job(x, kind, clips != NULL ? clips : &none, clips != NULL, &problem);
    }
    if (next == STEP_WAITS) {
        return MHD_YES;
    }
    const size_t n_at_once = 2 * (size_t)s->options.n_slots;
    if (next == STEP_FAILED || x->job == NULL || !prepare_job(x, x->job, &problem) ||
        !serve_job_start(x->job, s->engine, time_left_ms(s, x->job), n_at_once, &problem)) {
        server_watch_working(s, x->socket, NULL); /* nobody leaves work behind any more */
        return server_reply_problem(x, &problem);
    }
    return x->job->settings.stream ? server_begin_stream(x) : answer_whole(x);
}

enum MHD_Result server_chat(exchange *x) {
    return server_generate(x, SERVE_CHAT, NULL);
}

enum MHD_Result server_completion(exchange *x) {
    return server_generate(x, SERVE_COMPLETION, NULL);
}

enum MHD_Result server_llama(exchange *x) {
    return server_generate(x, SERVE_LLAMA, NULL);
}

enum MHD_Result server_embeddings(exchange *x) {
    return server_generate(x, SERVE_EMBEDDING, NULL);
}
