/* cuda_emulated.h - what a test can ask of the emulated driver library: a libcuda.so.1 (driver.c)
 * that has the functions of cuda_functions.def on the host's memory, with the backend's own device
 * code compiled for the host. ctest puts it where the backend looks for the driver.
 *
 * LK_EMULATED_DEVICES in the environment: how many devices it shows (1); LK_EMULATED_FAIL: as
 * emulated_fail, "cuMemAlloc_v2:3:2".
 *
 * ThreadSanitizer cannot follow fibers, so tests over this library are none of the tsan preset:
 * their <pthread.h> comes from here, which keeps the label `threads` from them.
 *
 * Stricter than a real one: fresh memory is NaN, what is copied to the host arrives when the stream
 * is waited for and not before, bytes behind a piece of memory are checked when it is freed. */
#ifndef LK_CUDA_EMULATED_H
#define LK_CUDA_EMULATED_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

/* What the library counts. */
typedef struct emulated_counts {
    uint64_t n_calls;    /* of functions that may fail */
    uint64_t n_live;     /* contexts held, modules, streams, pieces of memory */
    uint64_t n_launches; /* of kernels */
} emulated_counts;

typedef void emulated_fail_fn(const char *function, uint64_t n, int error);
typedef void emulated_counts_fn(emulated_counts *counts);

typedef struct emulated_driver {
    void *library;
    /* The n-th call from now on (1: the next one) of a function, NULL: of any that acquires or
     * computes, returns the error; so do all later ones where `error` is negative (then its
     * opposite is returned). n 0: nothing fails. */
    emulated_fail_fn *fail;
    emulated_counts_fn *counts;
} emulated_driver;

/* The library that the backend will load too; false: the process finds none, or a real one. */
static inline int emulated_open(emulated_driver *e) {
    memset(e, 0, sizeof *e);
    e->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *fail = e->library != NULL ? dlsym(e->library, "emulated_fail") : NULL;
    void *counts = e->library != NULL ? dlsym(e->library, "emulated_get_counts") : NULL;
    memcpy(&e->fail, &fail, sizeof fail);
    memcpy(&e->counts, &counts, sizeof counts);
    return fail != NULL && counts != NULL;
}

#endif
