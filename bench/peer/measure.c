/* measure.c - measure REPORT COMMAND...: runs a command, passes its output on, and writes to the
 * file REPORT, as JSON: seconds to the first byte of its output and to its end, its peak memory,
 * its processor time and its exit status. Used for both engines alike. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds_of(struct timeval t) {
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

/* Passes on what comes through the pipe; the seconds at which the first byte came, or -1. */
static double copy(int from, double start) {
    char bytes[65536];
    double first = -1.0;
    for (;;) {
        const ssize_t n = read(from, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return first;
        }
        first = first < 0.0 ? seconds() - start : first;
        if (write(STDOUT_FILENO, bytes, (size_t)n) != n) {
            return first;
        }
    }
}

int main(int argc, char **argv) {
    if (argc < 3) {
        (void)fprintf(stderr, "usage: measure REPORT COMMAND...\n");
        return 2;
    }
    int ends[2];
    if (pipe(ends) != 0) {
        (void)fprintf(stderr, "measure: %s\n", strerror(errno));
        return 1;
    }
    const double start = seconds();
    const pid_t child = fork();
    if (child == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)execvp(argv[2], argv + 2);
        (void)fprintf(stderr, "measure: %s: %s\n", argv[2], strerror(errno));
        _exit(127);
    }
    (void)close(ends[1]);
    const double first = copy(ends[0], start);
    int status = 0;
    struct rusage usage;
    if (child < 0 || wait4(child, &status, 0, &usage) != child) {
        (void)fprintf(stderr, "measure: %s\n", strerror(errno));
        return 1;
    }
    const double wall = seconds() - start;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    FILE *report = fopen(argv[1], "w");
    if (report == NULL) {
        (void)fprintf(stderr, "measure: %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    (void)fprintf(report,
                  "{\"first_seconds\": %.6f, \"seconds\": %.6f, \"peak_bytes\": %lld, "
                  "\"cpu_seconds\": %.6f, \"status\": %d}\n",
                  first, wall, (long long)usage.ru_maxrss * 1024,
                  seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime), code);
    return fclose(report) == 0 ? code : 1;
}
