/* http_client.h - requests to one server, several at once, whose answers are taken as they come.
 * Bounded in every way: time to connect, time without a byte, size of an answer. Redirections are
 * not followed. Thread rule: one thread. */
#ifndef LK_HTTP_CLIENT_H
#define LK_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

enum {
    HTTP_CLIENT_WHY = 300,
    HTTP_CLIENT_MAX_BODY = 64 << 20,
    HTTP_CLIENT_CONNECT_S = 10,
    HTTP_CLIENT_SILENCE_S = 120 /* without a byte: it hangs */
};

typedef struct http_client http_client;
typedef struct http_exchange http_exchange;

/* `url`: "http://HOST:PORT" or https, with or without a path ("/v1" at its end is left off).
 * NULL with the reason. */
http_client *http_client_open(const char *url, const char *api_key, char why[HTTP_CLIENT_WHY]);
void http_client_close(http_client *c); /* accepts NULL; exchanges must have ended */

/* Bytes of the body; false: no more of it, the exchange has failed. */
typedef bool http_client_take(void *user, const char *bytes, size_t n);
/* Begins a request: POST of `body` (copied), or GET when it is NULL. The whole exchange ends after
 * `seconds`. NULL: no memory. */
http_exchange *http_client_start(http_client *c, const char *path, const char *body, double seconds,
                                 http_client_take *take, void *user);
/* Moves all exchanges on; waits for something to happen, for at most so long. False: no memory. */
bool http_client_wait(http_client *c, int milliseconds);
bool http_exchange_is_done(const http_exchange *e);
long http_exchange_status(const http_exchange *e); /* of HTTP; 0: no answer */
/* Why no whole answer came; "" when one did. */
const char *http_exchange_error(const http_exchange *e);
/* Ends it, at once when it is not done. Accepts NULL. */
void http_exchange_end(http_client *c, http_exchange *e);

/* A request from begin to end; the body, zero-terminated, is the caller's. NULL with the reason
 * when no whole answer came; else *status is that of HTTP. */
char *http_client_fetch(http_client *c, const char *path, const char *body, double seconds,
                        long *status, char why[HTTP_CLIENT_WHY]);

#endif
