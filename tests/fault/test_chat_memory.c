/* test_chat_memory.c - chat templates and answers when memory runs out: whichever allocation fails,
 * there is a status and nothing is left behind. */
#include "lk/chat.h"
#include "lk/chat_parser.h"
#include "lk_test.h"

static const char source[] =
    "{%- macro show(m) -%}<|{{ m.role }}|>{{ m.content|trim|replace('a', 'b') }}{%- endmacro -%}"
    "{% set ns = namespace(text='', n=0) %}{% for m in messages if m.role != 'x' %}"
    "{% set ns.text = ns.text ~ show(m) ~ loop.index %}{% endfor %}{{ ns.text }}"
    "{{ tools|tojson(indent=2) if tools }}{{ {'k': [1, 2.5, none]}|items|list }}"
    "{{ messages|map(attribute='role')|unique|sort|join(',') }}{{ '%s|%d' % ('a', 5) }}"
    "{% for m in messages %}{{ m.content.split(' ')|length }}{{ (m.tool_calls or [])|tojson }}{% "
    "endfor %}";

static const char messages[] =
    "[{\"role\":\"user\",\"content\":\"a quick brown fox\"},{\"role\":\"assistant\",\"content\":"
    "\"\\u00e9 done\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":"
    "[1,2,{\\\"b\\\":null}]}\"}}]}]";
static const char tools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]";

/* Takes an answer apart, in the syntax given or that of the template. */
static lk_status parse(const lk_chat_template *t, const char *syntax, lk_test_allocator *a) {
    static const char answer[] = "Well.\n<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"f\"}"
                                 "</tool_call><tool_call>{\"b\": 2}</tool_call>";
    lk_chat_parser_params params = LK_CHAT_PARSER_PARAMS_INIT;
    lk_chat_parser *p = NULL;
    lk_error err = {.message = ""};
    params.allocator = &a->base;
    params.syntax = syntax;
    lk_status status = lk_chat_parser_create(t, &params, &p, &err);
    CHECK((status == LK_OK) == (p != NULL));
    if (status == LK_OK) {
        status = lk_chat_parser_push(p, answer, sizeof answer - 1, &err);
    }
    if (status == LK_OK) {
        status = lk_chat_parser_finish(p, &err);
    }
    CHECK(status == LK_OK || err.message[0] != '\0');
    lk_chat_parser_destroy(p);
    return status;
}

static lk_status once(lk_test_allocator *a) {
    lk_chat_template *t = NULL;
    lk_chat_prompt *prompt = NULL;
    lk_error err = {.message = ""};
    lk_status status = lk_chat_template_create(source, sizeof source - 1, &a->base, &t, &err);
    CHECK((status == LK_OK) == (t != NULL));
    if (status == LK_OK) {
        lk_chat_params params = LK_CHAT_PARAMS_INIT;
        params.allocator = &a->base;
        params.messages = messages;
        params.n_messages = sizeof messages - 1;
        params.tools = tools;
        params.n_tools = sizeof tools - 1;
        params.flags = LK_CHAT_CONTINUE_FINAL;
        status = lk_chat_render(t, &params, &prompt, &err);
        CHECK((status == LK_OK) == (prompt != NULL));
    }
    CHECK(status == LK_OK || err.message[0] != '\0');
    if (status == LK_OK) {
        status = parse(t, "hermes", a);
    }
    if (status == LK_OK) {
        status = parse(t, NULL, a);
    }
    lk_chat_prompt_close(prompt);
    lk_chat_template_close(t);
    CHECK(a->n_live == 0);
    return status;
}

LK_TEST(every_allocation) {
    lk_test_allocator a;
    for (int persistent = 0; persistent < 2; persistent++) {
        lk_test_allocator_init(&a);
        CHECK_STATUS(LK_OK, once(&a));
        const uint64_t n = a.n_calls;
        CHECK(n > 20);
        for (uint64_t i = 1; i <= n; i++) {
            lk_test_allocator_init(&a);
            a.fail_at = i;
            a.persistent = persistent;
            CHECK_STATUS(LK_E_NOMEM, once(&a));
        }
    }
}

LK_TEST_MAIN(LK_RUN(every_allocation))
