/* random_blocks.c - see random_blocks.h. A block is filled with random bytes; then its scales are
 * overwritten. How large the values of a format are under scale 1 is measured, not derived. */
#include "quant/random_blocks.h"

#include <math.h>

#include "base/bytes.h"
#include "base/philox.h"

typedef enum scale_kind { SCALE_F16, SCALE_E8M0 } scale_kind;

/* Where a block keeps its scales, and the minimum's scale as a multiple of d that moves the mean
 * of random integers to 0. */
typedef struct layout {
    uint32_t type;
    scale_kind kind;
    uint32_t at_d;
    int32_t at_min; /* -1: none */
    float min_ratio;
} layout;

static const layout layouts[] = {
    {LK_FORMAT_Q4_0, SCALE_F16, 0, -1, 0.0f},   {LK_FORMAT_Q4_1, SCALE_F16, 0, 2, -7.5f},
    {LK_FORMAT_Q5_0, SCALE_F16, 0, -1, 0.0f},   {LK_FORMAT_Q5_1, SCALE_F16, 0, 2, -15.5f},
    {LK_FORMAT_Q8_0, SCALE_F16, 0, -1, 0.0f},   {LK_FORMAT_Q2_K, SCALE_F16, 80, 82, 1.5f},
    {LK_FORMAT_Q3_K, SCALE_F16, 108, -1, 0.0f}, {LK_FORMAT_Q4_K, SCALE_F16, 0, 2, 7.5f},
    {LK_FORMAT_Q5_K, SCALE_F16, 0, 2, 15.5f},   {LK_FORMAT_Q6_K, SCALE_F16, 208, -1, 0.0f},
    {LK_FORMAT_IQ4_NL, SCALE_F16, 0, -1, 0.0f}, {LK_FORMAT_IQ4_XS, SCALE_F16, 0, -1, 0.0f},
    {LK_FORMAT_MXFP4, SCALE_E8M0, 0, -1, 0.0f},
};

/* What the counter's last word is used for, so that nothing is drawn twice. */
enum { WORDS_SCALE = 0, WORDS_BYTES = 1 };
enum { SAMPLE_BLOCKS = 512 };

static void draw(const lk_random_blocks *r, uint64_t i_block, uint32_t i_word, uint32_t out[4]) {
    const uint32_t counter[4] = {(uint32_t)i_block, (uint32_t)(i_block >> 32), r->stream, i_word};
    lk_philox4x32(r->seed, counter, out);
}

static void put_scales(const layout *l, float d, uint8_t *block) {
    if (l->kind == SCALE_E8M0) {
        /* the nearest power of two below; decoding halves what the exponent says */
        block[l->at_d] = (uint8_t)((lk_f32_bits(d) >> 23) + 1u);
        return;
    }
    lk_store_u16(block + l->at_d, lk_f32_to_f16(d));
    if (l->at_min >= 0) {
        lk_store_u16(block + l->at_min, lk_f32_to_f16(d * l->min_ratio));
    }
}

/* Integer block i of the stream under scale d. */
static void fill_block(const lk_random_blocks *r, uint64_t i_block, float d, uint8_t *block) {
    const uint32_t n_bytes = r->format->block_bytes;
    for (uint32_t at = 0; at < n_bytes; at += 16) {
        uint32_t words[4];
        draw(r, i_block, WORDS_BYTES + at / 16, words);
        uint8_t bytes[16];
        for (int k = 0; k < 4; k++) {
            lk_store_u32(bytes + 4 * k, words[k]);
        }
        memcpy(block + at, bytes, n_bytes - at < 16 ? n_bytes - at : 16);
    }
    put_scales(&layouts[r->i_layout], d, block);
}

/* A scale between 3/4 and 5/4 of the mean. */
static float random_scale(const lk_random_blocks *r, uint64_t i_block) {
    uint32_t words[4];
    draw(r, i_block, WORDS_SCALE, words);
    return r->d * (0.75f + (float)(words[0] >> 8) * 0x1p-25f);
}

/* Root of the mean square of random blocks under scale 1. */
static float measure(const lk_random_blocks *r) {
    uint8_t block[LK_FORMAT_MAX_BLOCK_BYTES];
    float values[LK_FORMAT_MAX_BLOCK_ELEMS];
    double sum = 0.0;
    for (uint64_t i = 0; i < SAMPLE_BLOCKS; i++) {
        fill_block(r, i, 1.0f, block);
        r->format->decode(block, values, r->format->block_elems);
        for (uint32_t k = 0; k < r->format->block_elems; k++) {
            sum += (double)values[k] * (double)values[k];
        }
    }
    return (float)sqrt(sum / ((double)SAMPLE_BLOCKS * r->format->block_elems));
}

bool lk_random_blocks_init(lk_random_blocks *r, const lk_format *format, uint64_t seed,
                           uint32_t stream, float deviation) {
    *r = (lk_random_blocks){format, 0, 0, -1, deviation, 1.0f};
    if (format->block_elems > 1) {
        for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
            r->i_layout = layouts[i].type == format->type ? (int32_t)i : r->i_layout;
        }
        if (r->i_layout < 0) {
            return false;
        }
        r->d = deviation / measure(r);
    }
    r->seed = seed;
    r->stream = stream;
    return true;
}

/* Single values: uniform in plus or minus sqrt(3) deviations, four at a time. */
static void fill_values(const lk_random_blocks *r, uint64_t first, size_t n, uint8_t *out) {
    const float width = 0x1.bb67aep+0f * r->deviation * 0x1p-31f;
    uint32_t words[4] = {0, 0, 0, 0};
    for (size_t i = 0; i < n; i++) {
        const uint64_t at = first + i;
        if (i == 0 || at % 4 == 0) {
            draw(r, at / 4, WORDS_BYTES, words);
        }
        const float x = (float)(int32_t)words[at % 4] * width;
        if (r->format->type == LK_FORMAT_F32) {
            lk_store_u32(out + 4 * i, lk_f32_bits(x));
        } else {
            lk_store_u16(out + 2 * i,
                         r->format->type == LK_FORMAT_F16 ? lk_f32_to_f16(x) : lk_f32_to_bf16(x));
        }
    }
}

void lk_random_blocks_fill(const lk_random_blocks *r, uint64_t first, size_t n_blocks,
                           uint8_t *out) {
    if (r->i_layout < 0) {
        fill_values(r, first, n_blocks, out);
        return;
    }
    for (size_t i = 0; i < n_blocks; i++) {
        fill_block(r, first + i, random_scale(r, first + i), out + i * r->format->block_bytes);
    }
}
