/* console.h - what the commands write besides their results: errors and progress go to standard
 * error; results go to standard output, whose failures (a full disk, a closed pipe) are noticed. */
#ifndef LK_CONSOLE_H
#define LK_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>

#include "lk/base.h"

/* "lockstep COMMAND: message" for a failed call of the library; returns exit status 1. */
int lk_console_failed(const char *command, const lk_error *err);
/* The same for a failure of the tool itself. */
int lk_console_error(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Ends a command's output: flushes, and reports when something could not be written. Returns
 * exit_status, or 1. */
int lk_console_finish(const char *command, int exit_status);

/* Has the first SIGINT (Ctrl-C) or SIGTERM call `handler`, which must keep to what is safe in a
 * signal handler; NULL: the signal is only noted. A second one ends the process. A signal that is
 * ignored (a background job of a script) stays so. */
void lk_console_catch_interrupt(void (*handler)(void));
/* The exit status that shells expect after such a signal, 0 when none came. */
int lk_console_interrupt_status(void);

/* An lk_progress_fn that draws a bar on standard error when that is a terminal; else it does
 * nothing. ctx: an lk_progress_bar. Call lk_progress_bar_clear before other output. */
typedef struct lk_progress_bar {
    bool is_terminal;
    int drawn; /* permille last drawn, -1: nothing on the screen */
    const char *phase;
} lk_progress_bar;
void lk_progress_bar_init(lk_progress_bar *bar);
int lk_progress_bar_draw(void *ctx, const char *phase, uint64_t done, uint64_t total);
/* The same, for a call that can be cancelled: ends it once a signal has come
 * (lk_console_catch_interrupt). */
int lk_progress_bar_draw_or_cancel(void *ctx, const char *phase, uint64_t done, uint64_t total);
void lk_progress_bar_clear(lk_progress_bar *bar);

/* Seconds of a clock that only goes forward. */
double lk_console_seconds(void);

/* The whole of a file, or of standard input for "-", in memory that the caller frees with free();
 * *n_bytes without the zero byte that follows. Prints the reason and returns NULL on failure. */
char *lk_console_read(const char *command, const char *path, size_t max_bytes, size_t *n_bytes);

#endif
