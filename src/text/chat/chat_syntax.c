/* chat_syntax.c - which call syntax and which reasoning marks a chat template uses; creating the
 * parser for them. */
#include <string.h>

#include "base/error.h"
#include "base/params.h"
#include "text/chat/chat_parser.h"
#include "text/chat/chat_template.h"

LK_NO_TAIL_PADDING(lk_chat_parser_params, n_tools);

/* ---- reading back a call ---- */

static const char probe_messages[] =
    "[{\"role\":\"user\",\"content\":\"lkprobe-user\"},{\"role\":\"assistant\",\"content\":null,"
    "\"tool_calls\":[{\"id\":\"call00001\",\"type\":\"function\",\"function\":{\"name\":"
    "\"lkprobe-function\",\"arguments\":\"{\\\"lkprobe-key\\\": \\\"lkprobe-value\\\"}\"}}]},"
    "{\"role\":\"tool\",\"tool_call_id\":\"call00001\",\"name\":\"lkprobe-function\",\"content\":"
    "\"lkprobe-result\"}]";
static const char probe_tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"lkprobe-function\",\"description\":\"d\","
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"lkprobe-key\":{\"type\":\"string\","
    "\"description\":\"d\"}},\"required\":[\"lkprobe-key\"]}}}]";

typedef struct reading {
    size_t n_calls;
    bool has_name, is_complete;
    char arguments[128];
    size_t n_arguments;
} reading;

static void read_delta(void *ctx, const lk_chat_delta *delta) {
    static const char name[] = "lkprobe-function";
    reading *r = ctx;
    if (delta->kind == LK_DELTA_CALL_BEGIN) {
        r->n_calls++;
        r->has_name =
            delta->n_text == sizeof name - 1 && memcmp(delta->text, name, delta->n_text) == 0;
    } else if (delta->kind == LK_DELTA_CALL_END) {
        r->is_complete = delta->is_complete != 0;
    } else if (delta->kind == LK_DELTA_CALL_ARGUMENTS) {
        for (size_t i = 0; i < delta->n_text && r->n_arguments < sizeof r->arguments; i++) {
            if (strchr(" \n\t", delta->text[i]) == NULL) {
                r->arguments[r->n_arguments++] = delta->text[i];
            }
        }
    }
}

/* Whether a syntax reads the one call of the rendered conversation. LK_E_NOMEM is the only failure.
 */
static lk_status reads_back(const lk_call_syntax *syntax, const char *text, size_t n,
                            const lk_allocator *allocator, bool *result, lk_error *err) {
    static const char wanted[] = "{\"lkprobe-key\":\"lkprobe-value\"}";
    lk_chat_parser p;
    reading r = {0};
    lk_chat_parser_init(&p, syntax, allocator);
    p.on_delta = read_delta;
    p.ctx = &r;
    lk_status status = lk_chat_parser_push(&p, text, n, err);
    if (status == LK_OK) {
        status = lk_chat_parser_finish(&p, err);
    }
    lk_chat_parser_deinit(&p);
    *result = status == LK_OK && r.n_calls == 1 && r.has_name && r.is_complete &&
              r.n_arguments == sizeof wanted - 1 && memcmp(r.arguments, wanted, r.n_arguments) == 0;
    return status == LK_E_NOMEM ? status : LK_OK;
}

/* Whether the last bytes before `call` speak of a call: then that is its mark, and not known here.
 */
static bool has_mark(const char *text, const char *call) {
    const char *from = call - text > 24 ? call - 24 : text;
    for (const char *at = from; at + 4 <= call; at++) {
        if (memcmp(at, "call", 4) == 0) {
            return true;
        }
    }
    return false;
}

/* The rendered text behind the user's turn; for a syntax without a mark, from the call on. */
static const char *after_user(const char *text, lk_call_form form) {
    const char *at = text;
    for (const char *next = strstr(at, "lkprobe-user"); next != NULL;
         next = strstr(at, "lkprobe-user")) {
        at = next + 12;
    }
    if (form == LK_CALL_FORM_START) {
        const char *call = strstr(at, "{\"name\"");
        at = call != NULL && !has_mark(at, call) ? call : "";
    }
    return at;
}

static lk_status find_syntax(const lk_chat_template *t, const lk_allocator *allocator,
                             const lk_call_syntax **out, lk_error *err) {
    lk_chat_params params = LK_CHAT_PARAMS_INIT;
    lk_chat_prompt *prompt = NULL;
    params.allocator = allocator;
    params.messages = probe_messages;
    params.n_messages = sizeof probe_messages - 1;
    params.tools = probe_tools;
    params.n_tools = sizeof probe_tools - 1;
    params.bos_token = params.eos_token = "";
    params.local_time_s = 0;
    params.flags = 0;
    lk_status status = lk_chat_render(t, &params, &prompt, err);
    if (status == LK_E_UNSUPPORTED && strstr(err->message, "tools") != NULL) {
        params.tools = NULL;
        params.n_tools = 0;
        status = lk_chat_render(t, &params, &prompt, err);
    }
    if (status == LK_E_NOMEM) {
        return status;
    }
    if (status != LK_OK) {
        const lk_error reason = *err;
        return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT("chat template"),
                       "the chat template writes no calls of tools: %.200s", reason.message);
    }
    bool found = false;
    for (size_t i = 0; lk_call_syntax_at(i) != NULL && !found && status == LK_OK; i++) {
        *out = lk_call_syntax_at(i);
        const char *text = after_user(lk_chat_prompt_text(prompt, NULL), (*out)->form);
        status = reads_back(*out, text, strlen(text), allocator, &found, err);
    }
    lk_chat_prompt_close(prompt);
    if (status == LK_OK && !found) {
        return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT("chat template"),
                       "the syntax in which the chat template writes calls is not known");
    }
    return status;
}

/* ---- reasoning ---- */

static void find_reasoning(lk_chat_parser *p, const lk_chat_template *t) {
    const char *source = lk_chat_template_source(t, 1, NULL);
    if (p->syntax != NULL && p->syntax->form == LK_CALL_FORM_MESSAGES) {
        p->takes_reasoning = true;
        return;
    }
    for (size_t i = 0; lk_reasoning_marks_at(i) != NULL; i++) {
        const lk_reasoning_marks *marks = lk_reasoning_marks_at(i);
        if (strstr(source, marks->hint) != NULL) {
            p->reasoning_open = marks->open;
            p->reasoning_close = marks->close;
            return;
        }
    }
}

/* Whether the prompt ends with a text, blanks apart. */
static bool ends_with(const lk_chat_prompt *prompt, const char *text) {
    size_t n = 0;
    const char *all = lk_chat_prompt_text(prompt, &n);
    const size_t n_text = strlen(text);
    while (n != 0 && strchr(" \n\r\t", all[n - 1]) != NULL) {
        n--;
    }
    return n >= n_text && memcmp(all + n - n_text, text, n_text) == 0;
}

/* The last message of a prompt, if its header is complete; else the answer begins with the rest. */
static void begin_in_message(lk_chat_parser *p, const lk_chat_prompt *prompt) {
    const char *text = lk_chat_prompt_text(prompt, NULL);
    const char *last = NULL;
    for (const char *at = strstr(text, LK_MESSAGE_START); at != NULL;
         at = strstr(at + 1, LK_MESSAGE_START)) {
        last = at;
    }
    if (last != NULL && strstr(last, LK_MESSAGE_BODY) != NULL) {
        (void)lk_chat_parser_push(p, last, strlen(last), NULL);
    }
}

/* An answer goes on where the prompt ends: the marks in it are given to the parser. */
static void begin_behind(lk_chat_parser *p, const lk_chat_prompt *prompt) {
    if (p->reasoning_open != NULL && ends_with(prompt, p->reasoning_open)) {
        (void)lk_chat_parser_push(p, p->reasoning_open, strlen(p->reasoning_open), NULL);
    } else if (p->syntax != NULL && p->syntax->form == LK_CALL_FORM_MESSAGES) {
        begin_in_message(p, prompt);
    } else if (p->syntax != NULL && p->syntax->form == LK_CALL_FORM_NAMED &&
               ends_with(prompt, p->syntax->open)) {
        (void)lk_chat_parser_push(p, p->syntax->open, strlen(p->syntax->open), NULL);
        p->raw.n = 0;
    }
}

/* Whether answers of a template may have marks that are no text also where there are no tools: what
 * shows in the sources of those that do. */
static bool may_frame(const lk_chat_template *t) {
    static const char *const hints[] = {LK_MESSAGE_BODY, "open_tag('response'", "<|content|>"};
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        if (strstr(lk_chat_template_source(t, 0, NULL), hints[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* The syntax that an answer is read by; NULL: none. */
static lk_status choose_syntax(const lk_chat_template *t, const lk_chat_parser_params *params,
                               const lk_allocator *allocator, const lk_call_syntax **out,
                               lk_error *err) {
    const bool takes_calls = (params->flags & LK_PARSE_TOOL_CALLS) != 0;
    if (takes_calls) {
        return params->syntax != NULL ? lk_call_syntax_find(params->syntax, out, err)
                                      : find_syntax(t, allocator, out, err);
    }
    if ((params->flags & LK_PARSE_REASONING) == 0 || !may_frame(t)) {
        return LK_OK;
    }
    const lk_status status = find_syntax(t, allocator, out, err);
    if (status != LK_OK || !lk_call_syntax_frames(*out)) {
        *out = NULL;
    }
    return status == LK_E_NOMEM ? status : LK_OK;
}

static lk_status read_tools(const lk_chat_parser_params *params, const lk_allocator *allocator,
                            lk_json *tools, lk_error *err) {
    const lk_json_limits limits = {LK_MAX_CHAT_BYTES, LK_JSON_MAX_DEPTH};
    *tools = (lk_json){.allocator = NULL};
    return params->tools == NULL || (params->flags & LK_PARSE_TOOL_CALLS) == 0
               ? LK_OK
               : lk_json_parse(params->tools, params->n_tools, limits, allocator, tools, err);
}

lk_status lk_chat_parser_create(const lk_chat_template *t, const lk_chat_parser_params *params,
                                lk_chat_parser **out, lk_error *err) {
    lk_error own;
    const lk_call_syntax *syntax = NULL;
    err = err != NULL ? err : &own;
    if (out != NULL) {
        *out = NULL;
    }
    if (t == NULL || params == NULL || out == NULL || params->struct_size != sizeof *params ||
        params->reserved != 0 || params->flags > (LK_PARSE_TOOL_CALLS | LK_PARSE_REASONING)) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE,
                       "lk_chat_parser_create: template, params or out is missing or not valid");
    }
    const lk_allocator *allocator = lk_allocator_or_default(params->allocator);
    lk_json tools;
    lk_status status = choose_syntax(t, params, allocator, &syntax, err);
    status = status == LK_OK ? read_tools(params, allocator, &tools, err) : status;
    if (status != LK_OK) {
        return status;
    }
    lk_chat_parser *p = lk_alloc(allocator, sizeof *p);
    if (p == NULL) {
        if (tools.allocator != NULL) {
            lk_json_deinit(&tools);
        }
        return lk_fail_nomem(err, "the parser of answers", sizeof *p);
    }
    lk_chat_parser_init(p, syntax, allocator);
    p->takes_calls = syntax != NULL && (params->flags & LK_PARSE_TOOL_CALLS) != 0;
    p->tools = tools;
    if (tools.allocator != NULL) {
        p->tools.allocator = &p->allocator;
    }
    p->id_state = params->id_seed;
    if ((params->flags & LK_PARSE_REASONING) != 0) {
        find_reasoning(p, t);
    }
    if (params->prompt != NULL) {
        begin_behind(p, params->prompt);
    }
    p->on_delta = params->on_delta;
    p->ctx = params->ctx;
    *out = p;
    return LK_OK;
}

void lk_chat_parser_destroy(lk_chat_parser *p) {
    if (p != NULL) {
        const lk_allocator allocator = p->allocator;
        lk_chat_parser_deinit(p);
        lk_free(&allocator, p, sizeof *p);
    }
}
