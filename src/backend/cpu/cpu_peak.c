/* cpu_peak.c - see cpu_peak.h. The loops are in kern/peak_<isa>.c; here they are cut into tasks for
 * the pool and timed. The best of several runs counts, since others can only slow one down. */
#include "backend/cpu/cpu_peak.h"

#include <string.h>
#include <time.h>

#include "backend/cpu/kern/peak.h"
#include "backend/cpu/kernels.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/huge_pages.h"

enum { CHUNK_BYTES = 4 << 20, N_CHUNKS = 128, N_ROUNDS = 1 << 15, TASKS_PER_THREAD = 64 };
#define MEMORY_BYTES ((size_t)CHUNK_BYTES * N_CHUNKS)
static const double read_s = 1.0;
static const double loop_s = 0.5;

typedef int32_t lk_peak_loop(uint32_t n_rounds, const int8_t in[64]);

typedef struct peak {
    const char *memory;
    lk_peak_loop *loop; /* the one in hand */
    uint32_t n_rounds;
    const struct peak_entry *entry; /* of the widest set */
    bool has_matrix;
    int64_t sums[LK_POOL_MAX_THREADS]; /* what the loops found: it has to go somewhere */
} peak;

static int64_t read_plain(const void *memory, size_t n_bytes) {
    const int64_t *p = (const int64_t *)memory;
    int64_t sum[8] = {0};
    for (size_t i = 0; i < n_bytes / sizeof p[0]; i += 8) {
        for (int k = 0; k < 8; k++) {
            sum[k] ^= p[i + (size_t)k];
        }
    }
    return sum[0] ^ sum[1] ^ sum[2] ^ sum[3] ^ sum[4] ^ sum[5] ^ sum[6] ^ sum[7];
}

/* The loops of each set, the widest last; AMX is measured apart. Behind them what is left without
 * any of these sets. */
typedef struct peak_entry {
    uint32_t isa;
    uint32_t int8_ops;
    lk_peak_loop *int8;
    uint32_t float_ops;
    lk_peak_loop *floats;
    int64_t (*read)(const void *memory, size_t n_bytes);
} peak_entry;

static const peak_entry entries[] = {
#if defined(__x86_64__)
    {LK_ISA_AVX2, LK_PEAK_INT8_AVX2_OPS, lk_peak_int8_avx2, LK_PEAK_FLOAT_AVX2_OPS,
     lk_peak_float_avx2, lk_peak_read_avx2},
    {LK_ISA_AVXVNNI, LK_PEAK_INT8_AVXVNNI_OPS, lk_peak_int8_avxvnni, LK_PEAK_FLOAT_AVX2_OPS,
     lk_peak_float_avx2, lk_peak_read_avx2},
    {LK_ISA_AVX512, LK_PEAK_INT8_AVX512_OPS, lk_peak_int8_avx512, LK_PEAK_FLOAT_AVX512_OPS,
     lk_peak_float_avx512, lk_peak_read_avx512},
#elif defined(__aarch64__)
    {LK_ISA_NEON, LK_PEAK_INT8_NEON_OPS, lk_peak_int8_neon, LK_PEAK_FLOAT_NEON_OPS,
     lk_peak_float_neon, read_plain},
    {LK_ISA_I8MM, LK_PEAK_INT8_I8MM_OPS, lk_peak_int8_i8mm, LK_PEAK_FLOAT_NEON_OPS,
     lk_peak_float_neon, read_plain},
#endif
    {0, 0, NULL, 0, NULL, read_plain}};
enum { N_SETS = sizeof entries / sizeof entries[0] - 1 };

static void choose(peak *p, uint32_t isa_mask) {
    lk_cpu_kernels kernels; /* knows which sets stand on which */
    lk_cpu_kernels_init(&kernels, isa_mask);
    p->entry = &entries[N_SETS];
    p->has_matrix = (kernels.isa & LK_ISA_AMX) != 0;
    for (const peak_entry *entry = entries; entry->isa != 0; entry++) {
        if ((kernels.isa & entry->isa) != 0) {
            p->entry = entry;
        }
    }
}

static double seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The first touch of the memory, by the thread that is free: whoever reads it later. */
static void touch(void *arg, uint32_t i_task, uint32_t i_thread) {
    (void)i_thread;
    memset((char *)arg + (size_t)i_task * CHUNK_BYTES, (int)i_task, CHUNK_BYTES);
}

static void read_chunk(void *arg, uint32_t i_task, uint32_t i_thread) {
    peak *p = (peak *)arg;
    p->sums[i_thread] ^= p->entry->read(p->memory + (size_t)i_task * CHUNK_BYTES, CHUNK_BYTES);
}

static void run_loop(void *arg, uint32_t i_task, uint32_t i_thread) {
    peak *p = (peak *)arg;
    int8_t in[64];
    for (uint32_t i = 0; i < 64; i++) {
        in[i] = (int8_t)(i * 37 + i_task);
    }
    p->sums[i_thread] ^= p->loop(p->n_rounds, in);
}

/* The shortest of the runs that fit into `limit_s` (at least three). */
static double best_of(lk_pool *pool, lk_pool_fn fn, void *arg, uint32_t n_tasks, double limit_s) {
    double best = 0.0;
    const double start = seconds();
    for (int i = 0; i < 3 || seconds() - start < limit_s; i++) {
        const double begin = seconds();
        lk_pool_run(pool, fn, arg, n_tasks);
        const double taken = seconds() - begin;
        best = i == 0 || taken < best ? taken : best;
    }
    return best > 1e-9 ? best : 1e-9;
}

static double measure_loop(lk_pool *pool, peak *p, lk_peak_loop *loop, uint32_t loop_ops) {
    p->loop = loop;
    const uint32_t n_tasks = lk_pool_n_threads(pool) * TASKS_PER_THREAD;
    const double taken = best_of(pool, run_loop, p, n_tasks, loop_s);
    return (double)loop_ops * p->n_rounds * n_tasks / taken;
}

lk_status lk_cpu_peak_measure(lk_pool *pool, uint32_t isa_mask, const lk_allocator *allocator,
                              lk_machine_speed *speed, lk_error *err) {
    peak p = {.n_rounds = N_ROUNDS};
    choose(&p, isa_mask);
    char *memory = (char *)lk_alloc(allocator, MEMORY_BYTES);
    if (memory == NULL) {
        return lk_fail_nomem(err, "memory to read", MEMORY_BYTES);
    }
    lk_huge_pages_ask(memory, MEMORY_BYTES);
    p.memory = memory;
    lk_pool_run(pool, touch, memory, N_CHUNKS);
    const double read = best_of(pool, read_chunk, &p, N_CHUNKS, read_s);
    lk_free(allocator, memory, MEMORY_BYTES);
    speed->n_threads = lk_pool_n_threads(pool);
    speed->isa = p.entry->isa;
    speed->read_bytes_per_s = (double)MEMORY_BYTES / read;
    if (p.entry->isa != 0) {
        speed->int8_ops_per_s = measure_loop(pool, &p, p.entry->int8, p.entry->int8_ops);
        speed->float_ops_per_s = measure_loop(pool, &p, p.entry->floats, p.entry->float_ops);
    }
#if defined(__x86_64__)
    if (p.has_matrix) { /* its rounds are longer */
        p.n_rounds = N_ROUNDS / 4;
        speed->matrix_ops_per_s = measure_loop(pool, &p, lk_peak_int8_amx, LK_PEAK_INT8_AMX_OPS);
    }
#endif
    return LK_OK;
}
