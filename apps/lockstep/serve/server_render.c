/* server_render.c - answers as JSON: whole ones, and the events of a stream, for chats and
 * completions as OpenAI's API has them and for llama-server's /completion. */
#include <stdlib.h>
#include <string.h>

#include "server.h"
#include "shared/console.h"
#include "shared/open_model.h"

/* Tokens of one choice that one call turns into events: the job's lock is held meanwhile. */
enum { MAX_TOKENS_AT_ONCE = 128 };

/* ---- tokens ---- */

static json_t *token_text(const serve_job *job, int32_t id, json_t **bytes) {
    char text[1024];
    size_t n = 0;
    if (lk_tokenizer_token_bytes(job->tokenizer, id,
                                 LK_DETOKENIZE_SPECIAL | LK_DETOKENIZE_KEEP_SPACE, text,
                                 sizeof text, &n, NULL) != LK_OK) {
        n = 0; /* a token of more than a kilobyte is shown by its id alone */
    }
    if (bytes != NULL) {
        *bytes = json_array();
        for (size_t i = 0; i < n; i++) {
            (void)json_array_append_new(*bytes, json_integer((unsigned char)text[i]));
        }
    }
    return server_text(text, n);
}

static json_t *logprob_entry(const serve_job *job, int32_t id, float logprob, bool with_id) {
    json_t *bytes = NULL;
    json_t *text = token_text(job, id, &bytes);
    json_t *entry =
        json_pack("{s:o, s:f, s:o}", "token", text, "logprob", (double)logprob, "bytes", bytes);
    if (with_id) {
        (void)json_object_set_new(entry, "id", json_integer(id));
    }
    return entry;
}

/* Tokens [first, end) as chats have them. */
static json_t *logprob_list(const serve_job *job, const serve_tokens *tokens, size_t first,
                            size_t end, bool with_id) {
    json_t *list = json_array();
    for (size_t i = first; i < end; i++) {
        const serve_token *token = &tokens->items[i];
        json_t *entry = logprob_entry(job, token->id, token->logprob, with_id);
        json_t *top = json_array();
        for (size_t k = 0; k < (size_t)token->n_top; k++) {
            const lk_token_logprob *other = &tokens->tops[token->i_top + k];
            (void)json_array_append_new(top,
                                        logprob_entry(job, other->token, other->logprob, with_id));
        }
        (void)json_object_set_new(entry, "top_logprobs", top);
        (void)json_array_append_new(list, entry);
    }
    return list;
}

typedef struct completion_logprobs {
    json_t *tokens, *logprobs, *top, *offsets;
    size_t offset; /* characters so far */
} completion_logprobs;

static size_t count_characters(const char *text, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        count += ((unsigned char)text[i] & 0xc0u) != 0x80u;
    }
    return count;
}

static void add_completion_logprob(const serve_job *job, const serve_tokens *tokens, size_t i,
                                   bool is_first_of_prompt, completion_logprobs *out) {
    const serve_token *token = &tokens->items[i];
    json_t *text = token_text(job, token->id, NULL);
    const size_t n = count_characters(json_string_value(text), json_string_length(text));
    json_t *top = is_first_of_prompt ? json_null() : json_object();
    for (size_t k = 0; k < (size_t)token->n_top && !is_first_of_prompt; k++) {
        const lk_token_logprob *other = &tokens->tops[token->i_top + k];
        json_t *name = token_text(job, other->token, NULL);
        /* Two tokens may look the same; the likelier one stays. */
        if (json_object_get(top, json_string_value(name)) == NULL) {
            (void)json_object_set_new(top, json_string_value(name),
                                      json_real((double)other->logprob));
        }
        json_decref(name);
    }
    (void)json_array_append_new(out->tokens, text);
    (void)json_array_append_new(
        out->logprobs, is_first_of_prompt ? json_null() : json_real((double)token->logprob));
    (void)json_array_append_new(out->top, top);
    (void)json_array_append_new(out->offsets, json_integer((json_int_t)out->offset));
    out->offset += n;
}

/* The prompt's tokens, where they are echoed, and those of a choice, of which [first, end). */
static json_t *completion_logprob_lists(const serve_job *job, size_t i_choice, size_t first,
                                        size_t end) {
    const serve_prompt *prompt = &job->prompts[i_choice / (size_t)job->settings.n];
    const serve_tokens *tokens = &job->choices[i_choice].tokens;
    completion_logprobs out = {json_array(), json_array(), json_array(), json_array(), 0};
    for (size_t i = 0; i < prompt->echoed.n && first == 0; i++) {
        add_completion_logprob(job, &prompt->echoed, i, i == 0, &out);
    }
    for (size_t i = first; i < end; i++) {
        add_completion_logprob(job, tokens, i, false, &out);
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", out.tokens, "token_logprobs", out.logprobs,
                     "top_logprobs", out.top, "text_offset", out.offsets);
}

static json_t *id_list(const serve_tokens *tokens, size_t first, size_t end) {
    json_t *list = json_array();
    for (size_t i = first; i < end; i++) {
        (void)json_array_append_new(list, json_integer(tokens->items[i].id));
    }
    return list;
}

/* ---- ends ---- */

bool server_find_failure(const serve_job *job, serve_problem *problem) {
    if (job->problem.status != 0) {
        *problem = job->problem;
        return true;
    }
    for (size_t i = 0; i < job->n_choices; i++) {
        const serve_choice *choice = &job->choices[i];
        if (choice->finish == LK_FINISH_ERROR) {
            (void)serve_fail_status(problem, &choice->error);
            return true;
        }
        if (choice->finish == LK_FINISH_DEADLINE) {
            (void)serve_fail(problem, 504, "timeout", NULL,
                             "the time for this request is over (%zu tokens were generated)",
                             choice->tokens.n);
            problem->type = "timeout_error";
            return true;
        }
        if (choice->finish == LK_FINISH_CANCELLED) {
            (void)serve_fail(problem, 503, "shutting_down", NULL,
                             "the request was cancelled: the server is shutting down");
            return true;
        }
    }
    if (job->n_submitted < job->settings.n_prompts) {
        (void)serve_fail(problem, 503, "shutting_down", NULL,
                         "the request was cancelled: the server is shutting down");
        return true;
    }
    return false;
}

static const char *finish_name(const serve_choice *choice) {
    if (choice->answer.n_calls > 0 && choice->finish != LK_FINISH_LENGTH) {
        return "tool_calls";
    }
    return choice->finish == LK_FINISH_LENGTH ? "length" : "stop";
}

static json_t *usage(const serve_job *job) {
    json_int_t n_prompt = 0;
    json_int_t n_cached = 0;
    json_int_t n_generated = 0;
    for (size_t i = 0; i < job->settings.n_prompts; i++) {
        n_prompt += (json_int_t)job->prompts[i].n_ids;
        n_cached += job->choices[job->prompts[i].i_first].n_cached;
    }
    for (size_t i = 0; i < job->n_choices; i++) {
        n_generated += (json_int_t)job->choices[i].tokens.n;
    }
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", n_prompt, "completion_tokens",
                     n_generated, "total_tokens", n_prompt + n_generated, "prompt_tokens_details",
                     "cached_tokens", n_cached);
}

json_t *server_envelope(const server *s, const serve_job *job, const char *object) {
    return json_pack("{s:s, s:s, s:I, s:o, s:s, s:I}", "id", job->id, "object", object, "created",
                     (json_int_t)job->created, "model",
                     server_text(s->model_id, strlen(s->model_id)), "system_fingerprint",
                     s->fingerprint, "seed", (json_int_t)job->sampler.seed);
}

/* ---- whole answers ---- */

static json_t *choice_text(const serve_choice *choice, size_t first) {
    return server_text(choice->text.data + first, choice->text.n - first);
}

static json_t *whole_choice(const server *s, const serve_job *job, size_t i) {
    const serve_settings *settings = &job->settings;
    const serve_choice *choice = &job->choices[i];
    json_t *logprobs = json_null();
    json_t *object = NULL;
    if (settings->kind == SERVE_CHAT) {
        if (settings->logprobs) {
            logprobs = json_pack("{s:o, s:n}", "content",
                                 logprob_list(job, &choice->tokens, 0, choice->tokens.n, false),
                                 "refusal");
        }
        object = json_pack("{s:I, s:o, s:o, s:s}", "index", (json_int_t)i, "message",
                           serve_answer_message(&choice->answer), "logprobs", logprobs,
                           "finish_reason", finish_name(choice));
    } else {
        if (settings->logprobs) {
            logprobs = completion_logprob_lists(job, i, 0, choice->tokens.n);
        }
        object = json_pack("{s:I, s:o, s:o, s:s}", "index", (json_int_t)i, "text",
                           choice_text(choice, 0), "logprobs", logprobs, "finish_reason",
                           finish_name(choice));
    }
    if (settings->return_token_ids) {
        (void)json_object_set_new(object, "token_ids",
                                  id_list(&choice->tokens, 0, choice->tokens.n));
    }
    if (settings->receipt) {
        (void)json_object_set_new(object, "receipt", server_receipt(s, job, i));
    }
    return object;
}

static json_t *prompt_id_list(const serve_prompt *prompt) {
    json_t *list = json_array();
    for (size_t i = 0; i < prompt->n_ids; i++) {
        (void)json_array_append_new(list, json_integer(prompt->ids[i]));
    }
    return list;
}

/* llama-server's answer, also the last event of its stream (without content). */
static json_t *whole_llama(const server *s, const serve_job *job, bool is_last_event) {
    const serve_settings *settings = &job->settings;
    const serve_choice *choice = &job->choices[0];
    const bool is_word = choice->stream.is_stopped;
    const char *type = choice->finish == LK_FINISH_END ? "eos" : is_word ? "word" : "limit";
    const double prompt_ms = (job->first_s - job->start_s) * 1000;
    const double predicted_ms = (job->last_s - job->first_s) * 1000;
    json_t *object = json_pack(
        "{s:i, s:o, s:o, s:b, s:s, s:s, s:I, s:I, s:I, s:o, s:s, s:I, s:{s:f, s:f}}", "index", 0,
        "content", is_last_event ? json_string("") : choice_text(choice, 0), "tokens",
        settings->return_token_ids && !is_last_event ? id_list(&choice->tokens, 0, choice->tokens.n)
                                                     : json_array(),
        "stop", 1, "stop_type", type, "stopping_word",
        is_word ? choice->stream.stops[choice->stream.i_stop] : "", "tokens_predicted",
        (json_int_t)choice->tokens.n, "tokens_evaluated", (json_int_t)job->prompts[0].n_ids,
        "tokens_cached", (json_int_t)choice->n_cached, "model",
        server_text(s->model_id, strlen(s->model_id)), "system_fingerprint", s->fingerprint, "seed",
        (json_int_t)job->sampler.seed, "timings", "prompt_ms", prompt_ms, "predicted_ms",
        predicted_ms);
    (void)json_object_set_new(object, "usage", usage(job));
    if (settings->logprobs && !is_last_event) {
        (void)json_object_set_new(object, "completion_probabilities",
                                  logprob_list(job, &choice->tokens, 0, choice->tokens.n, true));
    }
    if (settings->receipt) {
        (void)json_object_set_new(object, "receipt", server_receipt(s, job, 0));
    }
    return object;
}

json_t *server_render_whole(const server *s, serve_job *job) {
    if (job->settings.kind == SERVE_LLAMA) {
        return whole_llama(s, job, false);
    }
    json_t *object = server_envelope(
        s, job, job->settings.kind == SERVE_CHAT ? "chat.completion" : "text_completion");
    json_t *choices = json_array();
    for (size_t i = 0; i < job->n_choices; i++) {
        (void)json_array_append_new(choices, whole_choice(s, job, i));
    }
    (void)json_object_set_new(object, "choices", choices);
    (void)json_object_set_new(object, "usage", usage(job));
    if (job->settings.return_token_ids) {
        json_t *lists = json_array();
        for (size_t i = 0; i < job->settings.n_prompts; i++) {
            (void)json_array_append_new(lists, prompt_id_list(&job->prompts[i]));
        }
        /* One list for one prompt, as chats have it. */
        (void)json_object_set(object, "prompt_token_ids",
                              job->settings.n_prompts == 1 ? json_array_get(lists, 0) : lists);
        json_decref(lists);
    }
    return object;
}

/* ---- streams ---- */

static bool add_event(lk_buffer *out, json_t *object) {
    char *text = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    const bool ok = text != NULL && lk_buffer_add(out, "data: ", 6) &&
                    lk_buffer_add(out, text, strlen(text)) && lk_buffer_add(out, "\n\n", 2);
    free(text);
    return ok;
}

/* An event with one choice. */
static json_t *chunk(const server *s, const serve_job *job, json_t *choice) {
    json_t *object = server_envelope(
        s, job, job->settings.kind == SERVE_CHAT ? "chat.completion.chunk" : "text_completion");
    (void)json_object_set_new(object, "choices", json_pack("[o]", choice));
    if (job->settings.include_usage) {
        (void)json_object_set_new(object, "usage", json_null());
    }
    return object;
}

/* What is new of a choice: the delta of a chat, or a text. */
static json_t *news_of(const serve_job *job, size_t i, json_t *news, const char *finish) {
    const char *name = job->settings.kind == SERVE_CHAT ? "delta" : "text";
    return json_pack("{s:I, s:o, s:n, s:s?}", "index", (json_int_t)i, name, news, "logprobs",
                     "finish_reason", finish);
}

/* The pieces of a chat's answer behind the first new one, which goes with the tokens. */
static bool add_pieces(const server *s, serve_job *job, size_t i, lk_buffer *out) {
    serve_answer *answer = &job->choices[i].answer;
    bool ok = true;
    while (ok && answer->n_sent < answer->n_pieces) {
        ok = add_event(out, chunk(s, job, news_of(job, i, serve_answer_delta(answer), NULL)));
    }
    return ok;
}

static json_t *first_news(serve_job *job, size_t i) {
    serve_choice *choice = &job->choices[i];
    const size_t first = choice->n_sent;
    choice->n_sent = choice->text.n;
    if (job->settings.kind != SERVE_CHAT) {
        return choice_text(choice, first);
    }
    return choice->answer.n_sent < choice->answer.n_pieces ? serve_answer_delta(&choice->answer)
                                                           : json_pack("{s:s}", "content", "");
}

/* The text of an event that has nothing but text to say; false, and nothing is taken, where it has
 * more. */
static bool take_plain_text(serve_job *job, size_t i, const char **text, size_t *n) {
    const serve_settings *settings = &job->settings;
    serve_choice *choice = &job->choices[i];
    serve_answer *answer = &choice->answer;
    if (settings->kind == SERVE_LLAMA || settings->logprobs || settings->return_token_ids ||
        choice->text.n == choice->n_sent) {
        return false;
    }
    *text = choice->text.data + choice->n_sent;
    *n = choice->text.n - choice->n_sent;
    if (settings->kind == SERVE_CHAT) {
        if (answer->n_sent + 1 != answer->n_pieces ||
            answer->pieces[answer->n_sent].kind != LK_DELTA_TEXT) {
            return false;
        }
        *text = answer->bytes.data + answer->pieces[answer->n_sent].begin;
        *n = answer->pieces[answer->n_sent].n;
        answer->n_sent++;
    }
    choice->n_sent = choice->text.n;
    return true;
}

/* New text and tokens of a choice. */
static bool add_news(const server *s, serve_job *job, size_t i, size_t n_tokens, lk_buffer *out) {
    const serve_settings *settings = &job->settings;
    serve_choice *choice = &job->choices[i];
    const size_t first = choice->n_sent_tokens;
    const size_t end = first + n_tokens;
    const char *text = NULL;
    size_t n_text = 0;
    choice->n_sent_tokens = end;
    if (take_plain_text(job, i, &text, &n_text)) {
        return server_add_plain_event(s, job, i, text, n_text, out);
    }
    json_t *news = first_news(job, i);
    if (settings->kind == SERVE_LLAMA) {
        json_t *object = json_pack(
            "{s:i, s:o, s:o, s:b, s:I, s:I}", "index", 0, "content", news, "tokens",
            settings->return_token_ids ? id_list(&choice->tokens, first, end) : json_array(),
            "stop", 0, "tokens_predicted", (json_int_t)end, "tokens_evaluated",
            (json_int_t)job->prompts[0].n_ids);
        if (settings->logprobs) {
            (void)json_object_set_new(object, "completion_probabilities",
                                      logprob_list(job, &choice->tokens, first, end, true));
        }
        return add_event(out, object);
    }
    json_t *object = news_of(job, i, news, NULL);
    if (settings->logprobs && settings->kind == SERVE_CHAT) {
        (void)json_object_set_new(object, "logprobs",
                                  json_pack("{s:o, s:n}", "content",
                                            logprob_list(job, &choice->tokens, first, end, false),
                                            "refusal"));
    } else if (settings->logprobs) {
        (void)json_object_set_new(object, "logprobs", completion_logprob_lists(job, i, first, end));
    }
    if (settings->return_token_ids) {
        (void)json_object_set_new(object, "token_ids", id_list(&choice->tokens, first, end));
    }
    return add_event(out, chunk(s, job, object)) && add_pieces(s, job, i, out);
}

static bool add_end(const server *s, serve_job *job, size_t i, lk_buffer *out) {
    serve_choice *choice = &job->choices[i];
    choice->has_ended = true;
    if (job->settings.kind == SERVE_LLAMA) {
        return add_event(out, whole_llama(s, job, true));
    }
    json_t *object =
        news_of(job, i, job->settings.kind == SERVE_CHAT ? json_object() : json_string(""),
                finish_name(choice));
    if (job->settings.receipt) {
        (void)json_object_set_new(object, "receipt", server_receipt(s, job, i));
    }
    return add_event(out, chunk(s, job, object));
}

static bool add_choice_events(const server *s, serve_job *job, size_t i, lk_buffer *out) {
    serve_choice *choice = &job->choices[i];
    const bool shows_tokens = job->settings.return_token_ids || job->settings.logprobs;
    if (choice->has_ended) {
        return true;
    }
    if (!choice->has_begun && job->settings.kind == SERVE_CHAT) {
        json_t *begin = json_pack("{s:I, s:{s:s, s:s}, s:n, s:n}", "index", (json_int_t)i, "delta",
                                  "role", "assistant", "content", "", "logprobs", "finish_reason");
        if (!add_event(out, chunk(s, job, begin))) {
            return false;
        }
    }
    choice->has_begun = true;
    size_t n_tokens = choice->tokens.n - choice->n_sent_tokens;
    const bool is_much = n_tokens > MAX_TOKENS_AT_ONCE;
    n_tokens = is_much ? MAX_TOKENS_AT_ONCE : n_tokens;
    /* Tokens wait for text to go with, unless they are the last ones. */
    const bool has_text =
        choice->text.n > choice->n_sent || choice->answer.n_pieces > choice->answer.n_sent;
    const bool has_last = choice->finish != 0 && shows_tokens && n_tokens > 0;
    if ((has_text || has_last || is_much) && !add_news(s, job, i, n_tokens, out)) {
        return false;
    }
    return choice->finish == 0 || is_much || add_end(s, job, i, out);
}

bool server_render_events(const server *s, serve_job *job, lk_buffer *out) {
    serve_problem problem;
    if (job->has_ended) {
        return true;
    }
    if (server_find_failure(job, &problem)) {
        job->has_ended = true;
        return add_event(out, server_problem_json(&problem));
    }
    bool all_ended = true;
    for (size_t i = 0; i < job->n_choices; i++) {
        if (!add_choice_events(s, job, i, out)) {
            return false;
        }
        all_ended = all_ended && job->choices[i].has_ended;
    }
    if (!all_ended) {
        return true;
    }
    job->has_ended = true;
    if (job->settings.kind == SERVE_LLAMA) {
        return true;
    }
    if (job->settings.include_usage) {
        json_t *object = server_envelope(
            s, job, job->settings.kind == SERVE_CHAT ? "chat.completion.chunk" : "text_completion");
        (void)json_object_set_new(object, "choices", json_array());
        (void)json_object_set_new(object, "usage", usage(job));
        if (!add_event(out, object)) {
            return false;
        }
    }
    static const char last[] = "data: [DONE]\n\n";
    return lk_buffer_add(out, last, sizeof last - 1);
}
