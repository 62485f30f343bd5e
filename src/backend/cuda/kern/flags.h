/* flags.h - noting non-finite values of a row, on the card. */
#ifndef LK_BACKEND_CUDA_KERN_FLAGS_H
#define LK_BACKEND_CUDA_KERN_FLAGS_H

#include "backend/cuda/kern/args.h"
#include "backend/cuda/kern/device.h"

LK_DEVICE void lk_note(const lk_cuda_flags *flags, uint32_t r) {
    lk_atomic_min(&flags->bad[flags->step_row != NULL ? flags->step_row[r] : r], flags->node);
}
LK_DEVICE void lk_check(const lk_cuda_flags *flags, uint32_t r, float x) {
    if (!lk_is_finite_f32(x)) {
        lk_note(flags, r);
    }
}

#endif
