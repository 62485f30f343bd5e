/* unpack_block32.h - 32-element blocks into tiles: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, MXFP4.
 * Layouts as in src/quant/<format>/. Reads exactly the bytes of the blocks. */
#ifndef LK_BACKEND_CPU_KERN_UNPACK_BLOCK32_H
#define LK_BACKEND_CPU_KERN_UNPACK_BLOCK32_H

#include "backend/cpu/kern/tile.h"
#include "quant/iq4_values.h"

/* MXFP4: twice the E2M1 values, plus the bias 12. */
static const uint8_t lk_mxfp4_bytes[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                           12, 11, 10, 9,  8,  6,  4,  0};

/* The table of IQ4 with the bias that the product wants. */
LK_INLINE lk_vi lk_iq4_table(int bias) {
    return lk_vi_xor(lk_vi_table(lk_iq4_values), lk_vi_set8(bias)); /* + 128 or + 0, mod 256 */
}

/* Sixteen bytes of nibbles per row, low halves first, into eight dwords of the tile at `w`. `table`
 * replaces each nibble where the format has one. `fifth`: word per row whose bit k is the fifth bit
 * of element k, where the format has one. */
LK_INLINE void lk_tile_nibbles(lk_tile_kind kind, const uint8_t *p, size_t stride,
                               const uint8_t *fifth, uint8_t *w) {
    const lk_vi mask = lk_vi_set8(15);
    const bool has_table = kind.type == LK_FORMAT_IQ4_NL || kind.type == LK_FORMAT_MXFP4;
    const bool has_fifth = kind.type == LK_FORMAT_Q5_0 || kind.type == LK_FORMAT_Q5_1;
    const lk_vi table =
        kind.type == LK_FORMAT_MXFP4 ? lk_vi_table(lk_mxfp4_bytes) : lk_iq4_table(kind.bias);
    lk_vi q[4];
    lk_vi_columns(p, stride, q);
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

/* Scale (and offset) of every block, and the words of fifth bits. */
LK_INLINE void lk_tile_block32_scales(lk_tile_kind kind, const uint8_t *p, size_t stride,
                                      size_t n_groups, lk_tile *tile) {
    if (kind.type == LK_FORMAT_MXFP4) {
        uint8_t e[8][LK_TILE_ROWS];
        lk_tile_gather8(p, stride, kind.block_bytes, n_groups, e);
        for (size_t i = 0; i < n_groups; i++) {
            for (size_t h = 0; h < LK_TILE_HALVES; h++) {
                lk_vf_store(&tile->d[i][h * LK_VEC_LANES],
                            lk_vf_half_e8m0(lk_vi_load_u8(&e[i][h * LK_VEC_LANES])));
            }
        }
    } else if (kind.has_min) {
        uint32_t dm[8][LK_TILE_ROWS];
        lk_tile_gather32(p, stride, kind.block_bytes, n_groups, dm);
        for (size_t i = 0; i < n_groups; i++) {
            for (size_t h = 0; h < LK_TILE_HALVES; h++) {
                const lk_vi v = lk_vi_load(&dm[i][h * LK_VEC_LANES]);
                lk_vf_store(&tile->d[i][h * LK_VEC_LANES], lk_vf_from_f16_lanes(v));
                lk_vf_store(&tile->d_min[i][h * LK_VEC_LANES],
                            lk_vf_neg(lk_vf_from_f16_lanes(lk_vi_shr32(v, 16))));
            }
        }
    } else {
        uint16_t d[8][LK_TILE_ROWS];
        lk_tile_gather16(p, stride, kind.block_bytes, n_groups, d);
        for (size_t i = 0; i < n_groups; i++) {
            for (size_t h = 0; h < LK_TILE_HALVES; h++) {
                lk_vf_store(&tile->d[i][h * LK_VEC_LANES], lk_vf_load_f16(&d[i][h * LK_VEC_LANES]));
            }
        }
    }
}

/* n_groups (1 .. 8) blocks of sixteen rows. */
LK_INLINE void lk_tile_unpack_block32(lk_tile_kind kind, const uint8_t *p, size_t stride,
                                      size_t n_groups, lk_tile *tile) {
    lk_tile_block32_scales(kind, p, stride, n_groups, tile);
    const bool has_fifth = kind.type == LK_FORMAT_Q5_0 || kind.type == LK_FORMAT_Q5_1;
    const size_t n_bytes = kind.type == LK_FORMAT_Q8_0 ? 32 : 16;
    const size_t at_qs = kind.block_bytes - n_bytes; /* weights come last */
    uint32_t fifth[8][LK_TILE_ROWS];
    if (has_fifth) {
        lk_tile_gather32(p + at_qs - 4, stride, kind.block_bytes, n_groups, fifth);
    }
    for (size_t i = 0; i < n_groups; i++) {
        for (size_t h = 0; h < LK_TILE_HALVES; h++) {
            const uint8_t *at = p + h * LK_VEC_LANES * stride + i * kind.block_bytes + at_qs;
            uint8_t *w = &tile->w[8 * i][h * LK_VEC_BYTES];
            if (kind.type == LK_FORMAT_Q8_0) {
                for (size_t half = 0; half < 2; half++) {
                    lk_vi q[4];
                    lk_vi_columns(at + 16 * half, stride, q);
                    for (size_t j = 0; j < 4; j++) {
                        lk_vi_store(w + 64 * (4 * half + j),
                                    lk_vi_xor(q[j], lk_vi_set8(kind.bias)));
                    }
                }
            } else {
                const uint8_t *words = (const uint8_t *)&fifth[i][h * LK_VEC_LANES];
                lk_tile_nibbles(kind, at, stride, words, w);
            }
        }
    }
}

#endif
