/* call_rules.c - see call_rules.h. Members that are not known are an error: a rule that is
 * overlooked would not be enforced. */
#include "grammar/call_rules.h"

#include <string.h>

#include "base/error.h"
#include "grammar/free_text.h"
#include "lk/grammar.h"

enum { MAX_DEPTH = 160, MAX_NAME = 128 };

static lk_status fail(lk_error *err, const char *member, const char *what) {
    return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT(member), "'%s' %s", member, what);
}

/* ---- tools ---- */

/* Names stand in marks of several syntaxes, so they hold nothing that could end one. */
static bool is_name(const char *name, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_' || c == '-' || c == '.' || c == '/')) {
            return false;
        }
    }
    return n > 0 && n <= MAX_NAME;
}

static lk_status fail_tool(lk_error *err, uint32_t index, const char *what) {
    return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT("tools"), "tools[%u]%s", index, what);
}

static lk_status read_tool(const lk_json *j, uint32_t value, uint32_t index, lk_tool *tool,
                           lk_error *err) {
    const uint32_t type = lk_json_find(j, value, "type");
    const uint32_t function = lk_json_find(j, value, "function");
    const uint32_t name = lk_json_find(j, function, "name");
    const uint32_t strict = lk_json_find(j, function, "strict");
    *tool = (lk_tool){.parameters = lk_json_find(j, function, "parameters"), .index = index};
    if (type != 0 && !lk_json_text_is(j, type, "function")) {
        return fail_tool(err, index, ".type must be \"function\"");
    }
    if (function == 0 || j->values[function].type != LK_JSON_OBJECT) {
        return fail_tool(err, index, ".function must be an object");
    }
    if (name != 0 && j->values[name].type == LK_JSON_STRING) {
        tool->name = lk_json_text(j, name, &tool->n_name);
    }
    if (!is_name(tool->name, tool->n_name)) {
        return fail_tool(err, index,
                         ".function.name must be 1 .. 128 letters, digits and '_', '-', '.', '/'");
    }
    if (strict != 0 && j->values[strict].type != LK_JSON_TRUE &&
        j->values[strict].type != LK_JSON_FALSE && j->values[strict].type != LK_JSON_NULL) {
        return fail_tool(err, index, ".function.strict must be a boolean");
    }
    tool->is_strict = strict != 0 && j->values[strict].type == LK_JSON_TRUE;
    if (tool->parameters != 0 && j->values[tool->parameters].type == LK_JSON_NULL) {
        tool->parameters = 0;
    }
    if (tool->parameters == 0) {
        return LK_OK;
    }
    const uint32_t kind = lk_json_find(j, tool->parameters, "type");
    if (j->values[tool->parameters].type != LK_JSON_OBJECT ||
        (kind != 0 && !lk_json_text_is(j, kind, "object"))) {
        return fail_tool(err, index,
                         ".function.parameters must be a schema of the type \"object\"");
    }
    return LK_OK;
}

static lk_status read_tools(lk_call_rules *r, const lk_allocator *a, lk_error *err) {
    const lk_json *j = &r->json;
    const uint32_t list = lk_json_find(j, 0, "tools");
    if (list == 0 || j->values[list].type != LK_JSON_ARRAY || j->values[list].n == 0) {
        return fail(err, "tools", "must be an array that is not empty");
    }
    if (j->values[list].n > LK_GRAMMAR_MAX_TOOLS) {
        return lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT("tools"),
                       "'tools' has %u entries, at most %d", j->values[list].n,
                       LK_GRAMMAR_MAX_TOOLS);
    }
    r->tools = lk_alloc_array(a, j->values[list].n, sizeof r->tools[0]);
    if (r->tools == NULL) {
        return lk_fail_nomem(err, "tools", j->values[list].n * sizeof r->tools[0]);
    }
    r->tools_capacity = j->values[list].n;
    for (uint32_t v = j->values[list].first; v != 0; v = j->values[v].next) {
        lk_tool *tool = &r->tools[r->n_tools];
        const lk_status status = read_tool(j, v, (uint32_t)r->n_tools, tool, err);
        if (status != LK_OK) {
            return status;
        }
        for (size_t i = 0; i < r->n_tools; i++) {
            if (r->tools[i].n_name == tool->n_name &&
                memcmp(r->tools[i].name, tool->name, tool->n_name) == 0) {
                return fail_tool(err, tool->index, ".function.name is that of an earlier tool");
            }
        }
        r->n_tools++;
    }
    return LK_OK;
}

/* ---- the choice ---- */

static lk_status name_tool(lk_call_rules *r, uint32_t name, lk_error *err) {
    size_t n = 0;
    const char *text = lk_json_text(&r->json, name, &n);
    for (size_t i = 0; i < r->n_tools; i++) {
        if (r->tools[i].n_name == n && memcmp(r->tools[i].name, text, n) == 0) {
            r->tools[0] = r->tools[i];
            r->n_tools = 1;
            r->is_parallel = false;
            return LK_OK;
        }
    }
    return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT("tool_choice"),
                   "'tool_choice' names '%.*s', which is none of the tools", n < 64 ? (int)n : 64,
                   text);
}

static lk_status read_choice(lk_call_rules *r, lk_error *err) {
    const lk_json *j = &r->json;
    const uint32_t choice = lk_json_find(j, 0, "tool_choice");
    const uint32_t name = lk_json_find(j, lk_json_find(j, choice, "function"), "name");
    if (choice == 0 || j->values[choice].type == LK_JSON_NULL ||
        lk_json_text_is(j, choice, "auto")) {
        return LK_OK;
    }
    r->is_forced = true;
    if (lk_json_text_is(j, choice, "required")) {
        return LK_OK;
    }
    if (lk_json_find(j, choice, "function") != 0 && name != 0 &&
        j->values[name].type == LK_JSON_STRING) {
        return name_tool(r, name, err);
    }
    return fail(err, "tool_choice",
                "must be \"auto\", \"required\" or {\"type\": \"function\", \"function\": "
                "{\"name\": ...}}");
}

/* ---- the answer ---- */

static lk_status read_syntax(lk_call_rules *r, lk_error *err) {
    const uint32_t name = lk_json_find(&r->json, 0, "syntax");
    for (size_t i = 0; name != 0 && lk_call_syntax_at(i) != NULL; i++) {
        if (lk_json_text_is(&r->json, name, lk_call_syntax_at(i)->name)) {
            r->syntax = lk_call_syntax_at(i);
            return LK_OK;
        }
    }
    return fail(err, "syntax", "must be the name of a call syntax");
}

static bool is_mark(const lk_json *j, uint32_t value) {
    return value != 0 && j->values[value].type == LK_JSON_STRING && j->values[value].n_text > 0 &&
           j->values[value].n_text <= LK_FREE_MAX_MARK;
}

static lk_status read_reasoning(lk_call_rules *r, lk_error *err) {
    const lk_json *j = &r->json;
    const uint32_t marks = lk_json_find(j, 0, "reasoning");
    size_t n = 0;
    if (marks == 0 || j->values[marks].type == LK_JSON_NULL) {
        return LK_OK;
    }
    const uint32_t open = j->values[marks].type == LK_JSON_ARRAY ? j->values[marks].first : 0;
    const uint32_t close = open != 0 ? j->values[open].next : 0;
    if (!is_mark(j, open) || !is_mark(j, close) || j->values[close].next != 0) {
        return fail(err, "reasoning", "must be a list of two texts of 1 .. 64 bytes");
    }
    r->reasoning_open = lk_json_text(j, open, &n);
    r->reasoning_close = lk_json_text(j, close, &n);
    return LK_OK;
}

static lk_status read_place(lk_call_rules *r, lk_error *err) {
    static const char *const names[] = {"text", "reasoning", "calls", "header"};
    const uint32_t begins = lk_json_find(&r->json, 0, "begins");
    const uint32_t parallel = lk_json_find(&r->json, 0, "parallel_tool_calls");
    if (parallel != 0 && r->json.values[parallel].type != LK_JSON_TRUE &&
        r->json.values[parallel].type != LK_JSON_FALSE) {
        return fail(err, "parallel_tool_calls", "must be a boolean");
    }
    r->is_parallel = parallel == 0 || r->json.values[parallel].type == LK_JSON_TRUE;
    const bool has_messages = r->syntax->form == LK_CALL_FORM_MESSAGES;
    if (begins == 0 && has_messages) {
        r->place = LK_CHAT_IN_HEADER;
        return LK_OK;
    }
    for (int i = 0; i < 3 + has_messages; i++) {
        if (begins == 0 || lk_json_text_is(&r->json, begins, names[i])) {
            r->place = (lk_chat_place)i;
            return r->place == LK_CHAT_IN_REASONING && r->reasoning_close == NULL && !has_messages
                       ? fail(err, "begins", "is \"reasoning\" without marks of reasoning")
                       : LK_OK;
        }
    }
    return fail(err, "begins",
                has_messages ? "must be \"header\", \"text\", \"reasoning\" or \"calls\""
                             : "must be \"text\", \"reasoning\" or \"calls\"");
}

static lk_status check_members(const lk_json *j, lk_error *err) {
    static const char *const known[] = {"syntax", "reasoning",           "begins", "tool_choice",
                                        "tools",  "parallel_tool_calls", "content"};
    if (j->values[0].type != LK_JSON_OBJECT) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT("tool calls"),
                       "the rules of tool calls are an object, found a value that is %s",
                       lk_json_type_name(j->values[0].type));
    }
    for (uint32_t v = j->values[0].first; v != 0; v = j->values[v].next) {
        size_t n = 0;
        const char *key = lk_json_key(j, v, &n);
        bool is_known = false;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
            is_known = is_known || (strlen(known[i]) == n && memcmp(known[i], key, n) == 0);
        }
        if (!is_known) {
            return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT("tool calls"),
                           "the rules of tool calls have no member '%.*s'", n < 40 ? (int)n : 40,
                           key);
        }
    }
    return LK_OK;
}

static lk_status read_content(lk_call_rules *r, lk_error *err) {
    const uint32_t content = lk_json_find(&r->json, 0, "content");
    if (r->is_forced || content == 0 || r->json.values[content].type == LK_JSON_NULL) {
        return LK_OK;
    }
    if (r->syntax->form == LK_CALL_FORM_START) {
        return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT("content"),
                       "calls in the syntax '%s' cannot be told from an answer in JSON",
                       r->syntax->name);
    }
    r->content = content;
    return LK_OK;
}

lk_status lk_call_rules_read(const char *text, size_t n_bytes, const lk_allocator *a,
                             lk_call_rules *r, lk_error *err) {
    const lk_json_limits limits = {LK_GRAMMAR_MAX_BYTES, MAX_DEPTH};
    *r = (lk_call_rules){.is_parallel = true};
    lk_status status = lk_json_parse(text, n_bytes, limits, a, &r->json, err);
    if (status != LK_OK) {
        return status;
    }
    status = check_members(&r->json, err);
    status = status == LK_OK ? read_syntax(r, err) : status;
    status = status == LK_OK ? read_reasoning(r, err) : status;
    status = status == LK_OK ? read_place(r, err) : status;
    status = status == LK_OK ? read_tools(r, a, err) : status;
    status = status == LK_OK ? read_choice(r, err) : status;
    status = status == LK_OK ? read_content(r, err) : status;
    if (status != LK_OK) {
        lk_call_rules_deinit(r);
    }
    return status;
}

void lk_call_rules_deinit(lk_call_rules *r) {
    const lk_allocator *a = r->json.allocator;
    lk_free_array(a, r->tools, r->tools_capacity, sizeof r->tools[0]);
    lk_json_deinit(&r->json);
    *r = (lk_call_rules){.syntax = NULL};
}
