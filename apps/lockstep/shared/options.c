/* options.c - see options.h. */
#include "options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints "lockstep COMMAND: ..." and where to find help; returns false. */
static bool fail(const lk_command_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool fail(const lk_command_line *line, const char *format, ...) {
    (void)fprintf(stderr, "lockstep %s: ", line->command);
    va_list args;
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fprintf(stderr, "; 'lockstep %s --help' lists what it takes\n", line->command);
    return false;
}

/* The option that `arg` names; *value is what follows its "=", or NULL. NULL when there is none. */
static const lk_option *find_option(const lk_command_line *line, const char *arg,
                                    const char **value) {
    const bool is_long = arg[1] == '-';
    const char *equals = is_long ? strchr(arg, '=') : NULL;
    const size_t n = equals != NULL ? (size_t)(equals - arg) : strlen(arg);
    *value = equals != NULL ? equals + 1 : NULL;
    for (size_t i = 0; i < line->n_options; i++) {
        const char *name = is_long ? line->options[i].name : line->options[i].alias;
        if (name != NULL && strlen(name) == n && strncmp(name, arg, n) == 0) {
            return &line->options[i];
        }
    }
    return NULL;
}

static bool parse_int(const lk_command_line *line, const lk_option *option, const char *text) {
    char *end = NULL;
    errno = 0;
    const long long x = strtoll(text, &end, 10);
    if (end == text || *end != '\0') {
        return fail(line, "%s needs a whole number, not '%s'", option->name, text);
    }
    if (errno != 0 || (double)x < option->min || (double)x > option->max) {
        return fail(line, "%s needs a number from %.0f to %.0f, not '%s'", option->name,
                    option->min, option->max, text);
    }
    *(int64_t *)option->value = x;
    return true;
}

static bool parse_u64(const lk_command_line *line, const lk_option *option, const char *text) {
    char *end = NULL;
    errno = 0;
    const bool is_hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    const unsigned long long x = strtoull(text, &end, is_hex ? 16 : 10);
    if (end == text || *end != '\0' || errno != 0 || text[0] < '0' || text[0] > '9') {
        return fail(line, "%s needs a number from 0 to 18446744073709551615, not '%s'",
                    option->name, text);
    }
    *(uint64_t *)option->value = x;
    return true;
}

static bool parse_real(const lk_command_line *line, const lk_option *option, const char *text) {
    char *end = NULL;
    const double x = strtod(text, &end);
    if (end == text || *end != '\0') {
        return fail(line, "%s needs a number, not '%s'", option->name, text);
    }
    if (!(x >= option->min && x <= option->max)) {
        return fail(line, "%s needs a number from %g to %g, not '%s'", option->name, option->min,
                    option->max, text);
    }
    *(double *)option->value = x;
    return true;
}

static bool store(const lk_command_line *line, const lk_option *option, const char *text) {
    if (option->given != NULL) {
        *option->given = true;
    }
    switch (option->kind) {
    case LK_OPTION_FLAG:
        *(bool *)option->value = true;
        return true;
    case LK_OPTION_TEXT:
        *(const char **)option->value = text;
        return true;
    case LK_OPTION_LIST: {
        lk_option_list *list = option->value;
        if (list->n == LK_OPTION_LIST_MAX) {
            return fail(line, "%s may be given %d times at most", option->name, LK_OPTION_LIST_MAX);
        }
        list->items[list->n++] = text;
        return true;
    }
    case LK_OPTION_INT:
        return parse_int(line, option, text);
    case LK_OPTION_U64:
        return parse_u64(line, option, text);
    case LK_OPTION_REAL:
        return parse_real(line, option, text);
    }
    return false;
}

/* Takes the option at argv[*i], and its value. */
static bool take_option(const lk_command_line *line, int argc, char **argv, int *i) {
    const char *arg = argv[*i];
    const char *value = NULL;
    const lk_option *option = find_option(line, arg, &value);
    if (option == NULL) {
        return fail(line, "unknown option '%s'", arg);
    }
    if (option->kind == LK_OPTION_FLAG) {
        if (value != NULL) {
            return fail(line, "%s takes no value", option->name);
        }
    } else if (value == NULL) {
        if (*i + 1 >= argc) {
            return fail(line, "%s needs a value", arg);
        }
        value = argv[++*i];
    }
    return store(line, option, value);
}

static bool take_all(const lk_command_line *line, int argc, char **argv, bool *wants_help) {
    size_t n_positionals = 0;
    bool only_positionals = false;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        const bool is_option = !only_positionals && arg[0] == '-' && arg[1] != '\0';
        if (is_option && strcmp(arg, "--") == 0) {
            only_positionals = true;
        } else if (is_option && (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)) {
            *wants_help = true;
            return true;
        } else if (is_option) {
            if (!take_option(line, argc, argv, &i)) {
                return false;
            }
        } else if (n_positionals == line->n_positionals) {
            return fail(line, "unexpected argument '%s'", arg);
        } else {
            *line->positionals[n_positionals++].value = arg;
        }
    }
    if (n_positionals < line->n_positionals && line->positionals[n_positionals].required) {
        return fail(line, "%s is missing", line->positionals[n_positionals].name);
    }
    return true;
}

bool lk_options_parse(const lk_command_line *line, int argc, char **argv, int *exit_status) {
    bool wants_help = false;
    *exit_status = 0;
    if (!take_all(line, argc, argv, &wants_help)) {
        *exit_status = 2;
        return false;
    }
    if (wants_help) {
        *exit_status = fputs(line->help, stdout) < 0 || fflush(stdout) != 0;
        return false;
    }
    return true;
}
