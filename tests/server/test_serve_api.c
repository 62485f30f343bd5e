/* test_serve_api.c - what the endpoints promise: whole answers and streams say the same, usage,
 * stop texts, choices, seeds, logprobs, echo, receipts and their replay, tokens, models, slots,
 * keys. */
#include <unistd.h>

#include "lk_test.h"
#include "server_process.h"

static const char chat_path[] = "/v1/chat/completions";
static const char text_path[] = "/v1/completions";

static json_t *post(int port, const char *path, const char *body) {
    return http_json(port, "POST", path, body, 200);
}

static const char *text_of(const json_t *answer, size_t i) {
    const json_t *choice = json_array_get(json_object_get(answer, "choices"), i);
    const json_t *message = json_object_get(choice, "message");
    const char *text = json_string_value(
        json_object_get(message != NULL ? message : choice, message != NULL ? "content" : "text"));
    CHECK(text != NULL);
    return text != NULL ? text : "";
}

static const char *finish_of(const json_t *answer, size_t i) {
    const json_t *choice = json_array_get(json_object_get(answer, "choices"), i);
    const char *text = json_string_value(json_object_get(choice, "finish_reason"));
    return text != NULL ? text : "";
}

static int64_t usage_of(const json_t *answer, const char *name) {
    const json_t *usage = json_object_get(answer, "usage");
    const json_t *details = json_object_get(usage, "prompt_tokens_details");
    const json_t *found = json_object_get(usage, name);
    return json_integer_value(found != NULL ? found : json_object_get(details, name));
}

/* The texts of a stream, joined; its last finish reason and its usage. */
typedef struct joined {
    char text[4096];
    char finish[16];
    int64_t n_completion; /* -1: no usage came */
    int n_events;
    bool is_done;
} joined;

static joined join_stream(int port, const char *path, const char *body) {
    joined j = {.n_completion = -1};
    http_answer a = http_call(port, "POST", path, body);
    size_t n = 0;
    CHECK(a.status == 200 && strstr(a.head, "text/event-stream") != NULL);
    for (char *line = a.body; line != NULL && *line != '\0';) {
        char *end = strstr(line, "\n\n");
        CHECK(end != NULL && strncmp(line, "data: ", 6) == 0);
        if (end == NULL) {
            break;
        }
        *end = '\0';
        CHECK(!j.is_done);
        j.is_done = strcmp(line, "data: [DONE]") == 0;
        json_t *event = j.is_done ? NULL : json_loads(line + 6, 0, NULL);
        CHECK(j.is_done || event != NULL);
        const json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
        const json_t *delta = json_object_get(choice, "delta");
        const char *text = json_string_value(
            json_object_get(delta != NULL ? delta : choice, delta != NULL ? "content" : "text"));
        const char *finish = json_string_value(json_object_get(choice, "finish_reason"));
        n += (size_t)snprintf(j.text + n, sizeof j.text - n, "%s", text != NULL ? text : "");
        if (finish != NULL) {
            (void)snprintf(j.finish, sizeof j.finish, "%s", finish);
        }
        if (json_is_object(json_object_get(event, "usage"))) {
            j.n_completion = usage_of(event, "completion_tokens");
        }
        j.n_events++;
        json_decref(event);
        line = end + 2;
    }
    http_free(&a);
    return j;
}

static server_process process;

static const char chat_body[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", "
    "\"content\": \"Tell me a story.\"}], \"max_tokens\": 24, \"seed\": 11, \"temperature\": "
    "0.9%s}";

static const char *chat(const char *more) {
    static char body[2048];
    (void)snprintf(body, sizeof body, chat_body, more);
    return body;
}

LK_TEST(chats) {
    json_t *whole = post(process.port, chat_path, chat(""));
    json_t *again = post(process.port, chat_path, chat(""));
    CHECK(strcmp(text_of(whole, 0), text_of(again, 0)) == 0);
    CHECK(json_integer_value(json_object_get(whole, "seed")) == 11);
    CHECK(usage_of(whole, "completion_tokens") > 0 && usage_of(whole, "completion_tokens") <= 24);
    CHECK(usage_of(whole, "total_tokens") ==
          usage_of(whole, "completion_tokens") + usage_of(whole, "prompt_tokens"));
    CHECK(usage_of(again, "cached_tokens") > 0);
    CHECK(strlen(json_string_value(json_object_get(whole, "system_fingerprint"))) > 20);
    joined j = join_stream(process.port, chat_path, chat(", \"stream\": true"));
    CHECK(strcmp(j.text, text_of(whole, 0)) == 0 && strcmp(j.finish, finish_of(whole, 0)) == 0);
    /* The role, a text, the finish reason, the end; how many tokens share an event is up to the
     * machine's load. */
    CHECK(j.is_done && j.n_completion == -1 && j.n_events >= 4);
    j = join_stream(process.port, chat_path,
                    chat(", \"stream\": true, \"stream_options\": {\"include_usage\": true}"));
    CHECK(strcmp(j.text, text_of(whole, 0)) == 0);
    CHECK(j.n_completion == usage_of(whole, "completion_tokens"));
    json_decref(whole);
    json_decref(again);
}

/* Events with nothing but text are written in another way than those with more: beyond the ids they
 * are the same bytes. One token each, since how many share an event is up to the load. */
LK_TEST(plain_events) {
    static const char *const bodies[] = {
        "{\"prompt\": \"q \\\" b \\\\ s / c \\u0001\\u001f\\u007f \\b\\f\\n\\r\\t, \\u00e9 "
        "\\ud83d\\ude00.\", "
        "\"echo\": true, \"max_tokens\": 1, \"seed\": 4, \"stream\": true%s}",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}], \"max_tokens\": 1, "
        "\"seed\": 6, \"stream\": true, \"stream_options\": {\"include_usage\": true}%s}"};
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        char body[1024];
        (void)snprintf(body, sizeof body, bodies[i], "");
        http_answer plain = http_call(process.port, "POST", i == 0 ? text_path : chat_path, body);
        (void)snprintf(body, sizeof body, bodies[i], ", \"return_token_ids\": true");
        http_answer more = http_call(process.port, "POST", i == 0 ? text_path : chat_path, body);
        CHECK(plain.status == 200 && more.status == 200);
        const char *a = plain.body;
        const char *b = more.body;
        size_t n_events = 0;
        while ((a = strstr(a, "\"choices\":[{")) != NULL &&
               (b = strstr(b, "\"choices\":[{")) != NULL) {
            const char *ids = strstr(b, ",\"token_ids\":[");
            const size_t n = strcspn(a, "\n");
            const size_t n_more = strcspn(b, "\n");
            const size_t n_ids = ids != NULL && ids < b + n_more ? 1 + strcspn(ids, "]") : 0;
            const size_t n_before = n_ids > 0 ? (size_t)(ids - b) : n_more;
            CHECK_MSG(n == n_more - n_ids && memcmp(a, b, n_before) == 0 &&
                          memcmp(a + n_before, b + n_before + n_ids, n - n_before) == 0,
                      "%.*s, expected %.*s", (int)n, a, (int)n_more, b);
            n_events++;
            a += n;
            b += n_more;
        }
        CHECK(n_events >= 2);
        http_free(&plain);
        http_free(&more);
    }
}

/* A stop text ends the answer before it, in whole answers and streams, and is never shown. */
LK_TEST(stops) {
    json_t *whole = post(process.port, chat_path, chat(""));
    const char *text = text_of(whole, 0);
    const size_t n = strlen(text);
    CHECK(n > 12);
    char stop[8];
    (void)snprintf(stop, sizeof stop, "%.3s", text + n / 2);
    const char *first = strstr(text, stop);
    char more[128];
    (void)snprintf(more, sizeof more, ", \"stop\": [\"\\u0001\", \"%s\"]", stop);
    json_t *cut = post(process.port, chat_path, chat(more));
    CHECK(strncmp(text_of(cut, 0), text, (size_t)(first - text)) == 0);
    CHECK(strlen(text_of(cut, 0)) == (size_t)(first - text));
    CHECK(strcmp(finish_of(cut, 0), "stop") == 0);
    (void)snprintf(more, sizeof more, ", \"stream\": true, \"stop\": \"%s\"", stop);
    const joined j = join_stream(process.port, chat_path, chat(more));
    CHECK(strcmp(j.text, text_of(cut, 0)) == 0 && strcmp(j.finish, "stop") == 0);
    json_decref(whole);
    json_decref(cut);
}

LK_TEST(choices_and_seeds) {
    json_t *three = post(process.port, chat_path, chat(", \"n\": 3"));
    json_t *one = post(process.port, chat_path, chat(""));
    CHECK(json_array_size(json_object_get(three, "choices")) == 3);
    CHECK(strcmp(text_of(three, 0), text_of(one, 0)) == 0);
    CHECK(strcmp(text_of(three, 0), text_of(three, 1)) != 0 &&
          strcmp(text_of(three, 1), text_of(three, 2)) != 0);
    /* A seed that was drawn repeats the answer. */
    json_t *drawn = post(process.port, text_path, "{\"prompt\": \"A fox\", \"max_tokens\": 20}");
    char body[256];
    (void)snprintf(body, sizeof body, "{\"prompt\": \"A fox\", \"max_tokens\": 20, \"seed\": %lld}",
                   (long long)json_integer_value(json_object_get(drawn, "seed")));
    json_t *repeated = post(process.port, text_path, body);
    CHECK(strcmp(text_of(drawn, 0), text_of(repeated, 0)) == 0);
    json_decref(three);
    json_decref(one);
    json_decref(drawn);
    json_decref(repeated);
}

LK_TEST(logprobs) {
    json_t *answer =
        post(process.port, chat_path, chat(", \"logprobs\": true, \"top_logprobs\": 2"));
    const json_t *choice = json_array_get(json_object_get(answer, "choices"), 0);
    const json_t *list = json_object_get(json_object_get(choice, "logprobs"), "content");
    CHECK((int64_t)json_array_size(list) == usage_of(answer, "completion_tokens"));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *token = json_array_get(list, i);
        const json_t *top = json_object_get(token, "top_logprobs");
        CHECK(json_array_size(top) == 2 && json_is_array(json_object_get(token, "bytes")));
        CHECK(json_number_value(json_object_get(token, "logprob")) <= 1e-6);
        CHECK(json_number_value(json_object_get(json_array_get(top, 0), "logprob")) >=
              json_number_value(json_object_get(json_array_get(top, 1), "logprob")));
    }
    json_decref(answer);
    /* Echo with logprobs: the prompt's tokens too, nothing from the cache, the text in front. */
    answer = post(process.port, text_path,
                  "{\"prompt\": \"Once upon a time\", \"max_tokens\": 0, \"echo\": true, "
                  "\"logprobs\": 1}");
    choice = json_array_get(json_object_get(answer, "choices"), 0);
    const json_t *lists = json_object_get(choice, "logprobs");
    CHECK(strcmp(text_of(answer, 0), "Once upon a time") == 0);
    CHECK((int64_t)json_array_size(json_object_get(lists, "tokens")) ==
          usage_of(answer, "prompt_tokens"));
    CHECK(json_is_null(json_array_get(json_object_get(lists, "token_logprobs"), 0)));
    CHECK(json_is_number(json_array_get(json_object_get(lists, "token_logprobs"), 1)));
    CHECK(usage_of(answer, "cached_tokens") == 0);
    json_decref(answer);
}

LK_TEST(prompts) {
    /* A text, its ids, and both in one request give the same. */
    json_t *tokens = post(process.port, "/tokenize",
                          "{\"content\": \"Once upon a time\", \"add_special\": true}");
    char *ids = json_dumps(json_object_get(tokens, "tokens"), JSON_COMPACT);
    char body[1024];
    static const char rest[] = "\"max_tokens\": 12, \"temperature\": 0";
    (void)snprintf(body, sizeof body, "{\"prompt\": \"Once upon a time\", %s}", rest);
    json_t *text = post(process.port, text_path, body);
    (void)snprintf(body, sizeof body, "{\"prompt\": %s, %s}", ids, rest);
    json_t *by_ids = post(process.port, text_path, body);
    (void)snprintf(body, sizeof body, "{\"prompt\": [\"Once upon a time\", %s], %s}", ids, rest);
    json_t *both = post(process.port, text_path, body);
    CHECK(strcmp(text_of(text, 0), text_of(by_ids, 0)) == 0);
    CHECK(strcmp(text_of(text, 0), text_of(both, 0)) == 0);
    CHECK(strcmp(text_of(text, 0), text_of(both, 1)) == 0);
    CHECK(usage_of(both, "prompt_tokens") == 2 * usage_of(text, "prompt_tokens"));
    (void)snprintf(body, sizeof body, "{\"tokens\": %s}", ids);
    json_t *back = post(process.port, "/detokenize", body);
    CHECK(strstr(json_string_value(json_object_get(back, "content")), "Once upon a time") != NULL);
    /* llama-server's way. */
    json_t *llama =
        post(process.port, "/completion",
             "{\"prompt\": \"Once upon a time\", \"n_predict\": 12, \"temperature\": 0, "
             "\"return_tokens\": true}");
    CHECK(strcmp(json_string_value(json_object_get(llama, "content")), text_of(text, 0)) == 0);
    CHECK(json_array_size(json_object_get(llama, "tokens")) == 12);
    CHECK(strcmp(json_string_value(json_object_get(llama, "stop_type")), "limit") == 0);
    json_t *rendered = post(process.port, "/apply-template",
                            "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}");
    CHECK(strstr(json_string_value(json_object_get(rendered, "prompt")), "Hi") != NULL);
    free(ids);
    json_decref(tokens);
    json_decref(text);
    json_decref(by_ids);
    json_decref(both);
    json_decref(back);
    json_decref(llama);
    json_decref(rendered);
}

static const json_t *embedding_of(const json_t *answer, size_t i) {
    const json_t *item = json_array_get(json_object_get(answer, "data"), i);
    CHECK(json_integer_value(json_object_get(item, "index")) == (json_int_t)i);
    return json_object_get(item, "embedding");
}

/* The bytes of a base64 text, at most `room`. */
static size_t decode_base64(const char *text, unsigned char *bytes, size_t room) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    int n_bits = 0;
    size_t n = 0;
    for (; *text != '\0' && *text != '=' && n < room; text++) {
        bits = bits << 6 | (uint32_t)(strchr(letters, *text) - letters);
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            bytes[n++] = (unsigned char)(bits >> n_bits);
        }
    }
    return n;
}

/* The numbers, and the same as base64: bit for bit. */
static void check_embedding(const json_t *numbers, const json_t *base64, double length) {
    static float values[4096];
    double squares = 0;
    const size_t n =
        decode_base64(json_string_value(base64), (unsigned char *)values, sizeof values) / 4;
    CHECK(n > 16 && n == json_array_size(numbers));
    for (size_t i = 0; i < n; i++) {
        const double value = json_number_value(json_array_get(numbers, i));
        CHECK((float)value == values[i]);
        squares += value * value;
    }
    CHECK_MSG(length <= 0 || (squares > length - 1e-5 && squares < length + 1e-5), "length^2 %g",
              squares);
}

LK_TEST(embeddings) {
    static const char path[] = "/v1/embeddings";
    static const char *const poolings[] = {"mean", "last", "first"};
    json_t *tokens = post(process.port, "/tokenize",
                          "{\"content\": \"The quick brown fox jumps\", \"add_special\": true}");
    char *ids = json_dumps(json_object_get(tokens, "tokens"), JSON_COMPACT);
    char body[2048];
    json_t *last[3];
    for (int i = 0; i < 3; i++) {
        (void)snprintf(body, sizeof body,
                       "{\"input\": [\"The quick brown fox jumps\", %s, \"A cat\"], \"pooling\": "
                       "\"%s\"}",
                       ids, poolings[i]);
        json_t *many = post(process.port, path, body);
        (void)snprintf(body, sizeof body,
                       "{\"input\": %s, \"pooling\": \"%s\", \"encoding_format\": \"base64\"}", ids,
                       poolings[i]);
        last[i] = post(process.port, path, body);
        CHECK(json_equal(embedding_of(many, 0), embedding_of(many, 1)));
        CHECK(!json_equal(embedding_of(many, 0), embedding_of(many, 2)) || i == 2);
        check_embedding(embedding_of(many, 1), embedding_of(last[i], 0), 1);
        CHECK((size_t)usage_of(last[i], "prompt_tokens") ==
              json_array_size(json_object_get(tokens, "tokens")));
        CHECK(usage_of(many, "total_tokens") > 2 * usage_of(last[i], "total_tokens"));
        json_decref(many);
    }
    CHECK(!json_equal(embedding_of(last[0], 0), embedding_of(last[1], 0)));
    CHECK(!json_equal(embedding_of(last[0], 0), embedding_of(last[2], 0)));
    /* Without a word of it: the mean, for a model that says nothing. */
    (void)snprintf(body, sizeof body, "{\"input\": %s, \"encoding_format\": \"base64\"}", ids);
    json_t *same = post(process.port, path, body);
    CHECK(json_equal(embedding_of(same, 0), embedding_of(last[0], 0)));
    (void)snprintf(body, sizeof body, "{\"input\": %s, \"normalize\": false}", ids);
    json_t *raw = post(process.port, path, body);
    json_t *again = post(process.port, path, body);
    CHECK(json_equal(embedding_of(raw, 0), embedding_of(again, 0)));
    for (int i = 0; i < 3; i++) {
        json_decref(last[i]);
    }
    free(ids);
    json_decref(same);
    json_decref(raw);
    json_decref(again);
    json_decref(tokens);
}

/* More texts than may wait in the queue: they are taken in turn. */
LK_TEST(many_embeddings) {
    static char body[65536];
    size_t n = (size_t)snprintf(body, sizeof body, "{\"input\": [");
    for (int i = 0; i < 600; i++) {
        n += (size_t)snprintf(body + n, sizeof body - n, "%s\"text number %d\"", i > 0 ? "," : "",
                              i % 50);
    }
    (void)snprintf(body + n, sizeof body - n, "]}");
    json_t *answer = post(process.port, "/v1/embeddings", body);
    CHECK(json_array_size(json_object_get(answer, "data")) == 600);
    for (size_t i = 0; i < 50; i++) {
        CHECK(json_equal(embedding_of(answer, i), embedding_of(answer, i + 550)));
    }
    CHECK(!json_equal(embedding_of(answer, 1), embedding_of(answer, 2)));
    json_decref(answer);
}

static int replay(json_t *answer, const char *path) {
    int status = 0;
    CHECK(json_dump_file(answer, path, 0) == 0);
    const char *const arguments[] = {"replay", lk_test_data("models/tiny-q4_k_m.gguf"), path, NULL};
    char *text = tool_output(arguments, &status);
    CHECK_MSG(status == 0 || strstr(text, "differs") != NULL, "%s", text);
    free(text);
    return status;
}

LK_TEST(receipts) {
    char path[64];
    (void)snprintf(path, sizeof path, "lk_receipt.%ld.json", (long)getpid());
    json_t *answer = post(process.port, chat_path,
                          chat(", \"receipt\": true, \"n\": 2, \"ignore_eos\": true, "
                               "\"logit_bias\": {\"5\": -3}, \"presence_penalty\": 0.5"));
    CHECK(replay(answer, path) == 0);
    json_t *receipt =
        json_object_get(json_array_get(json_object_get(answer, "choices"), 1), "receipt");
    /* Another seed samples others from the same logits; another digest is no digest of ours. */
    (void)json_object_set_new(receipt, "seed", json_integer(12));
    CHECK(replay(answer, path) == 1);
    (void)json_object_set_new(receipt, "seed", json_integer(11));
    (void)json_array_set_new(json_object_get(receipt, "digests"), 3,
                             json_string("00000000000000000000000000000000"));
    CHECK(replay(answer, path) == 1);
    (void)unlink(path);
    json_decref(answer);
}

/* Text under a schema is JSON of that schema, and its receipt replays. */
LK_TEST(structured_output) {
    static const char schema[] =
        "{\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"integer\", \"minimum\": 1, "
        "\"maximum\": 9}, \"word\": {\"enum\": [\"fox\", \"river\"]}}, \"required\": [\"n\", "
        "\"word\"], \"additionalProperties\": false}";
    char more[1024];
    char path[64];
    (void)snprintf(path, sizeof path, "lk_receipt.%ld.json", (long)getpid());
    (void)snprintf(
        more, sizeof more,
        ", \"max_completion_tokens\": 60, \"receipt\": true, \"response_format\": "
        "{\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\", \"schema\": %s}}",
        schema);
    json_t *answer = post(process.port, chat_path, chat(more));
    json_t *value = json_loads(text_of(answer, 0), 0, NULL);
    const char *word = json_string_value(json_object_get(value, "word"));
    CHECK(json_is_integer(json_object_get(value, "n")) && json_object_size(value) == 2);
    CHECK(word != NULL && (strcmp(word, "fox") == 0 || strcmp(word, "river") == 0));
    CHECK(strcmp(finish_of(answer, 0), "stop") == 0);
    CHECK(replay(answer, path) == 0);
    (void)unlink(path);
    json_decref(value);
    json_decref(answer);
    answer =
        post(process.port, text_path,
             "{\"prompt\": \"One of\", \"max_tokens\": 20, \"grammar\": \"root ::= \\\"cat\\\" "
             "| \\\"dog\\\"\"}");
    CHECK(strcmp(text_of(answer, 0), "cat") == 0 || strcmp(text_of(answer, 0), "dog") == 0);
    json_decref(answer);
}

/* A call that a grammar has the model write: apart from the text, whole and streamed, and the same
 * with the call and its result in the conversation. */
LK_TEST(tool_calls) {
    static const char format[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"The weather in Rome?\"}], \"tools\": "
        "[{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"parameters\": "
        "{\"type\": "
        "\"object\"}}}], \"grammar\": \"root ::= "
        "\\\"See.\\\\n<tool_call>\\\\n{\\\\\\\"name\\\\\\\": "
        "\\\\\\\"get_weather\\\\\\\", \\\\\\\"arguments\\\\\\\": {\\\\\\\"city\\\\\\\": "
        "\\\\\\\"R\\\" [a-z]{3} "
        "\\\"\\\\\\\"}}\\\\n</tool_call>\\\"\", \"seed\": 4%s}";
    char body[1024];
    (void)snprintf(body, sizeof body, format, "");
    json_t *answer = post(process.port, chat_path, body);
    const json_t *choice = json_array_get(json_object_get(answer, "choices"), 0);
    const json_t *message = json_object_get(choice, "message");
    const json_t *call = json_array_get(json_object_get(message, "tool_calls"), 0);
    const json_t *function = json_object_get(call, "function");
    const char *arguments = json_string_value(json_object_get(function, "arguments"));
    CHECK(strcmp(text_of(answer, 0), "See.") == 0);
    CHECK(strcmp(finish_of(answer, 0), "tool_calls") == 0 && arguments != NULL);
    CHECK(json_is_string(json_object_get(call, "id")));
    json_t *value = json_loads(arguments != NULL ? arguments : "", 0, NULL);
    CHECK(json_is_string(json_object_get(value, "city")));
    (void)snprintf(body, sizeof body, format, ", \"stream\": true");
    joined j = join_stream(process.port, chat_path, body);
    CHECK(strcmp(j.text, "See.") == 0 && strcmp(j.finish, "tool_calls") == 0);
    (void)snprintf(
        body, sizeof body,
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Weather?\"}, {\"role\": "
        "\"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"a1\", \"type\": "
        "\"function\", \"function\": {\"name\": \"get_weather\", \"arguments\": "
        "\"{}\"}}]}, {\"role\": \"tool\", \"tool_call_id\": \"a1\", \"content\": \"Sun\"}], "
        "\"max_tokens\": 4}");
    json_decref(http_json(process.port, "POST", chat_path, body, 200));
    json_decref(value);
    json_decref(answer);
}

/* The parts of the page, and that they name nothing outside of this server. */
LK_TEST(page) {
    static const char *const parts[][2] = {
        {"/", "text/html"}, {"/page.css", "text/css"}, {"/page.js", "text/javascript"}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        http_answer a = http_call(process.port, "GET", parts[i][0], NULL);
        CHECK(a.status == 200 && strstr(a.head, parts[i][1]) != NULL && a.n_body > 500);
        CHECK(strstr(a.head, "Content-Security-Policy: default-src 'none'") != NULL);
        CHECK(a.body != NULL && strstr(a.body, "http://") == NULL &&
              strstr(a.body, "https://") == NULL);
        http_free(&a);
    }
}

LK_TEST(models) {
    json_t *list = http_json(process.port, "GET", "/v1/models", NULL, 200);
    const json_t *model = json_array_get(json_object_get(list, "data"), 0);
    CHECK(strcmp(json_string_value(json_object_get(model, "id")), "tiny-q4_k_m") == 0);
    json_t *one = http_json(process.port, "GET", "/v1/models/tiny-q4_k_m", NULL, 200);
    CHECK(json_equal(one, model));
    json_t *props = http_json(process.port, "GET", "/props", NULL, 200);
    CHECK(json_integer_value(json_object_get(props, "total_slots")) == 2);
    json_decref(list);
    json_decref(one);
    json_decref(props);
}

/* Saved, erased and restored, a slot gives its prefix to the next request. */
LK_TEST(slots) {
    static const char file[] = "{\"filename\": \"slot-a.bin\"}";
    json_t *first = post(process.port, chat_path, chat(""));
    json_t *list = http_json(process.port, "GET", "/slots", NULL, 200);
    int64_t n_held = 0;
    int slot = -1;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const int64_t n =
            json_integer_value(json_object_get(json_array_get(list, i), "n_positions"));
        if (n > n_held) {
            n_held = n;
            slot = (int)i;
        }
    }
    CHECK(n_held > 10);
    char path[64];
    (void)snprintf(path, sizeof path, "/slots/%d?action=save", slot);
    json_t *saved = post(process.port, path, file);
    CHECK(json_integer_value(json_object_get(saved, "n_saved")) == n_held);
    (void)snprintf(path, sizeof path, "/slots/%d?action=erase", slot);
    json_t *erased = post(process.port, path, NULL);
    CHECK(json_integer_value(json_object_get(erased, "n_erased")) == n_held);
    (void)snprintf(path, sizeof path, "/slots/%d?action=save", slot);
    json_decref(http_json(process.port, "POST", path, file, 404));
    (void)snprintf(path, sizeof path, "/slots/%d?action=restore", slot);
    json_t *restored = post(process.port, path, file);
    CHECK(json_integer_value(json_object_get(restored, "n_restored")) == n_held);
    json_decref(http_json(process.port, "POST", path, "{\"filename\": \"none.bin\"}", 404));
    json_decref(http_json(process.port, "POST", path, "{\"filename\": \"../x\"}", 400));
    json_decref(first);
    json_decref(list);
    json_decref(saved);
    json_decref(erased);
    json_decref(restored);
}

LK_TEST(keys_and_cors) {
    static const char *const arguments[] = {"--api-key", "secret", "--cors", "https://a.example",
                                            NULL};
    server_process guarded = server_start(arguments);
    static const char *const lines[] = {NULL, "Authorization: Bearer wrong\r\n",
                                        "Authorization: secret\r\n",
                                        "Authorization: Bearer secret\r\n"};
    for (int i = 0; i < 4; i++) {
        const int fd = http_connect(guarded.port);
        CHECK(http_send_request(fd, "GET", "/v1/models", lines[i], NULL));
        http_answer a = http_read(fd);
        CHECK_MSG(a.status == (i == 3 ? 200 : 401), "key %d: status %d", i, a.status);
        CHECK(strstr(a.head, "Access-Control-Allow-Origin: https://a.example") != NULL);
        http_free(&a);
        (void)close(fd);
    }
    json_decref(http_json(guarded.port, "GET", "/health", NULL, 200));
    http_answer a = http_call(guarded.port, "OPTIONS", chat_path, NULL);
    CHECK(a.status == 204 && strstr(a.head, "Access-Control-Allow-Methods") != NULL);
    http_free(&a);
    server_stop(&guarded);
}

static void start(void) {
    static const char *const arguments[] = {"-np", "2", "-c", "1024", "--slot-save-path",
                                            ".",   NULL};
    process = server_start(arguments);
}

static void stop(void) {
    server_stop(&process);
    (void)unlink("slot-a.bin");
}

LK_TEST_MAIN(LK_RUN(start), LK_RUN(chats), LK_RUN(plain_events), LK_RUN(stops),
             LK_RUN(choices_and_seeds), LK_RUN(logprobs), LK_RUN(prompts), LK_RUN(embeddings),
             LK_RUN(many_embeddings), LK_RUN(receipts), LK_RUN(structured_output),
             LK_RUN(tool_calls), LK_RUN(page), LK_RUN(models), LK_RUN(slots), LK_RUN(keys_and_cors),
             LK_RUN(stop))
