/* tidy_text.c - the rules that look at one file as text: sizes, functions, guards, opening
 * comments, words, and file names. The rules about calls and includes are in tidy_code.c. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tidy_rules.h"

void tidy_add(tidy_findings *out, const char *path, int line, const char *rule, const char *format,
              ...) {
    const size_t i = out->n++;
    if (i >= TIDY_MAX_FINDINGS) {
        return;
    }
    char what[TIDY_MAX_TEXT / 2];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    (void)snprintf(out->text[i], TIDY_MAX_TEXT, "%.120s:%d: %.24s: %s", path, line, rule, what);
}

bool tidy_starts_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool tidy_ends_with(const char *text, const char *suffix) {
    const size_t n = strlen(text);
    const size_t n_suffix = strlen(suffix);
    return n >= n_suffix && strcmp(text + n - n_suffix, suffix) == 0;
}

const char *tidy_base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

bool tidy_is_kernel(const char *path) {
    return tidy_starts_with(path, "src/backend/cpu/kern/");
}

/* Blanks text[i], unless it is a line break. */
static void blank(char *text, size_t i) {
    if (text[i] != '\n') {
        text[i] = ' ';
    }
}

/* Blanks the comment that begins at i; returns the index after it. */
static size_t strip_comment(char *text, size_t i) {
    const bool block = text[i + 1] == '*';
    blank(text, i++);
    blank(text, i++);
    while (text[i] != '\0') {
        if (block && text[i] == '*' && text[i + 1] == '/') {
            blank(text, i++);
            blank(text, i++);
            return i;
        }
        if (!block && text[i] == '\n') {
            return i;
        }
        blank(text, i++);
    }
    return i;
}

/* The index after the literal that begins at i; its inside becomes blanks if asked. */
static size_t strip_literal(char *text, size_t i, bool blanks) {
    const char quote = text[i++];
    while (text[i] != '\0' && text[i] != quote && text[i] != '\n') {
        const size_t n = text[i] == '\\' && text[i + 1] != '\0' ? 2 : 1;
        for (size_t k = 0; k < n; k++, i++) {
            if (blanks) {
                blank(text, i);
            }
        }
    }
    return text[i] == quote ? i + 1 : i;
}

char *tidy_strip(const char *text, bool strings) {
    const size_t n = strlen(text);
    char *copy = malloc(n + 1);
    if (copy == NULL) {
        abort();
    }
    memcpy(copy, text, n + 1);
    size_t i = 0;
    while (copy[i] != '\0') {
        if (copy[i] == '/' && (copy[i + 1] == '*' || copy[i + 1] == '/')) {
            i = strip_comment(copy, i);
        } else if (copy[i] == '"' || copy[i] == '\'') {
            i = strip_literal(copy, i, strings);
        } else {
            i++;
        }
    }
    return copy;
}

/* Tables that a program made are as long as they are, and so are their names. */
static bool is_generated(const char *path) {
    return tidy_ends_with(path, "_tables.c") || tidy_ends_with(path, "_tables.h");
}

void tidy_check_size(const char *path, const char *text, tidy_findings *out) {
    int line = 1;
    int columns = 0;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\n') {
            if (columns > TIDY_MAX_COLUMNS) {
                tidy_add(out, path, line, "columns", "%d columns, at most %d", columns,
                         TIDY_MAX_COLUMNS);
            }
            line++;
            columns = 0;
        } else if (((unsigned char)*c & 0xc0u) != 0x80u) {
            columns++; /* continuation bytes of UTF-8 take no column */
        }
    }
    if (line - 1 > TIDY_MAX_LINES && !is_generated(path)) {
        tidy_add(out, path, line - 1, "lines", "%d lines, at most %d", line - 1, TIDY_MAX_LINES);
    }
}

/* Does the code before the brace at `brace` end like a function head, with a closing parenthesis?
 */
static bool is_function_head(const char *code, const char *brace) {
    const char *c = brace;
    while (c > code && isspace((unsigned char)c[-1])) {
        c--;
    }
    return c > code && c[-1] == ')';
}

void tidy_check_functions(const char *path, const char *code, tidy_findings *out) {
    int line = 1;
    int depth = 0;
    int start = 0; /* line of the function's opening brace, 0 outside functions */
    for (const char *c = code; *c != '\0'; c++) {
        if (*c == '\n') {
            line++;
        } else if (*c == '{' && !(depth == 0 && c > code + 3 && c[-2] == '"')) {
            if (depth == 0 && is_function_head(code, c)) {
                start = line;
            }
            depth++;
        } else if (*c == '}' && depth > 0) { /* extern "C" { } is not counted */
            depth--;
            if (depth == 0 && start != 0) {
                const int n = line - start + 1;
                if (n > TIDY_MAX_FUNCTION_LINES) {
                    tidy_add(out, path, start, "function", "%d lines, at most %d", n,
                             TIDY_MAX_FUNCTION_LINES);
                }
                start = 0;
            }
        }
    }
}

/* The next line that is not blank, or NULL; *line becomes its text without leading blanks. */
static const char *next_line(const char *c, char *line, size_t size) {
    while (*c != '\0' && isspace((unsigned char)*c)) {
        c++;
    }
    if (*c == '\0') {
        return NULL;
    }
    const size_t n = strcspn(c, "\n");
    (void)snprintf(line, size, "%.*s", (int)n, c);
    return c + n;
}

void tidy_check_guard(const char *path, const char *lines, tidy_findings *out) {
    char wanted[160];
    char first[160] = "";
    char second[160] = "";
    const char *name = tidy_base_name(path);
    size_t n = 0;
    wanted[n++] = '_';
    for (; name[n - 1] != '\0' && n < sizeof wanted - 1; n++) {
        const char c = name[n - 1];
        wanted[n] = (char)(isalnum((unsigned char)c) ? toupper((unsigned char)c) : '_');
    }
    wanted[n] = '\0';
    if (tidy_starts_with(wanted, "_LK_")) {
        (void)memmove(wanted, wanted + 3, n - 2);
    }
    const char *rest = next_line(lines, first, sizeof first);
    if (rest != NULL) {
        (void)next_line(rest, second, sizeof second);
    }
    if (!tidy_starts_with(first, "#ifndef LK_") || !tidy_ends_with(first, wanted) ||
        !tidy_starts_with(second, "#define LK_") || strcmp(first + 8, second + 8) != 0) {
        tidy_add(out, path, 1, "guard", "a header begins with #ifndef and #define LK_...%s",
                 wanted);
    }
}

void tidy_check_opening(const char *path, const char *text, tidy_findings *out) {
    char line[TIDY_MAX_TEXT] = "";
    (void)next_line(text, line, sizeof line);
    if (!tidy_starts_with(line, "/*") || strstr(line, tidy_base_name(path)) == NULL) {
        tidy_add(out, path, 1, "opening", "a file opens with a comment: its name, what it does");
    }
}

void tidy_check_words(const char *path, const char *text, tidy_findings *out) {
    /* In two halves, so that this file passes its own rule. */
    static const char *const halves[][2] = {{"TO", "DO"}, {"FIX", "ME"}, {"XX", "X"}};
    for (size_t i = 0; i < sizeof halves / sizeof halves[0]; i++) {
        char word[16];
        (void)snprintf(word, sizeof word, "%s%s", halves[i][0], halves[i][1]);
        for (const char *c = strstr(text, word); c != NULL; c = strstr(c + 1, word)) {
            const bool begins = c == text || !(isalnum((unsigned char)c[-1]) || c[-1] == '_');
            const char after = c[strlen(word)];
            if (begins && !isalnum((unsigned char)after) && after != '_') {
                int line = 1;
                for (const char *l = text; l < c; l++) {
                    line += *l == '\n';
                }
                tidy_add(out, path, line, "words", "%s: finish it or file an issue", word);
            }
        }
    }
}

/* A public header may have the name of the module that it is the face of. */
static bool is_public(const char *path) {
    return tidy_starts_with(path, "include/");
}

void tidy_check_names(const char *const *paths, size_t n_paths, tidy_findings *out) {
    for (size_t i = 0; i < n_paths; i++) {
        const char *name = tidy_base_name(paths[i]);
        if (strcmp(name, "CMakeLists.txt") == 0) {
            continue;
        }
        for (size_t k = 0; k < i; k++) {
            if (is_public(paths[i]) == is_public(paths[k]) &&
                strcmp(name, tidy_base_name(paths[k])) == 0) {
                tidy_add(out, paths[i], 1, "names", "same name as %s", paths[k]);
            }
        }
    }
}

void tidy_check_dead_headers(const char *const *paths, const char *const *texts, size_t n_paths,
                             tidy_findings *out) {
    for (size_t i = 0; i < n_paths; i++) {
        const bool is_list = tidy_ends_with(paths[i], ".def");
        if (!tidy_ends_with(paths[i], ".h") && !is_list) {
            continue;
        }
        char with_folder[256];
        char alone[256];
        (void)snprintf(with_folder, sizeof with_folder, "/%s\"", tidy_base_name(paths[i]));
        (void)snprintf(alone, sizeof alone, "\"%s\"", tidy_base_name(paths[i]));
        bool used = tidy_starts_with(paths[i], "include/");
        for (size_t k = 0; k < n_paths && !used; k++) {
            used = k != i &&
                   (strstr(texts[k], with_folder) != NULL || strstr(texts[k], alone) != NULL);
        }
        if (!used) {
            tidy_add(out, paths[i], 1, "dead", "nobody includes it");
        }
    }
}
