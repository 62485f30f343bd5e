/* attention_fold.h - how the chunks of attention come together (steps 4 to 6 of section 10): what
 * the scalar twins of attention and attention_join share. */
#ifndef LK_OPS_ATTENTION_FOLD_H
#define LK_OPS_ATTENTION_FOLD_H

#include "ops/math.h"
#include "ops/ops.h"

/* The sums of one query over one chunk, or over all chunks so far. */
typedef struct lk_attn_fold {
    float m; /* largest score */
    float l; /* sum of exp(s - m) */
    float o[LK_MAX_HEAD_DIM];
} lk_attn_fold;

/* all = all and the next chunk together. */
static inline void lk_attn_fold_chunk(lk_attn_fold *all, const lk_attn_fold *c, size_t head_dim) {
    const float m = c->m > all->m ? c->m : all->m;
    const float a = lk_expf(all->m - m);
    const float b = lk_expf(c->m - m);
    all->l = all->l * a + c->l * b;
    for (size_t k = 0; k < head_dim; k++) {
        all->o[k] = all->o[k] * a + c->o[k] * b;
    }
    all->m = m;
}

/* The output: the head's sink (NULL: none) joins the sum of probabilities, then o / l. */
static inline void lk_attn_fold_end(lk_attn_fold *all, const float *sink, size_t head_dim,
                                    float *out) {
    if (sink != NULL) {
        const float m = *sink > all->m ? *sink : all->m;
        const float a = lk_expf(all->m - m);
        const float b = lk_expf(*sink - m);
        all->l = all->l * a + b;
        for (size_t k = 0; k < head_dim; k++) {
            all->o[k] = all->o[k] * a;
        }
    }
    for (size_t k = 0; k < head_dim; k++) {
        out[k] = all->o[k] / all->l;
    }
}

#endif
