/* jinja_expression.c - expressions of a template, by precedence, into instructions. */
#include <string.h>

#include "text/jinja/jinja_builtins.h"
#include "text/jinja/jinja_compiler.h"
#include "text/jinja/jinja_number.h"

#define MAX_ARGS 64u

static bool or_expression(lk_jcompiler *c);
static bool unary(lk_jcompiler *c, bool with_filter);
static bool primary(lk_jcompiler *c);

typedef struct arguments {
    uint32_t n;     /* all */
    uint32_t names; /* list of the named ones */
} arguments;

static bool add_arg_names(lk_jcompiler *c, const uint32_t *names, uint32_t n, uint32_t *index) {
    lk_jprogram *p = c->program;
    *index = 0;
    if (n == 0) {
        return true;
    }
    if (!lk_jheap_make_room(c->heap, (void *)&p->arg_names, p->n_arg_names, &c->arg_names_capacity,
                            sizeof *p->arg_names)) {
        return lk_jcompile_nomem(c);
    }
    uint32_t *copy = lk_jheap_grow(c->heap, names, n, n, sizeof *copy);
    if (copy == NULL) {
        return lk_jcompile_nomem(c);
    }
    *index = p->n_arg_names;
    p->arg_names[p->n_arg_names++] = (lk_jnames){copy, n};
    return true;
}

bool lk_jcall_with(lk_jcompiler *c, lk_jinstr call, uint32_t name) {
    const lk_jnames old = c->program->arg_names[call.b];
    uint32_t names[MAX_ARGS + 1];
    uint32_t index = 0;
    if (old.n != 0) {
        memcpy(names, old.names, old.n * sizeof names[0]);
    }
    names[old.n] = name;
    return add_arg_names(c, names, old.n + 1, &index) &&
           lk_jemit(c, LK_JOP_call, call.n + 1u, 0, index);
}

/* From after '(' to after ')'. */
static bool call_arguments(lk_jcompiler *c, arguments *args) {
    uint32_t names[MAX_ARGS];
    uint32_t n_names = 0;
    *args = (arguments){0, 0};
    while (!lk_jat_operator(c, ")")) {
        lk_jtoken ahead;
        if (lk_jat_operator(c, "*") || lk_jat_operator(c, "**")) {
            return lk_jcompile_fail(c, LK_E_UNSUPPORTED, c->token.line,
                                    "arguments from a list or dict (* and **) are not supported");
        }
        if (args->n == MAX_ARGS) {
            return lk_jcompile_fail(c, LK_E_LIMIT, c->token.line, "more than %u arguments",
                                    MAX_ARGS);
        }
        if (!lk_jcompile_ahead(c, &ahead)) {
            return false;
        }
        if (c->token.kind == LK_JT_NAME && lk_jis_token(&ahead, LK_JT_OPERATOR, "=")) {
            if (!lk_jcompile_name(c, &names[n_names++]) || !lk_jcompile_next(c)) {
                return false;
            }
        } else if (n_names != 0) {
            return lk_jcompile_fail(c, LK_E_FORMAT, c->token.line,
                                    "a positional argument after a named one");
        }
        if (!lk_jexpression(c, true)) {
            return false;
        }
        args->n++;
        if (!lk_jat_operator(c, ",")) {
            break;
        }
        if (!lk_jcompile_next(c)) {
            return false;
        }
    }
    return lk_jexpect_operator(c, ")") && add_arg_names(c, names, n_names, &args->names);
}

/* Optional call arguments of a filter or test. */
static bool optional_arguments(lk_jcompiler *c, arguments *args) {
    *args = (arguments){0, 0};
    if (!lk_jat_operator(c, "(")) {
        return true;
    }
    return lk_jcompile_next(c) && call_arguments(c, args);
}

/* A filter or test that does not exist fails when it is reached inside a condition, else now. */
static bool unknown(lk_jcompiler *c, const lk_jtoken *name, bool is_test, uint32_t n_args) {
    uint32_t number = 0;
    if (c->n_soft == 0) {
        return lk_jcompile_fail(c, LK_E_UNSUPPORTED, name->line, "there is no %s named '%.*s'",
                                is_test ? "test" : "filter", (int)(name->n < 64 ? name->n : 64),
                                (const char *)name->bytes);
    }
    return lk_jcompile_intern(c, name->bytes, name->n, &number) &&
           lk_jemit(c, LK_JOP_unknown, n_args, number, is_test);
}

bool lk_jfilter(lk_jcompiler *c) {
    const lk_jtoken name = c->token;
    arguments args;
    if (name.kind != LK_JT_NAME) {
        return lk_jcompile_fail(c, LK_E_FORMAT, name.line, "expected the name of a filter");
    }
    if (!lk_jcompile_next(c) || !optional_arguments(c, &args)) {
        return false;
    }
    const int filter = lk_jlookup_filter(name.bytes, name.n);
    return filter >= 0 ? lk_jemit(c, LK_JOP_filter, args.n, filter, args.names)
                       : unknown(c, &name, false, args.n);
}

bool lk_jfilters(lk_jcompiler *c) {
    while (lk_jat_operator(c, "|")) {
        if (!lk_jcompile_next(c) || !lk_jfilter(c)) {
            return false;
        }
    }
    return true;
}

/* Whether the current token can begin the one argument of a test without brackets. */
static bool begins_test_argument(const lk_jcompiler *c) {
    switch (c->token.kind) {
    case LK_JT_STRING:
    case LK_JT_INTEGER:
    case LK_JT_FLOAT:
        return true;
    case LK_JT_NAME:
        return !lk_jat_name(c, "else") && !lk_jat_name(c, "or") && !lk_jat_name(c, "and") &&
               !lk_jat_name(c, "if") && !lk_jat_name(c, "is") && !lk_jat_name(c, "in") &&
               !lk_jat_name(c, "not");
    case LK_JT_OPERATOR:
        return lk_jat_operator(c, "[") || lk_jat_operator(c, "{");
    default:
        return false;
    }
}

static bool postfix(lk_jcompiler *c);

static bool one_test(lk_jcompiler *c) {
    bool negated = false;
    arguments args = {0, 0};
    if (!lk_jcompile_next(c)) {
        return false;
    }
    if (lk_jat_name(c, "not")) {
        negated = true;
        if (!lk_jcompile_next(c)) {
            return false;
        }
    }
    const lk_jtoken name = c->token;
    if (name.kind != LK_JT_NAME) {
        return lk_jcompile_fail(c, LK_E_FORMAT, name.line, "expected the name of a test");
    }
    if (!lk_jcompile_next(c)) {
        return false;
    }
    if (lk_jat_operator(c, "(")) {
        if (!optional_arguments(c, &args)) {
            return false;
        }
    } else if (begins_test_argument(c)) {
        args.n = 1;
        if (!primary(c) || !postfix(c)) {
            return false;
        }
    }
    if (args.names != 0) {
        return lk_jcompile_fail(c, LK_E_UNSUPPORTED, name.line,
                                "named arguments of a test are not supported");
    }
    const int test = lk_jlookup_test(name.bytes, name.n);
    const bool ok =
        test >= 0 ? lk_jemit(c, LK_JOP_test, args.n, test, 0) : unknown(c, &name, true, args.n);
    return ok && (!negated || lk_jemit(c, LK_JOP_not_, 0, 0, 0));
}

/* What stands between '[' and ']': an index, or a slice. */
static bool subscript(lk_jcompiler *c) {
    bool is_slice = false;
    for (int part = 0; part < 3; part++) {
        const bool empty = lk_jat_operator(c, ":") || lk_jat_operator(c, "]");
        if (empty ? !lk_jemit(c, LK_JOP_push_none, 0, 0, 0) : !lk_jexpression_tuple(c, true)) {
            return false;
        }
        if (part == 0 && !lk_jat_operator(c, ":")) {
            if (empty) {
                return lk_jcompile_fail(c, LK_E_FORMAT, c->token.line, "an index is missing");
            }
            break;
        }
        is_slice = true;
        if (part < 2 && lk_jat_operator(c, ":") && !lk_jcompile_next(c)) {
            return false;
        }
    }
    return lk_jexpect_operator(c, "]") &&
           lk_jemit(c, is_slice ? LK_JOP_slice : LK_JOP_item, 0, 0, 0);
}

static bool attribute(lk_jcompiler *c) {
    uint32_t name = 0;
    if (c->token.kind == LK_JT_INTEGER) {
        int64_t index = 0;
        if (!lk_jparse_int(c->token.bytes, c->token.n, &index)) {
            return lk_jcompile_fail(c, LK_E_FORMAT, c->token.line, "an index beyond 64 bits");
        }
        return lk_jemit_constant(c, LK_JOP_constant, lk_jint(index)) && lk_jcompile_next(c) &&
               lk_jemit(c, LK_JOP_item, 0, 0, 0);
    }
    return lk_jcompile_name(c, &name) && lk_jemit(c, LK_JOP_attr, 0, name, 0);
}

static bool call(lk_jcompiler *c) {
    arguments args;
    return call_arguments(c, &args) && lk_jemit(c, LK_JOP_call, args.n, 0, args.names);
}

static bool postfix(lk_jcompiler *c) {
    for (;;) {
        bool (*part)(lk_jcompiler *) = lk_jat_operator(c, ".")   ? attribute
                                       : lk_jat_operator(c, "[") ? subscript
                                       : lk_jat_operator(c, "(") ? call
                                                                 : NULL;
        if (part == NULL) {
            return true;
        }
        if (!lk_jcompile_next(c) || !part(c)) {
            return false;
        }
    }
}

static bool filters_and_tests(lk_jcompiler *c) {
    for (;;) {
        if (lk_jat_operator(c, "|")) {
            if (!lk_jcompile_next(c) || !lk_jfilter(c)) {
                return false;
            }
        } else if (lk_jat_name(c, "is")) {
            if (!one_test(c)) {
                return false;
            }
        } else if (lk_jat_operator(c, "(")) {
            if (!lk_jcompile_next(c) || !call(c)) {
                return false;
            }
        } else {
            return true;
        }
    }
}

/* Adjacent strings are one. */
static bool string_literal(lk_jcompiler *c) {
    const lk_jstring *text = NULL;
    while (c->token.kind == LK_JT_STRING) {
        const lk_jstring *part = lk_jlexer_string(&c->lexer, &c->token);
        if (part != NULL && text != NULL) {
            const lk_jstring *both = lk_jstring_concat(c->heap, text, part);
            part =
                both != NULL ? lk_jstring_new(c->heap, both->bytes, both->n, LK_J_TEMPLATE) : NULL;
        }
        if (part == NULL) {
            return c->lexer.problem != NULL
                       ? lk_jcompile_fail(c, LK_E_FORMAT, c->token.line, "%s", c->lexer.problem)
                       : lk_jcompile_nomem(c);
        }
        text = part;
        if (!lk_jcompile_next(c)) {
            return false;
        }
    }
    return lk_jemit_constant(c, LK_JOP_constant, lk_jstr(text));
}

static bool number_literal(lk_jcompiler *c) {
    lk_jvalue value;
    if (c->token.kind == LK_JT_INTEGER) {
        int64_t i = 0;
        if (!lk_jparse_int(c->token.bytes, c->token.n, &i)) {
            return lk_jcompile_fail(c, LK_E_FORMAT, c->token.line,
                                    "an integer that is not valid or beyond 64 bits");
        }
        value = lk_jint(i);
    } else {
        value = lk_jfloat(lk_jparse_float(c->token.bytes, c->token.n));
    }
    return lk_jemit_constant(c, LK_JOP_constant, value) && lk_jcompile_next(c);
}

static bool name_expression(lk_jcompiler *c) {
    static const struct {
        const char *name;
        lk_jop op;
        int a;
    } constants[] = {
        {"true", LK_JOP_push_bool, 1},  {"True", LK_JOP_push_bool, 1},
        {"false", LK_JOP_push_bool, 0}, {"False", LK_JOP_push_bool, 0},
        {"none", LK_JOP_push_none, 0},  {"None", LK_JOP_push_none, 0},
    };
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++) {
        if (lk_jat_name(c, constants[i].name)) {
            return lk_jemit(c, constants[i].op, 0, constants[i].a, 0) && lk_jcompile_next(c);
        }
    }
    if (c->macro != LK_JNO_NAME) {
        lk_jmacro_code *macro = &c->program->macros[c->macro];
        macro->takes_varargs = macro->takes_varargs || lk_jat_name(c, "varargs");
        macro->takes_kwargs = macro->takes_kwargs || lk_jat_name(c, "kwargs");
        macro->takes_caller = macro->takes_caller || lk_jat_name(c, "caller");
    }
    uint32_t name = 0;
    return lk_jcompile_name(c, &name) && lk_jemit(c, LK_JOP_load, 0, name, 0);
}

/* Elements up to the closing bracket, which is passed. */
static bool elements(lk_jcompiler *c, const char *close, uint32_t *n, bool *has_comma) {
    *n = 0;
    *has_comma = false;
    while (!lk_jat_operator(c, close)) {
        if (*n == UINT16_MAX) {
            return lk_jcompile_fail(c, LK_E_LIMIT, c->token.line, "too many elements");
        }
        if (!lk_jexpression(c, true)) {
            return false;
        }
        (*n)++;
        if (!lk_jat_operator(c, ",")) {
            break;
        }
        *has_comma = true;
        if (!lk_jcompile_next(c)) {
            return false;
        }
    }
    return lk_jexpect_operator(c, close);
}

static bool dict_literal(lk_jcompiler *c) {
    uint32_t n = 0;
    while (!lk_jat_operator(c, "}")) {
        if (n == UINT16_MAX) {
            return lk_jcompile_fail(c, LK_E_LIMIT, c->token.line, "too many elements");
        }
        if (!lk_jexpression(c, true) || !lk_jexpect_operator(c, ":") || !lk_jexpression(c, true)) {
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
    return lk_jexpect_operator(c, "}") && lk_jemit(c, LK_JOP_make_dict, n, 0, 0);
}

static bool primary(lk_jcompiler *c) {
    uint32_t n = 0;
    bool has_comma = false;
    switch (c->token.kind) {
    case LK_JT_NAME:
        return name_expression(c);
    case LK_JT_STRING:
        return string_literal(c);
    case LK_JT_INTEGER:
    case LK_JT_FLOAT:
        return number_literal(c);
    default:
        break;
    }
    if (lk_jat_operator(c, "(")) {
        return lk_jcompile_next(c) && elements(c, ")", &n, &has_comma) &&
               ((n == 1 && !has_comma) || lk_jemit(c, LK_JOP_make_tuple, n, 0, 0));
    }
    if (lk_jat_operator(c, "[")) {
        return lk_jcompile_next(c) && elements(c, "]", &n, &has_comma) &&
               lk_jemit(c, LK_JOP_make_list, n, 0, 0);
    }
    if (lk_jat_operator(c, "{")) {
        return lk_jcompile_next(c) && dict_literal(c);
    }
    return lk_jcompile_fail(c, LK_E_FORMAT, c->token.line, "expected a value, not '%.*s'",
                            (int)(c->token.n < 40 ? c->token.n : 40),
                            c->token.n != 0 ? (const char *)c->token.bytes : "");
}

static bool unary(lk_jcompiler *c, bool with_filter) {
    if (!lk_jcompile_enter(c)) {
        return false;
    }
    bool ok = true;
    if (lk_jat_operator(c, "-") || lk_jat_operator(c, "+")) {
        const lk_jop op = lk_jat_operator(c, "-") ? LK_JOP_negate : LK_JOP_positive;
        ok = lk_jcompile_next(c) && unary(c, false) && lk_jemit(c, op, 0, 0, 0);
    } else {
        ok = primary(c);
    }
    ok = ok && postfix(c) && (!with_filter || filters_and_tests(c));
    c->depth--;
    return ok;
}

static bool power(lk_jcompiler *c) {
    if (!unary(c, true)) {
        return false;
    }
    while (lk_jat_operator(c, "**")) {
        if (!lk_jcompile_next(c) || !unary(c, true) || !lk_jemit(c, LK_JOP_power, 0, 0, 0)) {
            return false;
        }
    }
    return true;
}

typedef struct binary {
    const char *text;
    lk_jop op;
} binary;

/* Operators of one level, from the left. */
static bool chain(lk_jcompiler *c, const binary *ops, size_t n_ops,
                  bool (*operand)(lk_jcompiler *)) {
    if (!operand(c)) {
        return false;
    }
    for (;;) {
        size_t i = 0;
        while (i < n_ops && !lk_jat_operator(c, ops[i].text)) {
            i++;
        }
        if (i == n_ops) {
            return true;
        }
        if (!lk_jcompile_next(c) || !operand(c) || !lk_jemit(c, ops[i].op, 0, 0, 0)) {
            return false;
        }
    }
}

static bool product(lk_jcompiler *c) {
    static const binary ops[] = {{"*", LK_JOP_multiply},
                                 {"/", LK_JOP_divide},
                                 {"//", LK_JOP_floor_divide},
                                 {"%", LK_JOP_modulo}};
    return chain(c, ops, sizeof ops / sizeof ops[0], power);
}

static bool concat(lk_jcompiler *c) {
    uint32_t n = 1;
    if (!product(c)) {
        return false;
    }
    while (lk_jat_operator(c, "~")) {
        if (n == UINT16_MAX) {
            return lk_jcompile_fail(c, LK_E_LIMIT, c->token.line, "too many operands");
        }
        if (!lk_jcompile_next(c) || !product(c)) {
            return false;
        }
        n++;
    }
    return n == 1 || lk_jemit(c, LK_JOP_concat, n, 0, 0);
}

static bool sum(lk_jcompiler *c) {
    static const binary ops[] = {{"+", LK_JOP_add}, {"-", LK_JOP_subtract}};
    return chain(c, ops, sizeof ops / sizeof ops[0], concat);
}

/* The comparison at the current token, which is passed; -1: none. */
static bool comparison(lk_jcompiler *c, int *found) {
    static const char *const texts[] = {"==", "!=", "<", "<=", ">", ">="}; /* as lk_jcomparison */
    lk_jtoken ahead;
    *found = -1;
    for (int i = 0; i < 6; i++) {
        if (lk_jat_operator(c, texts[i])) {
            *found = i;
            return lk_jcompile_next(c);
        }
    }
    if (lk_jat_name(c, "in")) {
        *found = LK_JCMP_IN;
        return lk_jcompile_next(c);
    }
    if (lk_jat_name(c, "not")) {
        if (!lk_jcompile_ahead(c, &ahead)) {
            return false;
        }
        if (lk_jis_token(&ahead, LK_JT_NAME, "in")) {
            *found = LK_JCMP_NOT_IN;
            return lk_jcompile_next(c) ? lk_jcompile_next(c) : false; /* two words */
        }
    }
    return true;
}

/* a < b < c: each comparison but the last jumps to the end when it fails. */
static bool compare(lk_jcompiler *c) {
    enum { MAX_CHAIN = 16 };
    uint32_t jumps[MAX_CHAIN];
    uint32_t n = 0;
    int current = -1;
    if (!sum(c) || !comparison(c, &current)) {
        return false;
    }
    while (current >= 0) {
        int next = -1;
        if (!sum(c) || !comparison(c, &next)) {
            return false;
        }
        if (next >= 0) {
            if (n == MAX_CHAIN) {
                return lk_jcompile_fail(c, LK_E_LIMIT, c->token.line, "too many comparisons");
            }
            jumps[n++] = c->program->n_code;
        }
        if (!lk_jemit(c, next >= 0 ? LK_JOP_compare_chain : LK_JOP_compare, 0, current, 0)) {
            return false;
        }
        current = next;
    }
    for (uint32_t i = 0; i < n; i++) {
        lk_jpatch_b(c, jumps[i]);
    }
    return true;
}

static bool not_expression(lk_jcompiler *c) {
    if (!lk_jat_name(c, "not")) {
        return compare(c);
    }
    const bool ok = lk_jcompile_enter(c) && lk_jcompile_next(c) && not_expression(c) &&
                    lk_jemit(c, LK_JOP_not_, 0, 0, 0);
    c->depth--;
    return ok;
}

/* Operands joined by `and` or `or`: the first that decides is the value. */
static bool logic(lk_jcompiler *c, const char *word, lk_jop op, bool (*operand)(lk_jcompiler *)) {
    if (!operand(c)) {
        return false;
    }
    while (lk_jat_name(c, word)) {
        const uint32_t at = c->program->n_code;
        if (!lk_jemit(c, op, 0, 0, 0) || !lk_jcompile_next(c) || !operand(c)) {
            return false;
        }
        lk_jpatch_a(c, at);
    }
    return true;
}

static bool and_expression(lk_jcompiler *c) {
    return logic(c, "and", LK_JOP_and_else, not_expression);
}

static bool or_expression(lk_jcompiler *c) {
    return logic(c, "or", LK_JOP_or_else, and_expression);
}

/* `a if condition else b`, with the code of a already written from `start` on: the condition's code
 * changes places with it. */
static bool condition(lk_jcompiler *c, uint32_t start) {
    while (lk_jat_name(c, "if")) {
        const uint32_t middle = c->program->n_code;
        if (!lk_jcompile_next(c) || !or_expression(c) ||
            !lk_jemit(c, LK_JOP_jump_if_false, 0, 0, 0)) {
            return false;
        }
        const uint32_t n_condition = c->program->n_code - middle;
        if (!lk_jrotate(c, start, middle)) {
            return false;
        }
        const uint32_t jump_else = start + n_condition - 1;
        const uint32_t jump_end = c->program->n_code;
        if (!lk_jemit(c, LK_JOP_jump, 0, 0, 0)) {
            return false;
        }
        lk_jpatch_a(c, jump_else);
        if (lk_jat_name(c, "else")) {
            if (!lk_jcompile_next(c) || !lk_jexpression(c, true)) {
                return false;
            }
        } else if (!lk_jemit(c, LK_JOP_load, 0, -1, 0)) {
            return false;
        }
        lk_jpatch_a(c, jump_end);
    }
    return true;
}

bool lk_jexpression(lk_jcompiler *c, bool with_condition) {
    const uint32_t start = c->program->n_code;
    const bool ok =
        lk_jcompile_enter(c) && or_expression(c) && (!with_condition || condition(c, start));
    c->depth--;
    return ok;
}

static bool ends_tuple(const lk_jcompiler *c) {
    return c->token.kind == LK_JT_BLOCK_END || c->token.kind == LK_JT_PRINT_END ||
           lk_jat_operator(c, ")") || lk_jat_operator(c, "]") || lk_jat_name(c, "if") ||
           lk_jat_name(c, "recursive");
}

bool lk_jexpression_tuple(lk_jcompiler *c, bool with_condition) {
    uint32_t n = 1;
    bool is_tuple = false;
    if (!lk_jexpression(c, with_condition)) {
        return false;
    }
    while (lk_jat_operator(c, ",")) {
        is_tuple = true;
        if (!lk_jcompile_next(c)) {
            return false;
        }
        if (ends_tuple(c)) {
            break;
        }
        if (n == UINT16_MAX) {
            return lk_jcompile_fail(c, LK_E_LIMIT, c->token.line, "too many elements");
        }
        if (!lk_jexpression(c, with_condition)) {
            return false;
        }
        n++;
    }
    return !is_tuple || lk_jemit(c, LK_JOP_make_tuple, n, 0, 0);
}
