/* test_verify_http.c - `lockstep verify` against servers: silent with an honest one and with our
 * own, each lie of a dishonest one found and named, and a broken one is exit status 2, in time. */
#include <pthread.h>

#include "faulty_server.h"
#include "lk_test.h"
#include "server_process.h"

/* What verify prints of a server at a port, with up to 12 more arguments (NULL at the end). */
static char *verify(int port, int *status, const char *const *more) {
    char url[64];
    const char *arguments[16] = {"verify", "--target", url};
    size_t n = 3;
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d", port);
    for (const char *const *at = more; *at != NULL; at++) {
        CHECK(n < 15);
        arguments[n++] = *at;
    }
    return tool_output(arguments, status);
}

/* A fault, what comes of it, and a text that the output has to hold. Streams are long enough to
 * meet. */
static void check_fault(faulty_fault fault, faulty_dialect dialect, int expected,
                        const char *text) {
    /* With a matrix where the factor has to be named. */
    static const char *const more[] = {"--only", "stagger",       "-stagger", "2",           "-n",
                                       "40",     "--max-seconds", "60",       "--no-matrix", NULL};
    static const char *const all[] = {"--only", "stagger",       "-stagger", "2", "-n",
                                      "40",     "--max-seconds", "60",       NULL};
    faulty_server *s = faulty_start(fault, dialect);
    int status = 0;
    char *out = verify(faulty_port(s), &status, fault == FAULTY_TOKENS ? all : more);
    /* On a busy machine the second request may come when the first one is done. */
    for (int again = 0; again < 5 && strstr(out, "did not meet") != NULL; again++) {
        free(out);
        out = verify(faulty_port(s), &status, fault == FAULTY_TOKENS ? all : more);
    }
    CHECK_MSG(status == expected, "fault %d: exit status %d, expected %d:\n%s", (int)fault, status,
              expected, out);
    CHECK_MSG(text == NULL || strstr(out, text) != NULL, "fault %d: no '%s' in:\n%s", (int)fault,
              text, out);
    free(out);
    faulty_stop(s);
}

LK_TEST(honest_servers_are_silent) {
    check_fault(FAULTY_NOTHING, DIALECT_IDS, 0, "token ids and log probabilities");
    check_fault(FAULTY_NOTHING, DIALECT_TEXT, 0, "completions: text");
}

LK_TEST(noise_is_called_noise) {
    check_fault(FAULTY_NOISE, DIALECT_IDS, 1, "float noise");
}

LK_TEST(lies_are_found) {
    check_fault(FAULTY_FOREIGN, DIALECT_IDS, 1, "the code word of another prompt");
    check_fault(FAULTY_FOREIGN, DIALECT_TEXT, 1, "the code word of another prompt");
    check_fault(FAULTY_TOKENS, DIALECT_IDS, 1, "smallest change without the difference: ");
    check_fault(FAULTY_LOOP, DIALECT_IDS, 1, "fell into a loop");
    check_fault(FAULTY_EMPTY, DIALECT_IDS, 1, "gave no token");
    check_fault(FAULTY_REFUSES, DIALECT_IDS, 1, "HTTP 500: out of slots");
    check_fault(FAULTY_CLOSES, DIALECT_IDS, 1, "without saying why");
}

/* Engines that could not be run here, as they are documented (faulty_dialect.h). */
LK_TEST(other_dialects_are_read) {
    check_fault(FAULTY_NOTHING, DIALECT_VLLM, 0, "vllm 0.12.0, model m, completions: token ids");
    check_fault(FAULTY_NOISE, DIALECT_VLLM, 1, "float noise");
    check_fault(FAULTY_FOREIGN, DIALECT_VLLM, 1, "the code word of another prompt");
    check_fault(FAULTY_NOTHING, DIALECT_OLLAMA, 0,
                "library 0.13.5, model m:latest, chats: text and log probabilities");
    check_fault(FAULTY_NOISE, DIALECT_OLLAMA, 1, "float noise");
    check_fault(FAULTY_FOREIGN, DIALECT_OLLAMA, 1, "the code word of another prompt");
    check_fault(FAULTY_LOOP, DIALECT_OLLAMA, 1, "fell into a loop");
}

LK_TEST(broken_servers_end_in_status_2) {
    static const faulty_fault faults[] = {FAULTY_DIES, FAULTY_JUNK, FAULTY_FLOODS,
                                          FAULTY_NO_MODELS};
    static const char *const none[] = {NULL};
    static const char *const soon[] = {"--max-seconds", "1", NULL};
    int status = 0;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        check_fault(faults[i], DIALECT_IDS, 2, NULL);
    }
    faulty_server *s = faulty_start(FAULTY_HANGS, DIALECT_IDS);
    const double start = seconds_now();
    free(verify(faulty_port(s), &status, soon));
    CHECK(status == 2 && seconds_now() - start < 30);
    faulty_stop(s);
    /* Nobody listens on that port any more. */
    s = faulty_start(FAULTY_NOTHING, DIALECT_IDS);
    const int port = faulty_port(s);
    faulty_stop(s);
    free(verify(port, &status, none));
    CHECK(status == 2);
}

LK_TEST(requests_are_counted) {
    static const char *const more[] = {"--max-requests", "7", "-n", "4", NULL};
    faulty_server *s = faulty_start(FAULTY_NOTHING, DIALECT_IDS);
    int status = 0;
    char *out = verify(faulty_port(s), &status, more);
    CHECK_MSG(strstr(out, "the requests that it was given are used up") != NULL, "%s", out);
    CHECK_MSG(faulty_requests(s) <= 7, "%d requests", faulty_requests(s));
    free(out);
    faulty_stop(s);
}

LK_TEST(our_own_is_silent) {
    static const char *const arguments[] = {"-np", "4", "--api-key", "k", NULL};
    static const char *const more[] = {"--only", "stagger,requests", "-n", "20", "--api-key", "k",
                                       NULL};
    static const char *const without[] = {"-n", "4", NULL};
    server_process server = server_start(arguments);
    int status = 0;
    char *out = verify(server.port, &status, more);
    CHECK_MSG(status == 0, "exit status %d:\n%s", status, out);
    CHECK_MSG(strstr(out, "DIFFERENT") == NULL && strstr(out, "noise") == NULL, "%s", out);
    free(out);
    free(verify(server.port, &status, without));
    CHECK(status == 2);
    server_stop(&server);
}

/* A server with an encoder hears the same in company; one without is asked once. */
LK_TEST(recordings_are_silent) {
    static const char *const without[] = {NULL};
    const char *const with[] = {"--mmproj", lk_test_data("omni/mmproj-tiny-omni-Q8_0.gguf"), NULL};
    const char *const more[] = {"--only", "audio", "--audio", lk_test_data("omni/clips/ref0.wav"),
                                "-n",     "12",    "-r",      "1",
                                NULL};
    int status = 0;
    server_process server = server_start_model(lk_test_data("omni/tiny-omni-Q4_K_M.gguf"), with);
    char *out = verify(server.port, &status, more);
    CHECK_MSG(status == 0 && strstr(out, "; recordings") != NULL, "exit status %d:\n%s", status,
              out);
    CHECK_MSG(strstr(out, "DIFFERENT") == NULL && strstr(out, "noise") == NULL, "%s", out);
    free(out);
    server_stop(&server);
    server = server_start(without);
    out = verify(server.port, &status, more);
    CHECK_MSG(status == 2 && strstr(out, "it takes no recordings") != NULL, "%s", out);
    free(out);
    server_stop(&server);
}

LK_TEST_MAIN(LK_RUN(honest_servers_are_silent), LK_RUN(noise_is_called_noise),
             LK_RUN(lies_are_found), LK_RUN(other_dialects_are_read),
             LK_RUN(broken_servers_end_in_status_2), LK_RUN(requests_are_counted),
             LK_RUN(our_own_is_silent), LK_RUN(recordings_are_silent))
