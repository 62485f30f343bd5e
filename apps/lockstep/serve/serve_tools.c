/* serve_tools.c - see serve_tools.h. Names and schemas of tools are judged where they become a
 * grammar. */
#include "serve_tools.h"

#include <string.h>

#include "lk/grammar.h"

static bool is_absent(const json_t *value) {
    return value == NULL || json_is_null(value);
}

/* Other endpoints know no calls. */
static bool refuse(const json_t *root, serve_problem *problem) {
    static const char *const names[] = {"tools", "tool_choice"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const json_t *value = json_object_get(root, names[i]);
        const char *text = json_string_value(value);
        const bool is_harmless =
            is_absent(value) || (json_is_array(value) && json_array_size(value) == 0) ||
            (text != NULL && (strcmp(text, "none") == 0 || strcmp(text, "auto") == 0));
        if (!is_harmless) {
            return serve_fail(problem, 400, "unsupported_parameter", names[i],
                              "'%s' is only supported by /v1/chat/completions", names[i]);
        }
    }
    return true;
}

static bool decode_choice(const json_t *root, serve_settings *s, serve_problem *problem) {
    const json_t *choice = json_object_get(root, "tool_choice");
    const char *text = json_string_value(choice);
    const json_t *function = json_object_get(choice, "function");
    const json_t *name = json_object_get(json_is_object(function) ? function : NULL, "name");
    s->tool_choice = SERVE_CALLS_AUTO;
    if (is_absent(choice) || (text != NULL && strcmp(text, "auto") == 0)) {
        return true;
    }
    if (text != NULL && strcmp(text, "none") == 0) {
        s->tool_choice = SERVE_CALLS_NONE;
        return true;
    }
    if ((text == NULL || strcmp(text, "required") != 0) && !json_is_string(name)) {
        return serve_fail(problem, 400, "invalid_value", "tool_choice",
                          "'tool_choice' must be \"none\", \"auto\", \"required\" or "
                          "{\"type\": \"function\", \"function\": {\"name\": ...}}");
    }
    s->tool_choice = SERVE_CALLS_FORCED;
    if (s->tools == NULL) {
        return serve_fail(problem, 400, "invalid_value", "tool_choice",
                          "'tool_choice' asks for a call, but there are no 'tools'");
    }
    return true;
}

bool serve_decode_tools(const json_t *root, serve_settings *s, serve_problem *problem) {
    const json_t *tools = json_object_get(root, "tools");
    if (s->kind != SERVE_CHAT) {
        return refuse(root, problem);
    }
    if (!is_absent(tools) && !json_is_array(tools)) {
        return serve_fail(problem, 400, "invalid_type", "tools", "'tools' must be an array, not %s",
                          field_kind(tools));
    }
    if (json_array_size(tools) > LK_GRAMMAR_MAX_TOOLS) {
        return serve_fail(problem, 400, "out_of_range", "tools",
                          "'tools' has %zu entries, at most %d", json_array_size(tools),
                          LK_GRAMMAR_MAX_TOOLS);
    }
    s->tools = json_array_size(tools) > 0 ? tools : NULL;
    s->parallel_calls = true;
    if (!decode_choice(root, s, problem) ||
        !field_bool(root, "parallel_tool_calls", &s->parallel_calls, problem)) {
        return false;
    }
    if (s->tools == NULL || s->tool_choice == SERVE_CALLS_NONE) {
        s->tools = NULL;
        return true;
    }
    if (s->grammar == SERVE_GBNF && s->tool_choice == SERVE_CALLS_FORCED) {
        return serve_fail(problem, 400, "invalid_value", "tool_choice",
                          "'tool_choice' asks for a call, which 'grammar' may exclude");
    }
    if (s->ignore_eos) {
        return serve_fail(problem, 400, "invalid_value", "ignore_eos",
                          "'ignore_eos' excludes 'tools', whose calls have an end");
    }
    return true;
}
