/* options.h - the command line of a command, described by a table and parsed by one function.
 *
 * Options are `--name VALUE`, `--name=VALUE` or `-x VALUE`; flags take no value. Everything else is
 * a positional argument ("-" alone too); `--` ends the options. A value is taken as it is, also
 * when it begins with a dash. An unknown option, a missing value, a number that is none or is out
 * of range, and a positional argument too many or too few are errors that name it: exit status 2.
 * `--help` and `-h` print the command's help: exit status 0. */
#ifndef LK_OPTIONS_H
#define LK_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum lk_option_kind {
    LK_OPTION_FLAG, /* bool */
    LK_OPTION_TEXT, /* const char *; the last one counts */
    LK_OPTION_LIST, /* lk_option_list; all are kept */
    LK_OPTION_INT,  /* int64_t, min .. max */
    LK_OPTION_U64,  /* uint64_t, decimal or 0x */
    LK_OPTION_REAL  /* double, min .. max */
} lk_option_kind;

enum { LK_OPTION_LIST_MAX = 64 };
typedef struct lk_option_list {
    const char *items[LK_OPTION_LIST_MAX];
    size_t n;
} lk_option_list;

typedef struct lk_option {
    const char *name;  /* "--threads" */
    const char *alias; /* "-t", or NULL */
    lk_option_kind kind;
    void *value; /* set when the option occurs; its type follows from `kind` */
    double min;
    double max;  /* numbers only */
    bool *given; /* set to true when the option occurs; may be NULL */
} lk_option;

typedef struct lk_positional {
    const char *name; /* as the help writes it: "MODEL" */
    const char **value;
    bool required;
} lk_positional;

typedef struct lk_command_line {
    const char *command; /* "run" */
    const char *help;    /* all that --help prints */
    const lk_option *options;
    size_t n_options;
    const lk_positional *positionals; /* required ones first */
    size_t n_positionals;
} lk_command_line;

/* argv[0] is the command's name. True: go on. False: return *exit_status from the command. */
bool lk_options_parse(const lk_command_line *line, int argc, char **argv, int *exit_status);

#endif
