/* kv_store.cu - keys and values into the pages (section 9): a block for each row, head, and of keys
 * and values one. */
#include "backend/cuda/kern/flags.h"
#include "backend/cuda/kern/head_groups.h"

/* True where this thread met a value that its format does not hold. */
LK_DEVICE bool store_head(uint32_t format, const float *x, uint32_t head_dim, uint8_t *block,
                          uint32_t i) {
    bool is_bad = false;
    if (format == LK_KV_FORMAT_Q8_0) {
        float *const d = (float *)(void *)(block + (size_t)LK_CHUNK * head_dim);
        is_bad = lk_quantize_head(x, head_dim, (int8_t *)block + i * head_dim,
                                  d + i * lk_head_groups(head_dim));
    }
    for (uint32_t k = lk_thread(); k < head_dim; k += LK_CUDA_ATTENTION) {
        const size_t at = (size_t)i * head_dim + k;
        if (format == LK_KV_FORMAT_F32) {
            ((float *)(void *)block)[at] = x[k];
            is_bad = is_bad || !lk_is_finite_f32(x[k]);
        } else if (format == LK_KV_FORMAT_F16) {
            const uint16_t h = lk_f32_to_f16(x[k]);
            ((uint16_t *)(void *)block)[at] = h;
            is_bad = is_bad || (h & 0x7c00u) == 0x7c00u;
        } else { /* read back, d * 127 could overflow */
            is_bad = is_bad || x[k] >= 0x1p+127f || x[k] <= -0x1p+127f;
        }
    }
    return is_bad;
}

LK_KERNEL(kv_store, lk_cuda_kv_store_args) {
    const uint32_t row = lk_block_x();
    const uint32_t head = lk_block_y();
    const bool is_value = lk_block_z() != 0;
    const uint32_t pos = a.kv.pos[row];
    const float *const x =
        (is_value ? a.v : a.k) + ((size_t)row * a.kv.n_kv_heads + head) * a.kv.head_dim;
    if (store_head(is_value ? a.kv.v_format : a.kv.k_format, x, a.kv.head_dim,
                   lk_head_block(&a.kv, row, pos / LK_CHUNK, head, is_value), pos % LK_CHUNK)) {
        lk_note(&a.flags, row);
    }
}
