/* ops.h - one contract per operator: the signatures that scalar twins and kernels share.
 *
 * The scalar twin of operator X is lk_X_ref in X_ref.c: plain, no blocking, the definition of
 * docs/numerics.md in code. The CPU backend's table (backend/cpu/kernels.h) starts with the twins
 * and each instruction set overwrites what it has. Every version gives the same bits for the same
 * arguments.
 *
 * Common rules: pointers need no alignment beyond their element type; outputs never overlap inputs
 * unless an operator says so; `flag` is set to nonzero when a non-finite value is met (never
 * cleared); what a flagged call writes is in range but otherwise open. Everything is called in the
 * floating-point mode of base/fpenv.h. Nothing allocates. */
#ifndef LK_OPS_OPS_H
#define LK_OPS_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quant/format.h"

enum {
    LK_CHUNK = 64,         /* keys per attention chunk = positions per KV page */
    LK_SUBGROUP = 16,      /* activations per entry of lk_act_rows.sums */
    LK_MAX_HEAD_DIM = 256, /* head sizes are multiples of 8 up to this */
    LK_KV_GROUP = 32,      /* elements per scale of a q8_0 KV head; the last group may be shorter */
    LK_ATTN_MAX_QUERIES = 32
};

/* Rows of quantised activations (section 4 of numerics.md). Row r: q + r * q_stride,
 * d + r * (n / group), sums + r * (n / 16); sums are those of q over runs of 16. */
typedef struct lk_act_rows {
    const int8_t *q;
    const float *d;
    const int16_t *sums;
    size_t q_stride; /* at least n. The lines of a cache set are few: an odd multiple of 64 keeps
                        rows from meeting in one */
    size_t n;        /* activations per row, a multiple of group */
    uint32_t group;  /* 32 or 256 */
    size_t n_rows;
} lk_act_rows;

/* One row: n activations -> q [n], d [n / group], sums [n / 16]. n is a multiple of group. */
typedef void lk_act_quantize_fn(const float *x, size_t n, uint32_t group, int8_t *q, float *d,
                                int16_t *sums, uint32_t *flag);

/* How a row is rounded beside 16-bit weights (section 3). */
typedef enum lk_round_mode { LK_ROUND_13, LK_ROUND_16, LK_ROUND_16B } lk_round_mode;
/* One row: y[k] = r(x[k]). y may be x. */
typedef void lk_act_round_fn(const float *x, size_t n, lk_round_mode mode, float *y,
                             uint32_t *flag);

/* Quantised matrix product (section 5) for weight rows [o_begin, o_end): y[r * y_stride + o]. `w`
 * is row 0 of the matrix in the file's own layout, rows row_bytes apart (any alignment). */
typedef void lk_matmul_quant_fn(const lk_format *format, const uint8_t *w, size_t row_bytes,
                                size_t o_begin, size_t o_end, const lk_act_rows *x, float *y,
                                size_t y_stride);

/* The same from strips (quant/strip.h): `strips` holds those of all weight rows, one after the
 * other; o_begin is a multiple of 16. Behind the last weight row stand zeros up to a whole strip.
 */
typedef void lk_matmul_strip_fn(const lk_format *format, const uint8_t *strips, size_t o_begin,
                                size_t o_end, const lk_act_rows *x, float *y, size_t y_stride);

/* Unquantised matrix product (section 6): n columns; x rows already rounded for f16 and bf16. */
typedef void lk_matmul_float_fn(const uint8_t *w, size_t row_bytes, size_t n, size_t o_begin,
                                size_t o_end, const float *x, size_t x_stride, size_t n_rows,
                                float *y, size_t y_stride);

/* RMS norm of one vector of n. y may be x. */
typedef void lk_rms_norm_fn(const float *x, const float *w, float eps, size_t n, float *y,
                            uint32_t *flag);

/* Layer norm of one vector of n: mean and deviation, weight and bias. y may be x. */
typedef void lk_layer_norm_fn(const float *x, const float *w, const float *b, float eps, size_t n,
                              float *y, uint32_t *flag);

typedef enum lk_rope_order { LK_ROPE_NORMAL, LK_ROPE_NEOX } lk_rope_order;
/* Rotates the first n_rot elements of one head in place. cos_sin: n_rot / 2 pairs (cos, sin). */
typedef void lk_rope_fn(float *x, size_t n_rot, lk_rope_order order, const float *cos_sin);

/* Element-wise, n elements; y may be either input. The gated ones are products of an activation of
 * the gate and the other branch (section 7); clamping lets no infinity through unseen: inputs are
 * finite. */
typedef void lk_gated_fn(const float *gate, const float *up, size_t n, float *y);
typedef lk_gated_fn lk_silu_mul_fn;
typedef lk_gated_fn lk_gelu_mul_fn;
typedef lk_gated_fn lk_clamped_silu_mul_fn;
typedef void lk_add_fn(const float *a, const float *b, size_t n, float *y);
/* y = x * factor, y = tanh(x / cap) * cap; y may be x. */
typedef void lk_scale_fn(const float *x, float factor, size_t n, float *y);
typedef void lk_softcap_fn(const float *x, float cap, size_t n, float *y);
/* GELU by the error function; y may be x. */
typedef void lk_gelu_erf_fn(const float *x, size_t n, float *y);
/* y += weight * x (section 11). */
typedef void lk_scale_add_fn(const float *x, float weight, size_t n, float *y);

typedef enum lk_kv_format { LK_KV_FORMAT_F32, LK_KV_FORMAT_F16, LK_KV_FORMAT_Q8_0 } lk_kv_format;

/* Bytes of one (layer, kv head) block of a page: LK_CHUNK positions of head_dim.
 * f32, f16: [LK_CHUNK][head_dim]. q8_0: int8 [LK_CHUNK][head_dim], then binary32 scales
 * [LK_CHUNK][n_groups], n_groups = ceil(head_dim / LK_KV_GROUP). */
size_t lk_kv_block_bytes(lk_kv_format format, size_t head_dim);

/* Stores one head vector at position i_in_page of a block (section 9). */
typedef void lk_kv_store_fn(lk_kv_format format, const float *x, size_t head_dim, uint8_t *block,
                            size_t i_in_page, uint32_t *flag);

/* Attention (section 10) of n_queries query heads that share one sequence, layer and kv head: the
 * heads of a group, several rows of a prompt, or both. Chunk c of the keys is k_blocks[c], of the
 * values v_blocks[c] (each as lk_kv_block_bytes says). Query i sees keys first_key[i] ..
 * n_keys[i]-1, one at least; what lies outside is not used in any sum, and blocks of which no query
 * sees a key are not read (their pointers may be anything). Flags: a query that is not finite (also
 * after its rounding), a score that is not finite. Values are finite: kv_store saw to that. */
typedef struct lk_attn_args {
    lk_kv_format k_format;
    lk_kv_format v_format;
    size_t head_dim;
    float scale;
    const uint8_t *const *k_blocks;
    const uint8_t *const *v_blocks;
    size_t n_queries; /* 1 .. LK_ATTN_MAX_QUERIES */
    const float *q[LK_ATTN_MAX_QUERIES];
    float *out[LK_ATTN_MAX_QUERIES];
    size_t n_keys[LK_ATTN_MAX_QUERIES];
    uint32_t *flag[LK_ATTN_MAX_QUERIES];
    size_t first_key[LK_ATTN_MAX_QUERIES]; /* 0 without a window */
    float soft_cap;                        /* 0: none */
    bool has_sinks;
    float sink[LK_ATTN_MAX_QUERIES]; /* of the query's head, where has_sinks */
    /* In parts: only the chunks [chunk_begin, chunk_end), and out[i] is room for their parts, that
     * of chunk c from element (c - chunk_begin) * lk_attn_part_floats(head_dim) on. Chunks of which
     * the query sees no key get none. */
    bool in_parts;
    size_t chunk_begin;
    size_t chunk_end;
} lk_attn_args;
typedef void lk_attention_fn(const lk_attn_args *args);

/* A part is the sums of one query over one chunk, before any other chunk is added: m, l, then from
 * element LK_ATTN_PART_HEAD on o [head_dim]. Up to the end of a part more may be written. */
enum { LK_ATTN_PART_HEAD = 16 };
static inline size_t lk_attn_part_floats(size_t head_dim) {
    return LK_ATTN_PART_HEAD + (head_dim + 15) / 16 * 16;
}

/* The output of one query from its parts (steps 4 to 6 of section 10): those of all chunks of which
 * it sees keys, in order, lk_attn_part_floats apart. */
typedef struct lk_attn_parts {
    size_t head_dim;
    size_t n_parts; /* 1 or more */
    const float *parts;
    bool has_sink;
    float sink;
    float *out; /* [head_dim] */
} lk_attn_parts;
typedef void lk_attention_join_fn(const lk_attn_parts *parts);

/* Router of experts (section 11): n_experts logits -> ids ascending [n_used] and their weights. A
 * logit that is not finite flags; the ids are then distinct and in range, the weights 0. */
typedef void lk_route_fn(const float *logits, size_t n_experts, size_t n_used, int normalise,
                         int32_t *ids, float *weights, uint32_t *flag);

/* Nonzero when any of n values is infinite or NaN. */
typedef uint32_t lk_check_finite_fn(const float *x, size_t n);

/* The scalar twins. */
#define LK_OP(name) lk_##name##_fn lk_##name##_ref;
#define LK_OP_MATMUL_FLOAT(format) lk_matmul_float_fn lk_matmul_##format##_ref;
#include "ops/ops.def"
#undef LK_OP
#undef LK_OP_MATMUL_FLOAT

/* The float32-activation test mode (section 6): any format, decoded row by row. */
void lk_matmul_f32act_ref(const lk_format *format, const uint8_t *w, size_t row_bytes, size_t n,
                          size_t o_begin, size_t o_end, const float *x, size_t x_stride,
                          size_t n_rows, float *y, size_t y_stride);

#endif
