/* format.h - what a tensor format is: block layout, decoding, encoding and the exact integer block
 * dot that the numeric definition uses (docs/numerics.md, "Quantised matrix products").
 *
 * A format is one folder src/quant/<format>/ plus one line in formats.def. The scalar functions
 * here are the definition; kernels for instruction sets live in the backend and must agree bit for
 * bit. */
#ifndef LK_QUANT_FORMAT_H
#define LK_QUANT_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* GGUF numbers of the supported formats: LK_FORMAT_Q4_K and so on. */
enum {
#define LK_FORMAT(NAME, name, id, block_elems, block_bytes, act_group) LK_FORMAT_##NAME = id,
#define LK_FORMAT_KNOWN(NAME, id, block_elems, block_bytes)
#include "quant/formats.def"
#undef LK_FORMAT
#undef LK_FORMAT_KNOWN
    LK_FORMAT_MAX_BLOCK_ELEMS = 256,
    LK_FORMAT_MAX_BLOCK_BYTES = 292,
    LK_FORMAT_MAX_GROUPS = 16
};

/* The result of one block dot: with activation group scale d_a, the block adds
 *     acc = acc + (d * d_a) * (float)i            and, where the format has a minimum,
 *     acc = acc - (d_min * d_a) * (float)m
 * each operation rounded once, unfused. */
typedef struct lk_block_dot {
    float d;
    float d_min;
    int32_t i; /* sum of integer weight * q over the block */
    int32_t m; /* sum over subgroups of integer minimum * (sum of q); 0 without minimum */
} lk_block_dot;

/* One block taken apart into integers. Element k belongs to group k / group_elems; its value is
 *     (d * scale[group]) * q[k]   and, with a minimum,   - d_min * min[group]
 * where all products are exact in binary32 and the difference rounds once. Only the entries that
 * the format has are written: block_elems of q, block_elems / group_elems of scale and min (min
 * only with has_min; d_min is 0 without). */
typedef struct lk_unpacked {
    float d;
    float d_min;
    int8_t q[LK_FORMAT_MAX_BLOCK_ELEMS]; /* -128 occurs (Q8_0) */
    int8_t scale[LK_FORMAT_MAX_GROUPS];  /* -128 occurs (Q6_K) */
    uint8_t min[LK_FORMAT_MAX_GROUPS];   /* 0 .. 63 */
} lk_unpacked;

typedef struct lk_format {
    const char *name; /* "Q4_K" */
    uint32_t type;    /* GGUF number */
    uint32_t block_elems;
    uint32_t block_bytes;
    uint32_t group_elems; /* elements under one integer scale; 0 for f32, f16, bf16 */
    uint32_t act_group;   /* activations per scale beside it: 32 or 256; 0 for f32, f16, bf16 */
    bool has_min;
    /* n_elems (a multiple of block_elems) values from blocks at `in` (any alignment). Exact. */
    void (*decode)(const uint8_t *in, float *out, size_t n_elems);
    /* The inverse, rounding as the format's quantiser defines; NULL where we produce none. `in`
     * must be finite; blocks whose scale leaves the range of the format come out non-finite. */
    void (*encode)(const float *in, uint8_t *out, size_t n_elems);
    /* One block into integers. NULL for f32, f16, bf16. */
    void (*unpack)(const uint8_t *block, lk_unpacked *out);
    /* One block against block_elems int8 activations (-127 .. 127). NULL for f32, f16, bf16. */
    lk_block_dot (*block_dot)(const uint8_t *block, const int8_t *q);
} lk_format;

/* Bytes of n_elems elements, a multiple of block_elems. */
static inline size_t lk_format_bytes(const lk_format *format, size_t n_elems) {
    return n_elems / format->block_elems * format->block_bytes;
}

/* Supported formats only; NULL for any other number. */
const lk_format *lk_format_find(uint32_t type);

/* Supported and merely known formats: block geometry, for size checks. False when unknown. */
typedef struct lk_format_size {
    const char *name;
    uint32_t block_elems;
    uint32_t block_bytes;
    bool supported;
} lk_format_size;
bool lk_format_get_size(uint32_t type, lk_format_size *out);

/* All supported formats, for tests that walk the list. */
size_t lk_format_count(void);
const lk_format *lk_format_at(size_t i);

#endif
