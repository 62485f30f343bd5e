/* devices.c - bodies of lk/device.h: the devices of all backends, numbered from 1. */
#include "lk/device.h"

#include <stdio.h>
#include <string.h>

#include "api/device_list.h"
#include "base/error.h"
#include "base/fpenv.h"
#include "base/params.h"

LK_NO_TAIL_PADDING(lk_device_info, memory_bytes);

static const lk_backend_ops *const backends[] = {
#define LK_BACKEND(name) &lk_backend_##name,
#include "backend/backends.def"
#undef LK_BACKEND
};

enum { N_BACKENDS = sizeof backends / sizeof backends[0] };

/* The backend of device `device`, or how many there are where `device` is beyond; then the reason
 * of the last backend that has none is in *err. */
static const lk_backend_ops *find(uint32_t device, uint32_t *index, uint32_t *n, lk_status *status,
                                  lk_error *err) {
    *n = 0;
    *status = LK_E_NOT_FOUND;
    for (size_t i = 0; i < N_BACKENDS; i++) {
        uint32_t n_here = 0;
        if (backends[i]->count_devices == NULL) {
            continue;
        }
        const lk_status here = backends[i]->count_devices(&n_here, err);
        if (here != LK_OK) {
            *status = here;
            continue;
        }
        if (device - 1 - *n < n_here) {
            *index = device - 1 - *n;
            return backends[i];
        }
        *n += n_here;
    }
    return NULL;
}

lk_status lk_device_find(uint32_t device, const lk_backend_ops **ops, uint32_t *index,
                         lk_error *err) {
    *index = 0;
    *ops = &lk_backend_cpu;
    if (device == LK_DEVICE_CPU) {
        return LK_OK;
    }
    uint32_t n = 0;
    lk_status status = LK_OK;
    *ops = find(device, index, &n, &status, err);
    if (*ops != NULL) {
        return LK_OK;
    }
    return n == 0 ? status
                  : lk_fail(err, LK_E_NOT_FOUND, LK_AT_SUBJECT("device"),
                            "device %u, expected 0 (the processor) .. %u", device, n);
}

lk_status lk_device_count(uint32_t *n, lk_error *err) {
    if (n == NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("n"), "n is NULL");
    }
    const lk_fpenv fpenv = lk_fpenv_enter();
    uint32_t index = 0;
    lk_status status = LK_OK;
    (void)find(UINT32_MAX, &index, n, &status, err);
    lk_fpenv_leave(fpenv);
    return *n != 0 ? LK_OK : status;
}

lk_status lk_device_get_info(uint32_t device, lk_device_info *info, lk_error *err) {
    if (info == NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("info"), "info is NULL");
    }
    lk_status status = lk_check_struct_size("lk_device_info", info->struct_size, sizeof *info, err);
    if (status == LK_OK && device == LK_DEVICE_CPU) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("device"),
                       "device 0 is the processor; the others are numbered from 1");
    }
    if (status != LK_OK) {
        return status;
    }
    const lk_fpenv fpenv = lk_fpenv_enter();
    const lk_backend_ops *ops = NULL;
    lk_backend_device found;
    uint32_t index = 0;
    status = lk_device_find(device, &ops, &index, err);
    if (status == LK_OK) {
        status = ops->describe_device(index, &found, err);
    }
    lk_fpenv_leave(fpenv);
    if (status == LK_OK) {
        *info = LK_DEVICE_INFO_INIT;
        (void)snprintf(info->backend, sizeof info->backend, "%s", ops->name);
        memcpy(info->name, found.name, sizeof info->name);
        memcpy(info->kind, found.kind, sizeof info->kind);
        info->memory_bytes = found.memory_bytes;
    }
    return status;
}
