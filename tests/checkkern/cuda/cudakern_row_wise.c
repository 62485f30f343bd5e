/* cudakern_row_wise.c - checks of the kernels that take rows one by one. */
#include <stdlib.h>
#include <string.h>

#include "cudakern.h"
#include "lk_test.h"
#include "ops/math.h"

/* Input and wanted output of a row-wise operator. */
typedef struct rows {
    uint32_t n_rows;
    uint32_t width;
    float *x;
    float *b; /* another input */
    float *w; /* weights of a norm */
    float *want;
    uint32_t *flags;
    lk_cuda_flags device_flags;
} rows;

static rows make_rows(ck_run *run, uint32_t n_rows, uint32_t width, uint32_t want_width) {
    rows s = {.n_rows = n_rows, .width = width};
    const size_t n = (size_t)n_rows * width;
    s.x = cu_host(n * sizeof *s.x);
    s.b = cu_host(n * sizeof *s.b);
    s.w = cu_host(width * sizeof *s.w);
    s.want = cu_host((size_t)n_rows * want_width * sizeof *s.want);
    s.flags = cu_host(n_rows * sizeof *s.flags);
    for (uint32_t r = 0; r < n_rows; r++) {
        const ck_kind kind = (ck_kind)ck_below(run, CK_N_KINDS);
        ck_fill(run, s.x + (size_t)r * width, width, kind);
        ck_fill(run, s.b + (size_t)r * width, width, ck_below(run, 4) == 0 ? kind : CK_NORMAL);
    }
    ck_fill(run, s.w, width, CK_NORMAL);
    s.device_flags = cu_flags(n_rows);
    return s;
}

static void *put(const float *x, size_t n) {
    return kd_put(x, n * sizeof *x, 0);
}

static void free_rows(rows *s) {
    free(s->x);
    free(s->b);
    free(s->w);
    free(s->want);
    free(s->flags);
}

static void compare_and_free(ck_run *run, rows *s, const char *what, const float *y,
                             uint32_t width) {
    cu_finish_flags(s->want, s->flags, s->n_rows, width);
    cu_compare(run, what, y, s->want, s->flags, &s->device_flags, s->n_rows, width);
    free_rows(s);
}

static uint32_t some_rows(ck_run *run) {
    return 1 + (uint32_t)ck_below(run, 9);
}

static void check_check(ck_run *run, uint32_t width) {
    rows s = make_rows(run, some_rows(run), width, width);
    const size_t n = (size_t)s.n_rows * width;
    float *const x = put(s.x, n);
    memcpy(s.want, s.x, n * sizeof *s.x);
    const lk_cuda_check_args args = {x, s.n_rows, width, s.device_flags};
    KD_LAUNCH(check, &args);
    compare_and_free(run, &s, "check", x, width);
}

static void check_act_round(ck_run *run, uint32_t width) {
    for (uint32_t mode = LK_ROUND_13; mode <= LK_ROUND_16B; mode++) {
        rows s = make_rows(run, some_rows(run), width, width);
        const size_t n = (size_t)s.n_rows * width;
        float *const x = put(s.x, n);
        float *const y = ck_below(run, 2) ? x : kd_new(n * sizeof *x);
        for (uint32_t r = 0; r < s.n_rows; r++) {
            lk_act_round_ref(s.x + (size_t)r * width, width, (lk_round_mode)mode,
                             s.want + (size_t)r * width, &s.flags[r]);
        }
        const lk_cuda_round_args args = {x, y, s.n_rows, width, mode, s.device_flags};
        KD_LAUNCH(act_round, &args);
        compare_and_free(run, &s, "act_round", y, width);
    }
}

static void check_act_quantize(ck_run *run, uint32_t width, uint32_t group) {
    rows s = make_rows(run, some_rows(run), width, width / group);
    const size_t n = (size_t)s.n_rows * width;
    int8_t *const q = cu_host(n);
    int8_t *const got_q = cu_host(n);
    int16_t *const sums = cu_host(n / 16 * sizeof *sums);
    int16_t *const got_sums = cu_host(n / 16 * sizeof *sums);
    for (uint32_t r = 0; r < s.n_rows; r++) {
        const size_t at = (size_t)r * width;
        lk_act_quantize_ref(s.x + at, width, group, q + at, s.want + at / group, sums + at / 16,
                            &s.flags[r]);
    }
    const lk_cuda_quantize_args args = {.x = put(s.x, n),
                                        .q = kd_new(n),
                                        .d = kd_new(n / group * sizeof(float)),
                                        .sums = kd_new(n / 16 * sizeof *sums),
                                        .n_rows = s.n_rows,
                                        .width = width,
                                        .group = group,
                                        .flags = s.device_flags};
    KD_LAUNCH(act_quantize, &args);
    kd_get(got_q, args.q, n);
    kd_get(got_sums, args.sums, n / 16 * sizeof *sums);
    ck_same_bytes(run, "q", got_q, q, n);
    ck_same_bytes(run, "sums", got_sums, sums, n / 16 * sizeof *sums);
    free(q);
    free(got_q);
    free(sums);
    free(got_sums);
    compare_and_free(run, &s, "d", args.d, width / group);
}

/* Residual, bias and position. */
static void check_add(ck_run *run, uint32_t width) {
    for (int way = 0; way < 3; way++) {
        rows s = make_rows(run, some_rows(run), width, width);
        const size_t n = (size_t)s.n_rows * width;
        uint32_t *const b_rows = cu_host(s.n_rows * sizeof *b_rows);
        for (uint32_t r = 0; r < s.n_rows; r++) {
            b_rows[r] = way == 0 ? r : way == 1 ? 0 : (uint32_t)ck_below(run, s.n_rows);
            lk_add_ref(s.x + (size_t)r * width, s.b + (size_t)b_rows[r] * width, width,
                       s.want + (size_t)r * width);
        }
        float *const x = put(s.x, n);
        const lk_cuda_add_args args = {
            .x = x,
            .b = put(s.b, n),
            .b_rows = way == 2 ? kd_put(b_rows, s.n_rows * sizeof *b_rows, 0) : NULL,
            .y = ck_below(run, 2) ? x : kd_new(n * sizeof *x),
            .b_stride = way == 1 ? 0 : width,
            .n_rows = s.n_rows,
            .width = width,
            .flags = s.device_flags};
        KD_LAUNCH(add, &args);
        free(b_rows);
        compare_and_free(run, &s, "add", args.y, width);
    }
}

static void check_gelu_erf(ck_run *run, uint32_t width) {
    rows s = make_rows(run, some_rows(run), width, width);
    const size_t n = (size_t)s.n_rows * width;
    lk_gelu_erf_ref(s.x, n, s.want);
    float *const x = put(s.x, n);
    const lk_cuda_unary_args args = {.x = x,
                                     .y = ck_below(run, 2) ? x : kd_new(n * sizeof *x),
                                     .n_rows = s.n_rows,
                                     .width = width,
                                     .flags = s.device_flags};
    KD_LAUNCH(gelu_erf, &args);
    compare_and_free(run, &s, "gelu_erf", args.y, width);
}

static void check_layer_norm(ck_run *run, uint32_t width) {
    rows s = make_rows(run, some_rows(run), width, width);
    const size_t n = (size_t)s.n_rows * width;
    for (uint32_t r = 0; r < s.n_rows; r++) {
        lk_layer_norm_ref(s.x + (size_t)r * width, s.w, s.b, 1e-5f, width,
                          s.want + (size_t)r * width, &s.flags[r]);
    }
    float *const x = put(s.x, n);
    const lk_cuda_norm_args args = {.x = x,
                                    .w = put(s.w, width),
                                    .b = put(s.b, width),
                                    .y = ck_below(run, 2) ? x : kd_new(n * sizeof *x),
                                    .eps = 1e-5f,
                                    .n_rows = s.n_rows,
                                    .width = width,
                                    .group = width,
                                    .flags = s.device_flags};
    KD_LAUNCH(layer_norm, &args);
    compare_and_free(run, &s, "layer_norm", args.y, width);
}

/* What a convolution multiplies: rows of runs of one to five rows. */
static void check_neighbours(ck_run *run, uint32_t width) {
    const uint32_t stride = 1 + (uint32_t)ck_below(run, 2);
    const uint32_t n_taps = ck_below(run, 2) ? 3 : 5;
    rows s = make_rows(run, 12, width, width * n_taps);
    lk_cuda_neighbour_row table[12];
    uint32_t n_out = 0;
    for (int32_t begin = 0; begin < 12;) {
        int32_t end = begin + 1 + (int32_t)ck_below(run, 5);
        end = end > 12 ? 12 : end;
        for (int32_t centre = begin; centre < end; centre += (int32_t)stride) {
            float *const y = s.want + (size_t)n_out * width * n_taps;
            table[n_out++] = (lk_cuda_neighbour_row){centre, begin, end};
            for (int32_t t = 0; t < (int32_t)n_taps; t++) {
                const int32_t i = centre + t - (int32_t)(n_taps / 2);
                for (uint32_t c = 0; c < width; c++) {
                    y[c * n_taps + (uint32_t)t] =
                        i >= begin && i < end ? s.x[(uint32_t)i * width + c] : 0.0f;
                }
            }
        }
        begin = end;
    }
    const size_t n = (size_t)n_out * width * n_taps;
    const lk_cuda_neighbours_args args = {.x = put(s.x, (size_t)12 * width),
                                          .y = kd_new(n * sizeof(float)),
                                          .rows = kd_put(table, n_out * sizeof table[0], 0),
                                          .n_rows = n_out,
                                          .width = width,
                                          .n_taps = n_taps};
    KD_LAUNCH(neighbours, &args);
    float *const got = cu_host(n * sizeof *got);
    kd_get(got, args.y, n * sizeof *got);
    run->n_calls++;
    ck_same_bytes(run, "neighbours", got, s.want, n * sizeof *got);
    free(got);
    free_rows(&s);
    kd_free_all();
}

static void check_mean_of_two(ck_run *run, uint32_t width) {
    rows s = make_rows(run, 10, width, width);
    const uint32_t from[] = {0, 2, 5, 8, 3};
    for (uint32_t r = 0; r < 5; r++) {
        float *const y = s.want + (size_t)r * width;
        lk_add_ref(s.x + (size_t)from[r] * width, s.x + ((size_t)from[r] + 1) * width, width, y);
        lk_scale_ref(y, 0.5f, width, y);
    }
    const lk_cuda_mean_args args = {.x = put(s.x, (size_t)10 * width),
                                    .y = kd_new((size_t)5 * width * sizeof(float)),
                                    .from = kd_put(from, sizeof from, 0),
                                    .n_rows = 5,
                                    .width = width,
                                    .flags = cu_flags(5)};
    KD_LAUNCH(mean_of_two, &args);
    s.n_rows = 5;
    s.device_flags = args.flags;
    compare_and_free(run, &s, "mean_of_two", args.y, width);
}

static void check_gather(ck_run *run, uint32_t width) {
    static const uint32_t from[] = {3, 0, 3, 8};
    rows s = make_rows(run, 9, width, width);
    const lk_cuda_gather_args args = {.x = put(s.x, (size_t)9 * width),
                                      .rows = kd_put(from, sizeof from, 0),
                                      .y = kd_new((size_t)4 * width * sizeof(float)),
                                      .n_rows = 4,
                                      .width = width};
    float *const got = cu_host((size_t)4 * width * sizeof *got);
    KD_LAUNCH(gather, &args);
    kd_get(got, args.y, (size_t)4 * width * sizeof *got);
    run->n_calls++;
    for (uint32_t r = 0; r < 4; r++) {
        ck_same_bytes(run, "gather", got + (size_t)r * width, s.x + (size_t)from[r] * width,
                      width * sizeof *got);
    }
    free(got);
    free_rows(&s);
    kd_free_all();
}

static void check_rms_norm(ck_run *run, uint32_t group) {
    const uint32_t width = group * (1 + (uint32_t)ck_below(run, 3));
    rows s = make_rows(run, some_rows(run), width, width);
    const size_t n = (size_t)s.n_rows * width;
    for (size_t i = 0; i < n; i += group) {
        lk_rms_norm_ref(s.x + i, s.w, 1e-6f, group, s.want + i, &s.flags[i / width]);
    }
    float *const x = put(s.x, n);
    const lk_cuda_norm_args args = {.x = x,
                                    .w = put(s.w, group),
                                    .y = ck_below(run, 2) ? x : kd_new(n * sizeof *x),
                                    .eps = 1e-6f,
                                    .n_rows = s.n_rows,
                                    .width = width,
                                    .group = group,
                                    .flags = s.device_flags};
    KD_LAUNCH(rms_norm, &args);
    compare_and_free(run, &s, "rms_norm", args.y, width);
}

static void check_rope(ck_run *run, uint32_t head_dim) {
    const uint32_t width = head_dim * (1 + (uint32_t)ck_below(run, 4));
    const uint32_t n_rot = 2 + 2 * (uint32_t)ck_below(run, head_dim / 2);
    const uint32_t order = (uint32_t)ck_below(run, 2);
    rows s = make_rows(run, some_rows(run), width, width);
    const size_t n = (size_t)s.n_rows * width;
    memcpy(s.want, s.x, n * sizeof *s.x);
    float *const cos_sin = cu_host((size_t)s.n_rows * n_rot * sizeof *cos_sin);
    ck_fill(run, cos_sin, (size_t)s.n_rows * n_rot, CK_NORMAL);
    for (size_t i = 0; i < n; i += head_dim) {
        lk_rope_ref(s.want + i, n_rot, (lk_rope_order)order, cos_sin + i / width * n_rot);
    }
    float *const x = put(s.x, n);
    const lk_cuda_rope_args args = {.x = x,
                                    .y = ck_below(run, 2) ? x : kd_new(n * sizeof *x),
                                    .cos_sin = put(cos_sin, (size_t)s.n_rows * n_rot),
                                    .n_rows = s.n_rows,
                                    .width = width,
                                    .head_dim = head_dim,
                                    .n_rot = n_rot,
                                    .order = order,
                                    .flags = s.device_flags};
    KD_LAUNCH(rope, &args);
    free(cos_sin);
    compare_and_free(run, &s, "rope", args.y, width);
}

static void check_gated(ck_run *run, uint32_t width) {
    static lk_gated_fn *const twins[] = {lk_silu_mul_ref, lk_gelu_mul_ref, lk_clamped_silu_mul_ref};
    for (uint32_t kind = LK_CUDA_SILU; kind <= LK_CUDA_CLAMPED_SILU; kind++) {
        rows s = make_rows(run, some_rows(run), width, width);
        const size_t n = (size_t)s.n_rows * width;
        for (size_t k = 0; k < n && kind == LK_CUDA_CLAMPED_SILU; k++) {
            s.x[k] = lk_check_finite_ref(s.x + k, 1) ? 1.0f : s.x[k]; /* as its contract says */
            s.b[k] = lk_check_finite_ref(s.b + k, 1) ? 1.0f : s.b[k];
        }
        twins[kind](s.x, s.b, n, s.want);
        float *const x = put(s.x, n);
        const lk_cuda_gated_args args = {.gate = x,
                                         .up = put(s.b, n),
                                         .y = ck_below(run, 2) ? x : kd_new(n * sizeof *x),
                                         .kind = kind,
                                         .n_rows = s.n_rows,
                                         .width = width,
                                         .flags = s.device_flags};
        KD_LAUNCH(gated, &args);
        compare_and_free(run, &s, "gated", args.y, width);
    }
}

/* By one factor, one for each row, the logistic of a gate; and the soft cap. */
static void check_scale(ck_run *run, uint32_t width) {
    for (int way = 0; way < 4; way++) {
        rows s = make_rows(run, some_rows(run), width, width);
        const size_t n = (size_t)s.n_rows * width;
        float *const factors = cu_host(s.n_rows * sizeof *factors);
        ck_fill(run, factors, s.n_rows, CK_NORMAL);
        for (uint32_t r = 0; r < s.n_rows; r++) {
            const size_t at = (size_t)r * width;
            if (way == 3) {
                lk_softcap_ref(s.x + at, 30.0f, width, s.want + at);
            } else {
                lk_scale_ref(s.x + at,
                             way == 0   ? 1.7f
                             : way == 1 ? factors[r]
                                        : 1.0f / (1.0f + lk_expf(-factors[r])),
                             width, s.want + at);
            }
        }
        float *const x = put(s.x, n);
        float *const y = ck_below(run, 2) ? x : kd_new(n * sizeof *x);
        if (way == 3) {
            const lk_cuda_unary_args args = {x, y, s.n_rows, width, 30.0f, s.device_flags};
            KD_LAUNCH(softcap, &args);
        } else {
            float *const rows_factors = put(factors, s.n_rows);
            const lk_cuda_scale_args args = {.x = x,
                                             .y = y,
                                             .gates = way == 2 ? rows_factors : NULL,
                                             .factors = way == 1 ? rows_factors : NULL,
                                             .factor = 1.7f,
                                             .n_rows = s.n_rows,
                                             .width = width,
                                             .flags = s.device_flags};
            KD_LAUNCH(scale, &args);
        }
        free(factors);
        compare_and_free(run, &s, way == 3 ? "softcap" : "scale", y, width);
    }
}

void cu_check_row_wise(ck_run *run) {
    static const uint32_t widths[] = {1, 5, 16, 17, 33, 64, 100, 255, 256, 257, 500, 1280};
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        const uint32_t width = widths[i];
        ck_at(run, "row-wise kernels, width %u", width);
        check_check(run, width);
        check_act_round(run, width);
        check_add(run, width);
        check_gelu_erf(run, width);
        check_layer_norm(run, width);
        check_neighbours(run, width);
        check_mean_of_two(run, width);
        check_gather(run, width);
        check_rms_norm(run, width);
        check_rope(run, (width + 7) / 8 * 8 > 256 ? 128 : (width + 7) / 8 * 8);
        check_gated(run, width);
        check_scale(run, width);
        check_act_quantize(run, (width + 31) / 32 * 32, 32);
        check_act_quantize(run, (width + 255) / 256 * 256, 256);
    }
}
