/* server_stream.c - how results reach a client: a connection sleeps (is suspended) until there is
 * news, and a stream gives out what is due, event by event.
 *
 * The text of a token goes out from the thread that computed it, as one chunk of the body and
 * without waiting, while libmicrohttpd keeps the connection suspended: no thread is woken for it.
 * Everything else is libmicrohttpd's: the beginning, the end, and all where the client does not
 * take a chunk at once, with TLS, or where the body has no chunks (HTTP/1.0).
 *
 * Invariant: a connection is suspended only when libmicrohttpd has written all that it was given,
 * and resumed only when no part of a chunk is left here (is_blocked), unless it is to be closed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "server.h"

/* Room for the size of a chunk before it, in hexadecimal digits, and the end of that line. */
enum { CHUNK_HEAD = 18 };

/* ---- sleeping and waking; with the job's lock ---- */

void server_suspend(exchange *x) {
    x->is_suspended = true;
    MHD_suspend_connection(x->connection);
}

static void resume(exchange *x) {
    x->is_suspended = false;
    x->is_blocked = false;
    MHD_resume_connection(x->connection);
}

/* Sends what it can of the chunk. */
static void send_chunk(exchange *x) {
    while (x->n_out_sent < x->out.n) {
        const ssize_t n = send(server_watch_fd(x->socket), x->out.data + x->n_out_sent,
                               x->out.n - x->n_out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            x->is_blocked = errno == EAGAIN || errno == EWOULDBLOCK;
            x->is_broken = !x->is_blocked;
            return;
        }
        x->n_out_sent += (size_t)n;
    }
    x->out.n = x->n_out_sent = 0;
    x->is_blocked = false;
}

/* Makes the events that are due a chunk; none when nothing is due. False when memory is short. */
static bool make_chunk(exchange *x) {
    static const char head[CHUNK_HEAD];
    char size[CHUNK_HEAD + 1];
    x->out.n = x->n_out_sent = 0;
    if (!lk_buffer_add(&x->out, head, CHUNK_HEAD) ||
        !server_render_events(x->server, x->job, &x->out)) {
        return false;
    }
    const size_t n = x->out.n - CHUNK_HEAD;
    if (n == 0) {
        x->out.n = 0;
        return true;
    }
    const size_t n_size = (size_t)snprintf(size, sizeof size, "%zx\r\n", n);
    x->n_out_sent = CHUNK_HEAD - n_size;
    memcpy(x->out.data + x->n_out_sent, size, n_size);
    return lk_buffer_add(&x->out, "\r\n", 2);
}

/* Whether anything but tokens is due: an end is left to libmicrohttpd's threads. */
static bool has_end(const serve_job *job) {
    bool found = job->n_open == 0 || job->problem.status != 0;
    for (size_t i = 0; i < job->n_choices && !found; i++) {
        found = job->choices[i].finish != 0 && !job->choices[i].has_ended;
    }
    return found;
}

void server_wake(void *ctx) {
    exchange *x = ctx;
    if (!x->is_suspended) {
        return;
    }
    if (x->is_blocked) {
        if (x->job->is_cancelled) {
            server_stream_give_up(x);
        }
        return;
    }
    if (!x->is_direct || has_end(x->job)) {
        resume(x);
        return;
    }
    x->is_broken = !make_chunk(x);
    if (!x->is_broken) {
        send_chunk(x);
    }
    if (x->is_blocked) {
        server_watch_room(x->server, x->socket);
    } else if (x->is_broken || x->job->has_ended) {
        resume(x);
    }
}

void server_stream_room(exchange *x) {
    if (!x->is_blocked) {
        return;
    }
    send_chunk(x);
    if (x->is_blocked) {
        server_watch_room(x->server, x->socket);
    } else {
        resume(x); /* which sends what has come meanwhile */
    }
}

void server_stream_give_up(exchange *x) {
    if (x->is_blocked) {
        x->is_broken = true;
        resume(x);
    }
}

/* ---- libmicrohttpd's part ---- */

static ssize_t read_stream(void *ctx, uint64_t pos, char *buffer, size_t size) {
    exchange *x = ctx;
    (void)pos;
    if (x->is_broken) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    if (x->n_out_sent == x->out.n) {
        x->out.n = x->n_out_sent = 0;
        (void)pthread_mutex_lock(&x->job->lock);
        const bool ok = server_render_events(x->server, x->job, &x->out);
        const bool is_over = x->job->has_ended;
        if (ok && x->out.n == 0 && !is_over) {
            server_suspend(x);
        }
        const bool is_empty = x->out.n == 0; /* once suspended, others may write */
        (void)pthread_mutex_unlock(&x->job->lock);
        if (!ok) {
            return MHD_CONTENT_READER_END_WITH_ERROR;
        }
        if (is_empty) {
            return is_over ? MHD_CONTENT_READER_END_OF_STREAM : 0;
        }
    }
    const size_t rest = x->out.n - x->n_out_sent;
    const size_t n = rest < size ? rest : size;
    memcpy(buffer, x->out.data + x->n_out_sent, n);
    x->n_out_sent += n;
    return (ssize_t)n;
}

/* Whether the body will be sent in chunks, by a plain socket. */
static bool can_be_direct(const exchange *x) {
    const char *connection =
        MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONNECTION);
    return x->is_http_1_1 && x->socket != NULL && x->server->options.certificate == NULL &&
           (connection == NULL || strcasecmp(connection, "keep-alive") == 0);
}

enum MHD_Result server_begin_stream(exchange *x) {
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_stream, x, NULL);
    if (response == NULL) {
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream");
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    (void)MHD_add_response_header(response, "X-Accel-Buffering", "no");
    x->is_direct = can_be_direct(x);
    return server_queue(x, MHD_HTTP_OK, response);
}
