/* attention_join_ref.c - the output of a query from its parts: the definition. */
#include <string.h>

#include "ops/attention_fold.h"

static void load_part(const float *part, size_t head_dim, lk_attn_fold *c) {
    c->m = part[0];
    c->l = part[1];
    memcpy(c->o, part + LK_ATTN_PART_HEAD, head_dim * sizeof(float));
}

void lk_attention_join_ref(const lk_attn_parts *parts) {
    lk_attn_fold all;
    load_part(parts->parts, parts->head_dim, &all);
    for (size_t c = 1; c < parts->n_parts; c++) {
        lk_attn_fold chunk;
        load_part(parts->parts + c * lk_attn_part_floats(parts->head_dim), parts->head_dim, &chunk);
        lk_attn_fold_chunk(&all, &chunk, parts->head_dim);
    }
    lk_attn_fold_end(&all, parts->has_sink ? &parts->sink : NULL, parts->head_dim, parts->out);
}
