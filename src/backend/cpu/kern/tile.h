/* tile.h - the unpacked form of sixteen weight rows over up to 256 columns, which every quantised
 * matrix product of this folder goes through: lanes are weight rows, so the order of the blocks, in
 * which the definition adds, costs nothing, and one tile serves any number of activation rows.
 *
 * w[k / 4][row][k % 4] (but for is_zipped) holds the integer weights as bytes: value + bias,
 * unsigned, or the signed value itself where lk_tile_kind says so. Rows are lanes in everything
 * else too. */
#ifndef LK_BACKEND_CPU_KERN_TILE_H
#define LK_BACKEND_CPU_KERN_TILE_H

#include <stdalign.h>
#include <stdbool.h>

#include "backend/cpu/kern/vec.h"
#include "quant/format.h"

enum {
    LK_TILE_ROWS = 16,
    LK_TILE_ELEMS = 256,
    LK_TILE_HALVES = LK_TILE_ROWS / LK_VEC_LANES, /* vectors per sixteen rows */
    LK_TILE_GROUP = 32,             /* elements of a block of the 32-element formats */
    LK_TILE_MAX_ROW_BYTES = 8 * 34, /* of one tile, over all formats: Q8_0 */
    LK_TILE_AHEAD = 8192            /* bytes between the weights at hand and those fetched */
};

typedef struct lk_tile {
    alignas(64) uint8_t w[LK_TILE_ELEMS / 4][LK_TILE_ROWS * 4];
    int32_t scale[16][LK_TILE_ROWS]; /* per group, as lk_vi_scale_lanes */
    int32_t pair[8][LK_TILE_ROWS];   /* of two groups, 16 bits each: 2 i and 2 i + 1, or zipped */
    int32_t min[8][LK_TILE_ROWS]; /* minima beside activation sums 2 i and 2 i + 1, 16 bits each */
    float d[8][LK_TILE_ROWS];     /* per 32-element block; [0] alone for 256-element blocks */
    float d_min[8][LK_TILE_ROWS];
    const uint8_t *ahead; /* weights that a later tile needs: fetched while this one is used */
} lk_tile;

/* What the product needs to know about a format, all of it constant where it is used. */
typedef struct lk_tile_kind {
    uint32_t type;
    uint32_t block_elems;
    uint32_t block_bytes;
    uint32_t group_elems; /* under one integer scale; 32-element blocks have none */
    int bias;             /* byte = value + bias */
    int max_byte;         /* largest byte; 255 where the product needs no bound */
    bool is_signed;       /* bytes are int8 without bias */
    bool has_min;
    bool has_pairs; /* group sums fit 16 bits: two groups are scaled by one instruction */
    /* Two groups are summed beside each other and scaled by one instruction. Of each 64 columns,
     * dwords j and j + 8 of a row are neighbours: in w[16 b + 2 j] and the next one, two lanes to a
     * row. So groups 2 b and 2 b + 1 go together where groups have 32 elements, groups i and i + 2
     * of each four where they have 16; `min` is beside the sums of whole groups. */
    bool is_zipped;
} lk_tile_kind;

/* block_elems is 0 for a format that has no tiles. */
LK_INLINE lk_tile_kind lk_tile_kind_of(uint32_t type) {
    const bool u8 = LK_VEC_DOT_U8 != 0;
    const int bias8 = u8 ? 128 : 0;
    const bool zip = LK_VEC_ZIP != 0;
    switch (type) {
    case LK_FORMAT_Q4_0:
        return (lk_tile_kind){type, 32, 18, 32, 8, 15, false, false, false, false};
    case LK_FORMAT_Q4_1:
        return (lk_tile_kind){type, 32, 20, 32, 0, 15, false, true, false, false};
    case LK_FORMAT_Q5_0:
        return (lk_tile_kind){type, 32, 22, 32, 16, 31, false, false, false, false};
    case LK_FORMAT_Q5_1:
        return (lk_tile_kind){type, 32, 24, 32, 0, 31, false, true, false, false};
    case LK_FORMAT_Q8_0:
        return (lk_tile_kind){type, 32, 34, 32, bias8, 255, !u8, false, false, false};
    case LK_FORMAT_IQ4_NL:
        return (lk_tile_kind){type, 32, 18, 32, bias8, 255, !u8, false, false, false};
    case LK_FORMAT_MXFP4:
        return (lk_tile_kind){type, 32, 17, 32, 12, 24, false, false, false, false};
    case LK_FORMAT_Q2_K:
        return (lk_tile_kind){type, 256, 84, 16, 0, 3, false, true, u8, zip};
    case LK_FORMAT_Q3_K:
        return (lk_tile_kind){type, 256, 110, 16, 4, 7, false, false, u8, zip};
    case LK_FORMAT_Q4_K:
        return (lk_tile_kind){type, 256, 144, 32, 0, 15, false, true, false, zip};
    case LK_FORMAT_Q5_K:
        return (lk_tile_kind){type, 256, 176, 32, 0, 31, false, true, false, zip};
    case LK_FORMAT_Q6_K:
        return (lk_tile_kind){type, 256, 210, 16, 32, 63, false, false, false, zip};
    case LK_FORMAT_IQ4_XS:
        return (lk_tile_kind){type, 256, 136, 32, bias8, 255, !u8, false, false, false};
    default:
        return (lk_tile_kind){0};
    }
}

/* Asks for the lines of `ahead` that fall to group i of the n_groups (constant) of the tile: a few
 * at a time, so that the multiplications go on while memory answers. */
LK_INLINE void lk_tile_fetch(lk_tile_kind kind, const lk_tile *tile, size_t i, size_t n_groups) {
    const size_t n_blocks = LK_TILE_ELEMS / kind.block_elems;
    const size_t n_lines =
        (kind.block_bytes * LK_TILE_ROWS * n_blocks / 64 + n_groups - 1) / n_groups;
#pragma GCC unroll 16
    for (size_t j = 0; j < n_lines; j++) {
        __builtin_prefetch(tile->ahead + 64 * (i * n_lines + j), 0, 2);
    }
}

#endif
