/* matmul.c - how fast the quantised matrix products are, beside what the machine could do: GB/s of
 * weights and GOPS, as shares of the read bandwidth and of the int8 peak of one thread. Weights are
 * strips; every call takes the next 64 outputs (256 with more than 16 rows) of a matrix that no
 * cache holds. One thread, thread CPU time, best of many samples: other programs count as little
 * as possible.
 *
 *     bench_matmul [COLUMNS [PART-OF-A-FORMAT'S-NAME]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/kern/peak.h"
#include "backend/cpu/kernels.h"
#include "base/alloc.h"
#include "base/fpenv.h"
#include "base/huge_pages.h"
#include "lk/context.h"
#include "quant/strip.h"

/* Outputs of a call: with many rows as many as a task of a backend has. */
enum { OUT = 64, OUT_MANY = 256, MANY_ROWS = 17, MATRIX_BYTES = 384 << 20, MAX_COLUMNS = 1 << 16 };
static const double seconds_each = 0.25;
static const double seconds_of_sample = 1e-3;

static double cpu_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *get(size_t n_bytes) {
    void *p = lk_huge_pages_alloc(lk_allocator_or_default(NULL), n_bytes);
    if (p == NULL) {
        (void)fprintf(stderr, "bench_matmul: no memory for %zu bytes\n", n_bytes);
        exit(1);
    }
    return p;
}

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* What one thread can do: bytes read and int8 operations of vectors per second of its own time. */
typedef struct limits {
    double read;
    double int8;
} limits;

static limits measure(const uint8_t *matrix) {
    limits best = {0.0, 0.0};
#if defined(__x86_64__)
    enum { PIECE = 4 << 20, ROUNDS = 1 << 14 };
    const bool wide = (lk_cpu_detect() & LK_ISA_AVX512) != 0;
    const bool has_vnni = (lk_cpu_detect() & LK_ISA_AVXVNNI) != 0;
    int8_t in[64] = {1};
    volatile int64_t result = 0; /* what the loops found has to go somewhere */
    for (size_t at = 0; (lk_cpu_detect() & LK_ISA_AVX2) != 0 && at < MATRIX_BYTES; at += PIECE) {
        const double start = cpu_s();
        result +=
            wide ? lk_peak_read_avx512(matrix + at, PIECE) : lk_peak_read_avx2(matrix + at, PIECE);
        const double middle = cpu_s();
        result += wide       ? lk_peak_int8_avx512(ROUNDS, in)
                  : has_vnni ? lk_peak_int8_avxvnni(ROUNDS, in)
                             : lk_peak_int8_avx2(ROUNDS, in);
        const double end = cpu_s();
        const double ops = (double)ROUNDS * (wide       ? LK_PEAK_INT8_AVX512_OPS
                                             : has_vnni ? LK_PEAK_INT8_AVXVNNI_OPS
                                                        : LK_PEAK_INT8_AVX2_OPS);
        const double read = (double)PIECE / (middle - start);
        best.read = read > best.read ? read : best.read;
        best.int8 = ops / (end - middle) > best.int8 ? ops / (end - middle) : best.int8;
    }
    (void)result;
#else
    (void)matrix;
#endif
    return best;
}

/* Rows as a backend has them, 64 bytes more from one to the next. */
static lk_act_rows make_rows(const lk_format *format, size_t n, size_t n_rows) {
    const size_t stride = (n / 64 | 1) * 64;
    int8_t *q = get(n_rows * stride);
    float *d = get(n_rows * (n / 32) * sizeof *d);
    int16_t *sums = get(n_rows * (n / LK_SUBGROUP) * sizeof *sums);
    uint32_t state = 5;
    for (size_t k = 0; k < n_rows * stride; k++) { /* a bell, as a quantiser makes; few are large */
        int sum = 0;
        for (int i = 0; i < 6; i++) {
            sum += (int)(next_random(&state) % 43) - 21;
        }
        q[k] = (int8_t)sum;
    }
    for (size_t k = 0; k < n_rows * (n / 32); k++) {
        d[k] = 0.01f;
    }
    for (size_t g = 0; g < n_rows * (n / LK_SUBGROUP); g++) {
        int sum = 0;
        for (size_t k = 0; k < LK_SUBGROUP; k++) {
            sum += q[g * LK_SUBGROUP / n * stride + g * LK_SUBGROUP % n + k];
        }
        sums[g] = (int16_t)sum;
    }
    return (lk_act_rows){q, d, sums, stride, n, format->act_group, n_rows};
}

static void free_rows(const lk_act_rows *x) {
    const lk_allocator *a = lk_allocator_or_default(NULL);
    lk_huge_pages_free(a, (void *)(uintptr_t)x->q, x->n_rows * x->q_stride);
    lk_huge_pages_free(a, (void *)(uintptr_t)x->d, x->n_rows * (x->n / 32) * sizeof x->d[0]);
    lk_huge_pages_free(a, (void *)(uintptr_t)x->sums,
                       x->n_rows * (x->n / LK_SUBGROUP) * sizeof x->sums[0]);
}

/* Seconds of a call in the fastest sample. */
static double time_rows(const lk_format *format, lk_matmul_strip_fn *fn, const uint8_t *matrix,
                        const lk_act_rows *x, size_t n_out) {
    const size_t call_bytes =
        lk_strip_shape_of(format->block_elems, format->block_bytes, x->n).bytes *
        (n_out / LK_STRIP_ROWS);
    float *y = get(x->n_rows * n_out * sizeof *y);
    double best = 1e30;
    size_t at = 0;
    const double begin = cpu_s();
    for (double now = begin; now - begin < seconds_each;) {
        double end = now;
        uint32_t n_calls = 0;
        for (; end - now < seconds_of_sample;
             n_calls++) { /* one alone is too short for the clock */
            fn(format, matrix + at, 0, n_out, x, y, n_out);
            at = at + 2 * call_bytes <= MATRIX_BYTES ? at + call_bytes : 0;
            end = cpu_s();
        }
        const double each = (end - now) / n_calls;
        best = each < best ? each : best;
        now = end;
    }
    lk_huge_pages_free(lk_allocator_or_default(NULL), y, x->n_rows * n_out * sizeof *y);
    return best;
}

static void bench_format(const lk_format *format, lk_matmul_strip_fn *fn, const char *isa,
                         const uint8_t *matrix, size_t n, const limits *limit) {
    static const size_t counts[] = {1, 2, 3, 4, 8, 16, 64, 512};
    const double strip_bytes =
        (double)lk_strip_shape_of(format->block_elems, format->block_bytes, n).bytes;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const lk_act_rows x = make_rows(format, n, counts[i]);
        const size_t n_out = counts[i] < MANY_ROWS ? OUT : OUT_MANY;
        const double s = time_rows(format, fn, matrix, &x, n_out);
        const double bytes = strip_bytes * (double)(n_out / LK_STRIP_ROWS);
        const double ops = 2.0 * (double)n * (double)n_out * (double)counts[i];
        (void)printf("%-7s %-7s %4zu rows %8.2f GB/s %4.0f %% %9.1f GOPS %4.0f %%\n", format->name,
                     isa, counts[i], bytes / s / 1e9,
                     limit->read > 0.0 ? 100.0 * bytes / s / limit->read : 0.0, ops / s / 1e9,
                     limit->int8 > 0.0 ? 100.0 * ops / s / limit->int8 : 0.0);
        (void)fflush(stdout);
        free_rows(&x);
    }
}

typedef struct isa_entry {
    const char *name;
    uint32_t mask; /* with all that it stands on */
} isa_entry;

static const isa_entry isas[] = {
#define LK_ISA(NAME, name, processor, bit, needs) {#name, (bit) | (needs)},
#include "backend/cpu/isas.def"
#undef LK_ISA
};

int main(int argc, char **argv) {
    const long n = argc > 1 ? strtol(argv[1], NULL, 10) : 2048;
    const char *part = argc > 2 ? argv[2] : "";
    if (n < 256 || n > MAX_COLUMNS || n % 256 != 0) {
        (void)fprintf(stderr,
                      "usage: bench_matmul [COLUMNS [PART-OF-A-FORMAT'S-NAME]]\n"
                      "COLUMNS: a multiple of 256 up to %d (2048)\n",
                      MAX_COLUMNS);
        return 2;
    }
    uint8_t *matrix = get(MATRIX_BYTES);
    memset(matrix, 0x31, MATRIX_BYTES); /* finite scales in every format */
    const limits limit = measure(matrix);
    (void)printf("one thread: reads %.1f GB/s, int8 %.0f GOPS; %ld columns\n", limit.read / 1e9,
                 limit.int8 / 1e9, n);
    const lk_fpenv env = lk_fpenv_enter();
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        lk_cpu_kernels kernels;
        lk_cpu_kernels_init(&kernels, isas[i].mask);
        for (size_t f = 0; kernels.isa == isas[i].mask && f < lk_format_count(); f++) {
            if (kernels.matmul_strips[f] != NULL && strstr(lk_format_at(f)->name, part) != NULL) {
                bench_format(lk_format_at(f), kernels.matmul_strips[f], isas[i].name, matrix,
                             (size_t)n, &limit);
            }
        }
    }
    lk_fpenv_leave(env);
    lk_huge_pages_free(lk_allocator_or_default(NULL), matrix, MATRIX_BYTES);
    return 0;
}
