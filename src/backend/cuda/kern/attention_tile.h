/* attention_tile.h - attention of up to eight queries that see keys of the same sequence (section
 * 10), by a block of 256 threads: a chunk of 64 keys is read once for all of them. Queries may see
 * different parts of a chunk; what one does not see plays no part in its sums.
 *
 * Scores: sixteen neighbouring threads have four keys times all queries, each one partial sum, and
 * put them together by halves. Weights: a warp has a query. Values: a thread has an element of the
 * output for some of the queries. */
#ifndef LK_BACKEND_CUDA_KERN_ATTENTION_TILE_H
#define LK_BACKEND_CUDA_KERN_ATTENTION_TILE_H

#include "backend/cuda/kern/attention_sums.h"
#include "backend/cuda/kern/flags.h"
#include "backend/cuda/kern/head_groups.h"
#include "backend/cuda/kern/s16.h"

enum {
    LK_QUERIES = LK_CUDA_QUERIES,
    LK_TEAM_KEYS = LK_CHUNK * LK_SUM_LANES / LK_CUDA_WIDE, /* keys of sixteen threads */
    LK_TEAM_PAIRS = LK_TEAM_KEYS * LK_QUERIES,
    LK_HEAD_GROUPS = LK_MAX_HEAD_DIM / LK_KV_GROUP
};

/* Shared. Query i sees keys [begin[i], end[i]) of the chunk; none where begin == end. */
typedef struct lk_query_tile {
    float x[LK_QUERIES][LK_MAX_HEAD_DIM]; /* as they are, or rounded */
    uint32_t q[LK_QUERIES][LK_MAX_HEAD_DIM / 4];
    float d[LK_QUERIES][LK_HEAD_GROUPS];
    float s[LK_QUERIES][LK_CHUNK];
    /* What values are multiplied with: exp(s - m) as it is or rounded, for q8_0 values times the
     * scale of each group. */
    float w[LK_QUERIES][LK_HEAD_GROUPS][LK_CHUNK] __attribute__((aligned(16)));
    float a[LK_QUERIES]; /* factors of the sums so far and of the chunk's */
    float b[LK_QUERIES];
    float m[LK_QUERIES]; /* at the end: of all chunks */
    float l[LK_QUERIES];
    uint32_t n_seen[LK_QUERIES]; /* chunks, this one included */
    uint32_t begin[LK_QUERIES];
    uint32_t end[LK_QUERIES];
    uint32_t is_bad[LK_QUERIES];
} lk_query_tile;

/* A chunk of keys and values of one head: key j is k + j * k_stride. */
typedef struct lk_key_chunk {
    const uint8_t *k;
    const uint8_t *v;
    size_t k_stride;
    size_t v_stride;
    const float *k_d; /* q8_0: scales, groups of the head for each key */
    const float *v_d;
    uint32_t begin; /* keys that some query sees */
    uint32_t end;
} lk_key_chunk;

/* What stays the same for all chunks. */
typedef struct lk_tile_shape {
    uint32_t k_format;
    uint32_t v_format;
    uint32_t head_dim;
    float scale;
    float soft_cap;
} lk_tile_shape;

/* Of all chunks so far: m and l of the query that the thread's warp has, and elements of the
 * output: thread t has element t % span for queries t / span, t / span + 256 / span, .. */
typedef struct lk_tile_sums {
    float m;
    float l;
    float o[LK_QUERIES];
} lk_tile_sums;

LK_DEVICE void lk_query_prepare(const lk_tile_shape *shape, const float *x, uint32_t i,
                                lk_query_tile *tile) {
    const uint32_t lane = lk_thread() % LK_WARP; /* of the warp that has the query */
    const uint32_t n = shape->head_dim;
    for (uint32_t first = 0; first < n; first += LK_WARP) {
        const uint32_t k = first + lane;
        const float v = k < n ? x[k] : 0.0f;
        tile->x[i][k] = shape->k_format == LK_KV_FORMAT_F16 ? lk_round13(v) : v;
        if (shape->k_format == LK_KV_FORMAT_F16 &&
            !(v < LK_ROUND13_LIMIT && v > -LK_ROUND13_LIMIT)) {
            tile->is_bad[i] = 1;
        }
        if (shape->k_format == LK_KV_FORMAT_Q8_0) {
            const lk_lane_quant quant = lk_quantize_lane(v);
            ((int8_t *)(void *)tile->q[i])[k] = (int8_t)quant.q;
            if (lane == 0) {
                tile->d[i][first / LK_KV_GROUP] = quant.d;
            }
            if (quant.is_bad) {
                tile->is_bad[i] = 1;
            }
        }
    }
}

LK_DEVICE void lk_tile_put_score(const lk_tile_shape *shape, lk_query_tile *tile, uint32_t i,
                                 uint32_t j, float product) {
    const float s = product * shape->scale;
    if (j >= tile->begin[i] && j < tile->end[i]) {
        if (!lk_is_finite_f32(s)) {
            tile->is_bad[i] = 1;
        }
        tile->s[i][j] = lk_bend(s, shape->soft_cap);
    }
}

/* Of 2 n sums in a thread and the one `mask` away, each keeps n, those of both added. */
LK_DEVICE void lk_halve_sums(float *sum, uint32_t n, uint32_t mask) {
    const bool is_upper = (lk_thread() & mask) != 0;
    LK_UNROLL for (uint32_t i = 0; i < n; i++) {
        const float low = sum[i]; /* in registers, which a choice of addresses would prevent */
        const float high = sum[i + n];
        const float mine = is_upper ? high : low;
        const float other = is_upper ? low : high;
        sum[i] = mine + lk_exchange_float(other, mask);
    }
}

/* f32 and f16 keys; `format` is a constant. */
LK_DEVICE void lk_tile_scores(uint32_t format, const lk_tile_shape *shape,
                              const lk_key_chunk *chunk, lk_query_tile *tile) {
    const uint32_t lane = lk_thread() % LK_SUM_LANES;
    const uint32_t first_key = lk_thread() / LK_SUM_LANES * LK_TEAM_KEYS;
    float sum[LK_TEAM_PAIRS];
    LK_UNROLL for (uint32_t i = 0; i < LK_TEAM_PAIRS; i++) {
        sum[i] = 0.0f;
    }
    for (uint32_t k = lane; k < shape->head_dim; k += LK_SUM_LANES) {
        float key[LK_TEAM_KEYS];
        LK_UNROLL for (uint32_t j = 0; j < LK_TEAM_KEYS; j++) {
            const uint32_t i_key = first_key + j;
            const uint8_t *const p = chunk->k + i_key * chunk->k_stride;
            key[j] = 0.0f;
            if (i_key >= chunk->begin && i_key < chunk->end) {
                key[j] = format == LK_KV_FORMAT_F32
                             ? ((const float *)(const void *)p)[k]
                             : lk_half(((const uint16_t *)(const void *)p)[k]);
            }
        }
        LK_UNROLL for (uint32_t i = 0; i < LK_QUERIES; i++) {
            const float x = tile->x[i][k];
            LK_UNROLL for (uint32_t j = 0; j < LK_TEAM_KEYS; j++) {
                const uint32_t at = j * LK_QUERIES + i;
                sum[at] = format == LK_KV_FORMAT_F32 ? sum[at] + x * key[j]
                                                     : lk_fma_exact(x, key[j], sum[at]);
            }
        }
    }
    /* The tree of S16 for all at once. */
    lk_halve_sums(sum, LK_TEAM_PAIRS / 2, 8);
    lk_halve_sums(sum, LK_TEAM_PAIRS / 4, 4);
    lk_halve_sums(sum, LK_TEAM_PAIRS / 8, 2);
    lk_halve_sums(sum, LK_TEAM_PAIRS / 16, 1);
    LK_UNROLL for (uint32_t i = 0; i < LK_TEAM_PAIRS / LK_SUM_LANES; i++) {
        const uint32_t at = lane * (LK_TEAM_PAIRS / LK_SUM_LANES) + i;
        lk_tile_put_score(shape, tile, at % LK_QUERIES, first_key + at / LK_QUERIES, sum[i]);
    }
}

/* q8_0 keys: a thread has a key, and every fourth query. */
LK_DEVICE void lk_tile_scores_q8_0(const lk_tile_shape *shape, const lk_key_chunk *chunk,
                                   lk_query_tile *tile) {
    const uint32_t n_groups = lk_head_groups(shape->head_dim);
    const uint32_t j = lk_thread() % LK_CHUNK;
    const uint32_t *const key = (const uint32_t *)(const void *)(chunk->k + j * chunk->k_stride);
    if (j < chunk->begin || j >= chunk->end) {
        return;
    }
    for (uint32_t i = lk_thread() / LK_CHUNK; i < LK_QUERIES; i += LK_CUDA_WIDE / LK_CHUNK) {
        float acc = 0.0f;
        for (uint32_t g = 0; g < n_groups; g++) {
            int32_t sum = 0;
            for (uint32_t w = g * 8; w < (g + 1) * 8 && w < shape->head_dim / 4; w++) {
                sum = lk_dp4a(key[w], tile->q[i][w], sum);
            }
            acc = acc + (chunk->k_d[j * n_groups + g] * tile->d[i][g]) * (float)sum;
        }
        lk_tile_put_score(shape, tile, i, j, acc);
    }
}

/* m, l and the weights of the query that this warp has. */
LK_DEVICE void lk_tile_weights(const lk_tile_shape *shape, const lk_key_chunk *chunk,
                               lk_query_tile *tile, lk_tile_sums *all) {
    const uint32_t i = lk_thread() / LK_WARP;
    const uint32_t lane = lk_thread() % LK_WARP;
    const uint32_t begin = tile->begin[i];
    const uint32_t end = tile->end[i];
    if (begin >= end) {
        return;
    }
    float m = tile->s[i][begin];
    float p[2]; /* keys lane and lane + 32; what is not seen has 0, which changes no sum */
    LK_UNROLL for (uint32_t h = 0; h < 2; h++) {
        const uint32_t j = lane + h * LK_WARP;
        p[h] = 0.0f;
        if (j >= begin && j < end) {
            p[h] = tile->s[i][j];
            m = lk_larger(p[h], m);
        }
    }
    for (uint32_t mask = 16; mask != 0; mask /= 2) {
        m = lk_larger(lk_exchange_float(m, mask), m);
    }
    LK_UNROLL for (uint32_t h = 0; h < 2; h++) {
        const uint32_t j = lane + h * LK_WARP;
        p[h] = j >= begin && j < end ? lk_expf(p[h] - m) : 0.0f;
        if (shape->v_format == LK_KV_FORMAT_Q8_0) {
            const uint32_t n_groups = lk_head_groups(shape->head_dim);
            for (uint32_t g = 0; j >= chunk->begin && j < chunk->end && g < n_groups; g++) {
                tile->w[i][g][j] = lk_round16(p[h] * chunk->v_d[j * n_groups + g]);
            }
        } else {
            tile->w[i][0][j] = shape->v_format == LK_KV_FORMAT_F16 ? lk_round13(p[h]) : p[h];
        }
    }
    /* Partial sum i of S16 in lane i: keys i, i + 16, i + 32, i + 48. */
    const float next = lk_exchange_float(p[0], 16);
    const float last = lk_exchange_float(p[1], 16);
    const float partial = ((p[0] + next) + p[1]) + last;
    const float l = lk_lanes_tree(partial); /* in lanes 0 .. 15 */
    if (lane == 0) {
        const bool is_first = tile->n_seen[i]++ == 0;
        const float larger = is_first ? m : lk_larger(m, all->m);
        tile->a[i] = lk_expf(all->m - larger);
        tile->b[i] = lk_expf(m - larger);
        all->l = is_first ? l : all->l * tile->a[i] + l * tile->b[i];
        all->m = larger;
        tile->m[i] = all->m;
        tile->l[i] = all->l;
    }
}

/* Element k of a value. */
LK_DEVICE float lk_tile_value(uint32_t format, const lk_key_chunk *chunk, uint32_t j, uint32_t k) {
    const uint8_t *const v = chunk->v + j * chunk->v_stride;
    return format == LK_KV_FORMAT_F32   ? ((const float *)(const void *)v)[k]
           : format == LK_KV_FORMAT_F16 ? lk_half(((const uint16_t *)(const void *)v)[k])
                                        : (float)((const int8_t *)v)[k];
}

LK_DEVICE float lk_tile_add(uint32_t format, float w, float v, float o) {
    return format == LK_KV_FORMAT_F32 ? o + w * v : lk_fma_exact(w, v, o);
}

/* Sums of the values for the thread's queries, in o, which is 0. `format` and `span` are constants.
 */
LK_DEVICE void lk_tile_values(uint32_t format, uint32_t span, const lk_tile_shape *shape,
                              const lk_key_chunk *chunk, const lk_query_tile *tile, float *o) {
    const uint32_t n_mine = LK_QUERIES * span / LK_CUDA_WIDE;
    const uint32_t k = lk_thread() % span;
    const uint32_t first = lk_thread() / span;
    const uint32_t g = format == LK_KV_FORMAT_Q8_0 ? k / LK_KV_GROUP : 0;
    if (k >= shape->head_dim) {
        return;
    }
    bool is_whole = true; /* all queries see all keys of the chunk */
    LK_UNROLL for (uint32_t i = 0; i < n_mine; i++) {
        const uint32_t i_query = first + i * (LK_CUDA_WIDE / span);
        is_whole = is_whole && tile->begin[i_query] == 0 && tile->end[i_query] == LK_CHUNK;
    }
    if (is_whole) {
        for (uint32_t j = 0; j < LK_CHUNK; j += 4) {
            float v[4];
            LK_UNROLL for (uint32_t h = 0; h < 4; h++) {
                v[h] = lk_tile_value(format, chunk, j + h, k);
            }
            LK_UNROLL for (uint32_t i = 0; i < n_mine; i++) {
                const uint32_t i_query = first + i * (LK_CUDA_WIDE / span);
                const lk_floats w = lk_read_floats(&tile->w[i_query][g][j]);
                o[i] = lk_tile_add(format, w.x, v[0], o[i]);
                o[i] = lk_tile_add(format, w.y, v[1], o[i]);
                o[i] = lk_tile_add(format, w.z, v[2], o[i]);
                o[i] = lk_tile_add(format, w.w, v[3], o[i]);
            }
        }
        return;
    }
    for (uint32_t j = chunk->begin; j < chunk->end; j++) {
        const float v = lk_tile_value(format, chunk, j, k);
        LK_UNROLL for (uint32_t i = 0; i < n_mine; i++) {
            const uint32_t i_query = first + i * (LK_CUDA_WIDE / span);
            if (j >= tile->begin[i_query] && j < tile->end[i_query]) {
                o[i] = lk_tile_add(format, tile->w[i_query][g][j], v, o[i]);
            }
        }
    }
}

/* One chunk more, for all queries, whose ranges were set before a barrier. Ends with a barrier. */
LK_DEVICE void lk_tile_chunk(uint32_t span, const lk_tile_shape *shape, const lk_key_chunk *chunk,
                             lk_query_tile *tile, lk_tile_sums *all) {
    const uint32_t n_mine = LK_QUERIES * span / LK_CUDA_WIDE;
    switch (shape->k_format) {
    case LK_KV_FORMAT_F32:
        lk_tile_scores(LK_KV_FORMAT_F32, shape, chunk, tile);
        break;
    case LK_KV_FORMAT_F16:
        lk_tile_scores(LK_KV_FORMAT_F16, shape, chunk, tile);
        break;
    default:
        lk_tile_scores_q8_0(shape, chunk, tile);
        break;
    }
    lk_barrier();
    lk_tile_weights(shape, chunk, tile, all);
    lk_barrier();
    float o[LK_QUERIES];
    LK_UNROLL for (uint32_t i = 0; i < LK_QUERIES; i++) {
        o[i] = 0.0f;
    }
    switch (shape->v_format) {
    case LK_KV_FORMAT_F32:
        lk_tile_values(LK_KV_FORMAT_F32, span, shape, chunk, tile, o);
        break;
    case LK_KV_FORMAT_F16:
        lk_tile_values(LK_KV_FORMAT_F16, span, shape, chunk, tile, o);
        break;
    default:
        lk_tile_values(LK_KV_FORMAT_Q8_0, span, shape, chunk, tile, o);
        break;
    }
    LK_UNROLL for (uint32_t i = 0; i < n_mine; i++) {
        const uint32_t i_query = lk_thread() / span + i * (LK_CUDA_WIDE / span);
        if (tile->begin[i_query] < tile->end[i_query]) {
            const float o_c = o[i];
            const float folded = all->o[i] * tile->a[i_query] + o_c * tile->b[i_query];
            all->o[i] = tile->n_seen[i_query] == 1 ? o_c : folded;
        }
    }
    lk_barrier();
}

/* No chunk yet; a barrier follows before the first one. */
LK_DEVICE void lk_tile_begin(lk_query_tile *tile, lk_tile_sums *all) {
    if (lk_thread() % LK_WARP == 0) {
        tile->is_bad[lk_thread() / LK_WARP] = 0;
        tile->n_seen[lk_thread() / LK_WARP] = 0;
    }
    all->m = 0.0f;
    all->l = 0.0f;
    LK_UNROLL for (uint32_t i = 0; i < LK_QUERIES; i++) {
        all->o[i] = 0.0f;
    }
}

/* An element of the output: the head's sink (NULL: none) joins, then o / l. */
LK_DEVICE float lk_tile_end(float m, float l, float o, const float *sink) {
    if (sink == NULL) {
        return o / l;
    }
    const float larger = lk_larger(*sink, m);
    const float a = lk_expf(m - larger);
    const float b = lk_expf(*sink - larger);
    return (o * a) / (l * a + b);
}

#endif
