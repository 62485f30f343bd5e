/* attention_ref.c - attention over chunks of 64 keys (section 10): the definition, one query at a
 * time. Keys before first_key and from n_keys on are never read. */
#include <string.h>

#include "ops/attention_fold.h"
#include "ops/math.h"
#include "ops/ops.h"
#include "ops/twin.h"

enum { MAX_GROUPS = LK_MAX_HEAD_DIM / LK_KV_GROUP };

/* A query as its keys need it: as it is, rounded, or quantised. */
typedef struct attn_query {
    size_t head_dim;
    size_t n_groups;
    float x[LK_MAX_HEAD_DIM];
    int8_t q[LK_MAX_HEAD_DIM];
    float d[MAX_GROUPS];
} attn_query;

static size_t group_end(size_t k, size_t head_dim) {
    return head_dim - k < LK_KV_GROUP ? head_dim : k + LK_KV_GROUP;
}

static void prepare_query(attn_query *query, const float *x, size_t head_dim, lk_kv_format format,
                          uint32_t *flag) {
    query->head_dim = head_dim;
    query->n_groups = (head_dim + LK_KV_GROUP - 1) / LK_KV_GROUP;
    switch (format) {
    case LK_KV_FORMAT_F32:
        memcpy(query->x, x, head_dim * sizeof(float));
        break;
    case LK_KV_FORMAT_F16:
        lk_act_round_ref(x, head_dim, LK_ROUND_13, query->x, flag);
        break;
    case LK_KV_FORMAT_Q8_0:
        for (size_t k = 0; k < head_dim; k += LK_KV_GROUP) {
            if (!lk_quantize_group(x + k, group_end(k, head_dim) - k, query->q + k,
                                   &query->d[k / LK_KV_GROUP])) {
                *flag = 1;
            }
        }
        break;
    }
}

static float load_f32(const uint8_t *p) {
    float x;
    memcpy(&x, p, sizeof x);
    return x;
}

static float load_f16(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return lk_f16_to_f32(h);
}

static float score_q8_0(const attn_query *query, const uint8_t *block, size_t j) {
    const size_t head_dim = query->head_dim;
    const int8_t *const key = (const int8_t *)block + j * head_dim;
    const uint8_t *const scales = block + LK_CHUNK * head_dim + j * query->n_groups * sizeof(float);
    float acc = 0.0f;
    for (size_t g = 0; g < query->n_groups; g++) {
        int32_t sum = 0;
        for (size_t k = g * LK_KV_GROUP; k < group_end(g * LK_KV_GROUP, head_dim); k++) {
            sum += key[k] * query->q[k];
        }
        acc = acc + (load_f32(scales + g * sizeof(float)) * query->d[g]) * (float)sum;
    }
    return acc;
}

/* The product of the query with key j of the block, before the scale. */
static float score(const attn_query *query, lk_kv_format format, const uint8_t *block, size_t j) {
    const size_t head_dim = query->head_dim;
    float key[LK_MAX_HEAD_DIM];
    switch (format) {
    case LK_KV_FORMAT_F32:
        memcpy(key, block + j * head_dim * sizeof(float), head_dim * sizeof(float));
        break;
    case LK_KV_FORMAT_F16:
        for (size_t k = 0; k < head_dim; k++) {
            key[k] = load_f16(block + (j * head_dim + k) * sizeof(uint16_t));
        }
        break;
    case LK_KV_FORMAT_Q8_0:
        return score_q8_0(query, block, j);
    }
    return lk_sum16_dot(query->x, key, head_dim);
}

/* out += p * value j of the block. */
static void add_value(float p, lk_kv_format format, const uint8_t *block, size_t j, size_t head_dim,
                      float *out) {
    switch (format) {
    case LK_KV_FORMAT_F32:
        for (size_t k = 0; k < head_dim; k++) {
            out[k] = out[k] + p * load_f32(block + (j * head_dim + k) * sizeof(float));
        }
        break;
    case LK_KV_FORMAT_F16:
        p = lk_round13(p);
        for (size_t k = 0; k < head_dim; k++) {
            out[k] = out[k] + p * load_f16(block + (j * head_dim + k) * sizeof(uint16_t));
        }
        break;
    case LK_KV_FORMAT_Q8_0: {
        const size_t n_groups = (head_dim + LK_KV_GROUP - 1) / LK_KV_GROUP;
        const int8_t *const value = (const int8_t *)block + j * head_dim;
        const uint8_t *const scales = block + LK_CHUNK * head_dim + j * n_groups * sizeof(float);
        for (size_t k = 0; k < head_dim; k++) {
            const float d = load_f32(scales + k / LK_KV_GROUP * sizeof(float));
            out[k] = out[k] + lk_round16(p * d) * (float)value[k];
        }
        break;
    }
    }
}

/* Keys [begin, end) of chunk i_chunk. */
static void attend_chunk(const lk_attn_args *args, const attn_query *query, size_t i_chunk,
                         size_t begin, size_t end, lk_attn_fold *c, uint32_t *flag) {
    const uint8_t *const keys = args->k_blocks[i_chunk];
    const uint8_t *const values = args->v_blocks[i_chunk];
    float s[LK_CHUNK];
    c->m = 0.0f;
    for (size_t j = begin; j < end; j++) {
        s[j] = score(query, args->k_format, keys, j) * args->scale;
        if (!lk_is_finite_f32(s[j])) {
            *flag = 1;
        }
        if (args->soft_cap != 0.0f) {
            s[j] = lk_tanhf(s[j] / args->soft_cap) * args->soft_cap;
        }
        c->m = j == begin || s[j] > c->m ? s[j] : c->m;
    }
    float p[LK_SUM_LANES] = {0.0f};
    memset(c->o, 0, args->head_dim * sizeof(float));
    for (size_t j = begin; j < end; j++) {
        const float e = lk_expf(s[j] - c->m);
        p[j % LK_SUM_LANES] = p[j % LK_SUM_LANES] + e;
        add_value(e, args->v_format, values, j, args->head_dim, c->o);
    }
    c->l = lk_sum16_tree(p);
}

/* Puts a part where the caller wants that of chunk c. */
static void store_part(const lk_attn_args *args, size_t i, size_t c, const lk_attn_fold *chunk) {
    float *const part =
        args->out[i] + (c - args->chunk_begin) * lk_attn_part_floats(args->head_dim);
    part[0] = chunk->m;
    part[1] = chunk->l;
    memcpy(part + LK_ATTN_PART_HEAD, chunk->o, args->head_dim * sizeof(float));
}

static void attend(const lk_attn_args *args, size_t i) {
    const size_t first = args->first_key[i];
    const size_t end = args->n_keys[i];
    attn_query query;
    prepare_query(&query, args->q[i], args->head_dim, args->k_format, args->flag[i]);
    lk_attn_fold all = {0}; /* without keys 0 / 0, which no caller asks for */
    for (size_t c = first / LK_CHUNK; c * LK_CHUNK < end; c++) {
        const size_t at = c * LK_CHUNK;
        const bool is_first = first >= at;
        if (args->in_parts && (c < args->chunk_begin || c >= args->chunk_end)) {
            continue;
        }
        lk_attn_fold chunk = {0};
        attend_chunk(args, &query, c, is_first ? first - at : 0,
                     end - at < LK_CHUNK ? end - at : LK_CHUNK, &chunk, args->flag[i]);
        if (args->in_parts) {
            store_part(args, i, c, &chunk);
        } else if (is_first) {
            all = chunk;
        } else {
            lk_attn_fold_chunk(&all, &chunk, args->head_dim);
        }
    }
    if (!args->in_parts) {
        lk_attn_fold_end(&all, args->has_sinks ? &args->sink[i] : NULL, args->head_dim,
                         args->out[i]);
    }
}

void lk_attention_ref(const lk_attn_args *args) {
    for (size_t i = 0; i < args->n_queries; i++) {
        attend(args, i);
    }
}
