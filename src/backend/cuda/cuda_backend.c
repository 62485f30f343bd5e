/* cuda_backend.c - creation and destruction, the kernels, the devices that there are. */
#include "backend/cuda/cuda.h"

#include <string.h>

#include "backend/cuda/cuda_images.h"
#include "base/alloc.h"
#include "base/error.h"

static const char *const kernel_names[LK_CUDA_N_KERNELS] = {
#define LK_CUDA_KERNEL(name, what) "lk_cuda_" #name,
#include "backend/cuda/kern/kernels.def"
#undef LK_CUDA_KERNEL
};

enum { STREAM_NON_BLOCKING = 1 };

static lk_status check_is_built(lk_error *err) {
    return lk_cuda_images[0].name != NULL
               ? LK_OK
               : lk_fail(err, LK_E_UNSUPPORTED, LK_NOWHERE,
                         "this build has no device code: there was no Clang when it was made");
}

lk_status lk_cuda_enter(const lk_backend *b, lk_error *err) {
    return lk_cuda_check(&b->driver, b->driver.context_push(b->context), "entering the context",
                         err);
}

void lk_cuda_leave(const lk_backend *b) {
    lk_cuda_handle left = NULL;
    (void)b->driver.context_pop(&left);
}

/* ---- kernels ---- */

static lk_status find_kernel(lk_backend *b, uint32_t i, lk_error *err) {
    int result = LK_CUDA_NOT_FOUND;
    for (uint32_t m = 0; m < b->n_modules && result == LK_CUDA_NOT_FOUND; m++) {
        result = b->driver.module_function(&b->kernels[i], b->modules[m], kernel_names[i]);
    }
    return lk_cuda_check(&b->driver, result, kernel_names[i], err);
}

static lk_status load_kernels(lk_backend *b, lk_error *err) {
    lk_status status = LK_OK;
    for (const lk_cuda_image *image = lk_cuda_images; image->name != NULL && status == LK_OK;
         image++) {
        if (b->n_modules == LK_CUDA_MAX_MODULES) {
            return lk_fail(err, LK_E_INTERNAL, LK_NOWHERE, "more than %d modules of device code",
                           LK_CUDA_MAX_MODULES);
        }
        status = lk_cuda_check(
            &b->driver, b->driver.module_load(&b->modules[b->n_modules], image->ptx, 0, NULL, NULL),
            "loading the kernels", err);
        b->n_modules += status == LK_OK;
    }
    for (uint32_t i = 0; i < LK_CUDA_N_KERNELS && status == LK_OK; i++) {
        status = find_kernel(b, i, err);
    }
    return status;
}

/* ---- creation ---- */

static lk_status check_graph(const lk_graph *graph, const lk_backend_params *params,
                             lk_error *err) {
    if (params->f32_activations) {
        return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT("flags"),
                       "the float32-activation mode is computed by the processor alone, and this "
                       "is for a device");
    }
    lk_status status = LK_OK;
    for (uint32_t i = 0; i < graph->n_nodes && status == LK_OK; i++) {
        status = lk_cuda_check_node(&graph->nodes[i], err);
    }
    return status;
}

static lk_status open_device(lk_backend *b, lk_error *err) {
    lk_status status = lk_cuda_driver_open(&b->driver, err);
    if (status == LK_OK) {
        status = lk_cuda_find_device(&b->driver, b->params.device, &b->device, err);
    }
    if (status == LK_OK) {
        status = lk_cuda_check(&b->driver, b->driver.context_retain(&b->context, b->device),
                               "opening it", err);
        b->has_context = status == LK_OK;
    }
    return status;
}

static lk_status fill_device(lk_backend *b, lk_error *err) {
    lk_status status = lk_cuda_enter(b, err);
    if (status != LK_OK) {
        return status;
    }
    status = lk_cuda_check(&b->driver, b->driver.stream_create(&b->stream, STREAM_NON_BLOCKING),
                           "creating a stream", err);
    if (status == LK_OK) {
        status = load_kernels(b, err);
    }
    if (status == LK_OK) {
        status = lk_cuda_allocate(b, err);
    }
    lk_cuda_leave(b);
    return status;
}

/* Tries all of it, also when the device is lost: what the driver does not take back now goes with
 * its context. */
static void close_device(lk_backend *b) {
    if (!b->has_context) {
        return;
    }
    const bool is_inside = lk_cuda_enter(b, NULL) == LK_OK;
    lk_cuda_release_memory(b);
    for (uint32_t i = 0; i < b->n_modules; i++) {
        (void)b->driver.module_unload(b->modules[i]);
    }
    if (b->stream != NULL) {
        (void)b->driver.stream_destroy(b->stream);
    }
    if (is_inside) {
        lk_cuda_leave(b);
    }
    (void)b->driver.context_release(b->device);
}

static void destroy(lk_backend *b) {
    if (b == NULL) {
        return;
    }
    const lk_allocator *a = b->allocator;
    close_device(b);
    lk_cuda_driver_close(&b->driver);
    lk_pool_destroy(b->pool);
    lk_free(a, b->scratch, b->scratch_bytes);
    lk_free(a, b, sizeof *b);
}

static lk_status create(const lk_graph *graph, const lk_backend_params *params, lk_backend **out,
                        lk_error *err) {
    *out = NULL;
    lk_status status = check_is_built(err);
    if (status == LK_OK) {
        status = check_graph(graph, params, err);
    }
    if (status != LK_OK) {
        return status;
    }
    const lk_allocator *a = lk_allocator_or_default(params->allocator);
    lk_backend *b = lk_alloc_zero(a, sizeof *b);
    if (b == NULL) {
        return lk_fail_nomem(err, "the CUDA backend", sizeof *b);
    }
    b->allocator = a;
    b->graph = graph;
    b->params = *params;
    status = lk_pool_create(a, params->n_threads, &b->pool, err);
    if (status == LK_OK) {
        b->stats.n_threads = lk_pool_n_threads(b->pool);
        status = open_device(b, err);
    }
    if (status == LK_OK) {
        status = fill_device(b, err);
    }
    if (status != LK_OK) {
        destroy(b);
        return status;
    }
    *out = b;
    return LK_OK;
}

/* ---- the rest ---- */

static void get_stats(const lk_backend *b, lk_backend_stats *stats) {
    *stats = b->stats;
}

static void run_tasks(lk_backend *b, lk_pool_fn fn, void *arg, uint32_t n_tasks) {
    lk_pool_run(b->pool, fn, arg, n_tasks);
}

static lk_status count_devices(uint32_t *n, lk_error *err) {
    *n = 0;
    lk_cuda_driver driver;
    lk_status status = check_is_built(err);
    if (status != LK_OK) {
        return status;
    }
    status = lk_cuda_driver_open(&driver, err);
    if (status != LK_OK) {
        return status;
    }
    status = lk_cuda_count_devices(&driver, n, err);
    lk_cuda_driver_close(&driver);
    return status;
}

static lk_status describe_device(uint32_t i, lk_backend_device *device, lk_error *err) {
    lk_cuda_driver driver;
    lk_status status = lk_cuda_driver_open(&driver, err);
    if (status != LK_OK) {
        return status;
    }
    status = lk_cuda_describe_device(&driver, i, device, err);
    lk_cuda_driver_close(&driver);
    return status;
}

const lk_backend_ops lk_backend_cuda = {
    .name = "cuda",
    .create = create,
    .destroy = destroy,
    .step = lk_cuda_step,
    .page_bytes = lk_cuda_page_bytes,
    .window_page_bytes = lk_cuda_window_page_bytes,
    .page_copy = lk_cuda_page_copy,
    .page_fill = lk_cuda_page_fill,
    .page_read = lk_cuda_page_read,
    .page_write = lk_cuda_page_write,
    .get_stats = get_stats,
    .run_tasks = run_tasks,
    .count_devices = count_devices,
    .describe_device = describe_device,
};
