/* matmul_float.cu - products with f32, f16 and bf16 weights (section 6): sums S16. Sixteen
 * neighbouring threads share an output, thread j has partial sum j; each has PER_THREAD rows times
 * PER_THREAD outputs. Slabs of SLAB elements of the rows and the weights go through shared memory,
 * weights decoded. What lies outside a matrix is read as +0, which changes no partial sum: one that
 * began with +0 is never -0. */
#include "backend/cuda/kern/matmul.h"
#include "backend/cuda/kern/s16.h"
#include "ops/ops.h"

enum {
    PER_THREAD = 8,
    TEAMS = 4, /* teams of sixteen threads along the rows, and along the outputs */
    SLAB = 64,
    STRIDE = SLAB + 16 /* so that two teams of a warp read different banks */
};

/* Weight k of a row; below 2^-60 a bf16 is read as +0, from 2^64 on as infinite. */
LK_DEVICE float weight(uint32_t type, const uint8_t *row, uint32_t k) {
    if (type == LK_FORMAT_F32) {
        return ((const float *)(const void *)row)[k];
    }
    const uint16_t code = ((const uint16_t *)(const void *)row)[k];
    if (type == LK_FORMAT_F16) {
        return lk_half(code);
    }
    const uint32_t bits = (uint32_t)code << 16;
    const uint32_t magnitude = bits & 0x7fffffffu;
    const bool is_large = magnitude >= 0x5f800000u && magnitude < 0x7f800000u;
    return lk_f32_from_bits(magnitude < 0x21800000u ? 0u
                            : is_large              ? (bits & 0x80000000u) | 0x7f800000u
                                                    : bits);
}

LK_DEVICE float add_product(uint32_t type, float x, float w, float sum) {
    return type == LK_FORMAT_F32 ? sum + x * w : lk_fma_exact(x, w, sum);
}

LK_DEVICE void fill_slab(const lk_cuda_matmul_args *a, uint32_t type, const lk_tile *tile,
                         uint32_t first, float *xs, float *ws) {
    for (uint32_t i = lk_thread(); i < LK_CUDA_TILE * SLAB; i += LK_CUDA_WIDE) {
        const uint32_t k = first + i % SLAB;
        const uint32_t row = tile->row + i / SLAB;
        const uint32_t out = tile->out + i / SLAB;
        const uint32_t at = i / SLAB * STRIDE + i % SLAB;
        xs[at] = k < a->m.n && row < tile->row_end ? a->x[(size_t)row * a->m.n + k] : 0.0f;
        ws[at] = k < a->m.n && out < tile->out_end ? weight(type, tile->w + out * a->m.row_bytes, k)
                                                   : 0.0f;
    }
}

LK_DEVICE void multiply(const lk_cuda_matmul_args *a, uint32_t type, float *xs, float *ws) {
    const lk_tile tile = lk_tile_of_block(&a->m, a->n_rows, LK_CUDA_TILE, LK_CUDA_TILE);
    if (tile.row >= tile.row_end) {
        return;
    }
    const uint32_t lane = lk_thread() % LK_SUM_LANES;
    const uint32_t team = lk_thread() / LK_SUM_LANES;
    const float *const my_x = xs + team / TEAMS * STRIDE + lane;
    const float *const my_w = ws + team % TEAMS * STRIDE + lane;
    float sum[PER_THREAD][PER_THREAD] = {{0.0f}};
    for (uint32_t first = 0; first < a->m.n; first += SLAB) {
        lk_barrier();
        fill_slab(a, type, &tile, first, xs, ws);
        lk_barrier();
        for (uint32_t k = 0; k < SLAB; k += LK_SUM_LANES) {
            float w[PER_THREAD];
            LK_UNROLL for (uint32_t j = 0; j < PER_THREAD; j++) {
                w[j] = my_w[j * TEAMS * STRIDE + k];
            }
            LK_UNROLL for (uint32_t i = 0; i < PER_THREAD; i++) {
                const float x = my_x[i * TEAMS * STRIDE + k];
                LK_UNROLL for (uint32_t j = 0; j < PER_THREAD; j++) {
                    sum[i][j] = add_product(type, x, w[j], sum[i][j]);
                }
            }
        }
    }
    LK_UNROLL for (uint32_t i = 0; i < PER_THREAD; i++) {
        LK_UNROLL for (uint32_t j = 0; j < PER_THREAD; j++) {
            const float y = lk_lanes_tree(sum[i][j]);
            const uint32_t row = tile.row + team / TEAMS + i * TEAMS;
            const uint32_t out = tile.out + team % TEAMS + j * TEAMS;
            if (lane == 0 && row < tile.row_end && out < tile.out_end) {
                a->y[(size_t)row * a->y_stride + out] = y;
                lk_check(&a->flags, row, y);
            }
        }
    }
}

enum { FEW_AHEAD = 8 /* weights that are asked for before the first is used */ };

/* Few rows: sixteen threads have one output for up to LK_CUDA_FEW_ROWS rows. */
LK_DEVICE void multiply_few(const lk_cuda_matmul_args *a, uint32_t type) {
    const lk_tile tile =
        lk_tile_of_block(&a->m, a->n_rows, LK_CUDA_FEW_ROWS, LK_CUDA_FEW_FLOAT_OUTS);
    if (tile.row >= tile.row_end) {
        return;
    }
    const uint32_t lane = lk_thread() % LK_SUM_LANES;
    const uint32_t out = tile.out + lk_thread() / LK_SUM_LANES;
    const uint32_t n_rows =
        tile.row_end - tile.row < LK_CUDA_FEW_ROWS ? tile.row_end - tile.row : LK_CUDA_FEW_ROWS;
    const uint8_t *const row = tile.w + (out < tile.out_end ? out : 0) * a->m.row_bytes;
    const float *const x = a->x + (size_t)tile.row * a->m.n;
    float sum[LK_CUDA_FEW_ROWS] = {0.0f};
    for (uint32_t first = lane; first < a->m.n; first += FEW_AHEAD * LK_SUM_LANES) {
        float w[FEW_AHEAD];
        LK_UNROLL for (uint32_t i = 0; i < FEW_AHEAD; i++) {
            const uint32_t k = first + i * LK_SUM_LANES;
            w[i] = k < a->m.n ? weight(type, row, k) : 0.0f;
        }
        LK_UNROLL for (uint32_t r = 0; r < LK_CUDA_FEW_ROWS; r++) {
            LK_UNROLL for (uint32_t i = 0; i < FEW_AHEAD; i++) {
                const uint32_t k = first + i * LK_SUM_LANES;
                const float v = r < n_rows && k < a->m.n ? x[(size_t)r * a->m.n + k] : 0.0f;
                sum[r] = add_product(type, v, w[i], sum[r]);
            }
        }
    }
    LK_UNROLL for (uint32_t r = 0; r < LK_CUDA_FEW_ROWS; r++) {
        const float y = lk_lanes_tree(sum[r]);
        if (lane == 0 && r < n_rows && out < tile.out_end) {
            a->y[(size_t)(tile.row + r) * a->y_stride + out] = y;
            lk_check(&a->flags, tile.row + r, y);
        }
    }
}

LK_KERNEL(matmul_f32, lk_cuda_matmul_args) {
    LK_SHARED float xs[LK_CUDA_TILE * STRIDE];
    LK_SHARED float ws[LK_CUDA_TILE * STRIDE];
    multiply(&a, LK_FORMAT_F32, xs, ws);
}

LK_KERNEL(matmul_f16, lk_cuda_matmul_args) {
    LK_SHARED float xs[LK_CUDA_TILE * STRIDE];
    LK_SHARED float ws[LK_CUDA_TILE * STRIDE];
    multiply(&a, LK_FORMAT_F16, xs, ws);
}

LK_KERNEL(matmul_bf16, lk_cuda_matmul_args) {
    LK_SHARED float xs[LK_CUDA_TILE * STRIDE];
    LK_SHARED float ws[LK_CUDA_TILE * STRIDE];
    multiply(&a, LK_FORMAT_BF16, xs, ws);
}

LK_KERNEL(matmul_f32_few, lk_cuda_matmul_args) {
    multiply_few(&a, LK_FORMAT_F32);
}

LK_KERNEL(matmul_f16_few, lk_cuda_matmul_args) {
    multiply_few(&a, LK_FORMAT_F16);
}

LK_KERNEL(matmul_bf16_few, lk_cuda_matmul_args) {
    multiply_few(&a, LK_FORMAT_BF16);
}
