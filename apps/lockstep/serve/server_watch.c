/* server_watch.c - looks at the descriptors of connections beside libmicrohttpd: a connection that
 * is suspended is not told when its peer goes away, so an epoll set of our own waits for the
 * shutdown of those whose request is being computed, and cancels the work. It also waits for room
 * where a stream has none, and ends connections that send or take too slowly, or nothing.
 *
 * Invariant: a socket is in the list from libmicrohttpd's first notice to its last, and only with
 * the lock is it looked at. Its descriptor is open as long. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server.h"
#include "shared/console.h"

typedef enum phase { PHASE_IDLE, PHASE_RECEIVING, PHASE_WORKING } phase;

struct server_socket {
    uint64_t id; /* never used again, unlike descriptors */
    int fd;
    phase phase;
    double since_s;
    bool has_sent;            /* a request has come on it before */
    _Atomic double blocked_s; /* since when its stream waits for room; 0: it does not */
    serve_job *job;
    struct server_socket *next;
    struct server_socket *prev;
};

struct server_watch {
    server *server;
    int epoll;
    int stop;
    pthread_t thread;
    pthread_mutex_t lock;
    uint64_t n_ids;
    struct server_socket *first;
};

enum { MAX_EVENTS = 64, SCAN_MS = 250 };

static struct server_socket *find_socket(struct server_watch *w, uint64_t id) {
    struct server_socket *s = w->first;
    while (s != NULL && s->id != id) {
        s = s->next;
    }
    return s;
}

static void notice_gone(struct server_watch *w, serve_job *job) {
    /* One that has all of its answer may close before libmicrohttpd says so. */
    if (!serve_job_is_done(job)) {
        (void)pthread_mutex_lock(&w->server->counters.lock);
        w->server->counters.gone++;
        (void)pthread_mutex_unlock(&w->server->counters.lock);
    }
    serve_job_cancel(job);
}

/* Tells the exchange of a job, if it still has one, and lets the job go. Without the watcher's
 * lock, since connections are resumed. */
static void tell(serve_job *job, void (*what)(exchange *x)) {
    (void)pthread_mutex_lock(&job->lock);
    if (job->wake_ctx != NULL) {
        what(job->wake_ctx);
    }
    (void)pthread_mutex_unlock(&job->lock);
    serve_job_drop(job);
}

/* With the lock, which it leaves meanwhile. */
static void take_event(struct server_watch *w, const struct epoll_event *event) {
    struct server_socket *s = find_socket(w, event->data.u64);
    if (s == NULL || s->job == NULL) {
        return;
    }
    serve_job *job = s->job;
    const bool is_gone = (event->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    serve_job_hold(job);
    atomic_store(&s->blocked_s, 0);
    if (is_gone) {
        notice_gone(w, job);
        s->job = NULL; /* once is enough */
    } else {
        struct epoll_event again = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = s->id};
        (void)epoll_ctl(w->epoll, EPOLL_CTL_MOD, s->fd, &again);
    }
    (void)pthread_mutex_unlock(&w->lock);
    tell(job, is_gone ? server_stream_give_up : server_stream_room);
    (void)pthread_mutex_lock(&w->lock);
}

static void end_slow_ones(struct server_watch *w, double now_s) {
    const serve_options *o = &w->server->options;
    const double taking_limit_s = (double)server_inactive_s(o);
    for (const struct server_socket *s = w->first; s != NULL; s = s->next) {
        double limit_s = (double)o->body_timeout_s;
        if (s->phase == PHASE_IDLE) {
            limit_s = (double)(s->has_sent ? o->idle_timeout_s : o->header_timeout_s);
        }
        const double blocked_s = atomic_load(&s->blocked_s);
        const bool is_blocked = blocked_s > 0 && now_s - blocked_s > taking_limit_s;
        if (is_blocked || (s->phase != PHASE_WORKING && now_s - s->since_s > limit_s)) {
            (void)shutdown(s->fd, SHUT_RDWR); /* libmicrohttpd, or take_event, sees it */
        }
    }
}

static void *run_watch(void *arg) {
    struct server_watch *w = arg;
    double scanned_s = 0;
    for (;;) {
        struct epoll_event events[MAX_EVENTS];
        const int n = epoll_wait(w->epoll, events, MAX_EVENTS, SCAN_MS);
        const double now_s = lk_console_seconds();
        (void)pthread_mutex_lock(&w->lock);
        for (int i = 0; i < n; i++) {
            if (events[i].data.u64 == 0) {
                (void)pthread_mutex_unlock(&w->lock);
                return NULL;
            }
            take_event(w, &events[i]);
        }
        if ((now_s - scanned_s) * 1000.0 > (double)SCAN_MS) {
            scanned_s = now_s;
            end_slow_ones(w, now_s);
        }
        (void)pthread_mutex_unlock(&w->lock);
    }
}

bool server_watch_start(server *s) {
    struct server_watch *w = calloc(1, sizeof *w);
    if (w == NULL) {
        return false;
    }
    w->server = s;
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->stop = eventfd(0, EFD_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0};
    if (w->epoll < 0 || w->stop < 0 || epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->stop, &event) != 0 ||
        pthread_mutex_init(&w->lock, NULL) != 0) {
        (void)close(w->epoll);
        (void)close(w->stop);
        free(w);
        return false;
    }
    if (pthread_create(&w->thread, NULL, run_watch, w) != 0) {
        (void)pthread_mutex_destroy(&w->lock);
        (void)close(w->epoll);
        (void)close(w->stop);
        free(w);
        return false;
    }
    s->watch = w;
    return true;
}

void server_watch_stop(server *s) {
    struct server_watch *w = s->watch;
    if (w == NULL) {
        return;
    }
    const uint64_t one = 1;
    (void)!write(w->stop, &one, sizeof one);
    (void)pthread_join(w->thread, NULL);
    (void)pthread_mutex_destroy(&w->lock);
    (void)close(w->epoll);
    (void)close(w->stop);
    free(w);
    s->watch = NULL;
}

static void join_list(struct server_watch *w, struct server_socket *s) {
    (void)pthread_mutex_lock(&w->lock);
    s->id = ++w->n_ids;
    s->next = w->first;
    if (w->first != NULL) {
        w->first->prev = s;
    }
    w->first = s;
    (void)pthread_mutex_unlock(&w->lock);
}

static void leave_list(struct server_watch *w, struct server_socket *s) {
    (void)pthread_mutex_lock(&w->lock);
    (void)epoll_ctl(w->epoll, EPOLL_CTL_DEL, s->fd, NULL);
    if (s->next != NULL) {
        s->next->prev = s->prev;
    }
    if (s->prev != NULL) {
        s->prev->next = s->next;
    } else {
        w->first = s->next;
    }
    (void)pthread_mutex_unlock(&w->lock);
}

void server_watch_notify(void *ctx, struct MHD_Connection *connection, void **socket_context,
                         enum MHD_ConnectionNotificationCode code) {
    server *s = ctx;
    struct server_socket *socket = *socket_context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        socket = info != NULL ? calloc(1, sizeof *socket) : NULL;
        if (socket != NULL) {
            socket->fd = info->connect_fd;
            socket->since_s = lk_console_seconds();
            join_list(s->watch, socket);
        }
        *socket_context = socket;
    } else if (socket != NULL) {
        leave_list(s->watch, socket);
        free(socket);
        *socket_context = NULL;
    }
}

static void enter_phase(server *s, struct server_socket *socket, phase next, serve_job *job) {
    if (socket == NULL) {
        return;
    }
    struct server_watch *w = s->watch;
    (void)pthread_mutex_lock(&w->lock);
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = socket->id};
    if (job != NULL && socket->job == NULL) {
        (void)epoll_ctl(w->epoll, EPOLL_CTL_ADD, socket->fd, &event);
    } else if (job == NULL) {
        (void)epoll_ctl(w->epoll, EPOLL_CTL_DEL, socket->fd, NULL);
    }
    socket->job = job;
    socket->phase = next;
    socket->since_s = lk_console_seconds();
    socket->has_sent = socket->has_sent || next != PHASE_IDLE;
    (void)pthread_mutex_unlock(&w->lock);
}

void server_watch_receiving(server *s, struct server_socket *socket) {
    enter_phase(s, socket, PHASE_RECEIVING, NULL);
}

void server_watch_working(server *s, struct server_socket *socket, serve_job *job) {
    enter_phase(s, socket, PHASE_WORKING, job);
}

void server_watch_idle(server *s, struct server_socket *socket) {
    enter_phase(s, socket, PHASE_IDLE, NULL);
}

int server_watch_fd(const struct server_socket *socket) {
    return socket->fd;
}

void server_watch_room(server *s, struct server_socket *socket) {
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLOUT | EPOLLONESHOT,
                                .data.u64 = socket->id};
    atomic_store(&socket->blocked_s, lk_console_seconds());
    (void)epoll_ctl(s->watch->epoll, EPOLL_CTL_MOD, socket->fd, &event);
}

void server_watch_give_up(server *s) {
    struct server_watch *w = s->watch;
    serve_job *job = NULL;
    do {
        (void)pthread_mutex_lock(&w->lock);
        struct server_socket *socket = w->first;
        while (socket != NULL && (socket->job == NULL || atomic_load(&socket->blocked_s) <= 0)) {
            socket = socket->next;
        }
        job = socket != NULL ? socket->job : NULL;
        if (job != NULL) {
            atomic_store(&socket->blocked_s, 0);
            serve_job_hold(job);
        }
        (void)pthread_mutex_unlock(&w->lock);
        if (job != NULL) {
            tell(job, server_stream_give_up);
        }
    } while (job != NULL);
}

void server_cancel_all(server *s) {
    (void)pthread_mutex_lock(&s->watch->lock);
    for (const struct server_socket *socket = s->watch->first; socket != NULL;
         socket = socket->next) {
        if (socket->job != NULL) {
            serve_job_cancel(socket->job);
        }
    }
    (void)pthread_mutex_unlock(&s->watch->lock);
}
