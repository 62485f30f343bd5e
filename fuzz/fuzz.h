/* fuzz.h - what every fuzz target shares. A target is one file fuzz_<name>.c that defines
 * LLVMFuzzerTestOneInput, with seeds in corpus/<name>/; fuzz/CMakeLists.txt makes a libFuzzer
 * program of it, tests/fuzz replays its corpus in the normal test run. A violated invariant ends
 * the process by fuzz_check. */
#ifndef LK_FUZZ_H
#define LK_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define fuzz_check(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: violated: %s\n", __FILE__, __LINE__, #condition);        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
