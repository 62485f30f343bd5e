/* attention.h - attention over chunks of 64 keys (section 10): each chunk of keys and values is
 * read once for all queries of the call. What a query gets depends on its own keys alone: values of
 * keys that it does not see are skipped, not multiplied by zero. */
#ifndef LK_BACKEND_CPU_KERN_ATTENTION_H
#define LK_BACKEND_CPU_KERN_ATTENTION_H

#include "backend/cpu/kern/attention_values.h"

/* The largest score and the sum of exp(s - m), of a chunk or of all chunks so far. */
typedef struct lk_attn_sum {
    float m;
    float l;
} lk_attn_sum;

/* Lines fetched in one turn of the softmax's loops, for one or two queries. */
enum { LK_ATTN_FETCH_SOFTMAX = 4 * LK_VEC_LANES / 16 };

/* Scores s to exp(s - m), zeros around the keys of `span` up to multiples of 16; m and l of the
 * chunk. `ahead` may be NULL. */
LK_INLINE lk_attn_sum lk_attn_softmax(float *s, lk_attn_span span, float scale, float soft_cap,
                                      lk_attn_ahead *ahead, uint32_t *flag) {
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
        if (ahead != NULL) {
            lk_attn_fetch(ahead, LK_ATTN_FETCH_SOFTMAX);
        }
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
    lk_attn_sum c = {lk_vf_largest(m), 0.0f};
    lk_vf p[LK_S16_VECS];
#pragma GCC unroll 2
    for (int v = 0; v < LK_S16_VECS; v++) {
        p[v] = lk_vf_zero();
    }
    for (size_t j = low; j < high; j += 16) {
        if (ahead != NULL) {
            lk_attn_fetch(ahead, 4);
        }
#pragma GCC unroll 2
        for (size_t v = 0; v < LK_S16_VECS; v++) {
            const size_t k = j + v * LK_VEC_LANES;
            lk_vf e = lk_vf_exp(lk_vf_sub(lk_vf_load(s + k), lk_vf_set(c.m)));
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
    c.l = lk_s16_tree(p);
    return c;
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

/* all = all and c together; a and b: what the sums of values are multiplied by. */
LK_INLINE void lk_attn_combine(lk_attn_sum *all, lk_attn_sum c, float *a, float *b) {
    const float m = c.m > all->m ? c.m : all->m;
    *a = lk_expf(all->m - m);
    *b = lk_expf(c.m - m);
    all->l = all->l * *a + c.l * *b;
    all->m = m;
}

/* The output of a query: the sink of the head takes its share, then o / l. */
LK_INLINE void lk_attn_put(lk_attn_sum all, const float *o, const float *sink, size_t head_dim,
                           float *out) {
    lk_vf a = lk_vf_set(1.0f);
    if (sink != NULL) {
        const float m = *sink > all.m ? *sink : all.m;
        const float scale = lk_expf(all.m - m);
        all.l = all.l * scale + lk_expf(*sink - m);
        a = lk_vf_set(scale);
    }
    const lk_vf l = lk_vf_set(all.l);
    for (size_t k = 0; k < head_dim; k += LK_VEC_LANES) {
        const lk_vf v = lk_vf_load(o + k);
        lk_vf_store_n(out + k, lk_vf_div(sink != NULL ? lk_vf_mul(v, a) : v, l),
                      lk_vec_count(k, head_dim));
    }
}

/* The state of a call. */
typedef struct lk_attn_work {
    size_t k_bytes; /* of a block */
    size_t v_bytes;
    lk_attn_queries queries;
    lk_attn_sum all[LK_ATTN_MAX_QUERIES];
    alignas(64) float o[LK_ATTN_MAX_QUERIES][LK_MAX_HEAD_DIM];
    alignas(64) float sums[LK_ATTN_SIDE][LK_MAX_HEAD_DIM];
    alignas(64) float s[LK_ATTN_MAX_QUERIES][LK_CHUNK];
    alignas(64) lk_attn_weights w[LK_ATTN_MAX_QUERIES];
} lk_attn_work;

/* lk_kv_block_bytes */
LK_INLINE size_t lk_attn_block_bytes(lk_kv_format format, size_t head_dim) {
    switch (format) {
    case LK_KV_FORMAT_F32:
        return LK_CHUNK * head_dim * 4;
    case LK_KV_FORMAT_F16:
        return LK_CHUNK * head_dim * 2;
    case LK_KV_FORMAT_Q8_0:
        break;
    }
    return LK_CHUNK * (head_dim + 4 * lk_attn_groups(head_dim));
}

/* The keys of chunk i_chunk that query i sees; none: begin = end. */
LK_INLINE lk_attn_span lk_attn_span_of(const lk_attn_args *args, size_t i, size_t i_chunk) {
    const size_t at = i_chunk * LK_CHUNK;
    const size_t first = args->first_key[i];
    if (args->n_keys[i] <= at || first >= at + LK_CHUNK) {
        return (lk_attn_span){0, 0};
    }
    const size_t left = args->n_keys[i] - at;
    return (lk_attn_span){first > at ? first - at : 0, left < LK_CHUNK ? left : LK_CHUNK};
}

/* Probabilities of query i in chunk i_chunk, and where its sums go: together with those of earlier
 * chunks, or into a part. */
LK_INLINE void lk_attn_begin(lk_kv_format v_format, const lk_attn_args *args, size_t i,
                             size_t i_chunk, float d[LK_ATTN_MAX_GROUPS][LK_CHUNK],
                             lk_attn_ahead *ahead, lk_attn_work *work, lk_attn_active *active) {
    const lk_attn_sum c = lk_attn_softmax(work->s[i], active->span, args->scale, args->soft_cap,
                                          ahead, args->flag[i]);
    lk_attn_weigh(v_format, work->s[i], active->span, lk_attn_groups(args->head_dim), d,
                  work->w[i]);
    active->w = (const float(*)[LK_CHUNK])work->w[i];
    active->o = work->o[i];
    active->is_first = true;
    active->a = 0.0f;
    active->b = 1.0f;
    if (args->in_parts) {
        float *part =
            args->out[i] + (i_chunk - args->chunk_begin) * lk_attn_part_floats(args->head_dim);
        part[0] = c.m;
        part[1] = c.l;
        active->o = part + LK_ATTN_PART_HEAD;
    } else if (args->first_key[i] >= i_chunk * LK_CHUNK) {
        work->all[i] = c;
    } else {
        active->is_first = false;
        lk_attn_combine(&work->all[i], c, &active->a, &active->b);
    }
}

/* Chunk i_chunk; `ahead` is fetched meanwhile. */
LK_INLINE void lk_attn_chunk(lk_kv_format v_format, const lk_attn_args *args, size_t i_chunk,
                             lk_attn_ahead *ahead, lk_attn_work *work) {
    const uint8_t *values = args->v_blocks[i_chunk];
    size_t n_active = 0;
    lk_attn_active active[LK_ATTN_MAX_QUERIES];
    size_t index[LK_ATTN_MAX_QUERIES];
    lk_attn_span seen = {LK_CHUNK, 0};
    for (size_t i = 0; i < args->n_queries; i++) {
        const lk_attn_span span = lk_attn_span_of(args, i, i_chunk);
        if (span.begin < span.end) {
            seen.begin = span.begin < seen.begin ? span.begin : seen.begin;
            seen.end = span.end > seen.end ? span.end : seen.end;
            active[n_active].span = span;
            active[n_active].sums = work->sums[n_active % LK_ATTN_SIDE];
            index[n_active++] = i;
        }
    }
    if (n_active == 0) {
        return;
    }
    const size_t low = seen.begin / 16 * 16;
    const size_t high = (seen.end + 15) / 16 * 16;
    lk_attn_scores(args, &work->queries, args->k_blocks[i_chunk], ahead, low, high, work->s);
    /* f16 chunks take their loops long enough to ask for everything there. */
    lk_attn_ahead *soft_ahead = args->k_format == LK_KV_FORMAT_Q8_0 && n_active <= 2 ? ahead : NULL;
    alignas(64) float d[LK_ATTN_MAX_GROUPS][LK_CHUNK];
    if (v_format == LK_KV_FORMAT_Q8_0) {
        lk_attn_scales(values, args->head_dim, low, high, d);
    }
    for (size_t a = 0; a < n_active; a++) {
        lk_attn_begin(v_format, args, index[a], i_chunk, d, soft_ahead, work, &active[a]);
    }
    lk_attn_sum_values(v_format, values, args->head_dim, seen, ahead, active, n_active);
}

/* What to fetch during chunk c of [begin, end): the next keys and values. The first chunk's keys
 * are asked for at once, its values while they are multiplied. */
LK_INLINE lk_attn_ahead lk_attn_plan(const lk_attn_args *args, const lk_attn_work *work,
                                     size_t begin, size_t c, size_t end) {
    lk_attn_ahead ahead = {.at = args->k_blocks[c]};
    if (c == begin) {
        for (size_t line = 0; line < work->k_bytes; line += 64) {
            __builtin_prefetch(args->k_blocks[c] + line, 0, 2);
        }
        ahead.at = args->v_blocks[c];
        ahead.end = ahead.at + work->v_bytes;
    } else if (c + 1 < end) {
        ahead.at = args->k_blocks[c + 1];
        ahead.end = ahead.at + work->k_bytes;
    } else {
        ahead.end = ahead.at;
    }
    if (c + 1 < end) {
        ahead.more[0].at = args->v_blocks[c + 1];
        ahead.more[0].n_bytes = work->v_bytes;
        ahead.more[1].at = args->k_blocks[c + 1];
        ahead.more[1].n_bytes = work->k_bytes;
        ahead.n_more = c == begin ? 2 : 1;
    }
    return ahead;
}

LK_INLINE void lk_attn_all_chunks(lk_kv_format v_format, const lk_attn_args *args) {
    lk_attn_work work;
    work.k_bytes = lk_attn_block_bytes(args->k_format, args->head_dim);
    work.v_bytes = lk_attn_block_bytes(v_format, args->head_dim);
    lk_attn_prepare(args, &work.queries);
    size_t end = 0;
    size_t begin = args->first_key[0] / LK_CHUNK;
    for (size_t i = 0; i < args->n_queries; i++) {
        const size_t first = args->first_key[i] / LK_CHUNK;
        const size_t last = (args->n_keys[i] + LK_CHUNK - 1) / LK_CHUNK;
        begin = first < begin ? first : begin;
        end = last > end ? last : end;
    }
    if (args->in_parts) {
        begin = args->chunk_begin > begin ? args->chunk_begin : begin;
        end = args->chunk_end < end ? args->chunk_end : end;
    }
    for (size_t c = begin; c < end; c++) {
        lk_attn_ahead ahead = lk_attn_plan(args, &work, begin, c, end);
        lk_attn_chunk(v_format, args, c, &ahead, &work);
    }
    for (size_t i = 0; !args->in_parts && i < args->n_queries; i++) {
        lk_attn_put(work.all[i], work.o[i], args->has_sinks ? &args->sink[i] : NULL, args->head_dim,
                    args->out[i]);
    }
}

/* attention_join: the parts of one query, in order. */
LK_INLINE void lk_attn_join(const lk_attn_parts *parts) {
    const size_t head_dim = parts->head_dim;
    alignas(64) float o[LK_MAX_HEAD_DIM];
    lk_attn_sum all = {parts->parts[0], parts->parts[1]};
    memcpy(o, parts->parts + LK_ATTN_PART_HEAD, head_dim * sizeof(float));
    for (size_t c = 1; c < parts->n_parts; c++) {
        const float *part = parts->parts + c * lk_attn_part_floats(head_dim);
        float a;
        float b;
        lk_attn_combine(&all, (lk_attn_sum){part[0], part[1]}, &a, &b);
        for (size_t k = 0; k < head_dim; k += LK_VEC_LANES) {
            const lk_vf old = lk_vf_mul(lk_vf_load(o + k), lk_vf_set(a));
            const lk_vf sum = lk_vf_load(part + LK_ATTN_PART_HEAD + k);
            lk_vf_store(o + k, lk_vf_add(old, lk_vf_mul(sum, lk_vf_set(b))));
        }
    }
    lk_attn_put(all, o, parts->has_sink ? &parts->sink : NULL, head_dim, parts->out);
}

#endif
