/* attention_scores.h - scores of one chunk of keys: S16 sums for f32 and f16 keys, integer dots in
 * lanes = keys for q8_0 keys. Keys up to the end of the chunk may be read, what lies beyond a
 * query's own is never used. */
#ifndef LK_BACKEND_CPU_KERN_ATTENTION_SCORES_H
#define LK_BACKEND_CPU_KERN_ATTENTION_SCORES_H

#include "backend/cpu/kern/matmul_float.h"
#include "backend/cpu/kern/rowwise.h"

enum { LK_ATTN_MAX_GROUPS = LK_MAX_HEAD_DIM / LK_KV_GROUP };

/* The queries as their keys need them. */
typedef struct lk_attn_queries {
    const float *x[LK_ATTN_MAX_QUERIES]; /* f32: as they are; f16: rounded, in `rounded` */
    float rounded[LK_ATTN_MAX_QUERIES][LK_MAX_HEAD_DIM];
    int8_t q[LK_ATTN_MAX_QUERIES][LK_MAX_HEAD_DIM]; /* q8_0 */
    float d[LK_ATTN_MAX_QUERIES][LK_ATTN_MAX_GROUPS];
    int32_t sum[LK_ATTN_MAX_QUERIES][LK_ATTN_MAX_GROUPS]; /* of q over a group */
} lk_attn_queries;

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

/* The scales of a q8_0 block, [LK_CHUNK][n_groups] at its end, with the keys in lanes. */
LK_INLINE void lk_attn_scales(const uint8_t *block, size_t head_dim, size_t n_keys,
                              float out[LK_ATTN_MAX_GROUPS][LK_CHUNK]) {
    const size_t n_groups = lk_attn_groups(head_dim);
    const uint8_t *scales = block + LK_CHUNK * head_dim;
    for (size_t j = 0; j < n_keys; j++) {
        for (size_t g = 0; g < n_groups; g++) {
            memcpy(&out[g][j], scales + (j * n_groups + g) * sizeof(float), sizeof(float));
        }
    }
}

/* q8_0: scores of all queries for the keys j .. j + LK_VEC_LANES - 1. */
LK_INLINE void lk_attn_scores_q8(const lk_attn_queries *queries, size_t n_queries,
                                 const uint8_t *block, size_t head_dim, size_t j,
                                 float d[LK_ATTN_MAX_GROUPS][LK_CHUNK],
                                 float s[LK_ATTN_MAX_QUERIES][LK_CHUNK]) {
    lk_vi w[LK_MAX_HEAD_DIM / 4]; /* four bytes of each key */
    for (size_t k = 0; k < head_dim; k += 16) {
        /* past a head of 8 (mod 16) this reads into the next key, or into the scales */
        lk_vi_columns(block + j * head_dim + k, head_dim, w + k / 4);
    }
    for (size_t i = 0; i < n_queries; i++) {
        lk_vf acc = lk_vf_zero();
        for (size_t g = 0; g < lk_attn_groups(head_dim); g++) {
            const size_t n = lk_attn_group_elems(g, head_dim);
            const lk_vi sum =
                lk_vi_dot_i8(w + 8 * g, queries->q[i] + g * LK_KV_GROUP, n / 4, queries->sum[i][g]);
            const lk_vf scale = lk_vf_mul(lk_vf_load(&d[g][j]), lk_vf_set(queries->d[i][g]));
            acc = lk_vf_add(acc, lk_vf_mul(scale, lk_vf_from_i32(sum)));
        }
        lk_vf_store(&s[i][j], acc);
    }
}

/* f32 and f16: scores of all queries for the keys j .. j + LK_S16_SETS - 1, of which those up to
 * n_keys - 1 exist. */
LK_INLINE void lk_attn_scores_float(lk_kv_format format, const lk_attn_queries *queries,
                                    size_t n_queries, const uint8_t *block, size_t head_dim,
                                    size_t j, size_t n_keys,
                                    float s[LK_ATTN_MAX_QUERIES][LK_CHUNK]) {
    const size_t key_bytes = head_dim * (format == LK_KV_FORMAT_F32 ? 4 : 2);
    const bool is_wide = format == LK_KV_FORMAT_F16 && n_queries > 1; /* convert once for all */
    float wide[LK_S16_SETS][LK_MAX_HEAD_DIM];
    const uint8_t *keys[LK_S16_SETS];
    for (size_t i = 0; i < LK_S16_SETS; i++) {
        keys[i] = block + (j + i < n_keys ? j + i : n_keys - 1) * key_bytes;
        if (is_wide) {
            for (size_t k = 0; k < head_dim; k += LK_VEC_LANES) {
                lk_vf_store(wide[i] + k,
                            lk_vf_load_f16_n(keys[i] + 2 * k, lk_vec_count(k, head_dim)));
            }
            keys[i] = (const uint8_t *)wide[i];
        }
    }
    for (size_t i = 0; i < n_queries; i++) {
        float *out = &s[i][j];
        if (format == LK_KV_FORMAT_F32) {
            lk_float_dots(LK_WEIGHTS_F32, LK_S16_SETS, 1, keys, &queries->x[i], head_dim, out);
        } else if (is_wide) {
            lk_float_dots(LK_WEIGHTS_F16_WIDE, LK_S16_SETS, 1, keys, &queries->x[i], head_dim, out);
        } else {
            lk_float_dots(LK_WEIGHTS_F16, LK_S16_SETS, 1, keys, &queries->x[i], head_dim, out);
        }
    }
}

/* Products of every query with the keys 0 .. n_keys - 1 of a chunk, before the scale. */
LK_INLINE void lk_attn_scores(const lk_attn_args *args, const lk_attn_queries *queries,
                              const uint8_t *block, size_t n_keys,
                              float s[LK_ATTN_MAX_QUERIES][LK_CHUNK]) {
    const size_t n = args->n_queries;
    const size_t head_dim = args->head_dim;
    if (args->k_format == LK_KV_FORMAT_Q8_0) {
        float d[LK_ATTN_MAX_GROUPS][LK_CHUNK];
        const size_t n_up = (n_keys + LK_VEC_LANES - 1) / LK_VEC_LANES * LK_VEC_LANES;
        lk_attn_scales(block, head_dim, n_up, d);
        for (size_t j = 0; j < n_keys; j += LK_VEC_LANES) {
            lk_attn_scores_q8(queries, n, block, head_dim, j, d, s);
        }
        return;
    }
    for (size_t j = 0; j < n_keys; j += LK_S16_SETS) {
        if (args->k_format == LK_KV_FORMAT_F32) {
            lk_attn_scores_float(LK_KV_FORMAT_F32, queries, n, block, head_dim, j, n_keys, s);
        } else {
            lk_attn_scores_float(LK_KV_FORMAT_F16, queries, n, block, head_dim, j, n_keys, s);
        }
    }
}

#endif
