/* head_groups.h - a head vector quantised in groups of 32, the last one maybe shorter (sections 9
 * and 10): a warp for each group, a lane for each element. */
#ifndef LK_BACKEND_CUDA_KERN_HEAD_GROUPS_H
#define LK_BACKEND_CUDA_KERN_HEAD_GROUPS_H

#include "backend/cuda/kern/device.h"
#include "backend/cuda/kern/launch.h"
#include "ops/ops.h"

LK_DEVICE uint32_t lk_head_groups(uint32_t head_dim) {
    return (head_dim + LK_KV_GROUP - 1) / LK_KV_GROUP;
}

/* One group by the lanes of a warp: this lane's integer, the scale. Lanes beyond the group bring 0.
 */
typedef struct lk_lane_quant {
    int32_t q;
    float d;
    bool is_bad; /* a value of the group is not finite */
} lk_lane_quant;

LK_DEVICE lk_lane_quant lk_quantize_lane(float v) {
    uint32_t largest = lk_f32_bits(v) & 0x7fffffffu;
    for (uint32_t mask = 16; mask != 0; mask /= 2) {
        const uint32_t other = lk_exchange(largest, mask);
        largest = other > largest ? other : largest;
    }
    const bool is_zero = largest >= 0x7f800000u || largest < 0x0d800000u; /* 2^-100 */
    const float magnitude = lk_f32_from_bits(largest);
    float rounded = is_zero ? 0.0f : lk_rint_small(v * (127.0f / magnitude));
    rounded = rounded > 127.0f ? 127.0f : rounded;
    rounded = rounded < -127.0f ? -127.0f : rounded;
    lk_lane_quant quant;
    quant.q = (int32_t)rounded;
    quant.d = is_zero ? 0.0f : magnitude / 127.0f;
    quant.is_bad = largest >= 0x7f800000u;
    return quant;
}

/* q [head_dim], d [groups of the head], by all threads of a block of LK_CUDA_ATTENTION. True in
 * threads whose group holds a value that is not finite. */
LK_DEVICE bool lk_quantize_head(const float *x, uint32_t head_dim, int8_t *q, float *d) {
    const uint32_t lane = lk_thread() % LK_WARP;
    bool is_bad = false;
    for (uint32_t g = lk_thread() / LK_WARP; g < lk_head_groups(head_dim);
         g += LK_CUDA_ATTENTION / LK_WARP) {
        const uint32_t k = g * LK_KV_GROUP + lane;
        const lk_lane_quant quant = lk_quantize_lane(k < head_dim ? x[k] : 0.0f);
        if (k < head_dim) {
            q[k] = (int8_t)quant.q;
        }
        if (lane == 0) {
            d[g] = quant.d;
        }
        is_bad = is_bad || quant.is_bad;
    }
    return is_bad;
}

/* Bytes of a block of one head (lk_kv_block_bytes). */
LK_DEVICE size_t lk_head_block_bytes(uint32_t format, uint32_t head_dim) {
    return format == LK_KV_FORMAT_F32 ? (size_t)LK_CHUNK * head_dim * sizeof(float)
           : format == LK_KV_FORMAT_F16
               ? (size_t)LK_CHUNK * head_dim * sizeof(uint16_t)
               : (size_t)LK_CHUNK * (head_dim + lk_head_groups(head_dim) * sizeof(float));
}

LK_DEVICE uint32_t lk_kv_elem_bytes(uint32_t format) {
    return format == LK_KV_FORMAT_F32 ? 4 : format == LK_KV_FORMAT_F16 ? 2 : 1;
}

/* The key block (or the value block) of a head for chunk c of row r's sequence. */
LK_DEVICE uint8_t *lk_head_block(const lk_cuda_kv *kv, uint32_t r, uint32_t c, uint32_t head,
                                 bool is_value) {
    const size_t k_bytes = lk_head_block_bytes(kv->k_format, kv->head_dim);
    const size_t v_bytes = lk_head_block_bytes(kv->v_format, kv->head_dim);
    uint8_t *const layer = kv->pages + kv->table[kv->first[r] + c] * kv->page_bytes + kv->offset;
    return is_value ? layer + kv->n_kv_heads * k_bytes + head * v_bytes : layer + head * k_bytes;
}

#endif
