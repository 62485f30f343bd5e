/* test_chat_terminal.c - `lockstep chat` on a terminal, as a person uses it: letters beyond ASCII,
 * editing, history, messages of several lines, Ctrl-C at the prompt, Ctrl-D. */
#define _XOPEN_SOURCE 700 /* posix_openpt */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "lk_test.h"
#include "server_process.h"

enum { WAIT_MS = 20000 };

typedef struct terminal {
    int fd;
    pid_t pid;
    char seen[1 << 16]; /* since the last line that was typed */
    size_t n;
} terminal;

static void start_chat(const char *name) {
    const int fd = open(name, O_RDWR); /* the first one opened: the controlling terminal */
    (void)dup2(fd, STDIN_FILENO);
    (void)dup2(fd, STDOUT_FILENO);
    (void)dup2(fd, STDERR_FILENO);
    (void)unsetenv("LANG");
    (void)unsetenv("LC_ALL");
    (void)setenv("TERM", "xterm", 1);
    (void)execl(LK_TOOL_PATH, "lockstep", "chat", lk_test_data("models/tiny-q4_k_m.gguf"), "--temp",
                "0", "-n", "300", (char *)NULL);
    _exit(127);
}

static bool terminal_open(terminal *t) {
    *t = (terminal){.fd = posix_openpt(O_RDWR | O_NOCTTY)};
    const char *name =
        t->fd >= 0 && grantpt(t->fd) == 0 && unlockpt(t->fd) == 0 ? ptsname(t->fd) : NULL;
    t->pid = name != NULL ? fork() : -1;
    if (t->pid == 0) {
        (void)close(t->fd); /* else the chat would keep its own terminal open */
        (void)setsid();
        start_chat(name);
    }
    return t->pid > 0;
}

/* Reads until `text` has come (`n_times`); false after a while. */
static bool comes(terminal *t, const char *text, int n_times) {
    for (int waited = 0; waited < WAIT_MS;) {
        int found = 0;
        for (const char *at = t->seen; (at = strstr(at, text)) != NULL; at++) {
            found++;
        }
        if (found >= n_times) {
            return true;
        }
        struct pollfd ready = {t->fd, POLLIN, 0};
        if (poll(&ready, 1, 100) <= 0) {
            waited += 100;
            continue;
        }
        const ssize_t got = read(t->fd, t->seen + t->n, sizeof t->seen - 1 - t->n);
        if (got <= 0) {
            return false;
        }
        t->n += (size_t)got;
        t->seen[t->n] = '\0';
    }
    return false;
}

/* As slow as a person: libedit shows its prompt just before it takes the terminal's keys over. */
static void type(terminal *t, const char *text) {
    sleep_ms(100);
    t->n = 0;
    t->seen[0] = '\0';
    CHECK(write(t->fd, text, strlen(text)) == (ssize_t)strlen(text));
}

#define COMES(t, text)                                                                             \
    CHECK_MSG(comes(t, text, 1), "'%s' does not come, but: %.600s", text, (t)->seen)

LK_TEST(a_person) {
    static terminal t;
    if (!terminal_open(&t)) {
        (void)printf("no terminal can be opened here\n");
        return;
    }
    COMES(&t, "> ");
    /* Two characters too many, taken back; then what the model gets. */
    type(&t, "\xc3\xa9t\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac\x7f\x7f\xe6\x9c\xa8\r");
    COMES(&t, "\r\n> ");
    type(&t, "/prompt\r");
    COMES(&t, "user\r\n\xc3\xa9t\xc3\xa9 \xe6\x9c\xa8<|im_end|>");
    COMES(&t, "> ");
    /* Dropped: a line, and a block. */
    type(&t, "half a li");
    COMES(&t, "half a li");
    type(&t, "\x03");
    COMES(&t, "> ");
    type(&t, "\"\"\"\r");
    COMES(&t, ". ");
    type(&t, "one\r");
    COMES(&t, ". ");
    type(&t, "\x03");
    COMES(&t, "> ");
    type(&t, "\x03");
    COMES(&t, "Ctrl-D leaves)");
    COMES(&t, "> ");
    /* From the history: the block's line, its mark, and then what came before. */
    type(&t, "\x1b[A\x1b[A\x1b[A\r");
    COMES(&t, "user\r\n\xc3\xa9t\xc3\xa9 \xe6\x9c\xa8<|im_end|>");
    CHECK(strstr(t.seen, "half") == NULL);
    COMES(&t, "> ");
    type(&t, "/nothing\r");
    COMES(&t, "there is no command /nothing");
    COMES(&t, "> ");
    type(&t, "\x04");
    int status = 0;
    while (read(t.fd, t.seen, sizeof t.seen) > 0) {
    }
    CHECK(waitpid(t.pid, &status, 0) == t.pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    (void)close(t.fd);
}

LK_TEST_MAIN(LK_RUN(a_person))
