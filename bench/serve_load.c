/* serve_load.c - clients that keep a running `lockstep serve` busy: each sends its next request as
 * soon as its last answer is complete, all from one thread. Prints requests and tokens per second
 * over the time in which every client had work, the time to the first token and from token to
 * token.
 *
 *   serve_load PORT [CLIENTS] [REQUESTS EACH] [TOKENS] [WORDS OF PROMPT]
 *
 * One event of a stream is one token where the server sends each as it comes; the tokens counted
 * are those of `usage`. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CLIENTS = 1024, ROOM = 1 << 16, MAX_TIMES = 1 << 22 };

typedef struct client {
    int fd;
    int n_left;
    double sent_s;
    double last_s; /* of an event; 0: none yet */
    size_t n;
    char bytes[ROOM];
} client;

typedef struct times {
    double *s;
    size_t n;
} times;

static double now_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what) {
    (void)fprintf(stderr, "serve_load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void add_time(times *list, double s) {
    if (list->s == NULL && (list->s = malloc(MAX_TIMES * sizeof list->s[0])) == NULL) {
        die("malloc");
    }
    if (list->n < MAX_TIMES) {
        list->s[list->n++] = s;
    }
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the list. */
static double quantile_ms(times *list, double q) {
    if (list->n == 0) {
        return 0;
    }
    qsort(list->s, list->n, sizeof list->s[0], compare);
    return 1000 * list->s[(size_t)(q * (double)(list->n - 1))];
}

static void connect_to(client *c, int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)&at, sizeof at) != 0) {
        die("connect");
    }
}

static void send_request(client *c, int i, int n_tokens, int n_words) {
    char body[8192];
    char text[8192 + 256];
    size_t n = (size_t)snprintf(body, sizeof body,
                                "{\"max_tokens\": %d, \"ignore_eos\": true, \"seed\": %d, "
                                "\"stream\": true, \"stream_options\": {\"include_usage\": true}, "
                                "\"prompt\": \"%d.%d",
                                n_tokens, i, i, c->n_left);
    for (int k = 0; k < n_words && n < sizeof body - 64; k++) {
        n += (size_t)snprintf(body + n, sizeof body - n, " the");
    }
    n += (size_t)snprintf(body + n, sizeof body - n, "\"}");
    const int n_text = snprintf(text, sizeof text,
                                "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                                "application/json\r\nContent-Length: %zu\r\n\r\n%s",
                                n, body);
    c->n = 0;
    c->last_s = 0;
    c->sent_s = now_s();
    if (send(c->fd, text, (size_t)n_text, MSG_NOSIGNAL) != n_text) {
        die("send");
    }
}

typedef struct figures {
    times first;
    times next;
    uint64_t n_tokens;
    uint64_t n_requests;
} figures;

/* Takes whole lines; true when the answer is complete. */
static bool take_lines(client *c, figures *f, double at_s) {
    bool is_over = false;
    char *line = c->bytes;
    for (char *end = NULL; (end = memchr(line, '\n', c->n - (size_t)(line - c->bytes))) != NULL;
         line = end + 1) {
        *end = '\0';
        const char *usage = strstr(line, "\"completion_tokens\":");
        if (strncmp(line, "HTTP/1.1 ", 9) == 0 && strncmp(line + 9, "200", 3) != 0) {
            (void)fprintf(stderr, "serve_load: %s\n", line);
            exit(1);
        }
        if (strncmp(line, "data: [DONE]", 12) == 0) {
            is_over = true;
        } else if (usage != NULL) {
            f->n_tokens += strtoull(usage + 20, NULL, 10);
        } else if (strncmp(line, "data: ", 6) == 0 && strstr(line, "\"length\"") == NULL) {
            add_time(c->last_s == 0 ? &f->first : &f->next,
                     at_s - (c->last_s == 0 ? c->sent_s : c->last_s));
            c->last_s = at_s;
        }
    }
    const size_t rest = c->n - (size_t)(line - c->bytes);
    memmove(c->bytes, line, rest);
    c->n = rest;
    return is_over;
}

int main(int argc, char **argv) {
    static client clients[MAX_CLIENTS];
    static struct pollfd polls[MAX_CLIENTS];
    figures f = {0};
    const int port = argc > 1 ? atoi(argv[1]) : 0;
    const int n_clients = argc > 2 ? atoi(argv[2]) : 64;
    const int n_each = argc > 3 ? atoi(argv[3]) : 4;
    const int n_tokens = argc > 4 ? atoi(argv[4]) : 64;
    const int n_words = argc > 5 ? atoi(argv[5]) : 8;
    if (port <= 0 || n_clients < 1 || n_clients > MAX_CLIENTS || n_each < 1 || n_tokens < 1) {
        (void)fprintf(stderr,
                      "usage: serve_load PORT [CLIENTS] [REQUESTS EACH] [TOKENS] [WORDS]\n");
        return 2;
    }
    const double start_s = now_s();
    for (int i = 0; i < n_clients; i++) {
        clients[i].n_left = n_each;
        connect_to(&clients[i], port);
        polls[i] = (struct pollfd){.fd = clients[i].fd, .events = POLLIN};
        send_request(&clients[i], i, n_tokens, n_words);
    }
    for (int n_open = n_clients; n_open > 0;) {
        if (poll(polls, (nfds_t)n_clients, 60000) <= 0) {
            die("no answer within a minute");
        }
        const double at_s = now_s();
        for (int i = 0; i < n_clients; i++) {
            client *c = &clients[i];
            if ((polls[i].revents & (POLLIN | POLLHUP | POLLERR)) == 0) {
                continue;
            }
            const ssize_t got = recv(c->fd, c->bytes + c->n, ROOM - c->n, 0);
            if (got <= 0) {
                die("recv");
            }
            c->n += (size_t)got;
            if (!take_lines(c, &f, at_s)) {
                continue;
            }
            f.n_requests++;
            if (--c->n_left > 0) {
                send_request(c, i, n_tokens, n_words);
            } else {
                (void)close(c->fd);
                polls[i].fd = -1;
                n_open--;
            }
        }
    }
    const double took_s = now_s() - start_s;
    struct rusage used;
    (void)getrusage(RUSAGE_SELF, &used);
    (void)printf("requests %llu in %.3f s: %.1f requests/s, %.1f tokens/s\n",
                 (unsigned long long)f.n_requests, took_s, (double)f.n_requests / took_s,
                 (double)f.n_tokens / took_s);
    (void)printf("first token: p50 %.1f ms, p99 %.1f ms\n", quantile_ms(&f.first, 0.5),
                 quantile_ms(&f.first, 0.99));
    (void)printf("token to token: p50 %.2f ms, p99 %.2f ms\n", quantile_ms(&f.next, 0.5),
                 quantile_ms(&f.next, 0.99));
    (void)printf("this program: %.2f s of processor time\n",
                 (double)used.ru_utime.tv_sec + (double)used.ru_stime.tv_sec +
                     1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec));
    free(f.first.s);
    free(f.next.s);
    return 0;
}
