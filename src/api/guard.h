/* guard.h - what every public entry into a context does: refuse a second thread, set the
 * floating-point mode, and undo both on the way out. */
#ifndef LK_API_GUARD_H
#define LK_API_GUARD_H

#include "base/error.h"
#include "base/fpenv.h"
#include "engine/context.h"

typedef struct lk_guard {
    lk_context *context;
    lk_fpenv fpenv;
} lk_guard;

/* LK_E_ARG for a NULL context, LK_E_BUSY when another thread is inside; leave only after LK_OK. */
static inline lk_status lk_guard_enter(lk_guard *guard, lk_context *context, lk_error *err) {
    *guard = (lk_guard){.context = context};
    if (context == NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("context"), "the context is NULL");
    }
    if (atomic_exchange_explicit(&context->is_busy, 1, memory_order_acquire) != 0) {
        return lk_fail(err, LK_E_BUSY, LK_NOWHERE, "another thread is inside this context");
    }
    guard->fpenv = lk_fpenv_enter();
    return LK_OK;
}

static inline void lk_guard_leave(lk_guard *guard) {
    lk_fpenv_leave(guard->fpenv);
    atomic_store_explicit(&guard->context->is_busy, 0, memory_order_release);
}

#endif
