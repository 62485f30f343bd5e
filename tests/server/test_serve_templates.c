/* test_serve_templates.c - chat templates over HTTP: what a template says through raise_exception
 * is the answer, a failure names its line, a model without a template has no chats unless one is
 * given, and one whose template does not parse is not served. */
#include <unistd.h>

#include "lk_test.h"
#include "server_process.h"

static const char chats[] = "/v1/chat/completions";
static const char tiny[] = "models/tiny-q4_k_m.gguf";

#define CHAT(content, more)                                                                        \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"" content "\"}], \"max_tokens\": 4" more  \
    "}"

/* A file beside the others of this run; `path` gets its name. */
static void write_file(const char *name, const void *bytes, size_t n, char path[256]) {
    (void)snprintf(path, 256, "lk-templates-%ld-%s", (long)getpid(), name);
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL && fwrite(bytes, 1, n, f) == n);
    CHECK(f != NULL && fclose(f) == 0);
}

/* The shipped model with other bytes in the place of some; they have one length. */
static void write_model(const char *name, const char *from, const char *to, char path[256]) {
    size_t n = 0;
    const size_t n_from = strlen(from);
    uint8_t *bytes = lk_test_read(lk_test_data(tiny), &n);
    size_t n_found = 0;
    CHECK(strlen(to) == n_from);
    for (size_t i = 0; i + n_from <= n && n_found == 0; i++) {
        if (memcmp(bytes + i, from, n_from) == 0) {
            memcpy(bytes + i, to, n_from);
            n_found++;
        }
    }
    CHECK_MSG(n_found == 1, "the model has no '%s'", from);
    write_file(name, bytes, n, path);
    free(bytes);
}

/* The request is refused with these words, as they stand or among others. */
static void refused(int port, const char *path, const char *body, const char *words, bool exactly) {
    json_t *answer = http_json(port, "POST", path, body, 400);
    const json_t *error = json_object_get(answer, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    const char *param = json_string_value(json_object_get(error, "param"));
    CHECK_MSG(message != NULL &&
                  (exactly ? strcmp(message, words) == 0 : strstr(message, words) != NULL),
              "%s, not %s", message, words);
    CHECK(param != NULL && strcmp(param, "messages") == 0);
    json_decref(answer);
}

LK_TEST(words_of_a_template) {
    static const char source[] =
        "{%- if messages[0].content == 'no' %}\n"
        "{{ raise_exception('Only \"yes\" may be said, \xC3\xA9: ' ~ messages | length) }}\n"
        "{%- elif messages[0].content == 'what' %}\n"
        "{{ messages[0].what.more }}\n"
        "{%- endif %}{{ messages[0].content }}";
    static const char words[] = "Only \"yes\" may be said, \xC3\xA9: 1";
    char path[256];
    write_file("words.jinja", source, sizeof source - 1, path);
    const char *const arguments[] = {"-np", "2", "-t", "1", "--chat-template", path, NULL};
    server_process process = server_start(arguments);
    refused(process.port, chats, CHAT("no", ""), words, true);
    refused(process.port, chats, CHAT("no", ", \"stream\": true"), words, true);
    refused(process.port, "/apply-template", CHAT("no", ""), words, true);
    refused(process.port, chats, CHAT("what", ""), "line 4", false);
    json_decref(http_json(process.port, "POST", chats, CHAT("yes", ""), 200));
    server_stop(&process);
    (void)unlink(path);
}

LK_TEST(no_template) {
    char path[256];
    write_model("none.gguf", "tokenizer.chat_template", "tokenizer.chat_templatE", path);
    static const char *const none[] = {"-np", "2", "-t", "1", NULL};
    static const char *const given[] = {"-np", "2", "-t", "1", "--chat-template", "chatml", NULL};
    server_process process = server_start_model(path, none);
    refused(process.port, chats, CHAT("Hi", ""), "--chat-template", false);
    refused(process.port, "/apply-template", CHAT("Hi", ""), "no chat template", false);
    json_decref(http_json(process.port, "POST", "/v1/completions",
                          "{\"prompt\": \"Hi\", \"max_tokens\": 4}", 200));
    server_stop(&process);
    process = server_start_model(path, given);
    json_decref(http_json(process.port, "POST", chats, CHAT("Hi", ""), 200));
    server_stop(&process);
    (void)unlink(path);
}

LK_TEST(template_that_does_not_parse) {
    char path[256];
    int status = 0;
    write_model("broken.gguf", "endfor", "endfar", path);
    const char *const arguments[] = {"serve", path, "--port", "0", NULL};
    free(tool_output(arguments, &status));
    CHECK(status == 1);
    static const char *const given[] = {"-np", "2", "-t", "1", "--chat-template", "chatml", NULL};
    server_process process = server_start_model(path, given);
    json_decref(http_json(process.port, "POST", chats, CHAT("Hi", ""), 200));
    server_stop(&process);
    (void)unlink(path);
}

LK_TEST_MAIN(LK_RUN(words_of_a_template), LK_RUN(no_template), LK_RUN(template_that_does_not_parse))
