/* check_matmul.c - checks and timings of the matrix products: every quantised format, and f32, f16,
 * bf16 weights. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "checkkern.h"
#include "lk_test.h"
#include "quant/strip.h"

/* ---- weights ---- */

typedef enum weight_kind { W_RANDOM, W_BYTE, W_UNFILTERED, W_N_KINDS } weight_kind;

static bool decodes_finite(const lk_format *format, const uint8_t *block) {
    float x[LK_FORMAT_MAX_BLOCK_ELEMS];
    format->decode(block, x, format->block_elems);
    return lk_check_finite_ref(x, format->block_elems) == 0;
}

static void random_bytes(ck_run *run, uint8_t *p, size_t n) {
    for (size_t k = 0; k < n; k++) {
        p[k] = (uint8_t)(ck_random(run) >> 32);
    }
}

/* Marks the bytes that hold floating-point scales: those that make a block of zeros non-finite, and
 * the low byte before each where the scale has two. */
static void find_scales(const lk_format *format, bool is_scale[LK_FORMAT_MAX_BLOCK_BYTES]) {
    memset(is_scale, 0, LK_FORMAT_MAX_BLOCK_BYTES * sizeof(bool));
    for (uint32_t k = 0; k < format->block_bytes; k++) {
        uint8_t block[LK_FORMAT_MAX_BLOCK_BYTES] = {0};
        block[k] = 0xff;
        if (!decodes_finite(format, block)) {
            is_scale[k] = true;
            if (k > 0) {
                is_scale[k - 1] = true;
            }
        }
    }
}

/* One block: random with finite scales (subnormal ones occur), one byte everywhere outside the
 * scales, or any bytes at all. */
static void fill_block(ck_run *run, const lk_format *format, const bool *is_scale, weight_kind kind,
                       uint8_t *block) {
    static const uint8_t patterns[4] = {0x80, 0x7f, 0xff, 0x00};
    const uint8_t pattern = patterns[ck_below(run, 4)];
    do {
        random_bytes(run, block, format->block_bytes);
    } while (kind != W_UNFILTERED && !decodes_finite(format, block));
    for (uint32_t k = 0; kind == W_BYTE && k < format->block_bytes; k++) {
        block[k] = is_scale[k] ? block[k] : pattern;
    }
}

/* ---- activations ---- */

/* Kernels may sum more columns at once where sixteen activations are small together (at most 1023
 * in sum): A_SMALL is below that, A_AT_LIMIT at it and, here and there, one above. */
typedef enum act_kind {
    A_QUANTISED,
    A_EXTREME,
    A_ALTERNATING,
    A_ANY_SCALE,
    A_SMALL,
    A_AT_LIMIT,
    A_N_KINDS
} act_kind;

/* Rows of activations in CK_IN0 (q), CK_IN1 (d), CK_IN2 (sums). */
static lk_act_rows make_rows(ck_run *run, size_t n, size_t q_stride, uint32_t group, size_t n_rows,
                             act_kind kind) {
    int8_t *const q = ck_place(CK_IN0, (n_rows - 1) * q_stride + n, ck_below(run, 4));
    float *const d = ck_place_f32(CK_IN1, n_rows * (n / group), ck_below(run, 4));
    int16_t *const sums = ck_place(CK_IN2, n_rows * (n / LK_SUBGROUP) * 2, ck_below(run, 3) * 2);
    const bool above = ck_below(run, 2) == 0; /* in one row, so that its neighbours are small */
    const size_t row_above = ck_below(run, n_rows);
    const int8_t sign = ck_below(run, 2) == 0 ? 1 : -1;
    for (size_t k = 0; k < (n_rows - 1) * q_stride + n; k++) { /* what is between the rows too */
        const int8_t any = (int8_t)((int)ck_below(run, 255) - 127);
        const int8_t edge = k % 2 == 0 ? 127 : -127;
        const bool is_above = above && k / q_stride == row_above;
        const int8_t limit = (int8_t)(sign * (k % q_stride % 16 == 0 && !is_above ? 63 : 64));
        q[k] = kind == A_EXTREME       ? 127
               : kind == A_ALTERNATING ? edge
               : kind == A_SMALL       ? (int8_t)(any / 2)
               : kind == A_AT_LIMIT    ? limit
                                       : any;
    }
    ck_fill(run, d, n_rows * (n / group), kind == A_ANY_SCALE ? CK_WIDE : CK_NORMAL);
    for (size_t k = 0; k < n_rows * (n / group); k++) {
        d[k] = lk_f32_from_bits(lk_f32_bits(d[k]) & 0x7fffffffu);
        if (ck_below(run, 9) == 0) { /* a group too small to matter */
            d[k] = 0.0f;
            memset(q + k * group / n * q_stride + k * group % n, 0, group);
        }
    }
    for (size_t g = 0; g < n_rows * (n / LK_SUBGROUP); g++) {
        int sum = 0;
        for (size_t k = 0; k < LK_SUBGROUP; k++) {
            sum += q[g * LK_SUBGROUP / n * q_stride + g * LK_SUBGROUP % n + k];
        }
        sums[g] = (int16_t)sum;
    }
    return (lk_act_rows){q, d, sums, q_stride, n, group, n_rows};
}

static const size_t row_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 33, 65, 259, 271, 515};
enum { N_ROW_COUNTS = sizeof row_counts / sizeof row_counts[0] };

/* Some range [begin, end) of n_out outputs: the whole, one, none, or anything. */
static void pick_range(ck_run *run, size_t n_out, size_t *begin, size_t *end) {
    const size_t way = ck_below(run, 24);
    *begin = way < 10 ? 0 : ck_below(run, n_out);
    *end = way < 10    ? n_out
           : way < 14  ? *begin + 1
           : way == 14 ? *begin
                       : *begin + ck_below(run, n_out - *begin + 1);
}

/* ---- quantised ---- */

static void compare_quant(ck_run *run, const lk_format *format, lk_matmul_quant_fn *fn,
                          const bool *is_scale, size_t n_blocks, size_t n_rows) {
    const size_t n = n_blocks * format->block_elems;
    const size_t n_out = 1 + ck_below(run, 70);
    const size_t row_bytes = n_blocks * format->block_bytes + (ck_below(run, 8) == 0 ? 6 : 0);
    const weight_kind w_kind = (weight_kind)ck_below(run, W_N_KINDS);
    const act_kind a_kind = (act_kind)ck_below(run, A_N_KINDS);
    size_t begin;
    size_t end;
    pick_range(run, n_out, &begin, &end);
    const size_t y_stride = n_out + ck_below(run, 5);
    ck_at(run, "matmul_quant.%s n=%zu rows=%zu outputs %zu..%zu of %zu w=%d a=%d", format->name, n,
          n_rows, begin, end, n_out, (int)w_kind, (int)a_kind);
    const size_t w_bytes = (n_out - 1) * row_bytes + n_blocks * format->block_bytes;
    uint8_t *const w = ck_place(CK_WEIGHTS, w_bytes, ck_below(run, 2) * ck_below(run, 67));
    for (size_t o = begin; o < end; o++) {
        for (size_t b = 0; b < n_blocks; b++) {
            fill_block(run, format, is_scale, w_kind, w + o * row_bytes + b * format->block_bytes);
        }
    }
    const lk_act_rows rows =
        make_rows(run, n, n + ck_below(run, 3) * 32, format->act_group, n_rows, a_kind);
    const size_t n_y = (n_rows - 1) * y_stride + n_out;
    float *const y = ck_place_f32(CK_OUT0, n_y, ck_below(run, 17));
    float *const want = ck_place_f32(CK_WANT0, n_y, 0);
    fn(format, w, row_bytes, begin, end, &rows, y, y_stride);
    lk_matmul_quant_ref(format, w, row_bytes, begin, end, &rows, want, y_stride);
    run->n_calls++;
    ck_same_f32(run, "y", y, want, n_y); /* what is outside the range still has guard bytes */
    ck_check_guard(run, CK_OUT0);
}

/* The same from strips, against the rows that they were made of. */
static void compare_strips(ck_run *run, const lk_format *format, lk_matmul_strip_fn *fn,
                           const bool *is_scale, size_t n_blocks, size_t n_rows) {
    const size_t n = n_blocks * format->block_elems;
    const size_t n_out = 1 + ck_below(run, 70);
    const size_t row_bytes = n_blocks * format->block_bytes;
    const size_t n_strips = lk_strip_count(n_out);
    const weight_kind w_kind = (weight_kind)ck_below(run, W_N_KINDS);
    const act_kind a_kind = (act_kind)ck_below(run, A_N_KINDS);
    size_t begin;
    size_t end;
    pick_range(run, n_out, &begin, &end);
    begin = begin / LK_STRIP_ROWS * LK_STRIP_ROWS;
    const size_t y_stride = n_out + ck_below(run, 5);
    ck_at(run, "matmul_strip.%s n=%zu rows=%zu outputs %zu..%zu of %zu w=%d a=%d", format->name, n,
          n_rows, begin, end, n_out, (int)w_kind, (int)a_kind);
    uint8_t *const rows_w = ck_place(CK_IN3, n_out * row_bytes, 0);
    for (size_t b = 0; b < n_out * n_blocks; b++) {
        fill_block(run, format, is_scale, w_kind, rows_w + b * format->block_bytes);
    }
    const size_t strip_bytes = lk_strip_shape_of(format->block_elems, format->block_bytes, n).bytes;
    uint8_t *const w = ck_place(CK_WEIGHTS, n_strips * strip_bytes, 0);
    for (size_t o = 0; o < n_out; o += LK_STRIP_ROWS) {
        const size_t left = n_out - o;
        lk_strip_make(format, rows_w + o * row_bytes, row_bytes,
                      left < LK_STRIP_ROWS ? left : LK_STRIP_ROWS, n,
                      w + o / LK_STRIP_ROWS * strip_bytes);
    }
    ck_check_guard(run, CK_WEIGHTS);
    const lk_act_rows rows =
        make_rows(run, n, n + ck_below(run, 3) * 32, format->act_group, n_rows, a_kind);
    const size_t n_y = (n_rows - 1) * y_stride + n_out;
    float *const y = ck_place_f32(CK_OUT0, n_y, ck_below(run, 17));
    float *const want = ck_place_f32(CK_WANT0, n_y, 0);
    fn(format, w, begin, end, &rows, y, y_stride);
    lk_matmul_quant_ref(format, rows_w, row_bytes, begin, end, &rows, want, y_stride);
    run->n_calls++;
    ck_same_f32(run, "y", y, want, n_y);
    ck_check_guard(run, CK_OUT0);
}

/* Either function may be NULL. */
static void check_format(ck_run *run, const lk_format *format, lk_matmul_quant_fn *fn,
                         lk_matmul_strip_fn *strip_fn) {
    static const size_t blocks32[] = {1, 2, 3, 4, 5, 7, 8, 9, 11, 15, 16, 17, 24, 48};
    static const size_t blocks256[] = {1, 2, 3, 4, 5, 6, 7};
    const bool is_long = format->block_elems == 256;
    const size_t *const blocks = is_long ? blocks256 : blocks32;
    const size_t n_sizes =
        is_long ? sizeof blocks256 / sizeof(size_t) : sizeof blocks32 / sizeof(size_t);
    const size_t n_repeat = (size_t)lk_test_size(1, 2, 60);
    const size_t step = (size_t)lk_test_size(2, 1, 1); /* in brief: every other pair of sizes */
    bool is_scale[LK_FORMAT_MAX_BLOCK_BYTES];
    find_scales(format, is_scale);
    for (size_t repeat = 0; repeat < n_repeat; repeat++) {
        for (size_t i = 0; i < n_sizes; i++) {
            for (size_t r = i % step; r < N_ROW_COUNTS; r += step) {
                if (fn != NULL) {
                    compare_quant(run, format, fn, is_scale, blocks[i], row_counts[r]);
                }
                if (strip_fn != NULL) {
                    compare_strips(run, format, strip_fn, is_scale, blocks[i], row_counts[r]);
                }
            }
        }
    }
}

void ck_check_matmul_quant(ck_run *run) {
    for (size_t i = 0; i < lk_format_count(); i++) {
        const lk_format *const format = lk_format_at(i);
        char name[64];
        (void)snprintf(name, sizeof name, "matmul_quant.%s", format->name);
        if (format->block_dot == NULL || !ck_wanted(run, name)) {
            continue;
        }
        if (run->kernels->matmul_format[i] != lk_matmul_quant_ref) {
            check_format(run, format, run->kernels->matmul_format[i], NULL);
        }
        if (run->kernels->matmul_quant != lk_matmul_quant_ref) {
            check_format(run, format, run->kernels->matmul_quant, NULL);
        }
    }
}

/* The twin too: it is held against that of rows. */
void ck_check_matmul_strip(ck_run *run) {
    for (size_t i = 0; i < lk_format_count(); i++) {
        const lk_format *const format = lk_format_at(i);
        char name[64];
        (void)snprintf(name, sizeof name, "matmul_strip.%s", format->name);
        if (format->block_dot != NULL && ck_wanted(run, name)) {
            check_format(run, format, NULL, run->kernels->matmul_strips[i]);
        }
    }
}

/* ---- f32, f16, bf16 ---- */

typedef struct float_format {
    const char *name;
    uint32_t type;
    lk_matmul_float_fn *ref;
} float_format;

/* 16-bit weights of CK_WIDE are any finite codes, of CK_BAD any codes at all. */
static void fill_weights(ck_run *run, uint32_t type, uint8_t *w, size_t n, ck_kind kind) {
    enum { PIECE = 256 };
    const uint16_t exponent = type == LK_FORMAT_F16 ? 0x7c00u : 0x7f80u;
    float x[PIECE];
    for (size_t k = 0; k < n; k++) {
        if (k % PIECE == 0) {
            ck_fill(run, x, n - k < PIECE ? n - k : PIECE, kind);
        }
        const float v = x[k % PIECE];
        uint16_t code = type == LK_FORMAT_F16 ? lk_f32_to_f16(v) : lk_f32_to_bf16(v);
        if (kind == CK_WIDE || kind == CK_BAD) {
            code = (uint16_t)ck_random(run);
            if (kind == CK_WIDE && (code & exponent) == exponent) {
                code = 0;
            }
        }
        if (type == LK_FORMAT_F32) {
            lk_store_u32(w + 4 * k, lk_f32_bits(v));
        } else {
            lk_store_u16(w + 2 * k, code);
        }
    }
}

static void compare_float(ck_run *run, const float_format *f, lk_matmul_float_fn *fn, size_t n,
                          size_t n_rows) {
    const size_t elem_bytes = f->type == LK_FORMAT_F32 ? 4 : 2;
    const size_t n_out = 1 + ck_below(run, 40);
    const size_t row_bytes = n * elem_bytes + ck_below(run, 2) * ck_below(run, 9) * 2;
    const ck_kind w_kind = (ck_kind)ck_below(run, CK_N_KINDS);
    const ck_kind x_kind = (ck_kind)ck_below(run, CK_N_KINDS);
    size_t begin;
    size_t end;
    pick_range(run, n_out, &begin, &end);
    const size_t x_stride = n + ck_below(run, 5);
    const size_t y_stride = n_out + ck_below(run, 5);
    ck_at(run, "matmul_%s n=%zu rows=%zu outputs %zu..%zu of %zu w=%s x=%s", f->name, n, n_rows,
          begin, end, n_out, ck_kind_name(w_kind), ck_kind_name(x_kind));
    const size_t w_bytes = (n_out - 1) * row_bytes + n * elem_bytes;
    uint8_t *const w = ck_place(CK_WEIGHTS, w_bytes, ck_below(run, 2) * ck_below(run, 67));
    for (size_t o = begin; o < end; o++) {
        fill_weights(run, f->type, w + o * row_bytes, n, w_kind);
    }
    const size_t n_x = (n_rows - 1) * x_stride + n;
    float *const x = ck_place_f32(CK_IN0, n_x, ck_below(run, 17));
    ck_fill(run, x, n_x, x_kind);
    uint32_t flag = 0;
    if (f->type == LK_FORMAT_F16) {
        lk_act_round_ref(x, n_x, LK_ROUND_13, x, &flag);
    } else if (f->type == LK_FORMAT_BF16) {
        lk_act_round_ref(x, n_x, LK_ROUND_16B, x, &flag);
    }
    const size_t n_y = (n_rows - 1) * y_stride + n_out;
    float *const y = ck_place_f32(CK_OUT0, n_y, ck_below(run, 17));
    float *const want = ck_place_f32(CK_WANT0, n_y, 0);
    fn(w, row_bytes, n, begin, end, x, x_stride, n_rows, y, y_stride);
    f->ref(w, row_bytes, n, begin, end, x, x_stride, n_rows, want, y_stride);
    run->n_calls++;
    if (flag == 0) {
        ck_same_f32(run, "y", y, want, n_y);
    }
    ck_check_guard(run, CK_OUT0);
}

/* Columns and rows that kernels for many rows cut into parts and blocks. */
static const struct {
    size_t n, n_rows;
} large_products[] = {{640, 96}, {641, 25}, {656, 99}, {1300, 24}, {1945, 49}, {30000, 26}};

static void check_float(ck_run *run, const float_format *f, lk_matmul_float_fn *fn) {
    const size_t n_repeat = (size_t)lk_test_size(1, 2, 40);
    for (size_t repeat = 0; repeat < n_repeat; repeat++) {
        for (size_t i = 0; i < ck_n_row_sizes; i++) {
            for (size_t r = 0; r < N_ROW_COUNTS; r++) {
                if (ck_row_sizes[i] * row_counts[r] <= 9000) {
                    compare_float(run, f, fn, ck_row_sizes[i], row_counts[r]);
                }
            }
        }
        for (size_t i = 0; i < sizeof large_products / sizeof large_products[0]; i++) {
            compare_float(run, f, fn, large_products[i].n, large_products[i].n_rows);
        }
    }
}

static const float_format f32_format = {"f32", LK_FORMAT_F32, lk_matmul_f32_ref};
static const float_format f16_format = {"f16", LK_FORMAT_F16, lk_matmul_f16_ref};
static const float_format bf16_format = {"bf16", LK_FORMAT_BF16, lk_matmul_bf16_ref};

void ck_check_matmul_f32(ck_run *run) {
    check_float(run, &f32_format, run->kernels->matmul_f32);
}

void ck_check_matmul_f16(ck_run *run) {
    check_float(run, &f16_format, run->kernels->matmul_f16);
}

void ck_check_matmul_bf16(ck_run *run) {
    check_float(run, &bf16_format, run->kernels->matmul_bf16);
}

/* ---- timing ---- */

enum { BENCH_COLUMNS = 2048, BENCH_OUT = 512 };

typedef struct product {
    const lk_format *format;
    lk_matmul_quant_fn *quant;
    lk_matmul_strip_fn *strips;
    lk_matmul_float_fn *plain;
    const uint8_t *w;
    size_t row_bytes;
    lk_act_rows rows;
    const float *x;
    float *y;
} product;

static void time_quant(void *arg) {
    const product *const p = arg;
    p->quant(p->format, p->w, p->row_bytes, 0, BENCH_OUT, &p->rows, p->y, BENCH_OUT);
}

static void time_strips(void *arg) {
    const product *const p = arg;
    p->strips(p->format, p->w, 0, BENCH_OUT, &p->rows, p->y, BENCH_OUT);
}

static void time_float(void *arg) {
    const product *const p = arg;
    p->plain(p->w, p->row_bytes, BENCH_COLUMNS, 0, BENCH_OUT, p->x, BENCH_COLUMNS, p->rows.n_rows,
             p->y, BENCH_OUT);
}

static void bench_product(ck_run *run, product *p, const char *name) {
    static const size_t counts[] = {1, 2, 4, 8, 16, 64, 512};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        char line[64];
        (void)snprintf(line, sizeof line, "%s %dx%d rows=%zu", name, BENCH_OUT, BENCH_COLUMNS,
                       counts[i]);
        if (!ck_wanted(run, line)) {
            continue;
        }
        const double n_weights = (double)BENCH_OUT * (double)BENCH_COLUMNS;
        const double bytes = (double)p->row_bytes * (double)BENCH_OUT;
        const double ops = 2.0 * n_weights * (double)counts[i];
        p->y = ck_place_f32(CK_OUT0, BENCH_OUT * counts[i], 0);
        if (p->format != NULL) {
            p->rows = make_rows(run, BENCH_COLUMNS, BENCH_COLUMNS + 64, p->format->act_group,
                                counts[i], A_QUANTISED);
        } else {
            float *const x = ck_place_f32(CK_IN0, BENCH_COLUMNS * counts[i], 0);
            ck_fill(run, x, BENCH_COLUMNS * counts[i], CK_NORMAL);
            p->x = x;
            p->rows.n_rows = counts[i];
        }
        ck_bench_fn *const fn = p->quant != NULL    ? time_quant
                                : p->strips != NULL ? time_strips
                                                    : time_float;
        ck_bench(run, line, fn, p, bytes, ops);
    }
}

void ck_bench_matmul_quant(ck_run *run) {
    for (size_t i = 0; i < lk_format_count(); i++) {
        product p = {.format = lk_format_at(i), .quant = run->kernels->matmul_format[i]};
        if (p.quant == NULL) {
            continue;
        }
        char name[32];
        (void)snprintf(name, sizeof name, "matmul_quant.%s", p.format->name);
        p.row_bytes = BENCH_COLUMNS / p.format->block_elems * p.format->block_bytes;
        uint8_t *const w = ck_place(CK_WEIGHTS, p.row_bytes * BENCH_OUT, 0);
        for (size_t b = 0; b < p.row_bytes * BENCH_OUT / p.format->block_bytes; b++) {
            fill_block(run, p.format, NULL, W_RANDOM, w + b * p.format->block_bytes);
        }
        p.w = w;
        bench_product(run, &p, name);
    }
}

void ck_bench_matmul_strip(ck_run *run) {
    for (size_t i = 0; i < lk_format_count(); i++) {
        product p = {.format = lk_format_at(i), .strips = run->kernels->matmul_strips[i]};
        char name[32];
        (void)snprintf(name, sizeof name, "matmul_strip.%s", p.format->name);
        if (p.strips == NULL || !ck_wanted(run, name)) {
            continue;
        }
        /* whole strips are blocks in another order: random ones need no making */
        const size_t bytes =
            lk_strip_shape_of(p.format->block_elems, p.format->block_bytes, BENCH_COLUMNS).bytes;
        p.row_bytes = bytes / LK_STRIP_ROWS;
        uint8_t *const w = ck_place(CK_WEIGHTS, bytes * (BENCH_OUT / LK_STRIP_ROWS), 0);
        random_bytes(run, w, bytes * (BENCH_OUT / LK_STRIP_ROWS));
        p.w = w;
        bench_product(run, &p, name);
    }
}

static void bench_float(ck_run *run, const float_format *f, lk_matmul_float_fn *fn) {
    product p = {.plain = fn};
    p.row_bytes = BENCH_COLUMNS * (f->type == LK_FORMAT_F32 ? 4 : 2);
    uint8_t *const w = ck_place(CK_WEIGHTS, p.row_bytes * BENCH_OUT, 0);
    fill_weights(run, f->type, w, (size_t)BENCH_COLUMNS * BENCH_OUT, CK_NORMAL);
    p.w = w;
    char name[32];
    (void)snprintf(name, sizeof name, "matmul_%s", f->name);
    bench_product(run, &p, name);
}

void ck_bench_matmul_f32(ck_run *run) {
    bench_float(run, &f32_format, run->kernels->matmul_f32);
}

void ck_bench_matmul_f16(ck_run *run) {
    bench_float(run, &f16_format, run->kernels->matmul_f16);
}

void ck_bench_matmul_bf16(ck_run *run) {
    bench_float(run, &bf16_format, run->kernels->matmul_bf16);
}
