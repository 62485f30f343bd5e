/* test_chat_calls.c - calls of tools as released templates write them: the syntax of each template
 * is the one of tests/data/chat-templates/syntaxes.txt, and a conversation's calls that a template
 * has rendered come out of the parser of answers as they went in, cut anywhere. */
#include <jansson.h>
#include <stdbool.h>

#include "lk/lk.h"
#include "lk_test.h"

enum { MAX_CALLS = 8, MAX_TEXT = 2048 };

typedef struct taken_call {
    char name[LK_MAX_CALL_NAME + 1];
    char arguments[MAX_TEXT];
    size_t n_arguments;
    bool is_complete;
} taken_call;
typedef struct taken {
    taken_call calls[MAX_CALLS];
    size_t n;
} taken;

static void on_delta(void *ctx, const lk_chat_delta *delta) {
    taken *t = ctx;
    if (delta->kind == LK_DELTA_CALL_BEGIN && t->n < MAX_CALLS) {
        taken_call *call = &t->calls[t->n++];
        *call = (taken_call){.n_arguments = 0};
        (void)snprintf(call->name, sizeof call->name, "%.*s", (int)delta->n_text, delta->text);
    } else if (delta->kind == LK_DELTA_CALL_ARGUMENTS) {
        taken_call *call = &t->calls[t->n - 1];
        CHECK(call->n_arguments + delta->n_text < MAX_TEXT);
        memcpy(call->arguments + call->n_arguments, delta->text, delta->n_text);
        call->n_arguments += delta->n_text;
    } else if (delta->kind == LK_DELTA_CALL_END) {
        t->calls[t->n - 1].is_complete = delta->is_complete != 0;
    }
}

/* Takes a text apart, cut at `cut` (SIZE_MAX: at every byte). */
static void take_apart(const lk_chat_template *t, const char *syntax, const char *tools,
                       const char *text, size_t cut, taken *calls) {
    lk_chat_parser_params params = LK_CHAT_PARSER_PARAMS_INIT;
    lk_chat_parser *parser = NULL;
    lk_error err = {.message = ""};
    const size_t n = strlen(text);
    calls->n = 0;
    params.syntax = syntax;
    params.tools = tools;
    params.n_tools = strlen(tools);
    params.on_delta = on_delta;
    params.ctx = calls;
    REQUIRE_OK(lk_chat_parser_create(t, &params, &parser, &err), err);
    if (cut != SIZE_MAX) {
        CHECK_STATUS(LK_OK, lk_chat_parser_push(parser, text, cut, NULL));
        CHECK_STATUS(LK_OK, lk_chat_parser_push(parser, text + cut, n - cut, NULL));
    }
    for (size_t i = 0; cut == SIZE_MAX && i < n; i++) {
        CHECK_STATUS(LK_OK, lk_chat_parser_push(parser, text + i, 1, NULL));
    }
    CHECK_STATUS(LK_OK, lk_chat_parser_finish(parser, NULL));
    lk_chat_parser_destroy(parser);
}

/* The message of the last user. */
static size_t last_user(const json_t *messages) {
    size_t last = 0, i = 0;
    const json_t *message = NULL;
    json_array_foreach(messages, i, message) {
        if (strcmp(json_string_value(json_object_get(message, "role")), "user") == 0) {
            last = i;
        }
    }
    return last;
}

/* Whether they are the calls behind the last user. */
static bool same_calls(const taken *got, const json_t *messages) {
    size_t k = 0, n = 0;
    const json_t *call = NULL;
    bool same = true;
    for (size_t i = last_user(messages); i < json_array_size(messages); i++) {
        json_array_foreach(json_object_get(json_array_get(messages, i), "tool_calls"), k, call) {
            const json_t *function = json_object_get(call, "function");
            const json_t *arguments = json_object_get(function, "arguments");
            const taken_call *own = &got->calls[n++];
            if (n > got->n) {
                return false;
            }
            json_t *wanted = json_is_string(arguments)
                                 ? json_loads(json_string_value(arguments), 0, NULL)
                                 : json_deep_copy(arguments);
            json_t *found = json_loadb(own->arguments, own->n_arguments, JSON_DECODE_ANY, NULL);
            const char *name = json_string_value(json_object_get(function, "name"));
            same = same && found != NULL && json_equal(found, wanted) && own->is_complete &&
                   strcmp(own->name, name) == 0;
            json_decref(wanted);
            json_decref(found);
        }
    }
    return same && n == got->n;
}

/* Behind what the last user says. */
static const char *after_user(const char *text, const json_t *messages) {
    const json_t *message = json_array_get(messages, last_user(messages));
    const char *content = json_string_value(json_object_get(message, "content"));
    const char *at = text;
    while (content != NULL && content[0] != '\0' && strstr(at, content) != NULL) {
        at = strstr(at, content) + strlen(content);
    }
    return at;
}

static bool has_calls(const json_t *row) {
    const json_t *messages = json_object_get(row, "messages");
    for (size_t i = last_user(messages); i < json_array_size(messages); i++) {
        if (json_object_get(json_array_get(messages, i), "tool_calls") != NULL) {
            return true;
        }
    }
    return false;
}

static bool shows_calls(const char *text, const json_t *row) {
    const json_t *messages = json_object_get(row, "messages");
    for (size_t i = last_user(messages); i < json_array_size(messages); i++) {
        const json_t *call =
            json_array_get(json_object_get(json_array_get(messages, i), "tool_calls"), 0);
        const char *name =
            json_string_value(json_object_get(json_object_get(call, "function"), "name"));
        if (name != NULL && strstr(text, name) == NULL) {
            return false;
        }
    }
    return true;
}

/* What templates do not write as they were told: one call of several; arguments that are given as a
 * text (which the library gives to these as objects); calls without their marks. */
static bool is_left_out(const char *template_name, const char *name) {
    static const char *const rows[][2] = {
        {"openai-gpt-oss-120b", "parallel_tool_calls"},
        {"GigaChat3-10B-A1.8B", "parallel_tool_calls"},
        {"GigaChat3.1-10B-A1.8B", "parallel_tool_calls"},
        {"Kimi-K3", "tool_args_string"},
        {"google-gemma-4-31B-it", "tool_args_string"},
        {"google-gemma-4-31B-it-interleaved", "tool_args_string"},
        {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "tool_call_result_answer"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i][0], template_name) == 0 && strcmp(rows[i][1], name) == 0) {
            return true;
        }
    }
    return false;
}

typedef struct counts {
    size_t n_rows, n_same;
} counts;

static void check_row(const lk_chat_template *t, const char *syntax, const json_t *row,
                      counts *all) {
    const char *name = json_string_value(json_object_get(row, "case"));
    const json_t *messages = json_object_get(row, "messages");
    const char *expected = json_string_value(json_object_get(row, "expected"));
    const char *text = expected != NULL ? after_user(expected, messages) : NULL;
    const char *template_name = json_string_value(json_object_get(row, "template"));
    if (text == NULL || is_left_out(template_name, name) || !has_calls(row) ||
        !shows_calls(text, row)) {
        return;
    }
    const char *from = strcmp(syntax, "llama-3") == 0 ? strstr(text, "{\"name\"") : text;
    char *tools = json_dumps(json_object_get(row, "tools"), JSON_ENCODE_ANY);
    const bool is_cut = strcmp(name, "tool_args_nested") == 0;
    const size_t n_cuts = is_cut ? strlen(from) : 0;
    bool same = true;
    for (size_t cut = 0; same && cut <= n_cuts + 1; cut++) {
        static taken calls;
        take_apart(t, syntax, tools, from, cut <= n_cuts ? cut : SIZE_MAX, &calls);
        same = same_calls(&calls, messages);
        if (!same) {
            (void)fprintf(stderr, "%s / %s, cut %zu: %zu calls, %s %.*s\n  of %.300s\n",
                          template_name, name, cut, calls.n, calls.calls[0].name,
                          (int)calls.calls[0].n_arguments, calls.calls[0].arguments, from);
        }
    }
    free(tools);
    all->n_rows++;
    all->n_same += same;
}

/* "name syntax" by line; "-" for a template whose calls are not read. */
static bool find_syntax(const char *list, const char *name, char syntax[64]) {
    const size_t n = strlen(name);
    (void)snprintf(syntax, 64, "-");
    for (const char *line = list; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) == 0 && line[n] == ' ') {
            return sscanf(line + n, " %63s", syntax) == 1;
        }
    }
    return false;
}

/* The syntax that the library finds is the one that is listed. */
static lk_chat_template *open_template(const char *path, const char *name, const char *syntax) {
    lk_chat_parser_params params = LK_CHAT_PARSER_PARAMS_INIT;
    lk_chat_template *t = NULL;
    lk_chat_parser *parser = NULL;
    lk_error err = {.message = ""};
    size_t n = 0;
    uint8_t *source = lk_test_read(path, &n);
    REQUIRE_OK(lk_chat_template_create((const char *)source, n, NULL, &t, &err), err);
    const lk_status status = lk_chat_parser_create(t, &params, &parser, &err);
    const char *found = status == LK_OK ? lk_chat_parser_syntax(parser) : "-";
    CHECK_MSG(status == LK_OK || status == LK_E_UNSUPPORTED, "%s: %s", name, err.message);
    CHECK_MSG(strcmp(found, syntax) == 0, "%s: %s, not %s: %s", name, found, syntax, err.message);
    lk_chat_parser_destroy(parser);
    free(source);
    return t;
}

static void check_file(const char *folder, const char *file, bool shared, const char *list,
                       counts *all) {
    char path[512];
    char name[128] = "";
    char syntax[64] = "-";
    size_t size = 0;
    lk_chat_template *t = NULL;
    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    char *data = (char *)lk_test_read(shared ? lk_test_shared(path) : lk_test_data(path), &size);
    for (char *line = data, *next = NULL; line != NULL && *line != '\0'; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) {
            *next++ = '\0';
        }
        json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);
        const char *own = json_string_value(json_object_get(row, "template"));
        if (strcmp(own, name) != 0) {
            lk_chat_template_close(t);
            (void)snprintf(name, sizeof name, "%s", own);
            CHECK_MSG(find_syntax(list, name, syntax), "%s is not in syntaxes.txt", name);
            (void)snprintf(path, sizeof path, "%s/templates/%s.jinja", folder, name);
            t = open_template(shared ? lk_test_shared(path) : lk_test_data(path), name, syntax);
        }
        if (strcmp(syntax, "-") != 0) {
            check_row(t, syntax, row, all);
        }
        json_decref(row);
    }
    lk_chat_template_close(t);
    free(data);
}

static void check(const char *folder, const char *file, bool shared, size_t n_wanted) {
    size_t n = 0;
    counts all = {0, 0};
    char *list = (char *)lk_test_read(lk_test_data("chat-templates/syntaxes.txt"), &n);
    check_file(folder, file, shared, list, &all);
    (void)printf("%s: the calls of %zu of %zu rows come back\n", file, all.n_same, all.n_rows);
    CHECK(all.n_same == all.n_rows && all.n_rows >= n_wanted);
    free(list);
}

LK_TEST(sample_calls) {
    check("chat-templates", "cases.jsonl", false, 28);
}

LK_TEST(shared_calls) {
    if (lk_test_shared("refs/chat-templates") != NULL) {
        check("refs/chat-templates", "cases.jsonl", true, 303);
        check("refs/chat-templates", "cases_unconfirmed.jsonl", true, 46);
    }
}

LK_TEST_MAIN(LK_RUN(sample_calls), LK_RUN(shared_calls))
