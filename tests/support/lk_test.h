/* lk_test.h - the small test runner. It needs libc alone, so that the tests also run in cross
 * builds under an emulator, where no test library is installed.
 *
 *     LK_TEST(name) { CHECK(1 + 1 == 2); CHECK_OK(call(&err), err); }
 *     LK_TEST_MAIN(LK_RUN(name), LK_RUN(other))
 *
 * A failing CHECK prints file, line and expression and the test goes on; the process exits with 1.
 * `test_x NAME` runs one test. Exit status 77 (lk_test_skip) means skipped, with the reason
 * printed. */
#ifndef LK_TEST_H
#define LK_TEST_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lk/base.h"

typedef struct lk_test_case {
    const char *name;
    void (*run)(void);
} lk_test_case;

void lk_test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int lk_test_failures(void);
/* Prints the reason and exits with 77, or with 1 where the variable CI is set: in CI nothing is
 * skipped. */
_Noreturn void lk_test_skip(const char *reason);
int lk_test_main(int argc, char **argv, const lk_test_case *cases, size_t n_cases);

/* The path of a file under tests/data or under the shared reference folder (static buffers, 8 in
 * turn). lk_test_shared returns NULL where that folder is absent. LOCKSTEP_SHARED overrides its
 * place. */
const char *lk_test_data(const char *name);
const char *lk_test_shared(const char *name);
/* Whole file into malloc'd memory, zero byte appended; exits the test program when it cannot be
 * read. */
uint8_t *lk_test_read(const char *path, size_t *size);

/* An allocator that counts bytes in use and fails the n-th call (1-based; 0 = never), from then on
 * when `persistent`. Thread-safe. */
typedef struct lk_test_allocator {
    lk_allocator base; /* pass &x.base */
    uint64_t fail_at;
    int persistent;
    uint64_t n_calls;
    int64_t n_live;
    int64_t live_bytes;
    uint64_t n_failed;
} lk_test_allocator;
void lk_test_allocator_init(lk_test_allocator *t);

/* splitmix64: the tests' seeded random numbers. */
uint64_t lk_test_random(uint64_t *state);
/* Seed from LK_SEED (decimal or 0x), else `fallback`; printed. */
uint64_t lk_test_seed(uint64_t fallback);

/* How much a test does: `brief` where LK_SHORT is set (sanitizers, -O0, emulators), `full` where
 * LK_FULL is set (make test-full), else `bounded`. */
uint64_t lk_test_size(uint64_t brief, uint64_t bounded, uint64_t full);

#define LK_TEST(name) static void name(void)
#define LK_RUN(name)                                                                               \
    { #name, name }
#define LK_TEST_MAIN(...)                                                                          \
    int main(int argc, char **argv) {                                                              \
        static const lk_test_case cases[] = {__VA_ARGS__};                                         \
        return lk_test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);                    \
    }

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            lk_test_fail(__FILE__, __LINE__, "%s", #condition);                                    \
        }                                                                                          \
    } while (0)
#define CHECK_MSG(condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            lk_test_fail(__FILE__, __LINE__, __VA_ARGS__);                                         \
        }                                                                                          \
    } while (0)
/* The call must return LK_OK; otherwise the error's message is shown and the program ends. */
#define REQUIRE_OK(call, error)                                                                    \
    do {                                                                                           \
        const lk_status lk_status_ = (call);                                                       \
        if (lk_status_ != LK_OK) {                                                                 \
            lk_test_fail(__FILE__, __LINE__, "%s: %s: %s", #call, lk_status_name(lk_status_),      \
                         (error).message);                                                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define CHECK_STATUS(expected, call)                                                               \
    do {                                                                                           \
        const lk_status lk_status_ = (call);                                                       \
        if (lk_status_ != (expected)) {                                                            \
            lk_test_fail(__FILE__, __LINE__, "%s: %s, expected %s", #call,                         \
                         lk_status_name(lk_status_), lk_status_name(expected));                    \
        }                                                                                          \
    } while (0)

#endif
