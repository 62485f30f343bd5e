/* experiment_across.c - the same prompts computed elsewhere: in a fresh process, or, from a receipt
 * file (--record there, --across here), on another machine or by another build. */
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/open_model.h"
#include "verify_receipt.h"

extern char **environ;

/* Runs `lockstep verify MODEL --record PATH` as a process of its own; false when it failed. */
static bool record_elsewhere(const verify *v, const char *path) {
    char n[32];
    char threads[32];
    char kv[64];
    const verify_point *p = &v->base;
    (void)snprintf(n, sizeof n, "%lld", (long long)p->value[VERIFY_N]);
    (void)snprintf(threads, sizeof threads, "%lld", (long long)p->value[VERIFY_THREADS]);
    (void)snprintf(kv, sizeof kv, "%s,%s", lk_kv_type_name((lk_kv_type)p->value[VERIFY_K_TYPE]),
                   lk_kv_type_name((lk_kv_type)p->value[VERIFY_V_TYPE]));
    const char *const words[] = {v->options->program,
                                 "verify",
                                 v->options->model,
                                 "--record",
                                 path,
                                 "--target",
                                 v->options->target,
                                 "-n",
                                 n,
                                 "-t",
                                 threads,
                                 "--kv-type",
                                 kv,
                                 NULL};
    char *argv[sizeof words / sizeof words[0]];
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        argv[i] = words[i] != NULL ? strdup(words[i]) : NULL;
    }
    posix_spawn_file_actions_t actions;
    pid_t child = 0;
    int state = -1;
    bool ok = posix_spawn_file_actions_init(&actions) == 0;
    if (ok) {
        ok = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", 1, 0) == 0 &&
             posix_spawnp(&child, v->options->program, &actions, NULL, argv, environ) == 0 &&
             waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 0;
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        free(argv[i]);
    }
    return ok;
}

void verify_experiment_across(verify *v) {
    char path[300];
    const char *folder = getenv("TMPDIR");
    if (v->options->across != NULL) {
        verify_receipt_compare(v, v->options->across, "the receipt");
        return;
    }
    (void)snprintf(path, sizeof path, "%.250s/lockstep-receipt-XXXXXX",
                   folder != NULL ? folder : "/tmp");
    const int file = mkstemp(path);
    verify_progress(v, "a fresh process");
    if (file >= 0 && close(file) == 0 && record_elsewhere(v, path)) {
        verify_receipt_compare(v, path, "a fresh process");
    } else {
        verify_line *line = verify_line_add(v, "a fresh process");
        if (line != NULL) {
            verify_line_give_up(v, line, VERIFY_BROKEN, "a process of its own could not be run");
            verify_table_line(v, line);
        }
    }
    (void)unlink(path);
}
