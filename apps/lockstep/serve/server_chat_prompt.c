/* server_chat_prompt.c - messages to a prompt, by the chat template of the model or of the command
 * line. What the messages say is text: special tokens are only read where the template writes them.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server.h"
#include "shared/console.h"

enum { MAX_TEMPLATE_BYTES = 1 << 20 };

bool server_open_template(server *s, lk_error *err) {
    const char *given = s->options.chat_template;
    if (given == NULL) {
        const lk_status status =
            lk_chat_template_open(lk_model_gguf(s->model), NULL, NULL, &s->chat_template, err);
        return status == LK_OK || status == LK_E_NOT_FOUND; /* chats are refused then */
    }
    const lk_status status = lk_chat_template_builtin(given, NULL, &s->chat_template, err);
    if (status != LK_E_NOT_FOUND) {
        return status == LK_OK;
    }
    size_t n = 0;
    char *source = lk_console_read("serve", given, MAX_TEMPLATE_BYTES, &n);
    if (source == NULL) {
        return false;
    }
    const bool ok = lk_chat_template_create(source, n, NULL, &s->chat_template, err) == LK_OK;
    free(source);
    return ok;
}

/* Seconds on the local clock since 1970, as templates want them. Years are counted from March, so
 * that the day that some of them lack is the last one. */
static int64_t local_time(void) {
    const time_t now = time(NULL);
    struct tm t;
    if (localtime_r(&now, &t) == NULL) {
        return LK_CHAT_NO_TIME;
    }
    const int64_t month = (t.tm_mon + 10) % 12;
    const int64_t year = (int64_t)t.tm_year + 1900 - (month >= 10);
    const int64_t days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 +
                         t.tm_mday - 1 - 719468;
    return ((days * 24 + t.tm_hour) * 60 + t.tm_min) * 60 + t.tm_sec;
}

static bool fail_memory(serve_problem *problem) {
    return serve_fail(problem, 500, "out_of_memory", NULL, "out of memory for the prompt");
}

static bool encode(const server *s, const lk_chat_prompt *prompt, int32_t **ids, size_t *n_ids,
                   serve_problem *problem) {
    lk_error err;
    size_t n_bytes = 0;
    (void)lk_chat_prompt_text(prompt, &n_bytes);
    size_t capacity = n_bytes / 2 + 16;
    for (;;) {
        int32_t *found = malloc(capacity * sizeof found[0]);
        if (found == NULL) {
            return fail_memory(problem);
        }
        const lk_status status =
            lk_chat_prompt_encode(prompt, s->tokenizer, 0, found, capacity, n_ids, &err);
        if (status == LK_OK) {
            *ids = found;
            return true;
        }
        free(found);
        if (status != LK_E_LIMIT || *n_ids <= capacity) {
            return serve_fail_status(problem, &err);
        }
        capacity = *n_ids;
    }
}

/* What the template or the check of the messages says is the client's to know. */
static bool fail_render(serve_problem *problem, const lk_error *err) {
    if (err->status == LK_E_NOMEM || err->status == LK_E_INTERNAL) {
        return serve_fail_status(problem, err);
    }
    return serve_fail(
        problem, 400, err->status == LK_E_UNSUPPORTED ? "unsupported_value" : "invalid_value",
        strcmp(err->subject, "tools") == 0 ? "tools" : "messages", "%s", err->message);
}

/* The variables that a request adds: chat_template_kwargs, and reasoning_effort where these have
 * none. *variables: to be released, NULL for none. */
static bool take_variables(const json_t *root, json_t **variables, serve_problem *problem) {
    json_t *kwargs = json_object_get(root, "chat_template_kwargs");
    const char *effort = NULL;
    *variables = NULL;
    if (kwargs != NULL && !json_is_null(kwargs) && !json_is_object(kwargs)) {
        return serve_fail(problem, 400, "invalid_type", "chat_template_kwargs",
                          "'chat_template_kwargs' must be an object, not %s", field_kind(kwargs));
    }
    if (!field_text(root, "reasoning_effort", 64, &effort, problem)) {
        return false;
    }
    if (json_is_object(kwargs)) {
        *variables = json_incref(kwargs);
    }
    if (effort == NULL || json_object_get(kwargs, "reasoning_effort") != NULL) {
        return true;
    }
    json_t *own = json_is_object(kwargs) ? json_copy(kwargs) : json_object();
    json_decref(*variables);
    *variables = own;
    return json_object_set_new(own, "reasoning_effort", json_string(effort)) == 0 ||
           fail_memory(problem);
}

/* JSON as text; NULL for NULL. */
static char *dump(const json_t *json) {
    return json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
}

bool server_encode_chat(server *s, const json_t *root, char **text, int32_t **ids, size_t *n_ids,
                        serve_job *job, serve_problem *problem) {
    lk_error err;
    lk_chat_prompt *prompt = NULL;
    json_t *kwargs = NULL;
    bool wants_turn = true;
    if (s->chat_template == NULL) {
        return serve_fail(problem, 400, "unsupported_value", "messages",
                          "the model has no chat template: start the server with --chat-template, "
                          "or use /v1/completions");
    }
    if (!field_bool(root, "add_generation_prompt", &wants_turn, problem) ||
        !take_variables(root, &kwargs, problem)) {
        json_decref(kwargs);
        return false;
    }
    char *messages = dump(json_object_get(root, "messages"));
    char *variables = dump(kwargs);
    const json_t *given = job != NULL ? job->settings.tools : json_object_get(root, "tools");
    given = json_array_size(given) > 0 ? given : NULL;
    char *tools = dump(given);
    bool ok = messages != NULL && (kwargs == NULL || variables != NULL) &&
              (given == NULL || tools != NULL);
    if (!ok) {
        (void)fail_memory(problem);
    } else {
        lk_chat_params params = LK_CHAT_PARAMS_INIT;
        params.messages = messages;
        params.n_messages = strlen(messages);
        params.variables = variables;
        params.n_variables = variables != NULL ? strlen(variables) : 0;
        params.tools = tools;
        params.n_tools = tools != NULL ? strlen(tools) : 0;
        params.local_time_s = local_time();
        params.flags = wants_turn ? LK_CHAT_GENERATION_PROMPT : 0;
        lk_chat_params_tokens(&params, s->tokenizer);
        ok = lk_chat_render(s->chat_template, &params, &prompt, &err) == LK_OK ||
             fail_render(problem, &err);
    }
    if (ok && text != NULL) {
        size_t n = 0;
        const char *rendered = lk_chat_prompt_text(prompt, &n);
        *text = malloc(n + 1);
        ok = *text != NULL || fail_memory(problem);
        if (ok) {
            memcpy(*text, rendered, n + 1);
        }
    }
    ok = ok && (ids == NULL || encode(s, prompt, ids, n_ids, problem));
    ok = ok && (job == NULL || server_prepare_calls(s, job, prompt, problem));
    free(tools);
    lk_chat_prompt_close(prompt);
    free(variables);
    free(messages);
    json_decref(kwargs);
    return ok;
}
