/* random_blocks.h - blocks of any format filled with random weights, for models that are made to
 * be measured. Every bit pattern of a block's integers occurs; its scales are set so that the
 * values have mean 0 (nearly) and a given standard deviation.
 * Invariant: block i of a stream depends on seed, stream, format, deviation and i alone. */
#ifndef LK_QUANT_RANDOM_BLOCKS_H
#define LK_QUANT_RANDOM_BLOCKS_H

#include "quant/format.h"

typedef struct lk_random_blocks {
    const lk_format *format;
    uint64_t seed;
    uint32_t stream;
    int32_t i_layout; /* -1: single values */
    float deviation;
    float d; /* block scale at its mean */
} lk_random_blocks;

/* False when the format's block layout is not known here. deviation: 1e-4 .. 1e2. */
bool lk_random_blocks_init(lk_random_blocks *r, const lk_format *format, uint64_t seed,
                           uint32_t stream, float deviation);
/* Writes blocks first .. first + n_blocks - 1. Any number of threads may fill from one stream. */
void lk_random_blocks_fill(const lk_random_blocks *r, uint64_t first, size_t n_blocks,
                           uint8_t *out);

#endif
