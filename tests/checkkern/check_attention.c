/* check_attention.c - checks and timings of the KV cache and of attention, over all pairs of key
 * and value formats. Positions without a key hold NaN (0xff everywhere). */
#include <stdio.h>
#include <string.h>

#include "checkkern.h"
#include "lk_test.h"

static const char *const kv_names[3] = {"f32", "f16", "q8_0"};

/* ---- kv_store ---- */

static void compare_store(ck_run *run, lk_kv_format format, size_t head_dim, ck_kind kind) {
    const size_t n_bytes = lk_kv_block_bytes(format, head_dim);
    const size_t i_in_page = ck_below(run, LK_CHUNK);
    ck_at(run, "kv_store.%s head=%zu %s position %zu", kv_names[format], head_dim,
          ck_kind_name(kind), i_in_page);
    float *const x = ck_place_f32(CK_IN0, head_dim, ck_below(run, 17));
    ck_fill(run, x, head_dim, kind);
    uint8_t *const block = ck_place(CK_OUT0, n_bytes, ck_below(run, 9) * 4);
    uint8_t *const want = ck_place(CK_WANT0, n_bytes, 0);
    uint32_t flag = 0;
    uint32_t want_flag = 0;
    run->kernels->kv_store(format, x, head_dim, block, i_in_page, &flag);
    lk_kv_store_ref(format, x, head_dim, want, i_in_page, &want_flag);
    if (ck_same_flags(run, flag, want_flag)) {
        ck_same_bytes(run, "block", block, want, n_bytes);
    }
    ck_check_guard(run, CK_OUT0);
}

void ck_check_kv_store(ck_run *run) {
    for (int format = 0; format < 3; format++) {
        for (size_t head_dim = 8; head_dim <= LK_MAX_HEAD_DIM; head_dim += 8) {
            for (int kind = 0; kind < CK_N_KINDS; kind++) {
                compare_store(run, (lk_kv_format)format, head_dim, (ck_kind)kind);
                compare_store(run, (lk_kv_format)format, head_dim, (ck_kind)kind);
            }
        }
    }
}

typedef struct store {
    const lk_cpu_kernels *kernels;
    lk_kv_format format;
    const float *x;
    uint8_t *block;
} store;

static void time_store(void *arg) {
    const store *const s = arg;
    uint32_t flag = 0;
    s->kernels->kv_store(s->format, s->x, 128, s->block, 5, &flag);
}

void ck_bench_kv_store(ck_run *run) {
    float *const x = ck_place_f32(CK_IN0, 128, 0);
    ck_fill(run, x, 128, CK_NORMAL);
    for (int format = 0; format < 3; format++) {
        char name[64];
        (void)snprintf(name, sizeof name, "kv_store.%s head=128", kv_names[format]);
        store s = {run->kernels, (lk_kv_format)format, x,
                   ck_place(CK_OUT0, lk_kv_block_bytes((lk_kv_format)format, 128), 0)};
        ck_bench(run, name, time_store, &s, 128 * 4, 128);
    }
}

/* ---- attention ---- */

enum { MAX_KEYS = 1024, MAX_CHUNKS = MAX_KEYS / LK_CHUNK };

/* What one call needs; blocks lie one after the other in the pages of two roles. */
typedef struct attention {
    lk_attn_args args;
    const uint8_t *k_blocks[MAX_CHUNKS];
    const uint8_t *v_blocks[MAX_CHUNKS];
    uint32_t flags[LK_ATTN_MAX_QUERIES];
} attention;

/* Blocks with n_keys stored, the rest 0xff; the last block ends at the untouchable page. */
static void fill_blocks(ck_run *run, ck_role role, lk_kv_format format, size_t head_dim,
                        size_t n_keys, ck_kind kind, const uint8_t **blocks) {
    const size_t n_bytes = lk_kv_block_bytes(format, head_dim);
    const size_t n_chunks = (n_keys + LK_CHUNK - 1) / LK_CHUNK;
    uint8_t *const memory = ck_place(role, n_chunks * n_bytes, ck_below(run, 3) * 4);
    memset(memory, 0xff, n_chunks * n_bytes);
    for (size_t i = 0; i < n_keys; i++) {
        float x[LK_MAX_HEAD_DIM];
        uint32_t flag = 0;
        ck_fill(run, x, head_dim, kind);
        lk_kv_store_ref(format, x, head_dim, memory + i / LK_CHUNK * n_bytes, i % LK_CHUNK, &flag);
        if (flag != 0) { /* such a key is never committed */
            memset(x, 0, sizeof x);
            lk_kv_store_ref(format, x, head_dim, memory + i / LK_CHUNK * n_bytes, i % LK_CHUNK,
                            &flag);
        }
    }
    for (size_t c = 0; c < n_chunks; c++) { /* placed in any order */
        blocks[c] = memory + c * n_bytes;
    }
}

/* Without windows, soft cap and sinks; in one call of two with some of them. The blocks that no
 * query sees cannot be read. */
static void add_variants(ck_run *run, attention *a) {
    static const size_t windows[] = {1, 15, 16, 33, 64, 65, 100, 128};
    lk_attn_args *const args = &a->args;
    const bool has_window = ck_below(run, 2) != 0;
    const size_t window = windows[ck_below(run, 8)];
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < args->n_queries; i++) {
        const bool is_short = !has_window || args->n_keys[i] < window;
        args->first_key[i] = is_short ? 0 : args->n_keys[i] - window;
        args->sink[i] = (float)ck_below(run, 2000) * 0.01f - 10.0f;
        first = args->first_key[i] < first ? args->first_key[i] : first;
    }
    args->soft_cap = ck_below(run, 3) == 0 ? 5.0f : 0.0f;
    args->has_sinks = ck_below(run, 3) == 0;
    for (size_t c = 0; c < first / LK_CHUNK; c++) {
        a->k_blocks[c] = NULL;
        a->v_blocks[c] = NULL;
    }
}

static void make_attention(ck_run *run, attention *a, size_t head_dim, size_t n_keys,
                           size_t n_queries, ck_kind q_kind, ck_kind kv_kind, size_t last_keys) {
    lk_attn_args *const args = &a->args;
    args->head_dim = head_dim;
    args->k_blocks = a->k_blocks;
    args->v_blocks = a->v_blocks;
    args->n_queries = n_queries;
    fill_blocks(run, CK_IN1, args->k_format, head_dim, n_keys, kv_kind, a->k_blocks);
    fill_blocks(run, CK_IN2, args->v_format, head_dim, n_keys, kv_kind, a->v_blocks);
    float *const q = ck_place_f32(CK_IN0, n_queries * head_dim, ck_below(run, 17));
    for (size_t i = 0; i < n_queries; i++) {
        ck_fill(run, q + i * head_dim, head_dim, i % 3 == 0 ? q_kind : CK_NORMAL);
        args->q[i] = q + i * head_dim;
        args->flag[i] = &a->flags[i];
        a->flags[i] = 0;
        const size_t back = last_keys == 0 ? 0 : ck_below(run, last_keys);
        args->n_keys[i] = n_keys > back ? n_keys - back : 1;
        args->first_key[i] = 0;
    }
    args->soft_cap = 0.0f;
    args->has_sinks = false;
}

static void point_outputs(attention *a, float *out) {
    for (size_t i = 0; i < a->args.n_queries; i++) {
        a->args.out[i] = out + i * a->args.head_dim;
    }
}

static void compare_attention(ck_run *run, attention *a) {
    const lk_attn_args *const args = &a->args;
    const size_t n = args->n_queries * args->head_dim;
    float *const want = ck_place_f32(CK_WANT0, n, 0);
    float *const out = ck_place_f32(CK_OUT0, n, ck_below(run, 17));
    uint32_t want_flags[LK_ATTN_MAX_QUERIES];
    point_outputs(a, want);
    lk_attention_ref(args);
    memcpy(want_flags, a->flags, sizeof want_flags);
    memset(a->flags, 0, sizeof a->flags);
    point_outputs(a, out);
    run->kernels->attention(args);
    for (size_t i = 0; i < args->n_queries; i++) {
        if (ck_same_flags(run, a->flags[i], want_flags[i])) {
            ck_same_f32(run, "out", args->out[i], want + i * args->head_dim, args->head_dim);
        }
    }
    ck_check_guard(run, CK_OUT0);
}

static void check_pair(ck_run *run, lk_kv_format k_format, lk_kv_format v_format) {
    static const size_t dims[] = {8, 16, 24, 40, 64, 72, 80, 96, 128, 192, 256};
    static const size_t counts[] = {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 300};
    static const float scales[] = {0.125f, 0.08838835f, 1.0f};
    const size_t n_repeat = (size_t)lk_test_size(1, 1, 20);
    static attention a;
    for (size_t i = 0; i < sizeof dims / sizeof dims[0] * n_repeat; i++) {
        const size_t head_dim = dims[i % (sizeof dims / sizeof dims[0])];
        for (size_t j = 0; j < sizeof counts / sizeof counts[0]; j++) {
            static const ck_kind q_kinds[] = {CK_NORMAL, CK_TIES, CK_WIDE,      CK_BAD,
                                              CK_ZERO,   CK_HUGE, CK_THRESHOLD, CK_NORMAL};
            static const ck_kind kv_kinds[] = {CK_NORMAL, CK_NORMAL, CK_NORMAL, CK_WIDE,
                                               CK_SUBNORMAL};
            const ck_kind q_kind = q_kinds[ck_below(run, 8)];
            const ck_kind kv_kind = kv_kinds[ck_below(run, 5)];
            const size_t n_queries = 1 + ck_below(run, LK_ATTN_MAX_QUERIES);
            const size_t back = ck_below(run, 3) == 0 ? counts[j] : ck_below(run, 20);
            a.args.k_format = k_format;
            a.args.v_format = v_format;
            a.args.scale = scales[ck_below(run, 3)];
            ck_at(run, "attention.%s.%s head=%zu keys=%zu queries=%zu q=%s kv=%s",
                  kv_names[k_format], kv_names[v_format], head_dim, counts[j], n_queries,
                  ck_kind_name(q_kind), ck_kind_name(kv_kind));
            make_attention(run, &a, head_dim, counts[j], n_queries, q_kind, kv_kind, back);
            if (ck_below(run, 2) != 0) {
                add_variants(run, &a);
            }
            compare_attention(run, &a);
        }
    }
}

void ck_check_attention(ck_run *run) {
    for (int pair = 0; pair < 9; pair++) {
        char name[64];
        (void)snprintf(name, sizeof name, "attention.%s.%s", kv_names[pair / 3],
                       kv_names[pair % 3]);
        if (ck_wanted(run, name)) {
            check_pair(run, (lk_kv_format)(pair / 3), (lk_kv_format)(pair % 3));
        }
    }
}

/* ---- attention in parts ---- */

enum { PART_KEYS = 600, PART_CHUNKS = (PART_KEYS + LK_CHUNK - 1) / LK_CHUNK };

/* All parts of the call, by ranges of chunks from `cuts`, ascending from 0. */
static void make_parts(lk_attention_fn *kernel, attention *a, const size_t *cuts, size_t n_cuts,
                       float *parts) {
    lk_attn_args *const args = &a->args;
    const size_t n_floats = lk_attn_part_floats(args->head_dim);
    args->in_parts = true;
    for (size_t c = 0; c + 1 < n_cuts; c++) {
        args->chunk_begin = cuts[c];
        args->chunk_end = cuts[c + 1];
        for (size_t i = 0; i < args->n_queries; i++) {
            args->out[i] = parts + (i * PART_CHUNKS + cuts[c]) * n_floats;
        }
        kernel(args);
    }
    args->in_parts = false;
}

/* Joined parts are the whole. */
static void compare_parts(ck_run *run, attention *a) {
    const lk_attn_args *const args = &a->args;
    const size_t head_dim = args->head_dim;
    const size_t n_floats = lk_attn_part_floats(head_dim);
    const size_t n = args->n_queries * PART_CHUNKS * n_floats;
    const size_t whole[] = {0, PART_CHUNKS};
    const size_t first_cut = ck_below(run, PART_CHUNKS + 1);
    const size_t second_cut = first_cut + ck_below(run, PART_CHUNKS + 1 - first_cut);
    const size_t cuts[] = {0, first_cut, second_cut, PART_CHUNKS};
    float *const want = ck_place_f32(CK_WANT0, n, 0);
    float *const parts = ck_place_f32(CK_OUT0, n, ck_below(run, 17));
    float *const want_out = ck_place_f32(CK_WANT1, args->n_queries * head_dim, 0);
    uint32_t want_flags[LK_ATTN_MAX_QUERIES];
    make_parts(lk_attention_ref, a, whole, 2, want);
    point_outputs(a, want_out);
    lk_attention_ref(args);
    memcpy(want_flags, a->flags, sizeof want_flags);
    memset(a->flags, 0, sizeof a->flags);
    make_parts(run->kernels->attention, a, cuts, 4, parts);
    ck_check_guard(run, CK_OUT0);
    for (size_t i = 0; i < args->n_queries; i++) {
        const size_t begin = args->first_key[i] / LK_CHUNK;
        const size_t end = (args->n_keys[i] + LK_CHUNK - 1) / LK_CHUNK;
        if (!ck_same_flags(run, a->flags[i], want_flags[i])) {
            continue;
        }
        for (size_t c = begin; c < end; c++) {
            const size_t at = (i * PART_CHUNKS + c) * n_floats;
            ck_same_f32(run, "m and l", parts + at, want + at, 2);
            ck_same_f32(run, "part", parts + at + LK_ATTN_PART_HEAD, want + at + LK_ATTN_PART_HEAD,
                        head_dim);
        }
        const lk_attn_parts joined = {.head_dim = head_dim,
                                      .n_parts = end - begin,
                                      .parts = parts + (i * PART_CHUNKS + begin) * n_floats,
                                      .has_sink = args->has_sinks,
                                      .sink = args->sink[i],
                                      .out = ck_place_f32(CK_OUT1, head_dim, ck_below(run, 17))};
        run->kernels->attention_join(&joined);
        ck_same_f32(run, "joined", joined.out, want_out + i * head_dim, head_dim);
        ck_check_guard(run, CK_OUT1);
    }
}

void ck_check_attention_join(ck_run *run) {
    static const size_t dims[] = {8, 64, 80, 128, 256};
    static const size_t counts[] = {1, 64, 65, 300, PART_KEYS};
    static attention a;
    for (size_t i = 0; i < (size_t)lk_test_size(5, 25, 250); i++) {
        for (size_t j = 0; j < sizeof counts / sizeof counts[0]; j++) {
            const size_t head_dim = dims[i % (sizeof dims / sizeof dims[0])];
            const size_t n_queries = 1 + ck_below(run, LK_ATTN_MAX_QUERIES);
            a.args.k_format = (lk_kv_format)ck_below(run, 3);
            a.args.v_format = (lk_kv_format)ck_below(run, 3);
            a.args.scale = 0.125f;
            ck_at(run, "attention_join %s.%s head=%zu keys=%zu queries=%zu",
                  kv_names[a.args.k_format], kv_names[a.args.v_format], head_dim, counts[j],
                  n_queries);
            make_attention(run, &a, head_dim, counts[j], n_queries,
                           ck_below(run, 8) == 0 ? CK_BAD : CK_NORMAL, CK_NORMAL, counts[j]);
            if (ck_below(run, 2) != 0) {
                add_variants(run, &a);
            }
            compare_parts(run, &a);
        }
    }
}

typedef struct timed_join {
    const lk_cpu_kernels *kernels;
    lk_attn_parts parts;
} timed_join;

static void time_join(void *arg) {
    const timed_join *const t = arg;
    t->kernels->attention_join(&t->parts);
}

void ck_bench_attention_join(ck_run *run) {
    const size_t n = MAX_CHUNKS * lk_attn_part_floats(128);
    float *const parts = ck_place_f32(CK_IN0, n, 0);
    for (size_t k = 0; k < n; k++) {
        parts[k] = (float)(k % 7);
    }
    timed_join t = {run->kernels,
                    {.head_dim = 128,
                     .n_parts = MAX_CHUNKS,
                     .parts = parts,
                     .out = ck_place_f32(CK_OUT0, 128, 0)}};
    ck_bench(run, "attention_join d=128 parts=16", time_join, &t, (double)n * 4,
             3.0 * 128 * (double)MAX_CHUNKS);
}

typedef struct timed_attention {
    const lk_cpu_kernels *kernels;
    attention a;
} timed_attention;

static void time_attention(void *arg) {
    timed_attention *const t = arg;
    t->kernels->attention(&t->a.args);
}

void ck_bench_attention(ck_run *run) {
    static const size_t query_counts[] = {1, 2, 4, 16};
    static timed_attention t;
    t.kernels = run->kernels;
    for (int i = 0; i < 36; i++) {
        const lk_kv_format k_format = (lk_kv_format)(i / 12);
        const lk_kv_format v_format = (lk_kv_format)(i / 4 % 3);
        const size_t n_queries = query_counts[i % 4];
        char name[64];
        (void)snprintf(name, sizeof name, "attention.%s.%s d=128 1024 q=%zu", kv_names[k_format],
                       kv_names[v_format], n_queries);
        if (!ck_wanted(run, name)) {
            continue;
        }
        t.a.args.k_format = k_format;
        t.a.args.v_format = v_format;
        t.a.args.scale = 0.08838835f;
        make_attention(run, &t.a, 128, MAX_KEYS, n_queries, CK_NORMAL, CK_NORMAL, 0);
        point_outputs(&t.a, ck_place_f32(CK_OUT0, n_queries * 128, 0));
        const double bytes = (double)MAX_CHUNKS * (double)(lk_kv_block_bytes(k_format, 128) +
                                                           lk_kv_block_bytes(v_format, 128));
        const double n_keys = (double)MAX_KEYS;
        ck_bench(run, name, time_attention, &t, bytes, 4.0 * 128 * n_keys * (double)n_queries);
    }
}
