/* server_reply.c - answers: JSON, texts, problems in the shape of OpenAI's API, and the headers
 * that all of them have. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

json_t *server_text(const char *bytes, size_t n) {
    lk_utf8_stream stream = {{0}, 0};
    const size_t capacity = 3 * (n + 3) + 16;
    char *clean = malloc(capacity);
    size_t n_clean = 0;
    size_t n_rest = 0;
    json_t *text = NULL;
    if (clean != NULL &&
        lk_utf8_stream_push(&stream, bytes, n, clean, capacity, &n_clean, NULL) == LK_OK &&
        lk_utf8_stream_finish(&stream, clean + n_clean, capacity - n_clean, &n_rest, NULL) ==
            LK_OK) {
        text = json_stringn(clean, n_clean + n_rest);
    }
    free(clean);
    return text;
}

json_t *server_problem_json(const serve_problem *problem) {
    return json_pack("{s:{s:o, s:s, s:o, s:s?}}", "error", "message",
                     server_text(problem->message, strlen(problem->message)), "type", problem->type,
                     "param",
                     problem->param[0] != '\0' ? server_text(problem->param, strlen(problem->param))
                                               : json_null(),
                     "code", problem->code);
}

enum MHD_Result server_queue(exchange *x, unsigned status, struct MHD_Response *response) {
    server *s = x->server;
    if (response == NULL) {
        return MHD_NO; /* out of memory: the connection is closed */
    }
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (s->options.cors_origin != NULL) {
        (void)MHD_add_response_header(response, "Access-Control-Allow-Origin",
                                      s->options.cors_origin);
        (void)MHD_add_response_header(response, "Vary", "Origin");
    }
    (void)pthread_mutex_lock(&s->counters.lock);
    s->counters.responses[status % SERVE_N_CODES]++;
    (void)pthread_mutex_unlock(&s->counters.lock);
    x->is_answered = true;
    const enum MHD_Result result = MHD_queue_response(x->connection, status, response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result server_reply_text(exchange *x, unsigned status, const char *type, const char *text,
                                  size_t n, bool is_static) {
    /* libmicrohttpd does not change the text; its type is not const. */
    union {
        const char *given;
        void *wanted;
    } bytes = {text};
    struct MHD_Response *response = MHD_create_response_from_buffer(
        n, bytes.wanted, is_static ? MHD_RESPMEM_PERSISTENT : MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    return server_queue(x, status, response);
}

static enum MHD_Result reply_json(exchange *x, unsigned status, json_t *value, bool is_busy) {
    char *text = value != NULL ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    if (text == NULL) {
        return MHD_NO;
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(text);
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    if (is_busy) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    }
    if (status == MHD_HTTP_UNAUTHORIZED) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    }
    return server_queue(x, status, response);
}

enum MHD_Result server_reply_json(exchange *x, unsigned status, json_t *value) {
    return reply_json(x, status, value, false);
}

enum MHD_Result server_reply_problem(exchange *x, const serve_problem *problem) {
    return reply_json(x, (unsigned)problem->status, server_problem_json(problem),
                      problem->status == 503);
}
