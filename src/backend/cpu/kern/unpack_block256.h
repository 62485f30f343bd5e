/* unpack_block256.h - 256-element blocks into tiles: Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_XS.
 * Layouts as in src/quant/<format>/. Each 16 bytes of a block are turned into dword columns of
 * sixteen rows; all else happens inside the lanes. Reads exactly the bytes of the blocks. */
#ifndef LK_BACKEND_CPU_KERN_UNPACK_BLOCK256_H
#define LK_BACKEND_CPU_KERN_UNPACK_BLOCK256_H

#include "backend/cpu/kern/tile_source.h"
#include "quant/iq4_values.h"

/* Where the vector of half h of the rows stands for dword k4. */
LK_INLINE uint8_t *lk_tile_w(lk_tile *tile, size_t k4, size_t h) {
    return &tile->w[k4][h * LK_VEC_BYTES];
}

/* Dwords k4 and k4 + 8 of 64 columns. */
LK_INLINE void lk_tile_put_two(lk_tile_kind kind, lk_vi a, lk_vi b, size_t k4, size_t h,
                               lk_tile *tile) {
    const size_t zipped = (k4 & ~(size_t)15) + 2 * (k4 & 7);
    const bool zip = kind.is_zipped;
    lk_vi_store(lk_tile_w(tile, zip ? zipped : k4, h), zip ? lk_vi_zip_low(a, b) : a);
    lk_vi_store(lk_tile_w(tile, zip ? zipped + 1 : k4 + 8, h), zip ? lk_vi_zip_high(a, b) : b);
}

/* Four scales (bytes of v, less offset) of groups 4 i .. 4 i + 3. */
LK_INLINE void lk_tile_put_scales(lk_tile_kind kind, lk_vi v, int offset, size_t i, size_t h,
                                  lk_tile *tile) {
    static const uint8_t crossed[16] = {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15};
    if (!kind.has_pairs && !kind.is_zipped) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            lk_vi_store(&tile->scale[4 * i + (size_t)j][h * LK_VEC_LANES],
                        lk_vi_scale_lanes(v, j, offset));
        }
    }
    if (kind.has_pairs || kind.is_zipped || (!LK_VEC_DOT_U8 && kind.bias != 0)) {
        const bool is_crossed = kind.is_zipped && kind.group_elems == 16;
        const lk_vi pairs = is_crossed ? lk_vi_shuffle8(v, lk_vi_table(crossed)) : v;
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            lk_vi_store(&tile->pair[2 * i + (size_t)j][h * LK_VEC_LANES],
                        lk_vi_scale_pairs(pairs, j, offset));
        }
    }
}

/* The 16-bit scales at byte `at`. */
LK_INLINE void lk_tile_put_d(lk_tile_kind kind, lk_tile_source s, size_t at, lk_tile *tile) {
    lk_source_field room;
    size_t step = 0;
    const uint8_t *d = lk_source_scales16(kind, s, at, 1, &room, &step);
    for (size_t h = 0; h < LK_TILE_HALVES; h++) {
        lk_vf_store(&tile->d[0][h * LK_VEC_LANES], lk_vf_load_f16(d + 2 * h * LK_VEC_LANES));
    }
}
/* d in the low and d_min in the high half of v's lanes. */
LK_INLINE void lk_tile_put_d_min(lk_vi v, size_t h, lk_tile *tile) {
    lk_vf_store(&tile->d[0][h * LK_VEC_LANES], lk_vf_from_f16_lanes(v));
    lk_vf_store(&tile->d_min[0][h * LK_VEC_LANES], lk_vf_from_f16_lanes(lk_vi_shr32(v, 16)));
}

/* Sixteen bytes of scales: low nibbles the scales, high ones the minima; 64 of 2-bit fields; d and
 * d_min. */
LK_INLINE void lk_tile_unpack_q2_k(lk_tile_kind kind, lk_tile_source s, lk_tile *tile) {
    lk_source_field room;
    size_t step = 0;
    const uint8_t *dm = lk_source_words32(kind, s, 80, 1, &room, &step);
    const lk_vi three = lk_vi_set8(3);
    const lk_vi nibble = lk_vi_set8(15);
    for (size_t h = 0; h < LK_TILE_HALVES; h++) {
        lk_vi v[4];
        lk_source_columns(kind, s, 0, 0, h, v);
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; i++) {
            lk_tile_put_scales(kind, lk_vi_and(v[i], nibble), 0, i, h, tile);
            const lk_vi min = lk_vi_and(lk_vi_shr16(v[i], 4), nibble);
            lk_vi_store(&tile->min[2 * i][h * LK_VEC_LANES], lk_vi_scale_pairs(min, 0, 0));
            lk_vi_store(&tile->min[2 * i + 1][h * LK_VEC_LANES], lk_vi_scale_pairs(min, 1, 0));
        }
        for (size_t i = 0; i < 4; i++) { /* half i / 2 of the elements, sixteen bytes each */
            lk_source_columns(kind, s, 0, 16 + 16 * i, h, v);
            const size_t k4 = 32 * (i / 2) + 4 * (i % 2);
#pragma GCC unroll 4
            for (size_t j = 0; j < 4; j++) {
                lk_tile_put_two(kind, lk_vi_and(v[j], three),
                                lk_vi_and(lk_vi_shr16(v[j], 2), three), k4 + j, h, tile);
                lk_tile_put_two(kind, lk_vi_and(lk_vi_shr16(v[j], 4), three),
                                lk_vi_and(lk_vi_shr16(v[j], 6), three), k4 + j + 16, h, tile);
            }
        }
        lk_tile_put_d_min(lk_vi_load(dm + h * LK_VEC_BYTES), h, tile);
    }
}

/* The sixteen 6-bit scales of Q3_K from its twelve bytes b[0 .. 2]. */
LK_INLINE void lk_tile_q3_k_scales(lk_tile_kind kind, const lk_vi b[3], size_t h, lk_tile *tile) {
    const lk_vi nibble = lk_vi_set8(15);
    const lk_vi upper = lk_vi_set8(0x30);
    lk_tile_put_scales(kind, lk_vi_and_or(lk_vi_shl16(b[2], 4), upper, lk_vi_and(b[0], nibble)), 32,
                       0, h, tile);
    lk_tile_put_scales(kind, lk_vi_and_or(lk_vi_shl16(b[2], 2), upper, lk_vi_and(b[1], nibble)), 32,
                       1, h, tile);
    lk_tile_put_scales(kind, lk_vi_and_or(b[2], upper, lk_vi_and(lk_vi_shr16(b[0], 4), nibble)), 32,
                       2, h, tile);
    lk_tile_put_scales(
        kind, lk_vi_and_or(lk_vi_shr16(b[2], 2), upper, lk_vi_and(lk_vi_shr16(b[1], 4), nibble)),
        32, 3, h, tile);
}

/* 32 bytes of third bits, 64 of 2-bit fields, 12 of scales, d. */
LK_INLINE void lk_tile_unpack_q3_k(lk_tile_kind kind, lk_tile_source s, lk_tile *tile) {
    const lk_vi three = lk_vi_set8(3);
    const lk_vi four = lk_vi_set8(4);
    lk_tile_put_d(kind, s, 108, tile);
    for (size_t h = 0; h < LK_TILE_HALVES; h++) {
        lk_vi v[4];
        lk_source_columns(kind, s, 0, 92, h,
                          v); /* the last four bytes of the fields, then the scales */
        lk_tile_q3_k_scales(kind, v + 1, h, tile);
        for (size_t i = 0; i < 2; i++) { /* bytes 16 i .. of each 32 */
            lk_vi high[4];
            lk_source_columns(kind, s, 0, 16 * i, h, high);
            lk_source_columns(kind, s, 0, 32 + 16 * i, h, v);
#pragma GCC unroll 4
            for (size_t j = 0; j < 4; j++) {
                const size_t k4 = 4 * i + j;
                lk_tile_put_two(kind,
                                lk_vi_and_or(lk_vi_shl16(high[j], 2), four, lk_vi_and(v[j], three)),
                                lk_vi_and_or(lk_vi_shl16(high[j], 1), four,
                                             lk_vi_and(lk_vi_shr16(v[j], 2), three)),
                                k4, h, tile);
                lk_tile_put_two(kind,
                                lk_vi_and_or(high[j], four, lk_vi_and(lk_vi_shr16(v[j], 4), three)),
                                lk_vi_and_or(lk_vi_shr16(high[j], 1), four,
                                             lk_vi_and(lk_vi_shr16(v[j], 6), three)),
                                k4 + 16, h, tile);
            }
            lk_source_columns(kind, s, 0, 64 + 16 * i, h, v);
#pragma GCC unroll 4
            for (size_t j = 0; j < 4; j++) {
                const size_t k4 = 32 + 4 * i + j;
                lk_tile_put_two(kind,
                                lk_vi_and_or(lk_vi_shr16(high[j], 2), four, lk_vi_and(v[j], three)),
                                lk_vi_and_or(lk_vi_shr16(high[j], 3), four,
                                             lk_vi_and(lk_vi_shr16(v[j], 2), three)),
                                k4, h, tile);
                lk_tile_put_two(kind,
                                lk_vi_and_or(lk_vi_shr16(high[j], 4), four,
                                             lk_vi_and(lk_vi_shr16(v[j], 4), three)),
                                lk_vi_and_or(lk_vi_shr16(high[j], 5), four,
                                             lk_vi_and(lk_vi_shr16(v[j], 6), three)),
                                k4 + 16, h, tile);
            }
        }
    }
}

/* d and d_min in v[0], the twelve bytes of eight 6-bit scales and minima in v[1 .. 3]. */
LK_INLINE void lk_tile_k_scales(lk_tile_kind kind, const lk_vi v[4], size_t h, lk_tile *tile) {
    const lk_vi six = lk_vi_set8(63);
    const lk_vi nibble = lk_vi_set8(15);
    const lk_vi upper = lk_vi_set8(0x30);
    lk_tile_put_d_min(v[0], h, tile);
    lk_tile_put_scales(kind, lk_vi_and(v[1], six), 0, 0, h, tile);
    lk_tile_put_scales(kind, lk_vi_and_or(lk_vi_shr16(v[1], 2), upper, lk_vi_and(v[3], nibble)), 0,
                       1, h, tile);
    const lk_vi min[2] = {
        lk_vi_and(v[2], six),
        lk_vi_and_or(lk_vi_shr16(v[2], 2), upper, lk_vi_and(lk_vi_shr16(v[3], 4), nibble)),
    };
    const int n_mins = kind.is_zipped ? 4 : 8; /* beside the sums of two groups, or of halves */
#pragma GCC unroll 8
    for (int i = 0; i < n_mins; i++) {
        lk_vi_store(&tile->min[i][h * LK_VEC_LANES], kind.is_zipped
                                                         ? lk_vi_scale_pairs(min[i / 2], i % 2, 0)
                                                         : lk_vi_min_twice(min[i / 4], i % 4));
    }
}

/* Scales as above; Q5_K: 32 bytes of fifth bits; 128 bytes of nibbles. */
LK_INLINE void lk_tile_unpack_q45_k(lk_tile_kind kind, lk_tile_source s, lk_tile *tile) {
    const bool has_fifth = kind.type == LK_FORMAT_Q5_K;
    const size_t at_qs = has_fifth ? 48 : 16;
    const lk_vi nibble = lk_vi_set8(15);
    const lk_vi sixteen = lk_vi_set8(16);
    for (size_t h = 0; h < LK_TILE_HALVES; h++) {
        lk_vi v[4];
        lk_source_columns(kind, s, 0, 0, h, v);
        lk_tile_k_scales(kind, v, h, tile);
#pragma GCC unroll 2
        for (size_t i = 0; i < 2; i++) { /* bytes 16 i .. of each 32 */
            lk_vi fifth[4];
            if (has_fifth) {
                lk_source_columns(kind, s, 0, 16 + 16 * i, h, fifth);
            }
#pragma GCC unroll 4
            for (int g = 0; g < 4; g++) { /* 64 elements */
                lk_source_columns(kind, s, 0, at_qs + 32 * (size_t)g + 16 * i, h, v);
                lk_vi low[4];
                lk_vi high[4];
#pragma GCC unroll 4
                for (size_t j = 0; j < 4; j++) {
                    low[j] = lk_vi_and(v[j], nibble);
                    high[j] = lk_vi_and(lk_vi_shr16(v[j], 4), nibble);
                    if (has_fifth) {
                        const int bit = 2 * g; /* to bit 4, that of the high nibbles one further */
                        low[j] = lk_vi_and_or(bit < 4 ? lk_vi_shl16(fifth[j], 4 - bit)
                                                      : lk_vi_shr16(fifth[j], bit - 4),
                                              sixteen, low[j]);
                        high[j] = lk_vi_and_or(bit < 4 ? lk_vi_shl16(fifth[j], 3 - bit)
                                                       : lk_vi_shr16(fifth[j], bit - 3),
                                               sixteen, high[j]);
                    }
                }
                const size_t k4 = 16 * (size_t)g + 4 * i;
#pragma GCC unroll 4
                for (size_t j = 0; j < 4; j++) {
                    lk_tile_put_two(kind, low[j], high[j], k4 + j, h, tile);
                }
            }
        }
    }
}

/* 128 bytes of low nibbles, 64 of upper 2-bit fields, 16 int8 scales, d. */
LK_INLINE void lk_tile_unpack_q6_k(lk_tile_kind kind, lk_tile_source s, lk_tile *tile) {
    const lk_vi nibble = lk_vi_set8(15);
    const lk_vi upper = lk_vi_set8(0x30);
    lk_tile_put_d(kind, s, 208, tile);
    for (size_t h = 0; h < LK_TILE_HALVES; h++) {
        lk_vi scale[4];
        lk_source_columns(kind, s, 0, 192, h, scale);
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; i++) {
            lk_tile_put_scales(kind, lk_vi_xor(scale[i], lk_vi_set8(0x80)), 128, i, h, tile);
        }
        for (size_t half = 0; half < 2; half++) {
            for (size_t i = 0; i < 2; i++) { /* bytes 16 i .. of each 32 */
                lk_vi a[4];
                lk_vi b[4];
                lk_vi high[4];
                lk_source_columns(kind, s, 0, 64 * half + 16 * i, h, a);
                lk_source_columns(kind, s, 0, 64 * half + 32 + 16 * i, h, b);
                lk_source_columns(kind, s, 0, 128 + 32 * half + 16 * i, h, high);
#pragma GCC unroll 4
                for (size_t j = 0; j < 4; j++) {
                    const size_t k4 = 32 * half + 4 * i + j;
                    lk_tile_put_two(
                        kind, lk_vi_and_or(lk_vi_shl16(high[j], 4), upper, lk_vi_and(a[j], nibble)),
                        lk_vi_and_or(lk_vi_shl16(high[j], 2), upper, lk_vi_and(b[j], nibble)), k4,
                        h, tile);
                    lk_tile_put_two(
                        kind, lk_vi_and_or(high[j], upper, lk_vi_and(lk_vi_shr16(a[j], 4), nibble)),
                        lk_vi_and_or(lk_vi_shr16(high[j], 2), upper,
                                     lk_vi_and(lk_vi_shr16(b[j], 4), nibble)),
                        k4 + 16, h, tile);
                }
            }
        }
    }
}

/* d, 16 bits of upper scale bits, 4 bytes of low ones, 128 bytes of nibbles. */
LK_INLINE void lk_tile_unpack_iq4_xs(lk_tile_kind kind, lk_tile_source s, lk_tile *tile) {
    const lk_vi nibble = lk_vi_set8(15);
    const lk_vi table = lk_vi_xor(lk_vi_table(lk_iq4_values), lk_vi_set8(kind.bias));
    for (size_t h = 0; h < LK_TILE_HALVES; h++) {
        lk_vi v[4];
        lk_source_columns(kind, s, 0, 0, h, v);
        lk_vf_store(&tile->d[0][h * LK_VEC_LANES], lk_vf_from_f16_lanes(v[0]));
#pragma GCC unroll 8
        for (int g = 0; g < 8; g++) {
            const lk_vi low = lk_vi_and(lk_vi_shr32(v[1], 4 * g), lk_vi_set32(15));
            const lk_vi high = lk_vi_and(lk_vi_shr32(v[0], 16 + 2 * g), lk_vi_set32(3));
            const lk_vi six = lk_vi_or(low, lk_vi_shl32(high, 4));
            lk_vi_store(&tile->scale[g][h * LK_VEC_LANES],
                        lk_vi_scale_from_i32(lk_vi_sub32(six, lk_vi_set32(32))));
        }
        for (size_t g = 0; g < 8; g++) {
            lk_source_columns(kind, s, 0, 8 + 16 * g, h, v);
#pragma GCC unroll 4
            for (size_t j = 0; j < 4; j++) {
                lk_vi_store(lk_tile_w(tile, 8 * g + j, h),
                            lk_vi_shuffle8(table, lk_vi_and(v[j], nibble)));
                lk_vi_store(lk_tile_w(tile, 8 * g + 4 + j, h),
                            lk_vi_shuffle8(table, lk_vi_and(lk_vi_shr16(v[j], 4), nibble)));
            }
        }
    }
}

/* One block of sixteen rows. */
LK_INLINE void lk_tile_unpack_block256(lk_tile_kind kind, lk_tile_source s, lk_tile *tile) {
    switch (kind.type) {
    case LK_FORMAT_Q2_K:
        lk_tile_unpack_q2_k(kind, s, tile);
        break;
    case LK_FORMAT_Q3_K:
        lk_tile_unpack_q3_k(kind, s, tile);
        break;
    case LK_FORMAT_Q6_K:
        lk_tile_unpack_q6_k(kind, s, tile);
        break;
    case LK_FORMAT_IQ4_XS:
        lk_tile_unpack_iq4_xs(kind, s, tile);
        break;
    default:
        lk_tile_unpack_q45_k(kind, s, tile);
        break;
    }
}

#endif
