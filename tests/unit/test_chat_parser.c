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

/* Arguments of many types, for the syntaxes that ask the schema. */
static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": "
    "\"object\", \"properties\": {\"s\": {\"type\": \"string\"}, \"i\": {\"type\": \"integer\"}, "
    "\"o\": {\"type\": \"object\"}, \"m\": {\"type\": [\"string\", \"null\", \"boolean\"]}, \"e\": "
    "{\"enum\": [\"1\", \"x\"]}, \"r\": {\"$ref\": \"#/$defs/t\"}, \"a\": {\"anyOf\": [{\"type\": "
    "\"number\"}, {\"const\": \"n\"}]}}, \"$defs\": {\"t\": {\"type\": \"string\"}}}}}]";

static lk_chat_parser *new_parser(const char *syntax, const lk_chat_prompt *prompt, record *r) {
    lk_chat_parser_params params = LK_CHAT_PARSER_PARAMS_INIT;
    lk_chat_parser *p = NULL;
    lk_error err = {.message = ""};
    *r = (record){.n = 0};
    params.syntax = syntax;
    params.prompt = prompt;
    params.tools = tools;
    params.n_tools = sizeof tools - 1;
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

#define CODER(arguments) "<tool_call>\n<function=f>\n" arguments "</function>\n</tool_call>"
#define ARGUMENT(name, value) "<parameter=" name ">\n" value "\n</parameter>\n"

/* Values between tags: texts as they are, the rest as JSON, by the schema. */
LK_TEST(tags) {
    const char *q = "qwen-coder";
    parses(q, "Ok\n\n" CODER(ARGUMENT("s", "a \"b\"\n\t<x>\n")),
           "T{Ok}C:f({\"s\": \"a \\\"b\\\"\\n\\t<x>\\n\"})");
    parses(q, CODER(ARGUMENT("s", "12") ARGUMENT("i", " 12 ") ARGUMENT("r", "true")),
           "C:f({\"s\": \"12\", \"i\": 12, \"r\": \"true\"})");
    parses(q, CODER(ARGUMENT("i", "twelve") ARGUMENT("e", "1") ARGUMENT("a", "1.5")),
           "C:f({\"i\": \"twelve\", \"e\": \"1\", \"a\": 1.5})");
    parses(q, CODER(ARGUMENT("m", "null") ARGUMENT("m2", "nul") ARGUMENT("a", "n")),
           "C:f({\"m\": null, \"m2\": \"nul\", \"a\": \"n\"})");
    parses(q, CODER(ARGUMENT("m", "True") ARGUMENT("m", "12") ARGUMENT("x", "True")),
           "C:f({\"m\": true, \"m\": \"12\", \"x\": true})");
    parses(q, CODER(ARGUMENT("o", "{\"a\": \"</parameter>\", \"b\": [1]}") ARGUMENT("i", "1")),
           "C:f({\"o\": {\"a\": \"</parameter>\", \"b\": [1]}, \"i\": 1})");
    parses(q, CODER(ARGUMENT("o", "{'a': (1, None), 'b': \"it's\"}") ARGUMENT("x", "[1, 2,]")),
           "C:f({\"o\": {\"a\": [1, null], \"b\": \"it's\"}, \"x\": [1, 2]})");
    parses(q, CODER("<parameter=s></parameter><parameter=i></parameter>"),
           "C:f({\"s\": \"\", \"i\": \"\"})");
    parses(q, CODER(""), "C:f({})");
    parses(q, CODER(ARGUMENT("s", "</para")) CODER(ARGUMENT("s", "\xE2\x98\x83")),
           "C:f({\"s\": \"</para\"})C:f({\"s\": \"\xE2\x98\x83\"})");
    parses(q, "<tool_call>\n<function=f>\n<parameter=s>\nab", "C:f({\"s\": \"ab!");
    parses(q, "<tool_call>\n<function=f>\nno tag", "C:f(!T{no tag}");
    parses(q, "<tool_call>\n<function=f>\n<paramet!", "C:f(!T{<paramet!}");
    parses(q, "<tool_call>text", "T{<tool_call>text}");
    parses("glm", "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value> x\n</arg_value>\n</tool_call>!",
           "C:f({\"s\": \" x\\n\"})T{!}");
    parses("glm", "<tool_call>f</tool_call><tool_call> <x>", "C:f({})T{<tool_call> <x>}");
    parses("minicpm-5",
           "<function name=\"f\"><param name=\"s\"><![CDATA[a]]<\n]]></param><param name=\"m\">"
           "<![CDATA[null]]></param><param name=\"i\">5</param></function>",
           "C:f({\"s\": \"a]]<\\n\", \"m\": \"null\", \"i\": 5})");
}

LK_TEST(named_types) {
#define K3(arguments)                                                                              \
    "<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|>" arguments                     \
    "<|close|>call<|sep|><|close|>tools<|sep|>"
#define K3_ARGUMENT(name, type, value)                                                             \
    "<|open|>argument key=\"" name "\" type=\"" type "\"<|sep|>" value "<|close|>argument<|sep|>"
    parses("kimi-3",
           "<|open|>response<|sep|>Hi<|close|>response<|sep|>" K3(
               K3_ARGUMENT("i", "string", "1") K3_ARGUMENT("s", "number", "1")),
           "T{Hi}C:f({\"i\": \"1\", \"s\": 1})");
#define ML                                                                                         \
    "\xEF\xBD\x9C"                                                                                 \
    "DSML\xEF\xBD\x9C"                                                                             \
    ""
    parses("deepseek-4",
           "<" ML "tool_calls>\n<" ML "invoke name=\"f\">\n<" ML
           "parameter name=\"i\" string=\"true\">1</" ML "parameter>\n<" ML
           "parameter name=\"s\" string=\"false\">{\"a\": []}</" ML "parameter>\n</" ML
           "invoke>\n</" ML "tool_calls>",
           "C:f({\"i\": \"1\", \"s\": {\"a\": []}})");
}

/* Python's way to write a call, and bare names. */
LK_TEST(values) {
    const char *l = "lfm-2.5";
#define LFM(calls) "<|tool_call_start|>[" calls "]<|tool_call_end|>"
    parses(
        l, LFM("f(s='a\"b', i=-1.5e3, o={\"k\": [True, None]}, x=(1,), y=word), g()"),
        "C:f({\"s\": \"a\\\"b\", \"i\": -1.5e3, \"o\": {\"k\": [true, null]}, \"x\": [1], \"y\": "
        "\"word\"})C:g({})");
    parses(l, LFM("f(s='it\\'s\\x41\\u00e9\\n', t=\"\\U0001F600\", u='\\ud83d\\ude00')"),
           "C:f({\"s\": \"it'sA\xC3\xA9\\n\", \"t\": \"\xF0\x9F\x98\x80\", \"u\": "
           "\"\\ud83d\\ude00\"})");
    parses(l, LFM("f(s=)") "x", "C:f({\"s\": null})T{x}");
    parses(l, LFM("f(x={'a': {}, 'b': []})"), "C:f({\"x\": {\"a\": {}, \"b\": []}})");
    parses(l, LFM("f(s='open"), "C:f({\"s\": \"open]<|tool_call_end|>!");
    parses(l, LFM("f(s=1]"), "C:f({\"s\": 1!T{]]<|tool_call_end|>}");
    const char *g = "gemma-4";
    parses(
        g,
        "<|tool_call>call:f{s:<|\"|>a\"b<|\"<|\"|>,i:5,o:{k:[true,None],q:{}}}<tool_call|>"
        "<|tool_call>call:g{}<tool_call|>",
        "C:f({\"s\": \"a\\\"b<|\\\"\", \"i\": 5, \"o\": {\"k\": [true, null], \"q\": {}}})C:g({})");
    parses(g, "<|tool_call>call:f{o:{<|\"|>a b<|\"|>:1}}<tool_call|>",
           "C:f({\"o\": {\"a b\": 1}})");
    parses(g, "<|tool_call>call:f{s:<|\"|>x", "C:f({\"s\": \"x!");
}

/* Messages with headers. */
LK_TEST(messages) {
    const char *h = "harmony";
    parses(h, "<|channel|>final<|message|>Hi<|return|>", "T{Hi}");
    parses(h,
           "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
           "to=functions.f <|constrain|>json<|message|>{\"s\": \"<|end|>\"}<|call|>",
           "R{Hm.}C:f({\"s\": \"<|end|>\"})");
    parses(h, " to=functions.f<|channel|>commentary json<|message|>{\"i\": 1}", "C:f({\"i\": 1})");
    parses(h,
           "<|channel|>commentary<|message|>First<|end|><|start|>assistant<|channel|>final<|"
           "message|>.",
           "T{First.}");
    parses(h, "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|chan", "R{a}");
    parses(h, "Plain text", "T{Plain text}");
    parses(h, "<|channel|>analysis to=browser.search code<|message|>{}", "C:browser.search({})");
    const char *m = "atem";
    parses(
        m,
        " to=self<|message|>Hm.<|eom|><|start|>assistant to=f<|message|><atem:function_calls>\n"
        "<atem:invoke name=\"f\">\n<atem:parameter name=\"i\">1</atem:parameter>\n</atem:invoke>\n"
        "</atem:function_calls>",
        "R{Hm.}C:f({\"i\": 1})");
    parses(m, " to=user<|message|>Hi", "T{Hi}");
    parses(
        "solar",
        "<|think|>a<|end|><|begin|>assistant<|content|>Hi<|end|><|begin|>assistant<|tool_calls|>"
        "<|tool_call:begin|>abc<|tool_call:name|>f<|tool_call:args|>{}<|tool_call:end|><|calls|>",
        "T{<|think|>aHi}C:f({})");
    parses("apertus", "a<|tools_prefix|>[{\"f\": {}}, {\"g\":{\"x\": 1}}]<|tools_suffix|>b",
           "T{a}C:f({})C:g({\"x\": 1})T{b}");
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
               {"Apertus-8B-Instruct", "apertus"},
               {"openai-gpt-oss-120b", "harmony"},
               {"Qwen3-Coder", "qwen-coder"}};
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
             LK_RUN(objects_in_a_row), LK_RUN(named), LK_RUN(llama), LK_RUN(tags),
             LK_RUN(named_types), LK_RUN(values), LK_RUN(messages), LK_RUN(ids),
             LK_RUN(behind_the_prompt), LK_RUN(syntaxes_of_templates), LK_RUN(arguments),
             LK_RUN(teardown))
