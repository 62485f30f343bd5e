/* test_serve_limits.c - what a request may ask for and take: fields that cannot be obeyed are
 * refused by name, several limits hold together, bodies that are refused are received all the same,
 * values of a body are bounded in memory, and a stream that is read slowly is whole when the
 * server ends. */
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lk_test.h"
#include "server_process.h"

static const char chat_path[] = "/v1/chat/completions";
static const char text_path[] = "/v1/completions";
static const char llama_path[] = "/completion";
static const char *const paths[] = {chat_path, text_path, llama_path};

static server_process process;

static void make_body(char *body, size_t size, const char *path, const char *more) {
    (void)snprintf(body, size, "{%s, \"ignore_eos\": true%s}",
                   path == chat_path ? "\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]"
                                     : "\"prompt\": \"a\"",
                   more);
}

static void check_refused(const char *path, const char *name, const char *value) {
    char more[256];
    char body[512];
    (void)snprintf(more, sizeof more, ", \"%s\": %s", name, value);
    make_body(body, sizeof body, path, more);
    json_t *answer = http_json(process.port, "POST", path, body, 400);
    const char *param =
        json_string_value(json_object_get(json_object_get(answer, "error"), "param"));
    CHECK_MSG(param != NULL && strcmp(param, name) == 0, "%s %s: param %s", path, body,
              param != NULL ? param : "none");
    json_decref(answer);
}

LK_TEST(fields_that_cannot_be_obeyed) {
    /* Value that asks for something, value that asks for nothing, endpoints. */
    static const struct {
        const char *name, *asks, *harmless;
        bool is_refused[3];
    } fields[] = {
        {"functions", "[{}]", "[]", {true, true, true}},
        {"function_call", "{\"name\": \"f\"}", "\"auto\"", {true, true, true}},
        {"suffix", "\"b\"", "\"\"", {true, true, true}},
        {"samplers", "[\"top_k\"]", "[]", {true, true, true}},
        {"mirostat", "2", "0", {true, true, true}},
        {"top_n_sigma", "1.5", "-1", {true, true, true}},
        {"t_max_predict_ms", "100", "0", {true, true, true}},
        {"min_tokens", "4", "0", {true, true, true}},
        {"stop_token_ids", "[2]", "[]", {true, true, true}},
        {"skip_special_tokens", "false", "true", {true, true, true}},
        {"length_penalty", "1.2", "1.0", {true, true, true}},
        {"continue_final_message", "true", "false", {true, true, true}},
        {"modalities", "[\"audio\"]", "[\"text\"]", {true, true, true}},
        {"echo", "true", "false", {true, false, true}},
        {"n_probs", "3", "0", {true, true, false}},
        {"top_logprobs", "3", "0", {true, true, true}}, /* a chat lacks `logprobs` here */
        {"logprobs", "3", "null", {true, false, true}},
        {"prompt", "\"b\"", "null", {true, false, false}},
        {"messages", "[{}]", "null", {false, true, true}},
        {"reasoning_effort", "\"low\"", "null", {false, true, true}},
        {"n", "2", "1", {false, false, true}},
        {"reasoning_effort", "7", "null", {true, true, true}},
    };
    char more[256];
    char body[512];
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        for (size_t k = 0; k < 3; k++) {
            const bool has_own = (k == 0 && strcmp(fields[i].name, "messages") == 0) ||
                                 (k != 0 && strcmp(fields[i].name, "prompt") == 0);
            if (fields[i].is_refused[k]) {
                check_refused(paths[k], fields[i].name, fields[i].asks);
            }
            (void)snprintf(more, sizeof more, ", \"max_tokens\": 1, \"%s\": %s", fields[i].name,
                           fields[i].harmless);
            make_body(body, sizeof body, paths[k], more);
            if (!has_own) {
                json_decref(http_json(process.port, "POST", paths[k], body, 200));
            }
        }
    }
}

static int64_t n_generated(const char *path, const char *more) {
    char body[512];
    make_body(body, sizeof body, path, more);
    json_t *answer = http_json(process.port, "POST", path, body, 200);
    const json_t *usage = json_object_get(answer, "usage");
    const int64_t n = json_integer_value(json_object_get(usage, "completion_tokens"));
    json_decref(answer);
    return n;
}

/* Every endpoint takes all names of the limit, and the smallest one holds. */
LK_TEST(limits_of_tokens) {
    for (size_t i = 0; i < 3; i++) {
        CHECK(n_generated(paths[i], ", \"max_tokens\": 3") == 3);
        CHECK(n_generated(paths[i], ", \"max_completion_tokens\": 4") == 4);
        CHECK(n_generated(paths[i], ", \"n_predict\": 5") == 5);
        CHECK(n_generated(paths[i], ", \"n_predict\": -1, \"max_tokens\": 7, "
                                    "\"max_completion_tokens\": 6") == 6);
        check_refused(paths[i], "n_predict", "2147483648");
        check_refused(paths[i], "max_tokens", "\"5\"");
    }
}

LK_TEST(tools_of_a_template) {
    static const char format[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": %s}";
    char body[512];
    (void)snprintf(body, sizeof body, format,
                   "[{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", "
                   "\"parameters\": {\"type\": \"object\"}}}]");
    json_t *answer = http_json(process.port, "POST", "/apply-template", body, 200);
    const char *prompt = json_string_value(json_object_get(answer, "prompt"));
    CHECK(prompt != NULL && strstr(prompt, "get_weather") != NULL);
    (void)snprintf(body, sizeof body, format, "7");
    json_decref(http_json(process.port, "POST", "/apply-template", body, 400));
    json_decref(answer);
}

/* A client that sends all of a body before it reads gets its answer, and may go on. */
LK_TEST(bodies_nobody_wants) {
    static const struct {
        const char *method, *path;
        int status;
    } refused[] = {
        {"POST", text_path, 413}, {"POST", "/nothing", 404}, {"POST", "/v1/models", 405}};
    const size_t n = (size_t)20 << 20;
    char *body = calloc(1, n);
    const int fd = http_connect(process.port);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0] && body != NULL; i++) {
        CHECK(http_send_body(fd, refused[i].method, refused[i].path, NULL, body, n));
        http_answer a = http_read(fd);
        CHECK_MSG(a.status == refused[i].status, "%s: status %d", refused[i].path, a.status);
        http_free(&a);
    }
    CHECK(http_send_request(fd, "GET", "/health", NULL, NULL));
    http_answer a = http_read(fd);
    CHECK(a.status == 200);
    http_free(&a);
    (void)close(fd);
    /* Who asks first is told at once. */
    const int asking = http_connect(process.port);
    CHECK(http_send(asking,
                    "POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n"
                    "Expect: 100-continue\r\n\r\n",
                    strlen("POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n"
                           "Expect: 100-continue\r\n\r\n")));
    a = http_read(asking);
    CHECK_MSG(a.status == 404, "status %d", a.status);
    http_free(&a);
    (void)close(asking);
    free(body);
}

/* 16 MB of empty containers would be a gigabyte. */
LK_TEST(memory_of_values) {
    static const char *const units[] = {"[],", "{},", "{\"a\":0},", "1,"};
    const size_t room = (size_t)15 << 20;
    char *body = malloc(room + 64);
    const long before_kb = resident_kb(process.pid);
    for (size_t i = 0; i < sizeof units / sizeof units[0] && body != NULL; i++) {
        const size_t n_unit = strlen(units[i]);
        size_t n = (size_t)snprintf(body, room, "{\"prompt\": \"a\", \"x\": [");
        while (n + n_unit < room) {
            memcpy(body + n, units[i], n_unit);
            n += n_unit;
        }
        memcpy(body + n, "0]}", 4);
        http_answer a = http_call(process.port, "POST", text_path, body);
        CHECK_MSG(a.status == 413 && strstr(a.body, "bytes of memory") != NULL, "%s: status %d",
                  units[i], a.status);
        http_free(&a);
    }
    const long after_kb = resident_kb(process.pid);
    CHECK_MSG(after_kb < before_kb + (100 << 10), "%ld KiB before, %ld after", before_kb, after_kb);
    /* Brackets in texts are texts. */
    size_t n = (size_t)snprintf(body, room, "{\"max_tokens\": 1, \"prompt\": \"a\", \"x\": \"\\\"");
    memset(body + n, '[', (size_t)2 << 20);
    memcpy(body + n + ((size_t)2 << 20), "\"}", 3);
    json_decref(http_json(process.port, "POST", text_path, body, 200));
    free(body);
}

/* A stream that nobody has read when the server is told to end, larger than what the system keeps
 * for a connection, comes whole. */
LK_TEST(drain_of_a_slow_reader) {
    static const char *const arguments[] = {"-np", "8", "-c", "8192", NULL};
    static const int small = 4096;
    static const int large = 1 << 22;
    server_process other = server_start(arguments);
    const int fd = http_connect(other.port);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0);
    CHECK(http_send_request(
        fd, "POST", text_path, NULL,
        "{\"prompt\": \"a\", \"max_tokens\": 600, \"ignore_eos\": true, \"n\": 8, "
        "\"stream\": true, \"logprobs\": 20}"));
    CHECK(metric_rises_to(other.port, "generated_tokens_total", 4800));
    CHECK(metric_falls_to(other.port, "http_requests_open", 0));
    (void)kill(other.pid, SIGTERM);
    sleep_ms(400); /* time enough to end, if it did not wait for the reader */
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &large, sizeof large) == 0);
    http_answer a = http_read(fd);
    CHECK_MSG(a.status == 200 && strstr(a.body, "data: [DONE]") != NULL, "%zu bytes, cut off",
              a.n_body);
    (void)printf("%zu bytes\n", a.n_body);
    http_free(&a);
    (void)close(fd);
    server_wait(&other);
}

static void start(void) {
    static const char *const arguments[] = {"-np", "2", "-c", "1024", NULL};
    process = server_start(arguments);
}

static void stop(void) {
    server_stop(&process);
}

LK_TEST_MAIN(LK_RUN(start), LK_RUN(fields_that_cannot_be_obeyed), LK_RUN(limits_of_tokens),
             LK_RUN(tools_of_a_template), LK_RUN(bodies_nobody_wants), LK_RUN(memory_of_values),
             LK_RUN(stop), LK_RUN(drain_of_a_slow_reader))
