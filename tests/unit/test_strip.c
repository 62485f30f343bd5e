/* test_strip.c - strips: every byte of the rows is in its strip and comes back, padding is zero,
 * and the product from strips is that from rows. */
#include <string.h>

#include "lk_test.h"
#include "ops/ops.h"
#include "quant/strip.h"

enum { MAX_BLOCKS = 6, MAX_ROW = MAX_BLOCKS * LK_FORMAT_MAX_BLOCK_BYTES };

static uint64_t state = 7;

static void fill(uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        p[i] = (uint8_t)(lk_test_random(&state) >> 40);
    }
}

LK_TEST(there_and_back) {
    static uint8_t rows[LK_STRIP_ROWS][MAX_ROW];
    static uint8_t strip[LK_STRIP_ROWS * MAX_ROW + 64];
    for (size_t i = 0; i < lk_format_count(); i++) {
        const lk_format *format = lk_format_at(i);
        CHECK(lk_strip_has(format) == (format->block_dot != NULL));
        if (!lk_strip_has(format)) {
            continue;
        }
        for (size_t n_blocks = 1; n_blocks <= MAX_BLOCKS; n_blocks++) {
            const size_t n_rows = n_blocks % 2 == 0 ? LK_STRIP_ROWS : 3 + n_blocks;
            const lk_strip_shape shape = lk_strip_shape_of(format->block_elems, format->block_bytes,
                                                           n_blocks * format->block_elems);
            CHECK(shape.bytes % LK_STRIP_ALIGN == 0 && shape.n_blocks == n_blocks);
            CHECK(shape.bytes < LK_STRIP_ROWS * n_blocks * format->block_bytes + LK_STRIP_ALIGN);
            fill(rows[0], sizeof rows);
            memset(strip, 0xee, sizeof strip);
            lk_strip_make(format, rows[0], sizeof rows[0], n_rows, n_blocks * format->block_elems,
                          strip);
            CHECK(strip[shape.bytes] == 0xee);
            for (size_t r = 0; r < LK_STRIP_ROWS; r++) {
                for (size_t b = 0; b < n_blocks; b++) {
                    static const uint8_t zeros[LK_FORMAT_MAX_BLOCK_BYTES];
                    uint8_t block[LK_FORMAT_MAX_BLOCK_BYTES];
                    lk_strip_get_block(format, &shape, strip, r, b, block);
                    const uint8_t *want = r < n_rows ? rows[r] + b * format->block_bytes : zeros;
                    CHECK_MSG(memcmp(block, want, format->block_bytes) == 0,
                              "%s, row %zu, block %zu", format->name, r, b);
                }
            }
        }
    }
}

LK_TEST(product) {
    enum { N = 512, OUT = 21, ROWS = 3 };
    static uint8_t w[OUT][N / 32 * LK_FORMAT_MAX_BLOCK_BYTES];
    static uint8_t strips[2 * LK_STRIP_ROWS * N / 32 * LK_FORMAT_MAX_BLOCK_BYTES];
    static int8_t q[ROWS][N];
    static float d[ROWS][N / 32];
    static int16_t sums[ROWS][N / LK_SUBGROUP]; /* the twin does not read them */
    for (size_t i = 0; i < lk_format_count(); i++) {
        const lk_format *format = lk_format_at(i);
        if (!lk_strip_has(format)) {
            continue;
        }
        const size_t bytes = lk_strip_shape_of(format->block_elems, format->block_bytes, N).bytes;
        fill(w[0], sizeof w);
        for (size_t k = 0; k < (size_t)ROWS * N; k++) {
            q[k / N][k % N] = (int8_t)((int)(lk_test_random(&state) % 255) - 127);
        }
        for (size_t k = 0; k < (size_t)ROWS * N / 32; k++) {
            d[k / (N / 32)][k % (N / 32)] = (float)(k + 1);
        }
        lk_strip_make(format, w[0], sizeof w[0], LK_STRIP_ROWS, N, strips);
        lk_strip_make(format, w[LK_STRIP_ROWS], sizeof w[0], OUT - LK_STRIP_ROWS, N,
                      strips + bytes);
        const lk_act_rows x = {q[0], d[0], sums[0], N, N, format->act_group, ROWS};
        float y[ROWS][OUT + 1] = {{0}};
        float want[ROWS][OUT + 1] = {{0}};
        lk_matmul_quant_ref(format, w[0], sizeof w[0], 16, OUT, &x, want[0], OUT + 1);
        lk_matmul_strip_ref(format, strips, 16, OUT, &x, y[0], OUT + 1);
        CHECK_MSG(memcmp(y, want, sizeof y) == 0, "%s", format->name);
    }
}

LK_TEST_MAIN(LK_RUN(there_and_back), LK_RUN(product))
