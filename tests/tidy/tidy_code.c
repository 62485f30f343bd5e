/* tidy_code.c - the rules about what code may include and call, and about the built objects. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tidy_rules.h"

/* The modules of src/, lowest first. Only downwards; equal levels do not see each other. */
typedef struct module {
    const char *name;
    int level;
} module;

static const module modules[] = {
    {"base", 0},  {"quant", 1},   {"gguf", 2},    {"ops", 2},   {"text", 2},   {"audio", 2},
    {"graph", 3}, {"grammar", 3}, {"backend", 4}, {"model", 5}, {"engine", 6}, {"api", 7},
};

/* The module whose name is the first `n` characters of `text`, or NULL. */
static const module *find_module(const char *text, size_t n) {
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++) {
        if (strlen(modules[i].name) == n && strncmp(modules[i].name, text, n) == 0) {
            return &modules[i];
        }
    }
    return NULL;
}

/* Calls `check` with the target of each #include in `lines`: "a/b.h" with its quotes or <a.h>. */
typedef void (*include_fn)(const char *path, int line, const char *target, tidy_findings *out);

static void each_include(const char *path, const char *lines, include_fn check,
                         tidy_findings *out) {
    int line = 1;
    for (const char *c = lines; *c != '\0'; line++) {
        const size_t n = strcspn(c, "\n");
        char text[512];
        (void)snprintf(text, sizeof text, "%.*s", (int)n, c);
        c += n + (c[n] == '\n');
        const char *t = text + strspn(text, " \t");
        if (*t != '#') {
            continue;
        }
        t += 1 + strspn(t + 1, " \t");
        if (!tidy_starts_with(t, "include")) {
            continue;
        }
        t += 7 + strspn(t + 7, " \t");
        check(path, line, t, out);
    }
}

static void check_src_include(const char *path, int line, const char *target, tidy_findings *out) {
    const char *inside = path + strlen("src/");
    const size_t n_self = strcspn(inside, "/");
    const module *self = find_module(inside, n_self);
    const size_t n_other = strcspn(target, "/\"");
    const module *other = find_module(target, n_other);
    if (tidy_starts_with(target, "lk/")) {
        return;
    }
    if (self == NULL) {
        tidy_add(out, path, line, "include", "src/%.*s is not a module", (int)n_self, inside);
    } else if (other == NULL || target[n_other] != '/') {
        tidy_add(out, path, line, "include", "\"%s: write the path from src/", target);
    } else if (strcmp(self->name, "audio") == 0 && strcmp(target, "ops/math.h\"") == 0) {
        return; /* the features are of the numeric definition, and use its elementary functions */
    } else if (other != self && other->level >= self->level) {
        tidy_add(out, path, line, "include", "%s must not see %s", self->name, other->name);
    } else if (other == self && strcmp(self->name, "backend") == 0) {
        const char *part = inside + n_self + 1;
        const char *other_part = target + n_other + 1;
        const size_t n = strcspn(other_part, "/");
        if (other_part[n] == '/' && strncmp(part, other_part, n + 1) != 0) {
            tidy_add(out, path, line, "include", "backends must not see each other");
        }
    }
}

static void check_include(const char *path, int line, const char *target, tidy_findings *out) {
    if (*target == '<') {
        if (tidy_starts_with(target, "<lk/") && !tidy_starts_with(path, "examples/")) {
            tidy_add(out, path, line, "include", "%s: project headers go in quotes", target);
        }
        return;
    }
    target++;
    if (strstr(target, "../") != NULL) {
        tidy_add(out, path, line, "include", "\"%s goes upwards", target);
    } else if (tidy_starts_with(path, "src/")) {
        check_src_include(path, line, target, out);
    } else if (tidy_starts_with(path, "include/")) {
        if (!tidy_starts_with(target, "lk/")) {
            tidy_add(out, path, line, "include", "a public header sees include/lk only");
        }
    } else if (tidy_starts_with(path, "apps/") || tidy_starts_with(path, "examples/")) {
        const size_t n = strcspn(target, "/\"");
        if (target[n] == '/' && find_module(target, n) != NULL) {
            tidy_add(out, path, line, "include", "programs see include/lk only, not src/%s",
                     target);
        }
    }
}

void tidy_check_includes(const char *path, const char *lines, tidy_findings *out) {
    each_include(path, lines, check_include, out);
}

static void check_intrinsics_include(const char *path, int line, const char *target,
                                     tidy_findings *out) {
    if (strstr(target, "intrin.h") != NULL || tidy_starts_with(target, "<arm_")) {
        tidy_add(out, path, line, "intrinsics", "%s only in src/backend/cpu/kern/", target);
    } else if (tidy_starts_with(target, "<cpuid.h>") &&
               !tidy_starts_with(path, "src/backend/cpu/")) {
        tidy_add(out, path, line, "intrinsics", "%s only in src/backend/cpu/", target);
    }
}

void tidy_check_intrinsics(const char *path, const char *lines, tidy_findings *out) {
    if (!tidy_is_kernel(path) && strcmp(path, "src/base/fpenv.c") != 0) {
        each_include(path, lines, check_intrinsics_include, out);
    }
}

/* Where a name is banned. */
enum { IN_SRC = 1, EVERYWHERE = 2, IN_SRC_BUT_ALLOC = 3, LIBM = 4, NO_CALL = 5 };

typedef struct banned {
    const char *name;
    int where;
} banned;

static const banned banned_names[] = {
    {"strcpy", EVERYWHERE},
    {"strcat", EVERYWHERE},
    {"sprintf", EVERYWHERE},
    {"vsprintf", EVERYWHERE},
    {"gets", EVERYWHERE},
    {"strtok", EVERYWHERE},
    {"alloca", EVERYWHERE},
    {"rand", EVERYWHERE},
    {"srand", EVERYWHERE},
    {"printf", IN_SRC},
    {"vprintf", IN_SRC},
    {"puts", IN_SRC},
    {"putchar", IN_SRC},
    {"perror", IN_SRC},
    {"stdout", NO_CALL},
    {"stderr", NO_CALL},
    {"exit", IN_SRC},
    {"_exit", IN_SRC},
    {"_Exit", IN_SRC},
    {"quick_exit", IN_SRC},
    {"abort", IN_SRC},
    {"getenv", IN_SRC},
    {"secure_getenv", IN_SRC},
    {"setenv", IN_SRC},
    {"putenv", IN_SRC},
    {"setlocale", IN_SRC},
    {"uselocale", IN_SRC},
    {"signal", IN_SRC},
    {"sigaction", IN_SRC},
    {"random", IN_SRC},
    {"system", IN_SRC},
    {"popen", IN_SRC},
    {"malloc", IN_SRC_BUT_ALLOC},
    {"calloc", IN_SRC_BUT_ALLOC},
    {"realloc", IN_SRC_BUT_ALLOC},
    {"aligned_alloc", IN_SRC_BUT_ALLOC},
    {"posix_memalign", IN_SRC_BUT_ALLOC},
    {"free", IN_SRC_BUT_ALLOC},
    {"strdup", IN_SRC_BUT_ALLOC},
    {"strndup", IN_SRC_BUT_ALLOC},
    /* libm gives other bits on other systems (numerics.md); each also with f and l at its end.
     * sqrt, fabs, floor, ceil, trunc, rint, nearbyint, ldexp, frexp are exact and allowed. */
    {"exp", LIBM},
    {"exp2", LIBM},
    {"exp10", LIBM},
    {"expm1", LIBM},
    {"log", LIBM},
    {"log2", LIBM},
    {"log10", LIBM},
    {"log1p", LIBM},
    {"sin", LIBM},
    {"cos", LIBM},
    {"tan", LIBM},
    {"sincos", LIBM},
    {"asin", LIBM},
    {"acos", LIBM},
    {"atan", LIBM},
    {"atan2", LIBM},
    {"sinh", LIBM},
    {"cosh", LIBM},
    {"tanh", LIBM},
    {"pow", LIBM},
    {"cbrt", LIBM},
    {"hypot", LIBM},
    {"erf", LIBM},
    {"erfc", LIBM},
    {"tgamma", LIBM},
    {"lgamma", LIBM},
    {"fma", LIBM},
};

static bool is_banned(const banned *ban, const char *word, size_t n, const char *path,
                      bool is_call) {
    const size_t n_name = strlen(ban->name);
    const bool is_name = strncmp(word, ban->name, n_name) == 0 &&
                         (n == n_name || (ban->where == LIBM && n == n_name + 1 &&
                                          (word[n_name] == 'f' || word[n_name] == 'l')));
    if (!is_name) {
        return false;
    }
    const bool in_src = tidy_starts_with(path, "src/");
    switch (ban->where) {
    case EVERYWHERE:
        return is_call;
    case NO_CALL:
        return in_src;
    case IN_SRC_BUT_ALLOC:
        return in_src && is_call && strcmp(path, "src/base/alloc.c") != 0;
    default:
        return in_src && is_call;
    }
}

void tidy_check_calls(const char *path, const char *code, tidy_findings *out) {
    int line = 1;
    for (const char *c = code; *c != '\0';) {
        if (!isalpha((unsigned char)*c) && *c != '_') {
            const bool is_number = isdigit((unsigned char)*c) != 0;
            line += *c++ == '\n';
            while (is_number && (isalnum((unsigned char)*c) || *c == '_')) {
                c++; /* 0x1exp is no call */
            }
            continue;
        }
        const char *word = c;
        while (isalnum((unsigned char)*c) || *c == '_') {
            c++;
        }
        const bool is_member = word > code && (word[-1] == '.' || word[-1] == '>');
        const bool is_call = c[strspn(c, " \t\n")] == '(';
        for (size_t i = 0; !is_member && i < sizeof banned_names / sizeof banned_names[0]; i++) {
            if (is_banned(&banned_names[i], word, (size_t)(c - word), path, is_call)) {
                tidy_add(out, path, line, "calls", "%.*s is banned here", (int)(c - word), word);
            }
        }
    }
}

void tidy_check_file(const char *path, const char *text, tidy_findings *out) {
    const bool is_header = tidy_ends_with(path, ".h");
    tidy_check_words(path, text, out);
    if (tidy_ends_with(path, ".md") || tidy_ends_with(path, ".json")) {
        return;
    }
    tidy_check_size(path, text, out);
    if (!is_header && !tidy_ends_with(path, ".c") && !tidy_ends_with(path, ".cu") &&
        !tidy_ends_with(path, ".def")) {
        return;
    }
    char *lines = tidy_strip(text, false);
    char *code = tidy_strip(text, true);
    tidy_check_opening(path, text, out);
    tidy_check_includes(path, lines, out);
    tidy_check_calls(path, code, out);
    if (!tidy_starts_with(path, "tests/")) {
        tidy_check_intrinsics(path, lines, out);
    }
    if (!tidy_is_kernel(path)) {
        tidy_check_functions(path, code, out);
    }
    if (is_header) {
        tidy_check_guard(path, lines, out);
    }
    free(lines);
    free(code);
}
