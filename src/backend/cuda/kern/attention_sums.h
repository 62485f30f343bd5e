/* attention_sums.h - what the kernels of attention share (section 10): the weights of a chunk of
 * keys and how chunks come together, by the threads of a block. */
#ifndef LK_BACKEND_CUDA_KERN_ATTENTION_SUMS_H
#define LK_BACKEND_CUDA_KERN_ATTENTION_SUMS_H

#include "backend/cuda/kern/device.h"
#include "backend/cuda/kern/launch.h"
#include "ops/ops.h"

enum { LK_ATTENTION_ELEMS = LK_MAX_HEAD_DIM / LK_CUDA_ATTENTION };

/* The sums of a query over one chunk, or over all so far: thread j has the elements j, j + 64, ..
 * of the output; m and l are in all threads. */
typedef struct lk_attention_sums {
    float m;
    float l;
    float o[LK_ATTENTION_ELEMS];
} lk_attention_sums;

/* Shared by the threads of a query: scores and exp(score - m) of a chunk. */
typedef struct lk_attention_chunk {
    float s[LK_CHUNK];
    float p[LK_CHUNK];
} lk_attention_chunk;

/* The larger one, b where they are equal; of values, so that nothing has to be in memory. */
LK_DEVICE float lk_larger(float a, float b) {
    return a > b ? a : b;
}

LK_DEVICE lk_attention_sums lk_attention_nothing(void) {
    lk_attention_sums sums;
    sums.m = 0.0f;
    sums.l = 0.0f;
    LK_UNROLL for (uint32_t i = 0; i < LK_ATTENTION_ELEMS; i++) {
        sums.o[i] = 0.0f;
    }
    return sums;
}

LK_DEVICE float lk_bend(float s, float soft_cap) {
    return soft_cap != 0.0f ? lk_tanhf(s / soft_cap) * soft_cap : s;
}

/* m and l of keys [begin, end) of a chunk whose scores are there, and their weights in chunk->p.
 * A barrier on the way; the scores stay until the next one. */
LK_DEVICE lk_attention_sums lk_attention_weights(lk_attention_chunk *chunk, uint32_t begin,
                                                 uint32_t end) {
    lk_attention_sums sums = lk_attention_nothing();
    float m = chunk->s[begin];
    for (uint32_t j = begin + 1; j < end; j++) {
        m = lk_larger(chunk->s[j], m);
    }
    const uint32_t j = lk_thread();
    if (j >= begin && j < end) {
        chunk->p[j] = lk_expf(chunk->s[j] - m);
    } else if (j < LK_CHUNK) {
        chunk->p[j] = 0.0f; /* changes no partial sum: none is ever -0 */
    }
    lk_barrier();
    float p[LK_SUM_LANES];
    LK_UNROLL for (uint32_t i = 0; i < LK_SUM_LANES; i++) {
        p[i] = 0.0f;
        LK_UNROLL for (uint32_t k = i; k < LK_CHUNK; k += LK_SUM_LANES) {
            p[i] = p[i] + chunk->p[k];
        }
    }
    sums.m = m;
    sums.l = lk_sum16_tree(p);
    return sums;
}

/* all = all and the next chunk together. */
LK_DEVICE void lk_attention_fold(lk_attention_sums *all, const lk_attention_sums *c,
                                 bool is_first) {
    if (is_first) {
        *all = *c;
        return;
    }
    const float m = lk_larger(c->m, all->m);
    const float a = lk_expf(all->m - m);
    const float b = lk_expf(c->m - m);
    all->l = all->l * a + c->l * b;
    LK_UNROLL for (uint32_t i = 0; i < LK_ATTENTION_ELEMS; i++) {
        all->o[i] = all->o[i] * a + c->o[i] * b;
    }
    all->m = m;
}

/* The output: the head's sink (NULL: none) joins, then o / l. */
LK_DEVICE void lk_attention_end(lk_attention_sums *all, const float *sink) {
    if (sink != NULL) {
        const float m = lk_larger(*sink, all->m);
        const float a = lk_expf(all->m - m);
        const float b = lk_expf(*sink - m);
        all->l = all->l * a + b;
        LK_UNROLL for (uint32_t i = 0; i < LK_ATTENTION_ELEMS; i++) {
            all->o[i] = all->o[i] * a;
        }
    }
    LK_UNROLL for (uint32_t i = 0; i < LK_ATTENTION_ELEMS; i++) {
        all->o[i] = all->o[i] / all->l;
    }
}

#endif
