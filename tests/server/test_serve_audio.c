/* test_serve_audio.c - recordings over HTTP: transcriptions and parts of messages give the words
 * that the model's own code gives, alone and in company, and what is wrong is refused with a
 * reason. */
#include <unistd.h>

#include "lk_test.h"
#include "server_process.h"

#define CHAT "/v1/chat/completions"
#define TRANSCRIBE "/v1/audio/transcriptions"
#define BOUNDARY "lockstep-boundary"
static const char words[] = "that knowing he's a good man"; /* ref0.wav */
static server_process process;

/* A growing text or body. */
typedef struct text {
    char *data;
    size_t n;
} text;

static void add_bytes(text *t, const void *bytes, size_t n) {
    t->data = realloc(t->data, t->n + n + 1);
    if (t->data == NULL) {
        exit(1);
    }
    memcpy(t->data + t->n, bytes, n);
    t->n += n;
    t->data[t->n] = '\0';
}

static void add(text *t, const char *more) {
    add_bytes(t, more, strlen(more));
}

static void add_base64(text *t, const uint8_t *bytes, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        uint32_t bits = (uint32_t)bytes[i] << 16;
        bits |= i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0;
        bits |= i + 2 < n ? (uint32_t)bytes[i + 2] : 0;
        const char four[4] = {digits[bits >> 18], digits[(bits >> 12) & 63],
                              i + 1 < n ? digits[(bits >> 6) & 63] : '=',
                              i + 2 < n ? digits[bits & 63] : '='};
        add_bytes(t, four, 4);
    }
}

static uint8_t *read_clip(const char *name, size_t *n) {
    char path[128];
    (void)snprintf(path, sizeof path, "omni/clips/%s.wav", name);
    return lk_test_read(lk_test_data(path), n);
}

/* A request to transcribe a clip by a chat; `more` ends the object. */
static text chat_about(const uint8_t *bytes, size_t n, const char *more) {
    text t = {NULL, 0};
    add(&t, "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"input_audio\", "
            "\"input_audio\": {\"format\": \"wav\", \"data\": \"");
    add_base64(&t, bytes, n);
    add(&t, "\"}}, {\"type\": \"text\", \"text\": \"Transcribe the following audio.\"}]}], "
            "\"temperature\": 0, \"seed\": 0");
    add(&t, more);
    return t;
}

static void add_field(text *t, const char *name, const char *value) {
    add(t, "--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"");
    add(t, name);
    add(t, "\"\r\n\r\n");
    add(t, value);
    add(t, "\r\n");
}

static text form_with(const uint8_t *bytes, size_t n, const char *name, const char *value) {
    text t = {NULL, 0};
    if (name != NULL) {
        add_field(&t, name, value);
    }
    add(&t, "--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"file\"; "
            "filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\n");
    add_bytes(&t, bytes, n);
    add(&t, "\r\n--" BOUNDARY "--\r\n");
    return t;
}

static http_answer post_form(const text *form) {
    const int fd = http_connect(process.port);
    (void)http_send_body(fd, "POST", TRANSCRIBE,
                         "Content-Type: multipart/form-data; boundary=" BOUNDARY "\r\n", form->data,
                         form->n);
    const http_answer answer = http_read(fd);
    (void)close(fd);
    return answer;
}

/* The status and a part of the body. */
static void check_form(text form, int status, const char *part) {
    http_answer a = post_form(&form);
    CHECK_MSG(a.status == status && a.body != NULL && strstr(a.body, part) != NULL,
              "status %d, expected %d and \"%s\": %s", a.status, status, part,
              a.body != NULL ? a.body : "");
    http_free(&a);
    free(form.data);
}

static void check_chat(text body, int status, const char *part) {
    http_answer a = http_call(process.port, "POST", CHAT, body.data);
    CHECK_MSG(a.status == status && a.body != NULL && strstr(a.body, part) != NULL,
              "status %d, expected %d and \"%s\": %s", a.status, status, part,
              a.body != NULL ? a.body : "");
    http_free(&a);
    free(body.data);
}

LK_TEST(transcriptions) {
    size_t n = 0;
    uint8_t *clip = read_clip("ref0", &n);
    check_form(form_with(clip, n, NULL, NULL), 200, "{\"text\":\"that knowing he's a good man\"}");
    check_form(form_with(clip, n, "response_format", "text"), 200, words);
    check_form(form_with(clip, n, "response_format", "verbose_json"), 200, "\"duration\":1.89");
    check_form(form_with(clip, n, "prompt", "How many words were spoken?"), 200, "\"text\":\"");
    check_form(form_with(clip, n, "temperature", "0.5"), 200, "\"text\":\"");
    check_form(form_with(clip, n, "response_format", "srt"), 400, "no timestamps");
    check_form(form_with(clip, n, "timestamp_granularities[]", "word"), 400,
               "'timestamp_granularities[]' is not supported");
    check_form(form_with(clip, n, "stream", "true"), 400, "'stream' is not supported");
    check_form(form_with(clip, n, "temperature", "warm"), 400, "expected a number");
    check_form(form_with(clip, n, "model", "whisper-1"), 404, "model_not_found");
    check_form(form_with(clip, n - 2, NULL, NULL), 400, "byte 4: the header says 60558 bytes");
    check_form(form_with(clip, 0, NULL, NULL), 400, "'file' is empty");
    text none = {NULL, 0};
    add_field(&none, "model", "x");
    add(&none, "--" BOUNDARY "--\r\n");
    check_form(none, 400, "'file' is missing");
    text cut = form_with(clip, n, NULL, NULL);
    cut.n -= 20;
    check_form(cut, 400, "multipart/form-data");
    http_answer a = http_call(process.port, "POST", TRANSCRIBE, "{}");
    CHECK(a.status == 400);
    http_free(&a);
    free(clip);
}

/* Exit status of a replay with some recordings. */
static int replay_with(const char *path, const char *clip, const char *other) {
    const char *arguments[12] = {"replay", lk_test_data("omni/tiny-omni-Q4_K_M.gguf"), path};
    size_t n = 3;
    int status = 0;
    if (clip != NULL) {
        arguments[n++] = "--mmproj";
        arguments[n++] = lk_test_data("omni/mmproj-tiny-omni-Q8_0.gguf");
        arguments[n++] = "--audio";
        arguments[n++] = lk_test_data(clip);
    }
    if (other != NULL) {
        arguments[n++] = "--audio";
        arguments[n++] = lk_test_data(other);
    }
    free(tool_output(arguments, &status));
    return status;
}

/* The receipt of an answer to a recording is computed again with that recording, and no other. */
LK_TEST(receipts) {
    size_t n = 0;
    char path[64];
    uint8_t *clip = read_clip("ref0", &n);
    text body = chat_about(clip, n, ", \"receipt\": true, \"n\": 2}");
    http_answer a = http_call(process.port, "POST", CHAT, body.data);
    CHECK_MSG(a.status == 200 && strstr(a.body, "\"audio\":[{\"first\":18,\"n\":47,") != NULL,
              "status %d: %s", a.status, a.body);
    (void)snprintf(path, sizeof path, "lk_receipt.%ld.json", (long)getpid());
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL && fwrite(a.body, 1, a.n_body, file) == a.n_body && fclose(file) == 0);
    CHECK(replay_with(path, "omni/clips/ref0.wav", NULL) == 0);
    CHECK(replay_with(path, "omni/clips/clip27.wav", NULL) == 1);
    CHECK(replay_with(path, "omni/clips/ref0.wav", "omni/clips/ref0.wav") == 1);
    CHECK(replay_with(path, NULL, NULL) == 1);
    char *digest = strstr(a.body, "\"vectors\":\"");
    CHECK(digest != NULL);
    if (digest != NULL) {
        digest[11] ^= 1; /* of other vectors */
        file = fopen(path, "wb");
        CHECK(file != NULL && fwrite(a.body, 1, a.n_body, file) == a.n_body && fclose(file) == 0);
        CHECK(replay_with(path, "omni/clips/ref0.wav", NULL) == 1);
    }
    (void)unlink(path);
    http_free(&a);
    free(body.data);
    free(clip);
}

LK_TEST(parts_of_messages) {
    size_t n = 0;
    uint8_t *clip = read_clip("ref0", &n);
    check_chat(chat_about(clip, n, "}"), 200, words);
    check_chat(chat_about(clip, n, ", \"stream\": true}"), 200, "data: [DONE]");
    check_chat(chat_about(clip, n, ", \"timeout_ms\": 1}"), 504,
               "the time for this request is over");
    size_t n_other = 0;
    uint8_t *other = read_clip("clip27", &n_other);
    check_chat(chat_about(other, n_other, "}"), 200, "three");
    check_chat(chat_about(clip, n, "}"), 200, words); /* the other clip has left nothing */
    text two = {NULL, 0};                             /* the later one is asked about */
    add(&two, "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"audio_url\", "
              "\"audio_url\": {\"url\": \"data:audio/wav;base64,");
    add_base64(&two, clip, n);
    add(&two, "\"}}, {\"type\": \"input_audio\", \"input_audio\": {\"data\": \"");
    add_base64(&two, other, n_other);
    add(&two, "\"}}]}], \"temperature\": 0, \"max_tokens\": 4, \"return_token_ids\": true}");
    check_chat(two, 200, "prompt_token_ids");
    free(other);
    free(clip);
}

static text part_of(const char *part) {
    text t = {NULL, 0};
    add(&t, "{\"messages\": [{\"role\": \"user\", \"content\": [");
    add(&t, part);
    add(&t, "]}]}");
    return t;
}

LK_TEST(refused_parts) {
    check_chat(part_of("{\"type\": \"input_audio\"}"), 400, "needs 'data'");
    check_chat(part_of("{\"type\": \"input_audio\", \"input_audio\": {\"data\": \"a$bc\"}}"), 400,
               "character 1 of 4");
    check_chat(part_of("{\"type\": \"input_audio\", \"input_audio\": {\"data\": \"abcde\"}}"), 400,
               "no base64");
    check_chat(part_of("{\"type\": \"input_audio\", \"input_audio\": {\"data\": \"\"}}"), 400,
               "no WAV file");
    check_chat(part_of("{\"type\": \"input_audio\", \"input_audio\": {\"data\": \"UklG\", "
                       "\"format\": \"aac\"}}"),
               400, "'aac', expected wav");
    check_chat(part_of("{\"type\": \"input_audio\", \"input_audio\": {\"data\": \"GkXfow==\"}}"),
               400, "WebM");
    check_chat(part_of("{\"type\": \"audio_url\", \"audio_url\": {\"url\": \"http://x/a.wav\"}}"),
               400, "fetches nothing");
    check_chat(part_of("{\"type\": \"audio\"}"), 400, "'input_audio'");
    text many = {NULL, 0};
    for (int i = 0; i < 17; i++) {
        add(&many, i == 0 ? "" : ", ");
        add(&many, "{\"type\": \"input_audio\", \"input_audio\": {\"data\": \"UklG\"}}");
    }
    check_chat(part_of(many.data), 400, "more than 16 recordings");
    free(many.data);
    /* Three seconds of silence, where two are allowed. */
    enum { RATE = 8000, N = 3 * RATE };
    static uint8_t wav[44 + N];
    static const uint8_t head[44] =
        "RIFF\xe4]\0\0WAVEfmt \x10\0\0\0\7\0\1\0@\x1f\0\0@\x1f\0\0\1\0\10\0"
        "data\xc0]\0";
    memcpy(wav, head, sizeof head);
    memset(wav + 44, 0xff, N);
    check_chat(chat_about(wav, sizeof wav, "}"), 400, "lasts 3.00 s; the limit is 2 s");
    check_form(form_with(wav, sizeof wav, NULL, NULL), 400, "lasts 3.00 s; the limit is 2 s");
}

/* Requests with and without recordings at once, some given up: each answer is the one alone. */
LK_TEST(in_company) {
    enum { N = 12 };
    size_t n = 0;
    size_t n_other = 0;
    uint8_t *clip = read_clip("ref0", &n);
    uint8_t *other = read_clip("clip27", &n_other);
    const size_t rounds = lk_test_size(1, 2, 20);
    for (size_t round = 0; round < rounds; round++) {
        int fds[N];
        for (int i = 0; i < N; i++) {
            text body = {NULL, 0};
            if (i % 3 == 2) {
                add(&body,
                    "{\"messages\": [{\"role\": \"user\", \"content\": \"Repeat: the dog\"}], "
                    "\"temperature\": 0, \"max_tokens\": 8}");
            } else {
                body = chat_about(i % 3 == 0 ? clip : other, i % 3 == 0 ? n : n_other, "}");
            }
            fds[i] = http_connect(process.port);
            CHECK(http_send_request(fds[i], "POST", CHAT, NULL, body.data));
            free(body.data);
        }
        (void)close(fds[3]);
        for (int i = 0; i < N; i++) {
            static const char *const wanted[] = {words, "\"three\"", "\"the dog\""};
            if (i == 3) {
                continue;
            }
            http_answer a = http_read(fds[i]);
            CHECK_MSG(a.status == 200 && strstr(a.body, wanted[i % 3]) != NULL, "%d: %d %s", i,
                      a.status, a.body != NULL ? a.body : "");
            http_free(&a);
            (void)close(fds[i]);
        }
    }
    CHECK(metric_falls_to(process.port, "http_requests_open", 0));
    free(other);
    free(clip);
}

LK_TEST(without_projector) {
    const server_process with = process;
    process = server_start((const char *[]){NULL});
    size_t n = 0;
    uint8_t *clip = read_clip("clip27", &n);
    check_chat(chat_about(clip, n, "}"), 400, "without --mmproj");
    check_form(form_with(clip, n, NULL, NULL), 400, "without --mmproj");
    free(clip);
    server_stop(&process);
    process = with;
}

LK_TEST(no_projector) {
    int status = 0;
    const char *model = lk_test_data("omni/tiny-omni-Q4_K_M.gguf");
    char *out = tool_output(
        (const char *[]){"serve", model, "--mmproj", model, "--port", "0", NULL}, &status);
    CHECK(status == 1 && out[0] == '\0');
    free(out);
}

static void start(void) {
    process = server_start_model(lk_test_data("omni/tiny-omni-Q4_K_M.gguf"),
                                 (const char *[]){"--mmproj",
                                                  lk_test_data("omni/mmproj-tiny-omni-Q8_0.gguf"),
                                                  "--max-audio", "2", "-t", "2", NULL});
}

static void stop(void) {
    server_stop(&process);
}

LK_TEST_MAIN(LK_RUN(start), LK_RUN(transcriptions), LK_RUN(parts_of_messages), LK_RUN(receipts),
             LK_RUN(refused_parts), LK_RUN(in_company), LK_RUN(stop), LK_RUN(without_projector),
             LK_RUN(no_projector))
