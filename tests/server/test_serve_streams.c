/* test_serve_streams.c - streams whose clients do not read: what is written by the threads that
 * compute, what waits for room, and what libmicrohttpd goes on with are one stream to the client.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lk_test.h"
#include "server_process.h"

static const char chat_path[] = "/v1/chat/completions";

/* The body of a stream of some megabytes: more than the system takes for a client that does not
 * read. Whoever asks gets its texts in the same order, event for event as the steps gave them. */
static const char large_body[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"A list\"}], "
    "\"max_tokens\": 500, \"ignore_eos\": true, \"seed\": 5, \"n\": 8, "
    "\"logprobs\": true, \"top_logprobs\": 20, \"stream\": true}";

static int begin_large(int port) {
    const int small = 4096;
    const int fd = http_connect(port);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0);
    CHECK(http_send_request(fd, "POST", chat_path, NULL, large_body));
    return fd;
}

enum { N_CHOICES = 8 };

/* The tokens of each choice, as their logprobs spell them. */
static void spell(const char *events, char *texts[N_CHOICES]) {
    size_t n[N_CHOICES] = {0};
    for (int i = 0; i < N_CHOICES; i++) {
        texts[i] = calloc(1, strlen(events) / N_CHOICES);
    }
    while ((events = strstr(events, "data: {")) != NULL) {
        json_t *event = json_loads(events + 6, JSON_DISABLE_EOF_CHECK, NULL);
        const json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
        const json_t *list = json_object_get(json_object_get(choice, "logprobs"), "content");
        const json_int_t i = json_integer_value(json_object_get(choice, "index"));
        CHECK_MSG(event != NULL && i >= 0 && i < N_CHOICES, "no event: %.100s", events);
        for (size_t k = 0; k < json_array_size(list); k++) {
            const json_t *token = json_object_get(json_array_get(list, k), "token");
            memcpy(texts[i] + n[i], json_string_value(token), json_string_length(token));
            n[i] += json_string_length(token);
        }
        json_decref(event);
        events += 6;
    }
}

static void check_texts(const char *wanted_events, const char *events) {
    char *wanted[N_CHOICES];
    char *texts[N_CHOICES];
    spell(wanted_events, wanted);
    spell(events, texts);
    for (int i = 0; i < N_CHOICES; i++) {
        CHECK(strlen(wanted[i]) > 500);
        CHECK_MSG(strcmp(wanted[i], texts[i]) == 0, "choice %d: %.80s... expected %.80s...", i,
                  texts[i], wanted[i]);
        free(wanted[i]);
        free(texts[i]);
    }
}

/* Streams that are full: what waits comes whole when the client reads again, nothing stays when it
 * leaves, and the second signal ends the server while one is left. */
LK_TEST(blocked_readers) {
    static const char *const arguments[] = {"-np", "8", "-c", "8192", "-t", "1", NULL};
    const int large = 1 << 20;
    server_process process = server_start(arguments);
    const int port = process.port;
    http_answer fast = http_call(port, "POST", chat_path, large_body);
    CHECK(fast.status == 200 && fast.n_body > 6000000);
    const int slow = begin_large(port);
    CHECK(metric_rises_to(port, "slots_busy", 1));
    const int gone = begin_large(port);
    CHECK(metric_falls_to(port, "http_requests_open", 0)); /* computed, though nobody reads */
    (void)close(gone);
    CHECK(setsockopt(slow, SOL_SOCKET, SO_RCVBUF, &large, sizeof large) == 0);
    http_answer a = http_read(slow);
    CHECK(a.status == 200 && strstr(a.body, "[DONE]") != NULL);
    check_texts(fast.body, a.body);
    http_free(&fast);
    http_free(&a);
    (void)close(slow);
    const int left = begin_large(port);
    CHECK(metric_rises_to(port, "slots_busy", 1));
    CHECK(metric_falls_to(port, "http_requests_open", 0));
    (void)kill(process.pid, SIGTERM);
    sleep_ms(200);
    server_stop(&process);
    (void)close(left);
}

LK_TEST_MAIN(LK_RUN(blocked_readers))
