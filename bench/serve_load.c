/* serve_load.c - clients that keep a running `lockstep serve` busy: each sends its next request as
 * soon as its last answer is complete, all from one thread. Prints requests and tokens per second
 * over the time in which every client had work, the time to the first token and from token to
 * token.
 *
 *   serve_load PORT [CLIENTS] [REQUESTS EACH] [TOKENS] [TOKENS OF PROMPT]
 *
 * Prompts are token ids, no two alike and other ones in each run, so that the server's prefix cache
 * has nothing for them. One event of a stream is one token where the server sends each as it comes;
 * the tokens counted are those of `usage`. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CLIENTS = 1024, ROOM = 1 << 16, MAX_TIMES = 1 << 22, MAX_PROMPT = 1024 };

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

/* The k-th token of a prompt, an id that every vocabulary has. */
static int token_of(uint64_t prompt, int k) {
    uint64_t x = (prompt * 1024 + (uint64_t)k + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9u;
    return 1 + (int)((x >> 32) % 200);
}

static void send_request(client *c, int i, int n_tokens, int n_prompt) {
    char body[8192];
    char text[8192 + 256];
    const uint64_t prompt = ((uint64_t)getpid() * MAX_CLIENTS + (uint64_t)i) * 4096;
    size_t n = (size_t)snprintf(body, sizeof body,
                                "{\"max_tokens\": %d, \"ignore_eos\": true, \"seed\": %d, "
                                "\"stream\": true, \"stream_options\": {\"include_usage\": true}, "
                                "\"prompt\": [",
                                n_tokens, i);
    for (int k = 0; k < n_prompt; k++) {
        n += (size_t)snprintf(body + n, sizeof body - n, k == 0 ? "%d" : ",%d",
                              token_of(prompt + (uint64_t)c->n_left, k));
    }
    n += (size_t)snprintf(body + n, sizeof body - n, "]}");
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
    uint64_t n_prompt_tokens;
    uint64_t n_cached_tokens;
    uint64_t n_tokens;
    uint64_t n_requests;
} figures;

static uint64_t number_of(const char *line, const char *name) {
    const char *at = strstr(line, name);
    return at != NULL ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* Takes whole lines; true when the answer is complete. */
static bool take_lines(client *c, figures *f, double at_s) {
    bool is_over = false;
    char *line = c->bytes;
    for (char *end = NULL; (end = memchr(line, '\n', c->n - (size_t)(line - c->bytes))) != NULL;
         line = end + 1) {
        *end = '\0';
        if (strncmp(line, "HTTP/1.1 ", 9) == 0 && strncmp(line + 9, "200", 3) != 0) {
            (void)fprintf(stderr, "serve_load: %s\n", line);
            exit(1);
        }
        if (strncmp(line, "data: [DONE]", 12) == 0) {
            is_over = true;
        } else if (strstr(line, "\"completion_tokens\":") != NULL) {
            f->n_tokens += number_of(line, "\"completion_tokens\":");
            f->n_prompt_tokens += number_of(line, "\"prompt_tokens\":");
            f->n_cached_tokens += number_of(line, "\"cached_tokens\":");
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

static void print_figures(figures *f, double took_s) {
    struct rusage used;
    (void)getrusage(RUSAGE_SELF, &used);
    (void)printf("requests %llu in %.3f s: %.2f requests/s, %.1f sampled tokens/s, "
                 "%.1f with prompts (%llu from the cache)\n",
                 (unsigned long long)f->n_requests, took_s, (double)f->n_requests / took_s,
                 (double)f->n_tokens / took_s, (double)(f->n_tokens + f->n_prompt_tokens) / took_s,
                 (unsigned long long)f->n_cached_tokens);
    (void)printf("first token: p50 %.1f ms, p99 %.1f ms\n", quantile_ms(&f->first, 0.5),
                 quantile_ms(&f->first, 0.99));
    (void)printf("token to token: p50 %.2f ms, p99 %.2f ms\n", quantile_ms(&f->next, 0.5),
                 quantile_ms(&f->next, 0.99));
    (void)printf("this program: %.2f s of processor time\n",
                 (double)used.ru_utime.tv_sec + (double)used.ru_stime.tv_sec +
                     1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec));
}

int main(int argc, char **argv) {
    static client clients[MAX_CLIENTS];
    static struct epoll_event events[MAX_CLIENTS];
    figures f = {0};
    const int port = argc > 1 ? atoi(argv[1]) : 0;
    const int n_clients = argc > 2 ? atoi(argv[2]) : 64;
    const int n_each = argc > 3 ? atoi(argv[3]) : 4;
    const int n_tokens = argc > 4 ? atoi(argv[4]) : 64;
    const int n_prompt = argc > 5 ? atoi(argv[5]) : 16;
    if (port <= 0 || n_clients < 1 || n_clients > MAX_CLIENTS || n_each < 1 || n_tokens < 1 ||
        n_prompt < 1 || n_prompt > MAX_PROMPT) {
        (void)fprintf(stderr,
                      "usage: serve_load PORT [CLIENTS] [REQUESTS EACH] [TOKENS] [PROMPT]\n");
        return 2;
    }
    const int epoll = epoll_create1(0);
    const double start_s = now_s();
    for (int i = 0; i < n_clients; i++) {
        clients[i].n_left = n_each;
        connect_to(&clients[i], port);
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, clients[i].fd, &event) != 0) {
            die("epoll");
        }
        send_request(&clients[i], i, n_tokens, n_prompt);
    }
    for (int n_open = n_clients; n_open > 0;) {
        const int n_events = epoll_wait(epoll, events, MAX_CLIENTS, 120000);
        if (n_events <= 0) {
            die("no answer within two minutes");
        }
        const double at_s = now_s();
        for (int k = 0; k < n_events; k++) {
            const int i = (int)events[k].data.u32;
            client *c = &clients[i];
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
                send_request(c, i, n_tokens, n_prompt);
            } else {
                (void)close(c->fd);
                n_open--;
            }
        }
    }
    print_figures(&f, now_s() - start_s);
    free(f.first.s);
    free(f.next.s);
    return 0;
}
