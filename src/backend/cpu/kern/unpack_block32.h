/* unpack_block32.h - 32-element blocks into tiles: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, MXFP4.
 * Layouts as in src/quant/<format>/. Reads exactly the bytes of the blocks. */
#ifndef LK_BACKEND_CPU_KERN_UNPACK_BLOCK32_H
#define LK_BACKEND_CPU_KERN_UNPACK_BLOCK32_H

#include "backend/cpu/kern/tile_source.h"
#include "quant/iq4_values.h"

/* MXFP4: twice the E2M1 values, plus the bias 12. */
static const uint8_t lk_mxfp4_bytes[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                           12, 11, 10, 9,  8,  6,  4,  0};

/* The table of IQ4 with the bias that the product wants. */
LK_INLINE lk_vi lk_iq4_table(int bias) {
    return lk_vi_xor(lk_vi_table(lk_iq4_values), lk_vi_set8(bias)); /* + 128 or + 0, mod 256 */
}

/* Four dwords of nibbles per row, low halves first, into eight dwords of the tile at `w`. `table`
 * replaces each nibble where the format has one. `fifth`: word per row whose bit k is the fifth bit
 * of element k, where the format has one. */
LK_INLINE void lk_tile_nibbles(lk_tile_kind kind, const lk_vi q[4], const uint8_t *fifth,
                               uint8_t *w) {
    const lk_vi mask = lk_vi_set8(15);
    const bool has_table = kind.type == LK_FORMAT_IQ4_NL || kind.type == LK_FORMAT_MXFP4;
    const bool has_fifth = kind.type == LK_FORMAT_Q5_0 || kind.type == LK_FORMAT_Q5_1;
    const lk_vi table =
        kind.type == LK_FORMAT_MXFP4 ? lk_vi_table(lk_mxfp4_bytes) : lk_iq4_table(kind.bias);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        lk_vi low = lk_vi_and(q[j], mask);
        lk_vi high = lk_vi_and(lk_vi_shr16(q[j], 4), mask);
        if (has_table) {
            low = lk_vi_shuffle8(table, low);
            high = lk_vi_shuffle8(table, high);
        }
        if (has_fifth) {
            /* dword j holds elements 4 j .. 4 j + 3: bits 4 j .. of the word */
            const lk_vi word = lk_vi_load(fifth);
            const lk_vi add = lk_vi_set8(16);
            const lk_vi bits = lk_vi_set32(j % 2 == 0 ? 0x08040201 : (int32_t)0x80402010u);
            low = lk_vi_or_where(low, lk_vi_spread(word, j / 2), bits, add);
            high = lk_vi_or_where(high, lk_vi_spread(word, 2 + j / 2), bits, add);
        }
        lk_vi_store(w + 64 * j, low);
        lk_vi_store(w + 64 * (4 + j), high);
    }
}

/* Scale (and offset) of every block. */
LK_INLINE void lk_tile_block32_scales(lk_tile_kind kind, lk_tile_source s, size_t n_groups,
                                      lk_tile *tile) {
    lk_source_field room;
    size_t step = 0;
    if (kind.type == LK_FORMAT_MXFP4) {
        const uint8_t *e = lk_source_scales8(kind, s, 0, n_groups, &room, &step);
        for (size_t i = 0; i < n_groups; i++) {
            for (size_t h = 0; h < LK_TILE_HALVES; h++) {
                const lk_vi v = lk_vi_load_u8(e + i * step + h * LK_VEC_LANES);
                lk_vf_store(&tile->d[i][h * LK_VEC_LANES], lk_vf_half_e8m0(v));
            }
        }
    } else if (kind.has_min) {
        const uint8_t *dm = lk_source_words32(kind, s, 0, n_groups, &room, &step);
        for (size_t i = 0; i < n_groups; i++) {
            for (size_t h = 0; h < LK_TILE_HALVES; h++) {
                const lk_vi v = lk_vi_load(dm + i * step + h * LK_VEC_BYTES);
                lk_vf_store(&tile->d[i][h * LK_VEC_LANES], lk_vf_from_f16_lanes(v));
                lk_vf_store(&tile->d_min[i][h * LK_VEC_LANES],
                            lk_vf_neg(lk_vf_from_f16_lanes(lk_vi_shr32(v, 16))));
            }
        }
    } else {
        const uint8_t *d = lk_source_scales16(kind, s, 0, n_groups, &room, &step);
        for (size_t i = 0; i < n_groups; i++) {
            for (size_t h = 0; h < LK_TILE_HALVES; h++) {
                lk_vf_store(&tile->d[i][h * LK_VEC_LANES],
                            lk_vf_load_f16(d + i * step + 2 * h * LK_VEC_LANES));
            }
        }
    }
}

/* n_groups (1 .. 8) blocks of sixteen rows. */
LK_INLINE void lk_tile_unpack_block32(lk_tile_kind kind, lk_tile_source s, size_t n_groups,
                                      lk_tile *tile) {
    lk_tile_block32_scales(kind, s, n_groups, tile);
    const bool has_fifth = kind.type == LK_FORMAT_Q5_0 || kind.type == LK_FORMAT_Q5_1;
    const size_t n_bytes = kind.type == LK_FORMAT_Q8_0 ? 32 : 16;
    const size_t at_qs = kind.block_bytes - n_bytes; /* weights come last */
    lk_source_field room;
    size_t step = 0;
    const uint8_t *fifth = NULL;
    if (has_fifth) {
        fifth = lk_source_words32(kind, s, at_qs - 4, n_groups, &room, &step);
    }
    for (size_t i = 0; i < n_groups; i++) {
        for (size_t h = 0; h < LK_TILE_HALVES; h++) {
            uint8_t *w = &tile->w[8 * i][h * LK_VEC_BYTES];
            lk_vi q[4];
            if (kind.type == LK_FORMAT_Q8_0) {
                for (size_t half = 0; half < 2; half++) {
                    lk_source_columns(kind, s, i, at_qs + 16 * half, h, q);
                    for (size_t j = 0; j < 4; j++) {
                        lk_vi_store(w + 64 * (4 * half + j),
                                    lk_vi_xor(q[j], lk_vi_set8(kind.bias)));
                    }
                }
            } else {
                lk_source_columns(kind, s, i, at_qs, h, q);
                lk_tile_nibbles(kind, q, has_fifth ? fifth + i * step + h * LK_VEC_BYTES : NULL, w);
            }
        }
    }
}

#endif
