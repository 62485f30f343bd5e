/* strip.c - rows to strips and back. It computes nothing: every byte of the rows is in the strip
 * once. */
#include "quant/strip.h"

#include <string.h>

bool lk_strip_has(const lk_format *format) {
    return format->block_dot != NULL;
}

static void put_block(const lk_strip_shape *s, const uint8_t *block, uint8_t *rest,
                      uint8_t *words) {
    memcpy(rest, block + s->rest_at, s->n_rest);
    const uint8_t *from = block + s->words_at;
    for (size_t i = 0; i < s->block_bytes; i += 4 * LK_STRIP_ROWS) {
        memcpy(words + i, from + i / LK_STRIP_ROWS, 4);
    }
}

void lk_strip_make(const lk_format *format, const uint8_t *rows, size_t row_bytes, size_t n_rows,
                   size_t n, uint8_t *out) {
    const lk_strip_shape s = lk_strip_shape_of(format->block_elems, format->block_bytes, n);
    if (n_rows < LK_STRIP_ROWS) {
        memset(out, 0, s.bytes);
    } else {
        const size_t used = s.n_blocks * s.n_rest * LK_STRIP_ROWS;
        memset(out + used, 0, s.words_begin - used);
    }
    for (size_t b = 0; b < s.n_blocks; b++) {
        uint8_t *rest = out + b * s.n_rest * LK_STRIP_ROWS;
        uint8_t *words = out + s.words_begin + b * s.block_bytes;
        for (size_t r = 0; r < n_rows; r++) {
            put_block(&s, rows + r * row_bytes + b * format->block_bytes, rest + r * s.n_rest,
                      words + 4 * r);
        }
    }
}

void lk_strip_get_block(const lk_format *format, const lk_strip_shape *shape, const uint8_t *strip,
                        size_t i_row, size_t i_block, uint8_t *out) {
    const size_t n_words = (format->block_bytes - shape->n_rest) / 4;
    const uint8_t *words = strip + shape->words_begin + i_block * shape->block_bytes + 4 * i_row;
    memcpy(out + shape->rest_at, strip + (i_block * LK_STRIP_ROWS + i_row) * shape->n_rest,
           shape->n_rest);
    for (size_t i = 0; i < n_words; i++) {
        memcpy(out + shape->words_at + 4 * i, words + 4 * LK_STRIP_ROWS * i, 4);
    }
}
