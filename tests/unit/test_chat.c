/* test_chat.c - the chat API: forms of messages, the prompt's end, origins of bytes, errors with
 * their lines, limits. */
#include "lk/lk.h"
#include "lk_test.h"

static lk_chat_template *compile(const char *source) {
    lk_chat_template *t = NULL;
    lk_error err = {.message = ""};
    const lk_status status = lk_chat_template_create(source, strlen(source), NULL, &t, &err);
    CHECK_MSG(status == LK_OK, "%s: %s", source, err.message);
    return t;
}

/* Renders with flags and variables; *err has the reason of a failure. */
static lk_status render(const lk_chat_template *t, const char *messages, const char *tools,
                        const char *variables, uint32_t flags, lk_chat_prompt **prompt,
                        lk_error *err) {
    lk_chat_params params = LK_CHAT_PARAMS_INIT;
    *err = (lk_error){.message = ""};
    params.messages = messages;
    params.n_messages = strlen(messages);
    params.tools = tools;
    params.n_tools = tools != NULL ? strlen(tools) : 0;
    params.variables = variables;
    params.n_variables = variables != NULL ? strlen(variables) : 0;
    params.bos_token = "<s>";
    params.n_bos_token = 3;
    params.flags = flags;
    return lk_chat_render(t, &params, prompt, err);
}

/* `source` over the messages gives this text. */
static void gives(const char *source, const char *messages, uint32_t flags, const char *expected) {
    lk_chat_template *t = compile(source);
    lk_chat_prompt *prompt = NULL;
    lk_error err;
    const lk_status status = render(t, messages, NULL, NULL, flags, &prompt, &err);
    CHECK_MSG(status == LK_OK, "%s: %s", messages, err.message);
    if (status == LK_OK) {
        size_t n = 0;
        const char *text = lk_chat_prompt_text(prompt, &n);
        CHECK_MSG(n == strlen(expected) && strcmp(text, expected) == 0, "%s gives\n%s, not\n%s",
                  messages, text, expected);
    }
    lk_chat_prompt_close(prompt);
    lk_chat_template_close(t);
}

/* It fails with this status, and the message has this part. */
static void fails(const char *source, const char *messages, lk_status expected, const char *part) {
    lk_chat_template *t = NULL;
    lk_chat_prompt *prompt = NULL;
    lk_error err = {.message = ""};
    lk_status status = lk_chat_template_create(source, strlen(source), NULL, &t, &err);
    if (status == LK_OK) {
        status = render(t, messages, NULL, NULL, LK_CHAT_GENERATION_PROMPT, &prompt, &err);
    }
    CHECK_MSG(status == expected && strstr(err.message, part) != NULL && prompt == NULL,
              "%s over %s: %s \"%s\"", source, messages, lk_status_name(status), err.message);
    lk_chat_prompt_close(prompt);
    lk_chat_template_close(t);
}

#define USER "[{\"role\":\"user\",\"content\":\"hi\"}]"

/* A template of each way to take contents and calls. */
static const char text_template[] =
    "{% for m in messages %}<{{ m.role }}>{{ m.content + '' }}"
    "{% for c in m.tool_calls %}({{ c.function.name }} {{ c.function.arguments|tojson }})"
    "{% endfor %}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
static const char part_template[] =
    "{% for m in messages %}<{{ m.role }}>{% for p in m.content %}{% if p.type == 'text' %}"
    "[{{ p.text }}]{% else %}[{{ p.type }}]{% endif %}{% endfor %}{% endfor %}";
static const char string_args_template[] =
    "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
    "{{ c.function.name + c.function.arguments }}{% endfor %}{% endfor %}";
static const char null_template[] =
    "{% for m in messages %}{% if m.content is none %}{% for c in m.tool_calls %}"
    "({{ c.function.name }}{{ c.function.arguments|tojson }}){% endfor %}{% else %}"
    "{{ m.content }}{% endif %}{% endfor %}";

static const char call_message[] =
    "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":null,"
    "\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\","
    "\"arguments\":\"{\\\"a\\\":1}\"}}]}]";

LK_TEST(contents) {
    gives(text_template, USER, LK_CHAT_GENERATION_PROMPT, "<user>hi<assistant>");
    gives(text_template, USER, 0, "<user>hi");
    gives(text_template,
          "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
          "{\"type\":\"text\",\"text\":\"b\"}]}]",
          0, "<user>a\nb");
    gives(part_template, USER, 0, "<user>[hi]");
    gives(part_template,
          "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
          "{\"type\":\"image\"}]}]",
          0, "<user>[a][image]");
    fails(text_template, "[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]",
          LK_E_UNSUPPORTED, "message 0: the chat template takes texts only");
    gives(text_template, "[{\"role\":\"assistant\",\"content\":null}]", 0, "<assistant>");
    gives(text_template, "[{\"role\":\"developer\",\"content\":\"x\"}]", 0, "<system>x");
    gives("{% for m in messages %}{% if m.role == 'developer' %}D{% else %}O{% endif %}"
          "{{ m.content }}{% endfor %}",
          "[{\"role\":\"developer\",\"content\":\"x\"}]", 0, "Dx");
}

LK_TEST(calls) {
    gives(text_template, call_message, 0, "<user>q<assistant>(f {\"a\": 1})");
    gives(string_args_template, call_message, 0, "qf{\"a\":1}");
    gives(null_template, call_message, 0, "q(f{\"a\": 1})");
    gives(string_args_template,
          "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":"
          "\"f\",\"arguments\":{\"a\":[1,\"\\u00e9\"]}}}]}]",
          0, "f{\"a\": [1, \"\xC3\xA9\"]}");
    fails("{% for m in messages %}{{ m.content }}{% endfor %}", call_message, LK_E_UNSUPPORTED,
          "message 1: the chat template leaves out calls of tools");
    fails(text_template,
          "[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
          "\"arguments\":\"{oops\"}}]}]",
          LK_E_FORMAT, "message 0: the arguments of a call are no JSON object");
}

LK_TEST(tools) {
    lk_chat_template *t =
        compile("{{ tools|tojson if tools else 'none' }}{{ messages[0].content }}");
    lk_chat_template *deaf = compile("{{ messages[0].content }}");
    lk_chat_prompt *prompt = NULL;
    lk_error err;
    CHECK((lk_chat_template_abilities(t, 1) & LK_CHAT_TAKES_TOOLS) != 0);
    CHECK_STATUS(LK_OK, render(t, USER, "[{\"type\":\"function\"}]", NULL, 0, &prompt, &err));
    CHECK(strcmp(lk_chat_prompt_text(prompt, NULL), "[{\"type\": \"function\"}]hi") == 0);
    lk_chat_prompt_close(prompt);
    CHECK_STATUS(LK_OK, render(t, USER, "[]", NULL, 0, &prompt, &err));
    CHECK(strcmp(lk_chat_prompt_text(prompt, NULL), "nonehi") == 0);
    lk_chat_prompt_close(prompt);
    CHECK_STATUS(LK_E_UNSUPPORTED, render(deaf, USER, "[{}]", NULL, 0, &prompt, &err));
    CHECK(prompt == NULL && strstr(err.message, "leaves out the tools") != NULL);
    CHECK_STATUS(LK_OK, render(deaf, USER, "[{}]", NULL, LK_CHAT_AS_GIVEN, &prompt, &err));
    lk_chat_prompt_close(prompt);
    lk_chat_template_close(t);
    lk_chat_template_close(deaf);
}

LK_TEST(reasoning) {
    const char *message =
        "[{\"role\":\"assistant\",\"content\":\"c\",\"reasoning_content\":\"why\"}]";
    gives("{{ messages[0].thinking }}/{{ messages[0].content }}", message, 0, "why/c");
    gives("{{ messages[0].reasoning_content }}/{{ messages[0].thinking }}", message, 0, "why/");
}

LK_TEST(variables) {
    lk_chat_template *t = compile("{% if enable_thinking is defined and not enable_thinking %}off"
                                  "{% endif %}{{ bos_token }}{{ eos_token }}"
                                  "{% if strftime_now is defined %}now{% endif %}");
    lk_chat_prompt *prompt = NULL;
    lk_error err;
    CHECK_STATUS(LK_OK, render(t, USER, NULL, "{\"enable_thinking\":false}", 0, &prompt, &err));
    CHECK(strcmp(lk_chat_prompt_text(prompt, NULL), "off<s>") == 0);
    lk_chat_prompt_close(prompt);
    CHECK_STATUS(LK_OK, render(t, USER, NULL, "{\"bos_token\":\"B\"}", 0, &prompt, &err));
    CHECK(strcmp(lk_chat_prompt_text(prompt, NULL), "B") == 0);
    lk_chat_prompt_close(prompt);
    CHECK_STATUS(LK_E_FORMAT, render(t, USER, NULL, "{\"messages\":[]}", 0, &prompt, &err));
    CHECK_STATUS(LK_E_FORMAT, render(t, USER, NULL, "[]", 0, &prompt, &err));
    lk_chat_template_close(t);
}

#define CONTINUED(content)                                                                         \
    "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"" content "\"}]"

LK_TEST(continued_content) {
    const char *plain = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>"
                        "{% endfor %}";
    const char *trims =
        "{% for m in messages %}<{{ m.role }}>{{ m.content|trim }}<end>{% endfor %}";
    gives(plain, CONTINUED("The answer "), LK_CHAT_CONTINUE_FINAL,
          "<user>q</user><assistant>The answer ");
    gives(trims, CONTINUED("The answer "), LK_CHAT_CONTINUE_FINAL,
          "<user>q<end><assistant>The answer");
    gives(plain, CONTINUED(""), LK_CHAT_CONTINUE_FINAL, "<user>q</user><assistant>");
    gives(plain, CONTINUED("continues-here-0 x"), LK_CHAT_CONTINUE_FINAL,
          "<user>q</user><assistant>continues-here-0 x");
    lk_chat_template *t = compile(plain);
    lk_chat_template *deaf = compile("{{ messages[0].content }}");
    lk_chat_prompt *prompt = NULL;
    lk_error err;
    CHECK_STATUS(LK_E_FORMAT, render(t, USER, NULL, NULL, LK_CHAT_CONTINUE_FINAL, &prompt, &err));
    CHECK_STATUS(LK_E_ARG,
                 render(t, CONTINUED("a"), NULL, NULL,
                        LK_CHAT_CONTINUE_FINAL | LK_CHAT_GENERATION_PROMPT, &prompt, &err));
    CHECK_STATUS(LK_E_TEMPLATE,
                 render(deaf, CONTINUED("a"), NULL, NULL, LK_CHAT_CONTINUE_FINAL, &prompt, &err));
    lk_chat_template_close(t);
    lk_chat_template_close(deaf);
}

/* 'd' for each byte of the messages, '.' for each of the template. */
static void origins_are(const char *source, const char *messages, const char *text,
                        const char *expected) {
    lk_chat_template *t = compile(source);
    lk_chat_prompt *prompt = NULL;
    lk_error err;
    CHECK_STATUS(LK_OK, render(t, messages, NULL, NULL, LK_CHAT_AS_GIVEN, &prompt, &err));
    if (prompt != NULL) {
        size_t n = 0;
        char got[256];
        const char *rendered = lk_chat_prompt_text(prompt, &n);
        const uint8_t *origins = lk_chat_prompt_origins(prompt);
        for (size_t i = 0; i < n && i < sizeof got - 1; i++) {
            got[i] = origins[i] != 0 ? 'd' : '.';
        }
        got[n < sizeof got - 1 ? n : sizeof got - 1] = '\0';
        CHECK_MSG(strcmp(rendered, text) == 0 && strcmp(got, expected) == 0, "%s: %s\n%s", source,
                  rendered, got);
    }
    lk_chat_prompt_close(prompt);
    lk_chat_template_close(t);
}

LK_TEST(origins) {
    const char *m = "[{\"role\":\"user\",\"content\":\" a|b \",\"n\":12,\"odd\":\"x\"}]";
    origins_are("<{{ messages[0].content }}>", m, "< a|b >", ".ddddd.");
    origins_are("{{ '<' + messages[0].content|trim + '>' }}", m, "<a|b>", ".ddd.");
    origins_are("{{ messages[0].content.strip().split('|')|join('|') }}", m, "a|b", "d.d");
    origins_are("{{ messages[0].content|replace('|', '<s>')|upper }}", m, " A<S>B ", "dd...dd");
    origins_are("{{ '[%s|%d]' % (messages[0].odd, messages[0].n) }}", m, "[x|12]", ".d....");
    origins_are("{{ '{}-{}'.format(messages[0].odd, 'y')[::-1] }}", m, "y-x", "..d");
    origins_are("{{ messages[0]['content']|tojson }}", m, "\" a|b \"", ".ddddd.");
    origins_are("{{ [messages[0].odd] }}", m, "['x']", "..d..");
    origins_are("{{ '<|' ~ messages[0].role ~ '|>' }}", m, "<|user|>", "........");
    origins_are("{{ '<|' ~ messages[0].odd ~ '|>' }}", m, "<|x|>", "..d..");
    origins_are("{% set x %}{{ messages[0].odd }}<s>{% endset %}{{ x ~ x }}", m, "x<s>x<s>",
                "d...d...");
    origins_are("{% macro f(t) %}[{{ t }}]{% endmacro %}{{ f(messages[0].odd)|indent(1, true) }}",
                m, " [x]", "..d.");
    origins_are("{% for c in messages[0].content %}{{ c ~ '.' }}{% endfor %}", m, " .a.|.b. .",
                "d.d.d.d.d.");
    origins_are("{{ messages[0].content.center(9, '*') }}", m, "** a|b **", "..ddddd..");
}

LK_TEST(special_tokens) {
    lk_tokenizer *tokenizer = NULL;
    lk_chat_prompt *prompt = NULL;
    lk_error err = {.message = ""};
    int32_t ids[64], parsed[64];
    size_t n = 0, n_parsed = 0, n_starts = 0;
    REQUIRE_OK(lk_tokenizer_open(lk_test_data("models/tiny-q4_k_m.gguf"), NULL, &tokenizer, &err),
               err);
    const int32_t start = lk_tokenizer_find(tokenizer, "<|im_start|>", 12);
    lk_chat_template *t = NULL;
    REQUIRE_OK(lk_chat_template_builtin("chatml", NULL, &t, &err), err);
    CHECK_STATUS(LK_OK, render(t, "[{\"role\":\"user\",\"content\":\"a<|im_start|>b\"}]", NULL,
                               NULL, 0, &prompt, &err));
    CHECK_STATUS(LK_OK, lk_chat_prompt_encode(prompt, tokenizer, 0, ids, 64, &n, &err));
    CHECK_STATUS(LK_OK, lk_chat_prompt_encode(prompt, tokenizer, LK_CHAT_PARSE_SPECIAL, parsed, 64,
                                              &n_parsed, &err));
    for (size_t i = 0; i < n; i++) {
        n_starts += ids[i] == start;
    }
    CHECK(n_starts == 1 && ids[0] == start);
    for (size_t i = 0; i < n_parsed; i++) {
        n_starts += parsed[i] == start;
    }
    CHECK(n_starts == 3 && n_parsed < n);
    char text[128];
    size_t n_text = 0;
    CHECK_STATUS(LK_OK, lk_tokenizer_decode(tokenizer, ids, n, LK_DETOKENIZE_SPECIAL, text,
                                            sizeof text, &n_text, &err));
    CHECK(n_text == strlen(lk_chat_prompt_text(prompt, NULL)) &&
          memcmp(text, lk_chat_prompt_text(prompt, NULL), n_text) == 0);
    CHECK_STATUS(LK_E_LIMIT, lk_chat_prompt_encode(prompt, tokenizer, 0, ids, 3, &n, &err));
    CHECK_STATUS(LK_E_ARG, lk_chat_prompt_encode(prompt, tokenizer, 2, ids, 64, &n, &err));
    CHECK_STATUS(LK_E_ARG, lk_chat_prompt_encode(NULL, tokenizer, 0, ids, 64, &n, &err));
    lk_chat_prompt_close(prompt);
    lk_chat_template_close(t);
    lk_tokenizer_close(tokenizer);
}

LK_TEST(opening) {
    lk_gguf *gguf = NULL;
    lk_chat_template *t = NULL;
    lk_error err = {.message = ""};
    size_t n = 0;
    REQUIRE_OK(lk_gguf_open(lk_test_data("models/tiny-q4_k_m.gguf"), NULL, &gguf, &err), err);
    CHECK_STATUS(LK_OK, lk_chat_template_open(gguf, NULL, NULL, &t, &err));
    CHECK(strstr(lk_chat_template_source(t, 0, &n), "<|im_start|>") != NULL && n > 1000);
    CHECK((lk_chat_template_abilities(t, 0) & LK_CHAT_TAKES_TOOL_CALLS) != 0);
    lk_chat_template_close(t);
    CHECK_STATUS(LK_E_NOT_FOUND, lk_chat_template_open(gguf, "rag", NULL, &t, &err));
    CHECK(t == NULL && strstr(err.message, "tokenizer.chat_template.rag") != NULL);
    lk_gguf_close(gguf);
    REQUIRE_OK(lk_gguf_open(lk_test_data("tokenizers/tok512.vocab.gguf"), NULL, &gguf, &err), err);
    CHECK_STATUS(LK_E_NOT_FOUND, lk_chat_template_open(gguf, NULL, NULL, &t, &err));
    lk_gguf_close(gguf);
    CHECK_STATUS(LK_E_NOT_FOUND, lk_chat_template_builtin("llama9", NULL, &t, &err));
    CHECK_STATUS(LK_E_ARG, lk_chat_template_create(NULL, 0, NULL, &t, &err));
    CHECK_STATUS(LK_E_ARG, lk_chat_template_open(NULL, NULL, NULL, &t, &err));
    lk_chat_template_close(NULL);
    lk_chat_prompt_close(NULL);
}

LK_TEST(errors_name_the_line) {
    fails("a\nb\n{{ messages[0].content + 1 }}", USER, LK_E_TEMPLATE,
          "line 3: a text and a value of type 'int' cannot be joined with +");
    fails("{% if true %}\n{{ nothing.at }}{% endif %}", USER, LK_E_TEMPLATE,
          "line 2: 'nothing' is undefined");
    fails("{{ messages[0].x.y }}", USER, LK_E_TEMPLATE, "'dict object' has no attribute 'x'");
    fails("{{ raise_exception('Only system\nhere: ' ~ messages[0].role) }}", USER, LK_E_REFUSED,
          "Only system?here: user");
    fails("\n\n{% for %}", USER, LK_E_FORMAT, "line 3: ");
    fails("{% if x %}\n\n", USER, LK_E_FORMAT, "line 2: the template ends where 'elif'");
    fails("{{ 'a\n\n", USER, LK_E_FORMAT, "the string does not end");
    fails("{% include 'x' %}", USER, LK_E_UNSUPPORTED, "'include' is not supported");
    fails("{{ 1|frobnicate }}", USER, LK_E_UNSUPPORTED, "there is no filter named 'frobnicate'");
    fails("\xFF", USER, LK_E_FORMAT, "UTF-8");
}

LK_TEST(messages_are_checked) {
    fails(text_template, "[]", LK_E_FORMAT, "there are no messages");
    fails(text_template, "{}", LK_E_FORMAT, "the messages must be an array");
    fails(text_template, "[{\"role\":\"user\"", LK_E_FORMAT, "the messages: JSON");
    fails(text_template, "[1]", LK_E_FORMAT, "message 0: it is no object");
    fails(text_template, "[{\"content\":\"x\"}]", LK_E_FORMAT, "message 0: the role is missing");
    fails(text_template, "[{\"role\":\"user\"}]", LK_E_FORMAT, "the content is missing");
    fails(text_template, "[{\"role\":\"user\",\"content\":5}]", LK_E_FORMAT, "list of parts");
    fails(part_template, "[{\"role\":\"user\",\"content\":[{\"text\":\"x\"}]}]", LK_E_FORMAT,
          "a part of the content has no type");
    lk_chat_template *t = compile(text_template);
    lk_chat_prompt *prompt = NULL;
    lk_chat_params params = LK_CHAT_PARAMS_INIT;
    lk_error err;
    CHECK_STATUS(LK_E_ARG, lk_chat_render(t, &params, &prompt, &err));
    params.messages = USER;
    params.n_messages = strlen(USER);
    params.struct_size--;
    CHECK_STATUS(LK_E_ARG, lk_chat_render(t, &params, &prompt, &err));
    params.struct_size++;
    params.flags = 64;
    CHECK_STATUS(LK_E_ARG, lk_chat_render(t, &params, &prompt, &err));
    CHECK_STATUS(LK_E_ARG, lk_chat_render(NULL, &params, &prompt, &err));
    lk_chat_template_close(t);
}

/* Templates that would run for ever, or fill the memory, end with LK_E_LIMIT. */
LK_TEST(runaways_are_stopped) {
    static const char *const sources[] = {
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}"
        "{% endfor %}",
        "{{ 'x' * 9000000000 }}",
        "{{ 'x'|center(9000000000) }}",
        "{{ [[[1]]] * 2000000000 }}",
        "{% set ns = namespace(l=[]) %}{% for i in range(999) %}{% set ns.l = [ns.l] %}{% endfor %}"
        "{{ ns.l }}",
        "{% set ns = namespace(l=[1]) %}{% for i in range(50) %}{% set ns.l = [ns.l, ns.l] %}"
        "{% endfor %}{{ ns.l|tojson }}",
        "{% set l = [1] %}{% for i in range(60) %}{% set _ = l.extend(l) %}{% endfor %}",
        "{{ range(1000000) }}",
    };
    const size_t n = sizeof sources / sizeof sources[0];
    for (size_t i = lk_test_size(n - 4, 0, 0); i < n; i++) {
        fails(sources[i], USER, LK_E_LIMIT, "line 1");
    }
    char deep[4096];
    memset(deep, '(', sizeof deep);
    memcpy(deep, "{{", 2);
    deep[sizeof deep - 1] = '\0';
    fails(deep, USER, LK_E_LIMIT, "levels of nesting");
    for (size_t i = 2; i + 5 < sizeof deep; i += 4) {
        memcpy(deep + i, "not ", 4);
    }
    fails(deep, USER, LK_E_LIMIT, "levels of nesting");
}

/* Collecting a text piece by piece costs its length, not the square of it. */
LK_TEST(long_texts_are_collected) {
    lk_chat_template *t =
        compile("{% set ns = namespace(s='') %}{% for i in range(50000) %}"
                "{% set ns.s = ns.s + 'abcdefghij' + messages[0].content %}{% endfor %}"
                "{{ ns.s|length }}");
    lk_chat_prompt *prompt = NULL;
    lk_error err;
    CHECK_STATUS(LK_OK, render(t, USER, NULL, NULL, 0, &prompt, &err));
    CHECK(prompt != NULL && strcmp(lk_chat_prompt_text(prompt, NULL), "600000") == 0);
    lk_chat_prompt_close(prompt);
    lk_chat_template_close(t);
}

LK_TEST_MAIN(LK_RUN(contents), LK_RUN(calls), LK_RUN(tools), LK_RUN(reasoning), LK_RUN(variables),
             LK_RUN(continued_content), LK_RUN(origins), LK_RUN(special_tokens), LK_RUN(opening),
             LK_RUN(errors_name_the_line), LK_RUN(messages_are_checked),
             LK_RUN(runaways_are_stopped), LK_RUN(long_texts_are_collected))
