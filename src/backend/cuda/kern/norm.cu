/* norm.cu - norms (section 7): a block for each row and group. Threads 0 .. 15 have the partial
 * sums, all have a part of the output. */
#include "backend/cuda/kern/flags.h"
#include "backend/cuda/kern/launch.h"

/* S16 of x[k] - mean, or of its square, in every thread. */
LK_DEVICE float sum16(const float *x, float mean, bool square, uint32_t n, float *partial) {
    if (lk_thread() < LK_SUM_LANES) {
        float p = 0.0f;
        LK_UNROLL_BY_8 for (uint32_t k = lk_thread(); k < n; k += LK_SUM_LANES) {
            const float d = x[k] - mean;
            p = p + (square ? d * d : d);
        }
        partial[lk_thread()] = p;
    }
    lk_barrier();
    const float sum = lk_sum16_tree(partial);
    lk_barrier();
    return sum;
}

LK_KERNEL(layer_norm, lk_cuda_norm_args) {
    LK_SHARED float partial[LK_SUM_LANES];
    const float *const x = a.x + (size_t)lk_block_x() * a.width;
    float *const y = a.y + (size_t)lk_block_x() * a.width;
    /* x - 0 is x. */
    const float mean = sum16(x, 0.0f, false, a.width, partial) / (float)a.width;
    const float s = sum16(x, mean, true, a.width, partial);
    if (lk_thread() == 0) {
        lk_check(&a.flags, lk_block_x(), s);
    }
    const float c = 1.0f / lk_sqrt(s / (float)a.width + a.eps);
    for (uint32_t k = lk_thread(); k < a.width; k += LK_CUDA_NORM) {
        const float d = x[k] - mean;
        y[k] = (d * c) * a.w[k] + a.b[k];
        lk_check(&a.flags, lk_block_x(), y[k]);
    }
}

LK_KERNEL(rms_norm, lk_cuda_norm_args) {
    LK_SHARED float partial[LK_SUM_LANES];
    const size_t at = (size_t)lk_block_x() * a.width + lk_block_y() * a.group;
    const float *const x = a.x + at;
    float *const y = a.y + at;
    const float s = sum16(x, 0.0f, true, a.group, partial); /* x - 0 squared is x squared */
    if (lk_thread() == 0) {
        lk_check(&a.flags, lk_block_x(), s);
    }
    const float c = 1.0f / lk_sqrt(s / (float)a.group + a.eps);
    for (uint32_t k = lk_thread(); k < a.group; k += LK_CUDA_NORM) {
        y[k] = (x[k] * c) * a.w[k];
        lk_check(&a.flags, lk_block_x(), y[k]);
    }
}
