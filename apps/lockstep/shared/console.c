/* console.c - see console.h. */
#include "console.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int lk_console_failed(const char *command, const lk_error *err) {
    (void)fprintf(stderr, "lockstep %s: %s (%s)\n", command, err->message,
                  lk_status_name(err->status));
    return 1;
}

int lk_console_error(const char *command, const char *format, ...) {
    (void)fprintf(stderr, "lockstep %s: ", command);
    va_list args;
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
    return 1;
}

int lk_console_finish(const char *command, int exit_status) {
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return lk_console_error(command, "cannot write to standard output%s%s",
                                errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
    }
    return exit_status;
}

/* A tool that stops another often sends its signal twice, to the process and to its group; that is
 * one wish. */
enum { ONE_WISH_MS = 250 };

static void (*interrupt_handler)(void);
static struct timespec interrupt_time;
static volatile sig_atomic_t interrupt_signal;

static void on_signal(int signal_number) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    if (interrupt_signal == 0) {
        interrupt_signal = signal_number;
        interrupt_time = now;
        if (interrupt_handler != NULL) {
            interrupt_handler();
        }
        return;
    }
    const int64_t ms = (int64_t)(now.tv_sec - interrupt_time.tv_sec) * 1000 +
                       (now.tv_nsec - interrupt_time.tv_nsec) / 1000000;
    if (ms >= ONE_WISH_MS) {
        (void)signal(signal_number, SIG_DFL);
        (void)raise(signal_number);
    }
}

void lk_console_catch_interrupt(void (*handler)(void)) {
    const int signals[] = {SIGINT, SIGTERM};
    interrupt_handler = handler;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaddset(&action.sa_mask, SIGINT);
    (void)sigaddset(&action.sa_mask, SIGTERM);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction inherited;
        if (sigaction(signals[i], NULL, &inherited) != 0 || inherited.sa_handler != SIG_IGN) {
            (void)sigaction(signals[i], &action, NULL);
        }
    }
}

int lk_console_interrupt_status(void) {
    return interrupt_signal == 0 ? 0 : 128 + (int)interrupt_signal;
}

void lk_progress_bar_init(lk_progress_bar *bar) {
    bar->is_terminal = isatty(STDERR_FILENO) == 1;
    bar->drawn = -1;
    bar->phase = "";
}

int lk_progress_bar_draw(void *ctx, const char *phase, uint64_t done, uint64_t total) {
    enum { WIDTH = 40 };
    lk_progress_bar *bar = ctx;
    if (!bar->is_terminal) {
        return 1;
    }
    const double share = total > 0 ? (double)done / (double)total : 1.0;
    const int permille = (int)(share * 1000.0);
    if (permille == bar->drawn && phase == bar->phase) {
        return 1;
    }
    bar->drawn = permille;
    bar->phase = phase;
    char cells[WIDTH + 1];
    const int n_full = permille * WIDTH / 1000;
    for (int i = 0; i < WIDTH; i++) {
        cells[i] = i < n_full ? '#' : '.';
    }
    cells[WIDTH] = '\0';
    (void)fprintf(stderr, "\r%-10s [%s] %3d%%", phase, cells, permille / 10);
    (void)fflush(stderr);
    return 1;
}

int lk_progress_bar_draw_or_cancel(void *ctx, const char *phase, uint64_t done, uint64_t total) {
    return interrupt_signal == 0 && lk_progress_bar_draw(ctx, phase, done, total);
}

void lk_progress_bar_clear(lk_progress_bar *bar) {
    if (bar->drawn >= 0) {
        (void)fputs("\r\033[K", stderr);
        (void)fflush(stderr);
        bar->drawn = -1;
    }
}

double lk_console_seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Reads to the end into memory that grows. *reason is set on failure. */
static char *read_all(FILE *file, size_t max_bytes, size_t *n_bytes, const char **reason) {
    size_t capacity = (size_t)1 << 16;
    size_t n = 0;
    char *bytes = malloc(capacity);
    while (bytes != NULL) {
        n += fread(bytes + n, 1, capacity - 1 - n, file);
        if (ferror(file)) {
            *reason = strerror(errno);
            break;
        }
        if (n > max_bytes) {
            *reason = "too long";
            break;
        }
        if (n < capacity - 1) {
            bytes[n] = '\0';
            *n_bytes = n;
            return bytes;
        }
        capacity *= 2;
        char *grown = realloc(bytes, capacity);
        if (grown == NULL) {
            *reason = "out of memory";
            break;
        }
        bytes = grown;
    }
    if (bytes == NULL) {
        *reason = "out of memory";
    }
    free(bytes);
    return NULL;
}

char *lk_console_read(const char *command, const char *path, size_t max_bytes, size_t *n_bytes) {
    const bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "rb");
    if (file == NULL) {
        (void)lk_console_error(command, "cannot open %s: %s", path, strerror(errno));
        return NULL;
    }
    const char *reason = "";
    char *bytes = read_all(file, max_bytes, n_bytes, &reason);
    if (bytes == NULL) {
        (void)lk_console_error(command, "cannot read %s: %s", is_stdin ? "standard input" : path,
                               reason);
    }
    if (!is_stdin) {
        (void)fclose(file);
    }
    return bytes;
}
