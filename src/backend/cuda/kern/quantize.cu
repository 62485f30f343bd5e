/* quantize.cu - the activation quantiser (section 4): a warp for each group. Lane j has elements
 * j * n .. of the group, n = group / 32. */
#include "backend/cuda/kern/flags.h"
#include "backend/cuda/kern/launch.h"

enum { MAX_PER_LANE = 8 };

/* Sum over 16 elements of the group: 16 / n lanes together. */
LK_DEVICE int32_t sum16(int32_t sum, uint32_t n) {
    for (uint32_t mask = 1; mask * n < 16; mask *= 2) {
        sum += (int32_t)lk_exchange((uint32_t)sum, mask);
    }
    return sum;
}

LK_DEVICE void quantize(const lk_cuda_quantize_args *a, uint32_t n) {
    const uint32_t i_group = lk_block_y() * (LK_CUDA_WIDE / LK_WARP) + lk_thread() / LK_WARP;
    const uint32_t n_groups = a->width / a->group;
    if (i_group >= n_groups) {
        return;
    }
    const uint32_t lane = lk_thread() % LK_WARP;
    const size_t at = (size_t)lk_block_x() * a->width + i_group * a->group + lane * n;
    float x[MAX_PER_LANE];
    uint32_t largest = 0;
    LK_UNROLL for (uint32_t i = 0; i < n; i++) {
        x[i] = a->x[at + i];
        const uint32_t magnitude = lk_f32_bits(x[i]) & 0x7fffffffu;
        largest = magnitude > largest ? magnitude : largest;
    }
    for (uint32_t mask = 16; mask != 0; mask /= 2) {
        const uint32_t other = lk_exchange(largest, mask);
        largest = other > largest ? other : largest;
    }
    const bool is_zero = largest >= 0x7f800000u || largest < 0x0d800000u; /* 2^-100 */
    const float magnitude = lk_f32_from_bits(largest);
    const float r = is_zero ? 0.0f : 127.0f / magnitude;
    int32_t sum = 0;
    LK_UNROLL for (uint32_t i = 0; i < n; i++) {
        float v = lk_rint_small(x[i] * r);
        v = v > 127.0f ? 127.0f : v;
        v = v < -127.0f ? -127.0f : v;
        const int32_t q = is_zero ? 0 : (int32_t)v;
        a->q[at + i] = (int8_t)q;
        sum += q;
    }
    sum = sum16(sum, n);
    if (lane * n % 16 == 0) {
        a->sums[at / 16] = (int16_t)sum;
    }
    if (lane == 0) {
        a->d[(size_t)lk_block_x() * n_groups + i_group] = is_zero ? 0.0f : magnitude / 127.0f;
        if (largest >= 0x7f800000u) {
            lk_note(&a->flags, lk_block_x());
        }
    }
}

LK_KERNEL(act_quantize, lk_cuda_quantize_args) {
    if (a.group == 32) {
        quantize(&a, 1);
    } else {
        quantize(&a, MAX_PER_LANE);
    }
}
