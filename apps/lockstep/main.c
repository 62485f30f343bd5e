/* main.c - the lockstep tool: finds the command in commands.def and runs it. */
#include <stdio.h>
#include <string.h>

#include "command.h"

typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} command;

static const command commands[] = {
#define LK_COMMAND(name, summary) {#name, lk_command_##name, summary},
#include "commands.def"
#undef LK_COMMAND
    {NULL, NULL, NULL},
};

/* A command whose identifier is make_random is called make-random. */
static void get_name(const command *c, char name[32]) {
    size_t n = 0;
    for (; c->name[n] != '\0' && n < 31; n++) {
        name[n] = c->name[n] == '_' ? '-' : c->name[n];
    }
    name[n] = '\0';
}

/* A full disk or a closed pipe is a failure here too. */
static int finish(void) {
    return fflush(stdout) != 0 || ferror(stdout);
}

static int print_help(FILE *out) {
    (void)fprintf(out, "lockstep - LLM inference with bit-exact isolation of sequences\n\n"
                       "usage: lockstep COMMAND [ARGUMENTS]\n\n");
    for (const command *c = commands; c->name != NULL; c++) {
        char name[32];
        get_name(c, name);
        (void)fprintf(out, "  %-12s %s\n", name, c->summary);
    }
    (void)fprintf(out, "\n  lockstep COMMAND --help   what a command takes\n"
                       "  lockstep --version        version, commit, build, numerics\n\n"
                       "example: lockstep run model.gguf -p \"Once upon a time\" -n 64\n");
    return out == stdout ? finish() : 2;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        return print_help(stderr);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        return print_help(stdout);
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("lockstep %s (commit %s, build %u, numerics %s)\n", lk_version(),
                     lk_version_commit(), lk_version_build(), lk_numerics_version());
        return finish();
    }
    for (const command *c = commands; c->name != NULL; c++) {
        char name[32];
        get_name(c, name);
        if (strcmp(argv[1], name) == 0) {
            return c->run(argc - 1, argv + 1);
        }
    }
    (void)fprintf(stderr, "lockstep: unknown command '%s'; 'lockstep --help' lists the commands\n",
                  argv[1]);
    return 2;
}
