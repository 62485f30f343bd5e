/* server_http.c - the way of a request through libmicrohttpd: received, checked, handed to its
 * endpoint, cleaned up. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server_media.h"
#include "shared/console.h"

static const server_route routes[] = {
#define SERVER_ROUTE(method, path, name, is_open) {method, path, server_##name, is_open},
#include "routes.def"
#undef SERVER_ROUTE
};
enum { N_ROUTES = sizeof routes / sizeof routes[0] };

/* ---- checks ---- */

static bool matches(const server_route *route, const char *url) {
    const size_t n = strlen(route->path);
    if (n > 1 && route->path[n - 1] == '/') {
        return strncmp(url, route->path, n) == 0 && url[n] != '\0';
    }
    return strcmp(url, route->path) == 0;
}

static bool find_route(exchange *x, const char *method, const char *url, serve_problem *problem) {
    const char *allowed = NULL;
    for (size_t i = 0; i < N_ROUTES; i++) {
        const bool is_head = strcmp(method, "HEAD") == 0 && strcmp(routes[i].method, "GET") == 0;
        if (!matches(&routes[i], url)) {
            continue;
        }
        if (strcmp(routes[i].method, method) == 0 || is_head) {
            x->route = &routes[i];
            x->is_head = is_head;
            const size_t n = strlen(routes[i].path);
            x->tail = n > 1 && routes[i].path[n - 1] == '/' ? strdup(url + n) : NULL;
            return true;
        }
        allowed = routes[i].method;
    }
    if (allowed != NULL) {
        return serve_fail(problem, 405, "method_not_allowed", NULL,
                          "%.16s is not allowed here, expected %s", method, allowed);
    }
    return serve_fail(problem, 404, "not_found", NULL, "there is no endpoint %.128s", url);
}

/* In time that does not depend on where they differ. */
static bool is_same_key(const char *a, const char *b) {
    const size_t n_a = strlen(a);
    const size_t n_b = strlen(b);
    unsigned char differs = n_a != n_b;
    for (size_t i = 0; i < n_b; i++) {
        differs |= (unsigned char)(b[i] ^ a[n_a > 0 ? i % n_a : 0]);
    }
    return differs == 0;
}

static bool check_key(exchange *x, serve_problem *problem) {
    const serve_options *o = &x->server->options;
    if (o->n_api_keys == 0 || x->route->is_open) {
        return true;
    }
    const char *given =
        MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    if (given != NULL && strncasecmp(given, "Bearer ", 7) == 0) {
        bool ok = false;
        for (size_t i = 0; i < o->n_api_keys; i++) {
            ok |= is_same_key(given + 7, o->api_keys[i]);
        }
        if (ok) {
            return true;
        }
    }
    (void)serve_fail(problem, 401, "invalid_api_key", NULL, "%s: send 'Authorization: Bearer KEY'",
                     given == NULL ? "an API key is needed" : "the API key is not valid");
    problem->type = "authentication_error";
    return false;
}

/* A body that says that it is too large is refused before it is sent. */
static bool check_size(exchange *x, serve_problem *problem) {
    const char *given =
        MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (given != NULL && (strlen(given) > 18 || atoll(given) > x->server->options.max_body)) {
        x->is_too_large = true;
    }
    if (x->is_too_large) {
        return serve_fail(problem, 413, "body_too_large", NULL,
                          "the body may have at most %lld bytes",
                          (long long)x->server->options.max_body);
    }
    return true;
}

/* ---- receiving ---- */

static enum MHD_Result reply_preflight(exchange *x) {
    struct MHD_Response *response =
        MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (response != NULL) {
        (void)MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET, POST");
        (void)MHD_add_response_header(response, "Access-Control-Allow-Headers", "*, Authorization");
        (void)MHD_add_response_header(response, "Access-Control-Max-Age", "600");
    }
    return server_queue(x, MHD_HTTP_NO_CONTENT, response);
}

/* Who writes a whole body before reading an answer would not see one that comes earlier, because
 * the connection ends with it: the body is received and dropped, unless it is very large or the
 * client asks first. */
enum { MAX_DROPPED = 256 << 20 };

static bool waits_for_body(exchange *x) {
    const char *expects =
        MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_EXPECT);
    const char *length =
        MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return expects == NULL &&
           (length == NULL || (strlen(length) < 18 && atoll(length) <= MAX_DROPPED));
}

static enum MHD_Result begin(exchange *x, const char *method, const char *url) {
    if (strcmp(method, "OPTIONS") == 0 && x->server->options.cors_origin != NULL) {
        x->is_preflight = true;
        return MHD_YES;
    }
    if (find_route(x, method, url, &x->problem) && check_key(x, &x->problem) &&
        check_size(x, &x->problem)) {
        return MHD_YES;
    }
    x->is_refused = true;
    return waits_for_body(x) ? MHD_YES : server_reply_problem(x, &x->problem);
}

/* False: more than anybody has to take. */
static bool drop_body(exchange *x, size_t n) {
    x->n_dropped += n;
    return x->n_dropped <= MAX_DROPPED;
}

static bool add_body(exchange *x, const char *data, size_t n) {
    if (x->is_too_large || n > (size_t)x->server->options.max_body - x->n_body) {
        x->is_too_large = true;
        free(x->body);
        x->body = NULL;
        return drop_body(x, n);
    }
    if (x->n_body + n > x->body_capacity) {
        const size_t wanted = 2 * (x->n_body + n);
        char *grown = realloc(x->body, wanted);
        if (grown == NULL) {
            return false;
        }
        x->body = grown;
        x->body_capacity = wanted;
    }
    memcpy(x->body + x->n_body, data, n);
    x->n_body += n;
    return true;
}

static exchange *exchange_create(server *s, struct MHD_Connection *connection) {
    exchange *x = calloc(1, sizeof *x);
    if (x != NULL) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
        x->server = s;
        x->connection = connection;
        x->socket = info != NULL ? info->socket_context : NULL;
    }
    return x;
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *n_data, void **state) {
    server *s = ctx;
    exchange *x = *state;
    if (x == NULL) {
        x = exchange_create(s, connection);
        if (x == NULL) {
            return MHD_NO;
        }
        x->is_http_1_1 = strcmp(version, MHD_HTTP_VERSION_1_1) == 0;
        *state = x;
        server_watch_receiving(s, x->socket);
        return begin(x, method, url);
    }
    if (*n_data > 0) {
        const bool ok =
            x->is_answered || x->is_refused ? drop_body(x, *n_data) : add_body(x, data, *n_data);
        *n_data = 0;
        return ok ? MHD_YES : MHD_NO;
    }
    if (x->is_answered) {
        return MHD_YES;
    }
    if (x->is_preflight) {
        return reply_preflight(x);
    }
    if (x->is_refused || !check_size(x, &x->problem)) {
        return server_reply_problem(x, &x->problem);
    }
    if (x->job == NULL && x->task == NULL) {
        server_watch_working(s, x->socket, NULL);
    }
    return x->route->handle(x);
}

static void on_completed(void *ctx, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code) {
    server *s = ctx;
    exchange *x = *state;
    (void)connection;
    (void)code;
    if (x == NULL) {
        return;
    }
    server_watch_idle(s, x->socket);
    server_media_drop(x);
    server_slot_drop(x);
    if (x->job != NULL) {
        (void)pthread_mutex_lock(&x->job->lock);
        x->job->wake_ctx = NULL;
        (void)pthread_mutex_unlock(&x->job->lock);
        serve_job_cancel(x->job);
        serve_job_drop(x->job);
        (void)atomic_fetch_sub(&s->n_answers, 1);
    }
    union {
        const char *given;
        void *wanted;
    } tail = {x->tail};
    free(tail.wanted);
    free(x->out.data);
    free(x->body);
    free(x->transcript);
    free(x);
    *state = NULL;
}

/* ---- listening ---- */

static lk_status fail_listen(lk_error *err, const char *host, int64_t port, const char *why) {
    *err = (lk_error){.status = LK_E_IO, .seq = -1, .pos = -1, .offset = UINT64_MAX};
    (void)snprintf(err->message, sizeof err->message, "cannot listen on %s port %lld: %s", host,
                   (long long)port, why);
    return err->status;
}

static int open_socket(const serve_options *o, lk_error *err) {
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char port[16];
    (void)snprintf(port, sizeof port, "%lld", (long long)o->port);
    const int result = getaddrinfo(o->host, port, &hints, &found);
    if (result != 0) {
        (void)fail_listen(err, o->host, o->port, gai_strerror(result));
        return -1;
    }
    int reason = EADDRNOTAVAIL;
    int fd = -1;
    for (const struct addrinfo *a = found; a != NULL && fd < 0; a = a->ai_next) {
        const int one = 1;
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
            bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, 1024) != 0) {
            reason = errno;
            if (fd >= 0) {
                (void)close(fd);
            }
            fd = -1;
        }
    }
    freeaddrinfo(found);
    if (fd < 0) {
        (void)fail_listen(err, o->host, o->port, strerror(reason));
    }
    return fd;
}

/* The port that the system chose. */
static int64_t port_of(int fd) {
    struct sockaddr_storage address;
    socklen_t n = sizeof address;
    char port[16] = "0";
    if (getsockname(fd, (struct sockaddr *)&address, &n) == 0) {
        (void)getnameinfo((struct sockaddr *)&address, n, NULL, 0, port, sizeof port,
                          NI_NUMERICSERV);
    }
    return atoll(port);
}

static void on_log(void *ctx, const char *format, va_list args) {
    server *s = ctx;
    if (!s->is_listening) {
        /* Why it does not start; one line. */
        (void)vsnprintf(s->complaint, sizeof s->complaint, format, args);
        s->complaint[strcspn(s->complaint, "\n")] = '\0';
    } else if (s->options.log_requests) {
        (void)vfprintf(stderr, format, args);
    }
}

static lk_status fail_start(const server *s, lk_error *err) {
    char why[256];
    const bool has_tls = s->options.certificate != NULL;
    (void)snprintf(why, sizeof why, "%.120s%s",
                   s->complaint[0] != '\0' ? s->complaint : "libmicrohttpd refused.",
                   has_tls ? " --tls-cert and --tls-key must name a certificate and its key in PEM"
                           : "");
    return fail_listen(err, s->options.host, s->options.port, why);
}

enum { N_HTTP_THREADS = 4 };

bool server_listen(server *s, lk_error *err) {
    const serve_options *o = &s->options;
    const int fd = open_socket(o, err);
    if (fd < 0) {
        return false;
    }
    s->options.port = port_of(fd);
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_END, 0, NULL}, {MHD_OPTION_END, 0, NULL}, {MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_EPOLL_INTERNALLY | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    union {
        const char *given;
        void *wanted;
    } key = {o->private_key}, certificate = {o->certificate};
    if (o->certificate != NULL) {
        flags |= MHD_USE_TLS;
        tls[0] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, key.wanted};
        tls[1] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, certificate.wanted};
    }
    s->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER, on_log, s,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)N_HTTP_THREADS,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)o->max_connections, MHD_OPTION_CONNECTION_TIMEOUT,
        server_inactive_s(o), MHD_OPTION_NOTIFY_COMPLETED, on_completed, s,
        MHD_OPTION_NOTIFY_CONNECTION, server_watch_notify, s, MHD_OPTION_ARRAY, tls,
        MHD_OPTION_END);
    if (s->daemon == NULL) {
        (void)close(fd);
        (void)fail_start(s, err);
        return false;
    }
    s->is_listening = true;
    return true;
}

void server_close(server *s) {
    if (s->daemon != NULL) {
        server_watch_give_up(s); /* none may be suspended */
        MHD_stop_daemon(s->daemon);
        s->daemon = NULL;
    }
}
