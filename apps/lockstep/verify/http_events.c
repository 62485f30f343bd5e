/* http_events.c - see http_events.h. */
#include "http_events.h"

#include <stdlib.h>
#include <string.h>

static bool keep(http_events *e, const char *bytes, size_t n) {
    if (n > HTTP_EVENTS_MAX_LINE || e->n > HTTP_EVENTS_MAX_LINE - n) {
        return false;
    }
    if (e->n + n > e->capacity) {
        const size_t capacity = 2 * (e->n + n) + 256;
        char *line = realloc(e->line, capacity);
        if (line == NULL) {
            return false;
        }
        e->line = line;
        e->capacity = capacity;
    }
    if (n > 0) {
        memcpy(e->line + e->n, bytes, n);
    }
    e->n += n;
    return true;
}

/* The line that is complete. */
static bool take_line(http_events *e, http_events_take *take, void *user) {
    const char *at = e->line;
    size_t n = e->n;
    e->n = 0;
    if (n > 0 && at[n - 1] == '\r') {
        n--;
    }
    if (n < 5 || memcmp(at, "data:", 5) != 0) {
        return true;
    }
    at += 5;
    n -= 5;
    if (n > 0 && *at == ' ') {
        at++;
        n--;
    }
    if (n == 0 || (n == 6 && memcmp(at, "[DONE]", 6) == 0)) {
        return true;
    }
    e->n_events++;
    return take(user, at, n);
}

bool http_events_feed(http_events *e, const char *bytes, size_t n, http_events_take *take,
                      void *user) {
    while (n > 0) {
        const char *end = memchr(bytes, '\n', n);
        const size_t piece = end != NULL ? (size_t)(end - bytes) : n;
        if (!keep(e, bytes, piece)) {
            return false;
        }
        if (end == NULL) {
            return true;
        }
        if (!take_line(e, take, user)) {
            return false;
        }
        bytes += piece + 1;
        n -= piece + 1;
    }
    return true;
}

bool http_events_finish(http_events *e, http_events_take *take, void *user) {
    return e->n == 0 || take_line(e, take, user);
}

void http_events_deinit(http_events *e) {
    free(e->line);
    *e = (http_events){0};
}
