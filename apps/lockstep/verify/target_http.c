/* target_http.c - an OpenAI-compatible server as a target: finding out what it understands, and the
 * requests. target_http_run.c follows schedules. */
#include "target_http.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http_message.h"
#include "shared/console.h"

enum { PROBE_TOKENS = 4, PROBE_SECONDS = 120, INFO_SECONDS = 20 };

static http_manner manner_of(const http_target *t, const verify_stream *stream) {
    return stream->clip != NULL ? t->manner_of_clips : t->manner;
}

char *http_target_request(const http_target *t, const verify_stream *stream, bool cache) {
    const http_manner manner = manner_of(t, stream);
    const bool is_chat = manner >= HTTP_CHAT;
    json_t *root =
        json_pack("{s:i, s:f, s:b, s:{s:b}}", "max_tokens", (int)stream->n, "temperature",
                  (double)stream->temperature, "stream", 1, "stream_options", "include_usage", 1);
    bool ok = root != NULL;
    if (t->model != NULL) {
        ok = ok && json_object_set_new(root, "model", json_string(t->model)) == 0;
    }
    if (stream->temperature > 0) {
        ok = ok && json_object_set_new(root, "seed",
                                       json_integer((json_int_t)(stream->seed & INT32_MAX))) == 0;
    }
    json_t *prompt = is_chat ? http_message(stream) : json_string(stream->text);
    ok = json_object_set_new(root, is_chat ? "messages" : "prompt", prompt) == 0 && ok;
    if (manner == HTTP_FULL || manner == HTTP_LOGPROBS) {
        ok = ok && json_object_set_new(root, "logprobs", json_integer(1)) == 0;
    } else if (manner == HTTP_CHAT) {
        ok = ok && json_object_set_new(root, "logprobs", json_true()) == 0;
    }
    if (manner == HTTP_FULL) {
        ok = ok && json_object_set_new(root, "return_token_ids", json_true()) == 0 &&
             json_object_set_new(root, "ignore_eos", json_true()) == 0;
    }
    if (t->has_cache_switch) {
        ok = ok && json_object_set_new(root, "cache_prompt", json_boolean(cache)) == 0;
    }
    char *text = ok ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return text;
}

const char *http_target_path(const http_target *t, const verify_stream *stream) {
    return manner_of(t, stream) >= HTTP_CHAT ? "/v1/chat/completions" : "/v1/completions";
}

double http_target_seconds_left(const http_target *t) {
    const double left = t->deadline - lk_console_seconds();
    return t->deadline <= 0 ? 366.0 * 86400 : left > 0 ? left : 0;
}

static double within(const http_target *t, double seconds) {
    const double left = http_target_seconds_left(t);
    return left < seconds ? left : seconds;
}

/* The body of a GET with status 200, read; NULL with the reason. */
static json_t *get(http_target *t, const char *path, char why[VERIFY_WHY]) {
    char reason[HTTP_CLIENT_WHY];
    long status = 0;
    char *body = http_client_fetch(t->client, path, NULL, within(t, INFO_SECONDS), &status, reason);
    json_t *root = body != NULL && status == 200 ? json_loads(body, 0, NULL) : NULL;
    if (body == NULL) {
        (void)snprintf(why, VERIFY_WHY, "%s", reason);
    } else if (status != 200) {
        http_answer_error(body, strlen(body), reason, sizeof reason);
        (void)snprintf(why, VERIFY_WHY, "GET %s: HTTP %ld: %.200s", path, status, reason);
    } else if (root == NULL) {
        (void)snprintf(why, VERIFY_WHY, "GET %s: what it answers is no JSON", path);
    }
    free(body);
    return root;
}

/* The model that it has, and what kind of server it says it is. */
static bool read_models(http_target *t, const char *wanted, char kind[32], char why[VERIFY_WHY]) {
    json_t *root = get(t, "/v1/models", why);
    const json_t *models = json_object_get(root, "data");
    const json_t *chosen = json_array_get(models, 0);
    for (size_t i = 0; wanted != NULL && i < json_array_size(models); i++) {
        const char *id = json_string_value(json_object_get(json_array_get(models, i), "id"));
        if (id != NULL && strcmp(id, wanted) == 0) {
            chosen = json_array_get(models, i);
        }
    }
    const char *id = json_string_value(json_object_get(chosen, "id"));
    const char *owner = json_string_value(json_object_get(chosen, "owned_by"));
    bool ok = root != NULL;
    if (ok && id == NULL) {
        (void)snprintf(why, VERIFY_WHY, "GET /v1/models: it names no model");
        ok = false;
    }
    if (ok) {
        t->model = strdup(id);
        (void)snprintf(kind, 32, "%.31s", owner != NULL ? owner : "");
        ok = t->model != NULL;
    }
    json_decref(root);
    return ok;
}

/* One short request, made as schedules make them. */
static bool ask(http_target *t, const verify_clip *clip, http_answer *answer, bool *is_refused,
                char why[VERIFY_WHY]) {
    const verify_stream stream = {.text = clip != NULL ? verify_clip_question : "Once upon a time",
                                  .clip = clip,
                                  .n = PROBE_TOKENS};
    char reason[HTTP_CLIENT_WHY];
    long status = 0;
    char *request = http_target_request(t, &stream, false);
    *is_refused = false;
    if (request == NULL) {
        (void)snprintf(why, VERIFY_WHY, "out of memory");
        return false;
    }
    t->n_requests++;
    const char *path = http_target_path(t, &stream);
    char *body =
        http_client_fetch(t->client, path, request, within(t, PROBE_SECONDS), &status, reason);
    free(request);
    bool ok = body != NULL && status == 200;
    if (body == NULL) {
        (void)snprintf(why, VERIFY_WHY, "%s", reason);
    } else if (status != 200) {
        http_answer_error(body, strlen(body), reason, sizeof reason);
        (void)snprintf(why, VERIFY_WHY, "POST %s: HTTP %ld: %.200s", path, status, reason);
        *is_refused =
            status == 400 || status == 404 || status == 405 || status == 422 || status == 501;
    } else {
        ok = http_target_read(answer, &t->pieces, body, strlen(body));
        (void)snprintf(why, VERIFY_WHY, "POST %s: %.250s", path, answer->failure);
        if (ok && answer->n_tokens == 0 && answer->n_text == 0) {
            (void)snprintf(why, VERIFY_WHY, "POST %s: the answer is empty", path);
            ok = false;
        }
    }
    free(body);
    return ok;
}

/* Asks in one manner after the other, until one is understood. Where that shows text alone, a chat
 * may show tokens. */
static bool find_manner(http_target *t, http_answer *answer, char why[VERIFY_WHY]) {
    bool is_refused = true;
    bool ok = false;
    for (int i = 0; i < HTTP_N_MANNERS && is_refused && !ok; i++) {
        t->manner = (http_manner)i;
        ok = ask(t, NULL, answer, &is_refused, why);
        if (!ok) {
            http_answer_deinit(answer);
        }
    }
    if (ok && answer->n_tokens == 0 && t->manner < HTTP_CHAT) {
        const http_manner understood = t->manner;
        http_answer chat;
        char reason[VERIFY_WHY];
        http_answer_init(&chat);
        t->manner = HTTP_CHAT;
        if (!ask(t, NULL, &chat, &is_refused, reason) || chat.n_tokens == 0) {
            t->manner = understood;
        } else {
            http_answer_deinit(answer);
            *answer = chat;
            http_answer_init(&chat);
        }
        http_answer_deinit(&chat);
    }
    return ok;
}

/* Whether it takes recordings, in a chat; why not stands in the description. */
static void try_clip(http_target *t, const verify_clip *clip) {
    char why[VERIFY_WHY];
    bool can = false;
    bool is_refused = true;
    for (int i = HTTP_CHAT; i < HTTP_N_MANNERS && !can && is_refused; i++) {
        http_answer answer;
        http_answer_init(&answer);
        t->manner_of_clips = (http_manner)i;
        can = ask(t, clip, &answer, &is_refused, why);
        http_answer_deinit(&answer);
    }
    if (can) {
        t->target.can |= VERIFY_CAN_HEAR;
    }
    const size_t n = strlen(t->target.description);
    (void)snprintf(t->target.description + n, sizeof t->target.description - n, "; %s%.120s",
                   can ? "recordings" : "no recordings: ", can ? "" : why);
}

static void describe(http_target *t, const char *kind) {
    char why[VERIFY_WHY];
    json_t *props = get(t, "/props", why);
    json_t *version = props == NULL ? get(t, "/version", why) : NULL;
    version = props == NULL && version == NULL ? get(t, "/api/version", why) : version;
    const char *build = json_string_value(json_object_get(props, "build_info"));
    build = build != NULL ? build : json_string_value(json_object_get(version, "version"));
    const json_t *slots = json_object_get(props, "total_slots");
    char n_slots[32] = "";
    if (json_is_integer(slots)) {
        (void)snprintf(n_slots, sizeof n_slots, ", %lld slots",
                       (long long)json_integer_value(slots));
    }
    (void)snprintf(t->target.description, sizeof t->target.description,
                   "%s%s%.80s%s, model %.150s, %s: %s%s", kind[0] != '\0' ? kind : "server",
                   build != NULL ? " " : "", build != NULL ? build : "", n_slots, t->model,
                   t->manner >= HTTP_CHAT ? "chats" : "completions",
                   (t->target.can & VERIFY_CAN_IDS) != 0 ? "token ids" : "text",
                   (t->target.can & VERIFY_CAN_LOGPROBS) != 0 ? " and log probabilities" : "");
    json_decref(props);
    json_decref(version);
}

static void close_http(verify_target *target) {
    http_target *t = (http_target *)target;
    if (t != NULL) {
        http_client_close(t->client);
        http_pieces_deinit(&t->pieces);
        free(t->model);
        free(t);
    }
}

static const verify_target_ops ops = {.run = http_target_run, .close = close_http};

static bool learn(http_target *t, const verify_source *source, char why[VERIFY_WHY]) {
    char kind[32] = "";
    http_answer answer;
    http_answer_init(&answer);
    if (!read_models(t, source->model, kind, why)) {
        return false;
    }
    const bool is_lockstep = strcmp(kind, "lockstep") == 0;
    t->has_cache_switch = is_lockstep || strcmp(kind, "llamacpp") == 0;
    if (!find_manner(t, &answer, why)) {
        return false;
    }
    t->target = (verify_target){
        .ops = &ops,
        .can = VERIFY_CAN_TEXT | VERIFY_NEEDS_TEXT | VERIFY_CAN_SAMPLE |
               (answer.has_ids ? (uint32_t)VERIFY_CAN_IDS : 0u) |
               (answer.has_logprobs ? (uint32_t)VERIFY_CAN_LOGPROBS : 0u),
        .factors = t->has_cache_switch ? VERIFY_BIT(VERIFY_CACHE) : 0,
        .is_exact = is_lockstep,
        .max_slots = VERIFY_MAX_SLOTS,
    };
    http_answer_deinit(&answer);
    describe(t, kind);
    if (source->clip != NULL) {
        try_clip(t, source->clip);
    }
    return true;
}

verify_status verify_open_http(const verify_source *source, verify_target **out,
                               char why[VERIFY_WHY]) {
    char reason[VERIFY_WHY] = "out of memory";
    *out = NULL;
    http_target *t = calloc(1, sizeof *t);
    if (t != NULL) {
        t->max_requests = source->max_requests;
        t->deadline = source->max_seconds > 0 ? lk_console_seconds() + source->max_seconds : 0;
        t->client = http_client_open(source->where, source->api_key, reason);
    }
    if (t == NULL || t->client == NULL || !learn(t, source, reason)) {
        close_http(&t->target);
        (void)snprintf(why, VERIFY_WHY, "%.120s: %.260s", source->where, reason);
        return VERIFY_BROKEN;
    }
    *out = &t->target;
    return VERIFY_RAN;
}

verify_status verify_open_https(const verify_source *source, verify_target **out,
                                char why[VERIFY_WHY]) {
    return verify_open_http(source, out, why);
}
