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

/* ---- pages ---- */

enum { MAX_POSITIONS = 330, PAGES = 3 * (MAX_POSITIONS / LK_CHUNK + 1) };

/* Rows of three sequences, the last ones of each, over pages in any order. Blocks that no row may
 * read hold 0xff, which is NaN. */
typedef struct paged {
    lk_attn_args args; /* formats, head size, scale, soft cap, sinks */
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t window;
    uint32_t n_rows;
    uint32_t pos[64];
    uint32_t first[64];
    uint32_t table[PAGES];
    uint32_t max_chunks;
    size_t page_bytes;
    size_t offset;
    uint8_t *pages;
    uint32_t *flags;
} paged;

/* Block of a head for the positions 64 c .. of row r's sequence. */
static uint8_t *block_of(const paged *s, uint32_t r, uint32_t c, uint32_t head, bool is_value) {
    const size_t k_bytes = lk_kv_block_bytes(s->args.k_format, s->args.head_dim);
    const size_t v_bytes = lk_kv_block_bytes(s->args.v_format, s->args.head_dim);
    uint8_t *const layer = s->pages + s->table[s->first[r] + c] * s->page_bytes + s->offset;
    return is_value ? layer + s->n_kv_heads * k_bytes + head * v_bytes : layer + head * k_bytes;
}

static void store_position(const paged *s, uint32_t r, uint32_t pos, const float *k, const float *v,
                           uint32_t *flag) {
    const size_t n = s->args.head_dim;
    for (uint32_t h = 0; h < s->n_kv_heads; h++) {
        lk_kv_store_ref(s->args.k_format, k + h * n, n, block_of(s, r, pos / LK_CHUNK, h, false),
                        pos % LK_CHUNK, flag);
        lk_kv_store_ref(s->args.v_format, v + h * n, n, block_of(s, r, pos / LK_CHUNK, h, true),
                        pos % LK_CHUNK, flag);
    }
}

static uint32_t first_key_of(const paged *s, uint32_t r) {
    return s->window != 0 && s->pos[r] >= s->window ? s->pos[r] + 1 - s->window : 0;
}

static paged make_paged(ck_run *run, lk_kv_format k_format, lk_kv_format v_format,
                        uint32_t head_dim) {
    paged s = {.n_kv_heads = 1 + (uint32_t)ck_below(run, 2)};
    s.n_heads = s.n_kv_heads * (1 + (uint32_t)ck_below(run, 3));
    s.args.k_format = k_format;
    s.args.v_format = v_format;
    s.args.head_dim = head_dim;
    s.args.scale = 0.125f;
    s.args.soft_cap = ck_below(run, 3) == 0 ? 5.0f : 0.0f;
    s.args.has_sinks = ck_below(run, 3) == 0;
    s.window = ck_below(run, 2) ? 0 : 1 + (uint32_t)ck_below(run, 150);
    s.offset = 32;
    s.page_bytes = s.offset +
                   s.n_kv_heads * (lk_kv_block_bytes(k_format, head_dim) +
                                   lk_kv_block_bytes(v_format, head_dim)) +
                   16;
    s.page_bytes = (s.page_bytes + 15) / 16 * 16;
    s.pages = cu_host(PAGES * s.page_bytes);
    memset(s.pages, 0xff, PAGES * s.page_bytes);
    for (uint32_t i = 0; i < PAGES; i++) { /* any order */
        const size_t j = ck_below(run, i + 1);
        s.table[i] = s.table[j];
        s.table[j] = i;
    }
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t length = 1 + (uint32_t)ck_below(run, MAX_POSITIONS);
        const uint32_t n = 1 + (uint32_t)ck_below(run, length < 5 ? length : 5);
        for (uint32_t pos = length - n; pos < length; pos++) {
            s.pos[s.n_rows] = pos;
            s.first[s.n_rows++] = i * (PAGES / 3);
        }
    }
    s.flags = cu_host(s.n_rows * sizeof *s.flags);
    for (uint32_t r = 0; r < s.n_rows; r++) {
        const uint32_t n_chunks = s.pos[r] / LK_CHUNK + 1 - first_key_of(&s, r) / LK_CHUNK;
        s.max_chunks = n_chunks > s.max_chunks ? n_chunks : s.max_chunks;
    }
    return s;
}

static lk_cuda_kv put_kv(const paged *s) {
    return (lk_cuda_kv){.pages = kd_put(s->pages, PAGES * s->page_bytes, 0),
                        .page_bytes = s->page_bytes,
                        .offset = s->offset,
                        .table = kd_put(s->table, sizeof s->table, 0),
                        .first = kd_put(s->first, s->n_rows * sizeof s->first[0], 0),
                        .pos = kd_put(s->pos, s->n_rows * sizeof s->pos[0], 0),
                        .k_format = s->args.k_format,
                        .v_format = s->args.v_format,
                        .n_kv_heads = s->n_kv_heads,
                        .head_dim = (uint32_t)s->args.head_dim};
}

static void check_kv_store(ck_run *run, paged *s) {
    const uint32_t width = s->n_kv_heads * (uint32_t)s->args.head_dim;
    const size_t n = (size_t)s->n_rows * width;
    float *const k = cu_host(n * sizeof *k);
    float *const v = cu_host(n * sizeof *v);
    float *const none = cu_host(n * sizeof *none);
    for (uint32_t r = 0; r < s->n_rows; r++) {
        ck_fill(run, k + (size_t)r * width, width, (ck_kind)ck_below(run, CK_N_KINDS));
        ck_fill(run, v + (size_t)r * width, width, (ck_kind)ck_below(run, CK_N_KINDS));
    }
    const lk_cuda_kv_store_args args = {.kv = put_kv(s),
                                        .k = kd_put(k, n * sizeof *k, 0),
                                        .v = kd_put(v, n * sizeof *v, 0),
                                        .n_rows = s->n_rows,
                                        .flags = cu_flags(s->n_rows)};
    KD_LAUNCH(kv_store, &args);
    uint8_t *const got = cu_host(PAGES * s->page_bytes);
    kd_get(got, args.kv.pages, PAGES * s->page_bytes);
    for (uint32_t r = 0; r < s->n_rows; r++) {
        s->flags[r] = 0;
        store_position(s, r, s->pos[r], k + (size_t)r * width, v + (size_t)r * width, &s->flags[r]);
    }
    bool any = false;
    for (uint32_t r = 0; r < s->n_rows; r++) {
        any = any || s->flags[r] != 0;
    }
    if (!any) { /* what a flagged row stores is open */
        ck_same_bytes(run, "pages", got, s->pages, PAGES * s->page_bytes);
    }
    cu_compare(run, "kv_store", kd_put(none, n * sizeof *none, 0), none, s->flags, &args.flags,
               s->n_rows, width);
    free(got);
    free(k);
    free(v);
    free(none);
}

/* What the twin gives for row r. */
static void attend_row(paged *s, uint32_t r, const float *q, const float *sinks, float *out) {
    const uint8_t *k[MAX_POSITIONS / LK_CHUNK + 1] = {NULL};
    const uint8_t *v[MAX_POSITIONS / LK_CHUNK + 1] = {NULL};
    for (uint32_t h = 0; h < s->n_heads; h++) {
        const uint32_t kv_head = h / (s->n_heads / s->n_kv_heads);
        for (uint32_t c = first_key_of(s, r) / LK_CHUNK; c <= s->pos[r] / LK_CHUNK; c++) {
            k[c] = block_of(s, r, c, kv_head, false);
            v[c] = block_of(s, r, c, kv_head, true);
        }
        lk_attn_args args = s->args;
        args.k_blocks = k;
        args.v_blocks = v;
        args.n_queries = 1;
        args.q[0] = q + h * args.head_dim;
        args.out[0] = out + h * args.head_dim;
        args.n_keys[0] = (size_t)s->pos[r] + 1;
        args.first_key[0] = first_key_of(s, r);
        args.flag[0] = &s->flags[r];
        args.sink[0] = sinks[h];
        lk_attention_ref(&args);
    }
}

static void check_paged(ck_run *run, paged *s) {
    static const ck_kind kinds[] = {CK_NORMAL, CK_NORMAL, CK_TIES,      CK_WIDE,
                                    CK_BAD,    CK_ZERO,   CK_THRESHOLD, CK_NORMAL};
    const uint32_t width = s->n_heads * (uint32_t)s->args.head_dim;
    const size_t n = (size_t)s->n_rows * width;
    float *const q = cu_host(n * sizeof *q);
    float *const want = cu_host(n * sizeof *want);
    float *const key = cu_host(2 * width * sizeof *key);
    float sinks[8];
    ck_fill(run, sinks, 8, CK_NORMAL);
    memset(s->pages, 0xff, PAGES * s->page_bytes);
    for (uint32_t r = 0; r < s->n_rows; r++) { /* what the row sees, the last row all */
        uint32_t flag = 0;
        for (uint32_t pos = first_key_of(s, r); pos <= s->pos[r]; pos++) {
            const bool is_new = r == 0 || s->first[r - 1] != s->first[r] || pos > s->pos[r - 1];
            if (is_new) {
                ck_fill(run, key, 2 * (size_t)width, CK_NORMAL);
                store_position(s, r, pos, key, key + width, &flag);
            }
        }
        ck_fill(run, q + (size_t)r * width, width, kinds[ck_below(run, 8)]);
        s->flags[r] = 0;
    }
    for (uint32_t r = 0; r < s->n_rows; r++) {
        attend_row(s, r, q + (size_t)r * width, sinks, want + (size_t)r * width);
    }
    lk_cuda_attention_args args = {.kv = put_kv(s),
                                   .q = kd_put(q, n * sizeof *q, 0),
                                   .y = kd_new(n * sizeof *q),
                                   .sinks =
                                       s->args.has_sinks ? kd_put(sinks, sizeof sinks, 0) : NULL,
                                   .n_rows = s->n_rows,
                                   .n_heads = s->n_heads,
                                   .window = s->window,
                                   .scale = s->args.scale,
                                   .soft_cap = s->args.soft_cap,
                                   .max_chunks = s->max_chunks,
                                   .flags = cu_flags(s->n_rows)};
    if (ck_below(run, 2)) {
        KD_LAUNCH(attention, &args);
    } else {
        args.parts = kd_new((size_t)s->n_rows * s->n_heads * s->max_chunks *
                            lk_attn_part_floats(s->args.head_dim) * sizeof(float));
        KD_LAUNCH(attention_parts, &args);
        KD_LAUNCH(attention_join, &args);
    }
    cu_finish_flags(want, s->flags, s->n_rows, width);
    cu_compare(run, "attention", args.y, want, s->flags, &args.flags, s->n_rows, width);
    free(q);
    free(want);
    free(key);
}

static void check_pages(ck_run *run) {
    static const char *const names[] = {"f32", "f16", "q8_0"};
    static const uint32_t dims[] = {8, 24, 40, 64, 72, 80, 96, 128, 192, 256};
    for (size_t i = 0; i < 9 * (size_t)lk_test_size(1, 2, 20); i++) {
        const uint32_t head_dim = dims[ck_below(run, 10)];
        paged s = make_paged(run, (lk_kv_format)(i % 9 / 3), (lk_kv_format)(i % 3), head_dim);
        ck_at(run, "pages %s %s head=%u heads=%u/%u window=%u rows=%u", names[s.args.k_format],
              names[s.args.v_format], head_dim, s.n_heads, s.n_kv_heads, s.window, s.n_rows);
        check_kv_store(run, &s);
        check_paged(run, &s);
        free(s.pages);
        free(s.flags);
    }
}

void cu_check_attention(ck_run *run) {
    static const uint32_t dims[] = {8, 24, 64, 72, 80, 128, 192, 256};
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
        const uint32_t n_rows = i % 2 == 0 ? 65 + (uint32_t)ck_below(run, 80) : 30;
        ck_at(run, "run_attention head=%u rows=%u", dims[i], n_rows);
        check_run_attention(run, dims[i], n_rows, i % 4 == 0 ? n_rows : 70);
    }
    check_pages(run);
}
