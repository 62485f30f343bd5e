/* call_grammar.c - see call_grammar.h: the calls in the syntax of a chat template, each with the
 * name of a tool and arguments of its schema; before them the reasoning, or around them any text.
 * White space is where the parser of answers skips it, and bounded. Built from the end to the
 * beginning, as everything here. */
#include "grammar/call_grammar.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "grammar/call_rules.h"
#include "grammar/free_text.h"
#include "grammar/json_text.h"
#include "grammar/schema.h"

enum { MAX_CALLS = 32, MAX_ID = 64 };

typedef struct maker {
    lk_grammar_builder b;
    lk_call_rules rules;
    const lk_call_syntax *syntax;
    uint32_t call_rule; /* an object with name and arguments, or name and arguments (NAMED) */
} maker;

static const char *name_of(void *ctx, uint32_t rule) {
    (void)ctx;
    (void)rule;
    return "tool calls";
}

/* ---- arguments ---- */

/* Their schema as text, which says that they are an object. */
static void write_schema(maker *m, const lk_tool *tool, lk_json_buffer *out) {
    static const char none[] = "{\"type\":\"object\",\"properties\":{},"
                               "\"additionalProperties\":false}";
    static const char is_object[] = "{\"type\":\"object\",";
    const lk_json *j = &m->rules.json;
    lk_grammar_builder *b = &m->b;
    const lk_allocator *a = b->grammar->allocator;
    if (tool->parameters != 0) {
        lk_json_write(b, j, tool->parameters, out);
    }
    if (tool->parameters != 0 && lk_json_find(j, tool->parameters, "type") != 0) {
        return;
    }
    const size_t n_members = tool->parameters != 0 ? j->values[tool->parameters].n : 0;
    const char *head = tool->parameters == 0 ? none : is_object;
    size_t n_head = strlen(head) - (tool->parameters != 0 && n_members == 0);
    const size_t n_rest = tool->parameters == 0 ? 0 : out->n - 1; /* without its brace */
    void *bytes = out->bytes;
    if (b->status != LK_OK) {
        return;
    }
    if (!lk_grow_array(a, &bytes, out->n, &out->capacity, n_head + n_rest, 1)) {
        (void)lk_grammar_fail(b, LK_E_NOMEM, LK_NOWHERE, "no memory for a schema");
        return;
    }
    out->bytes = bytes;
    memmove(out->bytes + n_head, out->bytes + 1, n_rest);
    memcpy(out->bytes, head, n_head);
    out->n = n_head + n_rest;
}

/* Failures of schemas say which tool they are of. */
static void name_tool_in(lk_error *err, const lk_tool *tool) {
    char message[sizeof err->message];
    (void)snprintf(message, sizeof message, "tools[%u].function.parameters: %.*s", tool->index,
                   (int)sizeof message - 64, err->message);
    memcpy(err->message, message, sizeof message);
    (void)snprintf(err->subject, sizeof err->subject, "tools");
}

/* Whether the schema can be enforced at all. */
static lk_status try_schema(maker *m, const lk_json_buffer *schema, lk_error *err) {
    lk_grammar_builder trial;
    lk_grammar *out = NULL;
    uint32_t root = 0;
    if (lk_grammar_begin(&trial, m->b.grammar->allocator, err) == LK_OK) {
        root = lk_schema_compile_rule(&trial, schema->bytes, schema->n, m->syntax->arguments);
    }
    const lk_status status = lk_grammar_finish(&trial, root, name_of, NULL, &out);
    lk_grammar_free(out);
    return status;
}

static void compile_arguments(maker *m, lk_tool *tool) {
    static const char any[] = "{\"type\":\"object\"}";
    lk_json_buffer schema = {NULL, 0, 0};
    lk_error why;
    write_schema(m, tool, &schema);
    const char *text = schema.bytes;
    size_t n = schema.n;
    if (m->b.status == LK_OK && !m->rules.is_forced && !tool->is_strict) {
        const lk_status status = try_schema(m, &schema, &why);
        if (status == LK_E_UNSUPPORTED || status == LK_E_LIMIT) {
            text = any; /* a promise that nobody asked for */
            n = sizeof any - 1;
        }
    }
    if (m->b.status == LK_OK) {
        tool->rule = lk_schema_compile_rule(&m->b, text, n, m->syntax->arguments);
        if (m->b.status != LK_OK && m->b.status != LK_E_NOMEM) {
            name_tool_in(m->b.err, tool);
        }
    }
    lk_json_free_buffer(&m->b, &schema);
}

/* ---- one call ---- */

static uint32_t key(maker *m, const char *one, const char *other, uint32_t value) {
    lk_grammar_builder *b = &m->b;
    const uint32_t colon = lk_grammar_text(b, "\":", lk_json_one_space(b, value));
    const uint32_t first = lk_grammar_text(b, one, colon);
    return lk_grammar_byte(
        b, '"', '"',
        other == NULL ? first : lk_grammar_either(b, first, lk_grammar_text(b, other, colon)));
}

static uint32_t comma(maker *m, uint32_t next) {
    return lk_grammar_byte(&m->b, ',', ',', lk_json_space(&m->b, next));
}

static uint32_t id_string(maker *m, uint32_t next) {
    lk_grammar_builder *b = &m->b;
    const lk_grammar_edge edges[] = {{'-', '-', LK_GRAMMAR_END},
                                     {'0', '9', LK_GRAMMAR_END},
                                     {'A', 'Z', LK_GRAMMAR_END},
                                     {'_', '_', LK_GRAMMAR_END},
                                     {'a', 'z', LK_GRAMMAR_END}};
    const uint32_t one = lk_grammar_edges(b, edges, sizeof edges / sizeof edges[0]);
    const uint32_t rest = lk_grammar_repeat(b, one, 1, MAX_ID, lk_grammar_byte(b, '"', '"', next));
    return lk_grammar_byte(b, '"', '"', rest);
}

/* {"name": ..., "arguments": {...}}, with the members that the model families have beside or
 * instead of these. */
static uint32_t object_call(maker *m) {
    lk_grammar_builder *b = &m->b;
    uint32_t starts[LK_GRAMMAR_MAX_TOOLS];
    const bool has_id = m->syntax->form == LK_CALL_FORM_ARRAY;
    const uint32_t brace = lk_grammar_byte(b, '}', '}', LK_GRAMMAR_END);
    uint32_t end = lk_json_space(b, brace);
    if (has_id) {
        const uint32_t id = key(m, "id", NULL, id_string(m, lk_json_space(b, brace)));
        end = lk_grammar_either(b, end, comma(m, id));
    }
    for (size_t i = 0; i < m->rules.n_tools; i++) {
        const lk_tool *tool = &m->rules.tools[i];
        const uint32_t arguments =
            key(m, "arguments", "parameters", lk_grammar_call(b, tool->rule, end));
        const uint32_t quote = lk_grammar_byte(b, '"', '"', comma(m, arguments));
        starts[i] = lk_grammar_bytes(b, tool->name, tool->n_name, quote);
    }
    const uint32_t names =
        lk_grammar_byte(b, '"', '"', lk_grammar_split(b, starts, m->rules.n_tools));
    uint32_t start = key(m, "name", "tool_name", names);
    if (has_id) {
        const uint32_t id = key(m, "id", "tool_call_id", id_string(m, comma(m, start)));
        start = lk_grammar_either(b, start, id);
    } else if (m->syntax->form == LK_CALL_FORM_START) {
        const uint32_t type =
            key(m, "type", NULL, lk_grammar_text(b, "\"function\"", comma(m, start)));
        start = lk_grammar_either(b, start, type);
    }
    return lk_grammar_byte(b, '{', '{', lk_json_space(b, start));
}

/* What stands between a name and its end: "[CALL_ID]" and nine letters and digits of Mistral, ":0"
 * of Kimi, an index of Kimi 3. */
static uint32_t after_name(maker *m, uint32_t next) {
    lk_grammar_builder *b = &m->b;
    const uint32_t digit = lk_grammar_byte(b, '0', '9', LK_GRAMMAR_END);
    if (strcmp(m->syntax->name, "kimi-3") == 0) {
        const uint32_t quote = lk_grammar_byte(b, '"', '"', next);
        return lk_grammar_text(b, "\" index=\"", lk_grammar_repeat(b, digit, 1, 4, quote));
    }
    if (strcmp(m->syntax->name, "kimi") == 0) {
        return lk_grammar_byte(b, ':', ':', lk_grammar_repeat(b, digit, 1, 4, next));
    }
    if (strcmp(m->syntax->name, "mistral-args") == 0) {
        const lk_grammar_edge edges[] = {
            {'0', '9', LK_GRAMMAR_END}, {'A', 'Z', LK_GRAMMAR_END}, {'a', 'z', LK_GRAMMAR_END}};
        const uint32_t id = lk_grammar_repeat(b, lk_grammar_edges(b, edges, 3), 9, 9, next);
        return lk_grammar_either(b, next, lk_grammar_text(b, "[CALL_ID]", id));
    }
    return next;
}

/* What stands before a name: "functions." of Kimi, an id of Solar. */
static uint32_t before_name(maker *m, uint32_t next) {
    lk_grammar_builder *b = &m->b;
    if (strcmp(m->syntax->name, "kimi") == 0) {
        return lk_grammar_text(b, "functions.", next);
    }
    if (strcmp(m->syntax->name, "solar") == 0) {
        const lk_grammar_edge edges[] = {{'0', '9', LK_GRAMMAR_END}, {'a', 'z', LK_GRAMMAR_END}};
        const uint32_t mark = lk_grammar_text(b, "<|tool_call:name|>", next);
        return lk_grammar_repeat(b, lk_grammar_edges(b, edges, 2), 10, 10, mark);
    }
    return next;
}

static uint32_t name_and_arguments(maker *m, const lk_tool *tool, uint32_t next) {
    lk_grammar_builder *b = &m->b;
    const char *name_end = m->syntax->name_end;
    const size_t n_end = strlen(name_end);
    uint32_t arguments = lk_grammar_call(b, tool->rule, next);
    if (n_end != 0 && name_end[n_end - 1] == ':') {
        arguments = lk_json_one_space(b, arguments);
    }
    const uint32_t end = after_name(m, lk_grammar_text(b, name_end, arguments));
    return lk_grammar_bytes(b, tool->name, tool->n_name, end);
}

static uint32_t named_call(maker *m) {
    lk_grammar_builder *b = &m->b;
    uint32_t starts[LK_GRAMMAR_MAX_TOOLS];
    for (size_t i = 0; i < m->rules.n_tools; i++) {
        starts[i] = name_and_arguments(m, &m->rules.tools[i], LK_GRAMMAR_END);
    }
    return before_name(m, lk_grammar_split(b, starts, m->rules.n_tools));
}

/* ---- calls ---- */

/* Whether each call has marks of its own, and several are written one after another. */
static bool is_single(const lk_call_syntax *s) {
    return s->between == NULL;
}

/* A closing mark with white space before it, if there is one. */
static uint32_t closed(maker *m, const char *mark, uint32_t next) {
    return mark[0] == '\0' ? next : lk_json_space(&m->b, lk_grammar_text(&m->b, mark, next));
}

static uint32_t one_call(maker *m, uint32_t next) {
    return lk_grammar_call(&m->b, m->call_rule, next);
}

/* 1 to n calls, the further ones behind `between` ("": white space alone). */
static uint32_t calls(maker *m, const char *between, uint32_t n, uint32_t next) {
    lk_grammar_builder *b = &m->b;
    const lk_call_syntax *s = m->syntax;
    const uint32_t end = closed(m, s->call_close, LK_GRAMMAR_END);
    const uint32_t open = lk_grammar_text(b, s->call_open, one_call(m, end));
    const uint32_t further = lk_grammar_text(b, between, lk_json_space(b, open));
    const uint32_t more = lk_grammar_repeat(b, further, 0, n - 1, next);
    return lk_grammar_text(b, s->call_open, one_call(m, closed(m, s->call_close, more)));
}

/* All that follows an opening mark. */
static uint32_t section(maker *m, uint32_t next) {
    lk_grammar_builder *b = &m->b;
    const lk_call_syntax *s = m->syntax;
    const uint32_t n = m->rules.is_parallel && !is_single(s) ? MAX_CALLS : 1;
    uint32_t end = 0;
    const char *between = s->between != NULL ? s->between : "";
    switch (s->form) {
    case LK_CALL_FORM_ARRAY:
        end = lk_json_space(b, lk_grammar_byte(b, ']', ']', closed(m, s->close, next)));
        end = lk_json_space(b, calls(m, between, n, end));
        return lk_json_space(b, lk_grammar_byte(b, '[', '[', end));
    case LK_CALL_FORM_START:
        return lk_json_space(b, calls(m, between, n, next));
    case LK_CALL_FORM_OBJECT:
        return lk_json_space(b, calls(m, between, n, closed(m, s->close, next)));
    default:
        end = closed(m, s->close, next);
        if (strcmp(s->name, "solar") == 0) { /* its last mark may end the answer */
            end = lk_grammar_either(b, end, next);
        }
        end = calls(m, between, n, end);
        return s->call_open[0] != '\0' ? lk_json_space(b, end) : end;
    }
}

/* ---- answers ---- */

/* The rule of an answer in JSON. */
static uint32_t content_rule(maker *m) {
    lk_json_buffer schema = {NULL, 0, 0};
    uint32_t rule = 0;
    lk_json_write(&m->b, &m->rules.json, m->rules.content, &schema);
    if (m->b.status == LK_OK) {
        rule = lk_schema_compile_rule(&m->b, schema.bytes, schema.n, NULL);
        if (m->b.status != LK_OK && m->b.status != LK_E_NOMEM) {
            (void)snprintf(m->b.err->subject, sizeof m->b.err->subject, "content");
        }
    }
    lk_json_free_buffer(&m->b, &schema);
    return rule;
}

/* What is dropped from answers may stand before the calls. */
static uint32_t framed(maker *m, uint32_t start) {
    lk_grammar_builder *b = &m->b;
    const char *marks[8];
    size_t lengths[8];
    size_t n = 0;
    const char *at = m->syntax->dropped;
    while (n < sizeof marks / sizeof marks[0] &&
           (marks[n] = lk_call_syntax_dropped(&at, &lengths[n])) != NULL) {
        n++;
    }
    while (n > 0) {
        n--;
        start = lk_grammar_either(b, start, lk_grammar_bytes(b, marks[n], lengths[n], start));
    }
    return start;
}

/* Nothing but calls, or an answer in JSON where one is allowed, after reasoning where there is
 * some. */
static uint32_t forced(maker *m) {
    lk_grammar_builder *b = &m->b;
    const lk_call_rules *r = &m->rules;
    uint32_t behind_open = 0;
    if (is_single(m->syntax)) {
        const uint32_t rule = lk_grammar_rule(b);
        lk_grammar_set_rule(b, rule, section(m, LK_GRAMMAR_END));
        const uint32_t again = lk_grammar_call(b, rule, LK_GRAMMAR_END);
        const uint32_t further = lk_json_space(b, lk_grammar_text(b, m->syntax->open, again));
        behind_open = lk_grammar_call(
            b, rule,
            lk_grammar_repeat(b, further, 0, r->is_parallel ? MAX_CALLS - 1 : 0, LK_GRAMMAR_END));
    } else {
        behind_open = section(m, LK_GRAMMAR_END);
    }
    uint32_t start = lk_grammar_text(b, m->syntax->open, behind_open);
    if (m->syntax->form == LK_CALL_FORM_START) {
        start = lk_grammar_either(b, start, behind_open);
    }
    if (r->content != 0) {
        start = lk_grammar_either(b, start, lk_grammar_call(b, content_rule(m), LK_GRAMMAR_END));
    }
    start = framed(m, start);
    start = lk_grammar_either(b, lk_json_space(b, start), lk_grammar_text(b, "\n\n", start));
    if (r->place == LK_CHAT_IN_CALLS) {
        return behind_open;
    }
    if (r->reasoning_close == NULL) {
        return start;
    }
    const lk_free_mark close = {r->reasoning_close, start};
    const uint32_t reasoning = lk_free_text(b, &close, 1, false);
    return r->place == LK_CHAT_IN_REASONING
               ? reasoning
               : lk_grammar_either(b, start, lk_grammar_text(b, r->reasoning_open, reasoning));
}

/* Any text; what an opening mark begins is a call. */
static uint32_t optional(maker *m) {
    lk_grammar_builder *b = &m->b;
    const lk_call_rules *r = &m->rules;
    const uint32_t text = lk_grammar_reserve(b);
    lk_free_mark marks[2] = {{m->syntax->open, section(m, r->is_parallel ? text : LK_GRAMMAR_END)}};
    size_t n_marks = 1;
    uint32_t reasoning = text;
    if (strcmp(m->syntax->name, "functionary-3.2") == 0) { /* to everybody: it is text */
        marks[0].next = lk_grammar_either(b, marks[0].next, lk_grammar_text(b, "all\n", text));
    }
    if (r->reasoning_close != NULL) {
        const lk_free_mark close = {r->reasoning_close, text};
        reasoning = lk_free_text(b, &close, 1, true);
        marks[n_marks++] = (lk_free_mark){r->reasoning_open, reasoning};
    }
    const uint32_t inside = lk_free_text(b, marks, n_marks, true);
    lk_grammar_set_split(b, text, &inside, 1);
    return r->place == LK_CHAT_IN_CALLS       ? marks[0].next
           : r->place == LK_CHAT_IN_REASONING ? reasoning
                                              : text;
}

/* ---- messages ---- */

/* The text of a message up to its end, or, with may_end, the end of the answer; other marks would
 * begin another one. */
static uint32_t message_text(maker *m, const char *end, uint32_t next, bool may_end) {
    const bool is_atem = m->syntax->open[0] != '\0';
    const lk_free_mark marks[] = {{end, next},
                                  {LK_MESSAGE_START, LK_GRAMMAR_NOTHING},
                                  {LK_MESSAGE_CHANNEL, LK_GRAMMAR_NOTHING},
                                  {is_atem ? "<|eot|>" : "<|call|>", LK_GRAMMAR_NOTHING},
                                  {is_atem ? m->syntax->open : "<|return|>", LK_GRAMMAR_NOTHING}};
    return lk_free_text(&m->b, marks, sizeof marks / sizeof marks[0], may_end);
}

/* A message to a tool, from behind the role. */
static uint32_t message_to_tool(maker *m, const lk_tool *tool, uint32_t next) {
    lk_grammar_builder *b = &m->b;
    const lk_call_syntax *s = m->syntax;
    if (s->open[0] != '\0') { /* the name stands in the call too */
        const uint32_t end = closed(m, s->call_close, closed(m, s->close, next));
        const uint32_t call = name_and_arguments(m, tool, end);
        const uint32_t open = lk_json_space(b, lk_grammar_text(b, s->call_open, call));
        const uint32_t body =
            lk_grammar_text(b, LK_MESSAGE_BODY, lk_grammar_text(b, s->open, open));
        return lk_grammar_text(b, " to=", lk_grammar_bytes(b, tool->name, tool->n_name, body));
    }
    const uint32_t arguments = lk_grammar_call(b, tool->rule, next);
    const uint32_t role =
        lk_grammar_text(b, LK_MESSAGE_CHANNEL "commentary json" LK_MESSAGE_BODY, arguments);
    const uint32_t channel = lk_grammar_text(b, " <|constrain|>json" LK_MESSAGE_BODY, arguments);
    const uint32_t to_role =
        lk_grammar_text(b, " to=functions.", lk_grammar_bytes(b, tool->name, tool->n_name, role));
    const uint32_t to_channel =
        lk_grammar_text(b, LK_MESSAGE_CHANNEL "commentary to=functions.",
                        lk_grammar_bytes(b, tool->name, tool->n_name, channel));
    return lk_grammar_either(b, to_role, to_channel);
}

/* One message after another: reasoning, then text (in JSON where that is asked for) or a call;
 * harmony has one call, since its end is that of the answer. */
static uint32_t messages(maker *m) {
    lk_grammar_builder *b = &m->b;
    const lk_call_rules *r = &m->rules;
    const bool is_atem = m->syntax->open[0] != '\0';
    const char *end = is_atem ? "<|eom|>" : "<|end|>";
    const char *own =
        is_atem ? " to=self" LK_MESSAGE_BODY : LK_MESSAGE_CHANNEL "analysis" LK_MESSAGE_BODY;
    const char *user =
        is_atem ? " to=user" LK_MESSAGE_BODY : LK_MESSAGE_CHANNEL "final" LK_MESSAGE_BODY;
    const char *preamble = LK_MESSAGE_CHANNEL "commentary" LK_MESSAGE_BODY;
    uint32_t starts[LK_GRAMMAR_MAX_TOOLS + 3];
    size_t n = 0;
    const uint32_t header = lk_grammar_reserve(b);
    const uint32_t again = lk_grammar_text(b, LK_MESSAGE_START "assistant", header);
    const uint32_t calls_again = lk_grammar_reserve(b);
    const bool is_free = !r->is_forced && r->content == 0;
    const uint32_t reasoning = message_text(m, end, again, is_free);
    const uint32_t text = message_text(m, end, again, true);
    for (size_t i = 0; i < r->n_tools; i++) {
        starts[n++] = message_to_tool(m, &r->tools[i], calls_again);
    }
    const uint32_t calls = lk_grammar_split(b, starts, n);
    starts[0] = calls;
    n = 1;
    uint32_t further = LK_GRAMMAR_END;
    if (is_atem && r->is_parallel) {
        const uint32_t more = lk_grammar_text(b, "<|eom|>" LK_MESSAGE_START "assistant", calls);
        further = lk_grammar_either(b, LK_GRAMMAR_END, more);
    }
    lk_grammar_set_split(b, calls_again, &further, 1);
    starts[n++] = lk_grammar_text(b, own, reasoning);
    if (r->content != 0) {
        starts[n++] = lk_grammar_text(b, user, lk_grammar_call(b, content_rule(m), LK_GRAMMAR_END));
    } else if (is_free) {
        starts[n++] = lk_grammar_text(b, user, text);
        if (!is_atem) {
            starts[n++] = lk_grammar_text(b, preamble, text);
        }
    }
    lk_grammar_set_split(b, header, starts, n);
    return r->place == LK_CHAT_IN_REASONING               ? reasoning
           : r->place == LK_CHAT_IN_TEXT && !r->is_forced ? text
           : is_free ? lk_grammar_either(b, header, LK_GRAMMAR_END)
                     : header;
}

lk_status lk_call_grammar_compile(const char *text, size_t n_bytes, const lk_allocator *allocator,
                                  lk_grammar **out, lk_error *err) {
    const lk_allocator *a = lk_allocator_or_default(allocator);
    lk_error own;
    maker m;
    uint32_t root = 0;
    err = err != NULL ? err : &own;
    *out = NULL;
    lk_status status = lk_call_rules_read(text, n_bytes, a, &m.rules, err);
    if (status != LK_OK) {
        return status;
    }
    m.syntax = m.rules.syntax;
    if (lk_grammar_begin(&m.b, a, err) == LK_OK) {
        for (size_t i = 0; i < m.rules.n_tools && m.b.status == LK_OK; i++) {
            compile_arguments(&m, &m.rules.tools[i]);
        }
        m.call_rule = lk_grammar_rule(&m.b);
        lk_grammar_set_rule(&m.b, m.call_rule,
                            m.syntax->form == LK_CALL_FORM_NAMED      ? named_call(&m)
                            : m.syntax->form == LK_CALL_FORM_MESSAGES ? LK_GRAMMAR_END
                                                                      : object_call(&m));
        root = lk_grammar_rule(&m.b);
        lk_grammar_set_rule(&m.b, root,
                            m.syntax->form == LK_CALL_FORM_MESSAGES     ? messages(&m)
                            : m.rules.is_forced || m.rules.content != 0 ? forced(&m)
                                                                        : optional(&m));
    }
    status = lk_grammar_finish(&m.b, root, name_of, NULL, out);
    lk_call_rules_deinit(&m.rules);
    return status;
}
