/* attention_scores.h - scores of one chunk of keys, sixteen keys at a time: S16 sums for f32 and
 * f16 keys, integer dots in lanes = keys for q8_0 keys. Several queries share what is read and
 * unpacked of the keys. Keys of the whole chunk may be read, what lies outside a query's own is
 * never used. */
#ifndef LK_BACKEND_CPU_KERN_ATTENTION_SCORES_H
#define LK_BACKEND_CPU_KERN_ATTENTION_SCORES_H

#include <stdalign.h>

#include "backend/cpu/kern/matmul_float.h"
#include "backend/cpu/kern/rowwise.h"

enum {
    LK_ATTN_MAX_GROUPS = LK_MAX_HEAD_DIM / LK_KV_GROUP,
    LK_ATTN_KEYS = 16,                        /* keys whose scores are computed together */
    LK_ATTN_FETCH_Q8 = 2 * LK_VEC_LANES / 16, /* lines fetched for 16 bytes of LK_VEC_LANES keys */
    LK_ATTN_WIDE_FROM = 4 /* from so many queries on f16 keys are first unpacked to binary32 */
};

/* The queries as their keys need them. */
typedef struct lk_attn_queries {
    const float *x[LK_ATTN_MAX_QUERIES]; /* f32: as they are; f16: rounded, in `rounded` */
    alignas(64) float rounded[LK_ATTN_MAX_QUERIES][LK_MAX_HEAD_DIM];
    alignas(64) int8_t q[LK_ATTN_MAX_QUERIES][LK_MAX_HEAD_DIM]; /* q8_0 */
    float d[LK_ATTN_MAX_QUERIES][LK_ATTN_MAX_GROUPS];
    int32_t sum[LK_ATTN_MAX_QUERIES][LK_ATTN_MAX_GROUPS]; /* of q over a group */
} lk_attn_queries;

/* What is brought into the second-level cache ahead of its use, a few lines at a time: a decoding
 * step meets keys and values that come from memory. Blocks in the order of their use; the core can
 * wait for a few lines only, so they are spread over all that a chunk takes, the softmax too. */
typedef struct lk_attn_ahead {
    const uint8_t *at;
    const uint8_t *end;
    size_t n_more; /* blocks behind this one, the next one last */
    struct {
        const uint8_t *at;
        size_t n_bytes;
    } more[2];
} lk_attn_ahead;

LK_INLINE void lk_attn_fetch(lk_attn_ahead *ahead, int n_lines) {
#pragma GCC unroll 8
    for (int i = 0; i < n_lines; i++) {
        __builtin_prefetch(ahead->at + 64 * i, 0, 2);
    }
    if (ahead->at < ahead->end) {
        ahead->at += 64 * n_lines;
    } else if (ahead->n_more > 0) {
        ahead->n_more--;
        ahead->at = ahead->more[ahead->n_more].at;
        ahead->end = ahead->at + ahead->more[ahead->n_more].n_bytes;
    }
}

LK_INLINE size_t lk_attn_groups(size_t head_dim) {
    return (head_dim + LK_KV_GROUP - 1) / LK_KV_GROUP;
}
/* Elements of group g. */
LK_INLINE size_t lk_attn_group_elems(size_t g, size_t head_dim) {
    const size_t left = head_dim - g * LK_KV_GROUP;
    return left < LK_KV_GROUP ? left : LK_KV_GROUP;
}

LK_INLINE void lk_attn_prepare(const lk_attn_args *args, lk_attn_queries *queries) {
    for (size_t i = 0; i < args->n_queries; i++) {
        queries->x[i] = args->q[i];
        if (args->k_format == LK_KV_FORMAT_F16) {
            lk_vec_act_round(args->q[i], args->head_dim, LK_ROUND_13, queries->rounded[i],
                             args->flag[i]);
            queries->x[i] = queries->rounded[i];
        } else if (args->k_format == LK_KV_FORMAT_Q8_0) {
            for (size_t g = 0; g < lk_attn_groups(args->head_dim); g++) {
                const size_t n = lk_attn_group_elems(g, args->head_dim);
                int8_t *q = queries->q[i] + g * LK_KV_GROUP;
                if (lk_vec_quantize_group(args->q[i] + g * LK_KV_GROUP, n, q, &queries->d[i][g]) >=
                    0x7f800000u) {
                    *args->flag[i] = 1;
                }
                queries->sum[i][g] = 0;
                for (size_t k = 0; k < n; k++) {
                    queries->sum[i][g] += q[k];
                }
            }
        }
    }
}

/* The scales of keys [begin, end), multiples of sixteen, of a q8_0 block ([LK_CHUNK][n_groups] at
 * its end), with the keys in lanes. */
LK_INLINE void lk_attn_scales(const uint8_t *block, size_t head_dim, size_t begin, size_t end,
                              float out[LK_ATTN_MAX_GROUPS][LK_CHUNK]) {
    const size_t n_groups = lk_attn_groups(head_dim);
    const uint8_t *scales = block + LK_CHUNK * head_dim;
    const size_t stride = n_groups * sizeof(float);
    if (n_groups % 4 == 0) {
        for (size_t j = begin; j < end; j += LK_VEC_LANES) {
            for (size_t g = 0; g < n_groups; g += 4) {
                lk_vi columns[4];
                lk_vi_columns(scales + j * stride + g * sizeof(float), stride, columns);
#pragma GCC unroll 4
                for (size_t i = 0; i < 4; i++) {
                    lk_vf_store(&out[g + i][j], lk_vf_bits(columns[i]));
                }
            }
        }
        return;
    }
    for (size_t j = begin; j < end; j++) {
        for (size_t g = 0; g < n_groups; g++) {
            memcpy(&out[g][j], scales + j * stride + g * sizeof(float), sizeof(float));
        }
    }
}

/* q8_0: scores of queries i .. i + n_q - 1 for one vector of keys from j on. `keys`: their dwords,
 * as lk_vi_dot_operand gives them. */
LK_INLINE void lk_attn_dots_q8(int n_q, const lk_attn_queries *queries, size_t i, const lk_vi *keys,
                               size_t head_dim, size_t j, float d[LK_ATTN_MAX_GROUPS][LK_CHUNK],
                               float s[LK_ATTN_MAX_QUERIES][LK_CHUNK]) {
    lk_vf acc[LK_ATTN_SIDE];
#pragma GCC unroll 4
    for (int r = 0; r < n_q; r++) {
        acc[r] = lk_vf_zero();
    }
    for (size_t g = 0; g < lk_attn_groups(head_dim); g++) {
        const size_t n_dwords = lk_attn_group_elems(g, head_dim) / 4;
        lk_vi sum[LK_ATTN_SIDE];
#pragma GCC unroll 4
        for (int r = 0; r < n_q; r++) {
            sum[r] = lk_vi_dot_start(queries->sum[i + (size_t)r][g]);
        }
        for (size_t e = 0; e < n_dwords; e += 2) { /* heads are multiples of 8 */
#pragma GCC unroll 2
            for (size_t at = 8 * g + e; at < 8 * g + e + 2; at++) {
#pragma GCC unroll 4
                for (int r = 0; r < n_q; r++) {
                    sum[r] = lk_vi_dot_step(sum[r], keys[at],
                                            lk_peek_i32(queries->q[i + (size_t)r] + 4 * at));
                }
            }
        }
        const lk_vf d_k = lk_vf_load(&d[g][j]);
#pragma GCC unroll 4
        for (int r = 0; r < n_q; r++) {
            const lk_vf scale = lk_vf_mul(d_k, lk_vf_set(queries->d[i + (size_t)r][g]));
            acc[r] = lk_vf_add(acc[r], lk_vf_mul(scale, lk_vf_from_i32(sum[r])));
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < n_q; r++) {
        lk_vf_store(&s[i + (size_t)r][j], acc[r]);
    }
}

/* q8_0: scores of all queries for one vector of keys from j on. */
LK_INLINE void lk_attn_scores_q8(const lk_attn_queries *queries, size_t n_queries,
                                 const uint8_t *block, lk_attn_ahead *ahead, size_t head_dim,
                                 size_t j, float d[LK_ATTN_MAX_GROUPS][LK_CHUNK],
                                 float s[LK_ATTN_MAX_QUERIES][LK_CHUNK]) {
    lk_vi keys[LK_MAX_HEAD_DIM / 4]; /* four bytes of each key */
    for (size_t k = 0; k < head_dim; k += 16) {
        /* past a head of 8 (mod 16) this reads into the next key, or into the scales */
        lk_vi_columns(block + j * head_dim + k, head_dim, keys + k / 4);
        lk_attn_fetch(ahead, LK_ATTN_FETCH_Q8);
#pragma GCC unroll 4
        for (size_t e = k / 4; e < k / 4 + 4; e++) {
            keys[e] = lk_vi_dot_operand(keys[e]);
        }
    }
    size_t i = 0;
    for (; i + LK_ATTN_SIDE <= n_queries; i += LK_ATTN_SIDE) {
        lk_attn_dots_q8(LK_ATTN_SIDE, queries, i, keys, head_dim, j, d, s);
    }
    for (; i + 2 <= n_queries; i += 2) {
        lk_attn_dots_q8(2, queries, i, keys, head_dim, j, d, s);
    }
    for (; i < n_queries; i++) {
        lk_attn_dots_q8(1, queries, i, keys, head_dim, j, d, s);
    }
}

/* Queries i .. i + n_q - 1 (n_q divides LK_S16_SETS) with sixteen binary32 keys from j on; the
 * first at `keys`, the others `stride` floats apart. Products are exact but for f32. */
LK_INLINE void lk_attn_dots_wide(lk_float_weights kind, int n_q, const lk_attn_queries *queries,
                                 size_t i, const float *keys, size_t stride, size_t head_dim,
                                 size_t j, float s[LK_ATTN_MAX_QUERIES][LK_CHUNK]) {
    enum { MOST = LK_S16_SETS };
    const int n_k = LK_S16_SETS / n_q;
    const uint8_t *q[MOST];
#pragma GCC unroll 16
    for (int r = 0; r < n_q; r++) {
        q[r] = (const uint8_t *)queries->x[i + (size_t)r];
    }
    for (size_t at = 0; at < LK_ATTN_KEYS; at += (size_t)n_k) {
        const float *k[MOST];
#pragma GCC unroll 16
        for (int c = 0; c < n_k; c++) {
            k[c] = keys + (at + (size_t)c) * stride;
        }
        float out[LK_S16_SETS];
        lk_float_dots(kind, n_q, n_k, q, k, head_dim, out);
#pragma GCC unroll 16
        for (int r = 0; r < n_q; r++) {
            memcpy(&s[i + (size_t)r][j + at], out + r * n_k, (size_t)n_k * sizeof(float));
        }
    }
}

/* All queries likewise. */
LK_INLINE void lk_attn_scores_wide(lk_float_weights kind, const lk_attn_queries *queries,
                                   size_t n_queries, const float *keys, size_t stride,
                                   size_t head_dim, size_t j,
                                   float s[LK_ATTN_MAX_QUERIES][LK_CHUNK]) {
    size_t i = 0;
    for (; i + LK_SETS_SIDE <= n_queries; i += LK_SETS_SIDE) {
        lk_attn_dots_wide(kind, LK_SETS_SIDE, queries, i, keys, stride, head_dim, j, s);
    }
    for (; i < n_queries; i++) {
        lk_attn_dots_wide(kind, 1, queries, i, keys, stride, head_dim, j, s);
    }
}

/* Queries i .. i + n_q - 1 with sixteen f16 keys from j on, unpacked on the way. */
LK_INLINE void lk_attn_dots_f16(int n_q, const lk_attn_queries *queries, size_t i,
                                const uint8_t *block, lk_attn_ahead *ahead, size_t head_dim,
                                size_t j, float s[LK_ATTN_MAX_QUERIES][LK_CHUNK]) {
    enum { MOST = LK_S16_SETS };
    const int n_k = LK_S16_SETS / n_q;
    const float *q[MOST];
#pragma GCC unroll 16
    for (int r = 0; r < n_q; r++) {
        q[r] = queries->x[i + (size_t)r];
    }
    for (size_t at = j; at < j + LK_ATTN_KEYS; at += (size_t)n_k) {
        const uint8_t *k[MOST];
#pragma GCC unroll 16
        for (int c = 0; c < n_k; c++) {
            k[c] = block + (at + (size_t)c) * head_dim * 2;
        }
        for (size_t line = 0; line < (size_t)n_k * head_dim * 2; line += 64) {
            lk_attn_fetch(ahead, 1);
        }
        float out[LK_S16_SETS];
        lk_float_dots(LK_WEIGHTS_F16, n_k, n_q, k, q, head_dim, out);
#pragma GCC unroll 16
        for (int c = 0; c < LK_S16_SETS; c++) {
            s[i + (size_t)(c % n_q)][at + (size_t)(c / n_q)] = out[c];
        }
    }
}

/* f16: scores of all queries for sixteen keys from j on. */
LK_INLINE void lk_attn_scores_f16(const lk_attn_queries *queries, size_t n_queries,
                                  const uint8_t *block, lk_attn_ahead *ahead, size_t head_dim,
                                  size_t j, float s[LK_ATTN_MAX_QUERIES][LK_CHUNK]) {
    if (n_queries >= LK_ATTN_WIDE_FROM) {
        alignas(64) float wide[LK_ATTN_KEYS * LK_MAX_HEAD_DIM];
        const size_t stride = (head_dim + 15) / 16 * 16;
        for (size_t c = 0; c < LK_ATTN_KEYS; c++) {
            for (size_t line = 0; line < head_dim * 2; line += 64) {
                lk_attn_fetch(ahead, 1);
            }
            for (size_t k = 0; k < head_dim; k += LK_VEC_LANES) {
                lk_vf_store(wide + c * stride + k,
                            lk_vf_load_f16_n(block + ((j + c) * head_dim + k) * 2,
                                             lk_vec_count(k, head_dim)));
            }
        }
        lk_attn_scores_wide(LK_WEIGHTS_F16_WIDE, queries, n_queries, wide, stride, head_dim, j, s);
        return;
    }
    size_t i = 0;
    for (; i + 2 <= n_queries; i += 2) {
        lk_attn_dots_f16(2, queries, i, block, ahead, head_dim, j, s);
    }
    for (; i < n_queries; i++) {
        lk_attn_dots_f16(1, queries, i, block, ahead, head_dim, j, s);
    }
}

/* Products of every query with keys [begin, end), multiples of sixteen, of a chunk, before the
 * scale. */
LK_INLINE void lk_attn_scores(const lk_attn_args *args, const lk_attn_queries *queries,
                              const uint8_t *block, lk_attn_ahead *ahead, size_t begin, size_t end,
                              float s[LK_ATTN_MAX_QUERIES][LK_CHUNK]) {
    const size_t n = args->n_queries;
    const size_t head_dim = args->head_dim;
    if (args->k_format == LK_KV_FORMAT_Q8_0) {
        alignas(64) float d[LK_ATTN_MAX_GROUPS][LK_CHUNK];
        lk_attn_scales(block, head_dim, begin, end, d);
        for (size_t j = begin; j < end; j += LK_VEC_LANES) {
            lk_attn_scores_q8(queries, n, block, ahead, head_dim, j, d, s);
        }
        return;
    }
    for (size_t j = begin; j < end; j += LK_ATTN_KEYS) {
        if (args->k_format == LK_KV_FORMAT_F32) {
            const float *keys = (const float *)(const void *)block + j * head_dim;
            lk_attn_scores_wide(LK_WEIGHTS_F32, queries, n, keys, head_dim, head_dim, j, s);
        } else {
            lk_attn_scores_f16(queries, n, block, ahead, head_dim, j, s);
        }
    }
}

#endif
