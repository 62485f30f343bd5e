/* paged_attention.cu - attention over the pages of sequences (section 10): tiles of queries, chunks
 * of 64 keys in order; or, for few rows, each chunk by a block of its own and the parts joined. */
#include "backend/cuda/kern/attention_sums.h"
#include "backend/cuda/kern/attention_tile.h"
#include "backend/cuda/kern/flags.h"
#include "backend/cuda/kern/head_groups.h"

enum { MAX_GROUPS = LK_MAX_HEAD_DIM / LK_KV_GROUP };

/* A query as its keys need it: as it is, rounded, or quantised; shared. */
typedef struct query {
    float x[LK_MAX_HEAD_DIM];
    uint32_t q[LK_MAX_HEAD_DIM / 4];
    float d[MAX_GROUPS];
} query;

LK_DEVICE void prepare_query(const lk_cuda_attention_args *a, uint32_t row, uint32_t head,
                             query *to) {
    const uint32_t n = a->kv.head_dim;
    const float *const x = a->q + ((size_t)row * a->n_heads + head) * n;
    if (a->kv.k_format == LK_KV_FORMAT_Q8_0) {
        if (lk_quantize_head(x, n, (int8_t *)(void *)to->q, to->d)) {
            lk_note(&a->flags, row);
        }
        return;
    }
    for (uint32_t k = lk_thread(); k < n; k += LK_CUDA_ATTENTION) {
        const float v = x[k];
        to->x[k] = v;
        if (a->kv.k_format == LK_KV_FORMAT_F16) {
            to->x[k] = lk_round13(v);
            if (!(v < LK_ROUND13_LIMIT && v > -LK_ROUND13_LIMIT)) {
                lk_note(&a->flags, row);
            }
        }
    }
}

LK_DEVICE float read_key(uint32_t format, const uint8_t *key, uint32_t k) {
    return format == LK_KV_FORMAT_F32 ? ((const float *)(const void *)key)[k]
                                      : lk_half(((const uint16_t *)(const void *)key)[k]);
}

/* The S16 of q * k; head sizes are multiples of 8. */
LK_DEVICE float dot(uint32_t format, const query *q, const uint8_t *key, uint32_t n) {
    float p[LK_SUM_LANES];
    LK_UNROLL for (uint32_t j = 0; j < LK_SUM_LANES; j++) {
        p[j] = 0.0f;
    }
    for (uint32_t k = 0; k < n; k += LK_SUM_LANES) {
        LK_UNROLL for (uint32_t j = 0; j < LK_SUM_LANES; j++) {
            if (j < 8 || k + 8 < n) {
                const float v = read_key(format, key, k + j);
                p[j] = format == LK_KV_FORMAT_F32 ? p[j] + q->x[k + j] * v
                                                  : lk_fma_exact(q->x[k + j], v, p[j]);
            }
        }
    }
    return lk_sum16_tree(p);
}

LK_DEVICE float dot_groups(const query *q, const uint8_t *block, uint32_t j, uint32_t n) {
    const uint32_t n_groups = lk_head_groups(n);
    const uint32_t *const key = (const uint32_t *)(const void *)(block + (size_t)j * n);
    const float *const d =
        (const float *)(const void *)(block + (size_t)LK_CHUNK * n) + j * n_groups;
    float acc = 0.0f;
    for (uint32_t g = 0; g < n_groups; g++) {
        int32_t sum = 0;
        for (uint32_t i = g * 8; i < (g + 1) * 8 && i < n / 4; i++) {
            sum = lk_dp4a(key[i], q->q[i], sum);
        }
        acc = acc + (d[g] * q->d[g]) * (float)sum;
    }
    return acc;
}

/* The product of the query with key j of a block. */
LK_DEVICE float score(uint32_t format, const query *q, const uint8_t *block, uint32_t j,
                      uint32_t n) {
    switch (format) {
    case LK_KV_FORMAT_F32:
        return dot(LK_KV_FORMAT_F32, q, block + (size_t)j * n * sizeof(float), n);
    case LK_KV_FORMAT_F16:
        return dot(LK_KV_FORMAT_F16, q, block + (size_t)j * n * sizeof(uint16_t), n);
    default:
        return dot_groups(q, block, j, n);
    }
}

/* Element k of the sum of p_j * v_j over keys [begin, end) of a block. */
LK_DEVICE float weigh(uint32_t format, const float *p, const uint8_t *block, uint32_t begin,
                      uint32_t end, uint32_t n, uint32_t k) {
    float o = 0.0f;
    if (format == LK_KV_FORMAT_F32) {
        const float *const v = (const float *)(const void *)block + k;
        for (uint32_t j = begin; j < end; j++) {
            o = o + p[j] * v[(size_t)j * n];
        }
    } else if (format == LK_KV_FORMAT_F16) {
        const uint16_t *const v = (const uint16_t *)(const void *)block + k;
        for (uint32_t j = begin; j < end; j++) {
            o = lk_fma_exact(lk_round13(p[j]), lk_half(v[(size_t)j * n]), o);
        }
    } else {
        const int8_t *const v = (const int8_t *)block + k;
        const uint32_t n_groups = lk_head_groups(n);
        const float *const d =
            (const float *)(const void *)(block + (size_t)LK_CHUNK * n) + k / LK_KV_GROUP;
        for (uint32_t j = begin; j < end; j++) {
            o = lk_fma_exact(lk_round16(p[j] * d[j * n_groups]), (float)v[(size_t)j * n], o);
        }
    }
    return o;
}

/* The first position that the row sees. */
LK_DEVICE uint32_t first_key(const lk_cuda_attention_args *a, uint32_t row) {
    const uint32_t pos = a->kv.pos[row];
    return a->window != 0 && pos >= a->window ? pos + 1 - a->window : 0;
}

/* Chunk c of the keys of a query that is prepared, after a barrier. */
LK_DEVICE lk_attention_sums attend(const lk_cuda_attention_args *a, uint32_t row, uint32_t head,
                                   uint32_t c, const query *q, lk_attention_chunk *chunk) {
    const uint32_t kv_head = head / (a->n_heads / a->kv.n_kv_heads);
    const uint8_t *const keys = lk_head_block(&a->kv, row, c, kv_head, false);
    const uint8_t *const values = lk_head_block(&a->kv, row, c, kv_head, true);
    const uint32_t first = first_key(a, row);
    const uint32_t left = a->kv.pos[row] + 1 - c * LK_CHUNK;
    const uint32_t begin = first > c * LK_CHUNK ? first - c * LK_CHUNK : 0;
    const uint32_t end = left < LK_CHUNK ? left : LK_CHUNK;
    const uint32_t j = lk_thread();
    if (j >= begin && j < end) {
        const float s = score(a->kv.k_format, q, keys, j, a->kv.head_dim) * a->scale;
        lk_check(&a->flags, row, s);
        chunk->s[j] = lk_bend(s, a->soft_cap);
    }
    lk_barrier();
    lk_attention_sums sums = lk_attention_weights(chunk, begin, end);
    LK_UNROLL for (uint32_t i = 0; i < LK_ATTENTION_ELEMS; i++) {
        const uint32_t k = j + i * LK_CUDA_ATTENTION;
        if (k < a->kv.head_dim) {
            sums.o[i] = weigh(a->kv.v_format, chunk->p, values, begin, end, a->kv.head_dim, k);
        }
    }
    return sums;
}

LK_DEVICE void give_out(const lk_cuda_attention_args *a, uint32_t row, uint32_t head,
                        lk_attention_sums *all) {
    float *const y = a->y + ((size_t)row * a->n_heads + head) * a->kv.head_dim;
    lk_attention_end(all, a->sinks != NULL ? &a->sinks[head] : NULL);
    LK_UNROLL for (uint32_t i = 0; i < LK_ATTENTION_ELEMS; i++) {
        const uint32_t k = lk_thread() + i * LK_CUDA_ATTENTION;
        if (k < a->kv.head_dim) {
            y[k] = all->o[i];
            lk_check(&a->flags, row, all->o[i]);
        }
    }
}

/* The queries of a block: rows [row, row_end) of one sequence times heads [head, head_end). */
typedef struct query_block {
    uint32_t row;
    uint32_t row_end;
    uint32_t head;
    uint32_t n_heads;
} query_block;

/* Which keys of chunk c query i of the tile sees; by one thread for each query. */
LK_DEVICE void set_range(const lk_cuda_attention_args *a, const query_block *b, uint32_t i,
                         uint32_t c, lk_query_tile *tile) {
    const uint32_t row = b->row + i / b->n_heads;
    tile->begin[i] = 0;
    tile->end[i] = 0;
    if (row < b->row_end) {
        const uint32_t first = first_key(a, row);
        const uint32_t end = a->kv.pos[row] + 1;
        const uint32_t at = c * LK_CHUNK;
        if (first < at + LK_CHUNK && end > at) {
            tile->begin[i] = first > at ? first - at : 0;
            tile->end[i] = end - at < LK_CHUNK ? end - at : LK_CHUNK;
        }
    }
}

LK_DEVICE lk_key_chunk paged_chunk(const lk_cuda_attention_args *a, const query_block *b,
                                   uint32_t c) {
    const uint32_t kv_head = b->head / (a->n_heads / a->kv.n_kv_heads);
    const uint32_t n = a->kv.head_dim;
    const uint32_t first = first_key(a, b->row);
    const uint32_t end = a->kv.pos[b->row_end - 1] + 1;
    lk_key_chunk chunk;
    chunk.k = lk_head_block(&a->kv, b->row, c, kv_head, false);
    chunk.v = lk_head_block(&a->kv, b->row, c, kv_head, true);
    chunk.k_stride = (size_t)n * lk_kv_elem_bytes(a->kv.k_format);
    chunk.v_stride = (size_t)n * lk_kv_elem_bytes(a->kv.v_format);
    chunk.k_d = (const float *)(const void *)(chunk.k + (size_t)LK_CHUNK * n);
    chunk.v_d = (const float *)(const void *)(chunk.v + (size_t)LK_CHUNK * n);
    chunk.begin = first > c * LK_CHUNK ? first - c * LK_CHUNK : 0;
    chunk.end = end - c * LK_CHUNK < LK_CHUNK ? end - c * LK_CHUNK : LK_CHUNK;
    return chunk;
}

LK_DEVICE void attend_block(const lk_cuda_attention_args *a, uint32_t span, const query_block *b,
                            lk_query_tile *tile) {
    lk_tile_shape shape;
    shape.k_format = a->kv.k_format;
    shape.v_format = a->kv.v_format;
    shape.head_dim = a->kv.head_dim;
    shape.scale = a->scale;
    shape.soft_cap = a->soft_cap;
    const uint32_t my_query = lk_thread() / LK_WARP;
    const uint32_t my_row = b->row + my_query / b->n_heads;
    lk_tile_sums all;
    lk_tile_begin(tile, &all);
    lk_barrier();
    if (my_row < b->row_end) {
        const uint32_t head = b->head + my_query % b->n_heads;
        const size_t at = ((size_t)my_row * a->n_heads + head) * shape.head_dim;
        lk_query_prepare(&shape, a->q + at, my_query, tile);
    }
    for (uint32_t c = first_key(a, b->row) / LK_CHUNK; c <= a->kv.pos[b->row_end - 1] / LK_CHUNK;
         c++) {
        if (lk_thread() % LK_WARP == 0) {
            set_range(a, b, my_query, c, tile);
        }
        lk_barrier();
        const lk_key_chunk chunk = paged_chunk(a, b, c);
        lk_tile_chunk(span, &shape, &chunk, tile, &all);
    }
    const uint32_t k = lk_thread() % span;
    LK_UNROLL for (uint32_t i = 0; i < LK_QUERIES * span / LK_CUDA_WIDE; i++) {
        const uint32_t i_query = lk_thread() / span + i * (LK_CUDA_WIDE / span);
        const uint32_t row = b->row + i_query / b->n_heads;
        if (row < b->row_end && k < shape.head_dim) {
            const uint32_t head = b->head + i_query % b->n_heads;
            const float y = lk_tile_end(tile->m[i_query], tile->l[i_query], all.o[i],
                                        a->sinks != NULL ? &a->sinks[head] : NULL);
            a->y[((size_t)row * a->n_heads + head) * shape.head_dim + k] = y;
            lk_check(&a->flags, row, y);
            if (k == 0 && tile->is_bad[i_query] != 0) {
                lk_note(&a->flags, row);
            }
        }
    }
    lk_barrier();
}

/* Rows of several sequences in a block have their turns. */
LK_KERNEL(attention, lk_cuda_attention_args) {
    LK_SHARED lk_query_tile tile;
    const lk_cuda_query_split split = lk_cuda_split_queries(a.n_heads, a.kv.n_kv_heads);
    const uint32_t group = a.n_heads / a.kv.n_kv_heads;
    const uint32_t kv_head = lk_block_y() / split.blocks;
    const uint32_t in_group = lk_block_y() % split.blocks * split.n_heads;
    const uint32_t left = group - in_group;
    query_block b;
    b.head = kv_head * group + in_group;
    b.n_heads = left < split.n_heads ? left : split.n_heads;
    b.row = lk_block_x() * split.n_rows;
    const uint32_t end = b.row + split.n_rows < a.n_rows ? b.row + split.n_rows : a.n_rows;
    while (b.row < end) {
        b.row_end = b.row + 1;
        while (b.row_end < end && a.kv.first[b.row_end] == a.kv.first[b.row] &&
               a.kv.pos[b.row_end] > a.kv.pos[b.row_end - 1]) {
            b.row_end++;
        }
        if (a.kv.head_dim <= 64) {
            attend_block(&a, 64, &b, &tile);
        } else if (a.kv.head_dim <= 128) {
            attend_block(&a, 128, &b, &tile);
        } else {
            attend_block(&a, 256, &b, &tile);
        }
        b.row = b.row_end;
    }
}

LK_DEVICE float *part_of(const lk_cuda_attention_args *a, uint32_t row, uint32_t head, uint32_t i) {
    const size_t i_part = ((size_t)row * a->n_heads + head) * a->max_chunks + i;
    return a->parts + i_part * lk_attn_part_floats(a->kv.head_dim);
}

LK_KERNEL(attention_parts, lk_cuda_attention_args) {
    LK_SHARED query q;
    LK_SHARED lk_attention_chunk chunk;
    const uint32_t row = lk_block_z();
    const uint32_t head = lk_block_y();
    const uint32_t c = first_key(&a, row) / LK_CHUNK + lk_block_x();
    if (c > a.kv.pos[row] / LK_CHUNK) {
        return;
    }
    prepare_query(&a, row, head, &q);
    lk_barrier();
    const lk_attention_sums sums = attend(&a, row, head, c, &q, &chunk);
    float *const part = part_of(&a, row, head, lk_block_x());
    if (lk_thread() == 0) {
        part[0] = sums.m;
        part[1] = sums.l;
    }
    LK_UNROLL for (uint32_t i = 0; i < LK_ATTENTION_ELEMS; i++) {
        const uint32_t k = lk_thread() + i * LK_CUDA_ATTENTION;
        if (k < a.kv.head_dim) {
            part[LK_ATTN_PART_HEAD + k] = sums.o[i];
        }
    }
}

LK_KERNEL(attention_join, lk_cuda_attention_args) {
    const uint32_t row = lk_block_x();
    const uint32_t head = lk_block_y();
    const uint32_t n = a.kv.pos[row] / LK_CHUNK + 1 - first_key(&a, row) / LK_CHUNK;
    lk_attention_sums all = lk_attention_nothing();
    for (uint32_t c = 0; c < n; c++) {
        const float *const part = part_of(&a, row, head, c);
        lk_attention_sums sums = lk_attention_nothing();
        sums.m = part[0];
        sums.l = part[1];
        LK_UNROLL for (uint32_t i = 0; i < LK_ATTENTION_ELEMS; i++) {
            const uint32_t k = lk_thread() + i * LK_CUDA_ATTENTION;
            if (k < a.kv.head_dim) {
                sums.o[i] = part[LK_ATTN_PART_HEAD + k];
            }
        }
        lk_attention_fold(&all, &sums, c == 0);
    }
    give_out(&a, row, head, &all);
}
