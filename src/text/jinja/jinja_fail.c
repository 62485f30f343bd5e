/* jinja_fail.c - how a rendering fails: the first reason, with the line of the template. */
#include <stdarg.h>
#include <stdio.h>

#include "text/jinja/jinja_vm.h"

static uint32_t current_line(const lk_jvm *vm) {
    const uint32_t at = vm->pc != 0 ? vm->pc - 1 : 0;
    return at < vm->program->n_code ? vm->program->code[at].line : 0;
}

static bool fail_with(lk_jvm *vm, lk_status status, const char *format, va_list args) {
    if (vm->status == LK_OK) {
        char reason[320];
        (void)vsnprintf(reason, sizeof reason, format, args);
        vm->status = lk_fail(vm->err, status, LK_AT_SUBJECT("chat template"),
                             "chat template, line %u: %s", current_line(vm), reason);
    }
    return false;
}

bool lk_jfail(lk_jvm *vm, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)fail_with(vm, LK_E_TEMPLATE, format, args);
    va_end(args);
    return false;
}

bool lk_jfail_status(lk_jvm *vm, lk_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)fail_with(vm, status, format, args);
    va_end(args);
    return false;
}

bool lk_jheap_failed(lk_jvm *vm) {
    if (vm->status != LK_OK) {
        return false;
    }
    if (vm->heap.failure == LK_E_NOMEM) {
        vm->status = lk_fail_nomem(vm->err, "rendering the chat template", vm->heap.used);
        return false;
    }
    if (vm->heap.steps > vm->heap.max_steps) {
        return lk_jfail_status(vm, LK_E_LIMIT, "the template runs too long (%llu steps)",
                               (unsigned long long)vm->heap.max_steps);
    }
    if (vm->heap.failure == LK_E_LIMIT) {
        return lk_jfail_status(vm, LK_E_LIMIT,
                               "the template needs more than %zu bytes, or values nested deeper "
                               "than %d",
                               vm->heap.max_bytes, LK_J_MAX_NESTING);
    }
    return lk_jfail_status(vm, LK_E_INTERNAL, "a step failed without a reason");
}
