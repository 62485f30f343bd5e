/* driver.c - the emulated driver library: see cuda_emulated.h. Every function of
 * src/backend/cuda/cuda_functions.def, by its own name and with the numbers of the real one. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/cuda/cuda_driver.h"
#include "cuda_emulated.h"
#include "lk_fibers.h"

enum {
    INVALID_VALUE = 1,
    NOT_INITIALIZED = 3,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    GUARD = 64,
    GUARD_BYTE = 0xa7,
    ALIGN = 256,
    MAX_DEPTH = 16,
    MAX_PENDING = 64
};

static const char *const kernel_names[] = {
#define LK_CUDA_KERNEL(name, what) "lk_cuda_" #name,
#include "backend/cuda/kern/kernels.def"
#undef LK_CUDA_KERNEL
};
enum { N_KERNELS = sizeof kernel_names / sizeof kernel_names[0] };

/* A copy to the host that has not arrived. */
typedef struct pending {
    void *to;
    void *bytes;
    size_t n;
} pending;

typedef struct stream {
    pending copies[MAX_PENDING];
    uint32_t n;
} stream;

/* In front of each piece of memory. */
typedef struct piece {
    size_t n;
} piece;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static emulated_counts counted;
static char fail_function[64];
static uint64_t fail_at;
static int fail_error;
static bool is_ready;
static int the_context;
static int the_module;
static _Thread_local uint32_t depth; /* contexts pushed on this thread */

void emulated_fail(const char *function, uint64_t n, int error);
void emulated_get_counts(emulated_counts *counts);

#define LK_CUDA_FUNCTION(field, symbol, parameters) int emulated_##field parameters __asm__(symbol);
#include "backend/cuda/cuda_functions.def"
#undef LK_CUDA_FUNCTION

void emulated_fail(const char *function, uint64_t n, int error) {
    (void)pthread_mutex_lock(&lock);
    (void)snprintf(fail_function, sizeof fail_function, "%s", function != NULL ? function : "");
    fail_at = n;
    fail_error = error;
    (void)pthread_mutex_unlock(&lock);
}

void emulated_get_counts(emulated_counts *counts) {
    (void)pthread_mutex_lock(&lock);
    *counts = counted;
    (void)pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void read_environment(void) {
    const char *text = getenv("LK_EMULATED_FAIL");
    char name[64];
    unsigned long long n = 0;
    int error = 0;
    if (text != NULL && sscanf(text, "%63[^:]:%llu:%d", name, &n, &error) == 3) {
        emulated_fail(name, n, error);
    }
}

static int n_devices(void) {
    const char *text = getenv("LK_EMULATED_DEVICES");
    return text != NULL ? (int)strtol(text, NULL, 10) : 1;
}

/* Counts a call; the error that it has to return, or 0. */
static int enter(const char *function) {
    int error = 0;
    (void)pthread_mutex_lock(&lock);
    counted.n_calls++;
    if (fail_at != 0 && (fail_function[0] == '\0' || strcmp(fail_function, function) == 0)) {
        if (fail_at == 1) {
            error = fail_error < 0 ? -fail_error : fail_error;
            fail_at = fail_error < 0 ? 1u : 0u;
        } else {
            fail_at--;
        }
    }
    (void)pthread_mutex_unlock(&lock);
    return error;
}

/* The same of one that needs a context. */
static int enter_context(const char *function) {
    const int error = enter(function);
    return error != 0 ? error : depth == 0 ? INVALID_CONTEXT : 0;
}

static void add_live(int n) {
    (void)pthread_mutex_lock(&lock);
    counted.n_live = (uint64_t)((int64_t)counted.n_live + n);
    (void)pthread_mutex_unlock(&lock);
}

/* ---- devices ---- */

int emulated_init(unsigned flags) {
    const int error = enter("cuInit");
    if (error != 0 || flags != 0) {
        return error != 0 ? error : INVALID_VALUE;
    }
    is_ready = true;
    return n_devices() == 0 ? LK_CUDA_NO_DEVICE : 0;
}

int emulated_error_name(int error, const char **text) {
    *text = error == LK_CUDA_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_EMULATED";
    return 0;
}

int emulated_error_text(int error, const char **text) {
    *text = error == LK_CUDA_OUT_OF_MEMORY ? "out of memory" : "an emulated error";
    return 0;
}

int emulated_device_count(int *n) {
    *n = n_devices();
    return is_ready ? enter("cuDeviceGetCount") : NOT_INITIALIZED;
}

int emulated_device_get(int *device, int i) {
    *device = i;
    return i >= 0 && i < n_devices() ? enter("cuDeviceGet") : INVALID_VALUE;
}

int emulated_device_name(char *name, int size, int device) {
    (void)snprintf(name, (size_t)size, "emulated device %d", device);
    return enter("cuDeviceGetName");
}

int emulated_device_memory(size_t *n_bytes, int device) {
    (void)device;
    *n_bytes = (size_t)1 << 30;
    return enter("cuDeviceTotalMem_v2");
}

/* The compute capability is 7.0, or 6.1 of device 1: the backend refuses that one. */
int emulated_device_attribute(int *value, int attribute, int device) {
    const bool is_major = attribute == 75;
    *value = device == 1 ? (is_major ? 6 : 1) : (is_major ? 7 : 0);
    return attribute == 75 || attribute == 76 ? enter("cuDeviceGetAttribute") : INVALID_VALUE;
}

/* ---- contexts ---- */

int emulated_context_retain(lk_cuda_handle *context, int device) {
    const int error = enter("cuDevicePrimaryCtxRetain");
    (void)device;
    if (error == 0) {
        *context = &the_context;
        add_live(1);
    }
    return error;
}

int emulated_context_release(int device) {
    (void)device;
    add_live(-1);
    return 0;
}

int emulated_context_push(lk_cuda_handle context) {
    const int error = enter("cuCtxPushCurrent_v2");
    if (error != 0 || context != &the_context || depth == MAX_DEPTH) {
        return error != 0 ? error : INVALID_CONTEXT;
    }
    depth++;
    return 0;
}

int emulated_context_pop(lk_cuda_handle *context) {
    if (depth == 0) {
        return INVALID_CONTEXT;
    }
    depth--;
    *context = &the_context;
    return 0;
}

/* ---- modules and streams ---- */

int emulated_module_load(lk_cuda_handle *module, const void *image, unsigned n_options,
                         int *options, void **values) {
    const int error = enter_context("cuModuleLoadDataEx");
    (void)n_options;
    (void)options;
    (void)values;
    if (error != 0 || strstr(image, ".entry") == NULL) {
        return error != 0 ? error : INVALID_VALUE;
    }
    *module = &the_module;
    add_live(1);
    return 0;
}

int emulated_module_unload(lk_cuda_handle module) {
    add_live(module == &the_module ? -1 : 0);
    return module == &the_module ? 0 : INVALID_HANDLE;
}

int emulated_module_function(lk_cuda_handle *function, lk_cuda_handle module, const char *name) {
    const int error = enter_context("cuModuleGetFunction");
    for (size_t i = 0; i < N_KERNELS && error == 0 && module == &the_module; i++) {
        if (strcmp(name, kernel_names[i]) == 0) {
            *function = (lk_cuda_handle)(uintptr_t)(i + 1);
            return 0;
        }
    }
    return error != 0 ? error : LK_CUDA_NOT_FOUND;
}

int emulated_stream_create(lk_cuda_handle *out, unsigned flags) {
    const int error = enter_context("cuStreamCreate");
    (void)flags;
    if (error != 0) {
        return error;
    }
    *out = calloc(1, sizeof(stream));
    add_live(1);
    return *out != NULL ? 0 : LK_CUDA_OUT_OF_MEMORY;
}

static void deliver(stream *s, bool is_lost) {
    for (uint32_t i = 0; i < s->n; i++) {
        if (!is_lost) {
            memcpy(s->copies[i].to, s->copies[i].bytes, s->copies[i].n);
        }
        free(s->copies[i].bytes);
    }
    s->n = 0;
}

int emulated_stream_destroy(lk_cuda_handle handle) {
    deliver(handle, true);
    free(handle);
    add_live(-1);
    return 0;
}

int emulated_stream_wait(lk_cuda_handle handle) {
    const int error = enter_context("cuStreamSynchronize");
    deliver(handle, error != 0);
    return error;
}

/* ---- memory ---- */

int emulated_memory_alloc(lk_cuda_ptr *memory, size_t n_bytes) {
    const int error = enter_context("cuMemAlloc_v2");
    if (error != 0 || n_bytes == 0) {
        return error != 0 ? error : INVALID_VALUE;
    }
    const size_t size = (ALIGN + n_bytes + GUARD + ALIGN - 1) / ALIGN * ALIGN;
    uint8_t *bytes = aligned_alloc(ALIGN, size);
    if (bytes == NULL) {
        return LK_CUDA_OUT_OF_MEMORY;
    }
    ((piece *)(void *)bytes)->n = n_bytes;
    memset(bytes + ALIGN, 0xff, n_bytes);
    memset(bytes + ALIGN + n_bytes, GUARD_BYTE, GUARD);
    *memory = (uintptr_t)(bytes + ALIGN);
    add_live(1);
    return 0;
}

int emulated_memory_free(lk_cuda_ptr memory) {
    uint8_t *bytes = (uint8_t *)(uintptr_t)memory - ALIGN;
    const size_t n = ((const piece *)(const void *)bytes)->n;
    for (size_t i = 0; i < GUARD; i++) {
        if (bytes[ALIGN + n + i] != GUARD_BYTE) {
            (void)fprintf(stderr, "emulated device: byte %zu behind %zu bytes was written\n", i, n);
            abort();
        }
    }
    free(bytes);
    add_live(-1);
    return depth == 0 ? INVALID_CONTEXT : 0;
}

int emulated_memory_fill(lk_cuda_ptr memory, unsigned char byte, size_t n_bytes,
                         lk_cuda_handle handle) {
    const int error = enter_context("cuMemsetD8Async");
    (void)handle;
    if (error == 0) {
        memset((void *)(uintptr_t)memory, byte, n_bytes);
    }
    return error;
}

int emulated_copy_in(lk_cuda_ptr to, const void *from, size_t n_bytes, lk_cuda_handle handle) {
    const int error = enter_context("cuMemcpyHtoDAsync_v2");
    (void)handle;
    if (error == 0) {
        memcpy((void *)(uintptr_t)to, from, n_bytes);
    }
    return error;
}

int emulated_copy_out(void *to, lk_cuda_ptr from, size_t n_bytes, lk_cuda_handle handle) {
    const int error = enter_context("cuMemcpyDtoHAsync_v2");
    stream *s = handle;
    if (error != 0 || s->n == MAX_PENDING) {
        return error != 0 ? error : INVALID_VALUE;
    }
    pending *p = &s->copies[s->n];
    *p = (pending){to, malloc(n_bytes), n_bytes};
    if (p->bytes == NULL) {
        return LK_CUDA_OUT_OF_MEMORY;
    }
    memcpy(p->bytes, (const void *)(uintptr_t)from, n_bytes);
    s->n++;
    return 0;
}

int emulated_copy_within(lk_cuda_ptr to, lk_cuda_ptr from, size_t n_bytes, lk_cuda_handle handle) {
    const int error = enter_context("cuMemcpyDtoDAsync_v2");
    (void)handle;
    if (error == 0) {
        memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, n_bytes);
    }
    return error;
}

/* ---- kernels ---- */

int emulated_launch(lk_cuda_handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                    unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                    lk_cuda_handle handle, void **params, void **extra) {
    const int error = enter_context("cuLaunchKernel");
    const uint32_t grid[3] = {grid_x, grid_y, grid_z};
    const uintptr_t i = (uintptr_t)function - 1;
    (void)handle;
    if (error != 0) {
        return error;
    }
    if (i >= N_KERNELS || extra != NULL || shared_bytes != 0 || block_y != 1 || block_z != 1 ||
        block_x == 0 || block_x > 1024 || grid_x == 0 || grid_y == 0 || grid_z == 0 ||
        grid_x > 0x7fffffffu || grid_y > 65535 || grid_z > 65535) {
        return INVALID_VALUE;
    }
    lk_cuda_emulate((uint32_t)i, params[0], grid, block_x);
    (void)pthread_mutex_lock(&lock);
    counted.n_launches++;
    (void)pthread_mutex_unlock(&lock);
    return 0;
}
