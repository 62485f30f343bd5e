/* cuda_driver.c - see cuda_driver.h. */
#include "backend/cuda/cuda_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static const char library_name[] = "libcuda.so.1";

/* Numbers of cuDeviceGetAttribute; compute capability 7.0 is the first that runs the kernels. */
enum { COMPUTE_MAJOR = 75, COMPUTE_MINOR = 76, MIN_COMPUTE_MAJOR = 7 };

typedef struct symbol {
    const char *name;
    size_t at; /* of the field in lk_cuda_driver */
} symbol;

static const symbol symbols[] = {
#define LK_CUDA_FUNCTION(field, symbol, parameters) {symbol, offsetof(lk_cuda_driver, field)},
#include "backend/cuda/cuda_functions.def"
#undef LK_CUDA_FUNCTION
};

static lk_status find_symbols(lk_cuda_driver *driver, lk_error *err) {
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *found = dlsym(driver->library, symbols[i].name);
        if (found == NULL) {
            return lk_fail(err, LK_E_DEVICE, LK_AT_SUBJECT(library_name),
                           "%s has no %s: the driver is too old", library_name, symbols[i].name);
        }
        memcpy((unsigned char *)driver + symbols[i].at, &found, sizeof found);
    }
    return LK_OK;
}

lk_status lk_cuda_driver_open(lk_cuda_driver *driver, lk_error *err) {
    memset(driver, 0, sizeof *driver);
    driver->library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (driver->library == NULL) {
        const char *why = dlerror();
        return lk_fail(err, LK_E_NOT_FOUND, LK_AT_SUBJECT(library_name), "no NVIDIA driver: %s",
                       why != NULL ? why : library_name);
    }
    lk_status status = find_symbols(driver, err);
    if (status == LK_OK) {
        const int result = driver->init(0);
        status = result == LK_CUDA_NO_DEVICE
                     ? lk_fail(err, LK_E_NOT_FOUND, LK_AT_SUBJECT(library_name),
                               "the NVIDIA driver finds no device")
                     : lk_cuda_check(driver, result, "starting the driver", err);
    }
    if (status != LK_OK) {
        lk_cuda_driver_close(driver);
    }
    return status;
}

void lk_cuda_driver_close(lk_cuda_driver *driver) {
    if (driver->library != NULL) {
        (void)dlclose(driver->library);
    }
    memset(driver, 0, sizeof *driver);
}

lk_status lk_cuda_check(const lk_cuda_driver *driver, int result, const char *what, lk_error *err) {
    if (result == 0) {
        return LK_OK;
    }
    const char *name = NULL;
    const char *text = NULL;
    (void)driver->error_name(result, &name);
    (void)driver->error_text(result, &text);
    return lk_fail(err, result == LK_CUDA_OUT_OF_MEMORY ? LK_E_NOMEM : LK_E_DEVICE, LK_NOWHERE,
                   "%s on the device: %s (%s, error %d)", what, text != NULL ? text : "unknown",
                   name != NULL ? name : "no name", result);
}

lk_status lk_cuda_count_devices(const lk_cuda_driver *driver, uint32_t *n, lk_error *err) {
    int found = 0;
    *n = 0;
    const lk_status status =
        lk_cuda_check(driver, driver->device_count(&found), "counting devices", err);
    if (status == LK_OK && found > 0) {
        *n = (uint32_t)found;
    }
    return status;
}

static lk_status find_number(const lk_cuda_driver *driver, uint32_t i, int *device, lk_error *err) {
    uint32_t n = 0;
    const lk_status status = lk_cuda_count_devices(driver, &n, err);
    if (status != LK_OK) {
        return status;
    }
    if (i >= n) {
        return lk_fail(err, LK_E_NOT_FOUND, LK_NOWHERE, "device %u: the NVIDIA driver shows %u",
                       i + 1, n);
    }
    return lk_cuda_check(driver, driver->device_get(device, (int)i), "finding it", err);
}

static lk_status compute_capability(const lk_cuda_driver *driver, int device, int capability[2],
                                    lk_error *err) {
    lk_status status = LK_OK;
    static const int attributes[2] = {COMPUTE_MAJOR, COMPUTE_MINOR};
    for (int i = 0; i < 2 && status == LK_OK; i++) {
        status =
            lk_cuda_check(driver, driver->device_attribute(&capability[i], attributes[i], device),
                          "asking for its compute capability", err);
    }
    return status;
}

lk_status lk_cuda_describe_device(const lk_cuda_driver *driver, uint32_t i,
                                  lk_backend_device *device, lk_error *err) {
    int number = 0;
    int capability[2] = {0, 0};
    size_t n_bytes = 0;
    memset(device, 0, sizeof *device);
    lk_status status = find_number(driver, i, &number, err);
    if (status == LK_OK) {
        status = compute_capability(driver, number, capability, err);
    }
    if (status == LK_OK) {
        status = lk_cuda_check(driver, driver->device_memory(&n_bytes, number),
                               "asking for its memory", err);
    }
    if (status == LK_OK) {
        status = lk_cuda_check(driver,
                               driver->device_name(device->name, (int)sizeof device->name, number),
                               "asking for its name", err);
        device->name[sizeof device->name - 1] = '\0';
    }
    device->memory_bytes = n_bytes;
    (void)snprintf(device->kind, sizeof device->kind, "CUDA, compute capability %d.%d",
                   capability[0], capability[1]);
    return status;
}

lk_status lk_cuda_find_device(const lk_cuda_driver *driver, uint32_t i, int *device,
                              lk_error *err) {
    int capability[2] = {0, 0};
    lk_status status = find_number(driver, i, device, err);
    if (status == LK_OK) {
        status = compute_capability(driver, *device, capability, err);
    }
    if (status == LK_OK && capability[0] < MIN_COMPUTE_MAJOR) {
        return lk_fail(err, LK_E_UNSUPPORTED, LK_NOWHERE,
                       "device %u has compute capability %d.%d, expected %d.0 or later", i + 1,
                       capability[0], capability[1], MIN_COMPUTE_MAJOR);
    }
    return status;
}
