/* jinja_vm.h - the state of one rendering, as the interpreter and the built-in filters, tests,
 * methods and functions see it. Functions return false after lk_jfail, or when the heap failed. */
#ifndef LK_TEXT_JINJA_VM_H
#define LK_TEXT_JINJA_VM_H

#include "base/error.h"
#include "text/jinja/jinja_program.h"

#define LK_JMAX_STACK ((size_t)1 << 16)    /* values */
#define LK_JMAX_CALLS 200u                 /* macros inside each other */
#define LK_JMAX_OPEN_LOOPS 1000u           /* loops inside each other, over all calls */
#define LK_JMAX_MEMORY ((size_t)256 << 20) /* bytes of one rendering */
#define LK_JMAX_STEPS ((uint64_t)1 << 26)  /* instructions, elements, and 16 bytes of text */

/* Variables. A scope is looked up outwards through `parent`. */
typedef struct lk_jvariable {
    uint32_t name;
    lk_jvalue value;
} lk_jvariable;

typedef struct lk_jscope {
    struct lk_jscope *parent;
    lk_jvariable *variables;
    uint32_t n;
    uint32_t capacity;
    bool is_shared; /* a macro or another scope refers to it: it may not be used again */
} lk_jscope;

/* A loop that runs, and the variable `loop`. */
typedef struct lk_jloop {
    lk_jvalue source; /* LIST, TUPLE, ITERATOR, DICT or STRING */
    size_t i;         /* of the current element, SIZE_MAX before the first */
    size_t n;
    size_t byte; /* STRING: where the next character begins */
    lk_jvalue previous, current, next;
    lk_jvalue changed; /* the arguments of the last loop.changed() */
    lk_jlist *kept;    /* of a loop that filters */
    lk_jscope *outer;  /* scope around the loop */
    size_t n_stack;    /* values on the stack around the loop */
    size_t n_captures;
    uint32_t next_pc; /* the for_next instruction */
    uint32_t depth;
} lk_jloop;

typedef struct lk_jmacro {
    const lk_jmacro_code *code;
    uint32_t entry;
    lk_jscope *scope; /* where it was defined */
} lk_jmacro;

typedef struct lk_jcycler {
    lk_jlist *items;
    size_t i;
} lk_jcycler;

typedef struct lk_jjoiner {
    const lk_jstring *separator;
    bool is_used;
} lk_jjoiner;

typedef struct lk_jmethod {
    lk_jvalue self;
    int number; /* in jinja_methods.def */
} lk_jmethod;

typedef struct lk_jcall_frame {
    uint32_t return_pc;
    lk_jscope *scope;
    size_t n_loops;
    size_t n_captures;
} lk_jcall_frame;

/* The arguments of a call: positional ones first, then the named ones. */
typedef struct lk_jargs {
    const lk_jvalue *values;
    uint32_t n; /* all */
    lk_jnames names;
} lk_jargs;

static inline uint32_t lk_jargs_positional(const lk_jargs *args) {
    return args->n - args->names.n;
}

typedef struct lk_jvm {
    const lk_jprogram *program;
    lk_jheap heap;
    lk_error *err;
    lk_status status; /* of the first failure */
    uint32_t pc;
    lk_jvalue *stack;
    size_t n_stack, stack_capacity;
    lk_jscope *scope;
    lk_jloop **loops;
    size_t n_loops, loop_capacity;
    lk_jcall_frame *calls;
    size_t n_calls, call_capacity;
    lk_jbuild *captures; /* [0] is the output */
    size_t n_captures, capture_capacity;
    bool has_now;
    int64_t now_s; /* local time, seconds since 1970-01-01 00:00 */
} lk_jvm;

/* Fails with the line of the current instruction: LK_E_TEMPLATE unless the status says otherwise.
 * Returns false. */
bool lk_jfail(lk_jvm *vm, const char *format, ...) LK_PRINTF(2, 3);
bool lk_jfail_status(lk_jvm *vm, lk_status status, const char *format, ...) LK_PRINTF(3, 4);
/* Turns a failure of the heap into a message. Returns false. */
bool lk_jheap_failed(lk_jvm *vm);
/* `ok`, or the message of the heap's failure. */
static inline bool lk_jcheck(lk_jvm *vm, bool ok) {
    return ok || lk_jheap_failed(vm);
}
/* Sets *out to a string, or fails when it is NULL. */
static inline bool lk_jreturn(lk_jvm *vm, const lk_jstring *s, lk_jvalue *out) {
    if (s == NULL) {
        return lk_jheap_failed(vm);
    }
    *out = lk_jstr(s);
    return true;
}

/* Python's str() and repr() of a value (jinja_print.c). NULL after a failure. */
const lk_jstring *lk_jto_string(lk_jvm *vm, lk_jvalue v);
bool lk_jprint(lk_jvm *vm, lk_jbuild *out, lk_jvalue v);
bool lk_jrepr(lk_jvm *vm, lk_jbuild *out, lk_jvalue v);

/* Operators and access (jinja_operators.c). */
bool lk_jadd(lk_jvm *vm, lk_jvalue a, lk_jvalue b, lk_jvalue *out);
bool lk_jarithmetic(lk_jvm *vm, lk_jop op, lk_jvalue a, lk_jvalue b, lk_jvalue *out);
bool lk_jcontains(lk_jvm *vm, lk_jvalue container, lk_jvalue v, bool *out);
bool lk_jcompare_op(lk_jvm *vm, int comparison, lk_jvalue a, lk_jvalue b, bool *out);
/* a[key], and a.name: what is not there is undefined. */
bool lk_jget_item(lk_jvm *vm, lk_jvalue v, lk_jvalue key, lk_jvalue *out);
bool lk_jget_attr(lk_jvm *vm, lk_jvalue v, const lk_jstring *name, lk_jvalue *out);
bool lk_jget_slice(lk_jvm *vm, lk_jvalue v, const lk_jvalue bounds[3], lk_jvalue *out);
/* The elements of something that can be gone through, as a list that must not be changed. */
bool lk_jelements(lk_jvm *vm, lk_jvalue v, lk_jlist **out);
bool lk_jis_iterable(lk_jvalue v);
/* Fails for an undefined value that is used: "'x' is undefined". */
bool lk_jfail_undefined(lk_jvm *vm, lk_jvalue v);

#endif
