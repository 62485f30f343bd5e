/* run_attention.cu - attention among all rows of a run (sections 10 and 17), keys and values in
 * binary32 where the values of the graph lie: tiles of queries (attention_tile.h), chunks of 64
 * keys in order. */
#include "backend/cuda/kern/attention_tile.h"

/* Rows [row, row_end) of one run times n_heads heads from `head` on. */
LK_DEVICE void attend_run(const lk_cuda_run_attention_args *a, uint32_t span, uint32_t row,
                          uint32_t row_end, uint32_t head, uint32_t n_heads, lk_query_tile *tile) {
    const uint32_t n = a->head_dim;
    const size_t kv_width = (size_t)a->n_kv_heads * n;
    const uint32_t begin = a->rows[row].begin;
    const uint32_t n_keys = a->rows[row].end - begin;
    const size_t first_key = begin * kv_width + head / (a->n_heads / a->n_kv_heads) * n;
    const uint32_t my_query = lk_thread() / LK_WARP;
    const uint32_t my_row = row + my_query / n_heads;
    lk_tile_shape shape;
    shape.k_format = LK_KV_FORMAT_F32;
    shape.v_format = LK_KV_FORMAT_F32;
    shape.head_dim = n;
    shape.scale = a->scale;
    shape.soft_cap = a->soft_cap;
    lk_tile_sums all;
    lk_tile_begin(tile, &all);
    lk_barrier();
    if (my_row < row_end) {
        const size_t at = (size_t)my_row * a->n_heads + head + my_query % n_heads;
        lk_query_prepare(&shape, a->q + at * n, my_query, tile);
    }
    for (uint32_t first = 0; first < n_keys; first += LK_CHUNK) {
        lk_key_chunk chunk;
        chunk.k = (const uint8_t *)(const void *)(a->k + first_key + first * kv_width);
        chunk.v = (const uint8_t *)(const void *)(a->v + first_key + first * kv_width);
        chunk.k_stride = kv_width * sizeof(float);
        chunk.v_stride = kv_width * sizeof(float);
        chunk.k_d = NULL;
        chunk.v_d = NULL;
        chunk.begin = 0;
        chunk.end = n_keys - first < LK_CHUNK ? n_keys - first : LK_CHUNK;
        if (lk_thread() % LK_WARP == 0) {
            tile->begin[my_query] = 0;
            tile->end[my_query] = my_row < row_end ? chunk.end : 0;
        }
        lk_barrier();
        lk_tile_chunk(span, &shape, &chunk, tile, &all);
    }
    const uint32_t k = lk_thread() % span;
    LK_UNROLL for (uint32_t i = 0; i < LK_QUERIES * span / LK_CUDA_WIDE; i++) {
        const uint32_t i_query = lk_thread() / span + i * (LK_CUDA_WIDE / span);
        const uint32_t r = row + i_query / n_heads;
        if (r < row_end && k < n) {
            const float y = lk_tile_end(tile->m[i_query], tile->l[i_query], all.o[i], NULL);
            a->y[((size_t)r * a->n_heads + head + i_query % n_heads) * n + k] = y;
            lk_check(&a->flags, r, y);
            if (k == 0 && tile->is_bad[i_query] != 0) {
                lk_note(&a->flags, r);
            }
        }
    }
    lk_barrier();
}

/* Rows of several runs in a block have their turns. */
LK_KERNEL(run_attention, lk_cuda_run_attention_args) {
    LK_SHARED lk_query_tile tile;
    const lk_cuda_query_split split = lk_cuda_split_queries(a.n_heads, a.n_kv_heads);
    const uint32_t group = a.n_heads / a.n_kv_heads;
    const uint32_t in_group = lk_block_y() % split.blocks * split.n_heads;
    const uint32_t left = group - in_group;
    const uint32_t head = lk_block_y() / split.blocks * group + in_group;
    const uint32_t n_heads = left < split.n_heads ? left : split.n_heads;
    uint32_t row = lk_block_x() * split.n_rows;
    const uint32_t end = row + split.n_rows < a.n_rows ? row + split.n_rows : a.n_rows;
    while (row < end) {
        uint32_t row_end = row + 1;
        while (row_end < end && a.rows[row_end].begin == a.rows[row].begin) {
            row_end++;
        }
        if (a.head_dim <= 64) {
            attend_run(&a, 64, row, row_end, head, n_heads, &tile);
        } else if (a.head_dim <= 128) {
            attend_run(&a, 128, row, row_end, head, n_heads, &tile);
        } else {
            attend_run(&a, 256, row, row_end, head, n_heads, &tile);
        }
        row = row_end;
    }
}
