/* test_call_grammar.c - calls of tools as grammars: in every syntax a well-formed call is a
 * sentence, the parser takes it apart into what was meant, and wrong names, arguments and marks are
 * none; reasoning, free text, one call or several; the tree with marks. */
#include "lk/lk.h"
#include <stdbool.h>

#include "lk_test.h"

#define WEATHER                                                                                    \
    "{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"parameters\": "          \
    "{\"type\": "                                                                                  \
    "\"object\", \"properties\": {\"city\": {\"type\": \"string\"}}, \"required\": [\"city\"], "   \
    "\"additionalProperties\": false}}}"
#define NOW "{\"type\": \"function\", \"function\": {\"name\": \"now\"}}"

static lk_grammar *make(const char *syntax, const char *more) {
    char text[4096];
    lk_grammar *grammar = NULL;
    lk_error err = {.message = ""};
    (void)snprintf(text, sizeof text, "{\"syntax\": \"%s\", \"tools\": [" WEATHER ", " NOW "]%s}",
                   syntax, more);
    const lk_status status = lk_grammar_create_tool_calls(text, strlen(text), NULL, &grammar, &err);
    CHECK_MSG(status == LK_OK, "%s: %s", text, err.message);
    return grammar;
}

static bool accepts(const lk_grammar *grammar, const char *text) {
    int result = -1;
    CHECK_STATUS(LK_OK, lk_grammar_accepts(grammar, text, strlen(text), &result, NULL));
    return result == 1;
}

/* ---- every syntax ---- */

#define DS(words) "<\xEF\xBD\x9Ctool\xE2\x96\x81" words "\xEF\xBD\x9C>"
#define DS_CALLS_BEGIN                                                                             \
    DS("calls\xE2\x96\x81"                                                                         \
       "begin")
#define DS_CALLS_END                                                                               \
    DS("calls\xE2\x96\x81"                                                                         \
       "end")
#define DS_CALL_BEGIN                                                                              \
    DS("call\xE2\x96\x81"                                                                          \
       "begin")
#define DS_CALL_END                                                                                \
    DS("call\xE2\x96\x81"                                                                          \
       "end")

/* One call and two; %s are the name and the arguments of the first, the second is now {}. Where
 * arguments are not JSON, how the city 'Ro"me}', a town 1 and none at all are written. */
typedef struct syntax_case {
    const char *syntax, *one, *two, *city, *town, *none;
} syntax_case;

#define IN_JSON NULL, NULL, NULL
#define ML                                                                                         \
    "<\xEF\xBD\x9C"                                                                                \
    "DSML\xEF\xBD\x9C"                                                                             \
    ""
#define ML_END                                                                                     \
    "</\xEF\xBD\x9C"                                                                               \
    "DSML\xEF\xBD\x9C"                                                                             \
    ""
#define OBJECT(key) "{\"name\": \"%s\", \"" key "\": %s}"
#define SECOND(key) "{\"name\": \"now\", \"" key "\": {}}"
static const syntax_case answers[] = {
    {"hermes", "<tool_call>\n" OBJECT("arguments") "\n</tool_call>",
     "<tool_call>\n" OBJECT("arguments") "\n</tool_call>\n<tool_call>\n" SECOND(
         "arguments") "\n</"
                      "tool_"
                      "call>",
     IN_JSON},
    {"mistral", "[TOOL_CALLS][" OBJECT("arguments") "]",
     "[TOOL_CALLS] [" OBJECT("arguments") ", " SECOND("arguments") "]", IN_JSON},
    {"mistral-args", "[TOOL_CALLS]%s[ARGS]%s",
     "[TOOL_CALLS]%s[ARGS]%s[TOOL_CALLS]now[CALL_ID]abcdefgh1[ARGS]{}", IN_JSON},
    {"functionary-3.1", "<function=%s>%s</function>",
     "<function=%s>%s</function><function=now>{}</function>", IN_JSON},
    {"functionary-3.2", ">>>%s\n%s", ">>>%s\n%s>>>now\n{}", IN_JSON},
    {"deepseek-3",
     DS_CALLS_BEGIN DS_CALL_BEGIN
     "function" DS("sep") "%s\n```json\n%s\n```" DS_CALL_END DS_CALLS_END,
     DS_CALLS_BEGIN DS_CALL_BEGIN
     "function" DS("sep") "%s\n```json\n%s\n```" DS_CALL_END "\n" DS_CALL_BEGIN
                          "function" DS("sep") "now\n```json\n{}\n"
                                               "```" DS_CALL_END DS_CALLS_END,
     IN_JSON},
    {"deepseek-3.1", DS_CALLS_BEGIN DS_CALL_BEGIN "%s" DS("sep") "%s" DS_CALL_END DS_CALLS_END,
     DS_CALLS_BEGIN DS_CALL_BEGIN "%s" DS("sep") "%s" DS_CALL_END DS_CALL_BEGIN
                                                 "now" DS("sep") "{}" DS_CALL_END DS_CALLS_END,
     IN_JSON},
    {"kimi",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.%s:0<|tool_call_argument_begin|>%s"
     "<|tool_call_end|><|tool_calls_section_end|>",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.%s:0<|tool_call_argument_begin|>%s"
     "<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}"
     "<|tool_call_end|><|tool_calls_section_end|>",
     IN_JSON},
    {"command-r7b",
     "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"%s\", \"parameters\": "
     "%s}\n]<|END_ACTION|>",
     "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"%s\", \"parameters\": "
     "%s},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"now\", \"parameters\": {}}\n]"
     "<|END_ACTION|>",
     IN_JSON},
    {"granite", "<|tool_call|>[" OBJECT("arguments") "]",
     "<|tool_call|>[" OBJECT("arguments") ", " SECOND("arguments") "]", IN_JSON},
    {"nemotron", "<TOOLCALL>[" OBJECT("arguments") "]</TOOLCALL>",
     "<TOOLCALL>[" OBJECT("arguments") ", " SECOND("arguments") "]</TOOLCALL>", IN_JSON},
    {"apriel", "<tool_calls>[{\"name\": \"%s\", \"arguments\": %s, \"id\": \"x1\"}]</tool_calls>",
     "<tool_calls>[" OBJECT("arguments") ", " SECOND("arguments") "]</tool_calls>", IN_JSON},
    {"minimax-m1", "<tool_calls>\n" OBJECT("arguments") "\n</tool_calls>",
     "<tool_calls>\n" OBJECT("arguments") "\n" SECOND("arguments") "\n</tool_calls>", IN_JSON},
    {"command-r", "Action:\n```json\n[\n    {\"tool_name\": \"%s\", \"parameters\": %s}\n]\n```",
     "Action:\n```json\n[\n    {\"tool_name\": \"%s\", \"parameters\": %s},\n    {\"tool_name\": "
     "\"now\", \"parameters\": {}}\n]```",
     IN_JSON},
    {"gigachat", "function call<|role_sep|>\n" OBJECT("arguments"),
     "function call<|role_sep|>\n" OBJECT("arguments") "\n" SECOND("arguments"), IN_JSON},
    {"gigachat-3.1", "<|function_call|>" OBJECT("arguments"),
     "<|function_call|>" OBJECT("arguments") " " SECOND("arguments"), IN_JSON},
    {"functools", "functools[" OBJECT("arguments") "]",
     "functools[" OBJECT("arguments") ", " SECOND("arguments") "]", IN_JSON},
    {"llama-3", OBJECT("parameters"),
     "<|python_tag|>" OBJECT("parameters") "; " SECOND("parameters"), IN_JSON},
    {"apertus", "<|tools_prefix|>[{\"%s\": %s}]<|tools_suffix|>",
     "<|tools_prefix|>[{\"%s\": %s}, {\"now\": {}}]<|tools_suffix|>", IN_JSON},
    {"solar",
     "<|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>%s<|tool_call:args|>%s"
     "<|tool_call:end|><|calls|>",
     "<|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>%s<|tool_call:args|>%s"
     "<|tool_call:end|><|tool_call:begin|>b1b2c3d4e5<|tool_call:name|>now<|tool_call:args|>{}"
     "<|tool_call:end|><|calls|>",
     IN_JSON},
    {"qwen-coder", "<tool_call>\n<function=%s>\n%s</function>\n</tool_call>",
     "<tool_call>\n<function=%s>\n%s</function>\n</tool_call>\n<tool_call>\n<function=now>\n"
     "</function>\n</tool_call>",
     "<parameter=city>\nRo\"me}\n</parameter>\n", "<parameter=town>\n1\n</parameter>\n", ""},
    {"seed", "<seed:tool_call>\n<function=%s>\n%s</function>\n</seed:tool_call>",
     "<seed:tool_call><function=%s>%s</function></seed:tool_call>\n<seed:tool_call>\n<function=now>"
     "</function></seed:tool_call>",
     "<parameter=city>Ro\"me}</parameter>\n", "<parameter=town>1</parameter>\n", ""},
    {"glm", "<tool_call>%s\n%s</tool_call>",
     "<tool_call>%s%s</tool_call><tool_call>now\n</tool_call>",
     "<arg_key>city</arg_key>\n<arg_value>Ro\"me}</arg_value>\n",
     "<arg_key>town</arg_key>\n<arg_value>1</arg_value>\n", ""},
    {"hunyuan-3",
     "<tool_calls:opensource>\n<tool_call:opensource>%s<tool_sep:opensource>\n"
     "%s</tool_call:opensource>\n</tool_calls:opensource>",
     "<tool_calls:opensource>\n<tool_call:opensource>%s<tool_sep:opensource>\n"
     "%s</tool_call:opensource>\n<tool_call:opensource>now<tool_sep:opensource>\n"
     "</tool_call:opensource>\n</tool_calls:opensource>",
     "<arg_key:opensource>city</arg_key:opensource>\n<arg_value:opensource>Ro\"me}"
     "</arg_value:opensource>\n",
     "<arg_key:opensource>town</arg_key:opensource>\n<arg_value:opensource>1"
     "</arg_value:opensource>\n",
     ""},
    {"minimax-m2", "<minimax:tool_call>\n<invoke name=\"%s\">\n%s</invoke>\n</minimax:tool_call>",
     "<minimax:tool_call>\n<invoke name=\"%s\">\n%s</invoke>\n<invoke name=\"now\">\n</invoke>\n"
     "</minimax:tool_call>",
     "<parameter name=\"city\">Ro\"me}</parameter>\n", "<parameter name=\"town\">1</parameter>\n",
     ""},
    {"deepseek-3.2",
     ML "function_calls>\n" ML "invoke name=\"%s\">\n%s" ML_END "invoke>\n" ML_END
        "function_calls>",
     ML "function_calls>\n" ML "invoke name=\"%s\">\n%s" ML_END "invoke>\n" ML
        "invoke name=\"now\">\n" ML_END "invoke>\n" ML_END "function_calls>",
     ML "parameter name=\"city\" string=\"true\">Ro\"me}" ML_END "parameter>\n",
     ML "parameter name=\"town\" string=\"false\">1" ML_END "parameter>\n", ""},
    {"deepseek-4",
     ML "tool_calls>\n" ML "invoke name=\"%s\">\n%s" ML_END "invoke>\n" ML_END "tool_calls>",
     ML "tool_calls>\n" ML "invoke name=\"%s\">\n%s" ML_END "invoke>\n" ML
        "invoke name=\"now\">\n" ML_END "invoke>\n" ML_END "tool_calls>",
     ML "parameter name=\"city\" string=\"true\">Ro\"me}" ML_END "parameter>\n",
     ML "parameter name=\"town\" string=\"false\">1" ML_END "parameter>\n", ""},
    {"kimi-3",
     "<|open|>tools<|sep|><|open|>call tool=\"%s\" index=\"1\"<|sep|>%s<|close|>call<|sep|>"
     "<|close|>tools<|sep|>",
     "<|open|>tools<|sep|><|open|>call tool=\"%s\" index=\"1\"<|sep|>%s<|close|>call<|sep|>"
     "<|open|>call tool=\"now\" index=\"2\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
     "<|open|>argument key=\"city\" type=\"string\"<|sep|>Ro\"me}<|close|>argument<|sep|>",
     "<|open|>argument key=\"town\" type=\"number\"<|sep|>1<|close|>argument<|sep|>", ""},
    {"minicpm-5", "<function name=\"%s\">%s</function>",
     "<function name=\"%s\">%s</function>\n<function name=\"now\"></function>",
     "<param name=\"city\">Ro\"me}</param>", "<param name=\"town\">1</param>", ""},
    {"lfm-2.5", "<|tool_call_start|>[%s(%s]<|tool_call_end|>",
     "<|tool_call_start|>[%s(%s, now()]<|tool_call_end|>", "city=\"Ro\\\"me}\")", "town=1)", ")"},
    {"gemma-4", "<|tool_call>call:%s{%s<tool_call|>",
     "<|tool_call>call:%s{%s<tool_call|><|tool_call>call:now{}<tool_call|>",
     "city:<|\"|>Ro\"me}<|\"|>}", "town:1}", "}"},
    {"harmony", "<|channel|>commentary to=functions.%s <|constrain|>json<|message|>%s", NULL,
     IN_JSON},
    {"atem",
     " to=get_weather<|message|><atem:function_calls>\n<atem:invoke name=\"%s\">\n%s"
     "</atem:invoke>\n</atem:function_calls>",
     " to=get_weather<|message|><atem:function_calls>\n<atem:invoke name=\"%s\">\n%s"
     "</atem:invoke>\n</atem:function_calls><|eom|><|start|>assistant to=now<|message|>"
     "<atem:function_calls>\n<atem:invoke name=\"now\">\n</atem:invoke>\n</atem:function_calls>",
     "<atem:parameter name=\"city\">Ro\"me}</atem:parameter>\n",
     "<atem:parameter name=\"town\">1</atem:parameter>\n", ""},
};
enum { N_CASES = sizeof answers / sizeof answers[0] };

static void write_calls(char out[1024], const char *format, const char *name,
                        const char *arguments) {
    const char *first = strstr(format, "%s");
    const char *second = strstr(first + 2, "%s");
    (void)snprintf(out, 1024, "%.*s%s%.*s%s%s", (int)(first - format), format, name,
                   (int)(second - first - 2), first + 2, arguments, second + 2);
}

typedef struct taken {
    char names[64];
    char arguments[256];
    int n_calls, n_complete;
    bool has_text;
} taken;

static void on_delta(void *ctx, const lk_chat_delta *delta) {
    taken *t = ctx;
    char *to = delta->kind == LK_DELTA_CALL_BEGIN ? t->names : t->arguments;
    const size_t capacity = to == t->names ? sizeof t->names : sizeof t->arguments;
    if (delta->kind == LK_DELTA_CALL_BEGIN || delta->kind == LK_DELTA_CALL_ARGUMENTS) {
        const size_t n = strlen(to);
        (void)snprintf(to + n, capacity - n, "%.*s", (int)delta->n_text, delta->text);
    }
    t->n_calls += delta->kind == LK_DELTA_CALL_BEGIN;
    t->n_complete += delta->kind == LK_DELTA_CALL_END && delta->is_complete != 0;
    t->has_text = t->has_text || delta->kind == LK_DELTA_TEXT;
}

static lk_chat_template *chat_template;

/* What the grammar lets through is what the parser reads. */
static void check_parser(const char *syntax, const char *answer, int n_calls, const char *names,
                         const char *arguments) {
    lk_chat_parser_params params = LK_CHAT_PARSER_PARAMS_INIT;
    lk_chat_parser *parser = NULL;
    taken t = {.n_calls = 0};
    params.syntax = syntax;
    params.tools = "[" WEATHER ", " NOW "]";
    params.n_tools = strlen(params.tools);
    params.on_delta = on_delta;
    params.ctx = &t;
    CHECK_STATUS(LK_OK, lk_chat_parser_create(chat_template, &params, &parser, NULL));
    CHECK_STATUS(LK_OK, lk_chat_parser_push(parser, answer, strlen(answer), NULL));
    CHECK_STATUS(LK_OK, lk_chat_parser_finish(parser, NULL));
    CHECK_MSG(t.n_calls == n_calls && t.n_complete == n_calls && !t.has_text, "%s: %s: %d calls",
              syntax, answer, t.n_calls);
    CHECK_MSG(strcmp(t.names, names) == 0 && strcmp(t.arguments, arguments) == 0, "%s: %s %s",
              syntax, t.names, t.arguments);
    lk_chat_parser_destroy(parser);
}

/* Answers that hold only what is around calls, with a text, or more before the call. */
static void check_around(const syntax_case *c, const lk_grammar *many, const lk_grammar *free_one,
                         const char *one) {
    char text[1024];
    const bool has_messages = strcmp(c->syntax, "harmony") == 0 || strcmp(c->syntax, "atem") == 0;
    (void)snprintf(text, sizeof text, "Hi %s", one);
    CHECK_MSG(!accepts(many, text) && accepts(free_one, text) != has_messages, "%s: %s", c->syntax,
              text);
    CHECK_MSG(accepts(free_one, "Hi") != has_messages, "%s", c->syntax);
    CHECK_MSG(!accepts(many, "") && accepts(free_one, ""), "%s", c->syntax);
}

static void check_syntax(const syntax_case *c) {
    static const char rome[] = "{\"city\": \"Ro\\\"me}\"}";
    const char *city = c->city != NULL ? c->city : rome;
    const char *town = c->town != NULL ? c->town : "{\"town\": 1}";
    const char *none = c->none != NULL ? c->none : "{}";
    char one[1024];
    char two[1024] = "";
    char text[1024];
    lk_grammar *many = make(c->syntax, ", \"tool_choice\": \"required\"");
    lk_grammar *single =
        make(c->syntax, ", \"tool_choice\": \"required\", \"parallel_tool_calls\": false");
    lk_grammar *named = make(c->syntax, ", \"tool_choice\": {\"type\": \"function\", "
                                        "\"function\": {\"name\": \"get_weather\"}}");
    lk_grammar *free_one = make(c->syntax, "");
    write_calls(one, c->one, "get_weather", city);
    CHECK_MSG(accepts(many, one) && accepts(single, one) && accepts(named, one), "%s: %s",
              c->syntax, one);
    CHECK_MSG(accepts(free_one, one), "%s: %s", c->syntax, one);
    check_parser(c->syntax, one, 1, "get_weather", rome);
    if (c->two != NULL) {
        write_calls(two, c->two, "get_weather", city);
        CHECK_MSG(accepts(many, two) && accepts(free_one, two), "%s: %s", c->syntax, two);
        CHECK_MSG(!accepts(single, two) && !accepts(named, two), "%s: %s", c->syntax, two);
        (void)snprintf(text, sizeof text, "%s{}", rome);
        check_parser(c->syntax, two, 2, "get_weathernow", text);
    }
    /* A cut one, other names, other arguments, text around it. */
    (void)snprintf(text, sizeof text, "%.*s", (int)strlen(one) - 1, one);
    CHECK_MSG(!accepts(many, text), "%s: %s", c->syntax, text);
    write_calls(text, c->one, "get_weathe", city);
    CHECK_MSG(!accepts(many, text), "%s: %s", c->syntax, text);
    const bool is_marked = strcmp(c->syntax, "llama-3") != 0;
    CHECK_MSG(accepts(free_one, text) != is_marked, "%s: %s", c->syntax, text);
    write_calls(text, c->one, "get_weather", town);
    CHECK_MSG(!accepts(many, text), "%s: %s", c->syntax, text);
    CHECK_MSG(accepts(free_one, text) != is_marked, "%s: %s", c->syntax, text);
    if (strcmp(c->syntax, "atem") != 0) { /* the name stands there twice */
        write_calls(text, c->one, "now", none);
        CHECK_MSG(accepts(many, text) && !accepts(named, text), "%s: %s", c->syntax, text);
    }
    check_around(c, many, free_one, one);
    lk_grammar_destroy(many);
    lk_grammar_destroy(single);
    lk_grammar_destroy(named);
    lk_grammar_destroy(free_one);
}

LK_TEST(every_syntax) {
    CHECK_STATUS(LK_OK, lk_chat_template_builtin("chatml", NULL, &chat_template, NULL));
    for (size_t i = 0; lk_chat_syntax_name(i) != NULL; i++) {
        bool is_tried = false;
        for (size_t k = 0; k < N_CASES; k++) {
            is_tried = is_tried || strcmp(answers[k].syntax, lk_chat_syntax_name(i)) == 0;
        }
        CHECK_MSG(is_tried, "the syntax %s is not tried here", lk_chat_syntax_name(i));
    }
    for (size_t i = 0; i < N_CASES; i++) {
        check_syntax(&answers[i]);
    }
    lk_chat_template_close(chat_template);
}

/* ---- what is around the calls ---- */

#define NOW_CALL "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>"
#define THINK ", \"reasoning\": [\"<think>\", \"</think>\"]"

static void check(const char *more, const char *text, bool expected) {
    lk_grammar *grammar = make("hermes", more);
    CHECK_MSG(accepts(grammar, text) == expected, "%s: %s", more, text);
    lk_grammar_destroy(grammar);
}

LK_TEST(reasoning) {
    const char *required = THINK ", \"tool_choice\": \"required\"";
    check(required, NOW_CALL, true);
    check(required, "<think>\n<tool_call> <</think>\n\n" NOW_CALL, true);
    check(required, "<think>a</think>b" NOW_CALL, false);
    check(required, "<think>" NOW_CALL, false);
    check(required, "a</think>" NOW_CALL, false);
    const char *inside = THINK ", \"tool_choice\": \"required\", \"begins\": \"reasoning\"";
    check(inside, "a</thin</think>" NOW_CALL, true);
    check(inside, NOW_CALL, false);
    check(THINK, "<think><tool_call>x", true);
    check(THINK, "<think><tool_call></think> " NOW_CALL " b", true);
    check(THINK, "<think></think><tool_call>x", false);
    check(THINK ", \"begins\": \"reasoning\"", "<tool_call></think>x", true);
    check("", "<think><tool_call>x", false);
}

LK_TEST(free_text) {
    check("", "\xFF\x01\xC3 <tool_cal <<tool_", true);
    check("", "<<tool_call>x", false);
    check("", "<tool_<tool_call>x", false);
    check("", "a" NOW_CALL "b" NOW_CALL, true);
    check(", \"parallel_tool_calls\": false", "a" NOW_CALL, true);
    check(", \"parallel_tool_calls\": false", "a" NOW_CALL "b", false);
    lk_grammar *grammar = make("functionary-3.2", ", \"begins\": \"calls\"");
    CHECK(accepts(grammar, "all\nHello") && accepts(grammar, "now\n{}"));
    CHECK(!accepts(grammar, "later\n{}") && accepts(grammar, "all\nHello>>>now\n{}"));
    lk_grammar_destroy(grammar);
}

LK_TEST(content) {
    const char *more = THINK ", \"content\": {\"enum\": [\"yes\", 5]}";
    check(more, "\"yes\"", true);
    check(more, "<think>x</think>\n\n5", true);
    check(more, NOW_CALL, true);
    check(more, "no", false);
    check(more, "5" NOW_CALL, false);
}

/* ---- errors ---- */

static void refused(const char *text, lk_status expected, const char *subject, const char *words) {
    lk_grammar *grammar = NULL;
    lk_error err = {.message = ""};
    CHECK_MSG(lk_grammar_create_tool_calls(text, strlen(text), NULL, &grammar, &err) == expected &&
                  grammar == NULL,
              "%s: %s", text, err.message);
    CHECK_MSG(strcmp(err.subject, subject) == 0 && strstr(err.message, words) != NULL, "%s: %s: %s",
              text, err.subject, err.message);
}

#define RULES(more) "{\"syntax\": \"hermes\", \"tools\": [" NOW "]" more "}"
#define FORCE(parameters)                                                                          \
    "{\"syntax\": \"hermes\", \"tool_choice\": \"required\", \"tools\": [{\"function\": "          \
    "{\"name\": "                                                                                  \
    "\"f\", \"parameters\": " parameters "}}]}"

LK_TEST(errors) {
    refused("[]", LK_E_FORMAT, "tool calls", "object");
    refused("{\"syntax\": \"hermes\"}", LK_E_FORMAT, "tools", "array");
    refused("{\"syntax\": \"none\", \"tools\": [" NOW "]}", LK_E_FORMAT, "syntax", "name");
    refused(RULES(", \"what\": 1"), LK_E_FORMAT, "tool calls", "what");
    refused(RULES(", \"tool_choice\": \"none\""), LK_E_FORMAT, "tool_choice", "auto");
    refused(RULES(", \"begins\": \"reasoning\""), LK_E_FORMAT, "begins", "marks");
    refused(RULES(", \"begins\": 1"), LK_E_FORMAT, "begins", "text");
    refused(RULES(", \"reasoning\": [\"a\"]"), LK_E_FORMAT, "reasoning", "two");
    refused(RULES(", \"reasoning\": [\"a\", \"\"]"), LK_E_FORMAT, "reasoning", "two");
    refused(RULES(", \"parallel_tool_calls\": 1"), LK_E_FORMAT, "parallel_tool_calls", "boolean");
    refused(RULES(", \"content\": {\"type\": \"what\"}"), LK_E_FORMAT, "content", "must be");
    refused(FORCE("{\"properties\": {\"a\": {\"uniqueItems\": true}}}"), LK_E_UNSUPPORTED, "tools",
            "tools[0].function.parameters: schema, /properties/a/uniqueItems");
    refused(FORCE("{\"type\": \"array\"}"), LK_E_FORMAT, "tools", "object");
    refused("{\"syntax\": \"llama-3\", \"content\": {}, \"tools\": [" NOW "]}", LK_E_UNSUPPORTED,
            "content", "llama-3");
}

/* Parameters without a type are an object all the same; references stay inside the schema. */
LK_TEST(parameters) {
    static const char *const forms[] = {
        FORCE("{}"), FORCE("{\"properties\": {\"a\": {\"type\": \"integer\"}}}"),
        FORCE("{\"properties\": {\"a\": {\"$ref\": \"#/$defs/n\"}}, \"$defs\": {\"n\": {\"type\": "
              "\"integer\"}}}")};
    for (size_t i = 0; i < 3; i++) {
        lk_grammar *grammar = NULL;
        CHECK_STATUS(
            LK_OK, lk_grammar_create_tool_calls(forms[i], strlen(forms[i]), NULL, &grammar, NULL));
        CHECK(accepts(grammar,
                      "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>"));
        CHECK(!accepts(grammar, "<tool_call>{\"name\": \"f\", \"arguments\": 1}</tool_call>"));
        CHECK(accepts(grammar, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": "
                               "\"b\"}}</tool_call>") == (i == 0));
        lk_grammar_destroy(grammar);
    }
}

LK_TEST(marks) {
    CHECK(lk_chat_syntax_has_mark("mistral", "[TOOL_CALLS]", 12));
    CHECK(lk_chat_syntax_has_mark("mistral-args", "[CALL_ID]", 9));
    CHECK(!lk_chat_syntax_has_mark("hermes", "[TOOL_CALLS]", 12));
    CHECK(lk_chat_syntax_has_mark("", "<think>", 7) &&
          lk_chat_syntax_has_mark(NULL, "[/THINK]", 8));
    CHECK(lk_chat_syntax_has_mark("deepseek-3", DS("sep"), strlen(DS("sep"))));
    CHECK(!lk_chat_syntax_has_mark("hermes", "<|im_end|>", 10));
    CHECK(!lk_chat_syntax_has_mark("hermes", "", 0));
}

LK_TEST_MAIN(LK_RUN(every_syntax), LK_RUN(reasoning), LK_RUN(free_text), LK_RUN(content),
             LK_RUN(errors), LK_RUN(parameters), LK_RUN(marks))
