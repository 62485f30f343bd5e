/* fibers.h - what the host variant of device.h needs of the runtime that has a block's threads as
 * fibers (tests/support/cuda_emulated). */
#ifndef LK_BACKEND_CUDA_KERN_FIBERS_H
#define LK_BACKEND_CUDA_KERN_FIBERS_H

#include <stdint.h>

typedef struct lk_fiber_position {
    uint32_t thread;
    uint32_t n_threads;
    uint32_t block[3];
} lk_fiber_position;
/* Of the thread that runs now. */
extern _Thread_local lk_fiber_position lk_fiber_place;

/* Both let other threads run: until all of the block have come, until all of the warp have. */
void lk_fiber_barrier(void);
uint32_t lk_fiber_exchange(uint32_t x, uint32_t mask);

#endif
