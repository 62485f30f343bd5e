/* cudakern_attention.c - checks of attention. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "cudakern.h"
#include "lk_test.h"

/* Runs of an encoder's step, one after the other. */
typedef struct run_rows {
    uint32_t n_rows;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    lk_cuda_run_row *rows;
    float *q;
    float *k;
    float *v;
    float *want;
    uint32_t *flags;
    float soft_cap;
} run_rows;

/* Rows of one head as blocks of LK_CHUNK keys. */
static void store_blocks(const run_rows *s, const float *x, uint32_t first, uint32_t n,
                         uint32_t head, uint8_t *blocks) {
    const size_t block_bytes = lk_kv_block_bytes(LK_KV_FORMAT_F32, s->head_dim);
    uint32_t flag = 0;
    for (uint32_t i = 0; i < n; i++) {
        lk_kv_store_ref(LK_KV_FORMAT_F32,
                        x + ((size_t)(first + i) * s->n_kv_heads + head) * s->head_dim, s->head_dim,
                        blocks + i / LK_CHUNK * block_bytes, i % LK_CHUNK, &flag);
    }
}

/* The twin's output for one head of the run at `first`. */
static void attend_run(const run_rows *s, uint32_t first, uint32_t n, uint32_t head,
                       uint8_t *k_blocks, uint8_t *v_blocks) {
    const size_t block_bytes = lk_kv_block_bytes(LK_KV_FORMAT_F32, s->head_dim);
    const uint8_t *k[8];
    const uint8_t *v[8];
    const uint32_t kv_head = head / (s->n_heads / s->n_kv_heads);
    store_blocks(s, s->k, first, n, kv_head, k_blocks);
    store_blocks(s, s->v, first, n, kv_head, v_blocks);
    for (size_t c = 0; c < 8; c++) {
        k[c] = k_blocks + c * block_bytes;
        v[c] = v_blocks + c * block_bytes;
    }
    for (uint32_t i = 0; i < n; i++) {
        const size_t at = ((size_t)(first + i) * s->n_heads + head) * s->head_dim;
        lk_attn_args args = {.head_dim = s->head_dim,
                             .scale = 0.125f,
                             .k_blocks = k,
                             .v_blocks = v,
                             .n_queries = 1,
                             .soft_cap = s->soft_cap};
        args.q[0] = s->q + at;
        args.out[0] = s->want + at;
        args.n_keys[0] = n;
        args.flag[0] = &s->flags[first + i];
        lk_attention_ref(&args);
    }
}

static void check_run_attention(ck_run *run, uint32_t head_dim, uint32_t n_rows, uint32_t max_run) {
    run_rows s = {.n_rows = n_rows, .n_heads = 4, .head_dim = head_dim};
    s.n_kv_heads = ck_below(run, 2) ? 4 : 2;
    s.soft_cap = ck_below(run, 3) == 0 ? 2.5f : 0.0f;
    const size_t n_q = (size_t)n_rows * s.n_heads * head_dim;
    const size_t n_kv = (size_t)n_rows * s.n_kv_heads * head_dim;
    const size_t bytes = 8 * lk_kv_block_bytes(LK_KV_FORMAT_F32, head_dim);
    uint8_t *const blocks = cu_host(2 * bytes);
    s.rows = cu_host(n_rows * sizeof *s.rows);
    s.q = cu_host(n_q * sizeof *s.q);
    s.k = cu_host(n_kv * sizeof *s.k);
    s.v = cu_host(n_kv * sizeof *s.v);
    s.want = cu_host(n_q * sizeof *s.want);
    s.flags = cu_host(n_rows * sizeof *s.flags);
    ck_fill(run, s.q, n_q, CK_NORMAL);
    ck_fill(run, s.k, n_kv, CK_NORMAL);
    ck_fill(run, s.v, n_kv, ck_below(run, 3) == 0 ? CK_SUBNORMAL : CK_NORMAL);
    ck_fill(run, s.q, head_dim, (ck_kind)ck_below(run, CK_N_KINDS));
    for (uint32_t first = 0; first < n_rows;) {
        uint32_t n = 1 + (uint32_t)ck_below(run, max_run);
        n = n > n_rows - first ? n_rows - first : n;
        for (uint32_t i = 0; i < n; i++) {
            s.rows[first + i] = (lk_cuda_run_row){first, first + n};
        }
        for (uint32_t h = 0; h < s.n_heads; h++) {
            attend_run(&s, first, n, h, blocks, blocks + bytes);
        }
        first += n;
    }
    const uint32_t width = s.n_heads * head_dim;
    const lk_cuda_run_attention_args args = {.q = kd_put(s.q, n_q * sizeof *s.q, 0),
                                             .k = kd_put(s.k, n_kv * sizeof *s.k, 0),
                                             .v = kd_put(s.v, n_kv * sizeof *s.v, 0),
                                             .y = kd_new(n_q * sizeof *s.q),
                                             .rows = kd_put(s.rows, n_rows * sizeof *s.rows, 0),
                                             .n_rows = n_rows,
                                             .n_heads = s.n_heads,
                                             .n_kv_heads = s.n_kv_heads,
                                             .head_dim = head_dim,
                                             .scale = 0.125f,
                                             .soft_cap = s.soft_cap,
                                             .flags = cu_flags(n_rows)};
    KD_LAUNCH(run_attention, &args);
    cu_finish_flags(s.want, s.flags, n_rows, width);
    cu_compare(run, "run_attention", args.y, s.want, s.flags, &args.flags, n_rows, width);
    free(blocks);
    free(s.rows);
    free(s.q);
    free(s.k);
    free(s.v);
    free(s.want);
    free(s.flags);
}

void cu_check_attention(ck_run *run) {
    static const uint32_t dims[] = {8, 24, 64, 72, 80, 128, 192, 256};
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
        const uint32_t n_rows = i % 2 == 0 ? 65 + (uint32_t)ck_below(run, 80) : 30;
        ck_at(run, "run_attention head=%u rows=%u", dims[i], n_rows);
        check_run_attention(run, dims[i], n_rows, i % 4 == 0 ? n_rows : 70);
    }
}
