/* test_checkkern.c - is each kernel its scalar twin, bit for bit? Walks ops.def, the formats and
 * the instruction sets of this processor; a slot that still holds the twin, or the kernel of a set
 * that this one stands on, has nothing to compare.
 *
 *     test_checkkern [--only PART] [--bench]
 *
 * PART selects operators, formats or KV pairs by a part of their name: "rope", "Q4_K",
 * "attention.f16". --bench times everything instead, also the twins. Planted faults check the
 * checks themselves. */
#include <stdio.h>
#include <string.h>

#include "base/fpenv.h"
#include "checkkern.h"
#include "lk_test.h"
#include "ops/twin.h"

typedef struct op_entry {
    const char *name;
    void (*check)(ck_run *run);
    void (*bench)(ck_run *run);
} op_entry;

static const op_entry ops[] = {
#define LK_OP(name) {#name, ck_check_##name, ck_bench_##name},
#define LK_OP_MATMUL_FLOAT(format)                                                                 \
    {"matmul_" #format, ck_check_matmul_##format, ck_bench_matmul_##format},
#include "ops/ops.def"
#undef LK_OP
#undef LK_OP_MATMUL_FLOAT
};
enum { N_OPS = sizeof ops / sizeof ops[0] };

/* Whether table `a` has nothing of its own for operator `name`: what `b` has was checked already.
 * The product of strips is held against the twin of rows, so the one of strips is checked too. */
static bool is_same(const lk_cpu_kernels *a, const lk_cpu_kernels *b, const char *name) {
    if (strcmp(name, "matmul_quant") == 0) {
        return memcmp(a->matmul_format, b->matmul_format, sizeof a->matmul_format) == 0;
    }
    if (strcmp(name, "matmul_strip") == 0) {
        return b->isa != 0 &&
               memcmp(a->matmul_strips, b->matmul_strips, sizeof a->matmul_strips) == 0;
    }
#define LK_OP(op)                                                                                  \
    if (strcmp(name, #op) == 0) {                                                                  \
        return a->op == b->op;                                                                     \
    }
#define LK_OP_MATMUL_FLOAT(format)                                                                 \
    if (strcmp(name, "matmul_" #format) == 0) {                                                    \
        return a->matmul_##format == b->matmul_##format;                                           \
    }
#include "ops/ops.def"
#undef LK_OP
#undef LK_OP_MATMUL_FLOAT
    return true;
}

/* `only` may name an operator or one of its formats. */
static bool is_op_wanted(const ck_run *run, const char *name) {
    const size_t n = strcspn(run->only != NULL ? run->only : "", ".");
    return run->only == NULL || strstr(name, run->only) != NULL ||
           (n > 0 && strncmp(name, run->only, n) == 0) || strcmp(name, "matmul_quant") == 0 ||
           strcmp(name, "matmul_strip") == 0;
}

/* Checks one operator of one table; returns the calls compared. */
static uint64_t check_op(const op_entry *op, const lk_cpu_kernels *kernels, const char *isa,
                         const char *only, uint64_t seed, bool is_quiet, uint64_t *n_failures) {
    ck_run run = {kernels, isa, only, is_quiet, seed, 0, 0, ""};
    if (only != NULL && strstr(op->name, only) != NULL) {
        run.only = NULL; /* the operator itself: all its formats */
    }
    ck_memory_watch(&run);
    if (is_op_wanted(&run, op->name)) {
        op->check(&run);
    }
    *n_failures += run.n_failures;
    return run.n_calls;
}

/* ---- planted faults: kernels that are wrong in ways that kernels go wrong ---- */

static void fault_order_of_rows(const uint8_t *w, size_t row_bytes, size_t n, size_t o_begin,
                                size_t o_end, const float *x, size_t x_stride, size_t n_rows,
                                float *y, size_t y_stride) {
    lk_matmul_f32_ref(w, row_bytes, n, o_begin, o_end, x, x_stride, n_rows, y, y_stride);
    for (size_t o = o_begin; n_rows > 1 && o < o_end; o++) { /* several rows: one accumulator */
        float acc = 0.0f;
        for (size_t k = 0; k < n; k++) {
            acc = acc + lk_f32_from_bits(lk_load_u32(w + o * row_bytes + 4 * k)) * x[k];
        }
        y[o] = acc;
    }
}

static void fault_outside(const float *a, const float *b, size_t n, float *y) {
    lk_add_ref(a, b, n, y);
    if (n % 8 == 7) {
        memset((uint8_t *)y - 1, 0, 1); /* behind it would hit the untouchable page */
    }
}

static void fault_no_flag(const float *x, size_t n, uint32_t group, int8_t *q, float *d,
                          int16_t *sums, uint32_t *flag) {
    uint32_t ignored = 0;
    (void)flag;
    lk_act_quantize_ref(x, n, group, q, d, sums, &ignored);
}

static void fault_last_block(const lk_format *format, const uint8_t *w, size_t row_bytes,
                             size_t o_begin, size_t o_end, const lk_act_rows *x, float *y,
                             size_t y_stride) {
    lk_act_rows shorter = *x;
    if (x->n_rows == 1 && x->n / format->block_elems > 4) { /* an unrolled loop without its tail */
        shorter.n -= format->block_elems;
    }
    lk_matmul_quant_ref(format, w, row_bytes, o_begin, o_end, &shorter, y, y_stride);
}

static void fault_chunk_of_128(const lk_attn_args *args) {
    lk_attention_ref(args);
    for (size_t i = 0; i < args->n_queries; i++) {
        if (args->n_keys[i] > 128) { /* the last place of one output */
            const float x = args->out[i][3];
            args->out[i][3] = lk_f32_from_bits(lk_f32_bits(x) ^ 1u);
        }
    }
}

static void fault_subnormals(const float *gate, const float *up, size_t n, float *y) {
    lk_silu_mul_ref(gate, up, n, y);
    for (size_t k = 0; k < n; k++) {
        if ((lk_f32_bits(y[k]) & 0x7f800000u) == 0) {
            y[k] = 0.0f; /* flushed */
        }
    }
}

static uint64_t planted_failures(const lk_cpu_kernels *table, const char *name, const char *only,
                                 uint64_t seed) {
    uint64_t n = 0;
    for (size_t i = 0; i < N_OPS; i++) {
        if (strcmp(ops[i].name, name) == 0) {
            (void)check_op(&ops[i], table, "planted", only, seed, true, &n);
        }
    }
    return n;
}

static void check_planted_faults(uint64_t seed) {
    static const char *const names[][2] = {
        {"matmul_f32", NULL},   {"add", NULL},
        {"act_quantize", NULL}, {"matmul_quant", "matmul_quant.Q6_K"},
        {"silu_mul", NULL},     {"attention", "attention.f16.q8_0"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        lk_cpu_kernels table;
        lk_cpu_kernels_init(&table, 0);
        table.matmul_f32 = fault_order_of_rows;
        table.add = fault_outside;
        table.act_quantize = fault_no_flag;
        for (size_t k = 0; k < lk_format_count(); k++) {
            if (table.matmul_format[k] != NULL) {
                table.matmul_format[k] = fault_last_block;
            }
        }
        table.attention = fault_chunk_of_128;
        table.silu_mul = fault_subnormals;
        if (planted_failures(&table, names[i][0], names[i][1], seed) == 0) {
            lk_test_fail(__FILE__, __LINE__, "the fault planted in %s was not seen", names[i][0]);
        }
    }
}

/* ---- the program ---- */

typedef struct isa_entry {
    const char *name;
    uint32_t mask;  /* with all that it stands on */
    uint32_t below; /* that alone */
} isa_entry;

static const isa_entry isas[] = {
    {"scalar", 0, 0},
#define LK_ISA(NAME, name, processor, bit, needs) {#name, (bit) | (needs), (needs)},
#include "backend/cpu/isas.def"
#undef LK_ISA
};

static void check_isa(const isa_entry *isa, const char *only, uint64_t seed) {
    lk_cpu_kernels table;
    lk_cpu_kernels below;
    lk_cpu_kernels_init(&table, isa->mask);
    lk_cpu_kernels_init(&below, isa->below);
    if (table.isa != isa->mask) {
        (void)printf("%s: this processor does not have it\n", isa->name);
        return;
    }
    for (size_t i = 0; i < N_OPS; i++) {
        if (is_same(&table, &below, ops[i].name)) {
            (void)printf("%-8s %-14s %s\n", isa->name, ops[i].name,
                         below.isa == 0 ? "twin" : "as before");
            continue;
        }
        uint64_t n_failures = 0;
        const uint64_t n = check_op(&ops[i], &table, isa->name, only, seed, false, &n_failures);
        if (n == 0 && only != NULL) {
            continue;
        }
        (void)printf("%-8s %-14s %8llu calls, %llu failures\n", isa->name, ops[i].name,
                     (unsigned long long)n, (unsigned long long)n_failures);
        (void)fflush(stdout);
        if (n_failures != 0) {
            lk_test_fail(__FILE__, __LINE__, "%s differs on %s", ops[i].name, isa->name);
        }
    }
}

static void bench_isa(const isa_entry *isa, const char *only, uint64_t seed) {
    lk_cpu_kernels table;
    lk_cpu_kernels_init(&table, isa->mask);
    if (table.isa != isa->mask) {
        return;
    }
    for (size_t i = 0; i < N_OPS; i++) {
        ck_run run = {&table, isa->name, only, false, seed, 0, 0, ""};
        ck_memory_watch(&run);
        if (is_op_wanted(&run, ops[i].name)) {
            ops[i].bench(&run);
        }
    }
}

int main(int argc, char **argv) {
    const char *only = NULL;
    bool is_bench = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--bench") == 0) {
            is_bench = true;
        } else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
            only = argv[++i];
        } else {
            (void)fprintf(stderr, "usage: test_checkkern [--only PART] [--bench]\n");
            return 2;
        }
    }
    const uint64_t seed = lk_test_seed(1);
    const lk_fpenv fpenv = lk_fpenv_enter();
    ck_memory_init();
    if (is_bench) {
        for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
            bench_isa(&isas[i], only, seed);
        }
    } else {
        if (only == NULL) {
            check_planted_faults(seed);
        }
        for (size_t i = 1; i < sizeof isas / sizeof isas[0]; i++) {
            check_isa(&isas[i], only, seed);
        }
    }
    lk_fpenv_leave(fpenv);
    return lk_test_failures() == 0 ? 0 : 1;
}
