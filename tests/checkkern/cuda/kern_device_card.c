/* kern_device_card.c - kernels on a card: the driver's library is opened when the program runs, the
 * PTX files come from the command line. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kern_device.h"
#include "lk_test.h"

enum { MAX_BLOCKS = 256, MAX_MODULES = 32 };

/* The functions of the driver that are used, with what its library calls them. */
typedef struct driver {
    int (*init)(unsigned flags);
    int (*device_get)(int *device, int ordinal);
    int (*device_get_name)(char *name, int n, int device);
    int (*context_retain)(void **context, int device);
    int (*context_set)(void *context);
    int (*synchronize)(void);
    int (*module_load)(void **module, const void *image);
    int (*module_function)(void **function, void *module, const char *name);
    int (*alloc)(uint64_t *p, size_t bytes);
    int (*release)(uint64_t p);
    int (*to_device)(uint64_t to, const void *from, size_t bytes);
    int (*to_host)(void *to, uint64_t from, size_t bytes);
    int (*fill)(uint64_t p, unsigned char byte, size_t n);
    int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                  unsigned bz, unsigned shared, void *stream, void **params, void **extra);
} driver;

static driver cu;
static void *functions[LK_CUDA_N_KERNELS];
static uint64_t blocks[MAX_BLOCKS];
static size_t n_blocks;

static const char *const kernel_names[LK_CUDA_N_KERNELS] = {
#define LK_CUDA_KERNEL(name, what) "lk_cuda_" #name,
#include "backend/cuda/kern/kernels.def"
#undef LK_CUDA_KERNEL
};

static void must(int result, const char *what) {
    if (result != 0) {
        (void)fprintf(stderr, "%s: error %d of the driver\n", what, result);
        exit(1);
    }
}

static void find(void *library, const char *name, void *slot, size_t slot_bytes) {
    void *const symbol = dlsym(library, name);
    if (symbol == NULL) {
        (void)fprintf(stderr, "the driver has no %s\n", name);
        exit(1);
    }
    memcpy(slot, &symbol, slot_bytes);
}

static void load_driver(void) {
    void *const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) {
        lk_test_skip("no libcuda.so.1");
    }
    find(library, "cuInit", &cu.init, sizeof cu.init);
    find(library, "cuDeviceGet", &cu.device_get, sizeof cu.device_get);
    find(library, "cuDeviceGetName", &cu.device_get_name, sizeof cu.device_get_name);
    find(library, "cuDevicePrimaryCtxRetain", &cu.context_retain, sizeof cu.context_retain);
    find(library, "cuCtxSetCurrent", &cu.context_set, sizeof cu.context_set);
    find(library, "cuCtxSynchronize", &cu.synchronize, sizeof cu.synchronize);
    find(library, "cuModuleLoadData", &cu.module_load, sizeof cu.module_load);
    find(library, "cuModuleGetFunction", &cu.module_function, sizeof cu.module_function);
    find(library, "cuMemAlloc_v2", &cu.alloc, sizeof cu.alloc);
    find(library, "cuMemFree_v2", &cu.release, sizeof cu.release);
    find(library, "cuMemcpyHtoD_v2", &cu.to_device, sizeof cu.to_device);
    find(library, "cuMemcpyDtoH_v2", &cu.to_host, sizeof cu.to_host);
    find(library, "cuMemsetD8_v2", &cu.fill, sizeof cu.fill);
    find(library, "cuLaunchKernel", &cu.launch, sizeof cu.launch);
}

static bool is_ptx(const char *path) {
    const size_t n = strlen(path);
    return n > 4 && strcmp(path + n - 4, ".ptx") == 0;
}

int kd_open(int argc, char **argv) {
    char name[128] = "";
    int device = 0;
    void *context;
    int n_left = 0;
    load_driver();
    must(cu.init(0), "cuInit");
    must(cu.device_get(&device, 0), "cuDeviceGet");
    must(cu.device_get_name(name, sizeof name, device), "cuDeviceGetName");
    must(cu.context_retain(&context, device), "cuDevicePrimaryCtxRetain");
    must(cu.context_set(context), "cuCtxSetCurrent");
    (void)printf("device: %s\n", name);
    for (int i = 0; i < argc; i++) {
        if (!is_ptx(argv[i])) {
            argv[n_left++] = argv[i];
            continue;
        }
        size_t size;
        void *module;
        uint8_t *const text = lk_test_read(argv[i], &size);
        must(cu.module_load(&module, text), argv[i]);
        free(text);
        for (size_t k = 0; k < LK_CUDA_N_KERNELS; k++) {
            if (functions[k] == NULL) {
                (void)cu.module_function(&functions[k], module, kernel_names[k]);
            }
        }
    }
    return n_left;
}

void *kd_new(size_t bytes) {
    uint64_t p = 0;
    must(n_blocks == MAX_BLOCKS ? 1 : 0, "too many pieces of memory");
    must(cu.alloc(&p, bytes == 0 ? 1 : bytes), "cuMemAlloc");
    must(cu.fill(p, 0xa5, bytes), "cuMemsetD8");
    blocks[n_blocks++] = p;
    return (void *)(uintptr_t)p;
}

void *kd_put(const void *from, size_t bytes, size_t padding) {
    void *const p = kd_new(bytes + padding);
    must(cu.to_device((uint64_t)(uintptr_t)p, from, bytes), "cuMemcpyHtoD");
    return p;
}

void kd_get(void *to, const void *from, size_t bytes) {
    must(cu.to_host(to, (uint64_t)(uintptr_t)from, bytes), "cuMemcpyDtoH");
}

void kd_free_all(void) {
    while (n_blocks > 0) {
        must(cu.release(blocks[--n_blocks]), "cuMemFree");
    }
}

static void start(lk_cuda_kernel kernel, const void *args, size_t args_bytes, lk_cuda_shape shape) {
    unsigned char copy[512];
    must(functions[kernel] == NULL ? 1 : 0, kernel_names[kernel]);
    must(args_bytes > sizeof copy ? 1 : 0, "arguments too long");
    memcpy(copy, args, args_bytes);
    void *params[] = {copy};
    must(cu.launch(functions[kernel], shape.grid[0], shape.grid[1], shape.grid[2], shape.n_threads,
                   1, 1, 0, NULL, params, NULL),
         kernel_names[kernel]);
}

void kd_launch(lk_cuda_kernel kernel, const void *args, size_t args_bytes, lk_cuda_shape shape) {
    start(kernel, args, args_bytes, shape);
    must(cu.synchronize(), kernel_names[kernel]);
}

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double kd_time(lk_cuda_kernel kernel, const void *args, size_t args_bytes, lk_cuda_shape shape,
               uint32_t n) {
    kd_launch(kernel, args, args_bytes, shape);
    const double begin = now();
    for (uint32_t i = 0; i < n; i++) {
        start(kernel, args, args_bytes, shape);
    }
    must(cu.synchronize(), kernel_names[kernel]);
    return (now() - begin) / n;
}
