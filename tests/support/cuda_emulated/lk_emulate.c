/* lk_emulate.c - launches of kernels by their number, on fibers. */
#include <stdio.h>
#include <stdlib.h>

#include "backend/cuda/kern/args.h"
#include "lk_fibers.h"

enum {
#define LK_CUDA_KERNEL(name, what) KERNEL_##name,
#include "backend/cuda/kern/kernels.def"
#undef LK_CUDA_KERNEL
    N_KERNELS
};

#define LK_CUDA_KERNEL(name, what) void lk_cuda_##name(lk_cuda_##what##_args args);
#include "backend/cuda/kern/kernels.def"
#undef LK_CUDA_KERNEL

typedef struct emulated_launch {
    uint32_t i_kernel;
    const void *args;
} emulated_launch;

static void call(const void *arg) {
    const emulated_launch *launch = arg;
    switch (launch->i_kernel) {
#define LK_CUDA_KERNEL(name, what)                                                                 \
    case KERNEL_##name:                                                                            \
        lk_cuda_##name(*(const lk_cuda_##what##_args *)launch->args);                              \
        break;
#include "backend/cuda/kern/kernels.def"
#undef LK_CUDA_KERNEL
    default:
        fprintf(stderr, "no kernel %u\n", launch->i_kernel);
        abort();
    }
}

void lk_cuda_emulate(uint32_t i_kernel, const void *args, const uint32_t grid[3],
                     uint32_t n_threads) {
    const emulated_launch launch = {i_kernel, args};
    lk_fibers_run(call, &launch, grid, n_threads);
}
