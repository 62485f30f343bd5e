/* test_serve_hostile.c - what clients should not send, and clients that misbehave: each gets the
 * right 4xx in OpenAI's shape or is cut off, nothing hangs, and a neighbour that streams meanwhile
 * gets the same ids as before. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lk_test.h"
#include "server_process.h"

static const char chat_path[] = "/v1/chat/completions";
static const char text_path[] = "/v1/completions";

/* The error object of the answer: status, type, a message, and the field where one is named. */
static void check_error(const http_answer *a, int status, const char *param, const char *what) {
    json_t *json = a->body != NULL ? json_loads(a->body, 0, NULL) : NULL;
    const json_t *error = json_object_get(json, "error");
    const char *found = json_string_value(json_object_get(error, "param"));
    CHECK_MSG(a->status == status, "%.120s: status %d, expected %d: %.200s", what, a->status,
              status, a->body != NULL ? a->body : "");
    CHECK_MSG(json_is_string(json_object_get(error, "message")) &&
                  json_is_string(json_object_get(error, "type")) &&
                  json_object_get(error, "code") != NULL,
              "%.120s: no error object: %.200s", what, a->body != NULL ? a->body : "");
    CHECK_MSG(param == NULL || (found != NULL && strcmp(found, param) == 0),
              "%.120s: param %s, expected %s", what, found != NULL ? found : "none", param);
    json_decref(json);
}

static void refused(int port, const char *path, const char *body, int status, const char *param) {
    http_answer a = http_call(port, "POST", path, body);
    check_error(&a, status, param, body);
    http_free(&a);
}

/* ---- a neighbour ---- */

typedef struct neighbour {
    int port;
    pthread_t thread;
    atomic_bool wants_stop;
    atomic_int n_runs;
    char *first; /* the ids of the first run */
} neighbour;

/* The ids of a streamed completion, joined. */
static char *stream_ids(int port) {
    http_answer a = http_call(
        port, "POST", text_path,
        "{\"prompt\": \"A neighbour tells of\", \"max_tokens\": 40, \"seed\": 7, \"stream\": true, "
        "\"return_token_ids\": true, \"ignore_eos\": true}");
    char *ids = calloc(1, 1024);
    size_t n = 0;
    const char *rest = a.body;
    CHECK(a.status == 200 && ids != NULL);
    while (rest != NULL && (rest = strstr(rest, "\"token_ids\":[")) != NULL && n < 900) {
        rest += strlen("\"token_ids\":[");
        n += (size_t)snprintf(ids + n, 1024 - n, "%.*s,", (int)strcspn(rest, "]"), rest);
    }
    http_free(&a);
    return ids;
}

static void *run_neighbour(void *arg) {
    neighbour *n = arg;
    do {
        char *ids = stream_ids(n->port);
        if (n->first == NULL) {
            n->first = ids;
            continue;
        }
        CHECK_MSG(strcmp(ids, n->first) == 0, "the neighbour got %s, before %s", ids, n->first);
        free(ids);
        n->n_runs++;
    } while (!atomic_load(&n->wants_stop));
    return NULL;
}

static void neighbour_start(neighbour *n, int port) {
    *n = (neighbour){.port = port};
    n->first = stream_ids(port);
    CHECK(strlen(n->first) > 40);
    CHECK(pthread_create(&n->thread, NULL, run_neighbour, n) == 0);
}

static void neighbour_stop(neighbour *n) {
    atomic_store(&n->wants_stop, true);
    (void)pthread_join(n->thread, NULL);
    CHECK(n->n_runs > 0);
    free(n->first);
}

/* ---- bodies ---- */

static void check_json(int port) {
    static const char *const bad[] = {
        "",
        "{",
        "nonsense",
        "[]",
        "\"text\"",
        "42",
        "{\"prompt\": \"a\"",
        "{\"prompt\": \"a\",}",
        "{\"prompt\": \"a\"} x",
        "{\"prompt\": \"\xff\xfe\"}",
        "{\"prompt\": \"\xc3\"}",
        "{\"prompt\": \"\xed\xa0\x80\"}",
        "{\"prompt\": \"\\ud800\"}",
        "{\"prompt\": \"\\udc00\\ud800\"}",
        "{\"prompt\": \"a\\u0000b\"}",
        "{\"prompt\": \"a\", \"temperature\": NaN}",
        "{\"prompt\": \"a\", \"temperature\": Infinity}",
        "{\"prompt\": \"a\", \"temperature\": 1e999}",
        "{\"prompt\": \"a\", \"seed\": 99999999999999999999}",
        "{\"prompt\": \"a\", \"prompt\": \"b\"}",
        "{'prompt': 'a'}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        refused(port, text_path, bad[i], 400, NULL);
        refused(port, chat_path, bad[i], 400, NULL);
        refused(port, "/tokenize", bad[i], 400, NULL);
    }
}

static void check_fields(int port) {
    static const char *const fields[] = {
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "seed",
        "presence_penalty",
        "n",
        "logprobs",
        "frequency_penalty",
        "stream",
        "repeat_last_n",
        "repeat_penalty",
        "stop",
        "logit_bias",
        "timeout_ms",
        "stream_options",
        "echo",
        "model",
        "best_of",
        "typical_p",
        "max_completion_tokens",
    };
    static const char *const values[] = {"\"42\"", "-1", "9007199254740993", "{}", "[[]]",
                                         "true",   "1.5"};
    char body[256];
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const char *name = fields[i];
        const bool is_bool = strcmp(name, "stream") == 0 || strcmp(name, "echo") == 0;
        const bool is_text = strcmp(name, "stop") == 0 || strcmp(name, "model") == 0;
        const bool is_object =
            strcmp(name, "logit_bias") == 0 || strcmp(name, "stream_options") == 0;
        const bool is_penalty = strstr(name, "presence") != NULL || strstr(name, "freq") != NULL;
        const bool is_real =
            is_penalty || strcmp(name, "temperature") == 0 || strcmp(name, "repeat_penalty") == 0;
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
            const char *value = values[k];
            const bool fits = (is_bool && strcmp(value, "true") == 0) ||
                              (is_text && value[0] == '"') || (is_object && value[0] == '{') ||
                              (is_penalty && strcmp(value, "-1") == 0) ||
                              (is_real && strcmp(value, "1.5") == 0) ||
                              (strcmp(name, "repeat_last_n") == 0 && strcmp(value, "-1") == 0) ||
                              (strcmp(name, "seed") == 0 && value[0] == '9');
            if (!fits) {
                (void)snprintf(body, sizeof body, "{\"prompt\": \"a\", \"%s\": %s}", name, value);
                refused(port, text_path, body, 400, name);
            }
        }
    }
    refused(port, text_path, "{\"prompt\": \"a\", \"model\": \"gpt-4\"}", 404, "model");
    refused(port, text_path, "{}", 400, "prompt");
    refused(port, text_path, "{\"prompt\": \"\"}", 400, "prompt");
    refused(port, text_path, "{\"prompt\": []}", 400, "prompt");
    refused(port, text_path, "{\"prompt\": [1, -1]}", 400, "prompt");
    refused(port, text_path, "{\"prompt\": [1, 99999999]}", 400, "prompt");
    refused(port, text_path, "{\"prompt\": [\"a\", 1]}", 400, "prompt");
    refused(port, text_path, "{\"prompt\": [\"a\", [\"b\"]]}", 400, "prompt");
    refused(port, text_path, "{\"prompt\": \"a\", \"n\": 33, \"best_of\": 40}", 400, "best_of");
    refused(port, text_path, "{\"prompt\": [\"a\", \"b\"], \"n\": 40}", 400, "n");
    refused(port, text_path, "{\"prompt\": \"a\", \"logit_bias\": {\"x\": 1}}", 400, "logit_bias");
    refused(port, text_path, "{\"prompt\": \"a\", \"logit_bias\": {\"1\": 101}}", 400,
            "logit_bias");
    refused(port, text_path, "{\"prompt\": \"a\", \"logit_bias\": {\"99999999\": 1}}", 400,
            "logit_bias");
    refused(port, text_path, "{\"prompt\": \"a\", \"stop\": [\"\"]}", 400, "stop");
    refused(port, text_path, "{\"prompt\": \"a\", \"suffix\": \"b\"}", 400, "suffix");
}

/* `n` times `unit` between two texts. */
static char *repeated(const char *before, const char *unit, size_t n, const char *after) {
    const size_t n_unit = strlen(unit);
    const size_t n_before = strlen(before);
    char *text = malloc(n_before + n * n_unit + strlen(after) + 1);
    if (text == NULL) {
        exit(1);
    }
    memcpy(text, before, n_before);
    for (size_t i = 0; i < n; i++) {
        memcpy(text + n_before + i * n_unit, unit, n_unit);
    }
    memcpy(text + n_before + n * n_unit, after, strlen(after) + 1);
    return text;
}

static void check_inputs(int port) {
    static const char path[] = "/v1/embeddings";
    static const char *const bad[][2] = {
        {"{}", "input"},
        {"{\"prompt\": \"a\"}", "input"},
        {"{\"input\": null}", "input"},
        {"{\"input\": \"\"}", "input"},
        {"{\"input\": []}", "input"},
        {"{\"input\": {}}", "input"},
        {"{\"input\": [\"a\", \"\"]}", "input"},
        {"{\"input\": [\"a\", []]}", "input"},
        {"{\"input\": [\"a\", 1]}", "input"},
        {"{\"input\": [1, -1]}", "input"},
        {"{\"input\": [[99999999]]}", "input"},
        {"{\"input\": \"a\", \"encoding_format\": \"int8\"}", "encoding_format"},
        {"{\"input\": \"a\", \"encoding_format\": 1}", "encoding_format"},
        {"{\"input\": \"a\", \"dimensions\": 7}", "dimensions"},
        {"{\"input\": \"a\", \"dimensions\": 0}", "dimensions"},
        {"{\"input\": \"a\", \"pooling\": \"cls\"}", "pooling"},
        {"{\"input\": \"a\", \"pooling\": \"\"}", "pooling"},
        {"{\"input\": \"a\", \"normalize\": \"yes\"}", "normalize"},
        {"{\"input\": \"a\", \"timeout_ms\": -1}", "timeout_ms"},
        {"{\"input\": \"a\", \"receipt\": true}", "receipt"},
        {"{\"input\": \"a\", \"stream\": true}", "stream"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        refused(port, path, bad[i][0], 400, bad[i][1]);
    }
    refused(port, path, "{\"input\": \"a\", \"model\": \"ada\"}", 404, "model");
    char *many = repeated("{\"input\": [\"a\"", ", \"a\"", 2048, "]}");
    refused(port, path, many, 400, "input");
    free(many);
    char *longer = repeated("{\"input\": [\"a\", \"", "word ", 3000, "\"]}");
    http_answer a = http_call(port, "POST", path, longer);
    check_error(&a, 400, "input", "a text that is too long");
    CHECK(a.body != NULL && strstr(a.body, "has room for 512") != NULL);
    http_free(&a);
    free(longer);
}

static void check_messages(int port) {
    refused(port, chat_path, "{}", 400, "messages");
    refused(port, chat_path, "{\"messages\": []}", 400, "messages");
    refused(port, chat_path, "{\"messages\": {}}", 400, "messages");
    refused(port, chat_path, "{\"messages\": [5]}", 400, "messages");
    refused(port, chat_path, "{\"messages\": [{}]}", 400, "messages");
    refused(port, chat_path, "{\"messages\": [{\"role\": \"user\"}]}", 400, "messages");
    refused(port, chat_path, "{\"messages\": [{\"role\": 1, \"content\": \"a\"}]}", 400,
            "messages");
    refused(port, chat_path, "{\"messages\": [{\"role\": \"wizard\", \"content\": \"a\"}]}", 400,
            "messages");
    refused(port, chat_path, "{\"messages\": [{\"role\": \"user\", \"content\": 7}]}", 400,
            "messages");
    static const char base[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], %s}";
    static const char *const more[][2] = {
        {"\"tools\": 5", "tools"},
        {"\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}], "
         "\"parallel_tool_calls\": 0",
         "parallel_tool_calls"},
        {"\"functions\": [{}]", "functions"},
        {"\"tool_choice\": \"required\"", "tool_choice"},
        {"\"audio\": {\"voice\": \"x\"}", "audio"},
        {"\"modalities\": [\"text\", \"audio\"]", "modalities"},
        {"\"response_format\": {\"type\": \"xml\"}", "response_format"},
        {"\"response_format\": {\"type\": \"json_schema\"}", "response_format"},
        {"\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"schema\": "
         "{\"type\": "
         "\"what\"}}}",
         "response_format"},
        {"\"grammar\": \"root ::= missing\"", "grammar"},
        {"\"grammar\": \"root ::= root\"", "grammar"},
        {"\"grammar\": \"root ::= [a]\", \"ignore_eos\": true", "ignore_eos"},
        {"\"grammar\": \"root ::= [a]\", \"response_format\": {\"type\": \"json_object\"}",
         "grammar"},
        {"\"top_logprobs\": 3", "top_logprobs"},
        {"\"logprobs\": true, \"top_logprobs\": 21", "top_logprobs"},
        {"\"max_tokens\": 0", "max_tokens"},
        {"\"chat_template_kwargs\": []", "chat_template_kwargs"},
    };
    char body[512];
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        (void)snprintf(body, sizeof body, base, more[i][0]);
        refused(port, chat_path, body, 400, more[i][1]);
    }
}

static void check_sizes(int port) {
    char *deep = repeated("{\"prompt\": ", "[", 20000, "");
    refused(port, text_path, deep, 400, NULL);
    free(deep);
    char *large = repeated("{\"prompt\": \"", "abcdefgh", 20 * 131072, "\"}");
    refused(port, text_path, large, 413, NULL);
    free(large);
    char *many = repeated("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}",
                          ", {\"role\": \"user\", \"content\": \"a\"}", 100000, "]}");
    refused(port, chat_path, many, 400, NULL);
    free(many);
    char *longer = repeated("{\"prompt\": \"", "word ", 3000, "\"}");
    http_answer a = http_call(port, "POST", text_path, longer);
    check_error(&a, 400, "prompt", "a prompt that is too long");
    const char *found = a.body != NULL ? strstr(a.body, "has room for 512") : NULL;
    CHECK_MSG(found != NULL, "both numbers: %s", a.body);
    http_free(&a);
    free(longer);
    char *stops = repeated("{\"prompt\": \"a\", \"stop\": [\"x\"", ", \"x\"", 16, "]}");
    refused(port, text_path, stops, 400, "stop");
    free(stops);
}

LK_TEST(bad_bodies) {
    static const char *const arguments[] = {"-np", "2", "-c", "512", NULL};
    server_process process = server_start(arguments);
    neighbour n;
    neighbour_start(&n, process.port);
    check_json(process.port);
    check_fields(process.port);
    check_inputs(process.port);
    check_messages(process.port);
    check_sizes(process.port);
    neighbour_stop(&n);
    json_decref(http_json(process.port, "POST", text_path,
                          "{\"prompt\": \"a\", \"max_tokens\": 2, \"user\": \"me\", \"store\": "
                          "false, \"x_unknown\": {\"a\": [1]}}",
                          200));
    server_stop(&process);
}

/* ---- connections ---- */

static void check_methods(int port) {
    static const struct {
        const char *method, *path;
        int status;
    } wrong[] = {
        {"GET", "/v1/completions", 405},
        {"PUT", "/v1/completions", 405},
        {"DELETE", "/health", 405},
        {"POST", "/v1/models", 405},
        {"GET", "/nothing", 404},
        {"POST", "/v1/completions/x", 404},
        {"GET", "/v1/models/other", 404},
        {"POST", "/slots/9?action=erase", 404},
        {"POST", "/slots/0?action=burn", 400},
        {"POST", "/slots/0?action=save", 400},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        http_answer a = http_call(port, wrong[i].method, wrong[i].path, NULL);
        check_error(&a, wrong[i].status, NULL, wrong[i].path);
        http_free(&a);
    }
}

/* Several requests at once on one connection: answered in order. */
static void check_pipelining(int port) {
    static const char one[] = "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n"
                              "{\"content\": \"abc %d\"}";
    char text[2048];
    size_t n = 0;
    for (int i = 0; i < 8; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, one, i);
    }
    static const char generate[] =
        "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 34\r\n\r\n"
        "{\"prompt\": \"abc\", \"max_tokens\": 3}GET /health HTTP/1.1\r\nHost: a\r\n\r\n";
    n += (size_t)snprintf(text + n, sizeof text - n, "%s", generate);
    const int fd = http_connect(port);
    CHECK(http_send(fd, text, n));
    for (int i = 0; i < 10; i++) {
        http_answer a = http_read(fd);
        CHECK_MSG(a.status == 200, "pipelined request %d: status %d: %s", i, a.status,
                  a.body != NULL ? a.body : "");
        CHECK(i != 8 || a.body == NULL || strstr(a.body, "text_completion") != NULL);
        CHECK(i != 9 || a.body == NULL || strstr(a.body, "\"ok\"") != NULL);
        http_free(&a);
    }
    (void)close(fd);
}

/* Half of a request, then nothing: the server ends it; also when bytes trickle in. */
static void check_half_requests(int port) {
    static const char *const halves[] = {
        "POST /v1/comp",
        "POST /v1/completions HTTP/1.1\r\nHost: a\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{\"prompt\"",
        "\r\n",
    };
    enum { N = sizeof halves / sizeof halves[0] };
    int fds[N + 1];
    char c = 0;
    for (int i = 0; i < N; i++) {
        fds[i] = http_connect(port);
        CHECK(http_send(fds[i], halves[i], strlen(halves[i])));
    }
    fds[N] = http_connect(port);
    bool is_open = http_send(fds[N], halves[1], strlen(halves[1]));
    const double start = seconds_now();
    while (is_open && seconds_now() - start < 20) {
        sleep_ms(50);
        is_open = http_send(fds[N], "X: y\r\n", 6);
    }
    CHECK_MSG(!is_open, "a header that never ends is taken for %g s", seconds_now() - start);
    for (int i = 0; i < N; i++) {
        ssize_t got = 1;
        while (got > 0) {
            got = recv(fds[i], &c, 1, 0); /* perhaps an error page, then the end */
        }
        CHECK_MSG(got == 0 || seconds_now() - start < 20, "half request %d stays open", i);
        (void)close(fds[i]);
    }
    (void)close(fds[N]);
}

static void check_garbage(int port) {
    static const char *const texts[] = {
        "\x16\x03\x01\x02\x01\x01",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const int fd = http_connect(port);
        CHECK(http_send(fd, texts[i], strlen(texts[i])));
        (void)shutdown(fd, SHUT_WR);
        http_answer a = http_read(fd);
        CHECK_MSG(a.status == 0 || (a.status >= 400 && a.status < 600), "garbage %zu: status %d", i,
                  a.status);
        http_free(&a);
        (void)close(fd);
    }
}

/* The test holds as many descriptors as the server. */
static void raise_descriptors(void) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK_MSG(limit.rlim_max >= 1200, "only %llu descriptors are allowed",
              (unsigned long long)limit.rlim_max);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

LK_TEST(bad_connections) {
    static const char *const arguments[] = {
        "-np", "2", "-c", "512", "--header-timeout", "2", "--body-timeout", "2", NULL};
    server_process process = server_start(arguments);
    const int port = process.port;
    neighbour n;
    neighbour_start(&n, port);
    check_methods(port);
    check_pipelining(port);
    check_garbage(port);
    check_half_requests(port);
    neighbour_stop(&n);
    server_stop(&process);
}

/* A thousand connections that send nothing stay open and disturb nobody. */
LK_TEST(idle_connections) {
    static const char *const arguments[] = {"-np", "2", "-c", "512", NULL};
    enum { N_IDLE = 1000 };
    static int idle[N_IDLE];
    raise_descriptors();
    server_process process = server_start(arguments);
    neighbour n;
    neighbour_start(&n, process.port);
    for (int i = 0; i < N_IDLE; i++) {
        idle[i] = http_connect(process.port);
    }
    const int n_runs = n.n_runs;
    for (int i = 0; i < 5; i++) {
        json_decref(http_json(process.port, "POST", text_path,
                              "{\"prompt\": \"a\", \"max_tokens\": 2}", 200));
        sleep_ms(50);
    }
    int n_open = 0;
    for (int i = 0; i < N_IDLE; i++) {
        char c = 0;
        errno = 0;
        n_open += recv(idle[i], &c, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
        (void)close(idle[i]);
    }
    neighbour_stop(&n);
    (void)printf("%d idle connections, %d runs of the neighbour meanwhile\n", n_open,
                 n.n_runs - n_runs);
    CHECK_MSG(n_open == N_IDLE, "%d of %d idle connections are open", n_open, N_IDLE);
    server_stop(&process);
}

/* ---- clients that leave, read slowly, or come too many at once ---- */

static const char long_body[] = "{\"prompt\": \"On and on\", \"max_tokens\": 1000, \"ignore_eos\": "
                                "true, \"seed\": 3, \"stream\": %s}";

static int begin_long(int port, bool stream) {
    char body[256];
    (void)snprintf(body, sizeof body, long_body, stream ? "true" : "false");
    const int fd = http_connect(port);
    CHECK(http_send_request(fd, "POST", text_path, NULL, body));
    return fd;
}

LK_TEST(clients_that_leave) {
    static const char *const arguments[] = {"-np", "1", "-c", "4096", "-t", "1", NULL};
    server_process process = server_start(arguments);
    const int port = process.port;
    /* One runs, one waits; both go away. */
    for (int round = 0; round < 4; round++) {
        const int first = begin_long(port, round % 2 == 0);
        CHECK(metric_rises_to(port, "slots_busy", 1));
        const int second = begin_long(port, round % 2 == 1);
        while (metric(port, "queue_length") < 1 && metric(port, "slots_busy") > 0) {
            sleep_ms(1);
        }
        (void)close(second);
        (void)close(first);
        const double start = seconds_now();
        CHECK(metric_falls_to(port, "http_requests_open", 0));
        const double took = seconds_now() - start;
        CHECK_MSG(took < 2, "the work of clients that left went on for %g s", took);
    }
    CHECK(metric(port, "clients_gone_total") >= 4);
    /* One that does not read: the engine goes on, others get theirs. */
    const int slow = begin_long(port, true);
    char *ids = stream_ids(port);
    CHECK(strlen(ids) > 40);
    free(ids);
    CHECK(metric_falls_to(port, "slots_busy", 0));
    http_answer a = http_read(slow); /* all of it is still there */
    CHECK(a.status == 200 && strstr(a.body, "[DONE]") != NULL);
    http_free(&a);
    (void)close(slow);
    server_stop(&process);
}

/* Clients that leave while an action on a slot waits for the engine, which is in a long prompt,
 * leave nothing behind. */
LK_TEST(slot_clients_that_leave) {
    static const char *const arguments[] = {"-np", "2", "-c", "16384", "--ctx", "16384",
                                            "-t",  "1", "-b", "512",   NULL};
    enum { N_AT_ONCE = 8, N_ROUNDS = 10 };
    static const struct linger now = {1, 0}; /* the end is a reset */
    server_process process = server_start(arguments);
    const int port = process.port;
    char *body =
        repeated("{\"max_tokens\": 1, \"cache_prompt\": false, \"prompt\": [1", ", 2", 12000, "]}");
    int n_early = 0;
    for (int round = 0; round < N_ROUNDS; round++) {
        const int busy = http_connect(port);
        CHECK(http_send_request(busy, "POST", text_path, NULL, body));
        CHECK(metric_rises_to(port, "slots_busy", 1));
        int fds[N_AT_ONCE];
        for (int i = 0; i < N_AT_ONCE; i++) {
            fds[i] = http_connect(port);
            CHECK(setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0);
            CHECK(http_send_request(fds[i], "POST", "/slots/1?action=erase", NULL, NULL));
        }
        sleep_ms(2);
        for (int i = 0; i < N_AT_ONCE; i++) {
            char c = 0;
            n_early += recv(fds[i], &c, 1, MSG_DONTWAIT) < 0; /* not answered yet */
            (void)close(fds[i]);
        }
        (void)close(busy);
        CHECK(metric_falls_to(port, "slots_busy", 0));
        CHECK_MSG(metric_falls_to(port, "slot_actions_open", 0), "%g actions are left",
                  metric(port, "slot_actions_open"));
    }
    CHECK_MSG(n_early > N_ROUNDS * N_AT_ONCE / 4, "only %d left before their answer", n_early);
    free(body);
    server_stop(&process);
}

/* Seconds from the end of a connection until the server has noticed it. */
static double notice_s(int port, int fd) {
    const double n_before = metric(port, "clients_gone_total");
    (void)close(fd);
    const double start = seconds_now();
    while (metric(port, "clients_gone_total") <= n_before && seconds_now() - start < 20) {
        sleep_ms(1);
    }
    return seconds_now() - start;
}

/* Within 100 ms, while the request waits and while its prompt is computed; on a machine that
 * others keep busy the best of several. */
LK_TEST(noticed_in_time) {
    static const char *const arguments[] = {"-np", "1", "-c", "16384", "--ctx", "16384",
                                            "-t",  "1", "-b", "8",     NULL};
    server_process process = server_start(arguments);
    const int port = process.port;
    char *body =
        repeated("{\"stream\": true, \"cache_prompt\": false, \"prompt\": [1", ", 2", 12000, "]}");
    double waiting = 20;
    double in_prompt = 20;
    for (int round = 0; round < 5; round++) {
        const int first = http_connect(port);
        CHECK(http_send_request(first, "POST", text_path, NULL, body));
        CHECK(metric_rises_to(port, "slots_busy", 1));
        const int second = begin_long(port, round % 2 == 0);
        CHECK(metric_rises_to(port, "queue_length", 1));
        double took = notice_s(port, second);
        waiting = took < waiting ? took : waiting;
        CHECK(metric(port, "slots_busy") > 0 && metric(port, "generated_tokens_total") < 1);
        took = notice_s(port, first);
        in_prompt = took < in_prompt ? took : in_prompt;
        CHECK(metric_falls_to(port, "slots_busy", 0));
    }
    (void)printf("noticed after %.1f ms in the queue, %.1f ms in the prompt\n", 1000 * waiting,
                 1000 * in_prompt);
    CHECK(waiting < 0.1 && in_prompt < 0.1);
    free(body);
    server_stop(&process);
}

LK_TEST(full_queue) {
    static const char *const arguments[] = {"-np", "1", "-c", "4096", "--queue", "2", NULL};
    server_process process = server_start(arguments);
    const int port = process.port;
    int fds[8];
    for (int i = 0; i < 8; i++) {
        fds[i] = begin_long(port, false);
    }
    int n_busy = 0;
    for (int i = 0; i < 8; i++) {
        http_answer a = http_read(fds[i]);
        CHECK(a.status == 200 || a.status == 503);
        if (a.status == 503) {
            n_busy++;
            check_error(&a, 503, NULL, "full queue");
            CHECK(strstr(a.head, "Retry-After: ") != NULL);
        }
        http_free(&a);
        (void)close(fds[i]);
    }
    CHECK_MSG(n_busy >= 1, "%d of 8 were refused", n_busy);
    json_decref(http_json(port, "POST", text_path, "{\"prompt\": \"a\", \"max_tokens\": 2}", 200));
    server_stop(&process);
}

LK_TEST(time_limit_and_drain) {
    static const char *const arguments[] = {"-np", "2", "-c", "4096", NULL};
    server_process process = server_start(arguments);
    const int port = process.port;
    http_answer a = http_call(port, "POST", text_path,
                              "{\"prompt\": \"a\", \"max_tokens\": 2000, \"ignore_eos\": true, "
                              "\"timeout_ms\": 20}");
    check_error(&a, 504, NULL, "timeout");
    http_free(&a);
    /* A stream that runs finishes after SIGTERM; a new request is refused. */
    const int running = begin_long(port, true);
    CHECK(metric_rises_to(port, "slots_busy", 1));
    (void)kill(process.pid, SIGTERM);
    sleep_ms(100);
    a = http_read(running);
    CHECK(a.status == 200 && strstr(a.body, "[DONE]") != NULL);
    CHECK(a.body != NULL && strstr(a.body, "\"finish_reason\":\"length\"") != NULL);
    http_free(&a);
    (void)close(running);
    server_wait(&process);
    /* A second signal ends what runs. */
    process = server_start(arguments);
    const int ended = begin_long(process.port, true);
    CHECK(metric_rises_to(process.port, "slots_busy", 1));
    (void)kill(process.pid, SIGTERM);
    sleep_ms(20);
    (void)kill(process.pid, SIGTERM);
    a = http_read(ended);
    http_free(&a);
    (void)close(ended);
    server_wait(&process);
}

/* Killed while it saves a slot, a server leaves the old file or the new one, whole: another one
 * restores from it. */
LK_TEST(killed_while_saving) {
    static const char *const arguments[] = {"-np", "1", "-c", "2048", "--slot-save-path",
                                            ".",   NULL};
    static const char save[] = "/slots/0?action=save";
    static const char restore[] = "/slots/0?action=restore";
    static const char name[] = "{\"filename\": \"killed.bin\"}";
    const int n = (int)lk_test_size(2, 6, 100);
    for (int i = 0; i < n; i++) {
        server_process process = server_start(arguments);
        char body[128];
        (void)snprintf(body, sizeof body,
                       "{\"prompt\": \"a\", \"max_tokens\": %d, \"ignore_eos\": true}",
                       100 + 40 * i);
        json_decref(http_json(process.port, "POST", text_path, body, 200));
        if (i == 0) {
            json_decref(http_json(process.port, "POST", save, name, 200));
        }
        const int fd = http_connect(process.port);
        CHECK(http_send_request(fd, "POST", save, NULL, name));
        sleep_ms(i % 4);
        (void)kill(process.pid, SIGKILL);
        (void)waitpid(process.pid, NULL, 0);
        (void)close(fd);
        process = server_start(arguments);
        json_t *restored = http_json(process.port, "POST", restore, name, 200);
        const int64_t n_restored = json_integer_value(json_object_get(restored, "n_restored"));
        CHECK_MSG(n_restored >= 100, "%lld positions", (long long)n_restored);
        json_decref(restored);
        server_stop(&process);
    }
    (void)system("rm -f killed.bin killed.bin.*");
}

LK_TEST_MAIN(LK_RUN(bad_bodies), LK_RUN(bad_connections), LK_RUN(idle_connections),
             LK_RUN(clients_that_leave), LK_RUN(slot_clients_that_leave), LK_RUN(noticed_in_time),
             LK_RUN(full_queue), LK_RUN(time_limit_and_drain), LK_RUN(killed_while_saving))
