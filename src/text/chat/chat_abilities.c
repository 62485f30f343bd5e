/* chat_abilities.c - what a chat template takes: small conversations are rendered, and what shows
 * in the prompt is looked at. A conversation that the template refuses is no failure: it does not
 * take it. */
#include <string.h>

#include "base/error.h"
#include "text/chat/chat_template.h"
#include "text/jinja/jinja_text.h"

#define USER_TURN "{\"role\": \"user\", \"content\": \"lkprobe-user\"}"
#define ARGUMENTS "{\"lkprobe-key\": \"lkprobe-value\"}"
#define CALL_TURN(content, arguments)                                                              \
    "{\"role\": \"assistant\", \"content\": " content                                              \
    ", \"tool_calls\": [{\"id\": \"call00001\", \"type\": \"function\", \"function\": {\"name\": " \
    "\"lkprobe-function\", \"arguments\": " arguments "}}]}"
#define RESULT_TURN                                                                                \
    "{\"role\": \"tool\", \"tool_call_id\": \"call00001\", \"name\": \"lkprobe-function\", "       \
    "\"content\": \"lkprobe-result\"}"
#define TOOLS                                                                                      \
    "[{\"type\": \"function\", \"function\": {\"name\": \"lkprobe-function\", \"description\": "   \
    "\"d\", \"parameters\": {\"type\": \"object\", \"properties\": {\"lkprobe-key\": {\"type\": "  \
    "\"string\", \"description\": \"d\"}}, \"required\": [\"lkprobe-key\"]}}}]"

#define CALL(content, arguments)                                                                   \
    "[" USER_TURN ", " CALL_TURN(content, arguments) ", " RESULT_TURN "]"
#define STRING_ARGUMENTS "\"{\\\"lkprobe-key\\\": \\\"lkprobe-value\\\"}\""

/* A conversation; `shows` must be in the prompt and `not_shown` (NULL: nothing) must not: a list or
 * dict that is printed instead of read shows Python's quotes. What does not show without tools is
 * tried with them: some templates are for requests with tools alone. */
typedef struct probe {
    const char *messages;
    const char *shows;
    const char *not_shown[2];
    uint32_t abilities;
    bool only_with_tools;
} probe;

static const probe probes[] = {
    {"[" USER_TURN "]", "lkprobe-user", {NULL, NULL}, LK_CHAT_TAKES_STRING_CONTENT, false},
    {"[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"lkprobe-user\"}]}]",
     "lkprobe-user",
     {"lkprobe-user'", "lkprobe-user\""},
     LK_CHAT_TAKES_PART_CONTENT,
     false},
    {"[{\"role\": \"system\", \"content\": \"lkprobe-system\"}, " USER_TURN "]",
     "lkprobe-system",
     {NULL, NULL},
     LK_CHAT_TAKES_SYSTEM,
     false},
    {"[" USER_TURN "]", "lkprobe-function", {NULL, NULL}, LK_CHAT_TAKES_TOOLS, true},
    {CALL("\"lkprobe-text\"", ARGUMENTS),
     "lkprobe-value",
     {"'lkprobe-key'", NULL},
     LK_CHAT_TAKES_TOOL_CALLS | LK_CHAT_TAKES_TEXT_WITH_CALLS | LK_CHAT_TAKES_OBJECT_ARGUMENTS,
     false},
    {CALL("\"lkprobe-text\"", STRING_ARGUMENTS),
     ARGUMENTS,
     {NULL, NULL},
     LK_CHAT_TAKES_TOOL_CALLS | LK_CHAT_TAKES_TEXT_WITH_CALLS | LK_CHAT_TAKES_STRING_ARGUMENTS,
     false},
    {CALL("null", ARGUMENTS),
     "lkprobe-value",
     {"'lkprobe-key'", "None"},
     LK_CHAT_TAKES_TOOL_CALLS | LK_CHAT_TAKES_NULL_CONTENT | LK_CHAT_TAKES_OBJECT_ARGUMENTS,
     false},
    {CALL("null", STRING_ARGUMENTS),
     ARGUMENTS,
     {"None", NULL},
     LK_CHAT_TAKES_TOOL_CALLS | LK_CHAT_TAKES_NULL_CONTENT | LK_CHAT_TAKES_STRING_ARGUMENTS,
     false},
};

static bool has_text(lk_jvm *vm, const lk_jstring *s, const char *text) {
    const lk_jstring part = {.bytes = (const uint8_t *)text, .n = strlen(text)};
    return lk_jstring_find(&vm->heap, s, 0, s->n, &part) != SIZE_MAX;
}

/* Renders a probe. LK_E_NOMEM is the only status but LK_OK. */
static lk_status try_probe(const lk_chat_program *p, const probe *q, bool with_tools,
                           const lk_allocator *a, bool *takes, lk_error *err) {
    lk_jvm vm;
    lk_jvalue messages = lk_jnone(), tools = lk_jnone();
    const lk_jstring *out = NULL;
    lk_error ignored;
    lk_status status = lk_jvm_init(&vm, p->program, a, &ignored);
    *takes = false;
    vm.heap.max_steps = (uint64_t)1 << 18; /* some of these run before anyone asks */
    vm.heap.max_bytes = (size_t)16 << 20;
    if (status == LK_OK) {
        status = lk_jjson_read(&vm.heap, q->messages, strlen(q->messages), LK_J_DATA, "probe",
                               &messages, &ignored);
    }
    if (status == LK_OK && with_tools) {
        status =
            lk_jjson_read(&vm.heap, TOOLS, strlen(TOOLS), LK_J_DATA, "probe", &tools, &ignored);
    }
    const lk_jstring *token = lk_jstring_text(&vm.heap, "");
    if (status == LK_OK && token != NULL && lk_jvm_set(&vm, "messages", messages) &&
        lk_jvm_set(&vm, "tools", tools) && lk_jvm_set(&vm, "bos_token", lk_jstr(token)) &&
        lk_jvm_set(&vm, "eos_token", lk_jstr(token)) &&
        lk_jvm_set(&vm, "add_generation_prompt", lk_jbool(true))) {
        status = lk_jvm_run(&vm, &out);
    }
    if (status == LK_OK && out != NULL) {
        *takes = has_text(&vm, out, q->shows);
        for (size_t i = 0; i < 2 && q->not_shown[i] != NULL; i++) {
            *takes = *takes && !has_text(&vm, out, q->not_shown[i]);
        }
    }
    const bool is_nomem = status == LK_E_NOMEM || vm.heap.failure == LK_E_NOMEM;
    const size_t used = vm.heap.used;
    lk_jvm_deinit(&vm);
    return is_nomem ? lk_fail_nomem(err, "the chat template", used) : LK_OK;
}

lk_status lk_chat_find_abilities(lk_chat_program *p, const lk_allocator *allocator, lk_error *err) {
    p->abilities = 0;
    for (size_t i = 0; i < sizeof probes / sizeof probes[0]; i++) {
        bool takes = false;
        lk_status status = LK_OK;
        if (!probes[i].only_with_tools) {
            status = try_probe(p, &probes[i], false, allocator, &takes, err);
        }
        if (status == LK_OK && !takes) {
            status = try_probe(p, &probes[i], true, allocator, &takes, err);
        }
        if (status != LK_OK) {
            return status;
        }
        p->abilities |= takes ? probes[i].abilities : 0;
    }
    return LK_OK;
}
