/* test_chat_parser.c - answers taken apart: every call syntax, reasoning, broken calls; each
 * stream cut at every byte, and byte by byte, gives the same. */
#include "lk/lk.h"
#include <stdbool.h>

#include "lk_test.h"

/* What came, as one text: T{...} R{...} C<i>:name:id{arguments}. or C...! when it is cut off. */
typedef struct record {
    char text[4096];
    size_t n;
    lk_chat_delta_kind open; /* the kind of the last piece, 0: closed */
    int32_t call;
    char first_id[300];
} record;

static void put(record *r, const char *text, size_t n) {
    if (r->n + n < sizeof r->text) {
        memcpy(r->text + r->n, text, n);
        r->n += n;
        r->text[r->n] = '\0';
    }
}

static void close_text(record *r) {
    if (r->open == LK_DELTA_TEXT || r->open == LK_DELTA_REASONING) {
        put(r, "}", 1);
    }
    r->open = 0;
}

static void on_delta(void *ctx, const lk_chat_delta *delta) {
    record *r = ctx;
    switch (delta->kind) {
    case LK_DELTA_TEXT:
    case LK_DELTA_REASONING:
        if (r->open != delta->kind) {
            close_text(r);
            put(r, delta->kind == LK_DELTA_TEXT ? "T{" : "R{", 2);
        }
        r->open = delta->kind;
        CHECK(delta->n_text != 0);
        put(r, delta->text, delta->n_text);
        break;
    case LK_DELTA_CALL_BEGIN:
        close_text(r);
        CHECK(delta->call == r->call);
        put(r, "C:", 2);
        put(r, delta->text, delta->n_text);
        put(r, "(", 1);
        if (r->first_id[0] == '\0') {
            (void)snprintf(r->first_id, sizeof r->first_id, "%s", delta->id);
        }
        break;
    case LK_DELTA_CALL_ARGUMENTS:
        CHECK(delta->call == r->call && delta->n_text != 0);
        put(r, delta->text, delta->n_text);
        break;
    case LK_DELTA_CALL_END:
        put(r, delta->is_complete ? ")" : "!", 1);
        r->call++;
        break;
    }
}

static lk_chat_template *think_template;

static lk_chat_parser *new_parser(const char *syntax, const lk_chat_prompt *prompt, record *r) {
    lk_chat_parser_params params = LK_CHAT_PARSER_PARAMS_INIT;
    lk_chat_parser *p = NULL;
    lk_error err = {.message = ""};
    *r = (record){.n = 0};
    params.syntax = syntax;
    params.prompt = prompt;
    params.id_seed = 7;
    params.on_delta = on_delta;
    params.ctx = r;
    const lk_status status = lk_chat_parser_create(think_template, &params, &p, &err);
    CHECK_MSG(status == LK_OK, "%s: %s", syntax, err.message);
    return p;
}

static void end(lk_chat_parser *p, record *r) {
    CHECK_STATUS(LK_OK, lk_chat_parser_finish(p, NULL));
    close_text(r);
    lk_chat_parser_destroy(p);
}

/* The answer, cut everywhere, is taken apart like this. */
static void parses(const char *syntax, const char *answer, const char *expected) {
    const size_t n = strlen(answer);
    for (size_t cut = 0; cut <= n + 1; cut++) {
        record r;
        lk_chat_parser *p = new_parser(syntax, NULL, &r);
        if (cut <= n) {
            CHECK_STATUS(LK_OK, lk_chat_parser_push(p, answer, cut, NULL));
            CHECK_STATUS(LK_OK, lk_chat_parser_push(p, answer + cut, n - cut, NULL));
        }
        for (size_t i = 0; cut > n && i < n; i++) {
            CHECK_STATUS(LK_OK, lk_chat_parser_push(p, answer + i, 1, NULL));
        }
        end(p, &r);
        if (strcmp(r.text, expected) != 0) {
            CHECK_MSG(false, "%s, cut at %zu of %s:\n%s, not\n%s", syntax, cut, answer, r.text,
                      expected);
            return;
        }
    }
}

LK_TEST(hermes) {
    const char *s = "hermes";
    parses(s, "Hello", "T{Hello}");
    parses(s, "", "");
    parses(s, " a < b\n", "T{ a < b\n}");
    parses(s, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"x}\"]}}\n</tool_call>",
           "C:f({\"a\": [1, \"x}\"]})");
    parses(s,
           "I look.\n\n<tool_call>{\"arguments\": {\"b\": {}}, \"name\": \"g\"}</tool_call>\n"
           "<tool_call>\n{\"name\":\"h\"}\n</tool_call>\nDone.",
           "T{I look.}C:g({\"b\": {}})C:h({})T{Done.}");
    parses(s,
           "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": \\\"\\u00e9\\\"}\"}"
           "</tool_call>",
           "C:f({\"a\": \"\xC3\xA9\"})");
    parses(s, "<tool_call>\nno JSON</tool_call>", "T{<tool_call>\nno JSON</tool_call>}");
    parses(s, "<tool_call>{\"city\": 1}</tool_call>", "T{<tool_call>{\"city\": 1}</tool_call>}");
    parses(s, "x <tool_cal", "T{x <tool_cal}");
    parses(s, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1", "C:f({\"a\": 1!");
    parses(s, "<tool_call>{\"name\": \"f", "T{<tool_call>{\"name\": \"f}");
    parses(s,
           "<tool_call>{\"name\": \"q\\\"\\u0041\", \"x\": [\"}\"], \"arguments\": null}"
           "</tool_call>",
           "C:q\"A(null)");
    parses(s, "<<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>", "T{<}C:f({})");
}

LK_TEST(reasoning) {
    parses("hermes", "<think>\nHm <b>.\n</think>\n\nYes.", "R{Hm <b>.}T{Yes.}");
    parses("hermes", "<think>a</think><tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
           "R{a}C:f({})");
    parses("hermes", "<think>not ended\n", "R{not ended}");
    parses("hermes", "<think>\n\n</think>\n\nYes", "T{Yes}");
    parses("hermes", "A <think> B</think> C", "T{A}R{B}T{C}");
}

LK_TEST(lists) {
    parses("mistral",
           "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abc\"}, "
           "{\"name\": \"g\", \"arguments\": {}}]",
           "C:f({\"a\": 1})C:g({})");
    parses("mistral", "Well [TOOL_CALLS] nothing", "T{Well [TOOL_CALLS] nothing}");
    parses("mistral", "[TOOL] [", "T{[TOOL] [}");
    parses("command-r7b",
           "<|START_THINKING|>x<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", "
           "\"tool_name\": \"f\", \"parameters\": {\"a\": true}}\n]<|END_ACTION|>",
           "T{<|START_THINKING|>x<|END_THINKING|>}C:f({\"a\": true})");
    parses("granite", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]", "C:f({})");
    parses("nemotron", "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {\"a\": -1.5e3}}]</TOOLCALL>",
           "C:f({\"a\": -1.5e3})");
    parses("functools", "functools[{\"name\": \"f\", \"arguments\": {}}]", "C:f({})");
}

LK_TEST(objects_in_a_row) {
    parses("minimax-m1",
           "<tool_calls>\n{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"arguments\": "
           "{\"a\": 1}}\n</tool_calls>",
           "C:f({})C:g({\"a\": 1})");
    parses("apriel", "<tool_calls>[{\"name\": \"f\", \"arguments\": {}}]</tool_calls>", "C:f({})");
    parses("command-r", "Action:\n```json\n[\n {\"tool_name\": \"f\", \"parameters\": {}}\n]```",
           "C:f({})");
    parses("gigachat", "function call<|role_sep|>\n{\"name\": \"f\", \"arguments\": {}}",
           "C:f({})");
}

LK_TEST(named) {
    parses("mistral-args", "[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]x1[ARGS]{}",
           "C:f({\"a\": 1})C:g({})");
    parses("functionary-3.1",
           "Hi <function=f>{\"a\": \"</function>\"}</function> <function=g>{}"
           "</function>",
           "T{Hi}C:f({\"a\": \"</function>\"})C:g({})");
    parses("functionary-3.2", ">>>all\nHello>>>f\n{\"a\": 1}>>>g\n{}",
           "T{Hello}C:f({\"a\": 1})C:g({})");
    parses("kimi",
           "Ok<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
           "<|tool_call_argument_begin|>{\"a\": 1}<|tool_call_end|><|tool_call_begin|>functions.g:1"
           "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
           "T{Ok}C:f({\"a\": 1})C:g({})");
#define DS(x) "<\xEF\xBD\x9Ctool\xE2\x96\x81" x "\xEF\xBD\x9C>"
#define CALLS_BEGIN                                                                                \
    DS("calls\xE2\x96\x81"                                                                         \
       "begin")
#define CALLS_END                                                                                  \
    DS("calls\xE2\x96\x81"                                                                         \
       "end")
#define CALL_BEGIN                                                                                 \
    DS("call\xE2\x96\x81"                                                                          \
       "begin")
#define CALL_END                                                                                   \
    DS("call\xE2\x96\x81"                                                                          \
       "end")
    parses("deepseek-3",
           CALLS_BEGIN CALL_BEGIN
           "function" DS("sep") "f\n```json\n{\"a\": 1}\n```" CALL_END "\n" CALL_BEGIN
                                "function" DS("sep") "g\n```json\n{}\n```" CALL_END CALLS_END,
           "C:f({\"a\": 1})C:g({})");
    parses("deepseek-3.1", "A" CALLS_BEGIN CALL_BEGIN "f" DS("sep") "{\"a\": 1}" CALL_END CALLS_END,
           "T{A}C:f({\"a\": 1})");
    parses("functionary-3.1", "<function=f>python", "C:f(!T{python}");
}

LK_TEST(llama) {
    parses("llama-3", "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "C:f({\"a\": 1})");
    parses("llama-3",
           "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", "
           "\"parameters\": {\"b\": 2}}",
           "C:f({})C:g({\"b\": 2})");
    parses("llama-3", "{\"answer\": {\"name\": \"x\"}}", "T{{\"answer\": {\"name\": \"x\"}}}");
    parses("llama-3", "See {\"name\": \"f\"}", "T{See {\"name\": \"f\"}}");
    parses("llama-3", "{not JSON", "T{{not JSON}");
}

LK_TEST(ids) {
    record r;
    lk_chat_parser *p = new_parser("hermes", NULL, &r);
    const char *call = "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>";
    CHECK_STATUS(LK_OK, lk_chat_parser_push(p, call, strlen(call), NULL));
    end(p, &r);
    CHECK(strlen(r.first_id) == 9);
    p = new_parser("hermes", NULL, &r);
    call = "<tool_call>{\"id\":\"own\",\"name\":\"f\",\"arguments\":{}}</tool_call>";
    CHECK_STATUS(LK_OK, lk_chat_parser_push(p, call, strlen(call), NULL));
    end(p, &r);
    CHECK(strcmp(r.first_id, "own") == 0);
    p = new_parser("kimi", NULL, &r);
    call =
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:3<|tool_call_argument_begin|>"
        "{}";
    CHECK_STATUS(LK_OK, lk_chat_parser_push(p, call, strlen(call), NULL));
    end(p, &r);
    CHECK(strcmp(r.first_id, "functions.f:3") == 0);
}

/* A prompt that opens reasoning, or a call, goes on in the answer. */
LK_TEST(behind_the_prompt) {
    static const struct {
        const char *syntax, *prompt, *answer, *expected;
    } cases[] = {{"hermes", "<assistant><think>\n", "Hm.</think>Yes", "R{Hm.}T{Yes}"},
                 {"hermes", "<think>x</think>\n", "Yes", "T{Yes}"},
                 {"functionary-3.2", "<|assistant|>>>>", "all\nHi", "T{Hi}"},
                 {"functionary-3.2", "<|assistant|>>>>", "f\n{}", "C:f({})"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_chat_params params = LK_CHAT_PARAMS_INIT;
        lk_chat_template *t = NULL;
        lk_chat_prompt *prompt = NULL;
        lk_error err = {.message = ""};
        record r;
        params.messages = "[]";
        params.n_messages = 2;
        params.flags = LK_CHAT_AS_GIVEN;
        REQUIRE_OK(
            lk_chat_template_create(cases[i].prompt, strlen(cases[i].prompt), NULL, &t, &err), err);
        /* The engine drops one final line end of a template. */
        CHECK_STATUS(LK_OK, lk_chat_render(t, &params, &prompt, &err));
        lk_chat_parser *p = new_parser(cases[i].syntax, prompt, &r);
        CHECK_STATUS(LK_OK, lk_chat_parser_push(p, cases[i].answer, strlen(cases[i].answer), NULL));
        end(p, &r);
        CHECK_MSG(strcmp(r.text, cases[i].expected) == 0, "%zu: %s", i, r.text);
        lk_chat_prompt_close(prompt);
        lk_chat_template_close(t);
    }
}

/* The syntax that a template file uses; "" when it is not known. */
static void check_syntax(const char *path, const char *expected) {
    lk_chat_parser_params params = LK_CHAT_PARSER_PARAMS_INIT;
    lk_chat_template *t = NULL;
    lk_chat_parser *p = NULL;
    lk_error err = {.message = ""};
    size_t n = 0;
    uint8_t *source = lk_test_read(path, &n);
    REQUIRE_OK(lk_chat_template_create((const char *)source, n, NULL, &t, &err), err);
    const lk_status status = lk_chat_parser_create(t, &params, &p, &err);
    CHECK_MSG(status == (expected[0] != '\0' ? LK_OK : LK_E_UNSUPPORTED), "%s: %s", path,
              err.message);
    CHECK_MSG(p == NULL || strcmp(lk_chat_parser_syntax(p), expected) == 0, "%s: %s, not %s", path,
              p != NULL ? lk_chat_parser_syntax(p) : "", expected);
    lk_chat_parser_destroy(p);
    lk_chat_template_close(t);
    free(source);
}

LK_TEST(syntaxes_of_templates) {
    static const struct {
        const char *name, *syntax;
    } own[] = {{"Mistral-Small-3.2-24B-Instruct-2506", "mistral-args"},
               {"ibm-granite-granite-4.0", "hermes"},
               {"meetkai-functionary-medium-v3.1", "functionary-3.1"},
               {"HuggingFaceTB-SmolLM3-3B", ""},
               {"Qwen3-Coder", ""}};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        char path[256];
        (void)snprintf(path, sizeof path, "chat-templates/templates/%s.jinja", own[i].name);
        check_syntax(lk_test_data(path), own[i].syntax);
    }
}

LK_TEST(arguments) {
    lk_chat_parser_params params = LK_CHAT_PARSER_PARAMS_INIT;
    lk_chat_parser *p = NULL;
    lk_error err;
    params.syntax = "no-such";
    CHECK_STATUS(LK_E_NOT_FOUND, lk_chat_parser_create(think_template, &params, &p, &err));
    params.syntax = NULL;
    params.flags = 8;
    CHECK_STATUS(LK_E_ARG, lk_chat_parser_create(think_template, &params, &p, &err));
    params.flags = LK_PARSE_TOOL_CALLS;
    CHECK_STATUS(LK_E_UNSUPPORTED, lk_chat_parser_create(think_template, &params, &p, &err));
    params.flags = 0;
    CHECK_STATUS(LK_OK, lk_chat_parser_create(think_template, &params, &p, &err));
    CHECK(strcmp(lk_chat_parser_syntax(p), "") == 0);
    lk_chat_parser_destroy(p);
    CHECK_STATUS(LK_E_ARG, lk_chat_parser_create(NULL, &params, &p, &err));
    CHECK_STATUS(LK_E_ARG, lk_chat_parser_push(NULL, "a", 1, &err));
    CHECK_STATUS(LK_E_ARG, lk_chat_parser_finish(NULL, &err));
    CHECK(lk_chat_syntax_name(0) != NULL && lk_chat_syntax_name(1000) == NULL);
    lk_chat_parser_destroy(NULL);
}

LK_TEST(setup) {
    lk_error err = {.message = ""};
    const char *source = "{{ messages[0].content }}</think>";
    REQUIRE_OK(lk_chat_template_create(source, strlen(source), NULL, &think_template, &err), err);
}

LK_TEST(teardown) {
    lk_chat_template_close(think_template);
}

LK_TEST_MAIN(LK_RUN(setup), LK_RUN(hermes), LK_RUN(reasoning), LK_RUN(lists),
             LK_RUN(objects_in_a_row), LK_RUN(named), LK_RUN(llama), LK_RUN(ids),
             LK_RUN(behind_the_prompt), LK_RUN(syntaxes_of_templates), LK_RUN(arguments),
             LK_RUN(teardown))
