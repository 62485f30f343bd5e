/* server_process.h - a `lockstep serve` of our own on a free port, and a small HTTP client that can
 * also misbehave. Blocking, with a limit of a minute on every wait; a failure ends the test
 * program. */
#ifndef LK_SERVER_PROCESS_H
#define LK_SERVER_PROCESS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct server_process {
    pid_t pid;
    int port;
} server_process;

/* Starts the tool over tests/data/models/tiny-q4_k_m.gguf with more arguments (NULL at the end). */
server_process server_start(const char *const *arguments);
/* The same over another model. */
server_process server_start_model(const char *model, const char *const *arguments);
/* Sends SIGTERM, waits for the end and checks that the exit status is 0. */
void server_stop(server_process *process);
/* The same without the signal. */
void server_wait(server_process *process);
/* What is written to standard output by the tool with these arguments; *exit_status. malloc'd. */
char *tool_output(const char *const *arguments, int *exit_status);

enum { HTTP_WAIT_S = 60 };

typedef struct http_answer {
    int status;     /* 0: none, or not all of it, came */
    bool timed_out; /* because nothing came for HTTP_WAIT_S */
    char head[4096];
    char *body; /* without chunks, zero-terminated; malloc'd */
    size_t n_body;
} http_answer;

int http_connect(int port);
/* Sends all; false when the peer has closed. */
bool http_send(int fd, const void *bytes, size_t n);
/* Sends a request; body NULL: none. `more` holds further header lines, each with its line end. */
bool http_send_request(int fd, const char *method, const char *path, const char *more,
                       const char *body);
/* The same with a body of any bytes. */
bool http_send_body(int fd, const char *method, const char *path, const char *more,
                    const void *body, size_t n_body);
/* Why nothing more came on a connection, for messages: the time is over, or the peer closed it. To
 * be called at once: looks at errno. */
const char *http_why_ended(void);
/* Reads one answer; status 0 when the connection was closed before it was complete. */
http_answer http_read(int fd);
void http_free(http_answer *answer);
/* Connect, send, read, close. */
http_answer http_call(int port, const char *method, const char *path, const char *body);
/* The body as JSON, which must be some. The status must be the one expected. */
json_t *http_json(int port, const char *method, const char *path, const char *body, int status);

/* The value of a line of /metrics. */
double metric(int port, const char *name);
/* Waits until a metric is at most `most`; false after 20 seconds. */
bool metric_falls_to(int port, const char *name, double most);
/* Waits until it is at least `least`; false after 20 seconds. */
bool metric_rises_to(int port, const char *name, double least);
/* Kilobytes of the process in memory. */
long resident_kb(pid_t pid);
double seconds_now(void);
void sleep_ms(long ms);

#endif
