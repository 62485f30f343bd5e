/* kern_device_host.c - kernels on fibers; their memory is the host's, of exact sizes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kern_device.h"
#include "lk_fibers.h"

enum { MAX_BLOCKS = 64 };
static void *blocks[MAX_BLOCKS];
static size_t n_blocks;

int kd_open(int argc, char **argv) {
    (void)argv;
    return argc;
}

void *kd_new(size_t bytes) {
    void *const p = malloc(bytes == 0 ? 1 : bytes);
    if (p == NULL || n_blocks == MAX_BLOCKS) {
        (void)fprintf(stderr, "no memory\n");
        exit(1);
    }
    memset(p, 0xa5, bytes);
    blocks[n_blocks++] = p;
    return p;
}

void *kd_put(const void *from, size_t bytes, size_t padding) {
    void *const p = kd_new(bytes + padding);
    memcpy(p, from, bytes);
    return p;
}

void kd_get(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
}

void kd_free_all(void) {
    while (n_blocks > 0) {
        free(blocks[--n_blocks]);
    }
}

void kd_launch(lk_cuda_kernel kernel, const void *args, size_t args_bytes, lk_cuda_shape shape) {
    (void)args_bytes;
    lk_cuda_emulate((uint32_t)kernel, args, shape.grid, shape.n_threads);
}

double kd_time(lk_cuda_kernel kernel, const void *args, size_t args_bytes, lk_cuda_shape shape,
               uint32_t n) {
    (void)n;
    kd_launch(kernel, args, args_bytes, shape);
    return 0.0;
}
