/* jinja_compile.c - statements of a template into instructions; and the compiler's common parts. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text/jinja/jinja_compiler.h"
#include "text/unicode/normalize.h"

static bool statements(lk_jcompiler *c, const char *const *ends);

bool lk_jcompile_fail(lk_jcompiler *c, lk_status status, uint32_t line, const char *format, ...) {
    if (c->status == LK_OK) {
        char reason[240];
        va_list args;
        va_start(args, format);
        (void)vsnprintf(reason, sizeof reason, format, args);
        va_end(args);
        c->status = lk_fail(c->err, status, LK_AT_SUBJECT("chat template"),
                            "the chat template does not parse: line %u: %s", line, reason);
    }
    return false;
}

bool lk_jcompile_nomem(lk_jcompiler *c) {
    if (c->heap->failure == LK_E_NOMEM) {
        if (c->status == LK_OK) {
            c->status = lk_fail_nomem(c->err, "the compiled chat template", c->heap->used);
        }
        return false;
    }
    return lk_jcompile_fail(c, LK_E_LIMIT, c->token.line, "the template is too large");
}

static bool read_token(lk_jcompiler *c, lk_jtoken *token) {
    if (!lk_jlexer_next(&c->lexer, token)) {
        return lk_jcompile_fail(c, LK_E_FORMAT, c->lexer.line, "%s", c->lexer.problem);
    }
    return true;
}

bool lk_jcompile_next(lk_jcompiler *c) {
    if (c->has_ahead) {
        c->token = c->ahead;
        c->has_ahead = false;
        return true;
    }
    return read_token(c, &c->token);
}

bool lk_jcompile_ahead(lk_jcompiler *c, lk_jtoken *ahead) {
    if (!c->has_ahead) {
        if (!read_token(c, &c->ahead)) {
            return false;
        }
        c->has_ahead = true;
    }
    *ahead = c->ahead;
    return true;
}

bool lk_jis_token(const lk_jtoken *token, lk_jtoken_kind kind, const char *text) {
    return token->kind == kind && token->n == strlen(text) &&
           memcmp(token->bytes, text, token->n) == 0;
}

bool lk_jat_operator(const lk_jcompiler *c, const char *text) {
    return lk_jis_token(&c->token, LK_JT_OPERATOR, text);
}

bool lk_jat_name(const lk_jcompiler *c, const char *text) {
    return lk_jis_token(&c->token, LK_JT_NAME, text);
}

static bool unexpected(lk_jcompiler *c, const char *wanted) {
    const bool is_end = c->token.kind == LK_JT_END || c->token.n == 0;
    return lk_jcompile_fail(c, LK_E_FORMAT, c->token.line, "expected %s, not '%.*s'", wanted,
                            is_end ? 15 : (int)(c->token.n < 40 ? c->token.n : 40),
                            is_end ? "the end of text" : (const char *)c->token.bytes);
}

bool lk_jexpect_operator(lk_jcompiler *c, const char *text) {
    return lk_jat_operator(c, text) ? lk_jcompile_next(c) : unexpected(c, text);
}

bool lk_jcompile_intern(lk_jcompiler *c, const void *bytes, size_t n, uint32_t *name) {
    lk_jprogram *p = c->program;
    const lk_jstring look = {.bytes = bytes, .n = n};
    const lk_jvalue *known = lk_jdict_get(c->heap, c->name_numbers, lk_jstr(&look));
    if (known != NULL) {
        *name = (uint32_t)known->i;
        return true;
    }
    if (!lk_jheap_make_room(c->heap, (void *)&p->names, p->n_names, &c->name_capacity,
                            sizeof(const lk_jstring *))) {
        return lk_jcompile_nomem(c);
    }
    const lk_jstring *text = lk_jstring_new(c->heap, bytes, n, LK_J_TEMPLATE);
    if (text == NULL ||
        !lk_jdict_set(c->heap, c->name_numbers, lk_jstr(text), lk_jint(p->n_names))) {
        return lk_jcompile_nomem(c);
    }
    *name = p->n_names;
    p->names[p->n_names++] = text;
    return true;
}

bool lk_jcompile_name(lk_jcompiler *c, uint32_t *name) {
    if (c->token.kind != LK_JT_NAME) {
        return unexpected(c, "a name");
    }
    return lk_jcompile_intern(c, c->token.bytes, c->token.n, name) && lk_jcompile_next(c);
}

bool lk_jcompile_enter(lk_jcompiler *c) {
    c->depth++;
    return c->depth <= LK_JMAX_NESTING ||
           lk_jcompile_fail(c, LK_E_LIMIT, c->token.line, "more than %d levels of nesting",
                            LK_JMAX_NESTING);
}

bool lk_jemit(lk_jcompiler *c, lk_jop op, uint32_t n, int64_t a, int64_t b) {
    lk_jprogram *p = c->program;
    if (!lk_jheap_make_room(c->heap, (void *)&p->code, p->n_code, &c->code_capacity,
                            sizeof *p->code)) {
        return lk_jcompile_nomem(c);
    }
    p->code[p->n_code++] =
        (lk_jinstr){(uint8_t)op, (uint16_t)n, (int32_t)a, (int32_t)b, c->token.line};
    return true;
}

bool lk_jemit_constant(lk_jcompiler *c, lk_jop op, lk_jvalue value) {
    lk_jprogram *p = c->program;
    if (!lk_jheap_make_room(c->heap, (void *)&p->constants, p->n_constants, &c->constant_capacity,
                            sizeof *p->constants)) {
        return lk_jcompile_nomem(c);
    }
    p->constants[p->n_constants++] = value;
    return lk_jemit(c, op, 0, p->n_constants - 1, 0);
}

void lk_jpatch_a(lk_jcompiler *c, uint32_t at) {
    c->program->code[at].a = (int32_t)(c->program->n_code - at - 1);
}

void lk_jpatch_b(lk_jcompiler *c, uint32_t at) {
    c->program->code[at].b = (int32_t)(c->program->n_code - at - 1);
}

bool lk_jrotate(lk_jcompiler *c, uint32_t from, uint32_t middle) {
    lk_jinstr *code = c->program->code;
    const uint32_t n_first = middle - from, n_second = c->program->n_code - middle;
    if (!lk_jheap_charge(c->heap, n_first + n_second)) {
        return lk_jcompile_nomem(c);
    }
    lk_jinstr *first = lk_jheap_grow(c->heap, code + from, n_first, n_first, sizeof *first);
    if (first == NULL) {
        return lk_jcompile_nomem(c);
    }
    memmove(code + from, code + middle, n_second * sizeof *code);
    memcpy(code + from + n_second, first, n_first * sizeof *code);
    return true;
}

static bool one_target(lk_jcompiler *c, bool with_attribute, bool *has_attribute) {
    uint32_t name = 0, attribute = 0;
    if (lk_jat_operator(c, "(")) {
        return lk_jcompile_enter(c) && lk_jcompile_next(c) && lk_jtarget(c, false) &&
               (c->depth--, lk_jexpect_operator(c, ")"));
    }
    if (!lk_jcompile_name(c, &name)) {
        return false;
    }
    *has_attribute = with_attribute && lk_jat_operator(c, ".");
    if (*has_attribute) {
        return lk_jcompile_next(c) && lk_jcompile_name(c, &attribute) &&
               lk_jemit(c, LK_JOP_store_attr, 0, name, attribute);
    }
    return lk_jemit(c, LK_JOP_store, 0, name, 0);
}

/* For a tuple the code is: unpack, then the stores in order. */
bool lk_jtarget(lk_jcompiler *c, bool with_attribute) {
    const uint32_t start = c->program->n_code;
    bool has_attribute = false;
    if (!one_target(c, with_attribute, &has_attribute)) {
        return false;
    }
    uint32_t n = 1;
    bool is_tuple = false;
    while (lk_jat_operator(c, ",") && !has_attribute) {
        is_tuple = true;
        if (!lk_jcompile_next(c)) {
            return false;
        }
        if (lk_jat_operator(c, ")") || lk_jat_operator(c, "=") || lk_jat_name(c, "in")) {
            break;
        }
        if (n == 1000) {
            return lk_jcompile_fail(c, LK_E_LIMIT, c->token.line, "too many targets");
        }
        if (!one_target(c, with_attribute, &has_attribute)) {
            return false;
        }
        n++;
    }
    if (!is_tuple) {
        return true;
    }
    const uint32_t middle = c->program->n_code;
    return lk_jemit(c, LK_JOP_unpack, n, 0, 0) && lk_jrotate(c, start, middle);
}

static bool block_end(lk_jcompiler *c) {
    return c->token.kind == LK_JT_BLOCK_END ? lk_jcompile_next(c)
                                            : unexpected(c, "the end of the statement");
}

/* A body up to one of `ends`, whose name becomes the current token. */
static bool body(lk_jcompiler *c, const char *const *ends) {
    const bool ok = block_end(c) && lk_jcompile_enter(c) && statements(c, ends);
    c->depth--;
    return ok;
}

/* The name of an end statement, and its end. */
static bool end_statement(lk_jcompiler *c) {
    return lk_jcompile_next(c) && block_end(c);
}

static bool if_statement(lk_jcompiler *c) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    static const char *const last[] = {"endif", NULL};
    uint32_t end_jump = UINT32_MAX; /* a chain of the jumps to the end, through field a */
    c->n_soft++;
    for (;;) {
        if (!lk_jcompile_next(c) || !lk_jexpression_tuple(c, true)) {
            return false;
        }
        const uint32_t skip = c->program->n_code;
        if (!lk_jemit(c, LK_JOP_jump_if_false, 0, 0, 0) || !body(c, ends)) {
            return false;
        }
        const bool is_last = lk_jat_name(c, "endif");
        if (!is_last) {
            const uint32_t at = c->program->n_code;
            if (!lk_jemit(c, LK_JOP_jump, 0, (int32_t)end_jump, 0)) {
                return false;
            }
            end_jump = at;
        }
        lk_jpatch_a(c, skip);
        if (is_last) {
            break;
        }
        if (lk_jat_name(c, "else")) {
            if (!lk_jcompile_next(c) || !body(c, last)) {
                return false;
            }
            break;
        }
    }
    while (end_jump != UINT32_MAX) {
        const uint32_t next = (uint32_t)c->program->code[end_jump].a;
        lk_jpatch_a(c, end_jump);
        end_jump = next;
    }
    c->n_soft--;
    return end_statement(c);
}

/* Takes the code written since `start` out of the program. */
static lk_jinstr *cut(lk_jcompiler *c, uint32_t start, uint32_t *n) {
    *n = c->program->n_code - start;
    lk_jinstr *copy = lk_jheap_grow(c->heap, c->program->code + start, *n, *n, sizeof *copy);
    c->program->n_code = start;
    if (copy == NULL) {
        (void)lk_jcompile_nomem(c);
    }
    return copy;
}

static bool paste(lk_jcompiler *c, const lk_jinstr *code, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (!lk_jemit(c, (lk_jop)code[i].op, code[i].n, code[i].a, code[i].b)) {
            return false;
        }
    }
    return true;
}

/* Has a jump in field a go back to instruction `to`. */
static bool jump_back(lk_jcompiler *c, lk_jop op, uint32_t to) {
    return lk_jemit(c, op, 0, (int64_t)to - (int64_t)c->program->n_code - 1, 0);
}

/* `for x in y if condition`: a loop of its own makes the list of what is kept. */
static bool loop_filter(lk_jcompiler *c, const lk_jinstr *target, uint32_t n_target) {
    const uint32_t next = c->program->n_code + 1;
    if (!lk_jcompile_next(c) || !lk_jemit(c, LK_JOP_for_begin, 1, 0, 0) ||
        !lk_jemit(c, LK_JOP_for_next, 1, 0, 0) || !paste(c, target, n_target) ||
        !lk_jexpression(c, true) || !jump_back(c, LK_JOP_for_keep, next)) {
        return false;
    }
    lk_jpatch_a(c, next);
    return lk_jemit(c, LK_JOP_for_kept, 0, 0, 0);
}

static bool loop_body(lk_jcompiler *c, const lk_jinstr *target, uint32_t n_target) {
    static const char *const ends[] = {"else", "endfor", NULL};
    static const char *const last[] = {"endfor", NULL};
    const uint32_t next = c->program->n_code + 1;
    if (!lk_jemit(c, LK_JOP_for_begin, 0, 0, 0) || !lk_jemit(c, LK_JOP_for_next, 0, 0, 0) ||
        !paste(c, target, n_target)) {
        return false;
    }
    c->n_loops++;
    if (!body(c, ends) || !jump_back(c, LK_JOP_jump, next)) {
        return false;
    }
    c->n_loops--;
    lk_jpatch_a(c, next);
    const uint32_t end = c->program->n_code;
    if (!lk_jemit(c, LK_JOP_for_end, 0, 0, 0)) {
        return false;
    }
    if (lk_jat_name(c, "else") && (!lk_jcompile_next(c) || !body(c, last))) {
        return false;
    }
    lk_jpatch_a(c, end);
    lk_jpatch_b(c, next);
    return end_statement(c);
}

static bool for_statement(lk_jcompiler *c) {
    uint32_t n_target = 0;
    const uint32_t start = c->program->n_code;
    if (!lk_jcompile_next(c) || !lk_jtarget(c, false)) {
        return false;
    }
    const lk_jinstr *target = cut(c, start, &n_target);
    if (target == NULL || !lk_jat_name(c, "in")) {
        return target != NULL && unexpected(c, "'in'");
    }
    if (!lk_jcompile_next(c) || !lk_jexpression_tuple(c, false)) {
        return false;
    }
    if (lk_jat_name(c, "if") && !loop_filter(c, target, n_target)) {
        return false;
    }
    if (lk_jat_name(c, "recursive")) {
        return lk_jcompile_fail(c, LK_E_UNSUPPORTED, c->token.line,
                                "recursive loops are not supported");
    }
    return loop_body(c, target, n_target);
}

/* {% set x %}...{% endset %}, {% filter f %}...{% endfilter %}: the code of filters, written from
 * `start` on, goes after that of the body. */
static bool captured_body(lk_jcompiler *c, uint32_t start, const char *end) {
    const char *const ends[] = {end, NULL};
    const uint32_t middle = c->program->n_code;
    return lk_jemit(c, LK_JOP_capture, 0, 0, 0) && body(c, ends) &&
           lk_jemit(c, LK_JOP_capture_end, 0, 0, 0) && lk_jrotate(c, start, middle);
}

static bool set_statement(lk_jcompiler *c) {
    uint32_t n_target = 0;
    const uint32_t start = c->program->n_code;
    if (!lk_jcompile_next(c) || !lk_jtarget(c, true)) {
        return false;
    }
    const lk_jinstr *target = cut(c, start, &n_target);
    if (target == NULL) {
        return false;
    }
    if (lk_jat_operator(c, "=")) {
        return lk_jcompile_next(c) && lk_jexpression_tuple(c, true) && paste(c, target, n_target) &&
               block_end(c);
    }
    return lk_jfilters(c) && captured_body(c, start, "endset") && paste(c, target, n_target) &&
           end_statement(c);
}

static bool filter_statement(lk_jcompiler *c) {
    const uint32_t start = c->program->n_code;
    return lk_jcompile_next(c) && lk_jfilter(c) && lk_jfilters(c) &&
           captured_body(c, start, "endfilter") && lk_jemit(c, LK_JOP_print, 0, 0, 0) &&
           end_statement(c);
}

static bool new_macro(lk_jcompiler *c, uint32_t name, uint32_t *index) {
    lk_jprogram *p = c->program;
    if (!lk_jheap_make_room(c->heap, (void *)&p->macros, p->n_macros, &c->macro_capacity,
                            sizeof *p->macros)) {
        return lk_jcompile_nomem(c);
    }
    *index = p->n_macros++;
    p->macros[*index] = (lk_jmacro_code){.name = name};
    return true;
}

/* "(a, b=1)": the code that gives parameters their defaults. */
static bool signature(lk_jcompiler *c, uint32_t macro) {
    enum { MAX_PARAMS = 64 };
    uint32_t params[MAX_PARAMS] = {0};
    uint32_t n = 0;
    if (!lk_jexpect_operator(c, "(")) {
        return false;
    }
    while (!lk_jat_operator(c, ")")) {
        if (n == MAX_PARAMS) {
            return lk_jcompile_fail(c, LK_E_LIMIT, c->token.line, "more than %d parameters",
                                    MAX_PARAMS);
        }
        if (!lk_jcompile_name(c, &params[n])) {
            return false;
        }
        if (lk_jat_operator(c, "=")) {
            const uint32_t at = c->program->n_code;
            if (!lk_jcompile_next(c) || !lk_jemit(c, LK_JOP_parameter, 0, (int64_t)n, 0) ||
                !lk_jexpression(c, true) || !lk_jemit(c, LK_JOP_store, 0, params[n], 0)) {
                return false;
            }
            lk_jpatch_b(c, at);
        }
        n++;
        if (!lk_jat_operator(c, ",")) {
            break;
        }
        if (!lk_jcompile_next(c)) {
            return false;
        }
    }
    uint32_t *copy = lk_jheap_grow(c->heap, params, n, n, sizeof *copy);
    if (copy == NULL) {
        return lk_jcompile_nomem(c);
    }
    c->program->macros[macro].params = copy;
    c->program->macros[macro].n_params = n;
    return lk_jexpect_operator(c, ")");
}

/* The body of a macro, which breaks out of no loop around it. */
static bool macro_body(lk_jcompiler *c, uint32_t macro, const char *end) {
    const char *const ends[] = {end, NULL};
    const uint32_t outer_macro = c->macro, outer_loops = c->n_loops;
    c->macro = macro;
    c->n_loops = 0;
    const bool ok = body(c, ends) && lk_jemit(c, LK_JOP_return_, 0, 0, 0);
    c->macro = outer_macro;
    c->n_loops = outer_loops;
    return ok;
}

static bool macro_statement(lk_jcompiler *c) {
    uint32_t name = 0, macro = 0;
    if (!lk_jcompile_next(c) || !lk_jcompile_name(c, &name) || !new_macro(c, name, &macro)) {
        return false;
    }
    const uint32_t at = c->program->n_code;
    if (!lk_jemit(c, LK_JOP_macro, 0, macro, 2) || !lk_jemit(c, LK_JOP_store, 0, name, 0) ||
        !lk_jemit(c, LK_JOP_jump, 0, 0, 0)) {
        return false;
    }
    const uint32_t outer = c->macro;
    c->macro = macro; /* defaults are evaluated inside */
    if (!signature(c, macro) || !macro_body(c, macro, "endmacro")) {
        return false;
    }
    c->macro = outer;
    lk_jpatch_a(c, at + 2);
    return end_statement(c);
}

/* {% call(x) f(y) %}...{% endcall %}: f gets the body as a macro named `caller`. The code is: the
 * macro's code behind a jump, the callee and its arguments, the macro, the call. */
static bool call_statement(lk_jcompiler *c) {
    uint32_t macro = 0, caller = 0;
    if (!lk_jcompile_next(c) || !new_macro(c, LK_JNO_NAME, &macro) ||
        !lk_jcompile_intern(c, "caller", 6, &caller)) {
        return false;
    }
    const uint32_t start = c->program->n_code;
    if (!lk_jemit(c, LK_JOP_jump, 0, 0, 0)) {
        return false;
    }
    if (lk_jat_operator(c, "(") && !signature(c, macro)) {
        return false;
    }
    const uint32_t n_signature = c->program->n_code;
    if (!lk_jexpression(c, true)) {
        return false;
    }
    const lk_jinstr call = c->program->code[c->program->n_code - 1];
    if (call.op != LK_JOP_call || c->program->n_code == n_signature) {
        return lk_jcompile_fail(c, LK_E_FORMAT, c->token.line, "a call block needs a call");
    }
    c->program->n_code--;
    const uint32_t n_callee = c->program->n_code - n_signature;
    if (!macro_body(c, macro, "endcall") || !lk_jrotate(c, n_signature, n_signature + n_callee)) {
        return false;
    }
    /* The jump passes the macro's code and comes to the callee. */
    c->program->code[start].a = (int32_t)(c->program->n_code - n_callee - start - 1);
    const int64_t entry = (int64_t)start + 1 - ((int64_t)c->program->n_code + 1);
    return lk_jemit(c, LK_JOP_macro, 0, macro, entry) && lk_jcall_with(c, call, caller) &&
           lk_jemit(c, LK_JOP_print, 0, 0, 0) && end_statement(c);
}

/* {% with a = 1, b = 2 %}: the values are those of the scope around it. */
static bool with_statement(lk_jcompiler *c) {
    static const char *const ends[] = {"endwith", NULL};
    uint32_t n = 0, names[16] = {0};
    if (!lk_jcompile_next(c)) {
        return false;
    }
    while (c->token.kind != LK_JT_BLOCK_END) {
        if (n == 16) {
            return lk_jcompile_fail(c, LK_E_LIMIT, c->token.line, "too many variables");
        }
        if (!lk_jcompile_name(c, &names[n]) || !lk_jexpect_operator(c, "=") ||
            !lk_jexpression(c, true)) {
            return false;
        }
        n++;
        if (!lk_jat_operator(c, ",")) {
            break;
        }
        if (!lk_jcompile_next(c)) {
            return false;
        }
    }
    if (!lk_jemit(c, LK_JOP_scope, 0, 0, 0)) {
        return false;
    }
    while (n != 0) {
        if (!lk_jemit(c, LK_JOP_store, 0, names[--n], 0)) {
            return false;
        }
    }
    return body(c, ends) && lk_jemit(c, LK_JOP_scope_end, 0, 0, 0) && end_statement(c);
}

/* {% generation %} marks what the assistant wrote; for the text it is a scope. */
static bool generation_statement(lk_jcompiler *c) {
    static const char *const ends[] = {"endgeneration", NULL};
    return lk_jemit(c, LK_JOP_scope, 0, 0, 0) && lk_jcompile_next(c) && body(c, ends) &&
           lk_jemit(c, LK_JOP_scope_end, 0, 0, 0) && end_statement(c);
}

static bool loop_control(lk_jcompiler *c) {
    const lk_jop op = lk_jat_name(c, "break") ? LK_JOP_break_ : LK_JOP_continue_;
    if (c->n_loops == 0) {
        return lk_jcompile_fail(c, LK_E_FORMAT, c->token.line, "'%.*s' outside a loop",
                                (int)c->token.n, (const char *)c->token.bytes);
    }
    return lk_jemit(c, op, 0, 0, 0) && end_statement(c);
}

static bool statement(lk_jcompiler *c) {
    static const struct {
        const char *name;
        bool (*compile)(lk_jcompiler *);
    } kinds[] = {
        {"if", if_statement},     {"for", for_statement},
        {"set", set_statement},   {"macro", macro_statement},
        {"call", call_statement}, {"filter", filter_statement},
        {"with", with_statement}, {"generation", generation_statement},
        {"break", loop_control},  {"continue", loop_control},
    };
    static const char *const missing[] = {"block", "extends",    "include", "import",
                                          "from",  "autoescape", "do",      "trans"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (lk_jat_name(c, kinds[i].name)) {
            return kinds[i].compile(c);
        }
    }
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        if (lk_jat_name(c, missing[i])) {
            return lk_jcompile_fail(c, LK_E_UNSUPPORTED, c->token.line,
                                    "the statement '%s' is not supported", missing[i]);
        }
    }
    return unexpected(c, "a statement that fits here");
}

static bool is_end(const lk_jcompiler *c, const char *const *ends) {
    for (size_t i = 0; ends[i] != NULL; i++) {
        if (lk_jat_name(c, ends[i])) {
            return true;
        }
    }
    return false;
}

static bool print_statement(lk_jcompiler *c) {
    if (!lk_jcompile_next(c) || !lk_jexpression_tuple(c, true) ||
        !lk_jemit(c, LK_JOP_print, 0, 0, 0)) {
        return false;
    }
    return c->token.kind == LK_JT_PRINT_END ? lk_jcompile_next(c) : unexpected(c, "'}}'");
}

static bool text_statement(lk_jcompiler *c) {
    const lk_jstring *text = lk_jstring_new(c->heap, c->token.bytes, c->token.n, LK_J_TEMPLATE);
    return text == NULL ? lk_jcompile_nomem(c)
                        : lk_jemit_constant(c, LK_JOP_text, lk_jstr(text)) && lk_jcompile_next(c);
}

static bool statements(lk_jcompiler *c, const char *const *ends) {
    for (;;) {
        bool ok = true;
        switch (c->token.kind) {
        case LK_JT_TEXT:
            ok = text_statement(c);
            break;
        case LK_JT_PRINT_BEGIN:
            ok = print_statement(c);
            break;
        case LK_JT_BLOCK_BEGIN:
            if (!lk_jcompile_next(c)) {
                return false;
            }
            if (is_end(c, ends)) {
                return true;
            }
            ok = statement(c);
            break;
        case LK_JT_END:
            if (ends[0] == NULL) {
                return true;
            }
            return lk_jcompile_fail(c, LK_E_FORMAT, c->token.line,
                                    "the template ends where '%s' is expected", ends[0]);
        default:
            ok = unexpected(c, "text or a tag");
            break;
        }
        if (!ok) {
            return false;
        }
    }
}

static bool init(lk_jcompiler *c) {
    lk_jprogram *p = c->program;
    c->code_capacity = 256;
    c->constant_capacity = c->name_capacity = 64;
    c->arg_names_capacity = c->macro_capacity = 16;
    c->macro = LK_JNO_NAME;
    p->code = lk_jheap_array(c->heap, c->code_capacity, sizeof *p->code);
    p->constants = lk_jheap_array(c->heap, c->constant_capacity, sizeof *p->constants);
    p->names = lk_jheap_array(c->heap, c->name_capacity, sizeof(const lk_jstring *));
    p->arg_names = lk_jheap_array(c->heap, c->arg_names_capacity, sizeof *p->arg_names);
    p->macros = lk_jheap_array(c->heap, c->macro_capacity, sizeof *p->macros);
    c->name_numbers = lk_jdict_new(c->heap);
    if (p->code == NULL || p->constants == NULL || p->names == NULL || p->arg_names == NULL ||
        p->macros == NULL || c->name_numbers == NULL) {
        return lk_jcompile_nomem(c);
    }
    p->arg_names[p->n_arg_names++] = (lk_jnames){NULL, 0};
    return true;
}

static bool compile(lk_jcompiler *c, const char *source, size_t n) {
    static const char *const no_ends[] = {NULL};
    if (!init(c)) {
        return false;
    }
    if (!lk_jlexer_init(&c->lexer, c->heap, source, n)) {
        return lk_jcompile_nomem(c);
    }
    return lk_jcompile_next(c) && statements(c, no_ends);
}

lk_status lk_jprogram_compile(const char *source, size_t n, const lk_allocator *allocator,
                              lk_jprogram **out, lk_error *err) {
    *out = NULL;
    if (n > LK_JMAX_SOURCE) {
        return lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT("chat template"),
                       "the chat template has %zu bytes, at most %zu are supported", n,
                       LK_JMAX_SOURCE);
    }
    if (!lk_utf8_is_valid((const uint8_t *)source, n) || memchr(source, '\0', n) != NULL) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT("chat template"),
                       "the chat template is not well-formed UTF-8 text");
    }
    lk_jprogram *program = lk_alloc_zero(allocator, sizeof *program);
    if (program == NULL) {
        return lk_fail_nomem(err, "the compiled chat template", sizeof *program);
    }
    lk_jheap_init(&program->heap, allocator, LK_JMAX_PROGRAM_BYTES, 64 * (uint64_t)LK_JMAX_SOURCE);
    lk_jcompiler c = {.program = program, .heap = &program->heap, .err = err};
    if (!compile(&c, source, n)) {
        lk_jprogram_free(program);
        return c.status;
    }
    *out = program;
    return LK_OK;
}

void lk_jprogram_free(lk_jprogram *program) {
    if (program != NULL) {
        lk_jheap heap = program->heap;
        lk_jheap_deinit(&heap);
        lk_free(heap.allocator, program, sizeof *program);
    }
}

uint32_t lk_jprogram_find_name(const lk_jprogram *program, const char *name) {
    for (uint32_t i = 0; i < program->n_names; i++) {
        if (lk_jstring_is(program->names[i], name)) {
            return i;
        }
    }
    return LK_JNO_NAME;
}

bool lk_jprogram_mentions(const lk_jprogram *program, const char *text) {
    if (lk_jprogram_find_name(program, text) != LK_JNO_NAME) {
        return true;
    }
    for (uint32_t i = 0; i < program->n_constants; i++) {
        if (program->constants[i].type == LK_J_STRING &&
            lk_jstring_is(program->constants[i].s, text)) {
            return true;
        }
    }
    return false;
}
