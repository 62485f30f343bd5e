/* embed.cu - rows of a table of embeddings, decoded (src/quant), one thread for each element. */
#include "backend/cuda/kern/flags.h"
#include "backend/cuda/kern/formats.h"
#include "backend/cuda/kern/launch.h"

/* Element k of a row of blocks. */
LK_DEVICE float decode(uint32_t type, const uint8_t *row, uint32_t k) {
    const uint32_t n_elems = lk_fmt_elems(type);
    const uint8_t *const block = row + k / n_elems * lk_fmt_bytes(type);
    const uint32_t i = k % n_elems;
    const uint32_t word = lk_fmt_word(type, block, i / 4);
    const uint32_t group = i / lk_fmt_group(type);
    const int8_t q = (int8_t)(uint8_t)(word >> 8 * (i % 4));
    const float scale =
        lk_fmt_d(type, block) * (float)(n_elems == 32 ? 1 : lk_fmt_scale(type, block, group));
    if (!lk_fmt_has_min(type)) {
        return scale * (float)q;
    }
    const float min =
        lk_fmt_d_min(type, block) * (float)(n_elems == 32 ? 1 : lk_fmt_min(type, block, group));
    return scale * (float)q - min;
}

LK_DEVICE float element(uint32_t type, const uint8_t *row, uint32_t k) {
    switch (type) {
    case LK_FORMAT_F32:
        return ((const float *)(const void *)row)[k];
    case LK_FORMAT_F16:
        return lk_half(((const uint16_t *)(const void *)row)[k]);
    case LK_FORMAT_BF16:
        return lk_bf16_to_f32(((const uint16_t *)(const void *)row)[k]);
#define LK_CUDA_QUANT(NAME, name)                                                                  \
    case LK_FORMAT_##NAME:                                                                         \
        return decode(LK_FORMAT_##NAME, row, k);
#include "backend/cuda/kern/quant.def"
#undef LK_CUDA_QUANT
    default:
        return 0.0f;
    }
}

LK_KERNEL(embed, lk_cuda_embed_args) {
    const uint32_t r = lk_block_x();
    const uint32_t k = lk_block_y() * LK_CUDA_WIDE + lk_thread();
    if (k >= a.width) {
        return;
    }
    const int32_t from = a.from[r];
    const float y = from < 0 ? a.embeddings[(size_t)(-1 - from) * a.width + k]
                             : element(a.type, a.table + (uint64_t)from * a.row_bytes, k);
    a.y[(size_t)r * a.width + k] = y;
    lk_check(&a.flags, r, y);
}
