/* chat_template.c - creating chat templates, and rendering messages with them. */
#include "text/chat/chat_template.h"

#include <string.h>

#include "base/error.h"
#include "base/fpenv.h"
#include "base/params.h"
#include "text/jinja/jinja_text.h"
#include "text/unicode/normalize.h"

LK_NO_TAIL_PADDING(lk_chat_params, reserved);

#define ALL_FLAGS                                                                                  \
    ((uint32_t)(LK_CHAT_GENERATION_PROMPT | LK_CHAT_CONTINUE_FINAL | LK_CHAT_AS_GIVEN))

/* Plain ChatML, as many models use it; their own templates may differ in detail. */
static const char chatml[] =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

static void program_deinit(lk_chat_program *p, const lk_allocator *allocator) {
    lk_jprogram_free(p->program);
    if (p->source != NULL) {
        lk_free(allocator, p->source, p->n_source + 1);
    }
    *p = (lk_chat_program){NULL, 0, NULL, 0};
}

static lk_status program_init(lk_chat_program *p, const char *source, size_t n,
                              const lk_allocator *allocator, lk_error *err) {
    *p = (lk_chat_program){NULL, 0, NULL, 0};
    lk_status status = lk_jprogram_compile(source, n, allocator, &p->program, err);
    if (status != LK_OK) {
        return status;
    }
    p->source = lk_dup_string(allocator, source, n);
    p->n_source = n;
    status = p->source != NULL ? lk_chat_find_abilities(p, allocator, err)
                               : lk_fail_nomem(err, "the chat template", n);
    if (status != LK_OK) {
        program_deinit(p, allocator);
    }
    return status;
}

lk_status lk_chat_template_create(const char *source, size_t n_bytes, const lk_allocator *allocator,
                                  lk_chat_template **out, lk_error *err) {
    if (out != NULL) {
        *out = NULL;
    }
    if (source == NULL || out == NULL) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE,
                       "lk_chat_template_create: source or out is missing");
    }
    const lk_allocator *a = lk_allocator_or_default(allocator);
    lk_chat_template *t = lk_alloc_zero(a, sizeof *t);
    if (t == NULL) {
        return lk_fail_nomem(err, "the chat template", sizeof *t);
    }
    t->allocator = *a;
    const lk_fpenv env = lk_fpenv_enter();
    const lk_status status = program_init(&t->plain, source, n_bytes, &t->allocator, err);
    lk_fpenv_leave(env);
    if (status != LK_OK) {
        lk_chat_template_close(t);
        return status;
    }
    *out = t;
    return LK_OK;
}

lk_status lk_chat_template_add_tools(lk_chat_template *t, const char *source, size_t n_bytes,
                                     lk_error *err) {
    const lk_fpenv env = lk_fpenv_enter();
    const lk_status status = program_init(&t->tools, source, n_bytes, &t->allocator, err);
    lk_fpenv_leave(env);
    return status;
}

lk_status lk_chat_template_builtin(const char *name, const lk_allocator *allocator,
                                   lk_chat_template **out, lk_error *err) {
    if (out != NULL) {
        *out = NULL;
    }
    if (name == NULL || out == NULL) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE,
                       "lk_chat_template_builtin: name or out is missing");
    }
    if (strcmp(name, "chatml") != 0) {
        return lk_fail(err, LK_E_NOT_FOUND, LK_AT_SUBJECT(name),
                       "there is no chat template named '%s'; known: chatml", name);
    }
    return lk_chat_template_create(chatml, sizeof chatml - 1, allocator, out, err);
}

void lk_chat_template_close(lk_chat_template *t) {
    if (t != NULL) {
        const lk_allocator allocator = t->allocator;
        program_deinit(&t->plain, &allocator);
        program_deinit(&t->tools, &allocator);
        lk_free(&allocator, t, sizeof *t);
    }
}

const char *lk_chat_template_source(const lk_chat_template *t, int with_tools, size_t *n_bytes) {
    const lk_chat_program *p = lk_chat_program_for(t, with_tools);
    if (n_bytes != NULL) {
        *n_bytes = p->n_source;
    }
    return p->source;
}

uint32_t lk_chat_template_abilities(const lk_chat_template *t, int with_tools) {
    return lk_chat_program_for(t, with_tools)->abilities;
}

void lk_chat_params_tokens(lk_chat_params *params, const lk_tokenizer *tokenizer) {
    const int32_t bos = lk_tokenizer_bos(tokenizer), eos = lk_tokenizer_eos(tokenizer);
    params->n_bos_token = params->n_eos_token = 0;
    params->bos_token = lk_tokenizer_token_text(tokenizer, bos, &params->n_bos_token);
    params->eos_token = lk_tokenizer_token_text(tokenizer, eos, &params->n_eos_token);
}

/* ---- rendering ---- */

static lk_status check_params(const lk_chat_template *t, const lk_chat_params *params,
                              lk_chat_prompt **out, lk_error *err) {
    if (out != NULL) {
        *out = NULL;
    }
    if (t == NULL || params == NULL || out == NULL) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE,
                       "lk_chat_render: chat_template, params or out is missing");
    }
    const lk_status status =
        lk_check_struct_size("lk_chat_params", params->struct_size, sizeof *params, err);
    if (status != LK_OK) {
        return status;
    }
    if (params->messages == NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("messages"), "lk_chat_render: no messages");
    }
    if ((params->flags & ~ALL_FLAGS) != 0 || params->reserved != 0) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("flags"),
                       "lk_chat_render: unknown flags 0x%lx, or reserved is not 0",
                       (unsigned long)params->flags);
    }
    if ((params->flags & LK_CHAT_CONTINUE_FINAL) != 0 &&
        (params->flags & LK_CHAT_GENERATION_PROMPT) != 0) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("flags"),
                       "CONTINUE_FINAL and GENERATION_PROMPT exclude each other");
    }
    return LK_OK;
}

static lk_status read_json(lk_jvm *vm, const char *text, size_t n, const char *what, lk_jtype type,
                           const char *type_name, lk_jvalue *out) {
    if (n > LK_MAX_CHAT_BYTES) {
        return lk_fail(vm->err, LK_E_LIMIT, LK_AT_SUBJECT(what), "%s: %zu bytes, at most %zu", what,
                       n, LK_MAX_CHAT_BYTES);
    }
    const lk_status status = lk_jjson_read(&vm->heap, text, n, LK_J_DATA, what, out, vm->err);
    if (status == LK_OK && out->type != type) {
        return lk_fail(vm->err, LK_E_FORMAT, LK_AT_SUBJECT(what), "%s must be %s", what, type_name);
    }
    return status;
}

/* A named variable of the caller, unless it is one of the renderer's own. */
static lk_status set_variables(lk_jvm *vm, const lk_chat_params *params) {
    static const char *const own[] = {"messages", "tools", "add_generation_prompt"};
    lk_jvalue variables = lk_jnone();
    if (params->variables == NULL) {
        return LK_OK;
    }
    const lk_status status =
        read_json(vm, params->variables, params->n_variables, "the template variables", LK_J_DICT,
                  "an object", &variables);
    for (size_t i = 0; status == LK_OK && i < variables.dict->n; i++) {
        const lk_jstring *key = variables.dict->entries[i].key.s;
        char name[128];
        for (size_t k = 0; k < sizeof own / sizeof own[0]; k++) {
            if (lk_jstring_is(key, own[k])) {
                return lk_fail(vm->err, LK_E_FORMAT, LK_AT_SUBJECT(own[k]),
                               "the template variable '%s' is set by the renderer", own[k]);
            }
        }
        if (key->n >= sizeof name) { /* no template uses such a name */
            continue;
        }
        memcpy(name, key->bytes, key->n);
        name[key->n] = '\0';
        if (strlen(name) == key->n && !lk_jvm_set(vm, name, variables.dict->entries[i].value)) {
            return vm->status;
        }
    }
    return status;
}

static bool set_token(lk_jvm *vm, const char *name, const char *text, size_t n) {
    if (text == NULL) {
        return true;
    }
    if (!lk_utf8_is_valid((const uint8_t *)text, n)) {
        return lk_jfail_status(vm, LK_E_FORMAT, "the text of %s is not well-formed UTF-8", name);
    }
    const lk_jstring *s = lk_jstring_new(&vm->heap, text, n, LK_J_TEMPLATE);
    return lk_jcheck(vm, s != NULL) && lk_jvm_set(vm, name, lk_jstr(s));
}

/* What the template sees besides messages and tools. */
static lk_status set_context(lk_jvm *vm, const lk_chat_params *params) {
    vm->has_now = params->local_time_s != LK_CHAT_NO_TIME;
    vm->now_s = vm->has_now ? params->local_time_s : 0;
    const lk_jvalue hidden = {.type = LK_J_UNSET};
    const bool prompt = (params->flags & LK_CHAT_GENERATION_PROMPT) != 0;
    if (!set_token(vm, "bos_token", params->bos_token, params->n_bos_token) ||
        !set_token(vm, "eos_token", params->eos_token, params->n_eos_token) ||
        (!vm->has_now && !lk_jvm_set(vm, "strftime_now", hidden)) ||
        !lk_jvm_set(vm, "add_generation_prompt", lk_jbool(prompt))) {
        return vm->status;
    }
    return set_variables(vm, params);
}

static lk_status make_prompt(const lk_jstring *text, size_t n, const lk_allocator *allocator,
                             lk_chat_prompt **out, lk_error *err) {
    lk_chat_prompt *prompt = lk_alloc_zero(allocator, sizeof *prompt);
    if (prompt == NULL) {
        return lk_fail_nomem(err, "the prompt", sizeof *prompt);
    }
    prompt->allocator = *allocator;
    prompt->text = lk_alloc(allocator, n + 1);
    prompt->n = n;
    prompt->origins = prompt->text != NULL ? lk_alloc(allocator, n) : NULL;
    if (prompt->origins == NULL) {
        lk_chat_prompt_close(prompt);
        return lk_fail_nomem(err, "the prompt", n);
    }
    if (n != 0) {
        memcpy(prompt->text, text->bytes, n);
        if (text->origins != NULL) {
            memcpy(prompt->origins, text->origins, n);
        } else {
            memset(prompt->origins, text->origin, n);
        }
    }
    prompt->text[n] = '\0';
    *out = prompt;
    return LK_OK;
}

/* The prompt ends where the mark behind the content to be continued stands. Where the template
 * stripped the content's end, the white space before the mark goes too. */
static lk_status cut_at_mark(lk_jvm *vm, const lk_jstring *text, const lk_jstring *mark,
                             size_t *n) {
    const lk_jstring *bare = lk_jtext_strip(vm, mark, NULL, LK_JSTRIP_BOTH);
    if (bare == NULL) {
        (void)lk_jheap_failed(vm);
        return vm->status;
    }
    const size_t at = lk_jstring_rfind(&vm->heap, text, 0, text->n, bare);
    if (vm->heap.failure != LK_OK) {
        (void)lk_jheap_failed(vm);
        return vm->status;
    }
    if (at == SIZE_MAX) {
        return lk_fail(vm->err, LK_E_TEMPLATE, LK_AT_SUBJECT("chat template"),
                       "the chat template leaves out the content of the last message, which is to "
                       "be continued");
    }
    *n = at;
    if (text->n - at < mark->n || memcmp(text->bytes + at, mark->bytes, mark->n) != 0) {
        const lk_jstring *before = lk_jstring_slice(&vm->heap, text, 0, at);
        const lk_jstring *stripped =
            before != NULL ? lk_jtext_strip(vm, before, NULL, LK_JSTRIP_RIGHT) : NULL;
        if (stripped == NULL) {
            (void)lk_jheap_failed(vm);
            return vm->status;
        }
        *n = stripped->n;
    }
    return LK_OK;
}

static lk_status render(lk_jvm *vm, const lk_chat_program *p, const lk_chat_params *params,
                        lk_jvalue tools, const lk_allocator *allocator, lk_chat_prompt **out) {
    lk_jvalue messages = lk_jnone();
    const lk_jstring *mark = NULL, *text = NULL;
    lk_status status = read_json(vm, params->messages, params->n_messages, "the messages",
                                 LK_J_LIST, "an array", &messages);
    if (status == LK_OK) {
        status = set_context(vm, params);
    }
    if (status == LK_OK) {
        status = lk_chat_messages_prepare(vm, p, messages, params->flags, &mark, vm->err);
    }
    if (status != LK_OK) {
        return status;
    }
    if (!lk_jvm_set(vm, "messages", messages) || !lk_jvm_set(vm, "tools", tools)) {
        return vm->status;
    }
    status = lk_jvm_run(vm, &text);
    if (status != LK_OK) {
        return status;
    }
    size_t n = text->n;
    if (mark != NULL) {
        status = cut_at_mark(vm, text, mark, &n);
    }
    if (status == LK_OK && n > LK_MAX_TEXT_BYTES) {
        status =
            lk_fail(vm->err, LK_E_LIMIT, LK_AT_SUBJECT("chat template"),
                    "the prompt has %zu bytes, at most %zu are supported", n, LK_MAX_TEXT_BYTES);
    }
    return status == LK_OK ? make_prompt(text, n, allocator, out, vm->err) : status;
}

static lk_status render_params(const lk_chat_template *t, const lk_chat_params *params,
                               lk_chat_prompt **out, lk_error *err) {
    const lk_allocator *allocator = lk_allocator_or_default(params->allocator);
    lk_jvalue tools = lk_jnone();
    lk_jvm vm;
    /* The program is known only when the tools are read, which need a heap: the plain one's serves
     * until then. */
    lk_status status = lk_jvm_init(&vm, t->plain.program, allocator, err);
    if (status == LK_OK && params->tools != NULL) {
        status = read_json(&vm, params->tools, params->n_tools, "the tools", LK_J_LIST, "an array",
                           &tools);
    }
    const bool has_tools = tools.type == LK_J_LIST && tools.list->n != 0;
    const lk_chat_program *p = lk_chat_program_for(t, has_tools);
    if (status == LK_OK && has_tools && (params->flags & LK_CHAT_AS_GIVEN) == 0 &&
        (p->abilities & LK_CHAT_TAKES_TOOLS) == 0) {
        status = lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT("tools"),
                         "the chat template leaves out the tools: the model would not see them");
    }
    if (status == LK_OK && p != &t->plain) {
        lk_jvm_deinit(&vm);
        status = lk_jvm_init(&vm, p->program, allocator, err);
        if (status == LK_OK) {
            status = read_json(&vm, params->tools, params->n_tools, "the tools", LK_J_LIST,
                               "an array", &tools);
        }
    }
    if (status == LK_OK) {
        status = render(&vm, p, params, tools, allocator, out);
    }
    lk_jvm_deinit(&vm);
    return status;
}

lk_status lk_chat_render(const lk_chat_template *t, const lk_chat_params *params,
                         lk_chat_prompt **out, lk_error *err) {
    lk_status status = check_params(t, params, out, err);
    if (status == LK_OK) {
        const lk_fpenv env = lk_fpenv_enter();
        status = render_params(t, params, out, err);
        lk_fpenv_leave(env);
    }
    return status;
}

void lk_chat_prompt_close(lk_chat_prompt *prompt) {
    if (prompt != NULL) {
        const lk_allocator allocator = prompt->allocator;
        lk_free(&allocator, prompt->text, prompt->n + 1);
        lk_free(&allocator, prompt->origins, prompt->n);
        lk_free(&allocator, prompt, sizeof *prompt);
    }
}

const char *lk_chat_prompt_text(const lk_chat_prompt *prompt, size_t *n_bytes) {
    if (n_bytes != NULL) {
        *n_bytes = prompt->n;
    }
    return prompt->text;
}

const uint8_t *lk_chat_prompt_origins(const lk_chat_prompt *prompt) {
    return prompt->origins;
}
