/* rowwise.cu - operators that take the rows of a value one by one, each element for itself: one
 * thread for each element. Invariant: as their scalar twins in src/ops, which say what they are. */
#include "backend/cuda/kern/flags.h"
#include "backend/cuda/kern/launch.h"
#include "ops/ops.h"

/* The column of this thread; those from the width on have nothing to do. */
LK_DEVICE uint32_t column(void) {
    return lk_block_y() * LK_CUDA_WIDE + lk_thread();
}
LK_DEVICE size_t element(uint32_t width) {
    return (size_t)lk_block_x() * width + column();
}
/* Stores an element of row lk_block_x(). */
LK_DEVICE void store(const lk_cuda_flags *flags, float *y, uint32_t width, float x) {
    y[element(width)] = x;
    lk_check(flags, lk_block_x(), x);
}

LK_KERNEL(check, lk_cuda_check_args) {
    if (column() < a.width) {
        lk_check(&a.flags, lk_block_x(), a.x[element(a.width)]);
    }
}

LK_KERNEL(act_round, lk_cuda_round_args) {
    if (column() >= a.width) {
        return;
    }
    const float limit = a.mode == LK_ROUND_13   ? LK_ROUND13_LIMIT
                        : a.mode == LK_ROUND_16 ? LK_ROUND16_LIMIT
                                                : LK_ROUND16B_LIMIT;
    const float x = a.x[element(a.width)];
    if (!(x < limit && x > -limit)) {
        lk_note(&a.flags, lk_block_x());
    }
    a.y[element(a.width)] = a.mode == LK_ROUND_13   ? lk_round13(x)
                            : a.mode == LK_ROUND_16 ? lk_round16(x)
                                                    : lk_round16b(x);
}

LK_KERNEL(add, lk_cuda_add_args) {
    if (column() < a.width) {
        const uint32_t row = a.b_rows != NULL ? a.b_rows[lk_block_x()] : lk_block_x();
        const float b = a.b[(size_t)row * a.b_stride + column()];
        store(&a.flags, a.y, a.width, a.x[element(a.width)] + b);
    }
}

LK_KERNEL(gelu_erf, lk_cuda_unary_args) {
    if (column() < a.width) {
        store(&a.flags, a.y, a.width, lk_gelu_erff(a.x[element(a.width)]));
    }
}

/* Element c * n_taps + t is element c of the t-th of the rows around the centre. */
LK_KERNEL(neighbours, lk_cuda_neighbours_args) {
    const uint32_t width = a.width * a.n_taps;
    if (column() >= width) {
        return;
    }
    const lk_cuda_neighbour_row row = a.rows[lk_block_x()];
    const int32_t i = row.centre + (int32_t)(column() % a.n_taps) - (int32_t)(a.n_taps / 2);
    const bool is_inside = i >= row.begin && i < row.end;
    a.y[element(width)] =
        is_inside ? a.x[(size_t)(uint32_t)i * a.width + column() / a.n_taps] : 0.0f;
}

LK_KERNEL(mean_of_two, lk_cuda_mean_args) {
    if (column() < a.width) {
        const float *const x = a.x + (size_t)a.from[lk_block_x()] * a.width + column();
        const float sum = x[0] + x[a.width];
        store(&a.flags, a.y, a.width, sum * 0.5f);
    }
}
