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

LK_KERNEL(gather, lk_cuda_gather_args) {
    if (column() < a.width) {
        a.y[element(a.width)] = a.x[(size_t)a.rows[lk_block_x()] * a.width + column()];
    }
}

/* The threads of a head: one for each pair, then one for each element that is not rotated. */
LK_KERNEL(rope, lk_cuda_rope_args) {
    const uint32_t n_pairs = a.n_rot / 2;
    const uint32_t n_own = a.head_dim - n_pairs;
    if (column() >= a.width / a.head_dim * n_own) {
        return;
    }
    const uint32_t i = column() % n_own;
    const size_t head = (size_t)lk_block_x() * a.width + column() / n_own * a.head_dim;
    if (i >= n_pairs) {
        const size_t at = head + n_pairs + i;
        a.y[at] = a.x[at];
        lk_check(&a.flags, lk_block_x(), a.y[at]);
        return;
    }
    const bool is_normal = a.order == LK_ROPE_NORMAL;
    const size_t at0 = head + (is_normal ? 2 * i : i);
    const size_t at1 = is_normal ? at0 + 1 : at0 + n_pairs;
    const float *const cos_sin = a.cos_sin + (size_t)lk_block_x() * a.n_rot + 2 * i;
    const float x0 = a.x[at0];
    const float x1 = a.x[at1];
    const float y0 = x0 * cos_sin[0] - x1 * cos_sin[1];
    const float y1 = x0 * cos_sin[1] + x1 * cos_sin[0];
    a.y[at0] = y0;
    a.y[at1] = y1;
    lk_check(&a.flags, lk_block_x(), y0);
    lk_check(&a.flags, lk_block_x(), y1);
}

LK_DEVICE float silu(float g) {
    return g / (1.0f + lk_expf(-g));
}
LK_DEVICE float gelu(float g) {
    float w = g * g;
    w = w * LK_GELU_CUBIC + LK_GELU_LINEAR;
    return g / (1.0f + lk_expf(-(g * w)));
}
LK_DEVICE float clamped_silu_mul(float gate, float up) {
    const float limit = LK_CLAMPED_SILU_LIMIT;
    const float g = limit < gate ? limit : gate;
    float u = limit < up ? limit : up;
    u = u < -limit ? -limit : u;
    return (g / (1.0f + lk_expf(-(g * LK_CLAMPED_SILU_FACTOR)))) * (u + 1.0f);
}

LK_KERNEL(gated, lk_cuda_gated_args) {
    if (column() >= a.width) {
        return;
    }
    const float gate = a.gate[element(a.width)];
    const float up = a.up[element(a.width)];
    store(&a.flags, a.y, a.width,
          a.kind == LK_CUDA_SILU   ? silu(gate) * up
          : a.kind == LK_CUDA_GELU ? gelu(gate) * up
                                   : clamped_silu_mul(gate, up));
}

LK_KERNEL(scale, lk_cuda_scale_args) {
    if (column() >= a.width) {
        return;
    }
    float factor = a.factor;
    if (a.gates != NULL) {
        factor = 1.0f / (1.0f + lk_expf(-a.gates[lk_block_x()]));
    } else if (a.factors != NULL) {
        factor = a.factors[lk_block_x()];
    }
    store(&a.flags, a.y, a.width, a.x[element(a.width)] * factor);
}

LK_KERNEL(softcap, lk_cuda_unary_args) {
    if (column() < a.width) {
        const float x = a.x[element(a.width)];
        store(&a.flags, a.y, a.width, lk_tanhf(x / a.factor) * a.factor);
    }
}

LK_KERNEL(combine_experts, lk_cuda_combine_args) {
    if (column() >= a.width) {
        return;
    }
    float y = 0.0f;
    for (uint32_t i = 0; i < a.n_used; i++) {
        const size_t assignment = (size_t)lk_block_x() * a.n_used + i;
        y = y + a.weights[assignment] * a.x[(size_t)a.slot[assignment] * a.width + column()];
    }
    store(&a.flags, a.y, a.width, y);
}
