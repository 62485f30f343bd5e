/* attention_values.h - the sums over the values of one chunk: one accumulator per element and
 * query, keys in order. Several queries share what is read and unpacked; from LK_ATTN_WIDE_FROM
 * queries on f16 and q8_0 values are first unpacked to binary32, a slab of the head at a time. */
#ifndef LK_BACKEND_CPU_KERN_ATTENTION_VALUES_H
#define LK_BACKEND_CPU_KERN_ATTENTION_VALUES_H

#include "backend/cpu/kern/attention_scores.h"

enum {
    LK_ATTN_SLAB_VECS = 4, /* vectors of a head that stay in registers for LK_ATTN_SIDE queries */
    LK_ATTN_ACCS = LK_ATTN_SIDE * LK_ATTN_SLAB_VECS,
    LK_ATTN_MAX_VECS = 8, /* for one or two queries */
    LK_ATTN_SLAB = LK_ATTN_SLAB_VECS * LK_VEC_LANES
};

/* The keys of a chunk that a query sees: begin .. end-1. */
typedef struct lk_attn_span {
    size_t begin;
    size_t end;
} lk_attn_span;

/* What a query multiplies the values of a chunk by; one row per group with q8_0 values. */
typedef float lk_attn_weights[LK_ATTN_MAX_GROUPS][LK_CHUNK];

/* A query that sees keys of the chunk, and where its sums go: o = sums where is_first, else
 * o = o * a + sums * b. */
typedef struct lk_attn_active {
    lk_attn_span span;
    const float (*w)[LK_CHUNK];
    float *o;
    float a;
    float b;
    bool is_first;
    float *sums; /* room for the sums, where the queries of a group see different keys */
} lk_attn_active;

/* Values as they lie in memory; WIDE: unpacked. */
typedef enum lk_attn_source {
    LK_ATTN_F32,
    LK_ATTN_F16,
    LK_ATTN_Q8_0,
    LK_ATTN_WIDE_F16,
    LK_ATTN_WIDE_Q8_0
} lk_attn_source;

/* The slab of the head that is summed: from element k of position 0 on. */
typedef struct lk_attn_slab {
    const uint8_t *at; /* element k of position 0 */
    size_t stride;     /* bytes from position to position */
    size_t k;
    size_t count;         /* elements of the last vector */
    lk_attn_ahead *ahead; /* fetched on the way; NULL: nothing is */
} lk_attn_slab;

LK_INLINE lk_vf lk_attn_load_values(lk_attn_source source, const uint8_t *p, int v, size_t count) {
    const size_t at = (size_t)v * LK_VEC_LANES;
    switch (source) {
    case LK_ATTN_F16:
        return lk_vf_load_f16_n(p + 2 * at, count);
    case LK_ATTN_Q8_0:
        return lk_vf_load_i8(p + at, count);
    case LK_ATTN_F32:
        break;
    case LK_ATTN_WIDE_F16:
    case LK_ATTN_WIDE_Q8_0:
        return lk_vf_load((const float *)(const void *)p + at);
    }
    return lk_vf_load_n((const float *)(const void *)p + at, count);
}

/* acc[i * n_v + v] += weights * values of positions [begin, end). Products are exact but for f32.
 */
LK_INLINE void lk_attn_add_values(lk_attn_source source, int n_q, int n_v, lk_attn_slab slab,
                                  lk_attn_span span, const lk_attn_active *queries, lk_vf *acc) {
    const bool in_groups = source == LK_ATTN_Q8_0 || source == LK_ATTN_WIDE_Q8_0;
    const float *w[LK_ATTN_SIDE];
#pragma GCC unroll 4
    for (int i = 0; i < n_q; i++) {
        w[i] = queries[i].w[in_groups ? slab.k / LK_KV_GROUP : 0];
    }
    for (size_t j = span.begin; j < span.end; j++) {
        const uint8_t *p = slab.at + j * slab.stride;
        if (source == LK_ATTN_F16 || source == LK_ATTN_Q8_0) {
            if (n_q <= 2 && n_v >= LK_ATTN_SLAB_VECS && slab.ahead != NULL) {
                lk_attn_fetch(slab.ahead, source == LK_ATTN_F16 ? n_v / 2 : n_v / 4);
            }
        }
        lk_vf values[LK_ATTN_MAX_VECS];
#pragma GCC unroll 8
        for (int v = 0; v < n_v; v++) {
            values[v] = lk_attn_load_values(source, p, v, n_v == 1 ? slab.count : LK_VEC_LANES);
        }
#pragma GCC unroll 16
        for (int i = 0; i < n_q * n_v; i++) {
            const size_t g = in_groups ? (size_t)(i % n_v) * LK_VEC_LANES / LK_KV_GROUP : 0;
            const lk_vf p_j = lk_vf_set(w[i / n_v][g * LK_CHUNK + j]);
            acc[i] = source == LK_ATTN_F32 ? lk_vf_add(acc[i], lk_vf_mul(p_j, values[i % n_v]))
                                           : lk_vf_fma(p_j, values[i % n_v], acc[i]);
        }
    }
}

/* All keys of queries that see the same ones, and the combination with earlier chunks. */
LK_INLINE void lk_attn_sum_slab(lk_attn_source source, int n_q, int n_v, lk_attn_slab slab,
                                const lk_attn_active *queries) {
    lk_vf acc[LK_ATTN_ACCS];
#pragma GCC unroll 16
    for (int i = 0; i < n_q * n_v; i++) {
        acc[i] = lk_vf_zero();
    }
    lk_attn_add_values(source, n_q, n_v, slab, queries[0].span, queries, acc);
#pragma GCC unroll 4
    for (int i = 0; i < n_q; i++) {
        float *o = queries[i].o + slab.k;
        const lk_vf a = lk_vf_set(queries[i].a);
        const lk_vf b = lk_vf_set(queries[i].b);
        if (queries[i].is_first) {
#pragma GCC unroll 8
            for (int v = 0; v < n_v; v++) {
                lk_vf_store(o + v * LK_VEC_LANES, acc[i * n_v + v]);
            }
        } else {
#pragma GCC unroll 8
            for (int v = 0; v < n_v; v++) {
                const lk_vf old = lk_vf_mul(lk_vf_load(o + v * LK_VEC_LANES), a);
                lk_vf_store(o + v * LK_VEC_LANES, lk_vf_add(old, lk_vf_mul(acc[i * n_v + v], b)));
            }
        }
    }
}

/* Keys [begin, end) of `span`, added to `sums`. */
LK_INLINE void lk_attn_sum_part(lk_attn_source source, int n_q, int n_v, lk_attn_slab slab,
                                lk_attn_span span, const lk_attn_active *queries) {
    if (span.begin >= span.end) {
        return;
    }
    lk_vf acc[LK_ATTN_ACCS];
#pragma GCC unroll 16
    for (int i = 0; i < n_q * n_v; i++) {
        acc[i] = lk_vf_load(queries[i / n_v].sums + slab.k + (size_t)(i % n_v) * LK_VEC_LANES);
    }
    lk_attn_add_values(source, n_q, n_v, slab, span, queries, acc);
#pragma GCC unroll 16
    for (int i = 0; i < n_q * n_v; i++) {
        lk_vf_store(queries[i / n_v].sums + slab.k + (size_t)(i % n_v) * LK_VEC_LANES, acc[i]);
    }
}

/* Queries that see different keys: each alone up to where all see, together as far as all see, then
 * alone. */
LK_INLINE void lk_attn_sum_uneven(lk_attn_source source, int n_q, int n_v, lk_attn_slab slab,
                                  const lk_attn_active *queries) {
    lk_attn_span all = queries[0].span;
    for (int i = 0; i < n_q; i++) {
        const lk_attn_span span = queries[i].span;
        all.begin = span.begin > all.begin ? span.begin : all.begin;
        all.end = span.end < all.end ? span.end : all.end;
        memset(queries[i].sums + slab.k, 0, (size_t)n_v * LK_VEC_BYTES);
    }
    if (all.begin >= all.end) { /* none: each alone up to the end */
        all = (lk_attn_span){LK_CHUNK, LK_CHUNK};
    }
    for (int i = 0; i < n_q; i++) {
        lk_attn_span span = queries[i].span;
        span.end = span.end < all.begin ? span.end : all.begin;
        lk_attn_sum_part(source, 1, n_v, slab, span, queries + i);
    }
    lk_attn_sum_part(source, n_q, n_v, slab, all, queries);
    for (int i = 0; i < n_q; i++) {
        lk_attn_span span = queries[i].span;
        span.begin = span.begin > all.end ? span.begin : all.end;
        lk_attn_sum_part(source, 1, n_v, slab, span, queries + i);
    }
    for (int i = 0; i < n_q; i++) {
        float *o = queries[i].o + slab.k;
        for (size_t k = 0; k < (size_t)n_v * LK_VEC_LANES; k += LK_VEC_LANES) {
            lk_vf sum = lk_vf_load(queries[i].sums + slab.k + k);
            if (!queries[i].is_first) {
                const lk_vf old = lk_vf_mul(lk_vf_load(o + k), lk_vf_set(queries[i].a));
                sum = lk_vf_add(old, lk_vf_mul(sum, lk_vf_set(queries[i].b)));
            }
            lk_vf_store(o + k, sum);
        }
    }
}

/* n_q (constant) queries over one slab. */
LK_INLINE void lk_attn_sum_queries(lk_attn_source source, int n_q, int n_v, lk_attn_slab slab,
                                   const lk_attn_active *queries) {
    bool is_even = true;
    for (int i = 1; i < n_q; i++) {
        is_even = is_even && queries[i].span.begin == queries[0].span.begin &&
                  queries[i].span.end == queries[0].span.end;
    }
    if (is_even) {
        lk_attn_sum_slab(source, n_q, n_v, slab, queries);
    } else {
        lk_attn_sum_uneven(source, n_q, n_v, slab, queries);
    }
}

/* All queries over one slab of n_v vectors. */
LK_INLINE void lk_attn_sum_all(lk_attn_source source, int n_v, lk_attn_slab slab,
                               const lk_attn_active *queries, size_t n_queries) {
    size_t i = 0;
    for (; i + LK_ATTN_SIDE <= n_queries; i += LK_ATTN_SIDE) {
        lk_attn_sum_queries(source, LK_ATTN_SIDE, n_v, slab, queries + i);
    }
    for (; i < n_queries; i++) {
        lk_attn_sum_queries(source, 1, n_v, slab, queries + i);
    }
}

/* Bytes of a value in a block. */
LK_INLINE size_t lk_attn_value_bytes(lk_attn_source source) {
    return source == LK_ATTN_F32 ? 4 : source == LK_ATTN_F16 ? 2 : 1;
}

/* n_q (constant, 1 or 2) queries over the whole head, straight from the block. */
LK_INLINE void lk_attn_sum_head(lk_attn_source source, int n_q, const uint8_t *block,
                                size_t head_dim, lk_attn_ahead *ahead,
                                const lk_attn_active *queries) {
    const int n_v = LK_ATTN_ACCS / n_q < LK_ATTN_MAX_VECS ? LK_ATTN_ACCS / n_q : LK_ATTN_MAX_VECS;
    const size_t bytes = lk_attn_value_bytes(source);
    const size_t width = (size_t)n_v * LK_VEC_LANES;
    size_t k = 0;
    if (source ==
        LK_ATTN_Q8_0) { /* twice the lines that scales have; the loop over the values the rest */
        for (size_t line = 0; line < lk_attn_groups(head_dim); line++) {
            lk_attn_fetch(ahead, 2 * LK_CHUNK * sizeof(float) / 64);
        }
    }
    for (; k + width <= head_dim; k += width) {
        const lk_attn_slab slab = {block + k * bytes, head_dim * bytes, k, LK_VEC_LANES, ahead};
        lk_attn_sum_queries(source, n_q, n_v, slab, queries);
    }
    for (; n_v != LK_ATTN_SLAB_VECS && k + LK_ATTN_SLAB <= head_dim; k += LK_ATTN_SLAB) {
        const lk_attn_slab slab = {block + k * bytes, head_dim * bytes, k, LK_VEC_LANES, ahead};
        lk_attn_sum_queries(source, n_q, LK_ATTN_SLAB_VECS, slab, queries);
    }
    for (; k < head_dim; k += LK_VEC_LANES) {
        const lk_attn_slab slab = {block + k * bytes, head_dim * bytes, k,
                                   lk_vec_count(k, head_dim), ahead};
        lk_attn_sum_queries(source, n_q, 1, slab, queries);
    }
}

/* Many queries: a slab is unpacked once for all of them. Keys [begin, end) are seen by some. */
LK_INLINE void lk_attn_sum_wide(lk_attn_source source, lk_attn_source wide, const uint8_t *block,
                                size_t head_dim, lk_attn_span seen, lk_attn_ahead *ahead,
                                const lk_attn_active *queries, size_t n_queries) {
    alignas(64) float unpacked[LK_CHUNK * LK_ATTN_SLAB];
    const size_t bytes = lk_attn_value_bytes(source);
    size_t k = 0;
    for (; k + LK_ATTN_SLAB <= head_dim; k += LK_ATTN_SLAB) {
        lk_attn_slab slab = {block + k * bytes, head_dim * bytes, k, LK_VEC_LANES, NULL};
        if (source != LK_ATTN_F32) {
            for (size_t j = seen.begin; j < seen.end; j++) {
                lk_attn_fetch(ahead, LK_ATTN_SLAB / 32);
#pragma GCC unroll 4
                for (int v = 0; v < LK_ATTN_SLAB_VECS; v++) {
                    lk_vf_store(
                        unpacked + j * LK_ATTN_SLAB + (size_t)v * LK_VEC_LANES,
                        lk_attn_load_values(source, slab.at + j * slab.stride, v, LK_VEC_LANES));
                }
            }
            slab.at = (const uint8_t *)unpacked;
            slab.stride = LK_ATTN_SLAB * sizeof(float);
        }
        lk_attn_sum_all(wide, LK_ATTN_SLAB_VECS, slab, queries, n_queries);
    }
    for (; k < head_dim; k += LK_VEC_LANES) {
        const lk_attn_slab slab = {block + k * bytes, head_dim * bytes, k,
                                   lk_vec_count(k, head_dim), NULL};
        lk_attn_sum_all(source, 1, slab, queries, n_queries);
    }
}

/* The values of one chunk for all queries that see keys of it. */
LK_INLINE void lk_attn_sum_values(lk_kv_format format, const uint8_t *block, size_t head_dim,
                                  lk_attn_span seen, lk_attn_ahead *ahead,
                                  const lk_attn_active *queries, size_t n_queries) {
    const lk_attn_source source = format == LK_KV_FORMAT_F32   ? LK_ATTN_F32
                                  : format == LK_KV_FORMAT_F16 ? LK_ATTN_F16
                                                               : LK_ATTN_Q8_0;
    const lk_attn_source wide = format == LK_KV_FORMAT_F32   ? LK_ATTN_F32
                                : format == LK_KV_FORMAT_F16 ? LK_ATTN_WIDE_F16
                                                             : LK_ATTN_WIDE_Q8_0;
    if (n_queries >= LK_ATTN_WIDE_FROM) {
        lk_attn_sum_wide(source, wide, block, head_dim, seen, ahead, queries, n_queries);
        return;
    }
    size_t i = 0;
    for (; i + 2 <= n_queries; i += 2) {
        lk_attn_sum_head(source, 2, block, head_dim, ahead, queries + i);
    }
    for (; i < n_queries; i++) {
        lk_attn_sum_head(source, 1, block, head_dim, ahead, queries + i);
    }
}

#endif
