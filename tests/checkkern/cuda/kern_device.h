/* kern_device.h - where the kernels under test run: on fibers of the host (kern_device_host.c, what
 * ctest uses) or on a card through its driver (kern_device_card.c, the program cudakern_card). */
#ifndef LK_KERN_DEVICE_H
#define LK_KERN_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/cuda/kern/choice.h"

/* Takes what belongs to it from the arguments (the card: files of PTX) and returns how many are
 * left in argv; exits with a message where there is no such device. */
int kd_open(int argc, char **argv);
/* Memory of the device, until kd_free_all: with every byte 0xa5, or a copy of `bytes` bytes at
 * `from` with `padding` readable bytes behind. Ends the program when there is none. */
void *kd_new(size_t bytes);
void *kd_put(const void *from, size_t bytes, size_t padding);
void kd_get(void *to, const void *from, size_t bytes);
void kd_free_all(void);
void kd_launch(lk_cuda_kernel kernel, const void *args, size_t args_bytes, lk_cuda_shape shape);
/* Seconds of one launch, the mean of `n` in a row; 0 where time means nothing (the host). */
double kd_time(lk_cuda_kernel kernel, const void *args, size_t args_bytes, lk_cuda_shape shape,
               uint32_t n);

#define KD_LAUNCH(name, args)                                                                      \
    kd_launch(LK_CUDA_##name, args, sizeof *(args), lk_cuda_shape_##name(args))
#define KD_TIME(name, args, n)                                                                     \
    kd_time(LK_CUDA_##name, args, sizeof *(args), lk_cuda_shape_##name(args), n)

#endif
