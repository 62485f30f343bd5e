/* jinja_vm.c - the interpreter: one function for each instruction of jinja_ops.def, a stack of
 * values, and explicit stacks of loops, calls and captured output, all bounded. */
#include "text/jinja/jinja_vm.h"

#include <string.h>

#include "text/jinja/jinja_builtins.h"
#include "text/jinja/jinja_render.h"

#define MAX_CAPTURES ((size_t)1000)

/* Doubles an array of the machine when it is full. */
static bool make_room(lk_jvm *vm, void *array, size_t n, size_t *capacity, size_t elem_size,
                      size_t max, const char *what) {
    if (n < *capacity) {
        return true;
    }
    if (n >= max) {
        return lk_jfail_status(vm, LK_E_LIMIT, "more than %zu %s", max, what);
    }
    return lk_jheap_make_room(&vm->heap, array, n, capacity, elem_size) || lk_jheap_failed(vm);
}

static bool push(lk_jvm *vm, lk_jvalue v) {
    if (!make_room(vm, (void *)&vm->stack, vm->n_stack, &vm->stack_capacity, sizeof *vm->stack,
                   LK_JMAX_STACK, "values in one expression")) {
        return false;
    }
    vm->stack[vm->n_stack++] = v;
    return true;
}

static lk_jvalue pop(lk_jvm *vm) {
    return vm->stack[--vm->n_stack];
}

static lk_jvalue *top(lk_jvm *vm) {
    return &vm->stack[vm->n_stack - 1];
}

static void jump(lk_jvm *vm, int32_t by) {
    vm->pc = (uint32_t)((int64_t)vm->pc + by);
}

/* ---- variables ---- */

static lk_jscope *new_scope(lk_jvm *vm, lk_jscope *parent) {
    lk_jscope *scope = lk_jheap_alloc(&vm->heap, sizeof *scope);
    if (scope == NULL) {
        (void)lk_jheap_failed(vm);
        return NULL;
    }
    *scope = (lk_jscope){.parent = parent};
    if (parent != NULL) {
        parent->is_shared = true;
    }
    return scope;
}

static bool set_variable(lk_jvm *vm, lk_jscope *scope, uint32_t name, lk_jvalue value) {
    for (uint32_t i = 0; i < scope->n; i++) {
        if (scope->variables[i].name == name) {
            scope->variables[i].value = value;
            return true;
        }
    }
    if (scope->n == scope->capacity) {
        const uint32_t capacity = scope->capacity == 0 ? 4 : 2 * scope->capacity;
        lk_jvariable *grown =
            lk_jheap_grow(&vm->heap, scope->variables, scope->n, capacity, sizeof *grown);
        if (grown == NULL) {
            return lk_jheap_failed(vm);
        }
        scope->variables = grown;
        scope->capacity = capacity;
    }
    scope->variables[scope->n++] = (lk_jvariable){name, value};
    return lk_jcheck(vm, lk_jheap_charge(&vm->heap, scope->n / 8));
}

static lk_jvalue *find_variable(lk_jvm *vm, uint32_t name) {
    for (lk_jscope *scope = vm->scope; scope != NULL; scope = scope->parent) {
        for (uint32_t i = 0; i < scope->n; i++) {
            if (scope->variables[i].name == name) {
                return &scope->variables[i].value;
            }
        }
        (void)lk_jheap_charge(&vm->heap, 1 + scope->n / 8);
    }
    return NULL;
}

/* ---- captured output ---- */

static bool begin_capture(lk_jvm *vm) {
    if (!make_room(vm, (void *)&vm->captures, vm->n_captures, &vm->capture_capacity,
                   sizeof *vm->captures, MAX_CAPTURES, "captured texts inside each other")) {
        return false;
    }
    lk_jbuild_init(&vm->captures[vm->n_captures++], &vm->heap);
    return true;
}

static bool end_capture(lk_jvm *vm) {
    const lk_jstring *text = lk_jbuild_finish(&vm->captures[--vm->n_captures]);
    return text != NULL ? push(vm, lk_jstr(text)) : lk_jheap_failed(vm);
}

/* ---- instructions ---- */

static bool op_text(lk_jvm *vm, const lk_jinstr *i) {
    return lk_jcheck(
        vm, lk_jbuild_string(&vm->captures[vm->n_captures - 1], vm->program->constants[i->a].s));
}

static bool op_print(lk_jvm *vm, const lk_jinstr *i) {
    (void)i;
    return lk_jprint(vm, &vm->captures[vm->n_captures - 1], pop(vm));
}

static bool op_constant(lk_jvm *vm, const lk_jinstr *i) {
    return push(vm, vm->program->constants[i->a]);
}

static bool op_push_none(lk_jvm *vm, const lk_jinstr *i) {
    (void)i;
    return push(vm, lk_jnone());
}

static bool op_push_bool(lk_jvm *vm, const lk_jinstr *i) {
    return push(vm, lk_jbool(i->a != 0));
}

static bool op_load(lk_jvm *vm, const lk_jinstr *i) {
    if (i->a < 0) {
        return push(vm, (lk_jvalue){.type = LK_J_UNDEFINED});
    }
    const lk_jvalue *found = find_variable(vm, (uint32_t)i->a);
    lk_jvalue value = {.type = LK_J_UNDEFINED};
    if (found != NULL && found->type != LK_J_UNSET) {
        value = *found;
    } else {
        value.s = vm->program->names[i->a];
    }
    return push(vm, value);
}

static bool op_store(lk_jvm *vm, const lk_jinstr *i) {
    return set_variable(vm, vm->scope, (uint32_t)i->a, pop(vm));
}

static bool op_store_attr(lk_jvm *vm, const lk_jinstr *i) {
    const lk_jvalue *object = find_variable(vm, (uint32_t)i->a);
    const lk_jvalue value = pop(vm);
    if (object == NULL || object->type != LK_J_NAMESPACE) {
        return lk_jfail(vm, "cannot assign attribute on non-namespace object '%.*s'",
                        (int)vm->program->names[i->a]->n,
                        (const char *)vm->program->names[i->a]->bytes);
    }
    return lk_jcheck(
        vm, lk_jdict_set(&vm->heap, object->dict, lk_jstr(vm->program->names[i->b]), value));
}

static bool op_pop(lk_jvm *vm, const lk_jinstr *i) {
    (void)i;
    (void)pop(vm);
    return true;
}

static bool op_attr(lk_jvm *vm, const lk_jinstr *i) {
    const lk_jvalue v = pop(vm);
    lk_jvalue out = lk_jnone();
    return lk_jget_attr(vm, v, vm->program->names[i->a], &out) && push(vm, out);
}

static bool op_item(lk_jvm *vm, const lk_jinstr *i) {
    (void)i;
    const lk_jvalue key = pop(vm);
    const lk_jvalue v = pop(vm);
    lk_jvalue out = lk_jnone();
    return lk_jget_item(vm, v, key, &out) && push(vm, out);
}

static bool op_slice(lk_jvm *vm, const lk_jinstr *i) {
    (void)i;
    lk_jvalue bounds[3];
    lk_jvalue out = lk_jnone();
    vm->n_stack -= 3;
    memcpy(bounds, vm->stack + vm->n_stack, sizeof bounds);
    return lk_jget_slice(vm, pop(vm), bounds, &out) && push(vm, out);
}

static bool make_sequence(lk_jvm *vm, lk_jtype type, uint16_t n) {
    lk_jlist *list = lk_jlist_new(&vm->heap, n);
    if (list == NULL) {
        return lk_jheap_failed(vm);
    }
    vm->n_stack -= n;
    if (n != 0) {
        memcpy(list->items, vm->stack + vm->n_stack, n * sizeof *list->items);
    }
    list->n = n;
    return push(vm, (lk_jvalue){.type = type, .list = list});
}

static bool op_make_list(lk_jvm *vm, const lk_jinstr *i) {
    return make_sequence(vm, LK_J_LIST, i->n);
}

static bool op_make_tuple(lk_jvm *vm, const lk_jinstr *i) {
    return make_sequence(vm, LK_J_TUPLE, i->n);
}

static bool op_make_dict(lk_jvm *vm, const lk_jinstr *i) {
    lk_jdict *dict = lk_jdict_new(&vm->heap);
    if (dict == NULL) {
        return lk_jheap_failed(vm);
    }
    if (i->n == 0) { /* perhaps there is no stack yet */
        return push(vm, (lk_jvalue){.type = LK_J_DICT, .dict = dict});
    }
    vm->n_stack -= 2 * (size_t)i->n;
    const lk_jvalue *pairs = vm->stack + vm->n_stack;
    for (size_t k = 0; k < i->n; k++) {
        if (!lk_jis_key(pairs[2 * k])) {
            return lk_jfail(vm, "a value of type '%s' cannot be a key",
                            lk_jtype_name(pairs[2 * k]));
        }
        if (!lk_jdict_set(&vm->heap, dict, pairs[2 * k], pairs[2 * k + 1])) {
            return lk_jheap_failed(vm);
        }
    }
    return push(vm, (lk_jvalue){.type = LK_J_DICT, .dict = dict});
}

static bool op_unpack(lk_jvm *vm, const lk_jinstr *i) {
    lk_jlist *list = NULL;
    if (!lk_jelements(vm, pop(vm), &list)) {
        return false;
    }
    if (list->n != i->n) {
        return lk_jfail(vm, "cannot unpack %zu values into %u names", list->n, (unsigned)i->n);
    }
    for (size_t k = list->n; k-- > 0;) {
        if (!push(vm, list->items[k])) {
            return false;
        }
    }
    return true;
}

static bool op_jump(lk_jvm *vm, const lk_jinstr *i) {
    jump(vm, i->a);
    return true;
}

static bool op_jump_if_false(lk_jvm *vm, const lk_jinstr *i) {
    if (!lk_jtruth(pop(vm))) {
        jump(vm, i->a);
    }
    return true;
}

static bool op_and_else(lk_jvm *vm, const lk_jinstr *i) {
    if (lk_jtruth(*top(vm))) {
        vm->n_stack--;
    } else {
        jump(vm, i->a);
    }
    return true;
}

static bool op_or_else(lk_jvm *vm, const lk_jinstr *i) {
    if (lk_jtruth(*top(vm))) {
        jump(vm, i->a);
    } else {
        vm->n_stack--;
    }
    return true;
}

static bool op_not_(lk_jvm *vm, const lk_jinstr *i) {
    (void)i;
    *top(vm) = lk_jbool(!lk_jtruth(*top(vm)));
    return true;
}

static bool arithmetic(lk_jvm *vm, const lk_jinstr *i) {
    const lk_jvalue b = pop(vm);
    const lk_jvalue a = pop(vm);
    lk_jvalue out = lk_jnone();
    return lk_jarithmetic(vm, (lk_jop)i->op, a, b, &out) && push(vm, out);
}

/* -v is 0 - v, but for the sign of a zero: v * -1. */
static bool op_negate(lk_jvm *vm, const lk_jinstr *i) {
    (void)i;
    lk_jvalue out = lk_jnone();
    const lk_jvalue v = pop(vm);
    return lk_jarithmetic(vm, LK_JOP_negate, v, lk_jint(-1), &out) && push(vm, out);
}

static bool op_positive(lk_jvm *vm, const lk_jinstr *i) {
    (void)i;
    lk_jvalue out = lk_jnone();
    const lk_jvalue v = pop(vm);
    return lk_jarithmetic(vm, LK_JOP_positive, v, lk_jint(1), &out) && push(vm, out);
}

static bool op_add(lk_jvm *vm, const lk_jinstr *i) {
    (void)i;
    const lk_jvalue b = pop(vm);
    const lk_jvalue a = pop(vm);
    lk_jvalue out = lk_jnone();
    return lk_jadd(vm, a, b, &out) && push(vm, out);
}

#define op_subtract arithmetic
#define op_multiply arithmetic
#define op_divide arithmetic
#define op_floor_divide arithmetic
#define op_modulo arithmetic
#define op_power arithmetic

static bool op_concat(lk_jvm *vm, const lk_jinstr *i) {
    vm->n_stack -= i->n;
    const lk_jvalue *parts = vm->stack + vm->n_stack;
    const lk_jstring *text = lk_jto_string(vm, parts[0]);
    for (size_t k = 1; k < i->n && text != NULL; k++) {
        const lk_jstring *part = lk_jto_string(vm, parts[k]);
        text = part != NULL ? lk_jstring_concat(&vm->heap, text, part) : NULL;
    }
    return text != NULL ? push(vm, lk_jstr(text)) : lk_jheap_failed(vm);
}

static bool op_compare(lk_jvm *vm, const lk_jinstr *i) {
    const lk_jvalue b = pop(vm);
    const lk_jvalue a = pop(vm);
    bool out = false;
    return lk_jcompare_op(vm, i->a, a, b, &out) && push(vm, lk_jbool(out));
}

static bool op_compare_chain(lk_jvm *vm, const lk_jinstr *i) {
    const lk_jvalue b = pop(vm);
    const lk_jvalue a = pop(vm);
    bool out = false;
    if (!lk_jcompare_op(vm, i->a, a, b, &out)) {
        return false;
    }
    if (!out) {
        jump(vm, i->b);
    }
    return push(vm, out ? b : lk_jbool(false));
}

static lk_jargs take_args(lk_jvm *vm, uint16_t n, int32_t names) {
    vm->n_stack -= n;
    return (lk_jargs){vm->stack + vm->n_stack, n, vm->program->arg_names[names]};
}

static bool op_filter(lk_jvm *vm, const lk_jinstr *i) {
    const lk_jargs args = take_args(vm, i->n, i->b);
    const lk_jvalue v = pop(vm);
    lk_jvalue out = lk_jnone();
    return lk_jfilter_call(vm, i->a, v, &args, &out) && push(vm, out);
}

static bool op_test(lk_jvm *vm, const lk_jinstr *i) {
    const lk_jargs args = take_args(vm, i->n, 0);
    const lk_jvalue v = pop(vm);
    bool out = false;
    return lk_jtest_call(vm, i->a, v, &args, &out) && push(vm, lk_jbool(out));
}

static bool op_unknown(lk_jvm *vm, const lk_jinstr *i) {
    return lk_jfail_status(vm, LK_E_UNSUPPORTED, "there is no %s named '%.*s'",
                           i->b != 0 ? "test" : "filter", (int)vm->program->names[i->a]->n,
                           (const char *)vm->program->names[i->a]->bytes);
}

/* ---- macros ---- */

static bool op_macro(lk_jvm *vm, const lk_jinstr *i) {
    lk_jmacro *macro = lk_jheap_alloc(&vm->heap, sizeof *macro);
    if (macro == NULL) {
        return lk_jheap_failed(vm);
    }
    *macro = (lk_jmacro){.code = &vm->program->macros[i->a], .scope = vm->scope};
    macro->entry = (uint32_t)((int64_t)vm->pc + i->b);
    vm->scope->is_shared = true;
    return push(vm, (lk_jvalue){.type = LK_J_MACRO, .object = macro});
}

/* Named arguments of a macro's call: a parameter, `caller`, or one of kwargs. */
static bool bind_named(lk_jvm *vm, const lk_jmacro_code *code, lk_jscope *scope,
                       const lk_jargs *args, lk_jdict *rest) {
    for (uint32_t k = 0; k < args->names.n; k++) {
        const uint32_t name = args->names.names[k];
        const lk_jvalue value = args->values[args->n - args->names.n + k];
        const lk_jstring *text = vm->program->names[name];
        uint32_t p = 0;
        while (p < code->n_params && code->params[p] != name) {
            p++;
        }
        const bool is_caller = lk_jstring_is(text, "caller");
        if (p < code->n_params && scope->variables[p].value.type != LK_J_UNSET) {
            return lk_jfail(vm, "the macro got two values for '%.*s'", (int)text->n,
                            (const char *)text->bytes);
        }
        if (p < code->n_params) {
            scope->variables[p].value = value;
        } else if (is_caller && code->takes_caller) {
            if (!set_variable(vm, scope, name, value)) {
                return false;
            }
        } else if (code->takes_kwargs) {
            if (!lk_jdict_set(&vm->heap, rest, lk_jstr(text), value)) {
                return lk_jheap_failed(vm);
            }
        } else {
            return lk_jfail(vm, "the macro takes no argument named '%.*s'", (int)text->n,
                            (const char *)text->bytes);
        }
    }
    return true;
}

static bool set_named(lk_jvm *vm, lk_jscope *scope, const char *name, lk_jvalue value) {
    const uint32_t number = lk_jprogram_find_name(vm->program, name);
    return number == LK_JNO_NAME || set_variable(vm, scope, number, value);
}

static bool bind_macro(lk_jvm *vm, const lk_jmacro_code *code, lk_jscope *scope,
                       const lk_jargs *args) {
    const uint32_t n_positional = lk_jargs_positional(args);
    lk_jlist *varargs = lk_jlist_new(&vm->heap, 0);
    lk_jdict *kwargs = lk_jdict_new(&vm->heap);
    if (varargs == NULL || kwargs == NULL) {
        return lk_jheap_failed(vm);
    }
    for (uint32_t p = 0; p < code->n_params; p++) {
        const lk_jvalue unset = {.type = LK_J_UNSET};
        if (!set_variable(vm, scope, code->params[p], unset)) {
            return false;
        }
    }
    if (scope->n != code->n_params) {
        return lk_jfail(vm, "the macro has two parameters of one name");
    }
    for (uint32_t p = 0; p < n_positional; p++) {
        if (p < code->n_params) {
            scope->variables[p].value = args->values[p];
        } else if (!code->takes_varargs) {
            return lk_jfail(vm, "the macro takes %u arguments, not %u", code->n_params,
                            n_positional);
        } else if (!lk_jlist_push(&vm->heap, varargs, args->values[p])) {
            return lk_jheap_failed(vm);
        }
    }
    if (!bind_named(vm, code, scope, args, kwargs)) {
        return false;
    }
    const lk_jvalue rest = {.type = LK_J_TUPLE, .list = varargs};
    const lk_jvalue named = {.type = LK_J_DICT, .dict = kwargs};
    return (!code->takes_varargs || set_named(vm, scope, "varargs", rest)) &&
           (!code->takes_kwargs || set_named(vm, scope, "kwargs", named));
}

static bool call_macro(lk_jvm *vm, const lk_jmacro *macro, const lk_jargs *args) {
    lk_jscope *scope = new_scope(vm, macro->scope);
    if (scope == NULL ||
        !make_room(vm, (void *)&vm->calls, vm->n_calls, &vm->call_capacity, sizeof *vm->calls,
                   LK_JMAX_CALLS, "macros inside each other") ||
        !bind_macro(vm, macro->code, scope, args)) {
        return false;
    }
    vm->calls[vm->n_calls++] = (lk_jcall_frame){.return_pc = vm->pc,
                                                .scope = vm->scope,
                                                .n_loops = vm->n_loops,
                                                .n_captures = vm->n_captures};
    vm->scope = scope;
    vm->pc = macro->entry;
    return begin_capture(vm);
}

static bool op_parameter(lk_jvm *vm, const lk_jinstr *i) {
    if (vm->scope->variables[i->a].value.type != LK_J_UNSET) {
        jump(vm, i->b);
    }
    return true;
}

static bool op_return_(lk_jvm *vm, const lk_jinstr *i) {
    (void)i;
    const lk_jcall_frame frame = vm->calls[--vm->n_calls];
    vm->pc = frame.return_pc;
    vm->scope = frame.scope;
    vm->n_loops = frame.n_loops;
    return end_capture(vm);
}

static bool op_call(lk_jvm *vm, const lk_jinstr *i) {
    const lk_jargs args = take_args(vm, i->n, i->b);
    const lk_jvalue callee = pop(vm);
    lk_jvalue out = lk_jnone();
    const lk_jmethod *method = callee.object;
    lk_jjoiner *joiner = callee.object;
    switch (callee.type) {
    case LK_J_MACRO:
        return call_macro(vm, callee.object, &args);
    case LK_J_FUNCTION:
        return lk_jfunction_call(vm, callee.aux, &args, &out) && push(vm, out);
    case LK_J_METHOD:
        return lk_jmethod_call(vm, method->number, method->self, &args, &out) && push(vm, out);
    case LK_J_JOINER: {
        static const lk_jstring empty = {.bytes = (const uint8_t *)""};
        const bool is_first = !joiner->is_used;
        joiner->is_used = true;
        return push(vm, lk_jstr(is_first ? &empty : joiner->separator));
    }
    case LK_J_UNDEFINED:
        return lk_jfail_undefined(vm, callee);
    default:
        return lk_jfail(vm, "a value of type '%s' cannot be called", lk_jtype_name(callee));
    }
}

/* ---- loops ---- */

static size_t source_length(lk_jvalue v) {
    return v.type == LK_J_STRING ? v.s->n_chars : v.type == LK_J_DICT ? v.dict->n : v.list->n;
}

/* Reads the next element of the source into loop->next. */
static bool fetch(lk_jvm *vm, lk_jloop *loop, size_t i) {
    loop->next = (lk_jvalue){.type = LK_J_UNDEFINED};
    if (i >= loop->n) {
        return true;
    }
    if (loop->source.type == LK_J_STRING) {
        const lk_jstring *s = loop->source.s;
        size_t end = loop->byte + 1;
        while (end < s->n && (s->bytes[end] & 0xC0) == 0x80) {
            end++;
        }
        const lk_jstring *c = lk_jstring_slice(&vm->heap, s, loop->byte, end);
        loop->byte = end;
        return lk_jreturn(vm, c, &loop->next);
    }
    if (loop->source.type == LK_J_DICT) {
        loop->next = loop->source.dict->entries[i].key;
    } else if (i < loop->source.list->n) { /* it may have become shorter */
        loop->next = loop->source.list->items[i];
    }
    return true;
}

static bool op_for_begin(lk_jvm *vm, const lk_jinstr *i) {
    lk_jvalue source = pop(vm);
    const bool direct =
        lk_jis_sequence(source) || source.type == LK_J_DICT || source.type == LK_J_STRING;
    if (!direct) {
        lk_jlist *list = NULL;
        if (!lk_jelements(vm, source, &list)) {
            return false;
        }
        source = (lk_jvalue){.type = LK_J_LIST, .list = list};
    }
    lk_jloop *loop = lk_jheap_alloc(&vm->heap, sizeof *loop);
    if (loop == NULL) {
        return lk_jheap_failed(vm);
    }
    *loop = (lk_jloop){.source = source, .i = SIZE_MAX, .n = source_length(source)};
    loop->previous = loop->current = (lk_jvalue){.type = LK_J_UNDEFINED};
    loop->outer = vm->scope;
    loop->n_stack = vm->n_stack;
    loop->n_captures = vm->n_captures;
    loop->next_pc = vm->pc;
    loop->depth = vm->n_loops != 0 ? (uint32_t)vm->n_loops + 1 : 1;
    if (i->n != 0) {
        loop->kept = lk_jlist_new(&vm->heap, 0);
        if (loop->kept == NULL) {
            return lk_jheap_failed(vm);
        }
    }
    if (!make_room(vm, (void *)&vm->loops, vm->n_loops, &vm->loop_capacity, sizeof(lk_jloop *),
                   LK_JMAX_OPEN_LOOPS, "loops inside each other")) {
        return false;
    }
    vm->loops[vm->n_loops++] = loop;
    return fetch(vm, loop, 0);
}

/* A scope for the next element: the last one's, unless something still refers to it. */
static bool fresh_scope(lk_jvm *vm, lk_jloop *loop) {
    lk_jscope *last = vm->scope;
    if (last != loop->outer && last->parent == loop->outer && !last->is_shared) {
        last->n = 0;
        return true;
    }
    vm->scope = new_scope(vm, loop->outer);
    return vm->scope != NULL;
}

static bool op_for_next(lk_jvm *vm, const lk_jinstr *i) {
    lk_jloop *loop = vm->loops[vm->n_loops - 1];
    const size_t at = loop->i + 1; /* 0 after SIZE_MAX */
    if (at >= loop->n) {
        jump(vm, i->a);
        return true;
    }
    loop->previous = loop->current;
    loop->current = loop->next;
    loop->i = at;
    if (!fetch(vm, loop, at + 1) || !fresh_scope(vm, loop)) {
        return false;
    }
    if (i->n == 0) {
        const lk_jvalue self = {.type = LK_J_LOOP, .object = loop};
        if (!set_named(vm, vm->scope, "loop", self)) {
            return false;
        }
    }
    return push(vm, loop->current);
}

static lk_jloop *leave_loop(lk_jvm *vm) {
    lk_jloop *loop = vm->loops[--vm->n_loops];
    vm->scope = loop->outer;
    vm->n_stack = loop->n_stack;
    vm->n_captures = loop->n_captures;
    return loop;
}

static bool op_for_end(lk_jvm *vm, const lk_jinstr *i) {
    const lk_jloop *loop = leave_loop(vm);
    if (loop->i != SIZE_MAX) {
        jump(vm, i->a);
    }
    return true;
}

static bool op_for_keep(lk_jvm *vm, const lk_jinstr *i) {
    lk_jloop *loop = vm->loops[vm->n_loops - 1];
    if (lk_jtruth(pop(vm)) && !lk_jlist_push(&vm->heap, loop->kept, loop->current)) {
        return lk_jheap_failed(vm);
    }
    jump(vm, i->a);
    return true;
}

static bool op_for_kept(lk_jvm *vm, const lk_jinstr *i) {
    (void)i;
    const lk_jloop *loop = leave_loop(vm);
    return push(vm, (lk_jvalue){.type = LK_J_LIST, .list = loop->kept});
}

static bool op_break_(lk_jvm *vm, const lk_jinstr *i) {
    (void)i;
    const lk_jloop *loop = leave_loop(vm);
    vm->pc = loop->next_pc + 1;
    jump(vm, vm->program->code[loop->next_pc].b);
    return true;
}

static bool op_continue_(lk_jvm *vm, const lk_jinstr *i) {
    (void)i;
    const lk_jloop *loop = vm->loops[vm->n_loops - 1];
    vm->n_stack = loop->n_stack;
    vm->n_captures = loop->n_captures;
    vm->pc = loop->next_pc;
    return true;
}

static bool op_scope(lk_jvm *vm, const lk_jinstr *i) {
    (void)i;
    lk_jscope *scope = new_scope(vm, vm->scope);
    if (scope != NULL) {
        vm->scope = scope;
    }
    return scope != NULL;
}

static bool op_scope_end(lk_jvm *vm, const lk_jinstr *i) {
    (void)i;
    vm->scope = vm->scope->parent;
    return true;
}

static bool op_capture(lk_jvm *vm, const lk_jinstr *i) {
    return op_scope(vm, i) && begin_capture(vm);
}

static bool op_capture_end(lk_jvm *vm, const lk_jinstr *i) {
    return op_scope_end(vm, i) && end_capture(vm);
}

typedef bool (*op_fn)(lk_jvm *vm, const lk_jinstr *i);
static const op_fn ops[] = {
#define LK_JOP(name, what) op_##name,
#include "text/jinja/jinja_ops.def"
#undef LK_JOP
};

/* ---- the machine ---- */

lk_status lk_jvm_init(lk_jvm *vm, const lk_jprogram *program, const lk_allocator *allocator,
                      lk_error *err) {
    *vm = (lk_jvm){.program = program, .err = err};
    lk_jheap_init(&vm->heap, allocator, LK_JMAX_MEMORY, LK_JMAX_STEPS);
    lk_jscope *builtins = new_scope(vm, NULL);
    if (builtins != NULL && lk_jfunctions_add(vm, builtins)) {
        vm->scope = new_scope(vm, builtins);
    }
    return vm->status;
}

void lk_jvm_deinit(lk_jvm *vm) {
    lk_jheap_deinit(&vm->heap);
}

bool lk_jvm_set(lk_jvm *vm, const char *name, lk_jvalue value) {
    return set_named(vm, vm->scope, name, value);
}

static bool run(lk_jvm *vm) {
    lk_jscope *scope = new_scope(vm, vm->scope);
    if (scope == NULL || !begin_capture(vm)) {
        return false;
    }
    vm->scope = scope;
    while (vm->pc < vm->program->n_code) {
        const lk_jinstr *instr = &vm->program->code[vm->pc++];
        if (!lk_jheap_charge(&vm->heap, 1) || !ops[instr->op](vm, instr) ||
            vm->heap.failure != LK_OK) {
            return lk_jheap_failed(vm);
        }
    }
    return true;
}

lk_status lk_jvm_run(lk_jvm *vm, const lk_jstring **out) {
    *out = NULL;
    if (run(vm)) {
        *out = lk_jbuild_finish(&vm->captures[0]);
        if (*out == NULL) {
            (void)lk_jheap_failed(vm);
        }
    }
    return vm->status;
}
