/* formats.h - blocks of the quantised formats as device code takes them apart: four weights at a
 * time as signed bytes of a word, ready for a dot of bytes. `type` is a constant wherever these are
 * called, so that only one case is left. The layouts are those of src/quant/<format>/<format>.c,
 * which say what the bytes mean; tests/unit holds these functions against them. */
#ifndef LK_BACKEND_CUDA_KERN_FORMATS_H
#define LK_BACKEND_CUDA_KERN_FORMATS_H

#include "backend/cuda/kern/device.h"
#include "quant/format.h"

/* What the compiler knows of a format. */
LK_DEVICE uint32_t lk_fmt_elems(uint32_t type) {
    switch (type) {
    case LK_FORMAT_Q2_K:
    case LK_FORMAT_Q3_K:
    case LK_FORMAT_Q4_K:
    case LK_FORMAT_Q5_K:
    case LK_FORMAT_Q6_K:
    case LK_FORMAT_IQ4_XS:
        return 256;
    default:
        return 32;
    }
}
LK_DEVICE uint32_t lk_fmt_bytes(uint32_t type) {
    switch (type) {
#define LK_FORMAT(NAME, name, id, block_elems, block_bytes, act_group)                             \
    case id:                                                                                       \
        return block_bytes;
#define LK_FORMAT_KNOWN(NAME, id, block_elems, block_bytes)
#include "quant/formats.def"
#undef LK_FORMAT
#undef LK_FORMAT_KNOWN
    default:
        return 0;
    }
}
/* Elements under one integer scale. */
LK_DEVICE uint32_t lk_fmt_group(uint32_t type) {
    return type == LK_FORMAT_Q2_K || type == LK_FORMAT_Q3_K || type == LK_FORMAT_Q6_K ? 16 : 32;
}
LK_DEVICE bool lk_fmt_has_min(uint32_t type) {
    return type == LK_FORMAT_Q4_1 || type == LK_FORMAT_Q5_1 || type == LK_FORMAT_Q2_K ||
           type == LK_FORMAT_Q4_K || type == LK_FORMAT_Q5_K;
}

/* Each byte of v (0 .. 127) minus that of c (0 .. 127), as signed bytes. */
LK_DEVICE uint32_t lk_sub4(uint32_t v, uint32_t c) {
    return ((v | 0x80808080u) - c) ^ 0x80808080u;
}
/* Bits 0 .. 3 of v to bit 0 of the four bytes. */
LK_DEVICE uint32_t lk_spread4(uint32_t v) {
    return ((v & 15u) * 0x00204081u) & 0x01010101u;
}
/* Entries of a table of sixteen bytes, t: by the low halves of four bytes. */
LK_DEVICE uint32_t lk_lookup4(uint32_t v, uint32_t t0, uint32_t t1, uint32_t t2, uint32_t t3) {
    const uint32_t low = v & 0x07070707u;
    const uint32_t pairs = low | low >> 4; /* bytes 0 and 2: two selectors each */
    const uint32_t selectors = (pairs & 0xffu) | (pairs >> 8 & 0xff00u);
    const uint32_t is_high = (v >> 3 & 0x01010101u) * 0xffu;
    return (lk_permute(t0, t1, selectors) & ~is_high) | (lk_permute(t2, t3, selectors) & is_high);
}
LK_DEVICE uint32_t lk_nibbles(const uint8_t *qs, uint32_t align, uint32_t i) {
    return lk_load4(qs + 4 * (i % 4), align) >> (i % 8 < 4 ? 0 : 4) & 0x0f0f0f0fu;
}
LK_DEVICE uint32_t lk_iq4_word(uint32_t nibbles) {
    /* lk_iq4_values */
    return lk_lookup4(nibbles, 0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
}

/* Weights 4 i .. 4 i + 3 of a block as signed bytes. */
LK_DEVICE uint32_t lk_fmt_word(uint32_t type, const uint8_t *block, uint32_t i) {
    const uint32_t k = 4 * i;
    switch (type) {
    case LK_FORMAT_Q4_0:
        return lk_sub4(lk_nibbles(block + 2, 2, i), 0x08080808u);
    case LK_FORMAT_Q4_1:
        return lk_nibbles(block + 4, 4, i);
    case LK_FORMAT_Q5_0:
        return lk_sub4(lk_nibbles(block + 6, 2, i) | lk_spread4(lk_load4(block + 2, 2) >> k) << 4,
                       0x10101010u);
    case LK_FORMAT_Q5_1:
        return lk_nibbles(block + 8, 4, i) | lk_spread4(lk_load4(block + 4, 4) >> k) << 4;
    case LK_FORMAT_Q8_0:
        return lk_load4(block + 2 + k, 2);
    case LK_FORMAT_IQ4_NL:
        return lk_iq4_word(lk_nibbles(block + 2, 2, i));
    case LK_FORMAT_MXFP4:
        return lk_lookup4(lk_nibbles(block + 1, 1, i), 0x03020100u, 0x0c080604u, 0xfdfeff00u,
                          0xf4f8fafcu);
    case LK_FORMAT_Q2_K:
        return lk_load4(block + 16 + 32 * (k / 128) + k % 32, 4) >> 2 * (k % 128 / 32) &
               0x03030303u;
    case LK_FORMAT_Q3_K: {
        const uint32_t low =
            lk_load4(block + 32 + 32 * (k / 128) + k % 32, 2) >> 2 * (k % 128 / 32) & 0x03030303u;
        const uint32_t high = lk_load4(block + k % 32, 2) >> k / 32 & 0x01010101u;
        return lk_sub4(low | high << 2, 0x04040404u);
    }
    case LK_FORMAT_Q4_K:
        return lk_load4(block + 16 + 32 * (k / 64) + k % 32, 4) >> 4 * (k / 32 % 2) & 0x0f0f0f0fu;
    case LK_FORMAT_Q5_K: {
        const uint32_t low =
            lk_load4(block + 48 + 32 * (k / 64) + k % 32, 4) >> 4 * (k / 32 % 2) & 0x0f0f0f0fu;
        return low | (lk_load4(block + 16 + k % 32, 4) >> k / 32 & 0x01010101u) << 4;
    }
    case LK_FORMAT_Q6_K: {
        const uint32_t quarter = k % 128 / 32;
        const uint32_t low =
            lk_load4(block + 64 * (k / 128) + 32 * (quarter % 2) + k % 32, 2) >> 4 * (quarter / 2) &
            0x0f0f0f0fu;
        const uint32_t high =
            lk_load4(block + 128 + 32 * (k / 128) + k % 32, 2) >> 2 * quarter & 0x03030303u;
        return lk_sub4(low | high << 4, 0x20202020u);
    }
    case LK_FORMAT_IQ4_XS:
        return lk_iq4_word(lk_nibbles(block + 8 + 16 * (k / 32), 4, i));
    default:
        return 0;
    }
}

LK_DEVICE float lk_fmt_half_at(const uint8_t *block, uint32_t at) {
    return lk_half(*(const uint16_t *)(const void *)(block + at));
}

/* The block's scale. */
LK_DEVICE float lk_fmt_d(uint32_t type, const uint8_t *block) {
    switch (type) {
    case LK_FORMAT_MXFP4: { /* 2^(e-128), infinity for e = 255 */
        const uint32_t e = block[0];
        return lk_f32_from_bits(e == 255 ? 0x7f800000u : e < 2 ? 0x00200000u << e : (e - 1) << 23);
    }
    case LK_FORMAT_Q2_K:
        return lk_fmt_half_at(block, 80);
    case LK_FORMAT_Q3_K:
        return lk_fmt_half_at(block, 108);
    case LK_FORMAT_Q6_K:
        return lk_fmt_half_at(block, 208);
    default:
        return lk_fmt_half_at(block, 0);
    }
}
/* The scale of the minima that are subtracted; 0 without. */
LK_DEVICE float lk_fmt_d_min(uint32_t type, const uint8_t *block) {
    switch (type) {
    case LK_FORMAT_Q4_1:
    case LK_FORMAT_Q5_1:
        return -lk_fmt_half_at(block, 2);
    case LK_FORMAT_Q2_K:
        return lk_fmt_half_at(block, 82);
    case LK_FORMAT_Q4_K:
    case LK_FORMAT_Q5_K:
        return lk_fmt_half_at(block, 2);
    default:
        return 0.0f;
    }
}

/* The integer scale of a group. */
LK_DEVICE int32_t lk_fmt_scale(uint32_t type, const uint8_t *block, uint32_t group) {
    switch (type) {
    case LK_FORMAT_Q2_K:
        return block[group] & 15;
    case LK_FORMAT_Q3_K: {
        const uint32_t low = (uint32_t)block[96 + group % 8] >> 4 * (group / 8) & 15u;
        const uint32_t high = (uint32_t)block[104 + group % 4] >> 2 * (group / 4) & 3u;
        return (int32_t)(low | high << 4) - 32;
    }
    case LK_FORMAT_Q4_K:
    case LK_FORMAT_Q5_K: {
        const uint32_t byte = block[4 + group % 4];
        return (int32_t)(group < 4 ? byte & 63u : (block[8 + group] & 15u) | byte >> 6 << 4);
    }
    case LK_FORMAT_Q6_K:
        return (int8_t)block[192 + group];
    case LK_FORMAT_IQ4_XS: {
        const uint32_t low = (uint32_t)block[4 + group / 2] >> 4 * (group % 2) & 15u;
        const uint32_t high = (uint32_t)lk_load_u16(block + 2) >> 2 * group & 3u;
        return (int32_t)(low | high << 4) - 32;
    }
    default:
        return 1;
    }
}
/* The integer minimum of a group. */
LK_DEVICE int32_t lk_fmt_min(uint32_t type, const uint8_t *block, uint32_t group) {
    switch (type) {
    case LK_FORMAT_Q2_K:
        return block[group] >> 4;
    case LK_FORMAT_Q4_K:
    case LK_FORMAT_Q5_K: {
        const uint32_t byte = block[8 + group % 4];
        return (int32_t)(group < 4 ? byte & 63u : (uint32_t)block[8 + group] >> 4 | byte >> 6 << 4);
    }
    default:
        return 1;
    }
}

#endif
