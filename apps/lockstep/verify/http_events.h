/* http_events.h - a stream of server-sent events, cut out of bytes as they come. */
#ifndef LK_HTTP_EVENTS_H
#define LK_HTTP_EVENTS_H

#include <stdbool.h>
#include <stddef.h>

enum { HTTP_EVENTS_MAX_LINE = 4 << 20 };

typedef struct http_events {
    char *line; /* the line that is not at its end yet */
    size_t n;
    size_t capacity;
    size_t n_events;
} http_events;

/* The data of one event; false ends the reading. */
typedef bool http_events_take(void *user, const char *data, size_t n);

/* Reads on; lines that are no data (comments, names, ids) are passed over, and so is the "[DONE]"
 * that ends a stream. An event is one line of data: no API of this kind has events of several.
 * False: `take` said so, a line is too long, or there is no memory. */
bool http_events_feed(http_events *e, const char *bytes, size_t n, http_events_take *take,
                      void *user);
/* What stands after the last end of a line. */
bool http_events_finish(http_events *e, http_events_take *take, void *user);
void http_events_deinit(http_events *e);

#endif
