/* faulty_server.c - see faulty_server.h. One thread for each connection, one request each. */
#include "faulty_server.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lk_test.h"
#include "server_process.h"

enum { MAX_REQUEST = 1 << 16, MAX_WORD = 32, TOKEN_MS = 3, DIES_AFTER = 3 };

struct faulty_server {
    faulty_fault fault;
    faulty_dialect dialect;
    int fd;
    int port;
    pthread_t thread;
    atomic_bool is_ending;
    atomic_int n_threads;
    atomic_int n_active; /* completions under way */
    atomic_int n_requests;
    pthread_mutex_t lock;
    char last_word[MAX_WORD]; /* code word of the request before */
    uint32_t last_seed;
};

typedef struct connection {
    faulty_server *s;
    int fd;
} connection;

static bool put(int fd, const char *text) {
    return http_send(fd, text, strlen(text));
}

static void put_head(int fd, int status, const char *type) {
    char head[160];
    (void)snprintf(head, sizeof head,
                   "HTTP/1.1 %d X\r\nContent-Type: %s\r\nConnection: close\r\n\r\n", status, type);
    (void)put(fd, head);
}

/* The request as far as its Content-Length says; false when it does not come. */
static bool read_request(int fd, char *request) {
    size_t n = 0;
    for (;;) {
        const ssize_t got = read(fd, request + n, MAX_REQUEST - 1 - n);
        if (got <= 0) {
            return false;
        }
        n += (size_t)got;
        request[n] = '\0';
        const char *end = strstr(request, "\r\n\r\n");
        const char *length = strstr(request, "Content-Length: ");
        const size_t body = length != NULL ? strtoul(length + 16, NULL, 10) : 0;
        if (end != NULL && n >= (size_t)(end + 4 - request) + body) {
            return true;
        }
    }
}

static uint32_t hash_of(const char *text) {
    uint32_t hash = 2166136261u;
    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    }
    return hash;
}

/* Token i of the answer to a prompt. */
static uint32_t token_of(uint32_t seed, int i) {
    uint32_t x = seed + (uint32_t)i * 2654435761u;
    x ^= x >> 15;
    x *= 2246822519u;
    return (x ^ x >> 13) % 200 + 10;
}

/* One event; its first token names the code word. */
static bool put_token(const faulty_server *s, int fd, faulty_token *t, const char *word) {
    char event[1000];
    char text[64];
    (void)snprintf(text, sizeof text, t->i == 0 ? " %s%.0u" : " %.0sw%u", word, t->id);
    t->text = text;
    faulty_put_token(s->dialect, t, event, sizeof event);
    return put(fd, event);
}

static void flood(const faulty_server *s, int fd) {
    static const char piece[4096] = {'x'};
    put_head(fd, 200, "text/event-stream");
    while (!atomic_load(&s->is_ending) && http_send(fd, piece, sizeof piece)) {
    }
}

static void wait_for_end(const faulty_server *s, int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char byte = 0;
    while (!atomic_load(&s->is_ending) && (poll(&p, 1, 20) == 0 || read(fd, &byte, 1) > 0)) {
    }
}

/* In company: whether another completion is under way now, or was at the beginning. */
static bool is_in_company(faulty_server *s) {
    return atomic_load(&s->n_active) > 1;
}

static void stream(faulty_server *s, int fd, const char *request) {
    char word[MAX_WORD] = "none";
    char other[MAX_WORD];
    const char *at = strstr(request, "secret word is ");
    const char *asked = strstr(request, "\"max_tokens\":");
    const int n = asked != NULL ? atoi(asked + 13) : 16;
    const char *prompt = strstr(request, "\"prompt\":");
    const char *messages = strstr(request, "\"messages\":");
    uint32_t seed = hash_of(prompt != NULL ? prompt : messages != NULL ? messages : "");
    if (at != NULL) {
        (void)sscanf(at + 15, "%30[a-z]", word);
        seed = hash_of(word);
    }
    (void)pthread_mutex_lock(&s->lock);
    (void)snprintf(other, sizeof other, "%s", s->last_word);
    const uint32_t other_seed = s->last_seed;
    (void)snprintf(s->last_word, sizeof s->last_word, "%s", word);
    s->last_seed = seed;
    (void)pthread_mutex_unlock(&s->lock);

    sleep_ms(TOKEN_MS);
    const bool company = is_in_company(s);
    if (company && s->fault == FAULTY_REFUSES) {
        put_head(fd, 500, "application/json");
        (void)put(fd, "{\"error\":{\"message\":\"out of slots\"}}");
        return;
    }
    if (company && s->fault == FAULTY_FOREIGN) {
        (void)snprintf(word, sizeof word, "%s", other);
        seed = other_seed;
    }
    put_head(fd, 200, "text/event-stream");
    faulty_token t = {.is_chat = messages != NULL,
                      .wants_ids = strstr(request, "\"return_token_ids\":true") != NULL};
    for (int i = 0; i < n && !(company && s->fault == FAULTY_EMPTY); i++) {
        uint32_t token = token_of(seed, i);
        double logprob = -0.25 - (double)(token % 16) / 16;
        const bool now = company || is_in_company(s);
        if (now && (s->fault == FAULTY_TOKENS || (s->fault == FAULTY_NOISE && i > 8))) {
            token += 300;
        } else if (now && s->fault == FAULTY_LOOP) {
            token = 9;
        } else if (now && s->fault == FAULTY_NOISE) {
            logprob += 0.001;
        } else if (now && s->fault == FAULTY_CLOSES && i == 6) {
            return;
        }
        t.id = token;
        t.logprob = logprob;
        t.i = i;
        t.is_last = i + 1 == n;
        if (!put_token(s, fd, &t, word)) {
            return;
        }
        sleep_ms(TOKEN_MS);
    }
    char end[1000];
    faulty_put_end(s->dialect, end, sizeof end);
    (void)put(fd, end);
}

static void complete(faulty_server *s, int fd, const char *request) {
    const int n = atomic_fetch_add(&s->n_requests, 1);
    if (s->fault == FAULTY_JUNK) {
        put_head(fd, 200, "text/event-stream");
        (void)put(fd, "data: {\"choices\": [}\n\n<html>\x01\x02</html>\n");
    } else if (s->fault == FAULTY_FLOODS) {
        flood(s, fd);
    } else if (s->fault == FAULTY_HANGS) {
        wait_for_end(s, fd);
    } else if (s->fault != FAULTY_DIES || n < DIES_AFTER) {
        (void)atomic_fetch_add(&s->n_active, 1);
        stream(s, fd, request);
        (void)atomic_fetch_sub(&s->n_active, 1);
    }
}

static void *serve(void *arg) {
    connection *c = arg;
    faulty_server *s = c->s;
    char *request = malloc(MAX_REQUEST);
    const bool is_dead = s->fault == FAULTY_DIES && atomic_load(&s->n_requests) >= DIES_AFTER;
    if (request != NULL && !is_dead && read_request(c->fd, request)) {
        char path[64] = "";
        (void)sscanf(request, "GET %60[^ \r\n]", path);
        const char *page = faulty_page(s->dialect, path);
        if (page != NULL) {
            put_head(c->fd, 200, "application/json");
            (void)put(c->fd, s->fault == FAULTY_NO_MODELS ? "{\"data\":[]}" : page);
        } else if (strncmp(request, "POST /v1/completions ", 21) == 0 ||
                   (faulty_has_chats(s->dialect) &&
                    strncmp(request, "POST /v1/chat/completions ", 26) == 0)) {
            complete(s, c->fd, request);
        } else {
            put_head(c->fd, 404, "application/json");
            (void)put(c->fd, "{\"error\":{\"message\":\"no such path\"}}");
        }
    }
    free(request);
    (void)close(c->fd);
    free(c);
    (void)atomic_fetch_sub(&s->n_threads, 1);
    return NULL;
}

static void *accept_all(void *arg) {
    faulty_server *s = arg;
    while (!atomic_load(&s->is_ending)) {
        struct pollfd p = {.fd = s->fd, .events = POLLIN};
        if (poll(&p, 1, 50) != 1) {
            continue;
        }
        pthread_t thread;
        connection *c = malloc(sizeof *c);
        CHECK(c != NULL);
        if (c == NULL) {
            break;
        }
        *c = (connection){s, accept(s->fd, NULL, NULL)};
        (void)atomic_fetch_add(&s->n_threads, 1);
        CHECK(pthread_create(&thread, NULL, serve, c) == 0);
        (void)pthread_detach(thread);
    }
    return NULL;
}

faulty_server *faulty_start(faulty_fault fault, faulty_dialect dialect) {
    faulty_server *s = calloc(1, sizeof *s);
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (s == NULL || (s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0 ||
        bind(s->fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(s->fd, 64) != 0 ||
        getsockname(s->fd, (struct sockaddr *)&address, &size) != 0) {
        perror("faulty_start");
        exit(1);
    }
    s->fault = fault;
    s->dialect = dialect;
    s->port = ntohs(address.sin_port);
    (void)pthread_mutex_init(&s->lock, NULL);
    if (pthread_create(&s->thread, NULL, accept_all, s) != 0) {
        perror("faulty_start");
        exit(1);
    }
    return s;
}

int faulty_port(const faulty_server *s) {
    return s->port;
}

int faulty_requests(faulty_server *s) {
    return atomic_load(&s->n_requests);
}

void faulty_stop(faulty_server *s) {
    atomic_store(&s->is_ending, true);
    (void)pthread_join(s->thread, NULL);
    while (atomic_load(&s->n_threads) > 0) {
        sleep_ms(2);
    }
    (void)close(s->fd);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}
