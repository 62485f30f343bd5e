/* chat_messages.c - messages as callers send them, in the form that a template takes: roles and
 * contents checked, texts and parts made one another, arguments of calls made objects or text,
 * reasoning under the name that the template reads. What the template takes either way is left
 * alone. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "text/chat/chat_template.h"
#include "text/jinja/jinja_text.h"

static const char *const known_roles[] = {"system",   "developer", "user",  "assistant",  "tool",
                                          "function", "ipython",   "model", "observation"};

bool lk_chat_messages_trust_roles(lk_jvm *vm, lk_jvalue messages) {
    for (size_t i = 0; i < messages.list->n; i++) {
        const lk_jvalue message = messages.list->items[i];
        lk_jvalue *role =
            message.type == LK_J_DICT ? lk_jdict_get_text(&vm->heap, message.dict, "role") : NULL;
        for (size_t k = 0; role != NULL && k < sizeof known_roles / sizeof known_roles[0]; k++) {
            if (role->type == LK_J_STRING && lk_jstring_is(role->s, known_roles[k])) {
                *role = lk_jstr(lk_jstring_text(&vm->heap, known_roles[k]));
                if (role->s == NULL) {
                    return lk_jheap_failed(vm);
                }
                break;
            }
        }
    }
    return true;
}

/* One message at work. */
typedef struct worker {
    lk_jvm *vm;
    const lk_chat_program *program;
    lk_jdict *message;
    size_t i;
    lk_error *err;
    lk_status status;
} worker;

static bool bad(worker *w, lk_status status, const char *what) {
    if (w->status == LK_OK) {
        w->status =
            lk_fail(w->err, status, LK_AT_SUBJECT("messages"), "message %zu: %s", w->i, what);
    }
    return false;
}

static bool nomem(worker *w) {
    (void)lk_jheap_failed(w->vm);
    w->status = w->vm->status;
    return false;
}

static lk_jvalue *member(worker *w, const lk_jdict *dict, const char *name) {
    return lk_jdict_get_text(&w->vm->heap, dict, name);
}

static bool set_member(worker *w, lk_jdict *dict, const char *name, lk_jvalue value) {
    const lk_jstring *key = lk_jstring_text(&w->vm->heap, name);
    return (key != NULL && lk_jdict_set(&w->vm->heap, dict, lk_jstr(key), value)) || nomem(w);
}

static bool is_text(const lk_jvalue *v) {
    return v != NULL && v->type == LK_J_STRING;
}

static bool has_ability(const worker *w, uint32_t ability) {
    return (w->program->abilities & ability) != 0;
}

/* ---- content ---- */

static bool set_text(worker *w, const char *text) {
    const lk_jstring *s = lk_jstring_text(&w->vm->heap, text);
    return s != NULL ? set_member(w, w->message, "content", lk_jstr(s)) : nomem(w);
}

/* A text for a template that takes parts only. */
static bool wrap_text(worker *w, lk_jvalue text) {
    lk_jlist *parts = lk_jlist_new(&w->vm->heap, 1);
    lk_jdict *part = lk_jdict_new(&w->vm->heap);
    const lk_jstring *kind = lk_jstring_text(&w->vm->heap, "text");
    if (parts == NULL || part == NULL || kind == NULL) {
        return nomem(w);
    }
    return set_member(w, part, "type", lk_jstr(kind)) && set_member(w, part, "text", text) &&
           (lk_jlist_push(&w->vm->heap, parts, (lk_jvalue){.type = LK_J_DICT, .dict = part}) ||
            nomem(w)) &&
           set_member(w, w->message, "content", (lk_jvalue){.type = LK_J_LIST, .list = parts});
}

/* Checks a part; *text is its text, or NULL for another kind. */
static bool check_part(worker *w, lk_jvalue part, const lk_jstring **text) {
    *text = NULL;
    if (part.type != LK_J_DICT) {
        return bad(w, LK_E_FORMAT, "a part of the content is no object");
    }
    const lk_jvalue *type = member(w, part.dict, "type");
    const lk_jvalue *value = member(w, part.dict, "text");
    if (!is_text(type)) {
        return bad(w, LK_E_FORMAT, "a part of the content has no type");
    }
    if (lk_jstring_is(type->s, "text")) {
        if (!is_text(value)) {
            return bad(w, LK_E_FORMAT, "a part of type text has no text");
        }
        *text = value->s;
    }
    return true;
}

/* Parts: checked; joined with line ends for a template that takes one text only. */
static bool prepare_parts(worker *w, const lk_jlist *parts) {
    const bool joins = !has_ability(w, LK_CHAT_TAKES_PART_CONTENT);
    lk_jbuild build;
    lk_jbuild_init(&build, &w->vm->heap);
    for (size_t i = 0; i < parts->n; i++) {
        const lk_jstring *text = NULL;
        if (!check_part(w, parts->items[i], &text)) {
            return false;
        }
        if (joins && text == NULL) {
            return bad(w, LK_E_UNSUPPORTED, "the chat template takes texts only");
        }
        if (joins &&
            ((i != 0 && !lk_jbuild_text(&build, "\n")) || !lk_jbuild_string(&build, text))) {
            return nomem(w);
        }
    }
    if (!joins) {
        return true;
    }
    const lk_jstring *s = lk_jbuild_finish(&build);
    return s != NULL ? set_member(w, w->message, "content", lk_jstr(s)) : nomem(w);
}

/* Null becomes an empty text, or beside calls the other way round, as the template takes it. */
static bool prepare_content(worker *w, bool has_calls) {
    const lk_jvalue *content = member(w, w->message, "content");
    const bool is_null = content == NULL || content->type == LK_J_NONE;
    const bool is_empty = is_null || (content->type == LK_J_STRING && content->s->n == 0);
    const bool takes_null = has_calls && has_ability(w, LK_CHAT_TAKES_NULL_CONTENT);
    if (is_empty && takes_null && (is_null || !has_ability(w, LK_CHAT_TAKES_TEXT_WITH_CALLS))) {
        return set_member(w, w->message, "content", lk_jnone());
    }
    if (is_null) {
        const lk_jvalue *role = member(w, w->message, "role");
        return lk_jstring_is(role->s, "assistant") ? set_text(w, "")
                                                   : bad(w, LK_E_FORMAT, "the content is missing");
    }
    if (content->type == LK_J_STRING) {
        return has_ability(w, LK_CHAT_TAKES_STRING_CONTENT) ||
               !has_ability(w, LK_CHAT_TAKES_PART_CONTENT) || wrap_text(w, *content);
    }
    return content->type == LK_J_LIST
               ? prepare_parts(w, content->list)
               : bad(w, LK_E_FORMAT, "the content must be a text or a list of parts");
}

/* ---- calls of tools ---- */

/* Arguments come as JSON text; templates take an object, or the text. */
static bool prepare_arguments(worker *w, lk_jdict *function) {
    lk_jvalue *arguments = member(w, function, "arguments");
    const bool objects = has_ability(w, LK_CHAT_TAKES_OBJECT_ARGUMENTS);
    const bool strings = has_ability(w, LK_CHAT_TAKES_STRING_ARGUMENTS);
    if (arguments == NULL) {
        return bad(w, LK_E_FORMAT, "a call has no arguments");
    }
    if (arguments->type == LK_J_STRING && (objects || !strings)) {
        lk_jvalue parsed = lk_jnone();
        if (arguments->s->n == 0) {
            *arguments = (lk_jvalue){.type = LK_J_DICT, .dict = lk_jdict_new(&w->vm->heap)};
            return arguments->dict != NULL || nomem(w);
        }
        const lk_status status =
            lk_jjson_read(&w->vm->heap, (const char *)arguments->s->bytes, arguments->s->n,
                          LK_J_DATA, "the arguments of a call", &parsed, NULL);
        if (status == LK_E_NOMEM) {
            w->vm->heap.failure = LK_E_NOMEM;
            return nomem(w);
        }
        if (status != LK_OK || parsed.type != LK_J_DICT) {
            return bad(w, LK_E_FORMAT, "the arguments of a call are no JSON object");
        }
        *arguments = parsed;
    } else if (arguments->type == LK_J_DICT && !objects && strings) {
        lk_jjson_style style = {.ascii = false};
        lk_jbuild build;
        lk_jbuild_init(&build, &w->vm->heap);
        style.item_separator = lk_jstring_text(&w->vm->heap, ", ");
        style.key_separator = lk_jstring_text(&w->vm->heap, ": ");
        if (style.item_separator == NULL || style.key_separator == NULL ||
            !lk_jjson_write(w->vm, &build, *arguments, &style)) {
            return nomem(w);
        }
        *arguments = lk_jstr(lk_jbuild_finish(&build));
        return arguments->s != NULL || nomem(w);
    } else if (arguments->type != LK_J_STRING && arguments->type != LK_J_DICT) {
        return bad(w, LK_E_FORMAT, "the arguments of a call are neither a text nor an object");
    }
    return true;
}

static bool prepare_calls(worker *w, bool *has_calls) {
    const lk_jvalue *calls = member(w, w->message, "tool_calls");
    *has_calls = false;
    if (calls == NULL || calls->type == LK_J_NONE) {
        return true;
    }
    if (calls->type != LK_J_LIST) {
        return bad(w, LK_E_FORMAT, "tool_calls is no list");
    }
    *has_calls = calls->list->n != 0;
    if (*has_calls && !has_ability(w, LK_CHAT_TAKES_TOOL_CALLS)) {
        return bad(w, LK_E_UNSUPPORTED,
                   "the chat template leaves out calls of tools: the model would not see them");
    }
    for (size_t i = 0; i < calls->list->n; i++) {
        const lk_jvalue call = calls->list->items[i];
        const lk_jvalue *function =
            call.type == LK_J_DICT ? member(w, call.dict, "function") : NULL;
        const lk_jvalue *name = function != NULL && function->type == LK_J_DICT
                                    ? member(w, function->dict, "name")
                                    : NULL;
        if (!is_text(name)) {
            return bad(w, LK_E_FORMAT, "a call has no function with a name");
        }
        if (!prepare_arguments(w, function->dict)) {
            return false;
        }
    }
    return true;
}

/* ---- reasoning and roles ---- */

/* Reasoning under the name that the template reads, where it reads but another than the one used.
 */
static bool prepare_reasoning(worker *w) {
    static const char *const names[] = {"reasoning_content", "reasoning", "thinking"};
    enum { N = 3 };
    const lk_jvalue *given = NULL;
    const lk_jprogram *program = w->program->program;
    size_t i_given = 0;
    for (size_t i = 0; i < N && given == NULL; i++) {
        const lk_jvalue *value = member(w, w->message, names[i]);
        if (is_text(value)) {
            given = value;
            i_given = i;
        }
    }
    if (given == NULL || lk_jprogram_mentions(program, names[i_given])) {
        return true;
    }
    for (size_t i = 0; i < N; i++) {
        if (i != i_given && lk_jprogram_mentions(program, names[i])) {
            return set_member(w, w->message, names[i], *given);
        }
    }
    return true;
}

static bool prepare_role(worker *w) {
    lk_jvalue *role = member(w, w->message, "role");
    if (!is_text(role) || role->s->n == 0) {
        return bad(w, LK_E_FORMAT, "the role is missing");
    }
    if (lk_jstring_is(role->s, "developer") &&
        !lk_jprogram_mentions(w->program->program, "developer")) {
        *role = lk_jstr(lk_jstring_text(&w->vm->heap, "system"));
        return role->s != NULL || nomem(w);
    }
    return true;
}

/* ---- the content to be continued ---- */

/* A text that occurs in none of the messages' contents: it is put behind the last one. */
static bool add_mark(worker *w, lk_jvalue messages, const lk_jstring **mark) {
    lk_jvalue *content = member(w, w->message, "content");
    const lk_jvalue *role = member(w, w->message, "role");
    if (!is_text(role) || !lk_jstring_is(role->s, "assistant")) {
        return bad(w, LK_E_FORMAT, "only a message of the assistant can be continued");
    }
    if (content != NULL && content->type == LK_J_LIST && content->list->n != 0) {
        const lk_jvalue last = content->list->items[content->list->n - 1];
        content = last.type == LK_J_DICT ? member(w, last.dict, "text") : NULL;
    }
    if (!is_text(content)) {
        return bad(w, LK_E_FORMAT, "the content to be continued is no text");
    }
    lk_jbuild all;
    lk_jbuild_init(&all, &w->vm->heap);
    if (!lk_jrepr(w->vm, &all, messages)) {
        return nomem(w);
    }
    const lk_jstring *text = lk_jbuild_finish(&all);
    for (unsigned n = 0; text != NULL && n < 1000; n++) {
        char name[40];
        (void)snprintf(name, sizeof name, "continues-here-%u ", n);
        const lk_jstring *m = lk_jstring_text(&w->vm->heap, name);
        if (m == NULL) {
            break;
        }
        if (lk_jstring_find(&w->vm->heap, text, 0, text->n, m) == SIZE_MAX) {
            *mark = m;
            *content = lk_jstr(lk_jstring_concat(&w->vm->heap, content->s, m));
            return (content->s != NULL && w->vm->heap.failure == LK_OK) || nomem(w);
        }
    }
    return text != NULL && w->vm->heap.failure == LK_OK
               ? bad(w, LK_E_LIMIT, "the content cannot be marked")
               : nomem(w);
}

lk_status lk_chat_messages_prepare(lk_jvm *vm, const lk_chat_program *p, lk_jvalue messages,
                                   uint32_t flags, const lk_jstring **mark, lk_error *err) {
    worker w = {.vm = vm, .program = p, .err = err};
    const size_t n = messages.list->n;
    *mark = NULL;
    if (n == 0 && (flags & LK_CHAT_AS_GIVEN) == 0) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT("messages"), "there are no messages");
    }
    for (w.i = 0; w.i < n && (flags & LK_CHAT_AS_GIVEN) == 0; w.i++) {
        const lk_jvalue message = messages.list->items[w.i];
        bool has_calls = false;
        if (message.type != LK_J_DICT) {
            (void)bad(&w, LK_E_FORMAT, "it is no object");
            return w.status;
        }
        w.message = message.dict;
        if (!prepare_role(&w) || !prepare_calls(&w, &has_calls) ||
            !prepare_content(&w, has_calls) || !prepare_reasoning(&w)) {
            return w.status;
        }
    }
    if ((flags & LK_CHAT_CONTINUE_FINAL) != 0) {
        w.i = n - 1;
        if (n == 0 || messages.list->items[n - 1].type != LK_J_DICT) {
            return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT("messages"),
                           "there is no message to be continued");
        }
        w.message = messages.list->items[n - 1].dict;
        if (!add_mark(&w, messages, mark)) {
            return w.status;
        }
    }
    return lk_chat_messages_trust_roles(vm, messages) ? LK_OK : vm->status;
}
