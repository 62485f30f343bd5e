/* test_folder.h - a folder for the files that a test writes: made in the working directory, removed
 * at the end of the test, which fails when something is left in it. One at a time. */
#ifndef LK_TEST_FOLDER_H
#define LK_TEST_FOLDER_H

/* Makes the folder; the program ends when that fails. */
void test_folder_make(void);
/* The path of a file in it (static buffers, 8 in turn). */
const char *test_folder_path(const char *name);
/* The number of files in it: what was written, and what a failure left behind. */
int test_folder_count(void);
/* Removes the folder with the files `names`, a list that ends with NULL (or is NULL); not all of
 * them need be there, any other file is a failure of the test. */
void test_folder_remove(const char *const *names);

#endif
