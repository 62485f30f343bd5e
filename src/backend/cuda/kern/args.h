/* args.h - the one parameter of each kernel, a struct that host and card share. Pointers are the
 * card's. Shapes: a value of a graph is [n_rows][width] without gaps.
 *
 * Common rules: row-wise kernels (x -> y) take y == x. Every kernel that makes a value checks it
 * and notes rows that hold one that is not finite. Sizes that a kernel cannot do are refused by
 * the host before: launch.h names them. */
#ifndef LK_BACKEND_CUDA_KERN_ARGS_H
#define LK_BACKEND_CUDA_KERN_ARGS_H

#include <stdint.h>

enum {
    LK_CUDA_CLEAN = -1,    /* as int32_t: what lk_cuda_flags.bad holds for a clean row */
    LK_CUDA_PADDING = 16,  /* bytes that may be read behind a weight's last one */
    LK_CUDA_MAX_USED = 256 /* experts of a row, at most */
};

/* Where non-finite values are noted: for each row of the step the smallest `node` that met one.
 * Nodes run in the order of their numbers, so that is the first one. */
typedef struct lk_cuda_flags {
    uint32_t *bad;
    const uint32_t *step_row; /* the row of the step behind row r; NULL: r itself */
    uint32_t node;
} lk_cuda_flags;

/* Checks rows that are there already: embeddings that came in, keys and values of a run. */
typedef struct lk_cuda_check_args {
    const float *x;
    uint32_t n_rows;
    uint32_t width;
    lk_cuda_flags flags;
} lk_cuda_check_args;

/* Operands beside 16-bit weights (section 3 of docs/numerics.md). mode: lk_round_mode. */
typedef struct lk_cuda_round_args {
    const float *x;
    float *y;
    uint32_t n_rows;
    uint32_t width;
    uint32_t mode;
    lk_cuda_flags flags;
} lk_cuda_round_args;

/* The quantiser (section 4): q [n_rows][width], d [n_rows][width / group], sums
 * [n_rows][width / 16]. group: 32 or 256; q is aligned to 16 bytes. */
typedef struct lk_cuda_quantize_args {
    const float *x;
    int8_t *q;
    float *d;
    int16_t *sums;
    uint32_t n_rows;
    uint32_t width;
    uint32_t group;
    lk_cuda_flags flags;
} lk_cuda_quantize_args;

/* Matrix products: y[r][o] for n_out weight rows of n elements, row_bytes apart. The number of
 * `first` says which rows belong to which matrix where there are several (experts): matrix e, which
 * lies at w + e * matrix_bytes, multiplies rows first[e] .. first[e + 1] - 1. NULL: one matrix, all
 * rows. */
typedef struct lk_cuda_matrix {
    const uint8_t *w;
    uint64_t row_bytes;
    uint64_t matrix_bytes;
    const uint32_t *first;
    uint32_t n_matrices; /* 1 where first is NULL */
    uint32_t n;
    uint32_t n_out;
} lk_cuda_matrix;

typedef struct lk_cuda_matmul_args {
    lk_cuda_matrix m;
    const float *x; /* [n_rows][n], rounded for f16 and bf16; aligned to 16 bytes */
    float *y;       /* [n_rows][y_stride] */
    uint32_t y_stride;
    uint32_t n_rows;
    lk_cuda_flags flags;
} lk_cuda_matmul_args;

typedef struct lk_cuda_matmul_quant_args {
    lk_cuda_matrix m;
    const int8_t *q; /* as lk_cuda_quantize_args makes them */
    const float *d;
    const int16_t *sums;
    float *y;
    uint32_t y_stride;
    uint32_t n_rows;
    lk_cuda_flags flags;
} lk_cuda_matmul_quant_args;

/* y[r] = x[r] + b[b_rows[r]]: residual (b_rows NULL: row r), position (rows of the table), bias
 * (b_stride 0). */
typedef struct lk_cuda_add_args {
    const float *x;
    const float *b;
    const uint32_t *b_rows;
    float *y;
    uint32_t b_stride;
    uint32_t n_rows;
    uint32_t width;
    lk_cuda_flags flags;
} lk_cuda_add_args;

typedef struct lk_cuda_unary_args {
    const float *x;
    float *y;
    uint32_t n_rows;
    uint32_t width;
    float factor; /* scale, soft cap */
    lk_cuda_flags flags;
} lk_cuda_unary_args;

typedef struct lk_cuda_norm_args {
    const float *x;
    const float *w; /* [group] */
    const float *b; /* layer norm only */
    float *y;
    float eps;
    uint32_t n_rows;
    uint32_t width;
    uint32_t group; /* elements per norm; layer norm: the width */
    lk_cuda_flags flags;
} lk_cuda_norm_args;

/* Output row r of a convolution along the rows: the input rows around `centre`, zeros outside
 * [begin, end). */
typedef struct lk_cuda_neighbour_row {
    int32_t centre;
    int32_t begin;
    int32_t end;
} lk_cuda_neighbour_row;
typedef struct lk_cuda_neighbours_args {
    const float *x; /* [..][width] */
    float *y;       /* [n_rows][width * n_taps] */
    const lk_cuda_neighbour_row *rows;
    uint32_t n_rows;
    uint32_t width;
    uint32_t n_taps;
} lk_cuda_neighbours_args;

/* y[r] = (x[from[r]] + x[from[r] + 1]) * 0.5 */
typedef struct lk_cuda_mean_args {
    const float *x;
    float *y;
    const uint32_t *from;
    uint32_t n_rows;
    uint32_t width;
    lk_cuda_flags flags;
} lk_cuda_mean_args;

/* Attention among the rows of a run (sections 10 and 17): row r sees the rows
 * [rows[r].begin, rows[r].end), its own run. q and y [n_rows][n_heads][head_dim], k and v
 * [..][n_kv_heads][head_dim]. */
typedef struct lk_cuda_run_row {
    uint32_t begin;
    uint32_t end;
} lk_cuda_run_row;
typedef struct lk_cuda_run_attention_args {
    const float *q;
    const float *k;
    const float *v;
    float *y;
    const lk_cuda_run_row *rows;
    uint32_t n_rows;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    float scale;
    float soft_cap; /* 0: none */
    lk_cuda_flags flags;
} lk_cuda_run_attention_args;

/* ---- text models ---- */

/* Row r is the decoded row from[r] of the table, or, for from[r] < 0, row -1 - from[r] of
 * `embeddings`. type: of the table, any supported one. */
typedef struct lk_cuda_embed_args {
    const uint8_t *table;
    uint64_t row_bytes;
    uint32_t type;
    const int32_t *from;
    const float *embeddings;
    float *y;
    uint32_t n_rows;
    uint32_t width;
    lk_cuda_flags flags;
} lk_cuda_embed_args;

/* y[r] = x[rows[r]]; nothing is checked. */
typedef struct lk_cuda_gather_args {
    const float *x;
    const uint32_t *rows;
    float *y;
    uint32_t n_rows;
    uint32_t width;
} lk_cuda_gather_args;

/* Rows are heads of head_dim; of each the first n_rot elements are rotated, the rest copied.
 * cos_sin [n_rows][n_rot]. order: lk_rope_order. */
typedef struct lk_cuda_rope_args {
    const float *x;
    float *y;
    const float *cos_sin;
    uint32_t n_rows;
    uint32_t width;
    uint32_t head_dim;
    uint32_t n_rot;
    uint32_t order;
    lk_cuda_flags flags;
} lk_cuda_rope_args;

/* Gated activations; y may be gate. */
typedef enum lk_cuda_gated_kind {
    LK_CUDA_SILU,
    LK_CUDA_GELU,
    LK_CUDA_CLAMPED_SILU
} lk_cuda_gated_kind;
typedef struct lk_cuda_gated_args {
    const float *gate;
    const float *up;
    float *y;
    uint32_t kind;
    uint32_t n_rows;
    uint32_t width;
    lk_cuda_flags flags;
} lk_cuda_gated_args;

/* y[r] = x[r] * the logistic of gates[r] (row gate), or * factors[r] (temperature), or * factor:
 * the first of these that is not NULL. */
typedef struct lk_cuda_scale_args {
    const float *x;
    float *y;
    const float *gates;
    const float *factors;
    float factor;
    uint32_t n_rows;
    uint32_t width;
    lk_cuda_flags flags;
} lk_cuda_scale_args;

/* The keys and values of one layer: page p lies at pages + p * page_bytes, in it from `offset` on
 * the key blocks of the layer's heads, then the value blocks (lk_kv_block_bytes). Row r is at
 * position pos[r] of a sequence whose page of the positions 64 c .. is table[first[r] + c]. */
typedef struct lk_cuda_kv {
    uint8_t *pages;
    uint64_t page_bytes;
    uint64_t offset;
    const uint32_t *table;
    const uint32_t *first;
    const uint32_t *pos;
    uint32_t k_format; /* lk_kv_format */
    uint32_t v_format;
    uint32_t n_kv_heads;
    uint32_t head_dim;
} lk_cuda_kv;

/* k, v: [n_rows][n_kv_heads][head_dim]. pages and page_bytes are aligned to 16 bytes. */
typedef struct lk_cuda_kv_store_args {
    lk_cuda_kv kv;
    const float *k;
    const float *v;
    uint32_t n_rows;
    lk_cuda_flags flags;
} lk_cuda_kv_store_args;

/* Attention of every row over what its sequence has stored, its own position included. q, y:
 * [n_rows][n_heads][head_dim]. In parts, for few rows with long contexts: attention_parts leaves
 * for chunk c of row r and head h a part (lk_attn_part_floats) at
 * parts + ((r * n_heads + h) * max_chunks + c - first chunk that the row sees) * its length;
 * attention_join makes y of them. max_chunks: that any row sees. */
typedef struct lk_cuda_attention_args {
    lk_cuda_kv kv;
    const float *q;
    float *y;
    const float *sinks; /* [n_heads], or NULL */
    uint32_t n_rows;
    uint32_t n_heads;
    uint32_t window; /* 0: none */
    float scale;
    float soft_cap; /* 0: none */
    float *parts;
    uint32_t max_chunks;
    lk_cuda_flags flags;
} lk_cuda_attention_args;

/* ---- experts ---- */

/* ids [n_rows][n_used] ascending, and their weights. n_used <= LK_CUDA_MAX_USED. */
typedef struct lk_cuda_route_args {
    const float *logits; /* [n_rows][n_experts] */
    int32_t *ids;
    float *weights;
    uint32_t n_rows;
    uint32_t n_experts;
    uint32_t n_used;
    uint32_t normalise;
    lk_cuda_flags flags;
} lk_cuda_route_args;

/* Sorts the assignments (row r, its i-th expert), n = n_rows * n_used of them, by expert, in the
 * order of the rows: assignment r * n_used + i gets place slot[..]; of place s row_of[s] is the
 * row, step_row_of[s] the row of the step behind it, expert_of[s] the expert; those of expert e are
 * first[e] .. first[e + 1] - 1. One block. */
typedef struct lk_cuda_group_args {
    const int32_t *ids;
    const uint32_t *step_row; /* as in lk_cuda_flags, of the rows */
    uint32_t *first;          /* [n_experts + 1] */
    uint32_t *slot;
    uint32_t *row_of;
    uint32_t *step_row_of;
    uint32_t *expert_of;
    uint32_t n_rows;
    uint32_t n_used;
    uint32_t n_experts;
} lk_cuda_group_args;

/* y[r] = the sum over i of weights[r][i] * x[slot[r][i]], i ascending. */
typedef struct lk_cuda_combine_args {
    const float *x; /* [n][width] by place */
    const uint32_t *slot;
    const float *weights;
    float *y;
    uint32_t n_rows;
    uint32_t n_used;
    uint32_t width;
    lk_cuda_flags flags;
} lk_cuda_combine_args;

#endif
