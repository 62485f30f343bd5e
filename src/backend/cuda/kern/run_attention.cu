/* run_attention.cu - attention among all rows of a run (sections 10 and 17), keys and values in
 * binary32 where the values of the graph lie: a block for each query head, chunks of 64 keys in
 * order. Thread j has the score of key j of a chunk, then elements j, j + 64, .. of the output. */
#include "backend/cuda/kern/attention_sums.h"
#include "backend/cuda/kern/flags.h"

/* The S16 of q * k. */
LK_DEVICE float dot(const float *q, const float *k, uint32_t n) {
    float p[LK_SUM_LANES];
    LK_UNROLL for (uint32_t j = 0; j < LK_SUM_LANES; j++) {
        p[j] = 0.0f;
    }
    for (uint32_t first = 0; first < n; first += LK_SUM_LANES) {
        LK_UNROLL for (uint32_t j = 0; j < LK_SUM_LANES; j++) {
            if (first + j < n) {
                p[j] = p[j] + q[first + j] * k[first + j];
            }
        }
    }
    return lk_sum16_tree(p);
}

LK_KERNEL(run_attention, lk_cuda_run_attention_args) {
    LK_SHARED float q[LK_MAX_HEAD_DIM];
    LK_SHARED lk_attention_chunk chunk;
    const uint32_t row = lk_block_x();
    const uint32_t head = lk_block_y();
    const uint32_t kv_head = head / (a.n_heads / a.n_kv_heads);
    const uint32_t begin = a.rows[row].begin;
    const uint32_t n_keys = a.rows[row].end - begin;
    const size_t kv_width = (size_t)a.n_kv_heads * a.head_dim;
    const size_t at = ((size_t)row * a.n_heads + head) * a.head_dim;
    const float *keys = a.k + begin * kv_width + kv_head * a.head_dim;
    const float *values = a.v + begin * kv_width + kv_head * a.head_dim;
    for (uint32_t k = lk_thread(); k < a.head_dim; k += LK_CUDA_ATTENTION) {
        q[k] = a.q[at + k];
    }
    lk_attention_sums all = lk_attention_nothing();
    for (uint32_t first = 0; first < n_keys; first += LK_CHUNK) {
        const uint32_t n = n_keys - first < LK_CHUNK ? n_keys - first : LK_CHUNK;
        lk_barrier(); /* the query is there, and the last chunk's probabilities were read */
        if (lk_thread() < n) {
            const float *const key = keys + (first + lk_thread()) * kv_width;
            const float s = dot(q, key, a.head_dim) * a.scale;
            lk_check(&a.flags, row, s);
            chunk.s[lk_thread()] = lk_bend(s, a.soft_cap);
        }
        lk_barrier();
        lk_attention_sums sums = lk_attention_weights(&chunk, 0, n);
        LK_UNROLL for (uint32_t i = 0; i < LK_ATTENTION_ELEMS; i++) {
            const uint32_t k = lk_thread() + i * LK_CUDA_ATTENTION;
            float o = 0.0f;
            if (k < a.head_dim) {
                for (uint32_t j = 0; j < n; j++) {
                    o = o + chunk.p[j] * values[(first + j) * kv_width + k];
                }
            }
            sums.o[i] = o;
        }
        lk_attention_fold(&all, &sums, first == 0);
    }
    lk_attention_end(&all, NULL);
    LK_UNROLL for (uint32_t i = 0; i < LK_ATTENTION_ELEMS; i++) {
        const uint32_t k = lk_thread() + i * LK_CUDA_ATTENTION;
        if (k < a.head_dim) {
            a.y[at + k] = all.o[i];
            lk_check(&a.flags, row, all.o[i]);
        }
    }
}
