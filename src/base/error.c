/* error.c - status names and texts, and the filling of lk_error. Allocates nothing. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8_bytes.h"

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

/* The length of the character at the beginning of the last n bytes of a text. 0: it is a control
 * character or no UTF-8; SIZE_MAX: the text ends in the middle of it. */
static size_t length_of(const uint8_t *s, size_t n) {
    size_t n_bad = 0;
    const size_t length = lk_utf8_sequence(s, n, &n_bad);
    if (length == 0) {
        return n_bad == n && n < lk_utf8_lead_length(s[0]) ? SIZE_MAX : 0;
    }
    return lk_utf8_is_control(s) ? 0 : length;
}

/* Names and texts of damaged files get into messages, and messages to terminals: control characters
 * become '?', and so do bytes that are no UTF-8; a character that the end of the buffer cut goes.
 */
static void make_printable(char *text) {
    const uint8_t *end = (uint8_t *)text + strlen(text);
    for (uint8_t *s = (uint8_t *)text; s != end;) {
        const size_t length = length_of(s, (size_t)(end - s));
        if (length == SIZE_MAX) {
            *s = 0;
            break;
        }
        if (length == 0) {
            *s++ = '?';
        } else {
            s += length;
        }
    }
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
    make_printable(err->subject);
    make_printable(err->message);
    return status;
}

lk_status lk_fail_nomem(lk_error *err, const char *what, size_t n_bytes) {
    return lk_fail(err, LK_E_NOMEM, LK_AT_SUBJECT(what), "cannot allocate %zu bytes for %s",
                   n_bytes, what);
}

lk_status lk_check_range(const char *name, int64_t value, int64_t min, int64_t max, lk_error *err) {
    if (value < min || value > max) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT(name), "%s is %lld, expected %lld .. %lld",
                       name, (long long)value, (long long)min, (long long)max);
    }
    return LK_OK;
}

lk_status lk_check_ranges(const lk_range *ranges, size_t n, lk_error *err) {
    lk_status status = LK_OK;
    for (size_t i = 0; i < n && status == LK_OK; i++) {
        status = lk_check_range(ranges[i].name, ranges[i].value, ranges[i].min, ranges[i].max, err);
    }
    return status;
}

lk_status lk_check_struct_size(const char *name, size_t found, size_t known, lk_error *err) {
    if (found != known) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("struct_size"),
                       "%s.struct_size is %zu, this library knows %zu", name, found, known);
    }
    return LK_OK;
}
