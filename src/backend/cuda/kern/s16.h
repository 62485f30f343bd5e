/* s16.h - sums in the order S16 (section 2 of docs/numerics.md) by the threads of a block: thread
 * j < 16 has partial sum j. */
#ifndef LK_BACKEND_CUDA_KERN_S16_H
#define LK_BACKEND_CUDA_KERN_S16_H

#include "backend/cuda/kern/device.h"

/* The tree of S16 from the 16 partial sums of neighbouring lanes of a warp; the sum in all of them.
 * Sums of two numbers do not depend on their order, so that both sides get the same bits. */
LK_DEVICE float lk_lanes_tree(float p) {
    p = p + lk_exchange_float(p, 8);
    p = p + lk_exchange_float(p, 4);
    p = p + lk_exchange_float(p, 2);
    return p + lk_exchange_float(p, 1);
}

#endif
