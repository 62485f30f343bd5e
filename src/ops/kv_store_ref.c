/* kv_store_ref.c - writing one head vector into a block of the KV cache (section 9), and the layout
 * of such a block: the definition. Blocks hold host byte order; files of saved state do not. */
#include <string.h>

#include "ops/ops.h"
#include "ops/twin.h"

/* From here on d * 127, rounded, could overflow when a value is read. */
#define Q8_LIMIT 0x1p+127f

static size_t n_groups_of(size_t head_dim) {
    return (head_dim + LK_KV_GROUP - 1) / LK_KV_GROUP;
}

size_t lk_kv_block_bytes(lk_kv_format format, size_t head_dim) {
    switch (format) {
    case LK_KV_FORMAT_F32:
        return LK_CHUNK * head_dim * sizeof(float);
    case LK_KV_FORMAT_F16:
        return LK_CHUNK * head_dim * sizeof(uint16_t);
    case LK_KV_FORMAT_Q8_0:
        break;
    }
    return LK_CHUNK * (head_dim + n_groups_of(head_dim) * sizeof(float));
}

static void store_f32(const float *x, size_t head_dim, uint8_t *block, size_t i, uint32_t *flag) {
    memcpy(block + i * head_dim * sizeof(float), x, head_dim * sizeof(float));
    for (size_t k = 0; k < head_dim; k++) {
        if (!lk_is_finite_f32(x[k])) {
            *flag = 1;
        }
    }
}

static void store_f16(const float *x, size_t head_dim, uint8_t *block, size_t i, uint32_t *flag) {
    for (size_t k = 0; k < head_dim; k++) {
        const uint16_t h = lk_f32_to_f16(x[k]);
        memcpy(block + (i * head_dim + k) * sizeof h, &h, sizeof h);
        if ((h & 0x7c00u) == 0x7c00u) {
            *flag = 1;
        }
    }
}

static void store_q8_0(const float *x, size_t head_dim, uint8_t *block, size_t i, uint32_t *flag) {
    int8_t *const q = (int8_t *)block + i * head_dim;
    uint8_t *const scales = block + LK_CHUNK * head_dim + i * n_groups_of(head_dim) * sizeof(float);
    for (size_t k = 0; k < head_dim; k += LK_KV_GROUP) {
        const size_t n = head_dim - k < LK_KV_GROUP ? head_dim - k : LK_KV_GROUP;
        float d;
        if (!lk_quantize_group(x + k, n, q + k, &d)) {
            *flag = 1;
        }
        memcpy(scales + k / LK_KV_GROUP * sizeof d, &d, sizeof d);
        for (size_t j = 0; j < n; j++) {
            if (x[k + j] >= Q8_LIMIT || x[k + j] <= -Q8_LIMIT) {
                *flag = 1;
            }
        }
    }
}

void lk_kv_store_ref(lk_kv_format format, const float *x, size_t head_dim, uint8_t *block,
                     size_t i_in_page, uint32_t *flag) {
    switch (format) {
    case LK_KV_FORMAT_F32:
        store_f32(x, head_dim, block, i_in_page, flag);
        break;
    case LK_KV_FORMAT_F16:
        store_f16(x, head_dim, block, i_in_page, flag);
        break;
    case LK_KV_FORMAT_Q8_0:
        store_q8_0(x, head_dim, block, i_in_page, flag);
        break;
    }
}
