/* jinja_compiler.h - what the two halves of the compiler share: statements (jinja_compile.c) and
 * expressions (jinja_expression.c). One pass: instructions are written as the source is read, all
 * jumps are relative, so that two finished stretches of code can change places. */
#ifndef LK_TEXT_JINJA_COMPILER_H
#define LK_TEXT_JINJA_COMPILER_H

#include "base/error.h"
#include "text/jinja/jinja_lexer.h"
#include "text/jinja/jinja_program.h"

typedef struct lk_jcompiler {
    lk_jprogram *program;
    lk_jheap *heap;
    lk_jlexer lexer;
    lk_jtoken token; /* the current one */
    lk_jtoken ahead;
    bool has_ahead;
    lk_jdict *name_numbers;
    size_t code_capacity, constant_capacity, name_capacity, arg_names_capacity, macro_capacity;
    uint32_t depth;   /* of nesting */
    uint32_t n_loops; /* around this place, in this macro */
    uint32_t n_soft;  /* conditions around this place: what is unknown may never run */
    uint32_t macro;   /* the innermost macro, or LK_JNO_NAME */
    lk_status status;
    lk_error *err;
} lk_jcompiler;

/* Records the first failure, with the line; returns false. */
bool lk_jcompile_fail(lk_jcompiler *c, lk_status status, uint32_t line, const char *format, ...)
    LK_PRINTF(4, 5);
bool lk_jcompile_nomem(lk_jcompiler *c); /* the reason is in the heap */

bool lk_jcompile_next(lk_jcompiler *c);                    /* move to the next token */
bool lk_jcompile_ahead(lk_jcompiler *c, lk_jtoken *ahead); /* look at it */
bool lk_jis_token(const lk_jtoken *token, lk_jtoken_kind kind, const char *text);
bool lk_jat_operator(const lk_jcompiler *c, const char *text);
bool lk_jat_name(const lk_jcompiler *c, const char *text);
bool lk_jexpect_operator(lk_jcompiler *c, const char *text);
/* A name of the template: its number. */
bool lk_jcompile_name(lk_jcompiler *c, uint32_t *name);
bool lk_jcompile_intern(lk_jcompiler *c, const void *bytes, size_t n, uint32_t *name);
bool lk_jcompile_enter(lk_jcompiler *c); /* one level of nesting; leave: c->depth-- */

bool lk_jemit(lk_jcompiler *c, lk_jop op, uint32_t n, int64_t a, int64_t b);
bool lk_jemit_constant(lk_jcompiler *c, lk_jop op, lk_jvalue value);
/* Has the jump in field a (or b) of instruction `at` go to what comes next. */
void lk_jpatch_a(lk_jcompiler *c, uint32_t at);
void lk_jpatch_b(lk_jcompiler *c, uint32_t at);
/* Exchanges code[from..middle) and code[middle..end). */
bool lk_jrotate(lk_jcompiler *c, uint32_t from, uint32_t middle);

/* Expressions push their value. */
bool lk_jexpression(lk_jcompiler *c, bool with_condition);
/* An expression, or several with commas: a tuple. */
bool lk_jexpression_tuple(lk_jcompiler *c, bool with_condition);
/* One filter of the value on top, from its name on; filters from the current '|' on. */
bool lk_jfilter(lk_jcompiler *c);
bool lk_jfilters(lk_jcompiler *c);
/* The assignment of the top to what stands here: a name, a tuple of them, or name.attribute. */
bool lk_jtarget(lk_jcompiler *c, bool with_attribute);
/* A call's instruction with one more named argument, on top of the stack. */
bool lk_jcall_with(lk_jcompiler *c, lk_jinstr call, uint32_t name);

#endif
