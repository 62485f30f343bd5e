/* test_tidy_rules.c - every rule of the tidy rung on a planted violation, and on its innocent twin:
 * a rule that finds nothing would pass unnoticed otherwise. */
#include "lk_test.h"
#include "tidy_rules.h"

static tidy_findings findings;

/* Exactly `n` findings, all of `rule`. Forgets them. */
static void expect(int line, size_t n, const char *rule) {
    char wanted[64];
    (void)snprintf(wanted, sizeof wanted, ": %s: ", rule);
    if (findings.n != n) {
        lk_test_fail(__FILE__, line, "%zu findings, expected %zu; the first: %s", findings.n, n,
                     findings.n > 0 ? findings.text[0] : "none");
    }
    for (size_t i = 0; i < findings.n && i < TIDY_MAX_FINDINGS; i++) {
        if (strstr(findings.text[i], wanted) == NULL) {
            lk_test_fail(__FILE__, line, "not of rule %s: %s", rule, findings.text[i]);
        }
    }
    findings.n = 0;
}
#define EXPECT(n, rule) expect(__LINE__, n, rule)

static void include_in(const char *path, const char *line) {
    tidy_check_includes(path, line, &findings);
}

LK_TEST(include_walls) {
    include_in("src/engine/step.c", "#include \"backend/backend.h\"\n#include <stdio.h>\n");
    include_in("src/gguf/reader.c", "#include \"quant/format.h\"\n#include \"lk/gguf.h\"\n");
    include_in("src/audio/mel.c", "#include \"ops/math.h\"\n");
    include_in("src/backend/cpu/table.c", "#include \"backend/backend.h\"\n");
    include_in("src/backend/cpu/table.c", "#include \"backend/cpu/table.h\"\n");
    include_in("apps/lockstep/main.c", "#include \"command.h\"\n#include \"lk/base.h\"\n");
    include_in("tests/unit/test_x.c", "#include \"engine/step.h\"\n");
    include_in("examples/x.c", "#include <lk/lk.h>\n");
    EXPECT(0, "include");
    include_in("examples/x.c", "#include \"engine/step.h\"\n");
    EXPECT(1, "include");
    include_in("src/base/alloc.c", "#include \"quant/format.h\"\n");
    EXPECT(1, "include");
    include_in("src/gguf/reader.c", "#  include \"ops/ops.h\"\n#include \"text/bpe.h\"\n");
    EXPECT(2, "include");
    include_in("src/audio/mel.c", "#include \"ops/ops.h\"\n");
    EXPECT(1, "include");
    include_in("src/text/tokenizer/bpe.c", "#include \"ops/math.h\"\n");
    EXPECT(1, "include");
    include_in("src/engine/step.c", "#include \"api/check.h\"\n");
    EXPECT(1, "include");
    include_in("src/engine/step.c", "#include \"step.h\"\n");
    EXPECT(1, "include");
    include_in("src/backend/cpu/table.c", "#include \"backend/cuda/stream.h\"\n");
    EXPECT(1, "include");
    include_in("src/misc/x.c", "#include \"base/alloc.h\"\n");
    EXPECT(1, "include");
    include_in("apps/lockstep/main.c", "#include \"base/alloc.h\"\n");
    EXPECT(1, "include");
    include_in("apps/lockstep/main.c", "#include \"../../src/base/alloc.h\"\n");
    EXPECT(1, "include");
    include_in("include/lk/lk.h", "#include \"base/alloc.h\"\n");
    EXPECT(1, "include");
    include_in("src/ops/ops.c", "#include <lk/base.h>\n");
    EXPECT(1, "include");
}

LK_TEST(intrinsics) {
    tidy_check_intrinsics("src/backend/cpu/kern/dot_avx2.c", "#include <immintrin.h>\n", &findings);
    tidy_check_intrinsics("src/backend/cpu/detect.c", "#include <cpuid.h>\n", &findings);
    tidy_check_intrinsics("src/ops/norm.c", "#include <math.h>\n", &findings);
    EXPECT(0, "intrinsics");
    tidy_check_intrinsics("src/ops/norm.c", "#include <immintrin.h>\n", &findings);
    tidy_check_intrinsics("src/ops/norm.c", "#include <arm_neon.h>\n", &findings);
    tidy_check_intrinsics("src/ops/norm.c", "#include <cpuid.h>\n", &findings);
    tidy_check_intrinsics("src/backend/cpu/detect.c", "#include <x86intrin.h>\n", &findings);
    EXPECT(4, "intrinsics");
}

/* `n` times `unit`; the caller frees it. */
static char *repeat(const char *unit, size_t n) {
    const size_t n_unit = strlen(unit);
    char *text = malloc(n * n_unit + 1);
    if (text == NULL) {
        exit(1);
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(text + i * n_unit, unit, n_unit);
    }
    text[n * n_unit] = '\0';
    return text;
}

/* The three one after another; the caller frees it. */
static char *join(const char *head, const char *text, const char *tail) {
    const size_t size = strlen(head) + strlen(text) + strlen(tail) + 1;
    char *all = malloc(size);
    if (all == NULL) {
        exit(1);
    }
    (void)snprintf(all, size, "%s%s%s", head, text, tail);
    return all;
}

static void size_of(const char *path, const char *unit, size_t n, const char *tail) {
    char *text = repeat(unit, n);
    char *all = join("", text, tail);
    tidy_check_size(path, all, &findings);
    free(all);
    free(text);
}

LK_TEST(sizes) {
    size_of("src/x.c", "\n", TIDY_MAX_LINES, "");
    size_of("src/unicode_tables.c", "\n", TIDY_MAX_LINES + 1, "");
    EXPECT(0, "lines");
    size_of("src/x.c", "\n", TIDY_MAX_LINES + 1, "");
    EXPECT(1, "lines");
    size_of("src/x.c", "x", TIDY_MAX_COLUMNS, "\n");
    size_of("src/x.c", "\xc3\xa9", TIDY_MAX_COLUMNS, "\n");
    EXPECT(0, "columns");
    size_of("src/x.c", "x", TIDY_MAX_COLUMNS + 1, "\n");
    EXPECT(1, "columns");
}

static void function_of(const char *head, size_t n_lines, const char *tail) {
    char *body = repeat("    x();\n", n_lines - 2);
    char *text = join(head, body, tail);
    tidy_check_functions("src/x.c", text, &findings);
    free(text);
    free(body);
}

LK_TEST(functions) {
    function_of("int f(int a,\n      int b) {\n", TIDY_MAX_FUNCTION_LINES, "}\n");
    function_of("static const int t[] = {\n", TIDY_MAX_FUNCTION_LINES + 1, "};\n");
    function_of("struct s {\n", TIDY_MAX_FUNCTION_LINES + 1, "};\n");
    EXPECT(0, "function");
    function_of("int f(int a,\n      int b) {\n", TIDY_MAX_FUNCTION_LINES + 1, "}\n");
    function_of("int g(void)\n{\n", TIDY_MAX_FUNCTION_LINES + 1, "}\n");
    function_of("extern \"C\" {\nint h(void) {\n", TIDY_MAX_FUNCTION_LINES + 1, "}\n}\n");
    EXPECT(3, "function");
}

static void calls_in(const char *path, const char *text) {
    char *code = tidy_strip(text, true);
    tidy_check_calls(path, code, &findings);
    free(code);
}

LK_TEST(calls) {
    calls_in("src/ops/x.c", "a->free(p); m.exp(x); my_exp(x); /* exp(x) printf(1) */\n");
    calls_in("src/ops/x.c", "y = sqrtf(x) + floor(x) + fabs(x); s = \"getenv(1) \\\" abort()\";\n");
    calls_in("src/ops/x.c", "(void)snprintf(b, n, \"\"); lk_malloc(3); int exit_code = 3;\n");
    calls_in("src/base/alloc.c", "free(p); q = aligned_alloc(64, n);\n");
    calls_in("apps/lockstep/main.c", "exit(1); printf(\"\"); free(p); x = exp(y);\n");
    EXPECT(0, "calls");
    calls_in("src/ops/x.c", "printf(1); fprintf(stderr, 1); puts(2); exit(1); abort();\n");
    EXPECT(5, "calls");
    calls_in("src/ops/x.c", "getenv(1); setlocale(1, 2); signal(2, 3); rand();\n");
    EXPECT(4, "calls");
    calls_in("src/ops/x.c", "p = malloc(1); calloc(1, 2); realloc(p, 2); free (p); strdup(s);\n");
    EXPECT(5, "calls");
    calls_in("src/ops/x.c", "exp(x); expf(x); powl(x, y); tanhf(x); sin(x); fmaf(a, b, c);\n");
    EXPECT(6, "calls");
    calls_in("apps/x.c", "strcpy(a, b); strcat(a, b); sprintf(a, b); gets(a); alloca(3);\n");
    EXPECT(5, "calls");
}

LK_TEST(guards) {
    tidy_check_guard("src/quant/format.h",
                     "\n#ifndef LK_QUANT_FORMAT_H\n#define LK_QUANT_FORMAT_H\n", &findings);
    tidy_check_guard("tests/support/lk_test.h", "#ifndef LK_TEST_H\n#define LK_TEST_H\n",
                     &findings);
    EXPECT(0, "guard");
    tidy_check_guard("src/a/x.h", "#include <stdio.h>\n", &findings);
    tidy_check_guard("src/a/x.h", "#ifndef LK_A_Y_H\n#define LK_A_Y_H\n", &findings);
    tidy_check_guard("src/a/x.h", "#ifndef LK_A_X_H\n#define LK_B_X_H\n", &findings);
    tidy_check_guard("src/a/x.h", "#pragma once\n", &findings);
    tidy_check_guard("src/a/x.h", "", &findings);
    EXPECT(5, "guard");
}

LK_TEST(openings) {
    tidy_check_opening("src/a/x.c", "/* x.c - adds. */\n", &findings);
    EXPECT(0, "opening");
    tidy_check_opening("src/a/x.c", "#include <stdio.h>\n", &findings);
    tidy_check_opening("src/a/x.c", "/* y.c - copied from there. */\n", &findings);
    tidy_check_opening("src/a/x.c", "", &findings);
    EXPECT(3, "opening");
}

LK_TEST(words) {
    tidy_check_words("src/a/x.c", "/* nothing left; XXXL, TODOS_MAX */\n", &findings);
    EXPECT(0, "words");
    tidy_check_words("src/a/x.c",
                     "\n/* TO"
                     "DO: x */\n// FIX"
                     "ME\n/* XX"
                     "X */\n",
                     &findings);
    EXPECT(3, "words");
}

LK_TEST(names) {
    static const char *const paths[] = {"src/a/x.c",          "src/a/x.h",
                                        "src/CMakeLists.txt", "apps/CMakeLists.txt",
                                        "include/lk/x.h",     "src/b/x.c"};
    tidy_check_names(paths, 5, &findings);
    EXPECT(0, "names");
    tidy_check_names(paths, 6, &findings);
    EXPECT(1, "names");
}

LK_TEST(dead_headers) {
    static const char *const paths[] = {"src/a/used.h", "src/a/x.c", "include/lk/new.h",
                                        "src/a/dead.h"};
    static const char *const texts[] = {"\"a/used.h\"", "#include \"a/used.h\"\n", "", ""};
    tidy_check_dead_headers(paths, texts, 3, &findings);
    EXPECT(0, "dead");
    tidy_check_dead_headers(paths, texts, 4, &findings);
    EXPECT(1, "dead");
}

LK_TEST(globals) {
    tidy_check_globals("x.c.o:     file format elf64-x86-64\n\nSYMBOL TABLE:\n"
                       "0000000000000000 l    df *ABS*\t0000000000000000 x.c\n"
                       "0000000000000000 l    d  .bss\t0000000000000000 .bss\n"
                       "0000000000000000 l     O .rodata\t0000000000000010 table\n"
                       "0000000000000000 l     O .data.rel.ro.local\t0000000000000010 names\n"
                       "0000000000000000 g     F .text\t0000000000000010 lk_f\n",
                       &findings);
    EXPECT(0, "globals");
    tidy_check_globals("x.c.o:     file format elf64-x86-64\n"
                       "0000000000000000 l     O .bss\t0000000000000004 counter\n"
                       "0000000000000000 g     O .data\t0000000000000004 lk_flag\n"
                       "0000000000000000 l     O .tbss\t0000000000000004 per_thread\n"
                       "0000000000000004       O *COM*\t0000000000000004 common\n",
                       &findings);
    EXPECT(4, "globals");
}

LK_TEST(avx) {
    tidy_check_avx(
        "norm.c.o:     file format elf64-x86-64\n0000 <f>:\n   0:\taddps  %xmm1,%xmm0\n"
        "dot_q8_0_avx2.c.o:     file format elf64-x86-64\n   0:\tvaddps %ymm1,%ymm0,%ymm0\n"
        "dot_q8_0_avx512.c.o:     file format elf64-x86-64\n   0:\tvzeroupper\n"
        "dot_q8_0_amx.c.o:     file format elf64-x86-64\n   0:\tvzeroupper\n",
        &findings);
    EXPECT(0, "avx");
    tidy_check_avx(
        "norm.c.o:     file format elf64-x86-64\n0000 <f>:\n   0:\tvaddss %xmm1,%xmm0,%xmm0\n"
        "   4:\tvaddps %ymm1,%ymm0,%ymm0\n"
        "step.c.o:     file format elf64-x86-64\n   0:\tmovdqa %zmm1,%zmm0\n",
        &findings);
    EXPECT(2, "avx"); /* one an object */
}

/* The rules arrive through tidy_check_file too, and only where they apply. */
LK_TEST(whole_file) {
    tidy_check_file("src/a/x.c", "/* x.c - adds. */\n#include \"lk/base.h\"\n", &findings);
    EXPECT(0, "none");
    tidy_check_file("src/base/x.c", "/* x.c - adds. */\n#include \"engine/step.h\"\n", &findings);
    EXPECT(1, "include");
    tidy_check_file("src/base/x.c", "/* x.c - adds. */\nint f(void) {\n    abort();\n}\n",
                    &findings);
    EXPECT(1, "calls");
    tidy_check_file("src/base/x.c", "/* x.c - adds. */\n#include <immintrin.h>\n", &findings);
    EXPECT(1, "intrinsics");
    tidy_check_file("src/base/x.h", "/* x.h - adds. */\n", &findings);
    EXPECT(1, "guard");
    char *long_line = repeat("x", 1000);
    tidy_check_file("docs/x.md", long_line, &findings);
    free(long_line);
    EXPECT(0, "none");
}

LK_TEST_MAIN(LK_RUN(include_walls), LK_RUN(intrinsics), LK_RUN(sizes), LK_RUN(functions),
             LK_RUN(calls), LK_RUN(guards), LK_RUN(openings), LK_RUN(words), LK_RUN(names),
             LK_RUN(dead_headers), LK_RUN(globals), LK_RUN(avx), LK_RUN(whole_file))
