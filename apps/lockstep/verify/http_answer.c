/* http_answer.c - see http_answer.h. Shapes that are understood, of choice 0:
 *   text of completions: "text"; of chats: "delta" or "message" with "content";
 *   ids: "token_ids" (Lockstep, vLLM), "logprobs"."content"[]."id" (llama-server);
 *   log probabilities: "logprobs"."content"[] with "token" and "logprob", or the older
 *   "logprobs"."tokens"[] with "token_logprobs"[]. */
#include "http_answer.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int32_t http_pieces_find(http_pieces *p, const char *text, size_t n) {
    for (size_t i = 0; i < p->n; i++) {
        if (strlen(p->texts[i]) == n && memcmp(p->texts[i], text, n) == 0) {
            return (int32_t)i;
        }
    }
    if (p->n == p->capacity) {
        const size_t capacity = 2 * p->capacity + 64;
        char **texts = realloc(p->texts, capacity * sizeof texts[0]);
        if (texts == NULL) {
            return -1;
        }
        p->texts = texts;
        p->capacity = capacity;
    }
    char *copy = malloc(n + 1);
    if (copy == NULL) {
        return -1;
    }
    memcpy(copy, text, n);
    copy[n] = '\0';
    p->texts[p->n] = copy;
    return (int32_t)p->n++;
}

void http_pieces_deinit(http_pieces *p) {
    for (size_t i = 0; i < p->n; i++) {
        free(p->texts[i]);
    }
    free(p->texts);
    *p = (http_pieces){0};
}

void http_answer_init(http_answer *a) {
    *a = (http_answer){.n_cached = -1};
}

void http_answer_deinit(http_answer *a) {
    free(a->ids);
    free(a->logprobs);
    free(a->text);
    http_answer_init(a);
}

static bool fail(http_answer *a, const char *why) {
    if (a->failure[0] == '\0') {
        (void)snprintf(a->failure, sizeof a->failure, "%s", why);
    }
    return false;
}

static bool add_token(http_answer *a, int32_t id, double logprob) {
    if (a->n_tokens == HTTP_ANSWER_MAX_TOKENS) {
        return fail(a, "the answer has more tokens than any that was asked for");
    }
    if (a->n_tokens == a->capacity) {
        const size_t capacity = 2 * a->capacity + 64;
        int32_t *ids = realloc(a->ids, capacity * sizeof ids[0]);
        a->ids = ids != NULL ? ids : a->ids;
        float *logprobs = realloc(a->logprobs, capacity * sizeof logprobs[0]);
        a->logprobs = logprobs != NULL ? logprobs : a->logprobs;
        if (ids == NULL || logprobs == NULL) {
            return fail(a, "out of memory");
        }
        a->capacity = capacity;
    }
    a->ids[a->n_tokens] = id;
    a->logprobs[a->n_tokens++] = (float)logprob;
    return true;
}

static bool add_text(http_answer *a, const json_t *json) {
    const size_t n = json_string_length(json);
    if (n > HTTP_ANSWER_MAX_TEXT - a->n_text) {
        return fail(a, "the answer is longer than any that was asked for");
    }
    if (a->n_text + n + 1 > a->text_capacity) {
        const size_t capacity = 2 * (a->n_text + n) + 256;
        char *text = realloc(a->text, capacity);
        if (text == NULL) {
            return fail(a, "out of memory");
        }
        a->text = text;
        a->text_capacity = capacity;
    }
    for (size_t i = 0; i < n; i++) {
        const char c = json_string_value(json)[i];
        a->text[a->n_text + i] = c != '\0' ? c : '?'; /* it ends C strings */
    }
    a->n_text += n;
    a->text[a->n_text] = '\0';
    return true;
}

/* A number as a token id; -1 when it is none. */
static int32_t id_of(const json_t *json) {
    const json_int_t id = json_integer_value(json);
    return json_is_integer(json) && id >= 0 && id <= INT32_MAX ? (int32_t)id : -1;
}

/* One token; `id` and `logprob` may be absent. */
static bool take_token(http_answer *a, http_pieces *pieces, const json_t *id, const json_t *text,
                       const json_t *logprob) {
    int32_t number = id_of(id);
    if (number < 0 && a->n_tokens > 0 && a->has_ids) {
        return fail(a, "some tokens have ids and some have none");
    }
    a->has_ids = number >= 0;
    if (number < 0 && json_is_string(text)) {
        number = http_pieces_find(pieces, json_string_value(text), json_string_length(text));
    }
    if (number < 0) {
        return fail(a, "a token has neither an id nor a text");
    }
    a->has_logprobs = a->has_logprobs || json_is_number(logprob);
    return add_token(a, number, json_is_number(logprob) ? json_number_value(logprob) : (double)NAN);
}

static bool take_tokens(http_answer *a, http_pieces *pieces, const json_t *choice) {
    const json_t *ids = json_object_get(choice, "token_ids");
    const json_t *logprobs = json_object_get(choice, "logprobs");
    const json_t *content = json_object_get(logprobs, "content");
    const json_t *texts = json_object_get(logprobs, "tokens");
    const json_t *values = json_object_get(logprobs, "token_logprobs");
    const size_t n_named = json_array_size(content) + json_array_size(texts);
    const size_t n = json_array_size(ids) > n_named ? json_array_size(ids) : n_named;
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) {
        const json_t *entry = json_array_get(content, i);
        const json_t *id = json_is_array(ids) && json_array_size(ids) == n
                               ? json_array_get(ids, i)
                               : json_object_get(entry, "id");
        const json_t *text =
            entry != NULL ? json_object_get(entry, "token") : json_array_get(texts, i);
        ok = take_token(a, pieces, id, text,
                        entry != NULL ? json_object_get(entry, "logprob")
                                      : json_array_get(values, i));
    }
    return ok;
}

static bool take_choice(http_answer *a, http_pieces *pieces, const json_t *choice) {
    const size_t before = a->n_tokens + a->n_text;
    const json_t *text = json_object_get(choice, "text");
    if (text == NULL) {
        const json_t *delta = json_object_get(choice, "delta");
        delta = delta != NULL ? delta : json_object_get(choice, "message");
        /* A model that thinks aloud: what it writes there are tokens of its answer as well. */
        const json_t *thought = json_object_get(delta, "reasoning_content");
        thought = thought != NULL ? thought : json_object_get(delta, "reasoning");
        if (json_is_string(thought) && !add_text(a, thought)) {
            return false;
        }
        text = json_object_get(delta, "content");
    }
    if (json_is_string(text) && !add_text(a, text)) {
        return false;
    }
    if (!take_tokens(a, pieces, choice)) {
        return false;
    }
    a->n_chunks += a->n_tokens + a->n_text != before;
    a->is_finished = a->is_finished || json_is_string(json_object_get(choice, "finish_reason"));
    return true;
}

static void take_usage(http_answer *a, const json_t *root) {
    const json_t *usage = json_object_get(root, "usage");
    const json_t *details = json_object_get(usage, "prompt_tokens_details");
    const json_t *cached = json_object_get(details, "cached_tokens");
    if (!json_is_integer(cached)) {
        cached = json_object_get(json_object_get(root, "timings"), "cache_n");
    }
    if (json_is_integer(cached) && json_integer_value(cached) >= 0) {
        a->n_cached = json_integer_value(cached);
    }
}

/* `text` made fit to print: one line, no control characters. */
static void copy_printable(char *to, size_t size, const char *text, size_t n) {
    size_t i = 0;
    for (; i < n && i + 1 < size && text[i] != '\0'; i++) {
        to[i] = (unsigned char)text[i] < ' ' || text[i] == 127 ? ' ' : text[i];
    }
    to[i] = '\0';
}

static bool message_of(const json_t *root, char *text, size_t size) {
    const json_t *error = json_object_get(root, "error");
    const json_t *message = json_object_get(error, "message");
    message = message != NULL ? message : json_object_get(root, "message");
    message = json_is_string(message) ? message : error;
    if (json_is_string(message)) {
        copy_printable(text, size, json_string_value(message), json_string_length(message));
    }
    return json_is_string(message);
}

void http_answer_error(const char *body, size_t n, char *text, size_t size) {
    json_t *root = json_loadb(body, n, JSON_ALLOW_NUL, NULL);
    if (!message_of(root, text, size)) {
        copy_printable(text, size < 120 ? size : 120, body, n);
    }
    json_decref(root);
}

bool http_answer_add(http_answer *a, http_pieces *pieces, const char *json, size_t n) {
    json_error_t err;
    json_t *root = json_loadb(json, n, JSON_ALLOW_NUL, &err);
    const json_t *choices = json_object_get(root, "choices");
    bool ok = false;
    if (root == NULL) {
        char head[60];
        copy_printable(head, sizeof head, json, n);
        (void)snprintf(a->failure, sizeof a->failure, "it sent what is no JSON (%.100s): %s",
                       err.text, head);
    } else if (json_is_object(json_object_get(root, "error")) ||
               json_is_string(json_object_get(root, "error"))) {
        char message[200] = "no reason given";
        (void)message_of(root, message, sizeof message);
        (void)snprintf(a->failure, sizeof a->failure, "it sent an error: %s", message);
        a->is_error = true;
    } else if (!json_is_array(choices)) {
        (void)fail(a, "it sent an answer without choices");
    } else {
        const json_t *choice = json_array_get(choices, 0);
        take_usage(a, root);
        ok = choice == NULL || take_choice(a, pieces, choice);
    }
    json_decref(root);
    return ok;
}

bool http_answer_split(http_answer *a, http_pieces *pieces, size_t n) {
    const char *at = a->text != NULL ? a->text : "";
    a->n_tokens = 0;
    a->has_ids = false;
    while (*at != '\0' && a->n_tokens < n) {
        size_t length = strspn(at, " \t\r\n");
        length += strcspn(at + length, " \t\r\n");
        if (a->n_tokens + 1 == n) {
            length = strlen(at);
        }
        const int32_t id = http_pieces_find(pieces, at, length);
        if (id < 0 || !add_token(a, id, (double)NAN)) {
            return false;
        }
        at += length;
    }
    return true;
}
