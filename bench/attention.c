/* attention.c - how fast attention is, beside what the machine could do: a decoding step that reads
 * keys and values from memory (GB/s, against the read bandwidth of one thread), and a block of
 * prompt rows (GFLOPS). One thread, thread CPU time, best of several
 * calls: other programs count as little as possible.
 *
 *     bench_attention [HEAD_DIM] [HEADS_PER_KV_HEAD] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/kernels.h"
#include "base/huge_pages.h"
#include "lk/context.h"
#include "lk/machine.h"

/* Keys of a decoding step: far more than the caches hold. Blocks of other heads lie between. */
enum { DECODE_CHUNKS = 4096, PROMPT_CHUNKS = 64, BLOCKS_BETWEEN = 3, N_CALLS = 7 };

typedef struct cache {
    uint8_t *memory;
    const uint8_t **k_blocks; /* [n_chunks] */
    const uint8_t **v_blocks;
    size_t n_chunks;
} cache;

static double cpu_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static float small_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return (float)(int32_t)(*state >> 8) * 0x1p-23f - 1.0f;
}

static void *get(size_t count, size_t size) {
    void *p = calloc(count, size);
    if (p == NULL) {
        (void)fprintf(stderr, "bench_attention: no memory for %zu bytes\n", count * size);
        exit(1);
    }
    return p;
}

static void fill(cache *c, const lk_cpu_kernels *kernels, lk_kv_format format, size_t head_dim,
                 size_t n_chunks) {
    const size_t stride = lk_kv_block_bytes(format, head_dim) * (1 + BLOCKS_BETWEEN);
    uint32_t state = 1;
    uint32_t flag = 0;
    c->n_chunks = n_chunks;
    c->memory = get(2 * n_chunks, stride);
    c->k_blocks = get(n_chunks, sizeof c->k_blocks[0]);
    c->v_blocks = get(n_chunks, sizeof c->v_blocks[0]);
    lk_huge_pages_ask(c->memory, 2 * n_chunks * stride);
    for (size_t i = 0; i < 2 * n_chunks; i++) {
        uint8_t *block = c->memory + i * stride;
        for (size_t j = 0; j < LK_CHUNK; j++) {
            float x[LK_MAX_HEAD_DIM];
            for (size_t k = 0; k < head_dim; k++) {
                x[k] = small_random(&state);
            }
            kernels->kv_store(format, x, head_dim, block, j, &flag);
        }
        (i % 2 == 0 ? c->k_blocks : c->v_blocks)[i / 2] = block;
    }
}

static void clear(cache *c) {
    free((void *)c->v_blocks);
    free((void *)c->k_blocks);
    free(c->memory);
}

/* Seconds of one call over the whole cache. */
static double time_call(const lk_cpu_kernels *kernels, const cache *c, lk_kv_format format,
                        size_t head_dim, size_t n_queries) {
    static float q[LK_ATTN_MAX_QUERIES][LK_MAX_HEAD_DIM];
    static float out[LK_ATTN_MAX_QUERIES][LK_MAX_HEAD_DIM];
    uint32_t state = 7;
    uint32_t flag = 0;
    lk_attn_args args = {.k_format = format,
                         .v_format = format,
                         .head_dim = head_dim,
                         .scale = 0.1f,
                         .k_blocks = c->k_blocks,
                         .v_blocks = c->v_blocks,
                         .n_queries = n_queries};
    for (size_t i = 0; i < n_queries; i++) {
        for (size_t k = 0; k < head_dim; k++) {
            q[i][k] = small_random(&state);
        }
        args.q[i] = q[i];
        args.out[i] = out[i];
        args.n_keys[i] = c->n_chunks * LK_CHUNK;
        args.flag[i] = &flag;
    }
    double best = 1e30;
    for (int i = 0; i < N_CALLS; i++) {
        const double start = cpu_s();
        kernels->attention(&args);
        const double s = cpu_s() - start;
        best = s < best ? s : best;
    }
    return best;
}

static void run(const lk_cpu_kernels *kernels, const char *isa, lk_kv_format format,
                size_t head_dim, size_t n_heads, double read_gb_s) {
    static const char *const names[] = {"f32", "f16", "q8_0"};
    cache c;
    fill(&c, kernels, format, head_dim, DECODE_CHUNKS);
    const double bytes = 2.0 * (double)DECODE_CHUNKS * (double)lk_kv_block_bytes(format, head_dim);
    const double decode = time_call(kernels, &c, format, head_dim, n_heads);
    clear(&c);
    fill(&c, kernels, format, head_dim, PROMPT_CHUNKS);
    const double ops =
        4.0 * (double)(PROMPT_CHUNKS * LK_CHUNK * LK_ATTN_MAX_QUERIES) * (double)head_dim;
    const double prompt = time_call(kernels, &c, format, head_dim, LK_ATTN_MAX_QUERIES);
    clear(&c);
    (void)printf("%-7s %-5s decode, %zu heads: %6.2f GB/s (%3.0f %% of %.1f)   prompt, %d queries: "
                 "%6.1f GFLOPS\n",
                 isa, names[format], n_heads, bytes / decode * 1e-9,
                 bytes / decode * 1e-7 / read_gb_s, read_gb_s, LK_ATTN_MAX_QUERIES,
                 ops / prompt * 1e-9);
    (void)fflush(stdout);
}

int main(int argc, char **argv) {
    const long head_dim = argc > 1 ? strtol(argv[1], NULL, 10) : 128;
    const long n_heads = argc > 2 ? strtol(argv[2], NULL, 10) : 2;
    if (argc > 3 || head_dim < 8 || head_dim % 8 != 0 || head_dim > LK_MAX_HEAD_DIM ||
        n_heads < 1 || n_heads > LK_ATTN_MAX_QUERIES) {
        (void)fprintf(stderr,
                      "usage: bench_attention [HEAD_DIM, a multiple of 8 up to %d] [HEADS, 1 .. "
                      "%d]\n",
                      LK_MAX_HEAD_DIM, LK_ATTN_MAX_QUERIES);
        return 2;
    }
    lk_error err;
    lk_machine_speed speed = LK_MACHINE_SPEED_INIT;
    if (lk_machine_measure(1, LK_CPU_ALL, NULL, &speed, &err) != LK_OK) {
        (void)fprintf(stderr, "bench_attention: %s\n", err.message);
        return 1;
    }
    static const struct {
        const char *name;
        uint32_t mask;
    } isas[] = {
#define LK_ISA(NAME, name, processor, bit, needs) {#name, (bit) | (needs)},
#include "backend/cpu/isas.def"
#undef LK_ISA
    };
    lk_attention_fn *last = lk_attention_ref;
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        lk_cpu_kernels kernels;
        lk_cpu_kernels_init(&kernels, isas[i].mask);
        const bool is_new = kernels.isa == isas[i].mask && kernels.attention != last;
        last = kernels.attention;
        for (int format = 0; is_new && format < 3; format++) {
            run(&kernels, isas[i].name, (lk_kv_format)format, (size_t)head_dim, (size_t)n_heads,
                speed.read_bytes_per_s * 1e-9);
        }
    }
    return 0;
}
