/* server_process.c - see server_process.h. */
#include "server_process.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lk_test.h"

enum { WAIT_MS = 1000 * HTTP_WAIT_S, MAX_ARGUMENTS = 40 };

static void die(const char *what) {
    (void)fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

double seconds_now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void sleep_ms(long ms) {
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&t, NULL);
}

/* Starts the tool; its standard output comes out of *out. */
static pid_t start_tool(const char *const *arguments, int *out) {
    const char *argv[MAX_ARGUMENTS] = {LK_TOOL_PATH};
    int pipes[2];
    size_t n = 1;
    for (; arguments[n - 1] != NULL && n + 1 < MAX_ARGUMENTS; n++) {
        argv[n] = arguments[n - 1];
    }
    if (pipe(pipes) != 0) {
        die("pipe");
    }
    const pid_t pid = fork();
    if (pid < 0) {
        die("fork");
    }
    if (pid == 0) {
        union {
            const char *const *given;
            char *const *wanted;
        } list = {argv};
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that dies leaves nothing behind */
        (void)dup2(pipes[1], STDOUT_FILENO);
        (void)close(pipes[0]);
        (void)close(pipes[1]);
        (void)execv(LK_TOOL_PATH, list.wanted);
        _exit(127);
    }
    (void)close(pipes[1]);
    (void)fcntl(pipes[0], F_SETFD, FD_CLOEXEC);
    *out = pipes[0];
    return pid;
}

char *tool_output(const char *const *arguments, int *exit_status) {
    int out = -1;
    int status = 0;
    const pid_t pid = start_tool(arguments, &out);
    size_t n = 0;
    size_t size = 4096;
    char *text = malloc(size);
    for (ssize_t got = 1; text != NULL && got > 0; n += (size_t)(got > 0 ? got : 0)) {
        if (size - n < 2048) {
            size *= 2;
            char *larger = realloc(text, size);
            if (larger == NULL) {
                die("realloc");
            }
            text = larger;
        }
        got = read(out, text + n, size - n - 1);
    }
    if (text == NULL || waitpid(pid, &status, 0) != pid) {
        die("waitpid");
    }
    text[n] = '\0';
    (void)close(out);
    *exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return text;
}

server_process server_start(const char *const *arguments) {
    return server_start_model(lk_test_data("models/tiny-q4_k_m.gguf"), arguments);
}

server_process server_start_model(const char *model, const char *const *arguments) {
    const char *all[MAX_ARGUMENTS] = {"serve", model, "--port", "0"};
    size_t n = 4;
    for (; arguments[n - 4] != NULL && n + 1 < MAX_ARGUMENTS; n++) {
        all[n] = arguments[n - 4];
    }
    server_process process = {0, 0};
    int out = -1;
    char line[32];
    size_t n_line = 0;
    process.pid = start_tool(all, &out);
    while (n_line + 1 < sizeof line && (n_line == 0 || line[n_line - 1] != '\n')) {
        struct pollfd p = {.fd = out, .events = POLLIN};
        if (poll(&p, 1, WAIT_MS) != 1 || read(out, line + n_line, 1) != 1) {
            (void)fprintf(stderr, "the server did not start\n");
            exit(1);
        }
        n_line++;
    }
    line[n_line] = '\0';
    process.port = atoi(line);
    (void)close(out);
    return process;
}

void server_wait(server_process *process) {
    const double start = seconds_now();
    int status = 0;
    while (waitpid(process->pid, &status, WNOHANG) == 0) {
        if ((seconds_now() - start) * 1000.0 > (double)WAIT_MS) {
            (void)kill(process->pid, SIGKILL);
            lk_test_fail(__FILE__, __LINE__, "the server did not end");
        }
        sleep_ms(5);
    }
    CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the server ended with %x", status);
}

void server_stop(server_process *process) {
    (void)kill(process->pid, SIGTERM);
    server_wait(process);
}

/* ---- HTTP ---- */

int http_connect(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct timeval limit = {WAIT_MS / 1000, 0};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
        connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        die("connect");
    }
    return fd;
}

bool http_send(int fd, const void *bytes, size_t n) {
    const char *rest = bytes;
    while (n > 0) {
        const ssize_t sent = send(fd, rest, n, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        rest += sent;
        n -= (size_t)sent;
    }
    return true;
}

bool http_send_request(int fd, const char *method, const char *path, const char *more,
                       const char *body) {
    return http_send_body(fd, method, path, more, body, body != NULL ? strlen(body) : 0);
}

bool http_send_body(int fd, const char *method, const char *path, const char *more,
                    const void *body, size_t n_body) {
    char head[2048];
    (void)snprintf(head, sizeof head,
                   "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %zu\r\n%s\r\n", method,
                   path, n_body, more != NULL ? more : "");
    return http_send(fd, head, strlen(head)) && (n_body == 0 || http_send(fd, body, n_body));
}

/* One byte at a time: simple, and fast enough here. */
static bool read_byte(int fd, char *c) {
    return recv(fd, c, 1, 0) == 1;
}

static bool read_line(int fd, char *line, size_t size) {
    size_t n = 0;
    while (n + 1 < size && read_byte(fd, &line[n])) {
        if (line[n] == '\n') {
            line[n - (n > 0 && line[n - 1] == '\r')] = '\0';
            return true;
        }
        n++;
    }
    return false;
}

static bool read_bytes(int fd, http_answer *a, size_t n) {
    char *grown = realloc(a->body, a->n_body + n + 1);
    if (grown == NULL) {
        die("realloc");
    }
    a->body = grown;
    while (n > 0) {
        const ssize_t got = recv(fd, a->body + a->n_body, n, 0);
        if (got <= 0) {
            return false;
        }
        a->n_body += (size_t)got;
        n -= (size_t)got;
    }
    a->body[a->n_body] = '\0';
    return true;
}

static bool read_chunks(int fd, http_answer *a) {
    char line[64];
    for (;;) {
        if (!read_line(fd, line, sizeof line)) {
            return false;
        }
        const size_t n = (size_t)strtoul(line, NULL, 16);
        if (!read_bytes(fd, a, n) || !read_line(fd, line, sizeof line)) {
            return false;
        }
        if (n == 0) {
            return true;
        }
    }
}

static bool is_time_over(void) {
    return errno == EAGAIN || errno == EWOULDBLOCK;
}

const char *http_why_ended(void) {
    return is_time_over() ? "TIME-OUT, nothing came for a minute" : "the server closed it";
}

http_answer http_read(int fd) {
    errno = 0;
    http_answer a = {.status = 0};
    size_t n_head = 0;
    size_t n_body = 0;
    bool is_chunked = false;
    char line[1024];
    bool ok = read_line(fd, line, sizeof line);
    const int status = ok && strncmp(line, "HTTP/1.1 ", 9) == 0 ? atoi(line + 9) : 0;
    while (ok && (ok = read_line(fd, line, sizeof line)) && line[0] != '\0') {
        n_head += (size_t)snprintf(a.head + n_head, sizeof a.head - n_head, "%s\n", line);
        n_head = n_head < sizeof a.head ? n_head : sizeof a.head - 1;
        is_chunked = is_chunked || strcasecmp(line, "Transfer-Encoding: chunked") == 0;
        if (strncasecmp(line, "Content-Length: ", 16) == 0) {
            n_body = (size_t)strtoul(line + 16, NULL, 10);
        }
    }
    ok = ok && (is_chunked ? read_chunks(fd, &a) : read_bytes(fd, &a, n_body));
    a.timed_out = !ok && is_time_over();
    a.status = ok ? status : 0;
    return a;
}

void http_free(http_answer *answer) {
    free(answer->body);
    answer->body = NULL;
}

http_answer http_call(int port, const char *method, const char *path, const char *body) {
    const int fd = http_connect(port);
    (void)http_send_request(fd, method, path, NULL, body); /* it may be refused in the middle */
    const http_answer answer = http_read(fd);
    (void)close(fd);
    return answer;
}

json_t *http_json(int port, const char *method, const char *path, const char *body, int status) {
    http_answer a = http_call(port, method, path, body);
    CHECK_MSG(a.status == status, "%s %s: status %d, expected %d: %s%s", method, path, a.status,
              status, a.timed_out ? "TIME-OUT, nothing came for a minute: " : "",
              a.body != NULL ? a.body : "");
    json_t *json = a.body != NULL ? json_loadb(a.body, a.n_body, JSON_ALLOW_NUL, NULL) : NULL;
    CHECK_MSG(json != NULL, "%s %s: no JSON: %.200s", method, path, a.body != NULL ? a.body : "");
    http_free(&a);
    return json;
}

double metric(int port, const char *name) {
    http_answer a = http_call(port, "GET", "/metrics", NULL);
    char wanted[128];
    (void)snprintf(wanted, sizeof wanted, "\nlockstep_%s ", name);
    const char *found = a.body != NULL ? strstr(a.body, wanted) : NULL;
    CHECK_MSG(found != NULL, "no metric %s", name);
    const double value = found != NULL ? strtod(found + strlen(wanted), NULL) : -1;
    http_free(&a);
    return value;
}

bool metric_falls_to(int port, const char *name, double most) {
    const double start = seconds_now();
    while (metric(port, name) > most) {
        if (seconds_now() - start > 20) {
            return false;
        }
        sleep_ms(5);
    }
    return true;
}

bool metric_rises_to(int port, const char *name, double least) {
    const double start = seconds_now();
    while (metric(port, name) < least) {
        if (seconds_now() - start > 20) {
            return false;
        }
        sleep_ms(1);
    }
    return true;
}

long resident_kb(pid_t pid) {
    char path[64];
    char line[256];
    long kb = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        kb = strncmp(line, "VmRSS:", 6) == 0 ? atol(line + 6) : kb;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return kb;
}
