/* jinja_render.h - rendering a compiled template with variables. */
#ifndef LK_TEXT_JINJA_RENDER_H
#define LK_TEXT_JINJA_RENDER_H

#include "text/jinja/jinja_vm.h"

/* Prepares a rendering: the heap can be used from then on, for the variables too. The machine is
 * the caller's (lk_jvm_deinit), also after a failure. */
lk_status lk_jvm_init(lk_jvm *vm, const lk_jprogram *program, const lk_allocator *allocator,
                      lk_error *err);
void lk_jvm_deinit(lk_jvm *vm);
/* Gives a variable its value, if the template uses the name. */
bool lk_jvm_set(lk_jvm *vm, const char *name, lk_jvalue value);
/* Runs the template once. LK_E_REFUSED: it called raise_exception, and the message is its own;
 * LK_E_TEMPLATE: it failed on these variables; LK_E_LIMIT; LK_E_NOMEM. The output lives as long as
 * the machine. */
lk_status lk_jvm_run(lk_jvm *vm, const lk_jstring **out);

#endif
