/* check_rowwise.c - checks and timings of the operators on one row: quantiser, rounding, norm,
 * rotation, element-wise, the test for finite values, and the router. */
#include <string.h>

#include "base/bytes.h"
#include "checkkern.h"

/* ---- act_quantize ---- */

static void compare_quantize(ck_run *run, size_t n, uint32_t group, ck_kind kind, size_t gap) {
    ck_at(run, "act_quantize n=%zu group=%u %s gap=%zu", n, group, ck_kind_name(kind), gap);
    float *const x = ck_place_f32(CK_IN0, n, gap);
    ck_fill(run, x, n, kind);
    int8_t *const q = ck_place(CK_OUT0, n, gap);
    float *const d = ck_place_f32(CK_OUT1, n / group, gap);
    int16_t *const sums = ck_place(CK_OUT2, n / LK_SUBGROUP * sizeof(int16_t), gap * 2);
    int8_t *const want_q = ck_place(CK_WANT0, n, 0);
    float *const want_d = ck_place_f32(CK_WANT1, n / group, 0);
    int16_t *const want_sums = ck_place(CK_WANT2, n / LK_SUBGROUP * sizeof(int16_t), 0);
    uint32_t flag = 0;
    uint32_t want_flag = 0;
    run->kernels->act_quantize(x, n, group, q, d, sums, &flag);
    lk_act_quantize_ref(x, n, group, want_q, want_d, want_sums, &want_flag);
    if (ck_same_flags(run, flag, want_flag)) {
        ck_same_bytes(run, "q", q, want_q, n);
        ck_same_bytes(run, "d", d, want_d, n / group * sizeof(float));
        ck_same_bytes(run, "sums", sums, want_sums, n / LK_SUBGROUP * sizeof(int16_t));
    }
    ck_check_guard(run, CK_OUT0);
    ck_check_guard(run, CK_OUT1);
    ck_check_guard(run, CK_OUT2);
}

void ck_check_act_quantize(ck_run *run) {
    static const size_t groups[] = {1, 2, 3, 4, 5, 7, 8, 11, 16, 17};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        for (int kind = 0; kind < CK_N_KINDS; kind++) {
            for (int repeat = 0; repeat < 12; repeat++) {
                compare_quantize(run, groups[i] * 32, 32, (ck_kind)kind, ck_below(run, 4));
                compare_quantize(run, groups[i] * 256, 256, (ck_kind)kind, ck_below(run, 4));
            }
        }
    }
}

enum { BENCH_N = 4096 };
static float bench_a[BENCH_N];
static float bench_b[BENCH_N];
static float bench_y[BENCH_N];
static int8_t bench_q[BENCH_N];
static int16_t bench_sums[BENCH_N / LK_SUBGROUP];
static uint32_t bench_flag;

static void bench_fill(ck_run *run) {
    ck_fill(run, bench_a, BENCH_N, CK_NORMAL);
    ck_fill(run, bench_b, BENCH_N, CK_NORMAL);
}

static void time_quantize_32(void *arg) {
    const lk_cpu_kernels *const k = arg;
    k->act_quantize(bench_a, BENCH_N, 32, bench_q, bench_y, bench_sums, &bench_flag);
}

static void time_quantize_256(void *arg) {
    const lk_cpu_kernels *const k = arg;
    k->act_quantize(bench_a, BENCH_N, 256, bench_q, bench_y, bench_sums, &bench_flag);
}

/* The table, for the `arg` of a timing. */
static void *table_of(const ck_run *run, lk_cpu_kernels *copy) {
    *copy = *run->kernels;
    return copy;
}

void ck_bench_act_quantize(ck_run *run) {
    lk_cpu_kernels k;
    bench_fill(run);
    ck_bench(run, "act_quantize.32 n=4096", time_quantize_32, table_of(run, &k), BENCH_N * 4,
             BENCH_N);
    ck_bench(run, "act_quantize.256 n=4096", time_quantize_256, table_of(run, &k), BENCH_N * 4,
             BENCH_N);
}

/* ---- act_round ---- */

void ck_check_act_round(ck_run *run) {
    for (size_t i = 0; i < ck_n_row_sizes * CK_N_KINDS * 6; i++) {
        const size_t n = ck_row_sizes[i % ck_n_row_sizes];
        const ck_kind kind = (ck_kind)(i / ck_n_row_sizes % CK_N_KINDS);
        const lk_round_mode mode = (lk_round_mode)(i / ck_n_row_sizes / CK_N_KINDS % 3);
        const bool in_place = ck_below(run, 2) != 0;
        const size_t gap = ck_below(run, 17);
        ck_at(run, "act_round n=%zu %s mode=%d gap=%zu", n, ck_kind_name(kind), (int)mode, gap);
        float *const y = ck_place_f32(CK_OUT0, n, gap);
        ck_fill(run, y, n, kind);
        const float *x = y;
        if (!in_place) {
            float *const copy = ck_place_f32(CK_IN0, n, gap);
            memcpy(copy, y, n * sizeof(float));
            x = copy;
        }
        float *const want = ck_place_f32(CK_WANT0, n, 0);
        uint32_t flag = 0;
        uint32_t want_flag = 0;
        lk_act_round_ref(x, n, mode, want, &want_flag);
        run->kernels->act_round(x, n, mode, y, &flag);
        if (ck_same_flags(run, flag, want_flag)) {
            ck_same_f32(run, "y", y, want, n);
        }
        ck_check_guard(run, CK_OUT0);
    }
}

static void time_round(void *arg) {
    const lk_cpu_kernels *const k = arg;
    k->act_round(bench_a, BENCH_N, LK_ROUND_13, bench_y, &bench_flag);
}

void ck_bench_act_round(ck_run *run) {
    lk_cpu_kernels k;
    bench_fill(run);
    ck_bench(run, "act_round n=4096", time_round, table_of(run, &k), BENCH_N * 8, BENCH_N);
}

/* ---- rms_norm ---- */

void ck_check_rms_norm(ck_run *run) {
    static const float epsilons[3] = {1e-6f, 1e-5f, 0.0f};
    for (size_t i = 0; i < ck_n_row_sizes * CK_N_KINDS * 6; i++) {
        const size_t n = ck_row_sizes[i % ck_n_row_sizes];
        const ck_kind kind = (ck_kind)(i / ck_n_row_sizes % CK_N_KINDS);
        const float eps = epsilons[i / ck_n_row_sizes / CK_N_KINDS % 3];
        const bool in_place = ck_below(run, 2) != 0;
        const size_t gap = ck_below(run, 17);
        ck_at(run, "rms_norm n=%zu %s eps=%g gap=%zu", n, ck_kind_name(kind), (double)eps, gap);
        float *const y = ck_place_f32(CK_OUT0, n, gap);
        ck_fill(run, y, n, kind);
        float *const w = ck_place_f32(CK_IN1, n, ck_below(run, 17));
        ck_fill(run, w, n, i % 5 == 0 ? CK_WIDE : CK_NORMAL);
        const float *x = y;
        if (!in_place) {
            float *const copy = ck_place_f32(CK_IN0, n, gap);
            memcpy(copy, y, n * sizeof(float));
            x = copy;
        }
        float *const want = ck_place_f32(CK_WANT0, n, 0);
        uint32_t flag = 0;
        uint32_t want_flag = 0;
        lk_rms_norm_ref(x, w, eps, n, want, &want_flag);
        run->kernels->rms_norm(x, w, eps, n, y, &flag);
        if (ck_same_flags(run, flag, want_flag)) {
            ck_same_f32(run, "y", y, want, n);
        }
        ck_check_guard(run, CK_OUT0);
    }
}

static void time_norm(void *arg) {
    const lk_cpu_kernels *const k = arg;
    k->rms_norm(bench_a, bench_b, 1e-6f, BENCH_N, bench_y, &bench_flag);
}

void ck_bench_rms_norm(ck_run *run) {
    lk_cpu_kernels k;
    bench_fill(run);
    ck_bench(run, "rms_norm n=4096", time_norm, table_of(run, &k), BENCH_N * 12, BENCH_N * 4);
}

/* ---- layer_norm ---- */

void ck_check_layer_norm(ck_run *run) {
    for (size_t i = 0; i < ck_n_row_sizes * CK_N_KINDS * 4; i++) {
        const size_t n = ck_row_sizes[i % ck_n_row_sizes];
        const ck_kind kind = (ck_kind)(i / ck_n_row_sizes % CK_N_KINDS);
        const float eps = i / ck_n_row_sizes / CK_N_KINDS % 2 == 0 ? 1e-5f : 0.0f;
        const bool in_place = i / ck_n_row_sizes / CK_N_KINDS / 2 != 0;
        ck_at(run, "layer_norm n=%zu %s eps=%g%s", n, ck_kind_name(kind), (double)eps,
              in_place ? " in place" : "");
        float *const y = ck_place_f32(CK_OUT0, n, ck_below(run, 17));
        float *const x = in_place ? y : ck_place_f32(CK_IN0, n, ck_below(run, 17));
        float *const w = ck_place_f32(CK_IN1, n, ck_below(run, 17));
        float *const b = ck_place_f32(CK_IN2, n, ck_below(run, 17));
        float *const want = ck_place_f32(CK_WANT0, n, 0);
        ck_fill(run, x, n, kind);
        ck_fill(run, w, n, i % 5 == 0 ? CK_WIDE : CK_NORMAL);
        ck_fill(run, b, n, CK_NORMAL);
        uint32_t flag = 0;
        uint32_t want_flag = 0;
        lk_layer_norm_ref(x, w, b, eps, n, want, &want_flag);
        run->kernels->layer_norm(x, w, b, eps, n, y, &flag);
        if (ck_same_flags(run, flag, want_flag)) {
            ck_same_f32(run, "y", y, want, n);
        }
        ck_check_guard(run, CK_OUT0);
    }
}

static void time_layer_norm(void *arg) {
    const lk_cpu_kernels *const k = arg;
    k->layer_norm(bench_a, bench_b, bench_b, 1e-5f, BENCH_N, bench_y, &bench_flag);
}

void ck_bench_layer_norm(ck_run *run) {
    lk_cpu_kernels k;
    bench_fill(run);
    ck_bench(run, "layer_norm n=4096", time_layer_norm, table_of(run, &k), BENCH_N * 16,
             BENCH_N * 7);
}

/* ---- rope ---- */

void ck_check_rope(ck_run *run) {
    for (size_t n_rot = 2; n_rot <= LK_MAX_HEAD_DIM; n_rot += 2) {
        for (int i = 0; i < 2 * CK_N_KINDS; i++) {
            const lk_rope_order order = i % 2 == 0 ? LK_ROPE_NORMAL : LK_ROPE_NEOX;
            const ck_kind kind = (ck_kind)(i / 2);
            const size_t gap = ck_below(run, 17);
            ck_at(run, "rope n_rot=%zu order=%d %s gap=%zu", n_rot, (int)order, ck_kind_name(kind),
                  gap);
            float *const x = ck_place_f32(CK_OUT0, n_rot, gap);
            float *const cos_sin = ck_place_f32(CK_IN0, n_rot, ck_below(run, 3));
            float *const want = ck_place_f32(CK_WANT0, n_rot, 0);
            ck_fill(run, x, n_rot, kind);
            ck_fill(run, cos_sin, n_rot, CK_NORMAL);
            memcpy(want, x, n_rot * sizeof(float));
            run->kernels->rope(x, n_rot, order, cos_sin);
            lk_rope_ref(want, n_rot, order, cos_sin);
            run->n_calls++;
            ck_same_f32(run, "x", x, want, n_rot);
            ck_check_guard(run, CK_OUT0);
        }
    }
}

static void time_rope_normal(void *arg) {
    const lk_cpu_kernels *const k = arg;
    k->rope(bench_a, 128, LK_ROPE_NORMAL, bench_b);
}

static void time_rope_neox(void *arg) {
    const lk_cpu_kernels *const k = arg;
    k->rope(bench_a, 128, LK_ROPE_NEOX, bench_b);
}

void ck_bench_rope(ck_run *run) {
    lk_cpu_kernels k;
    bench_fill(run);
    for (size_t i = 0; i < 64; i++) { /* no rotation: the values stay as they are */
        bench_b[2 * i] = 1.0f;
        bench_b[2 * i + 1] = 0.0f;
    }
    ck_bench(run, "rope.normal n=128", time_rope_normal, table_of(run, &k), 128 * 8, 128 * 3);
    ck_bench(run, "rope.neox n=128", time_rope_neox, table_of(run, &k), 128 * 8, 128 * 3);
}

/* ---- element-wise ---- */

typedef void two_inputs_fn(const float *a, const float *b, size_t n, float *y);

static void compare_two_inputs(ck_run *run, const char *name, two_inputs_fn *fn,
                               two_inputs_fn *ref) {
    for (size_t i = 0; i < ck_n_row_sizes * CK_N_KINDS * 3; i++) {
        const size_t n = ck_row_sizes[i % ck_n_row_sizes];
        const ck_kind kind = (ck_kind)(i / ck_n_row_sizes % CK_N_KINDS);
        const size_t alias = i / ck_n_row_sizes / CK_N_KINDS; /* y is a, b or neither */
        ck_at(run, "%s n=%zu %s alias=%zu", name, n, ck_kind_name(kind), alias);
        float *a = ck_place_f32(CK_IN0, n, ck_below(run, 17));
        float *b = ck_place_f32(CK_IN1, n, ck_below(run, 17));
        float *const y = ck_place_f32(CK_OUT0, n, ck_below(run, 17));
        float *const want = ck_place_f32(CK_WANT0, n, 0);
        a = alias == 0 ? y : a;
        b = alias == 1 ? y : b;
        ck_fill(run, a, n, kind);
        ck_fill(run, b, n, kind);
        ref(a, b, n, want);
        fn(a, b, n, y);
        run->n_calls++;
        ck_same_f32(run, "y", y, want, n);
        ck_check_guard(run, CK_OUT0);
    }
}

void ck_check_add(ck_run *run) {
    compare_two_inputs(run, "add", run->kernels->add, lk_add_ref);
}

/* Besides the rows: every 4099th bit pattern as the gate, which covers exp. */
static void check_gated(ck_run *run, const char *name, lk_gated_fn *fn, lk_gated_fn *ref) {
    enum { PIECE = 4096 };
    compare_two_inputs(run, name, fn, ref);
    float *const gate = ck_place_f32(CK_IN0, PIECE, 0);
    float *const up = ck_place_f32(CK_IN1, PIECE, 0);
    float *const y = ck_place_f32(CK_OUT0, PIECE, 0);
    float *const want = ck_place_f32(CK_WANT0, PIECE, 0);
    for (size_t k = 0; k < PIECE; k++) {
        up[k] = 1.0f;
    }
    for (uint64_t bits = ck_below(run, 4099); bits <= UINT32_MAX;) {
        ck_at(run, "%s of bit patterns from %08x", name, (unsigned)bits);
        for (size_t k = 0; k < PIECE; k++, bits += 4099) {
            gate[k] = lk_f32_from_bits((uint32_t)bits);
        }
        fn(gate, up, PIECE, y);
        ref(gate, up, PIECE, want);
        run->n_calls++;
        ck_same_f32(run, "y", y, want, PIECE);
    }
}

void ck_check_silu_mul(ck_run *run) {
    check_gated(run, "silu_mul", run->kernels->silu_mul, lk_silu_mul_ref);
}

void ck_check_gelu_mul(ck_run *run) {
    check_gated(run, "gelu_mul", run->kernels->gelu_mul, lk_gelu_mul_ref);
}

void ck_check_clamped_silu_mul(ck_run *run) {
    check_gated(run, "clamped_silu_mul", run->kernels->clamped_silu_mul, lk_clamped_silu_mul_ref);
}

/* scale and softcap: one input and a constant. */
static void compare_one_input(ck_run *run, const char *name, lk_scale_fn *fn, lk_scale_fn *ref) {
    static const float constants[] = {1.0f, 0.22f, 30.0f, 0x1p-30f};
    for (size_t i = 0; i < ck_n_row_sizes * CK_N_KINDS * 8; i++) {
        const size_t n = ck_row_sizes[i % ck_n_row_sizes];
        const ck_kind kind = (ck_kind)(i / ck_n_row_sizes % CK_N_KINDS);
        const float c = constants[i / ck_n_row_sizes / CK_N_KINDS % 4];
        const bool in_place = i / ck_n_row_sizes / CK_N_KINDS / 4 != 0;
        ck_at(run, "%s n=%zu %s by %g%s", name, n, ck_kind_name(kind), (double)c,
              in_place ? " in place" : "");
        float *const y = ck_place_f32(CK_OUT0, n, ck_below(run, 17));
        float *const x = in_place ? y : ck_place_f32(CK_IN0, n, ck_below(run, 17));
        float *const want = ck_place_f32(CK_WANT0, n, 0);
        ck_fill(run, x, n, kind);
        ref(x, c, n, want);
        fn(x, c, n, y);
        run->n_calls++;
        ck_same_f32(run, "y", y, want, n);
        ck_check_guard(run, CK_OUT0);
    }
}

void ck_check_scale(ck_run *run) {
    compare_one_input(run, "scale", run->kernels->scale, lk_scale_ref);
}

void ck_check_softcap(ck_run *run) {
    compare_one_input(run, "softcap", run->kernels->softcap, lk_softcap_ref);
}

/* The constant is not used. */
static void gelu_erf_ref(const float *x, float factor, size_t n, float *y) {
    (void)factor;
    lk_gelu_erf_ref(x, n, y);
}

static lk_gelu_erf_fn *gelu_erf_under_test;

static void gelu_erf(const float *x, float factor, size_t n, float *y) {
    (void)factor;
    gelu_erf_under_test(x, n, y);
}

/* The rows, and every 4099th bit pattern. */
void ck_check_gelu_erf(ck_run *run) {
    enum { PIECE = 4096 };
    gelu_erf_under_test = run->kernels->gelu_erf;
    compare_one_input(run, "gelu_erf", gelu_erf, gelu_erf_ref);
    float *const x = ck_place_f32(CK_IN0, PIECE, 0);
    float *const y = ck_place_f32(CK_OUT0, PIECE, 0);
    float *const want = ck_place_f32(CK_WANT0, PIECE, 0);
    for (uint64_t bits = ck_below(run, 4099); bits <= UINT32_MAX;) {
        ck_at(run, "gelu_erf of bit patterns from %08x", (unsigned)bits);
        for (size_t k = 0; k < PIECE; k++, bits += 4099) {
            x[k] = lk_f32_from_bits((uint32_t)bits);
        }
        run->kernels->gelu_erf(x, PIECE, y);
        lk_gelu_erf_ref(x, PIECE, want);
        run->n_calls++;
        ck_same_f32(run, "y", y, want, PIECE);
    }
}

static void time_gelu_erf(void *arg) {
    const lk_cpu_kernels *const k = arg;
    k->gelu_erf(bench_a, BENCH_N, bench_y);
}

void ck_bench_gelu_erf(ck_run *run) {
    lk_cpu_kernels k;
    bench_fill(run);
    ck_bench(run, "gelu_erf n=4096", time_gelu_erf, table_of(run, &k), BENCH_N * 8, BENCH_N);
}

void ck_check_scale_add(ck_run *run) {
    for (size_t i = 0; i < ck_n_row_sizes * CK_N_KINDS * 3; i++) {
        const size_t n = ck_row_sizes[i % ck_n_row_sizes];
        const ck_kind kind = (ck_kind)(i / ck_n_row_sizes % CK_N_KINDS);
        ck_at(run, "scale_add n=%zu %s", n, ck_kind_name(kind));
        float weight;
        float *const x = ck_place_f32(CK_IN0, n, ck_below(run, 17));
        float *const y = ck_place_f32(CK_OUT0, n, ck_below(run, 17));
        float *const want = ck_place_f32(CK_WANT0, n, 0);
        ck_fill(run, &weight, 1, kind);
        ck_fill(run, x, n, kind);
        ck_fill(run, y, n, kind);
        memcpy(want, y, n * sizeof(float));
        lk_scale_add_ref(x, weight, n, want);
        run->kernels->scale_add(x, weight, n, y);
        run->n_calls++;
        ck_same_f32(run, "y", y, want, n);
        ck_check_guard(run, CK_OUT0);
    }
}

static void time_add(void *arg) {
    const lk_cpu_kernels *const k = arg;
    k->add(bench_a, bench_b, BENCH_N, bench_y);
}

static void time_silu_mul(void *arg) {
    const lk_cpu_kernels *const k = arg;
    k->silu_mul(bench_a, bench_b, BENCH_N, bench_y);
}

static void time_gelu_mul(void *arg) {
    const lk_cpu_kernels *const k = arg;
    k->gelu_mul(bench_a, bench_b, BENCH_N, bench_y);
}

static void time_clamped_silu_mul(void *arg) {
    const lk_cpu_kernels *const k = arg;
    k->clamped_silu_mul(bench_a, bench_b, BENCH_N, bench_y);
}

static void time_scale(void *arg) {
    const lk_cpu_kernels *const k = arg;
    k->scale(bench_a, 0.5f, BENCH_N, bench_y);
}

static void time_softcap(void *arg) {
    const lk_cpu_kernels *const k = arg;
    k->softcap(bench_a, 30.0f, BENCH_N, bench_y);
}

static void time_scale_add(void *arg) {
    const lk_cpu_kernels *const k = arg;
    k->scale_add(bench_a, 0.0f, BENCH_N, bench_y);
}

void ck_bench_add(ck_run *run) {
    lk_cpu_kernels k;
    bench_fill(run);
    ck_bench(run, "add n=4096", time_add, table_of(run, &k), BENCH_N * 12, BENCH_N);
}

void ck_bench_silu_mul(ck_run *run) {
    lk_cpu_kernels k;
    bench_fill(run);
    ck_bench(run, "silu_mul n=4096", time_silu_mul, table_of(run, &k), BENCH_N * 12, BENCH_N);
}

void ck_bench_gelu_mul(ck_run *run) {
    lk_cpu_kernels k;
    bench_fill(run);
    ck_bench(run, "gelu_mul n=4096", time_gelu_mul, table_of(run, &k), BENCH_N * 12, BENCH_N);
}

void ck_bench_clamped_silu_mul(ck_run *run) {
    lk_cpu_kernels k;
    bench_fill(run);
    ck_bench(run, "clamped_silu_mul n=4096", time_clamped_silu_mul, table_of(run, &k), BENCH_N * 12,
             BENCH_N);
}

void ck_bench_scale(ck_run *run) {
    lk_cpu_kernels k;
    bench_fill(run);
    ck_bench(run, "scale n=4096", time_scale, table_of(run, &k), BENCH_N * 8, BENCH_N);
}

void ck_bench_softcap(ck_run *run) {
    lk_cpu_kernels k;
    bench_fill(run);
    ck_bench(run, "softcap n=4096", time_softcap, table_of(run, &k), BENCH_N * 8, BENCH_N);
}

void ck_bench_scale_add(ck_run *run) {
    lk_cpu_kernels k;
    bench_fill(run);
    memset(bench_y, 0, sizeof bench_y);
    ck_bench(run, "scale_add n=4096", time_scale_add, table_of(run, &k), BENCH_N * 12, BENCH_N * 2);
}

/* ---- check_finite ---- */

void ck_check_check_finite(ck_run *run) {
    for (size_t i = 0; i < ck_n_row_sizes; i++) {
        const size_t n = ck_row_sizes[i];
        for (size_t bad = 0; bad <= n; bad += n > 100 ? 1 + ck_below(run, n / 20) : 1) {
            ck_at(run, "check_finite n=%zu bad=%zu", n, bad);
            float *const x = ck_place_f32(CK_IN0, n, ck_below(run, 17));
            ck_fill(run, x, n, CK_WIDE);
            if (bad < n) {
                ck_fill(run, x + bad, 1, CK_BAD);
            }
            (void)ck_same_flags(run, run->kernels->check_finite(x, n), bad < n);
        }
    }
}

static void time_check_finite(void *arg) {
    const lk_cpu_kernels *const k = arg;
    bench_flag |= k->check_finite(bench_a, BENCH_N);
}

void ck_bench_check_finite(ck_run *run) {
    lk_cpu_kernels k;
    bench_fill(run);
    ck_bench(run, "check_finite n=4096", time_check_finite, table_of(run, &k), BENCH_N * 4,
             BENCH_N);
}

/* ---- route ---- */

static void compare_route(ck_run *run, size_t n, size_t n_used, ck_kind kind) {
    const int normalise = (int)ck_below(run, 2);
    ck_at(run, "route n=%zu used=%zu %s normalise=%d", n, n_used, ck_kind_name(kind), normalise);
    float *const logits = ck_place_f32(CK_IN0, n, ck_below(run, 17));
    int32_t *const ids = ck_place(CK_OUT0, n_used * sizeof(int32_t), 0);
    float *const weights = ck_place_f32(CK_OUT1, n_used, 0);
    int32_t *const want_ids = ck_place(CK_WANT0, n_used * sizeof(int32_t), 0);
    float *const want_weights = ck_place_f32(CK_WANT1, n_used, 0);
    ck_fill(run, logits, n, kind);
    for (size_t k = 0; kind == CK_NORMAL && k < n; k += 3) { /* ties */
        logits[k] = logits[ck_below(run, n)];
    }
    uint32_t flag = 0;
    uint32_t want_flag = 0;
    run->kernels->route(logits, n, n_used, normalise, ids, weights, &flag);
    lk_route_ref(logits, n, n_used, normalise, want_ids, want_weights, &want_flag);
    if (ck_same_flags(run, flag, want_flag)) {
        ck_same_bytes(run, "ids", ids, want_ids, n_used * sizeof(int32_t));
        ck_same_f32(run, "weights", weights, want_weights, n_used);
    }
    for (size_t k = 0; k < n_used; k++) { /* also where flagged */
        if (ids[k] < 0 || ids[k] >= (int32_t)n || (k > 0 && ids[k] <= ids[k - 1])) {
            ck_fail(run, "id %zu is %d", k, (int)ids[k]);
        }
    }
    ck_check_guard(run, CK_OUT0);
    ck_check_guard(run, CK_OUT1);
}

void ck_check_route(ck_run *run) {
    static const size_t counts[] = {1, 2, 3, 8, 15, 16, 17, 32, 64, 127, 128, 160, 256};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        for (int kind = 0; kind < CK_N_KINDS; kind++) {
            compare_route(run, counts[i], 1, (ck_kind)kind);
            compare_route(run, counts[i], 1 + ck_below(run, counts[i]), (ck_kind)kind);
            compare_route(run, counts[i], counts[i] < 8 ? counts[i] : 8, (ck_kind)kind);
        }
    }
}

static void time_route(void *arg) {
    const lk_cpu_kernels *const k = arg;
    static int32_t ids[8];
    k->route(bench_a, 128, 8, 1, ids, bench_y, &bench_flag);
}

void ck_bench_route(ck_run *run) {
    lk_cpu_kernels k;
    bench_fill(run);
    ck_bench(run, "route n=128 used=8", time_route, table_of(run, &k), 128 * 4, 128);
}
