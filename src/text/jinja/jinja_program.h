/* jinja_program.h - a compiled template: instructions, constants, names, macros. Immutable, so that
 * any number of threads may render it. */
#ifndef LK_TEXT_JINJA_PROGRAM_H
#define LK_TEXT_JINJA_PROGRAM_H

#include "text/jinja/jinja_value.h"

typedef enum lk_jop {
#define LK_JOP(name, what) LK_JOP_##name,
#include "text/jinja/jinja_ops.def"
#undef LK_JOP
    LK_JOP_COUNT
} lk_jop;

/* Of LK_JOP_compare. */
typedef enum lk_jcomparison {
    LK_JCMP_EQ,
    LK_JCMP_NE,
    LK_JCMP_LT,
    LK_JCMP_LE,
    LK_JCMP_GT,
    LK_JCMP_GE,
    LK_JCMP_IN,
    LK_JCMP_NOT_IN
} lk_jcomparison;

typedef struct lk_jinstr {
    uint8_t op;
    uint16_t n;
    int32_t a;
    int32_t b;
    uint32_t line;
} lk_jinstr;

/* The names of the named arguments of a call. */
typedef struct lk_jnames {
    const uint32_t *names;
    uint32_t n;
} lk_jnames;

typedef struct lk_jmacro_code {
    uint32_t name; /* LK_JNO_NAME: of a call block */
    uint32_t n_params;
    uint32_t *params; /* names */
    bool takes_varargs, takes_kwargs, takes_caller;
} lk_jmacro_code;
#define LK_JNO_NAME UINT32_MAX

typedef struct lk_jprogram {
    lk_jheap heap; /* owns all of it */
    lk_jinstr *code;
    uint32_t n_code;
    lk_jvalue *constants;
    uint32_t n_constants;
    const lk_jstring **names;
    uint32_t n_names;
    lk_jnames *arg_names; /* [0] is the empty list */
    uint32_t n_arg_names;
    lk_jmacro_code *macros;
    uint32_t n_macros;
} lk_jprogram;

#define LK_JMAX_SOURCE ((size_t)1 << 20) /* bytes of a template */
#define LK_JMAX_PROGRAM_BYTES ((size_t)64 << 20)
#define LK_JMAX_NESTING 100 /* brackets, blocks and operators inside each other */

/* Compiles n bytes of a template. LK_E_FORMAT names the line and what is wrong there;
 * LK_E_UNSUPPORTED: a statement that this engine does not have; LK_E_LIMIT, LK_E_NOMEM. On success
 * *out is owned by the caller (lk_jprogram_free). */
lk_status lk_jprogram_compile(const char *source, size_t n, const lk_allocator *allocator,
                              lk_jprogram **out, lk_error *err);
void lk_jprogram_free(lk_jprogram *program); /* accepts NULL */
/* The number of a name that the template uses, or LK_JNO_NAME. */
uint32_t lk_jprogram_find_name(const lk_jprogram *program, const char *name);
/* Whether the template uses this text as a name, attribute or string. */
bool lk_jprogram_mentions(const lk_jprogram *program, const char *text);

#endif
