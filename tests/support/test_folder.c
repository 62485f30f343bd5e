/* test_folder.c - see test_folder.h. It deletes nothing but the files that the test names.
 * Invariant: between make and remove the folder exists, and its name is nobody else's. */
#include "test_folder.h"

#include <dirent.h>
#include <unistd.h>

#include "lk_test.h"

static char folder[64];

void test_folder_make(void) {
    (void)snprintf(folder, sizeof folder, "test_folder_XXXXXX");
    if (mkdtemp(folder) == NULL) {
        perror("mkdtemp");
        exit(1);
    }
}

const char *test_folder_path(const char *name) {
    static char paths[8][160];
    static unsigned turn = 0;
    char *path = paths[turn++ % 8];
    (void)snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

int test_folder_count(void) {
    DIR *dir = opendir(folder);
    int n = 0;
    CHECK(dir != NULL);
    while (dir != NULL && readdir(dir) != NULL) {
        n++;
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return n - 2; /* . and .. */
}

void test_folder_remove(const char *const *names) {
    for (size_t i = 0; names != NULL && names[i] != NULL; i++) {
        (void)unlink(test_folder_path(names[i]));
    }
    CHECK_MSG(rmdir(folder) == 0, "%s is not empty", folder);
}
