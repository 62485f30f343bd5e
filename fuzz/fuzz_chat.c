/* fuzz_chat.c - chat templates and messages, any of both. An input is a template, and after the
 * first zero byte the messages (JSON) and after a second one the variables; missing ones are what
 * the target knows. Invariants: a status with a message, or a prompt of well-formed UTF-8 whose
 * every byte has an origin; the same again when rendered again; memory and work within the limits,
 * all given back. */
#include "fuzz.h"

#include <string.h>

#include "lk/chat.h"
#include "text/unicode/normalize.h"

static const char known_messages[] =
    "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"Hi \\u00e9 <|x|>\"},"
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\","
    "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":[1,2.5,true,null]}\"}}]},{\"role\":"
    "\"tool\",\"tool_call_id\":\"c1\",\"name\":\"f\",\"content\":\"r\"}]";
static const char known_tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"a\":{\"type\":\"array\"}}}}}]";

/* Up to the next zero byte. */
static const char *part(const uint8_t **data, size_t *size, size_t *n) {
    const char *at = (const char *)*data;
    const uint8_t *end = *size != 0 ? memchr(*data, 0, *size) : NULL;
    *n = end != NULL ? (size_t)(end - *data) : *size;
    const size_t used = *n + (end != NULL);
    *data += used;
    *size -= used;
    return at;
}

static void check_prompt(const lk_chat_prompt *prompt) {
    size_t n = 0;
    const char *text = lk_chat_prompt_text(prompt, &n);
    const uint8_t *origins = lk_chat_prompt_origins(prompt);
    fuzz_check(lk_utf8_is_valid((const uint8_t *)text, n) && text[n] == '\0');
    for (size_t i = 0; i < n; i++) {
        fuzz_check(origins[i] <= 1);
    }
}

static void try_render(const lk_chat_template *t, const lk_chat_params *params) {
    lk_chat_prompt *first = NULL, *second = NULL;
    lk_error err = {.message = ""}, again = {.message = ""};
    const lk_status status = lk_chat_render(t, params, &first, &err);
    fuzz_check((status == LK_OK) == (first != NULL));
    fuzz_check(status == LK_OK || err.status == status);
    fuzz_check(status != LK_E_INTERNAL);
    fuzz_check(lk_chat_render(t, params, &second, &again) == status);
    if (status == LK_OK) {
        size_t n = 0, n_again = 0;
        check_prompt(first);
        const char *text = lk_chat_prompt_text(first, &n);
        const char *text_again = lk_chat_prompt_text(second, &n_again);
        fuzz_check(n == n_again && memcmp(text, text_again, n) == 0);
    }
    lk_chat_prompt_close(first);
    lk_chat_prompt_close(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_memory c;
    fuzz_memory_init(&c);
    lk_chat_params params = LK_CHAT_PARAMS_INIT;
    lk_chat_template *t = NULL;
    lk_error err = {.message = ""};
    size_t n = 0;
    const char *source = part(&data, &size, &n);
    const lk_status status = lk_chat_template_create(source, n, &c.base, &t, &err);
    fuzz_check((status == LK_OK) == (t != NULL));
    fuzz_check(status == LK_OK || (err.status == status && err.message[0] != '\0'));
    fuzz_check(status == LK_OK || status == LK_E_FORMAT || status == LK_E_UNSUPPORTED ||
               status == LK_E_LIMIT);
    params.allocator = &c.base;
    params.bos_token = "<s>";
    params.n_bos_token = 3;
    params.local_time_s = 1721995200;
    params.messages = part(&data, &size, &params.n_messages);
    if (params.n_messages == 0) {
        params.messages = known_messages;
        params.n_messages = sizeof known_messages - 1;
    }
    params.variables = part(&data, &size, &params.n_variables);
    params.variables = params.n_variables != 0 ? params.variables : NULL;
    if (status == LK_OK) {
        try_render(t, &params);
        params.tools = known_tools;
        params.n_tools = sizeof known_tools - 1;
        params.flags = LK_CHAT_AS_GIVEN;
        try_render(t, &params);
        params.flags = LK_CHAT_CONTINUE_FINAL;
        try_render(t, &params);
    }
    lk_chat_template_close(t);
    fuzz_check(c.live == 0);
    fuzz_check(c.peak <= ((size_t)1 << 30));
    return 0;
}
