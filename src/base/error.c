/* error.c - status names and texts, and the filling of lk_error. Allocates nothing. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *lk_status_name(lk_status status) {
    switch (status) {
#define LK_STATUS_NAME(name, number, text)                                                         \
    case name:                                                                                     \
        return #name;
        LK_STATUS_MAP(LK_STATUS_NAME)
#undef LK_STATUS_NAME
    }
    return "LK_E_?";
}

const char *lk_status_text(lk_status status) {
    switch (status) {
#define LK_STATUS_TEXT(name, number, text)                                                         \
    case name:                                                                                     \
        return text;
        LK_STATUS_MAP(LK_STATUS_TEXT)
#undef LK_STATUS_TEXT
    }
    return "unknown status";
}

lk_status lk_fail(lk_error *err, lk_status status, lk_where where, const char *format, ...) {
    if (err == NULL) {
        return status;
    }
    err->status = status;
    err->seq = where.seq;
    err->pos = where.pos;
    err->offset = where.offset;
    (void)snprintf(err->subject, sizeof err->subject, "%s", where.subject ? where.subject : "");
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return status;
}

lk_status lk_fail_nomem(lk_error *err, const char *what, size_t n_bytes) {
    return lk_fail(err, LK_E_NOMEM, LK_AT_SUBJECT(what), "cannot allocate %zu bytes for %s",
                   n_bytes, what);
}
