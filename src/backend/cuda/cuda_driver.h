/* cuda_driver.h - the driver's library of the machine, loaded when somebody asks for a device, and
 * the devices that it shows. Nothing of a CUDA toolkit takes part: the few functions are declared
 * in cuda_functions.def. Knows no graph.
 *
 * Invariant: a driver that could not be loaded whole holds nothing. The library stays in the
 * process once it was loaded, because its own threads and exit handlers live in it. */
#ifndef LK_BACKEND_CUDA_CUDA_DRIVER_H
#define LK_BACKEND_CUDA_CUDA_DRIVER_H

#include "backend/backend.h"

typedef uint64_t lk_cuda_ptr; /* an address in the device's memory; 0: none */
typedef void *lk_cuda_handle; /* a context, module, function or stream */

typedef struct lk_cuda_driver {
    void *library;
#define LK_CUDA_FUNCTION(field, symbol, parameters) int(*field) parameters;
#include "backend/cuda/cuda_functions.def"
#undef LK_CUDA_FUNCTION
} lk_cuda_driver;

/* Error numbers that are told apart. */
enum { LK_CUDA_OUT_OF_MEMORY = 2, LK_CUDA_NO_DEVICE = 100, LK_CUDA_NOT_FOUND = 500 };

/* Loads and starts it. LK_E_NOT_FOUND: no library, or no device; LK_E_DEVICE: too old, or it does
 * not start. */
lk_status lk_cuda_driver_open(lk_cuda_driver *driver, lk_error *err);
void lk_cuda_driver_close(lk_cuda_driver *driver); /* of zeros too */

/* LK_OK for result 0; else LK_E_DEVICE, or LK_E_NOMEM for a lack of device memory, with what was
 * tried and the driver's own words. */
lk_status lk_cuda_check(const lk_cuda_driver *driver, int result, const char *what, lk_error *err);

lk_status lk_cuda_count_devices(const lk_cuda_driver *driver, uint32_t *n, lk_error *err);
/* LK_E_NOT_FOUND for i beyond the last one. */
lk_status lk_cuda_describe_device(const lk_cuda_driver *driver, uint32_t i,
                                  lk_backend_device *device, lk_error *err);
/* The driver's own number of device i. LK_E_UNSUPPORTED: it is too old for the kernels. */
lk_status lk_cuda_find_device(const lk_cuda_driver *driver, uint32_t i, int *device, lk_error *err);

#endif
