/* tile_source.h - where a tile's sixteen weight rows come from: rows of the file, or a strip
 * (quant/strip.h). The unpacking code names fields by their place in a block of the file and is
 * written once for both. */
#ifndef LK_BACKEND_CPU_KERN_TILE_SOURCE_H
#define LK_BACKEND_CPU_KERN_TILE_SOURCE_H

#include "backend/cpu/kern/tile.h"
#include "quant/strip.h"

/* The matrix of one call; is_strips is constant where it is used. */
typedef struct lk_tile_matrix {
    const uint8_t *w;
    size_t row_bytes; /* rows only */
    size_t o_end;     /* rows only: rows from here on do not exist */
    size_t n;
    bool is_strips;
} lk_tile_matrix;

/* Consecutive blocks of sixteen rows. */
typedef struct lk_tile_source {
    const uint8_t *p;
    size_t stride;       /* rows: from one to the next */
    const uint8_t *rest; /* strips: the bytes that fill no word; p: the first word */
    bool is_strips;
} lk_tile_source;

/* Rows that are copied because fewer than sixteen exist. */
typedef struct lk_tile_copy {
    uint8_t row[LK_TILE_ROWS][LK_TILE_MAX_ROW_BYTES];
} lk_tile_copy;

/* n_blocks blocks from column k on of the rows from o on. */
LK_INLINE lk_tile_source lk_tile_source_at(lk_tile_kind kind, const lk_tile_matrix *m, size_t o,
                                           size_t k, size_t n_blocks, lk_tile_copy *copy) {
    const size_t i_block = k / kind.block_elems;
    if (m->is_strips) {
        const lk_strip_shape s = lk_strip_shape_of(kind.block_elems, kind.block_bytes, m->n);
        const uint8_t *strip = m->w + o / LK_STRIP_ROWS * s.bytes;
        return (lk_tile_source){strip + s.words_begin + i_block * s.block_bytes, 0,
                                strip + i_block * s.n_rest * LK_STRIP_ROWS, true};
    }
    const uint8_t *p = m->w + o * m->row_bytes + i_block * kind.block_bytes;
    if (o + LK_TILE_ROWS <= m->o_end) {
        return (lk_tile_source){p, m->row_bytes, NULL, false};
    }
    memset(copy, 0, sizeof *copy);
    for (size_t i = 0; i < m->o_end - o; i++) {
        memcpy(copy->row[i], p + i * m->row_bytes, n_blocks * kind.block_bytes);
    }
    return (lk_tile_source){copy->row[0], sizeof copy->row[0], NULL, false};
}

/* Where a strip keeps the words from byte `at` of block i on. */
LK_INLINE const uint8_t *lk_source_words(lk_tile_kind kind, lk_tile_source s, size_t i, size_t at) {
    const size_t n_rest = kind.block_bytes % 4;
    const size_t words_at = kind.block_elems == 32 ? n_rest : 0;
    return s.p + i * (kind.block_bytes - n_rest) * LK_STRIP_ROWS + (at - words_at) * LK_STRIP_ROWS;
}

/* Sixteen bytes from byte `at` of block i on, of half h of the rows, as lk_vi_columns. */
LK_INLINE void lk_source_columns(lk_tile_kind kind, lk_tile_source s, size_t i, size_t at, size_t h,
                                 lk_vi out[4]) {
    if (s.is_strips) {
        const uint8_t *p = lk_source_words(kind, s, i, at) + h * LK_VEC_BYTES;
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; j++) {
            out[j] = lk_vi_load(p + 64 * j);
        }
    } else {
        lk_vi_columns(s.p + h * LK_VEC_LANES * s.stride + i * kind.block_bytes + at, s.stride, out);
    }
}

/* Room for one field of n_blocks <= 8 blocks, rows beside each other. */
typedef struct lk_source_field {
    alignas(64) uint8_t at[8][LK_TILE_ROWS * 4];
} lk_source_field;

/* The 32-bit words, the 16-bit or the 8-bit scales at byte `at` of n_blocks blocks. Returns the
 * field of block 0, those of the next blocks lie *step bytes further. */
LK_INLINE const uint8_t *lk_source_words32(lk_tile_kind kind, lk_tile_source s, size_t at,
                                           size_t n_blocks, lk_source_field *room, size_t *step) {
    if (s.is_strips) {
        *step = (kind.block_bytes - kind.block_bytes % 4) * LK_STRIP_ROWS;
        return lk_source_words(kind, s, 0, at);
    }
    *step = sizeof room->at[0];
#pragma GCC unroll 4
    for (size_t r = 0; r < LK_TILE_ROWS; r++) {
#pragma GCC unroll 8
        for (size_t i = 0; i < n_blocks; i++) {
            memcpy(&room->at[i][4 * r], s.p + r * s.stride + i * kind.block_bytes + at, 4);
        }
    }
    return room->at[0];
}
LK_INLINE const uint8_t *lk_source_scales16(lk_tile_kind kind, lk_tile_source s, size_t at,
                                            size_t n_blocks, lk_source_field *room, size_t *step) {
    if (s.is_strips) {
        *step = 2 * LK_STRIP_ROWS;
        return s.rest;
    }
    *step = sizeof room->at[0];
#pragma GCC unroll 4
    for (size_t r = 0; r < LK_TILE_ROWS; r++) {
#pragma GCC unroll 8
        for (size_t i = 0; i < n_blocks; i++) {
            memcpy(&room->at[i][2 * r], s.p + r * s.stride + i * kind.block_bytes + at, 2);
        }
    }
    return room->at[0];
}
LK_INLINE const uint8_t *lk_source_scales8(lk_tile_kind kind, lk_tile_source s, size_t at,
                                           size_t n_blocks, lk_source_field *room, size_t *step) {
    if (s.is_strips) {
        *step = LK_STRIP_ROWS;
        return s.rest;
    }
    *step = sizeof room->at[0];
#pragma GCC unroll 4
    for (size_t r = 0; r < LK_TILE_ROWS; r++) {
#pragma GCC unroll 8
        for (size_t i = 0; i < n_blocks; i++) {
            room->at[i][r] = s.p[r * s.stride + i * kind.block_bytes + at];
        }
    }
    return room->at[0];
}

#endif
