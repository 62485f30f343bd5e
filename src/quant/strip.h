/* strip.h - strips: sixteen rows of a matrix interleaved by 32-bit words, so that a vector load
 * gets the same word of sixteen rows. Made from the file's rows when a model is loaded; no byte is
 * changed, only its place. Every format of blocks has this form.
 *
 * A strip of rows of n_blocks blocks: first the bytes of the blocks that fill no word (the 16-bit
 * or 8-bit scale of formats whose size is no multiple of four), [block][row], padded to 64 bytes;
 * then [block][word][row]. Rows that a matrix lacks for its last strip are zero. */
#ifndef LK_QUANT_STRIP_H
#define LK_QUANT_STRIP_H

#include "quant/format.h"

enum { LK_STRIP_ROWS = 16, LK_STRIP_ALIGN = 64 };

typedef struct lk_strip_shape {
    size_t n_blocks;
    size_t n_rest;      /* bytes of a block that fill no word */
    size_t rest_at;     /* where they stand in a block of the file */
    size_t words_at;    /* where the first word stands in a block of the file */
    size_t block_bytes; /* of the words of one block of all rows */
    size_t words_begin; /* where the words begin in a strip */
    size_t bytes;       /* of a strip, a multiple of LK_STRIP_ALIGN */
} lk_strip_shape;

/* Rows of n elements in blocks. */
static inline lk_strip_shape lk_strip_shape_of(size_t block_elems, size_t block_bytes, size_t n) {
    lk_strip_shape s;
    s.n_blocks = n / block_elems;
    s.n_rest = block_bytes % 4;
    /* the scale stands before the weights in blocks of 32, behind them in those of 256 */
    s.rest_at = block_elems == 32 ? 0 : block_bytes - s.n_rest;
    s.words_at = block_elems == 32 ? s.n_rest : 0;
    s.block_bytes = (block_bytes - s.n_rest) * LK_STRIP_ROWS;
    s.words_begin = (s.n_blocks * s.n_rest * LK_STRIP_ROWS + LK_STRIP_ALIGN - 1) / LK_STRIP_ALIGN *
                    LK_STRIP_ALIGN;
    s.bytes = s.words_begin + s.n_blocks * s.block_bytes;
    return s;
}

static inline size_t lk_strip_count(size_t n_rows) {
    return (n_rows + LK_STRIP_ROWS - 1) / LK_STRIP_ROWS;
}

/* Whether strips of the format exist. */
bool lk_strip_has(const lk_format *format);
/* One strip from n_rows (1 .. 16) rows of n elements that lie row_bytes apart. `out` has
 * lk_strip_shape.bytes bytes. */
void lk_strip_make(const lk_format *format, const uint8_t *rows, size_t row_bytes, size_t n_rows,
                   size_t n, uint8_t *out);
/* The inverse for one block: block i_block of row i_row as it stands in the file. */
void lk_strip_get_block(const lk_format *format, const lk_strip_shape *shape, const uint8_t *strip,
                        size_t i_row, size_t i_block, uint8_t *out);

#endif
