/* jinja_call.c - the tables of filters, tests, methods and functions: finding them by name, sorting
 * arguments by parameter, calling. */
#include <string.h>

#include "text/jinja/jinja_builtins.h"
#include "text/jinja/jinja_render.h"

typedef struct filter {
    const char *name;
    lk_jfilter_fn call;
    uint32_t n_min;
    const char *params;
} filter;

static const filter filters[] = {
#define LK_JFILTER(name, function, n_min, params) {#name, lk_jfilter_##function, n_min, params},
#define LK_JFILTER_ALIAS LK_JFILTER
#include "text/jinja/jinja_filters.def"
#undef LK_JFILTER
#undef LK_JFILTER_ALIAS
};

typedef struct test {
    const char *name;
    lk_jtest_fn call;
    uint32_t n_params;
} test;

static const test tests[] = {
#define LK_JTEST(name, function, n_params) {name, lk_jtest_##function, n_params},
#define LK_JTEST_ALIAS LK_JTEST
#include "text/jinja/jinja_tests.def"
#undef LK_JTEST
#undef LK_JTEST_ALIAS
};

typedef struct method {
    lk_jtype type;
    uint32_t n_min;
    const char *name;
    lk_jfilter_fn call;
    const char *params;
} method;

static const method methods[] = {
#define LK_JMETHOD(type, name, function, n_min, params)                                            \
    {LK_J_##type, n_min, #name, lk_jmethod_##function, params},
#define LK_JMETHOD_ALIAS LK_JMETHOD
#include "text/jinja/jinja_methods.def"
#undef LK_JMETHOD
#undef LK_JMETHOD_ALIAS
};

typedef struct function {
    const char *name;
    bool (*call)(lk_jvm *vm, const lk_jargs *args, lk_jvalue *out);
} function;

static const function functions[] = {
#define LK_JFUNCTION(name, function) {name, lk_jfunction_##function},
#include "text/jinja/jinja_functions.def"
#undef LK_JFUNCTION
};

#define N_OF(table) (sizeof(table) / sizeof(table)[0])

static bool is_name(const char *name, const void *text, size_t n) {
    return strlen(name) == n && memcmp(name, text, n) == 0;
}

int lk_jlookup_filter(const void *name, size_t n) {
    for (size_t i = 0; i < N_OF(filters); i++) {
        if (is_name(filters[i].name, name, n)) {
            return (int)i;
        }
    }
    return -1;
}

int lk_jlookup_test(const void *name, size_t n) {
    for (size_t i = 0; i < N_OF(tests); i++) {
        if (is_name(tests[i].name, name, n)) {
            return (int)i;
        }
    }
    return -1;
}

int lk_jlookup_method(lk_jvalue self, const lk_jstring *name) {
    for (size_t i = 0; i < N_OF(methods); i++) {
        if (methods[i].type == self.type && is_name(methods[i].name, name->bytes, name->n)) {
            return (int)i;
        }
    }
    return -1;
}

/* The number of the parameter with this name in "a b c", or -1. */
static int find_param(const char *params, const lk_jstring *name) {
    int i = 0;
    while (*params != '\0') {
        const size_t n = strcspn(params, " ");
        if (n == name->n && memcmp(params, name->bytes, n) == 0) {
            return i;
        }
        params += n;
        params += *params == ' ';
        i++;
    }
    return -1;
}

static uint32_t count_params(const char *params) {
    uint32_t n = *params != '\0';
    for (; *params != '\0'; params++) {
        n += *params == ' ';
    }
    return n;
}

bool lk_jbind(lk_jvm *vm, const char *what, const char *params, uint32_t n_min,
              const lk_jargs *args, lk_jvalue p[LK_JMAX_PARAMS]) {
    for (size_t i = 0; i < LK_JMAX_PARAMS; i++) {
        p[i] = (lk_jvalue){.type = LK_J_UNSET};
    }
    if (*params == '*') {
        return true;
    }
    const uint32_t n_params = count_params(params);
    const uint32_t n_positional = lk_jargs_positional(args);
    if (n_positional > n_params) {
        return lk_jfail(vm, "%s takes at most %u arguments, not %u", what, n_params, args->n);
    }
    if (n_positional != 0) {
        memcpy(p, args->values, n_positional * sizeof p[0]);
    }
    for (uint32_t i = 0; i < args->names.n; i++) {
        const lk_jstring *name = vm->program->names[args->names.names[i]];
        const int at = find_param(params, name);
        if (at < 0 || p[at].type != LK_J_UNSET) {
            return lk_jfail(vm, "%s takes no argument '%.*s' (or takes it once)", what,
                            (int)(name->n < 64 ? name->n : 64), (const char *)name->bytes);
        }
        p[at] = args->values[n_positional + i];
    }
    for (uint32_t i = 0; i < n_min; i++) {
        if (p[i].type == LK_J_UNSET) {
            return lk_jfail(vm, "%s needs at least %u arguments", what, n_min);
        }
    }
    return true;
}

bool lk_jarg_int(lk_jvm *vm, lk_jvalue v, int64_t otherwise, int64_t *out) {
    *out = otherwise;
    if (v.type == LK_J_UNSET || v.type == LK_J_NONE) {
        return true;
    }
    if (!lk_jis_int(v)) {
        return v.type == LK_J_UNDEFINED
                   ? lk_jfail_undefined(vm, v)
                   : lk_jfail(vm, "an argument must be an integer, not a value of type '%s'",
                              lk_jtype_name(v));
    }
    *out = lk_jint_of(v);
    return true;
}

bool lk_jarg_bool(lk_jvalue v, bool otherwise) {
    return v.type == LK_J_UNSET ? otherwise : lk_jtruth(v);
}

bool lk_jfilter_call(lk_jvm *vm, int number, lk_jvalue v, const lk_jargs *args, lk_jvalue *out) {
    const filter *f = &filters[number];
    lk_jvalue p[LK_JMAX_PARAMS];
    return lk_jbind(vm, f->name, f->params, f->n_min, args, p) && f->call(vm, v, p, args, out);
}

bool lk_jtest_call(lk_jvm *vm, int number, lk_jvalue v, const lk_jargs *args, bool *out) {
    const test *t = &tests[number];
    if (args->n != t->n_params || args->names.n != 0) {
        return lk_jfail(vm, "the test '%s' takes %u arguments, not %u", t->name, t->n_params,
                        args->n);
    }
    return t->call(vm, v, args->values, out);
}

bool lk_jmethod_call(lk_jvm *vm, int number, lk_jvalue self, const lk_jargs *args, lk_jvalue *out) {
    const method *m = &methods[number];
    lk_jvalue p[LK_JMAX_PARAMS];
    return lk_jbind(vm, m->name, m->params, m->n_min, args, p) && m->call(vm, self, p, args, out);
}

bool lk_jfunctions_add(lk_jvm *vm, lk_jscope *scope) {
    vm->scope = scope;
    for (size_t i = 0; i < N_OF(functions); i++) {
        const lk_jvalue value = {.type = LK_J_FUNCTION, .aux = (uint8_t)i};
        if (!lk_jvm_set(vm, functions[i].name, value)) {
            return false;
        }
    }
    return true;
}

bool lk_jfunction_call(lk_jvm *vm, int number, const lk_jargs *args, lk_jvalue *out) {
    return functions[number].call(vm, args, out);
}
