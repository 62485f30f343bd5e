/* conversation.c - see conversation.h. */
#include "conversation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "console.h"

/* The local clock as seconds since 1970-01-01 00:00. */
static int64_t local_time_s(void) {
    const time_t now = time(NULL);
    struct tm t;
    if (localtime_r(&now, &t) == NULL) {
        return LK_CHAT_NO_TIME;
    }
    const int64_t year = (int64_t)t.tm_year + 1900 - 1; /* whole years before this one */
    const int64_t leap_days =
        year / 4 - year / 100 + year / 400 - (1969 / 4 - 1969 / 100 + 1969 / 400);
    const int64_t days = (year - 1969) * 365 + leap_days + t.tm_yday;
    return ((days * 24 + t.tm_hour) * 60 + t.tm_min) * 60 + t.tm_sec;
}

static bool open_file(lk_conversation *c, const char *path) {
    lk_error err;
    size_t n = 0;
    char *source = lk_console_read(c->command, path, LK_MAX_TEMPLATE_BYTES, &n);
    if (source == NULL) {
        return false;
    }
    const lk_status status = lk_chat_template_create(source, n, NULL, &c->chat_template, &err);
    free(source);
    return status == LK_OK || lk_console_failed(c->command, &err) == 0;
}

static bool open_template(lk_conversation *c, const lk_gguf *gguf) {
    const char *name = c->options->chat_template;
    lk_error err;
    if (name != NULL && (strchr(name, '/') != NULL || access(name, R_OK) == 0)) {
        return open_file(c, name);
    }
    lk_status status = lk_chat_template_open(gguf, name, NULL, &c->chat_template, &err);
    if (status == LK_E_NOT_FOUND && name != NULL) {
        status = lk_chat_template_builtin(name, NULL, &c->chat_template, &err);
        if (status == LK_E_NOT_FOUND) {
            (void)lk_console_error(c->command,
                                   "--chat-template %s is neither a file, nor a template of the "
                                   "model's file, nor chatml",
                                   name);
            return false;
        }
    } else if (status == LK_E_NOT_FOUND) {
        (void)lk_console_error(c->command, "%s: give one with --chat-template FILE|NAME",
                               err.message);
        return false;
    }
    return status == LK_OK || lk_console_failed(c->command, &err) == 0;
}

bool lk_conversation_open(lk_conversation *c, const char *command, const lk_gguf *gguf,
                          const lk_tokenizer *tokenizer, const lk_conversation_options *options) {
    *c = (lk_conversation){.command = command, .tokenizer = tokenizer, .options = options};
    c->messages = json_array();
    if (c->messages == NULL) {
        (void)lk_console_error(command, "out of memory");
        return false;
    }
    if (options->tools != NULL) {
        c->tools = lk_console_read(command, options->tools, LK_MAX_CHAT_BYTES, &c->n_tools);
        if (c->tools == NULL) {
            return false;
        }
    }
    return open_template(c, gguf) &&
           (options->system == NULL ||
            lk_conversation_add(c, "system", options->system, strlen(options->system)));
}

void lk_conversation_close(lk_conversation *c) {
    lk_chat_template_close(c->chat_template);
    json_decref(c->messages);
    free(c->tools);
}

bool lk_conversation_load(lk_conversation *c, const char *text, size_t n) {
    json_error_t reason;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &reason);
    if (root == NULL) {
        (void)lk_console_error(c->command, "the messages, line %d: %s", reason.line, reason.text);
        return false;
    }
    json_t *messages = json_is_object(root) ? json_object_get(root, "messages") : root;
    json_t *tools = json_is_object(root) ? json_object_get(root, "tools") : NULL;
    const bool ok = json_is_array(messages);
    if (!ok) {
        (void)lk_console_error(c->command, "the messages must be a JSON array, or an object with "
                                           "\"messages\"");
    } else {
        size_t i = 0;
        json_t *message = NULL;
        json_array_foreach(messages, i, message) {
            (void)json_array_append(c->messages, message);
        }
        if (tools != NULL && !json_is_null(tools) && c->tools == NULL) {
            c->tools = json_dumps(tools, JSON_COMPACT);
            c->n_tools = c->tools != NULL ? strlen(c->tools) : 0;
        }
    }
    json_decref(root);
    return ok;
}

bool lk_conversation_add(lk_conversation *c, const char *role, const char *text, size_t n) {
    json_t *content = json_stringn(text, n);
    json_t *message = json_object();
    if (content == NULL) {
        (void)lk_console_error(c->command, "a message is not well-formed UTF-8");
        json_decref(message);
        return false;
    }
    if (message == NULL || json_object_set_new(message, "role", json_string(role)) != 0 ||
        json_object_set_new(message, "content", content) != 0 ||
        json_array_append_new(c->messages, message) != 0) {
        (void)lk_console_error(c->command, "out of memory for the messages");
        return false;
    }
    return true;
}

bool lk_conversation_add_audio(lk_conversation *c, size_t n_clips, const char *text, size_t n) {
    json_t *parts = json_array();
    json_t *message = json_object();
    bool ok = parts != NULL && message != NULL;
    for (size_t i = 0; ok && i < n_clips; i++) {
        ok = json_array_append_new(parts, json_pack("{s:s}", "type", "audio")) == 0;
    }
    if (ok && json_array_append_new(
                  parts, json_pack("{s:s, s:s%}", "type", "text", "text", text, n)) != 0) {
        (void)lk_console_error(c->command, "a message is not well-formed UTF-8");
        json_decref(parts);
        json_decref(message);
        return false;
    }
    if (ok) { /* takes over parts and message */
        ok = json_object_set_new(message, "role", json_string("user")) == 0;
        ok = json_object_set_new(message, "content", parts) == 0 && ok;
        ok = json_array_append_new(c->messages, message) == 0 && ok;
    } else {
        json_decref(parts);
        json_decref(message);
    }
    if (!ok) {
        (void)lk_console_error(c->command, "out of memory for the messages");
    }
    return ok;
}

lk_chat_prompt *lk_conversation_render(const lk_conversation *c, uint32_t flags) {
    lk_chat_params params = LK_CHAT_PARAMS_INIT;
    lk_chat_prompt *prompt = NULL;
    lk_error err;
    char *messages = json_dumps(c->messages, JSON_COMPACT);
    if (messages == NULL) {
        (void)lk_console_error(c->command, "out of memory for the messages");
        return NULL;
    }
    params.messages = messages;
    params.n_messages = strlen(messages);
    params.tools = c->tools;
    params.n_tools = c->n_tools;
    params.variables = c->options->variables;
    params.n_variables = params.variables != NULL ? strlen(params.variables) : 0;
    params.local_time_s = local_time_s();
    params.flags = flags;
    lk_chat_params_tokens(&params, c->tokenizer);
    const lk_status status = lk_chat_render(c->chat_template, &params, &prompt, &err);
    free(messages);
    if (status == LK_E_REFUSED) {
        (void)lk_console_error(c->command, "the chat template refuses the messages: %s",
                               err.message);
    } else if (status != LK_OK) {
        (void)lk_console_failed(c->command, &err);
    }
    return prompt;
}

int32_t *lk_conversation_encode(const lk_conversation *c, const lk_chat_prompt *prompt,
                                bool special, size_t *n_ids) {
    lk_error err;
    size_t n_text = 0;
    const uint32_t flags = special ? LK_CHAT_PARSE_SPECIAL : 0;
    (void)lk_chat_prompt_text(prompt, &n_text);
    size_t capacity = n_text / 2 + 16;
    for (;;) {
        int32_t *ids = malloc(capacity * sizeof ids[0]);
        if (ids == NULL) {
            (void)lk_console_error(c->command, "out of memory for %zu tokens", capacity);
            return NULL;
        }
        const lk_status status =
            lk_chat_prompt_encode(prompt, c->tokenizer, flags, ids, capacity, n_ids, &err);
        if (status == LK_OK) {
            return ids;
        }
        free(ids);
        if (status != LK_E_LIMIT || *n_ids <= capacity) {
            (void)lk_console_failed(c->command, &err);
            return NULL;
        }
        capacity = *n_ids;
    }
}
