/* token.c - where the time of a decoded token goes, in a whole model on all threads. The kernels
 * of a context are exchanged for others between runs of the same tokens:
 *
 *   all            as it is
 *   clocks         the same with a clock around every kernel, so that a table can add up
 *   reads          products only read their weights: the same pieces, in the same order
 *   no products    products do nothing
 *   only products  everything else does nothing
 *   only reads     both: what the memory gives to such a step at most
 *
 * What the modes from "reads" on compute means nothing; "all" and "clocks" must agree. Models whose
 * layers are of other operators than Qwen3's have those in "waiting, rest".
 *
 *     bench_token MODEL [THREADS [TOKENS [ROUNDS [SEQUENCES]]]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/kern/peak.h"
#include "engine/context.h"
#include "lk/machine.h"
#include "lk/model.h"
#include "quant/strip.h"

enum { MAX_THREADS = 64, MAX_SEQUENCES = 64, MAX_ROUNDS = 32 };

static double now_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const char *what, const lk_error *err) {
    (void)fprintf(stderr, "bench_token: %s: %s\n", what, err != NULL ? err->message : "");
    exit(1);
}

/* --- what the kernels are exchanged for */

/* Kinds of work that a clock stands around; products by their format. */
enum { ATTENTION = LK_N_FORMATS, STORE, NORM, ROPE, GATED, ADD, QUANTIZE, CHECK, N_KINDS };
static const char *const other_names[] = {"attention", "keys and values", "norms",    "rotation",
                                          "gated",     "additions",       "quantise", "checks"};

typedef struct clocks {
    double s[N_KINDS];
    double bytes[N_KINDS];
    char apart[64]; /* no cache line of two threads */
} clocks;

static lk_cpu_kernels plain; /* the kernels as they are */
static clocks of_thread[MAX_THREADS];
static atomic_uint n_clocks;
static _Thread_local clocks *mine;
static volatile int64_t found; /* what reading found has to go somewhere */

static void add_time(int kind, double start, double bytes) {
    const double end = now_s();
    if (mine == NULL) {
        mine = &of_thread[atomic_fetch_add(&n_clocks, 1u) % MAX_THREADS];
    }
    mine->s[kind] += end - start;
    mine->bytes[kind] += bytes;
}

static size_t slot_of(const lk_format *format) {
    size_t i = 0;
    while (i + 1 < lk_format_count() && lk_format_at(i) != format) {
        i++;
    }
    return i;
}

static size_t strip_bytes(const lk_format *format, const lk_act_rows *x) {
    return lk_strip_shape_of(format->block_elems, format->block_bytes, x->n).bytes;
}

static void product_clocked(const lk_format *format, const uint8_t *strips, size_t o_begin,
                            size_t o_end, const lk_act_rows *x, float *y, size_t y_stride) {
    const size_t slot = slot_of(format);
    const double start = now_s();
    plain.matmul_strips[slot](format, strips, o_begin, o_end, x, y, y_stride);
    add_time((int)slot, start, (double)(strip_bytes(format, x) * lk_strip_count(o_end - o_begin)));
}

static void set_outputs(size_t o_begin, size_t o_end, const lk_act_rows *x, float *y,
                        size_t y_stride) {
    for (size_t r = 0; r < x->n_rows; r++) {
        memset(y + r * y_stride + o_begin, 0, (o_end - o_begin) * sizeof *y);
    }
}

/* Nothing but loads. */
static int64_t read_bytes(const uint8_t *begin, size_t n_bytes) {
#if defined(__x86_64__)
    if ((plain.isa & LK_ISA_AVX512) != 0) {
        return lk_peak_read_avx512(begin, n_bytes / 256 * 256);
    }
    if ((plain.isa & LK_ISA_AVX2) != 0) {
        return lk_peak_read_avx2(begin, n_bytes / 256 * 256);
    }
#endif
    uint64_t sum = 0;
    for (size_t i = 0; i + 8 <= n_bytes; i += 8) {
        uint64_t word = 0;
        memcpy(&word, begin + i, sizeof word);
        sum ^= word;
    }
    return (int64_t)sum;
}

static void product_read(const lk_format *format, const uint8_t *strips, size_t o_begin,
                         size_t o_end, const lk_act_rows *x, float *y, size_t y_stride) {
    const size_t bytes = strip_bytes(format, x);
    const uint8_t *begin = strips + o_begin / LK_STRIP_ROWS * bytes;
    found = read_bytes(begin, bytes * lk_strip_count(o_end - o_begin));
    set_outputs(o_begin, o_end, x, y, y_stride);
}

static void product_none(const lk_format *format, const uint8_t *strips, size_t o_begin,
                         size_t o_end, const lk_act_rows *x, float *y, size_t y_stride) {
    (void)format;
    (void)strips;
    set_outputs(o_begin, o_end, x, y, y_stride);
}

static void attention_clocked(const lk_attn_args *args) {
    const double start = now_s();
    plain.attention(args);
    add_time(ATTENTION, start, 0.0);
}
static void attention_none(const lk_attn_args *args) {
    for (size_t i = 0; i < args->n_queries; i++) {
        memset(args->out[i], 0, args->head_dim * sizeof(float));
    }
}
static void kv_store_clocked(lk_kv_format format, const float *x, size_t head_dim, uint8_t *block,
                             size_t i_in_page, uint32_t *flag) {
    const double start = now_s();
    plain.kv_store(format, x, head_dim, block, i_in_page, flag);
    add_time(STORE, start, 0.0);
}
static void kv_store_none(lk_kv_format format, const float *x, size_t head_dim, uint8_t *block,
                          size_t i_in_page, uint32_t *flag) {
    (void)format, (void)x, (void)head_dim, (void)block, (void)i_in_page, (void)flag;
}
static void rms_norm_clocked(const float *x, const float *w, float eps, size_t n, float *y,
                             uint32_t *flag) {
    const double start = now_s();
    plain.rms_norm(x, w, eps, n, y, flag);
    add_time(NORM, start, 0.0);
}
static void rms_norm_none(const float *x, const float *w, float eps, size_t n, float *y,
                          uint32_t *flag) {
    (void)x, (void)w, (void)eps, (void)n, (void)y, (void)flag;
}
static void rope_clocked(float *x, size_t n_rot, lk_rope_order order, const float *cos_sin) {
    const double start = now_s();
    plain.rope(x, n_rot, order, cos_sin);
    add_time(ROPE, start, 0.0);
}
static void rope_none(float *x, size_t n_rot, lk_rope_order order, const float *cos_sin) {
    (void)x, (void)n_rot, (void)order, (void)cos_sin;
}
static void silu_mul_clocked(const float *gate, const float *up, size_t n, float *y) {
    const double start = now_s();
    plain.silu_mul(gate, up, n, y);
    add_time(GATED, start, 0.0);
}
static void silu_mul_none(const float *gate, const float *up, size_t n, float *y) {
    (void)gate, (void)up, (void)n, (void)y;
}
static void add_clocked(const float *a, const float *b, size_t n, float *y) {
    const double start = now_s();
    plain.add(a, b, n, y);
    add_time(ADD, start, 0.0);
}
static void add_none(const float *a, const float *b, size_t n, float *y) {
    (void)a, (void)b, (void)n, (void)y;
}
static void act_quantize_clocked(const float *x, size_t n, uint32_t group, int8_t *q, float *d,
                                 int16_t *sums, uint32_t *flag) {
    const double start = now_s();
    plain.act_quantize(x, n, group, q, d, sums, flag);
    add_time(QUANTIZE, start, 0.0);
}
static void act_quantize_none(const float *x, size_t n, uint32_t group, int8_t *q, float *d,
                              int16_t *sums, uint32_t *flag) {
    (void)x, (void)n, (void)group, (void)q, (void)d, (void)sums, (void)flag;
}
static uint32_t check_finite_clocked(const float *x, size_t n) {
    const double start = now_s();
    const uint32_t flag = plain.check_finite(x, n);
    add_time(CHECK, start, 0.0);
    return flag;
}
static uint32_t check_finite_none(const float *x, size_t n) {
    (void)x, (void)n;
    return 0;
}

typedef enum mode { ALL, CLOCKS, READS, NO_PRODUCTS, ONLY_PRODUCTS, ONLY_READS, N_MODES } mode;
static const char *const mode_names[] = {"all",         "clocks",        "reads",
                                         "no products", "only products", "only reads"};

static void exchange(lk_cpu_kernels *k, mode m) {
    *k = plain;
    lk_matmul_strip_fn *product = m == CLOCKS                     ? product_clocked
                                  : m == READS || m == ONLY_READS ? product_read
                                  : m == NO_PRODUCTS              ? product_none
                                                                  : NULL;
    for (size_t i = 0; i < LK_N_FORMATS && product != NULL; i++) {
        k->matmul_strips[i] = plain.matmul_strips[i] != NULL ? product : NULL;
    }
    if (m == CLOCKS) {
        k->attention = attention_clocked;
        k->kv_store = kv_store_clocked;
        k->rms_norm = rms_norm_clocked;
        k->rope = rope_clocked;
        k->silu_mul = silu_mul_clocked;
        k->add = add_clocked;
        k->act_quantize = act_quantize_clocked;
        k->check_finite = check_finite_clocked;
    }
    if (m == ONLY_PRODUCTS || m == ONLY_READS) {
        k->attention = attention_none;
        k->kv_store = kv_store_none;
        k->rms_norm = rms_norm_none;
        k->rope = rope_none;
        k->silu_mul = silu_mul_none;
        k->add = add_none;
        k->act_quantize = act_quantize_none;
        k->check_finite = check_finite_none;
    }
}

/* --- runs */

typedef struct run {
    lk_context *context;
    int32_t n_sequences;
    int64_t n_tokens;
    uint8_t digest[16];
} run;

/* Seconds of a token of every sequence. */
static double generate(run *r) {
    lk_error err;
    lk_row rows[MAX_SEQUENCES];
    for (int32_t s = 0; s < r->n_sequences; s++) {
        if (lk_sequence_truncate(r->context, s, 0, &err) != LK_OK) {
            fail("truncate", &err);
        }
    }
    double begin = 0.0;
    for (int64_t pos = 0; pos <= r->n_tokens; pos++) { /* the first one is not counted */
        begin = pos == 1 ? now_s() : begin;
        for (int32_t s = 0; s < r->n_sequences; s++) {
            rows[s] = (lk_row){(int32_t)(pos * 7919 % 1000), s, pos, LK_ROW_LOGITS, 0};
        }
        if (lk_context_decode(r->context, rows, (size_t)r->n_sequences, NULL, &err) != LK_OK) {
            fail("decode", &err);
        }
    }
    const double taken = (now_s() - begin) / (double)r->n_tokens;
    const float *logits = NULL;
    if (lk_context_logits(r->context, 0, &logits, &err) == LK_OK) {
        lk_logits_digest(logits, r->context->graph->n_vocab, r->digest);
    }
    return taken;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *of, long n) {
    double sorted[MAX_ROUNDS];
    memcpy(sorted, of, (size_t)n * sizeof sorted[0]);
    qsort(sorted, (size_t)n, sizeof sorted[0], compare);
    return n % 2 != 0 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

typedef struct options {
    const char *path;
    long n_threads;
    long n_tokens;
    long n_rounds;
    long n_sequences;
} options;

typedef struct figures {
    double s[N_MODES][MAX_ROUNDS]; /* of a token of every sequence */
    double read[MAX_ROUNDS];       /* bytes/s, in the same rounds */
} figures;

static void measure(const options *o, run *r, figures *f) {
    lk_error err;
    lk_cpu_kernels *kernels = &r->context->backend->kernels;
    uint8_t digests[N_MODES][16];
    plain = *kernels;
    for (long i = 0; i < o->n_rounds; i++) {
        lk_machine_speed speed = LK_MACHINE_SPEED_INIT;
        if (lk_machine_measure((uint32_t)o->n_threads, LK_ISA_ALL, NULL, &speed, &err) != LK_OK) {
            fail("the machine's speed", &err);
        }
        f->read[i] = speed.read_bytes_per_s;
        exchange(kernels, ALL);
        (void)generate(r);                   /* after the measuring loops, which used all caches */
        for (long k = 0; k < N_MODES; k++) { /* every round begins with another one */
            const long m = (i + k) % N_MODES;
            exchange(kernels, (mode)m);
            f->s[m][i] = generate(r);
            memcpy(digests[m], r->digest, 16);
        }
        if (memcmp(digests[ALL], digests[CLOCKS], 16) != 0) {
            fail("clocks changed the logits", NULL);
        }
    }
    exchange(kernels, ALL);
}

static void print(const options *o, const figures *f) {
    const double n_steps = (double)((o->n_tokens + 1) * o->n_rounds);
    const double bandwidth = median(f->read, o->n_rounds);
    clocks sum = {.s = {0.0}};
    double bytes = 0.0;
    double all = 0.0;
    for (int k = 0; k < N_KINDS; k++) {
        for (int t = 0; t < MAX_THREADS; t++) {
            sum.s[k] += of_thread[t].s[k] / n_steps;
            sum.bytes[k] += of_thread[t].bytes[k] / n_steps;
        }
        bytes += sum.bytes[k];
        all += sum.s[k];
    }
    (void)printf("reads %.2f GB/s; %.1f MB of weights in strips: %.2f ms\n", bandwidth / 1e9,
                 bytes / 1e6, 1e3 * bytes / bandwidth);
    for (int m = 0; m < N_MODES; m++) {
        const double each = median(f->s[m], o->n_rounds);
        (void)printf("%-14s %7.2f ms", mode_names[m], 1e3 * each);
        if (m != NO_PRODUCTS) {
            (void)printf(" %6.2f GB/s %5.1f %%", bytes / each / 1e9,
                         100.0 * bytes / each / bandwidth);
        }
        (void)printf("\n");
    }
    for (int k = 0; k < N_KINDS; k++) {
        if (sum.s[k] > 0.0) {
            (void)printf("  %-16s %7.3f ms of all threads",
                         k < (int)LK_N_FORMATS ? lk_format_at((size_t)k)->name
                                               : other_names[k - (int)LK_N_FORMATS],
                         1e3 * sum.s[k]);
            if (sum.bytes[k] > 0.0) {
                (void)printf(", %6.1f MB, %.2f GB/s a thread", sum.bytes[k] / 1e6,
                             sum.bytes[k] / sum.s[k] / 1e9);
            }
            (void)printf("\n");
        }
    }
    (void)printf("  %-16s %7.3f ms of all threads\n", "waiting, rest",
                 1e3 * (median(f->s[CLOCKS], o->n_rounds) * (double)o->n_threads - all));
}

static long number(int argc, char **argv, int i, long otherwise, long most) {
    const long n = argc > i ? strtol(argv[i], NULL, 10) : otherwise;
    if (n < 1 || n > most) {
        (void)fprintf(stderr, "bench_token: %s, expected 1 .. %ld\n", argv[i], most);
        exit(2);
    }
    return n;
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 6) {
        (void)fprintf(stderr, "usage: bench_token MODEL [THREADS [TOKENS [ROUNDS [SEQUENCES]]]]\n");
        return 2;
    }
    const options o = {argv[1], number(argc, argv, 2, 2, MAX_THREADS),
                       number(argc, argv, 3, 16, 4096), number(argc, argv, 4, 6, MAX_ROUNDS),
                       number(argc, argv, 5, 1, MAX_SEQUENCES)};
    lk_error err;
    lk_model *model = NULL;
    lk_model_params model_params = LK_MODEL_PARAMS_INIT;
    if (lk_model_open(o.path, &model_params, &model, &err) != LK_OK) {
        fail(o.path, &err);
    }
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_threads = (uint32_t)o.n_threads;
    params.kv_positions = (o.n_tokens + 64) / 64 * 64 * o.n_sequences;
    params.n_sequences = (int32_t)o.n_sequences;
    params.max_rows = (int32_t)o.n_sequences;
    params.max_logits = (int32_t)o.n_sequences;
    run r = {.n_sequences = (int32_t)o.n_sequences, .n_tokens = o.n_tokens};
    if (lk_context_create(model, &params, &r.context, &err) != LK_OK) {
        fail("a context", &err);
    }
    if (r.context->ops != &lk_backend_cpu) {
        fail("the context computes elsewhere than on the CPU", NULL);
    }
    figures f;
    measure(&o, &r, &f);
    print(&o, &f);
    lk_context_destroy(r.context);
    lk_model_close(model);
    return 0;
}
