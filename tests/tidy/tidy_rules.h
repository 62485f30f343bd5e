/* tidy_rules.h - the rules of the source tree, as functions from text to findings. They read no
 * file themselves: test_tidy.c feeds them the tree, test_tidy_rules.c feeds them planted
 * violations.
 *
 * `path` is always relative to the root of the repository ("src/base/alloc.c"); which rules apply
 * to a file follows from it. */
#ifndef LK_TIDY_RULES_H
#define LK_TIDY_RULES_H

#include <stdbool.h>
#include <stddef.h>

enum {
    TIDY_MAX_FINDINGS = 200,
    TIDY_MAX_TEXT = 320,
    TIDY_MAX_LINES = 800,
    TIDY_MAX_COLUMNS = 100,
    TIDY_MAX_FUNCTION_LINES = 70
};

typedef struct tidy_findings {
    size_t n; /* all found; only the first TIDY_MAX_FINDINGS are kept */
    char text[TIDY_MAX_FINDINGS][TIDY_MAX_TEXT]; /* "path:line: rule: what" */
} tidy_findings;

void tidy_add(tidy_findings *out, const char *path, int line, const char *rule, const char *format,
              ...) __attribute__((format(printf, 5, 6)));

/* A copy in which comments, and with `strings` also the insides of string and character literals,
 * are blanks; line breaks stay. malloc'd, the caller frees it. */
char *tidy_strip(const char *text, bool strings);

bool tidy_starts_with(const char *text, const char *prefix);
bool tidy_ends_with(const char *text, const char *suffix);
const char *tidy_base_name(const char *path);
/* src/backend/cpu/kern/ holds kernels, the only code with intrinsics and long functions. */
bool tidy_is_kernel(const char *path);

/* All rules on one file's text. */
void tidy_check_file(const char *path, const char *text, tidy_findings *out);

/* The single rules (tidy_check_file calls the ones that apply). `code` is stripped of comments and
 * strings, `lines` of comments only, `text` is the file as it is. */
void tidy_check_includes(const char *path, const char *lines, tidy_findings *out);
void tidy_check_intrinsics(const char *path, const char *lines, tidy_findings *out);
void tidy_check_size(const char *path, const char *text, tidy_findings *out);
void tidy_check_functions(const char *path, const char *code, tidy_findings *out);
void tidy_check_calls(const char *path, const char *code, tidy_findings *out);
void tidy_check_guard(const char *path, const char *lines, tidy_findings *out);
void tidy_check_opening(const char *path, const char *text, tidy_findings *out);
void tidy_check_words(const char *path, const char *text, tidy_findings *out);

/* Rules about the tree as a whole. */
void tidy_check_names(const char *const *paths, size_t n_paths, tidy_findings *out);
/* texts[i] is the text of paths[i]; every header must be included by somebody. */
void tidy_check_dead_headers(const char *const *paths, const char *const *texts, size_t n_paths,
                             tidy_findings *out);

/* Output of `objdump -t` over the static library: no writable data but what the allow list names.
 */
void tidy_check_globals(const char *symbols, tidy_findings *out);
/* Output of `objdump -d --no-show-raw-insn` over it: AVX instructions only in the objects of
 * kernels. */
void tidy_check_avx(const char *disassembly, tidy_findings *out);

#endif
