/* test_tidy.c - the tree against the rules of tidy_rules.h: every source, header, list and script,
 * and the objects of the built library. A finding prints as "path:line: rule: what". */
#include <dirent.h>
#include <sys/stat.h>

#include "lk_test.h"
#include "tidy_rules.h"

enum { MAX_FILES = 4000, MAX_PATH = 512 };

static char *paths[MAX_FILES]; /* relative to the root */
static char *texts[MAX_FILES];
static size_t n_files;
static tidy_findings findings;

static const char *const endings[] = {".c",     ".cu", ".h",  ".def", ".txt",
                                      ".cmake", ".sh", ".md", ".json"};

static bool is_checked(const char *name) {
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (tidy_ends_with(name, endings[i])) {
            return true;
        }
    }
    return false;
}

static void add_file(const char *path) {
    char full[2 * MAX_PATH];
    (void)snprintf(full, sizeof full, "%s/%s", LK_SOURCE_DIR, path);
    if (n_files == MAX_FILES) {
        lk_test_fail(__FILE__, __LINE__, "more than %d files", MAX_FILES);
        return;
    }
    size_t size = 0;
    texts[n_files] = (char *)lk_test_read(full, &size);
    paths[n_files] = malloc(strlen(path) + 1);
    if (paths[n_files] == NULL) {
        exit(1);
    }
    memcpy(paths[n_files], path, strlen(path) + 1);
    n_files++;
}

/* Adds what is in `folder` and the folders in it, `depth` levels down at most. */
static void add_folder(const char *folder, int depth) {
    char full[2 * MAX_PATH];
    (void)snprintf(full, sizeof full, "%s/%s", LK_SOURCE_DIR, folder);
    DIR *dir = opendir(full);
    if (dir == NULL) {
        return;
    }
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] == '.' || strcmp(folder, "tests/data") == 0) {
            continue; /* data is not ours to judge */
        }
        char path[MAX_PATH];
        struct stat info;
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        (void)snprintf(full, sizeof full, "%s/%s", LK_SOURCE_DIR, path);
        if (stat(full, &info) != 0) {
            continue;
        }
        if (S_ISDIR(info.st_mode)) {
            if (depth > 0 && strcmp(entry->d_name, "corpus") != 0) {
                add_folder(path, depth - 1);
            }
        } else if (is_checked(entry->d_name)) {
            add_file(path);
        }
    }
    (void)closedir(dir);
}

static void report(void) {
    const size_t n = findings.n < TIDY_MAX_FINDINGS ? findings.n : TIDY_MAX_FINDINGS;
    for (size_t i = 0; i < n; i++) {
        (void)fprintf(stderr, "%s\n", findings.text[i]);
    }
    CHECK_MSG(findings.n == 0, "%zu findings", findings.n);
    findings.n = 0;
}

/* Reads the tree, once. */
static void load_tree(void) {
    if (n_files != 0) {
        return;
    }
    static const char *const folders[] = {"src",  "include", "apps",  "examples", "tests",
                                          "fuzz", "bench",   "cmake", "tools",    "docs"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        add_folder(folders[i], 6);
    }
    add_file("README.md");
    add_file("CHANGELOG.md");
    add_file("CMakeLists.txt");
    CHECK_MSG(n_files > 30, "only %zu files found under %s", n_files, LK_SOURCE_DIR);
}

LK_TEST(files) {
    load_tree();
    for (size_t i = 0; i < n_files; i++) {
        tidy_check_file(paths[i], texts[i], &findings);
    }
    report();
}

LK_TEST(tree) {
    load_tree();
    tidy_check_names((const char *const *)paths, n_files, &findings);
    tidy_check_dead_headers((const char *const *)paths, (const char *const *)texts, n_files,
                            &findings);
    report();
}

#if defined(LK_OBJDUMP) && defined(LK_STATIC_LIBRARY)
/* All that `command` prints, zero-terminated; the caller frees it. */
static char *output_of(const char *command) {
    FILE *pipe = popen(command, "r");
    size_t n = 0;
    size_t size = 1u << 20;
    char *text = malloc(size);
    if (pipe == NULL || text == NULL) {
        exit(1);
    }
    for (size_t got = 1; got > 0; n += got) {
        if (size - n < 65536) {
            size *= 2;
            char *larger = realloc(text, size);
            if (larger == NULL) {
                exit(1);
            }
            text = larger;
        }
        got = fread(text + n, 1, size - n - 1, pipe);
    }
    text[n] = '\0';
    CHECK_MSG(pclose(pipe) == 0, "%s failed", command);
    return text;
}

#endif

LK_TEST(objects) {
#if defined(LK_OBJDUMP) && defined(LK_STATIC_LIBRARY)
    char *symbols = output_of("LC_ALL=C " LK_OBJDUMP " -t " LK_STATIC_LIBRARY);
    CHECK(strstr(symbols, "lk_version") != NULL);
    tidy_check_globals(symbols, &findings);
    report();
    free(symbols);
#if defined(__x86_64__)
    char *code = output_of("LC_ALL=C " LK_OBJDUMP " -d --no-show-raw-insn " LK_STATIC_LIBRARY);
    CHECK(strstr(code, "<lk_version>:") != NULL);
    tidy_check_avx(code, &findings);
    report();
    free(code);
#endif
#else
    lk_test_skip("objdump is missing");
#endif
}

LK_TEST_MAIN(LK_RUN(files), LK_RUN(tree), LK_RUN(objects))
