/* lk/device.h - the devices that this process can compute on besides the processor.
 *
 *     lk_device_count(&n, &err);
 *     lk_device_get_info(1, &info, &err);
 *     encoder_params.device = 1;
 *
 * Devices are numbered from 1; 0 is the processor. Known are NVIDIA's with a driver of CUDA 11 or
 * later and compute capability 7.0 or later, in a library whose build had Clang. They compute the
 * encoders of lk/projector.h, with the bits of the processor (docs/gpu.md). The driver is loaded at
 * the first of these calls and stays in the process.
 *
 * Thread rule: any thread, any number at once.
 */
#ifndef LK_DEVICE_H
#define LK_DEVICE_H

#include "lk/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LK_DEVICE_CPU 0

/* *n is 1 or more with LK_OK; else 0, and the status and err say why: LK_E_UNSUPPORTED, the library
 * was built without device code; LK_E_NOT_FOUND, no driver, or one that finds no device;
 * LK_E_DEVICE, the driver's own error. */
LK_API lk_status lk_device_count(uint32_t *n, lk_error *err);

typedef struct lk_device_info {
    size_t struct_size;
    char backend[16]; /* "cuda" */
    char name[128];   /* its maker's name for it */
    char kind[64];    /* "CUDA, compute capability 9.0" */
    uint64_t memory_bytes;
} lk_device_info;
#define LK_DEVICE_INFO_INIT ((lk_device_info){.struct_size = sizeof(lk_device_info)})

/* Of device 1 .. n. LK_E_NOT_FOUND beyond; the statuses of lk_device_count. */
LK_API lk_status lk_device_get_info(uint32_t device, lk_device_info *info, lk_error *err);

#ifdef __cplusplus
}
#endif
#endif
