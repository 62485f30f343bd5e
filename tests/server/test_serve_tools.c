/* test_serve_tools.c - calls of tools over HTTP: forced ones and chosen ones keep to names and
 * schemas, whole answers and streams say the same, reasoning stays apart, receipts are replayed,
 * and what is wrong is refused by the name of its field. */
#include <unistd.h>

#include "lk_test.h"
#include "server_process.h"

static const char path[] = "/v1/chat/completions";
static server_process process;

#define WEATHER                                                                                    \
    "{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"description\": \"w\", "  \
    "\"parameters\": "                                                                             \
    "{\"type\": "                                                                                  \
    "\"object\", \"properties\": {\"city\": {\"type\": \"string\", \"maxLength\": 6}, \"days\": "  \
    "{\"type\": \"integer\", \"minimum\": 1, \"maximum\": 9}}, \"required\": [\"city\", "          \
    "\"days\"], "                                                                                  \
    "\"additionalProperties\": false}}}"
#define NOW                                                                                        \
    "{\"type\": \"function\", \"function\": {\"name\": \"now\", \"description\": \"n\", "          \
    "\"parameters\": {\"type\": \"object\", \"properties\": {}, \"additionalProperties\": "        \
    "false}}}"
#define ASK                                                                                        \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Weather?\"}], \"max_tokens\": 200, "
#define NAMED(name)                                                                                \
    "\"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"" name "\"}}"

static json_t *post(const char *body) {
    return http_json(process.port, "POST", path, body, 200);
}

static const json_t *choice_of(const json_t *answer) {
    return json_array_get(json_object_get(answer, "choices"), 0);
}

static const char *finish_of(const json_t *answer) {
    const char *text = json_string_value(json_object_get(choice_of(answer), "finish_reason"));
    return text != NULL ? text : "";
}

/* A call, written as one text: name and arguments; its arguments must keep to the schema. */
static void write_call(const json_t *call, char *out, size_t capacity) {
    const json_t *function = json_object_get(call, "function");
    const char *name = json_string_value(json_object_get(function, "name"));
    const char *text = json_string_value(json_object_get(function, "arguments"));
    const size_t n = strlen(out);
    CHECK(name != NULL && text != NULL);
    if (name == NULL || text == NULL) {
        return;
    }
    CHECK(json_string_length(json_object_get(call, "id")) == 9);
    CHECK(strcmp(json_string_value(json_object_get(call, "type")), "function") == 0);
    json_t *arguments = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    CHECK_MSG(json_is_object(arguments), "arguments: %s", text);
    if (strcmp(name, "get_weather") == 0) {
        const json_t *days = json_object_get(arguments, "days");
        CHECK(json_object_size(arguments) == 2);
        CHECK(json_is_string(json_object_get(arguments, "city")));
        CHECK(json_is_integer(days) && json_integer_value(days) >= 1 &&
              json_integer_value(days) <= 9);
    } else {
        CHECK_MSG(strcmp(name, "now") == 0, "there is no tool '%s'", name);
        CHECK(json_object_size(arguments) == 0);
    }
    json_decref(arguments);
    (void)snprintf(out + n, capacity - n, "%s%s;", name, text);
}

/* What an answer says: reasoning, text and calls, written as one text; the number of calls. */
static size_t write_answer(const json_t *answer, char *out, size_t capacity) {
    const json_t *message = json_object_get(choice_of(answer), "message");
    const char *content = json_string_value(json_object_get(message, "content"));
    const char *reasoning = json_string_value(json_object_get(message, "reasoning_content"));
    const json_t *calls = json_object_get(message, "tool_calls");
    (void)snprintf(out, capacity, "<%s>%s|", reasoning != NULL ? reasoning : "",
                   content != NULL ? content : "");
    for (size_t i = 0; i < json_array_size(calls); i++) {
        write_call(json_array_get(calls, i), out, capacity);
    }
    return json_array_size(calls);
}

static void append(json_t *object, const char *name, const char *more) {
    const char *old = json_string_value(json_object_get(object, name));
    if (more != NULL) {
        CHECK(json_object_set_new(object, name,
                                  json_sprintf("%s%s", old != NULL ? old : "", more)) == 0);
    }
}

/* Joins a delta to a message as OpenAI's client does. */
static void join_delta(json_t *message, const json_t *delta) {
    append(message, "content", json_string_value(json_object_get(delta, "content")));
    append(message, "reasoning_content",
           json_string_value(json_object_get(delta, "reasoning_content")));
    const json_t *calls = json_object_get(delta, "tool_calls");
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *call = json_array_get(calls, i);
        json_t *all = json_object_get(message, "tool_calls");
        const size_t index = (size_t)json_integer_value(json_object_get(call, "index"));
        if (all == NULL) {
            all = json_array();
            CHECK(json_object_set_new(message, "tool_calls", all) == 0);
        }
        if (index == json_array_size(all)) { /* the first of this call: id, type and name */
            CHECK(json_is_string(json_object_get(call, "id")));
            CHECK(json_array_append(all, call) == 0);
            continue;
        }
        CHECK(index + 1 == json_array_size(all) && json_object_get(call, "id") == NULL);
        append(json_object_get(json_array_get(all, index), "function"), "arguments",
               json_string_value(json_object_get(json_object_get(call, "function"), "arguments")));
    }
}

/* The answer that a stream makes. */
static json_t *post_stream(const char *body) {
    http_answer a = http_call(process.port, "POST", path, body);
    json_t *message = json_object();
    json_t *finish = json_null();
    size_t n_ends = 0;
    CHECK(a.status == 200);
    for (char *line = a.body; line != NULL && strncmp(line, "data: {", 7) == 0;) {
        char *end = strstr(line, "\n\n");
        CHECK(end != NULL && n_ends == 0);
        if (end == NULL) {
            break;
        }
        *end = '\0';
        json_t *event = json_loads(line + 6, 0, NULL);
        CHECK(event != NULL && json_object_get(event, "error") == NULL);
        join_delta(message, json_object_get(choice_of(event), "delta"));
        if (finish_of(event)[0] != '\0') {
            json_decref(finish);
            finish = json_string(finish_of(event));
            n_ends++;
        }
        json_decref(event);
        line = end + 2;
    }
    CHECK(n_ends == 1);
    http_free(&a);
    return json_pack("{s:[{s:o, s:o}]}", "choices", "message", message, "finish_reason", finish);
}

/* The answer as a text, the same whole and streamed. */
static size_t answer_to(const char *format, const char *more, char *out, size_t capacity,
                        char finish[16]) {
    char body[4096];
    char streamed[4096] = "";
    (void)snprintf(body, sizeof body, "%s%s}", format, more);
    json_t *whole = post(body);
    const size_t n = write_answer(whole, out, capacity);
    (void)snprintf(finish, 16, "%s", finish_of(whole));
    CHECK(n == 0 || json_is_null(json_object_get(json_object_get(choice_of(whole), "message"),
                                                 "content")) == (strstr(out, ">|") != NULL));
    (void)snprintf(body, sizeof body, "%s%s, \"stream\": true}", format, more);
    json_t *stream = post_stream(body);
    CHECK(write_answer(stream, streamed, sizeof streamed) == n);
    CHECK_MSG(strcmp(streamed, out) == 0, "%s streamed, %s whole", streamed, out);
    CHECK(strcmp(finish_of(stream), finish) == 0);
    json_decref(whole);
    json_decref(stream);
    return n;
}

/* Hot samples of a model that knows nothing: the calls come from the grammar. */
static void force_calls(int n_seeds) {
    char out[4096];
    char finish[16];
    for (int seed = 0; seed < n_seeds; seed++) {
        char more[1024];
        (void)snprintf(more, sizeof more,
                       "\"tools\": [" WEATHER ", " NOW "], \"tool_choice\": \"required\", "
                       "\"parallel_tool_calls\": false, \"temperature\": 1.5, \"seed\": %d",
                       seed);
        CHECK(answer_to(ASK, more, out, sizeof out, finish) == 1);
        CHECK(strcmp(finish, "tool_calls") == 0);
        (void)snprintf(more, sizeof more,
                       "\"tools\": [" WEATHER ", " NOW "], " NAMED("now") ", \"temperature\": 1.5, "
                                                                          "\"seed\": %d",
                       seed);
        CHECK(answer_to(ASK, more, out, sizeof out, finish) == 1);
        CHECK_MSG(strstr(out, "|now{") != NULL && strcmp(finish, "tool_calls") == 0, "%s", out);
    }
}

LK_TEST(forced_calls) {
    force_calls(6);
}

#define QUOTE "\\\\\\\""
#define CALL(name, arguments)                                                                      \
    "<tool_call>{" QUOTE "name" QUOTE ": " QUOTE name QUOTE ", " QUOTE "arguments" QUOTE           \
    ": " arguments "}</tool_call>"
#define SCRIPT(text) "\"grammar\": \"root ::= \\\"" text "\\\"\""

/* What a model writes, given by a grammar. */
LK_TEST(scripted_answers) {
    static const struct {
        const char *more, *answer, *finish;
    } cases[] = {
        {"\"tools\": [" NOW "], " SCRIPT("Look. " CALL("now", "{}") CALL("now", "{ }")),
         "<>Look.|now{};now{ };", "tool_calls"},
        {"\"tools\": [" NOW
         "], \"parallel_tool_calls\": false, " SCRIPT(CALL("now", "{}") CALL("now", "{ }")),
         "<>|now{};", "tool_calls"},
        {"\"tools\": [" NOW "], \"stop\": \"}\", " SCRIPT("a } b " CALL("now", "{}")), "<>a |",
         "stop"},
        {"\"tools\": [" NOW "], \"stop\": \"}\", " SCRIPT(CALL("now", "{}")), "<>|now{};",
         "tool_calls"},
        {"\"tools\": [" NOW "], \"tool_choice\": \"none\", " SCRIPT("x<tool_call>y"),
         "<>x<tool_call>y|", "stop"},
        {SCRIPT("<think>a</think>b"), "<><think>a</think>b|", "stop"},
        {"\"tools\": [" NOW "], " SCRIPT("<think>\xC3\xA9</think>\xE2\x82\xAC"),
         "<\xC3\xA9>\xE2\x82\xAC|", "stop"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[4096];
        char finish[16];
        (void)answer_to(ASK, cases[i].more, out, sizeof out, finish);
        CHECK_MSG(strcmp(out, cases[i].answer) == 0, "case %zu: %s", i, out);
        CHECK_MSG(strcmp(finish, cases[i].finish) == 0, "case %zu: %s", i, finish);
    }
}

/* Left to the model: any text; but what is a call is a right one. */
LK_TEST(chosen_calls) {
    for (int seed = 0; seed < 4; seed++) {
        char out[4096];
        char finish[16];
        char more[1024];
        (void)snprintf(more, sizeof more,
                       "\"tools\": [" WEATHER ", " NOW "], \"tool_choice\": \"auto\", \"seed\": %d",
                       seed);
        (void)answer_to(ASK, more, out, sizeof out, finish);
        (void)snprintf(more, sizeof more,
                       "\"tools\": [" NOW "], \"seed\": %d, \"response_format\": {\"type\": "
                       "\"json_schema\", \"json_schema\": {\"name\": \"a\", \"schema\": "
                       "{\"enum\": [\"yes\", \"no\"]}}}",
                       seed);
        const size_t n = answer_to(ASK, more, out, sizeof out, finish);
        CHECK_MSG(n > 0 || strcmp(out, "<>\"yes\"|") == 0 || strcmp(out, "<>\"no\"|") == 0, "%s",
                  out);
    }
}

LK_TEST(receipts) {
    static const char body[] =
        ASK "\"tools\": [" WEATHER "], \"tool_choice\": \"required\", \"parallel_tool_calls\": "
            "false, \"temperature\": 1.5, \"seed\": 3, \"receipt\": true}";
    char file[64];
    int status = -1;
    json_t *answer = post(body);
    (void)snprintf(file, sizeof file, "lk_tools_receipt.%ld.json", (long)getpid());
    CHECK(json_dump_file(answer, file, 0) == 0);
    const char *const arguments[] = {"replay", lk_test_data("models/tiny-q4_k_m.gguf"), file, NULL};
    char *text = tool_output(arguments, &status);
    CHECK_MSG(status == 0, "%s", text);
    free(text);
    (void)unlink(file);
    json_decref(answer);
}

static void refused(const char *more, const char *param, const char *words) {
    char body[4096];
    (void)snprintf(body, sizeof body, ASK "%s}", more);
    json_t *answer = http_json(process.port, "POST", path, body, 400);
    const json_t *error = json_object_get(answer, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    const char *found = json_string_value(json_object_get(error, "param"));
    CHECK_MSG(found != NULL && strcmp(found, param) == 0, "%s: %s", more, found);
    CHECK_MSG(message != NULL && strstr(message, words) != NULL, "%s: %s", more, message);
    json_decref(answer);
}

#define TOOL(parameters)                                                                           \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", "                        \
    "\"parameters\": " parameters "}}]"

LK_TEST(refusals) {
    refused("\"tools\": [5]", "tools", "tools[0]");
    refused("\"tools\": [" NOW ", {\"type\": \"custom\"}]", "tools", "tools[1].type");
    refused("\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"a b\"}}]", "tools",
            "name");
    refused("\"tools\": [" NOW ", " NOW "]", "tools", "earlier");
    refused(TOOL("{\"type\": \"string\"}"), "tools", "parameters");
    refused(TOOL("{\"type\": \"what\"}") ", \"tool_choice\": \"required\"", "tools", "parameters");
    refused(
        TOOL(
            "{\"type\": \"object\", \"properties\": {\"a\": {\"uniqueItems\": true}}}") ", "
                                                                                        "\"tool_"
                                                                                        "choice\": "
                                                                                        "\"required"
                                                                                        "\"",
        "tools", "/properties/a/uniqueItems");
    refused("\"tool_choice\": \"required\"", "tool_choice", "no 'tools'");
    refused("\"tool_choice\": 5", "tool_choice", "must be");
    refused("\"tools\": [" NOW "], " NAMED("later"), "tool_choice", "later");
    refused("\"tools\": [" NOW "], \"parallel_tool_calls\": 1", "parallel_tool_calls", "boolean");
    refused("\"tools\": [" NOW "], \"ignore_eos\": true", "ignore_eos", "excludes");
    refused("\"tools\": [" NOW "], \"tool_choice\": \"required\", \"grammar\": \"root ::= [a]\"",
            "tool_choice", "grammar");
    /* With "auto" a schema that cannot be enforced is left aside, unless the tool is strict. */
    json_decref(post(
        ASK TOOL("{\"type\": \"object\", \"properties\": {\"a\": {\"uniqueItems\": true}}}") "}"));
    refused("\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"strict\": "
            "true, \"parameters\": {\"type\": \"object\", \"properties\": {\"a\": "
            "{\"uniqueItems\": true}}}}}]",
            "tools", "/properties/a/uniqueItems");
}

static void stop(void);
static void start(void);

/* The same in syntaxes whose calls are no JSON objects: tags, headers of messages, names as keys.
 */
LK_TEST(forced_calls_in_other_syntaxes) {
    static const char *const templates[] = {"Qwen3-Coder", "openai-gpt-oss-120b",
                                            "Apertus-8B-Instruct"};
    stop();
    for (size_t i = 0; i < sizeof templates / sizeof templates[0]; i++) {
        char name[128];
        (void)snprintf(name, sizeof name, "chat-templates/templates/%s.jinja", templates[i]);
        const char *const arguments[] = {
            "-np", "2", "-t", "2", "--chat-template", lk_test_data(name), NULL};
        process = server_start(arguments);
        force_calls(2);
        stop();
    }
    start();
}

static void start(void) {
    static const char *const arguments[] = {"-np", "2", "-t", "2", NULL};
    process = server_start(arguments);
}

static void stop(void) {
    server_stop(&process);
}

LK_TEST_MAIN(LK_RUN(start), LK_RUN(forced_calls), LK_RUN(scripted_answers), LK_RUN(chosen_calls),
             LK_RUN(receipts), LK_RUN(refusals), LK_RUN(forced_calls_in_other_syntaxes),
             LK_RUN(stop))
