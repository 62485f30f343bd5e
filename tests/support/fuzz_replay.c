/* fuzz_replay.c - runs one fuzz target over every file of its corpus, then over changed copies of
 * each: cut short, bytes overwritten. It needs no fuzzing engine, so it runs with any compiler. An
 * invariant that breaks ends the process; the name of the file in work is printed first. */
#include <dirent.h>
#include <sys/stat.h>

#include "fuzz.h"
#include "lk_test.h"

enum { CHANGES_PER_FILE = 200, MAX_PATH = 1024 };

/* Copies of exactly the input's size, so that a sanitizer sees the first byte read beyond it. */
static void run_copy(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size != 0 ? size : 1);
    if (copy == NULL) {
        exit(1);
    }
    if (size != 0) {
        memcpy(copy, data, size);
    }
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void run_changed(uint8_t *data, size_t size, uint64_t *seed) {
    for (int i = 0; i < CHANGES_PER_FILE && size != 0; i++) {
        const size_t at = (size_t)(lk_test_random(seed) % size);
        const uint8_t kept = data[at];
        if (i % 4 == 0) {
            run_copy(data, at);
            continue;
        }
        data[at] = (uint8_t)lk_test_random(seed);
        run_copy(data, size);
        data[at] = kept;
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        (void)fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
        return 2;
    }
    DIR *dir = opendir(argv[1]);
    if (dir == NULL) {
        perror(argv[1]);
        return 1;
    }
    uint64_t seed = lk_test_seed(20240229);
    unsigned n_files = 0;
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        char path[MAX_PATH];
        struct stat info;
        if (snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name) >= MAX_PATH ||
            stat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
            continue;
        }
        (void)printf("%s\n", entry->d_name);
        (void)fflush(stdout);
        size_t size;
        uint8_t *data = lk_test_read(path, &size);
        run_copy(data, size);
        run_changed(data, size, &seed);
        free(data);
        n_files++;
    }
    (void)closedir(dir);
    (void)printf("%u files\n", n_files);
    if (n_files == 0) {
        (void)fprintf(stderr, "the corpus %s is empty\n", argv[1]);
        return 1;
    }
    return 0;
}
