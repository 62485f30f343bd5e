/* launch.h - the shape in which each kernel of kernels.def is launched: what its code relies on.
 * Kernels take any grid that covers their work; no shape has an empty side. Shared memory is
 * static everywhere. Limits: at most 65535 * 8 rows in one launch. */
#ifndef LK_BACKEND_CUDA_KERN_LAUNCH_H
#define LK_BACKEND_CUDA_KERN_LAUNCH_H

#include <stdint.h>

#include "backend/cuda/kern/args.h"

/* How the queries of rows are cut into tiles: rows and query heads of one key head in a tile, and
 * tiles along those heads. */
typedef struct lk_cuda_query_split {
    uint32_t n_rows;
    uint32_t n_heads;
    uint32_t blocks;
} lk_cuda_query_split;

typedef struct lk_cuda_shape {
    uint32_t grid[3];
    uint32_t n_threads;
} lk_cuda_shape;

enum {
    LK_CUDA_WIDE = 256,      /* threads of an element-wise block; each has one element in turn */
    LK_CUDA_NORM = 128,      /* threads that share a norm */
    LK_CUDA_TILE = 32,       /* rows, and outputs, of a block of a product with floats */
    LK_CUDA_QUANT_TILE = 64, /* likewise with quantised weights */
    LK_CUDA_FEW_ROWS = 4,    /* likewise for few rows */
    LK_CUDA_FEW_OUTS = 8,
    LK_CUDA_FEW_FLOAT_OUTS = LK_CUDA_WIDE / 16,
    LK_CUDA_QUERIES = 8,   /* of a tile of attention */
    LK_CUDA_ATTENTION = 64 /* threads of a query: one for each key of a chunk */
};

static inline uint32_t lk_cuda_ceil(uint32_t n, uint32_t d) {
    return n / d + (n % d != 0 ? 1u : 0u);
}
static inline lk_cuda_query_split lk_cuda_split_queries(uint32_t n_heads, uint32_t n_kv_heads) {
    const uint32_t group = n_heads / n_kv_heads;
    lk_cuda_query_split split;
    split.n_heads = group < LK_CUDA_QUERIES ? group : LK_CUDA_QUERIES;
    split.n_rows = LK_CUDA_QUERIES / split.n_heads;
    split.blocks = (group + split.n_heads - 1) / split.n_heads;
    return split;
}
/* A grid of one block per row along x and per `columns` elements of it along y. */
static inline lk_cuda_shape lk_cuda_shape_rows(uint32_t n_rows, uint32_t width) {
    return (lk_cuda_shape){{n_rows, lk_cuda_ceil(width, LK_CUDA_WIDE), 1}, LK_CUDA_WIDE};
}

static inline lk_cuda_shape lk_cuda_shape_check(const lk_cuda_check_args *a) {
    return lk_cuda_shape_rows(a->n_rows, a->width);
}
static inline lk_cuda_shape lk_cuda_shape_act_round(const lk_cuda_round_args *a) {
    return lk_cuda_shape_rows(a->n_rows, a->width);
}
static inline lk_cuda_shape lk_cuda_shape_add(const lk_cuda_add_args *a) {
    return lk_cuda_shape_rows(a->n_rows, a->width);
}
static inline lk_cuda_shape lk_cuda_shape_gelu_erf(const lk_cuda_unary_args *a) {
    return lk_cuda_shape_rows(a->n_rows, a->width);
}
static inline lk_cuda_shape lk_cuda_shape_neighbours(const lk_cuda_neighbours_args *a) {
    return lk_cuda_shape_rows(a->n_rows, a->width * a->n_taps);
}
static inline lk_cuda_shape lk_cuda_shape_mean_of_two(const lk_cuda_mean_args *a) {
    return lk_cuda_shape_rows(a->n_rows, a->width);
}

/* A warp for each group. */
static inline lk_cuda_shape lk_cuda_shape_act_quantize(const lk_cuda_quantize_args *a) {
    const uint32_t n_groups = a->width / a->group;
    return (lk_cuda_shape){{a->n_rows, lk_cuda_ceil(n_groups, LK_CUDA_WIDE / 32), 1}, LK_CUDA_WIDE};
}

/* A block for each row. */
static inline lk_cuda_shape lk_cuda_shape_layer_norm(const lk_cuda_norm_args *a) {
    return (lk_cuda_shape){{a->n_rows, 1, 1}, LK_CUDA_NORM};
}

/* Matrix products: outputs along x, rows along y, matrices along z. */
static inline lk_cuda_shape lk_cuda_shape_tiles(const lk_cuda_matrix *m, uint32_t n_rows) {
    return (lk_cuda_shape){
        {lk_cuda_ceil(m->n_out, LK_CUDA_TILE), lk_cuda_ceil(n_rows, LK_CUDA_TILE), m->n_matrices},
        LK_CUDA_WIDE};
}
static inline lk_cuda_shape lk_cuda_shape_quant(const lk_cuda_matmul_quant_args *a) {
    return (lk_cuda_shape){{lk_cuda_ceil(a->m.n_out, LK_CUDA_QUANT_TILE),
                            lk_cuda_ceil(a->n_rows, LK_CUDA_QUANT_TILE), a->m.n_matrices},
                           LK_CUDA_WIDE};
}
static inline lk_cuda_shape lk_cuda_shape_few_floats(const lk_cuda_matrix *m, uint32_t n_rows) {
    return (lk_cuda_shape){{lk_cuda_ceil(m->n_out, LK_CUDA_FEW_FLOAT_OUTS),
                            lk_cuda_ceil(n_rows, LK_CUDA_FEW_ROWS), m->n_matrices},
                           LK_CUDA_WIDE};
}
static inline lk_cuda_shape lk_cuda_shape_few(const lk_cuda_matrix *m, uint32_t n_rows) {
    return (lk_cuda_shape){{lk_cuda_ceil(m->n_out, LK_CUDA_FEW_OUTS),
                            lk_cuda_ceil(n_rows, LK_CUDA_FEW_ROWS), m->n_matrices},
                           LK_CUDA_WIDE};
}
/* A block for each tile of queries. */
static inline lk_cuda_shape lk_cuda_shape_run_attention(const lk_cuda_run_attention_args *a) {
    const lk_cuda_query_split split = lk_cuda_split_queries(a->n_heads, a->n_kv_heads);
    return (lk_cuda_shape){{lk_cuda_ceil(a->n_rows, split.n_rows), a->n_kv_heads * split.blocks, 1},
                           LK_CUDA_WIDE};
}

static inline lk_cuda_shape lk_cuda_shape_embed(const lk_cuda_embed_args *a) {
    return lk_cuda_shape_rows(a->n_rows, a->width);
}
static inline lk_cuda_shape lk_cuda_shape_gather(const lk_cuda_gather_args *a) {
    return lk_cuda_shape_rows(a->n_rows, a->width);
}
static inline lk_cuda_shape lk_cuda_shape_rope(const lk_cuda_rope_args *a) {
    return lk_cuda_shape_rows(a->n_rows, a->width);
}
static inline lk_cuda_shape lk_cuda_shape_gated(const lk_cuda_gated_args *a) {
    return lk_cuda_shape_rows(a->n_rows, a->width);
}
static inline lk_cuda_shape lk_cuda_shape_scale(const lk_cuda_scale_args *a) {
    return lk_cuda_shape_rows(a->n_rows, a->width);
}
static inline lk_cuda_shape lk_cuda_shape_softcap(const lk_cuda_unary_args *a) {
    return lk_cuda_shape_rows(a->n_rows, a->width);
}
static inline lk_cuda_shape lk_cuda_shape_combine_experts(const lk_cuda_combine_args *a) {
    return lk_cuda_shape_rows(a->n_rows, a->width);
}

/* A block for each row and group of elements under one norm. */
static inline lk_cuda_shape lk_cuda_shape_rms_norm(const lk_cuda_norm_args *a) {
    return (lk_cuda_shape){{a->n_rows, a->width / a->group, 1}, LK_CUDA_NORM};
}

/* A block for each row, head, and of keys and values one. */
static inline lk_cuda_shape lk_cuda_shape_kv_store(const lk_cuda_kv_store_args *a) {
    return (lk_cuda_shape){{a->n_rows, a->kv.n_kv_heads, 2}, LK_CUDA_ATTENTION};
}

/* A block for each tile of queries; in parts, for each row, query head and chunk. */
static inline lk_cuda_shape lk_cuda_shape_attention(const lk_cuda_attention_args *a) {
    const lk_cuda_query_split split = lk_cuda_split_queries(a->n_heads, a->kv.n_kv_heads);
    return (lk_cuda_shape){
        {lk_cuda_ceil(a->n_rows, split.n_rows), a->kv.n_kv_heads * split.blocks, 1}, LK_CUDA_WIDE};
}
static inline lk_cuda_shape lk_cuda_shape_attention_parts(const lk_cuda_attention_args *a) {
    return (lk_cuda_shape){{a->max_chunks, a->n_heads, a->n_rows}, LK_CUDA_ATTENTION};
}
static inline lk_cuda_shape lk_cuda_shape_attention_join(const lk_cuda_attention_args *a) {
    return (lk_cuda_shape){{a->n_rows, a->n_heads, 1}, LK_CUDA_ATTENTION};
}

/* A warp for each row; one block. */
static inline lk_cuda_shape lk_cuda_shape_route(const lk_cuda_route_args *a) {
    return (lk_cuda_shape){{a->n_rows, 1, 1}, 32};
}
static inline lk_cuda_shape lk_cuda_shape_group_experts(const lk_cuda_group_args *a) {
    (void)a;
    return (lk_cuda_shape){{1, 1, 1}, LK_CUDA_WIDE};
}

#endif
