/* jinja_builtins.h - the filters, tests, methods and functions that templates may use: one line of
 * a .def list each, found by name. */
#ifndef LK_TEXT_JINJA_BUILTINS_H
#define LK_TEXT_JINJA_BUILTINS_H

#include "text/jinja/jinja_vm.h"

/* A number for the instruction, or -1. */
int lk_jlookup_filter(const void *name, size_t n);
int lk_jlookup_test(const void *name, size_t n);
/* The method of a value, or -1. */
int lk_jlookup_method(lk_jvalue self, const lk_jstring *name);

#define LK_JMAX_PARAMS 6
/* One argument for each parameter, UNSET where none was given; or, where the list says "*", the
 * call's arguments as they are. */
typedef bool (*lk_jfilter_fn)(lk_jvm *vm, lk_jvalue v, const lk_jvalue *p, const lk_jargs *args,
                              lk_jvalue *out);
typedef bool (*lk_jtest_fn)(lk_jvm *vm, lk_jvalue v, const lk_jvalue *p, bool *out);

bool lk_jfilter_call(lk_jvm *vm, int filter, lk_jvalue v, const lk_jargs *args, lk_jvalue *out);
bool lk_jtest_call(lk_jvm *vm, int test, lk_jvalue v, const lk_jargs *args, bool *out);
bool lk_jmethod_call(lk_jvm *vm, int method, lk_jvalue self, const lk_jargs *args, lk_jvalue *out);
/* The functions that every template sees: puts them into the scope. */
bool lk_jfunctions_add(lk_jvm *vm, lk_jscope *scope);
bool lk_jfunction_call(lk_jvm *vm, int function, const lk_jargs *args, lk_jvalue *out);

/* Sorts arguments by parameter names ("a b=  c" is not a form: names separated by blanks). `n_min`
 * of them must be given. */
bool lk_jbind(lk_jvm *vm, const char *what, const char *params, uint32_t n_min,
              const lk_jargs *args, lk_jvalue p[LK_JMAX_PARAMS]);
/* Arguments with a default. */
bool lk_jarg_int(lk_jvm *vm, lk_jvalue v, int64_t otherwise, int64_t *out);
bool lk_jarg_bool(lk_jvalue v, bool otherwise);

#define LK_JFILTER(name, function, n_min, params)                                                  \
    bool lk_jfilter_##function(lk_jvm *vm, lk_jvalue v, const lk_jvalue *p, const lk_jargs *args,  \
                               lk_jvalue *out);
#define LK_JFILTER_ALIAS(name, function, n_min, params)
#include "text/jinja/jinja_filters.def"
#undef LK_JFILTER
#undef LK_JFILTER_ALIAS
#define LK_JTEST(name, function, n_params)                                                         \
    bool lk_jtest_##function(lk_jvm *vm, lk_jvalue v, const lk_jvalue *p, bool *out);
#define LK_JTEST_ALIAS(name, function, n_params)
#include "text/jinja/jinja_tests.def"
#undef LK_JTEST
#undef LK_JTEST_ALIAS
#define LK_JMETHOD(type, name, function, n_min, params)                                            \
    bool lk_jmethod_##function(lk_jvm *vm, lk_jvalue v, const lk_jvalue *p, const lk_jargs *args,  \
                               lk_jvalue *out);
#define LK_JMETHOD_ALIAS(type, name, function, n_min, params)
#include "text/jinja/jinja_methods.def"
#undef LK_JMETHOD
#undef LK_JMETHOD_ALIAS
#define LK_JFUNCTION(name, function)                                                               \
    bool lk_jfunction_##function(lk_jvm *vm, const lk_jargs *args, lk_jvalue *out);
#include "text/jinja/jinja_functions.def"
#undef LK_JFUNCTION

#endif
