/* attention.h - attention over chunks of 64 keys (section 10): each chunk of keys and values is
 * read once for all queries of the call. What a query gets depends on its own keys alone: values of
 * keys that it does not see are skipped, not multiplied by zero. */
#ifndef LK_BACKEND_CPU_KERN_ATTENTION_H
#define LK_BACKEND_CPU_KERN_ATTENTION_H

#include <stdalign.h>

#include "backend/cpu/kern/attention_scores.h"

enum { LK_ATTN_VECS = 4 }; /* vectors of a head that one pass over the values sums */

/* One query's sums over one chunk, or over all chunks so far. */
typedef struct lk_attn_sums {
    float m; /* largest score */
    float l; /* sum of exp(s - m) */
    alignas(64) float o[LK_MAX_HEAD_DIM];
} lk_attn_sums;

/* What a query multiplies the values of a chunk by; one row per group with q8_0 values. */
typedef float lk_attn_weights[LK_ATTN_MAX_GROUPS][LK_CHUNK];

/* The keys of a chunk that a query sees: begin .. end-1. */
typedef struct lk_attn_span {
    size_t begin;
    size_t end;
} lk_attn_span;

/* Scores s to exp(s - m), zeros around the keys of `span` up to multiples of 16; m and l of the
 * chunk. */
LK_INLINE void lk_attn_softmax(float *s, lk_attn_span span, float scale, float soft_cap,
                               lk_attn_sums *c, uint32_t *flag) {
    const size_t low = span.begin / 16 * 16;
    const size_t high = (span.end + 15) / 16 * 16;
    for (size_t j = low; j < span.begin; j++) {
        s[j] = s[span.begin];
    }
    for (size_t j = span.end; j < high; j++) {
        s[j] = s[span.begin];
    }
    lk_vi largest = lk_vi_zero();
    lk_vf m = lk_vf_zero();
    for (size_t j = low; j < high; j += LK_VEC_LANES) {
        lk_vf v = lk_vf_mul(lk_vf_load(s + j), lk_vf_set(scale));
        largest = lk_vi_max_u32(largest, lk_vi_magnitude(v));
        if (soft_cap != 0.0f) {
            const lk_vf cap = lk_vf_set(soft_cap);
            v = lk_vf_mul(lk_vf_tanh(lk_vf_div(v, cap)), cap);
        }
        lk_vf_store(s + j, v);
        m = j == low ? v : lk_vf_max(m, v);
    }
    if (lk_vi_largest_u32(largest) >= 0x7f800000u) {
        *flag = 1;
    }
    c->m = lk_vf_largest(m);
    lk_vf p[LK_S16_VECS];
#pragma GCC unroll 2
    for (int v = 0; v < LK_S16_VECS; v++) {
        p[v] = lk_vf_zero();
    }
    for (size_t j = low; j < high; j += 16) {
#pragma GCC unroll 2
        for (size_t v = 0; v < LK_S16_VECS; v++) {
            const size_t k = j + v * LK_VEC_LANES;
            lk_vf e = lk_vf_exp(lk_vf_sub(lk_vf_load(s + k), lk_vf_set(c->m)));
            if (k + LK_VEC_LANES > span.end) {
                e = lk_vf_keep(e, span.end > k ? span.end - k : 0);
            }
            if (k < span.begin) { /* less itself: zero */
                const size_t n = span.begin - k;
                e = lk_vf_sub(e, lk_vf_keep(e, n < LK_VEC_LANES ? n : LK_VEC_LANES));
            }
            lk_vf_store(s + k, e);
            p[v] = lk_vf_add(p[v], e);
        }
    }
    c->l = lk_s16_tree(p);
}

/* Probabilities to the weights of the values. `d`: the scales of q8_0 values. */
LK_INLINE void lk_attn_weigh(lk_kv_format format, const float *p, lk_attn_span span,
                             size_t n_groups, float d[LK_ATTN_MAX_GROUPS][LK_CHUNK],
                             lk_attn_weights w) {
    for (size_t j = span.begin / 16 * 16; j < span.end; j += LK_VEC_LANES) {
        const lk_vf v = lk_vf_load(p + j);
        if (format == LK_KV_FORMAT_F32) {
            lk_vf_store(&w[0][j], v);
        } else if (format == LK_KV_FORMAT_F16) {
            lk_vf_store(&w[0][j], lk_vf_round13(v));
        } else {
            for (size_t g = 0; g < n_groups; g++) {
                lk_vf_store(&w[g][j], lk_vf_round16(lk_vf_mul(v, lk_vf_load(&d[g][j]))));
            }
        }
    }
}

/* count values of position j from element k on. */
LK_INLINE lk_vf lk_attn_load_values(lk_kv_format format, const uint8_t *block, size_t head_dim,
                                    size_t j, size_t k, size_t count) {
    const size_t at = j * head_dim + k;
    switch (format) {
    case LK_KV_FORMAT_F32:
        return lk_vf_load_n((const float *)(const void *)(block + 4 * at), count);
    case LK_KV_FORMAT_F16:
        return lk_vf_load_f16_n(block + 2 * at, count);
    case LK_KV_FORMAT_Q8_0:
        break;
    }
    return lk_vf_load_i8(block + at, count);
}

/* o[i] += weights * values of positions [begin, end), for n_q queries and n_v vectors of the head
 * from element k on, the last of `count` lanes. Products are exact but for f32. */
LK_INLINE void lk_attn_add_values(lk_kv_format format, int n_q, int n_v, const uint8_t *block,
                                  size_t head_dim, size_t k, size_t count, size_t begin, size_t end,
                                  lk_attn_weights *const *w, lk_attn_sums *const *sums) {
    lk_vf acc[LK_ATTN_SIDE * LK_ATTN_VECS];
#pragma GCC unroll 16
    for (int i = 0; i < n_q * n_v; i++) {
        acc[i] = lk_vf_load(sums[i / n_v]->o + k + (size_t)(i % n_v) * LK_VEC_LANES);
    }
    for (size_t j = begin; j < end; j++) {
        lk_vf values[LK_ATTN_VECS];
#pragma GCC unroll 4
        for (int v = 0; v < n_v; v++) {
            values[v] = lk_attn_load_values(format, block, head_dim, j,
                                            k + (size_t)v * LK_VEC_LANES, count);
        }
#pragma GCC unroll 16
        for (int i = 0; i < n_q * n_v; i++) {
            const size_t at = k + (size_t)(i % n_v) * LK_VEC_LANES;
            const size_t g = format == LK_KV_FORMAT_Q8_0 ? at / LK_KV_GROUP : 0;
            const lk_vf p = lk_vf_set((*w[i / n_v])[g][j]);
            acc[i] = format == LK_KV_FORMAT_F32 ? lk_vf_add(acc[i], lk_vf_mul(p, values[i % n_v]))
                                                : lk_vf_fma(p, values[i % n_v], acc[i]);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < n_q * n_v; i++) {
        lk_vf_store(sums[i / n_v]->o + k + (size_t)(i % n_v) * LK_VEC_LANES, acc[i]);
    }
}

/* The same over the whole head. */
LK_INLINE void lk_attn_add_heads(lk_kv_format format, int n_q, const uint8_t *block,
                                 size_t head_dim, size_t begin, size_t end,
                                 lk_attn_weights *const *w, lk_attn_sums *const *sums) {
    size_t k = 0;
    for (; k + LK_ATTN_VECS * LK_VEC_LANES <= head_dim; k += LK_ATTN_VECS * LK_VEC_LANES) {
        lk_attn_add_values(format, n_q, LK_ATTN_VECS, block, head_dim, k, LK_VEC_LANES, begin, end,
                           w, sums);
    }
    for (; k < head_dim; k += LK_VEC_LANES) {
        lk_attn_add_values(format, n_q, 1, block, head_dim, k, lk_vec_count(k, head_dim), begin,
                           end, w, sums);
    }
}

/* n_q (constant) queries, each over its own keys: alone up to where all see, together as far as all
 * see, then alone. */
LK_INLINE void lk_attn_add_queries(lk_kv_format format, int n_q, const uint8_t *block,
                                   size_t head_dim, const lk_attn_span *spans, lk_attn_weights **w,
                                   lk_attn_sums **sums) {
    lk_attn_span all = spans[0];
    for (int i = 1; i < n_q; i++) {
        all.begin = spans[i].begin > all.begin ? spans[i].begin : all.begin;
        all.end = spans[i].end < all.end ? spans[i].end : all.end;
    }
    if (all.begin >= all.end) { /* none: each alone up to the end */
        all = (lk_attn_span){LK_CHUNK, LK_CHUNK};
    }
    for (int i = 0; i < n_q; i++) {
        if (spans[i].begin < all.begin) {
            const size_t end = spans[i].end < all.begin ? spans[i].end : all.begin;
            lk_attn_add_heads(format, 1, block, head_dim, spans[i].begin, end, w + i, sums + i);
        }
    }
    lk_attn_add_heads(format, n_q, block, head_dim, all.begin, all.end, w, sums);
    for (int i = 0; i < n_q; i++) {
        if (spans[i].end > all.end) {
            lk_attn_add_heads(format, 1, block, head_dim, all.end, spans[i].end, w + i, sums + i);
        }
    }
}

/* all = all and c together. */
LK_INLINE void lk_attn_combine(lk_attn_sums *all, const lk_attn_sums *c, size_t head_dim) {
    const float m = c->m > all->m ? c->m : all->m;
    const float a = lk_expf(all->m - m);
    const float b = lk_expf(c->m - m);
    all->l = all->l * a + c->l * b;
    for (size_t k = 0; k < head_dim; k += LK_VEC_LANES) {
        const lk_vf old = lk_vf_mul(lk_vf_load(all->o + k), lk_vf_set(a));
        lk_vf_store(all->o + k, lk_vf_add(old, lk_vf_mul(lk_vf_load(c->o + k), lk_vf_set(b))));
    }
    all->m = m;
}

/* The sink of a head takes its share. */
LK_INLINE void lk_attn_add_sink(lk_attn_sums *all, float sink, size_t head_dim) {
    const float m = sink > all->m ? sink : all->m;
    const lk_vf a = lk_vf_set(lk_expf(all->m - m));
    all->l = all->l * lk_expf(all->m - m) + lk_expf(sink - m);
    for (size_t k = 0; k < head_dim; k += LK_VEC_LANES) {
        lk_vf_store(all->o + k, lk_vf_mul(lk_vf_load(all->o + k), a));
    }
}

/* The state of a call. */
typedef struct lk_attn_work {
    lk_attn_queries queries;
    lk_attn_sums all[LK_ATTN_MAX_QUERIES];
    lk_attn_sums chunk[LK_ATTN_MAX_QUERIES];
    float s[LK_ATTN_MAX_QUERIES][LK_CHUNK];
    lk_attn_weights w[LK_ATTN_MAX_QUERIES];
} lk_attn_work;

/* Chunk i_chunk; n_max keys of it are seen by some query. */
LK_INLINE void lk_attn_chunk(lk_kv_format v_format, const lk_attn_args *args, size_t i_chunk,
                             size_t n_max, lk_attn_work *work) {
    const size_t at = i_chunk * LK_CHUNK;
    const uint8_t *values = args->v_blocks[i_chunk];
    const size_t head_dim = args->head_dim;
    lk_attn_scores(args, &work->queries, args->k_blocks[i_chunk], n_max, work->s);
    float d[LK_ATTN_MAX_GROUPS][LK_CHUNK];
    if (v_format == LK_KV_FORMAT_Q8_0) {
        const size_t n_up = (n_max + 15) / 16 * 16;
        lk_attn_scales(values, head_dim, n_up, d);
    }
    size_t n_active = 0;
    lk_attn_span spans[LK_ATTN_MAX_QUERIES];
    lk_attn_sums *sums[LK_ATTN_MAX_QUERIES];
    lk_attn_weights *w[LK_ATTN_MAX_QUERIES];
    size_t index[LK_ATTN_MAX_QUERIES];
    for (size_t i = 0; i < args->n_queries; i++) {
        const size_t first = args->first_key[i];
        if (args->n_keys[i] <= at || first >= at + LK_CHUNK) {
            continue;
        }
        const size_t left = args->n_keys[i] - at;
        const size_t a = n_active++;
        spans[a].begin = first > at ? first - at : 0;
        spans[a].end = left < LK_CHUNK ? left : LK_CHUNK;
        index[a] = i;
        sums[a] = first >= at ? &work->all[i] : &work->chunk[i];
        w[a] = &work->w[i];
        lk_attn_softmax(work->s[i], spans[a], args->scale, args->soft_cap, sums[a], args->flag[i]);
        lk_attn_weigh(v_format, work->s[i], spans[a], lk_attn_groups(head_dim), d, *w[a]);
        memset(sums[a]->o, 0, sizeof sums[a]->o);
    }
    size_t a = 0;
    for (; a + LK_ATTN_SIDE <= n_active; a += LK_ATTN_SIDE) {
        lk_attn_add_queries(v_format, LK_ATTN_SIDE, values, head_dim, spans + a, w + a, sums + a);
    }
    for (; a < n_active; a++) {
        lk_attn_add_queries(v_format, 1, values, head_dim, spans + a, w + a, sums + a);
    }
    for (a = 0; a < n_active; a++) {
        if (sums[a] == &work->chunk[index[a]]) {
            lk_attn_combine(&work->all[index[a]], sums[a], head_dim);
        }
    }
}

LK_INLINE void lk_attn_all_chunks(lk_kv_format v_format, const lk_attn_args *args) {
    lk_attn_work work;
    lk_attn_prepare(args, &work.queries);
    size_t n_keys = 0;
    size_t first = args->first_key[0];
    for (size_t i = 0; i < args->n_queries; i++) {
        n_keys = args->n_keys[i] > n_keys ? args->n_keys[i] : n_keys;
        first = args->first_key[i] < first ? args->first_key[i] : first;
    }
    for (size_t begin = first / LK_CHUNK * LK_CHUNK; begin < n_keys; begin += LK_CHUNK) {
        const size_t n_max = n_keys - begin < LK_CHUNK ? n_keys - begin : LK_CHUNK;
        lk_attn_chunk(v_format, args, begin / LK_CHUNK, n_max, &work);
    }
    for (size_t i = 0; i < args->n_queries; i++) {
        if (args->has_sinks) {
            lk_attn_add_sink(&work.all[i], args->sink[i], args->head_dim);
        }
        const lk_vf l = lk_vf_set(work.all[i].l);
        for (size_t k = 0; k < args->head_dim; k += LK_VEC_LANES) {
            const size_t count = lk_vec_count(k, args->head_dim);
            lk_vf_store_n(args->out[i] + k, lk_vf_div(lk_vf_load(work.all[i].o + k), l), count);
        }
    }
}

#endif
