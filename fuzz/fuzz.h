/* fuzz.h - what every fuzz target shares. A target is one file fuzz_<name>.c that defines
 * LLVMFuzzerTestOneInput, with seeds in corpus/<name>/; fuzz/CMakeLists.txt makes a libFuzzer
 * program of it, tests/fuzz replays its corpus in the normal test run. A violated invariant ends
 * the process by fuzz_check. */
#ifndef LK_FUZZ_H
#define LK_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "lk/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define fuzz_check(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: violated: %s\n", __FILE__, __LINE__, #condition);        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* An allocator that counts what is held; everything must have been given back in the end. */
typedef struct fuzz_memory {
    lk_allocator base;
    size_t live;
    size_t peak;
} fuzz_memory;

static inline void *fuzz_memory_alloc(void *ctx, size_t size, size_t align) {
    fuzz_memory *m = ctx;
    m->live += size;
    m->peak = m->live > m->peak ? m->live : m->peak;
    return aligned_alloc(align, (size + align - 1) & ~(align - 1));
}

static inline void fuzz_memory_free(void *ctx, void *ptr, size_t size, size_t align) {
    fuzz_memory *m = ctx;
    (void)align;
    m->live -= size;
    free(ptr);
}

static inline void fuzz_memory_init(fuzz_memory *m) {
    *m = (fuzz_memory){{m, fuzz_memory_alloc, fuzz_memory_free}, 0, 0};
}

#endif
