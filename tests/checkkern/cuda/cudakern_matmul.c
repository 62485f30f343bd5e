/* cudakern_matmul.c - checks of the matrix products: every format, numbers of rows and outputs
 * around the tiles, whole matrices and those of several experts. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "cudakern.h"
#include "lk_test.h"

/* One product, or several beside each other: expert e has the rows first[e] .. first[e + 1] - 1. */
typedef struct product {
    const lk_format *format;
    uint32_t n;
    uint32_t n_out;
    uint32_t n_rows;
    uint32_t n_experts;
    uint32_t first[5];
    uint8_t *w;
    size_t matrix_bytes;
    float *want;
    uint32_t *flags;
} product;

static bool decodes_finite(const lk_format *format, const uint8_t *block) {
    float x[LK_FORMAT_MAX_BLOCK_ELEMS];
    format->decode(block, x, format->block_elems);
    return lk_check_finite_ref(x, format->block_elems) == 0;
}

/* Blocks with finite scales and any integers, one in four with the same byte everywhere that keeps
 * them finite; in one matrix of eight anything at all. */
static void fill_weights(ck_run *run, const lk_format *format, uint8_t *w, size_t n_blocks) {
    static const uint8_t patterns[4] = {0x80, 0x7f, 0xff, 0x00};
    const bool any = ck_below(run, 8) == 0;
    for (size_t i = 0; i < n_blocks; i++, w += format->block_bytes) {
        uint8_t block[LK_FORMAT_MAX_BLOCK_BYTES];
        do {
            for (uint32_t k = 0; k < format->block_bytes; k++) {
                block[k] = (uint8_t)(ck_random(run) >> 32);
            }
        } while (!any && !decodes_finite(format, block));
        memcpy(w, block, format->block_bytes);
        const uint8_t pattern = patterns[ck_below(run, 4)];
        for (uint32_t k = 0; ck_below(run, 4) == 0 && k < format->block_bytes; k++) {
            const uint8_t kept = w[k];
            w[k] = pattern;
            w[k] = any || decodes_finite(format, w) ? pattern : kept;
        }
    }
}

static product make_product(ck_run *run, const lk_format *format, uint32_t n, uint32_t n_out,
                            uint32_t n_rows) {
    product p = {.format = format, .n = n, .n_out = n_out, .n_rows = n_rows, .n_experts = 1};
    p.first[1] = n_rows;
    if (ck_below(run, 3) == 0) {
        p.n_experts = 4;
        for (uint32_t e = 1; e < 4; e++) {
            p.first[e] = p.first[e - 1] + (uint32_t)ck_below(run, n_rows - p.first[e - 1] + 1);
        }
        p.first[4] = n_rows;
    }
    p.matrix_bytes = lk_format_bytes(format, n) * n_out;
    p.w = cu_host(p.matrix_bytes * p.n_experts);
    p.want = cu_host((size_t)n_rows * n_out * sizeof *p.want);
    p.flags = cu_host(n_rows * sizeof *p.flags);
    fill_weights(run, format, p.w, p.matrix_bytes * p.n_experts / format->block_bytes);
    return p;
}

static lk_cuda_matrix put_matrix(const product *p) {
    const bool has_experts = p->n_experts != 1;
    return (lk_cuda_matrix){
        .w = kd_put(p->w, p->matrix_bytes * p->n_experts, LK_CUDA_PADDING),
        .row_bytes = lk_format_bytes(p->format, p->n),
        .matrix_bytes = p->matrix_bytes,
        .first = has_experts ? kd_put(p->first, (p->n_experts + 1) * sizeof p->first[0], 0) : NULL,
        .n_matrices = p->n_experts,
        .n = p->n,
        .n_out = p->n_out};
}

static void compare_and_free(ck_run *run, product *p, const float *y, const lk_cuda_flags *flags) {
    cu_finish_flags(p->want, p->flags, p->n_rows, p->n_out);
    cu_compare(run, p->format->name, y, p->want, p->flags, flags, p->n_rows, p->n_out);
    free(p->w);
    free(p->want);
    free(p->flags);
}

/* One of the two ways, whatever the number of rows. */
static void launch_float(ck_run *run, uint32_t type, const lk_cuda_matmul_args *args) {
    lk_cuda_matmul_args choose = *args;
    choose.n_rows = ck_below(run, 2) ? 1 : 100000;
    lk_cuda_choice choice = lk_cuda_choose_float(type, &choose);
    choice.shape.grid[1] = (args->n_rows + LK_CUDA_FEW_ROWS - 1) / LK_CUDA_FEW_ROWS;
    kd_launch(choice.kernel, args, sizeof *args, choice.shape);
}

static void check_float(ck_run *run, product *p) {
    const uint32_t type = p->format->type;
    lk_matmul_float_fn *const twin = type == LK_FORMAT_F32   ? lk_matmul_f32_ref
                                     : type == LK_FORMAT_F16 ? lk_matmul_f16_ref
                                                             : lk_matmul_bf16_ref;
    static const ck_kind kinds[] = {CK_NORMAL, CK_NORMAL, CK_NORMAL, CK_WIDE, CK_SUBNORMAL};
    float *const x = cu_host((size_t)p->n_rows * p->n * sizeof *x);
    for (uint32_t r = 0; r < p->n_rows; r++) {
        float *const row = x + (size_t)r * p->n;
        uint32_t flag = 0;
        ck_fill(run, row, p->n, kinds[ck_below(run, 5)]);
        if (type != LK_FORMAT_F32) {
            lk_act_round_ref(row, p->n, type == LK_FORMAT_F16 ? LK_ROUND_13 : LK_ROUND_16B, row,
                             &flag);
        }
        if (flag != 0) { /* the product is never asked for such a row's bits */
            memset(row, 0, p->n * sizeof *row);
        }
    }
    for (uint32_t e = 0; e < p->n_experts; e++) {
        twin(p->w + e * p->matrix_bytes, lk_format_bytes(p->format, p->n), p->n, 0, p->n_out,
             x + (size_t)p->first[e] * p->n, p->n, p->first[e + 1] - p->first[e],
             p->want + (size_t)p->first[e] * p->n_out, p->n_out);
    }
    const lk_cuda_matmul_args args = {.m = put_matrix(p),
                                      .x = kd_put(x, (size_t)p->n_rows * p->n * sizeof *x, 0),
                                      .y = kd_new((size_t)p->n_rows * p->n_out * sizeof(float)),
                                      .y_stride = p->n_out,
                                      .n_rows = p->n_rows,
                                      .flags = cu_flags(p->n_rows)};
    launch_float(run, type, &args);
    free(x);
    compare_and_free(run, p, args.y, &args.flags);
}

/* One of the two ways, whatever the number of rows. */
static void launch_quant(ck_run *run, uint32_t type, const lk_cuda_matmul_quant_args *args) {
    const bool few = ck_below(run, 2) != 0;
    const lk_cuda_shape shape =
        few ? lk_cuda_shape_few(&args->m, args->n_rows) : lk_cuda_shape_quant(args);
    switch (type) {
#define LK_CUDA_QUANT(NAME, name)                                                                  \
    case LK_FORMAT_##NAME:                                                                         \
        kd_launch(few ? LK_CUDA_matmul_##name##_few : LK_CUDA_matmul_##name, args, sizeof *args,   \
                  shape);                                                                          \
        break;
#include "backend/cuda/kern/quant.def"
#undef LK_CUDA_QUANT
    default:
        ck_fail(run, "no kernel");
        break;
    }
}

static void check_quant(ck_run *run, product *p) {
    const uint32_t group = p->format->act_group;
    const size_t n = (size_t)p->n_rows * p->n;
    float *const x = cu_host(p->n * sizeof *x);
    int8_t *const q = cu_host(n);
    float *const d = cu_host(n / group * sizeof *d);
    int16_t *const sums = cu_host(n / 16 * sizeof *sums);
    for (uint32_t r = 0; r < p->n_rows; r++) {
        static const ck_kind kinds[] = {CK_NORMAL, CK_TIES, CK_WIDE, CK_HUGE, CK_ZERO, CK_NORMAL};
        const size_t at = (size_t)r * p->n;
        uint32_t flag = 0;
        ck_fill(run, x, p->n, kinds[ck_below(run, 6)]);
        for (uint32_t k = 0; ck_below(run, 4) == 0 && k < p->n; k++) {
            x[k] = ck_below(run, 2) ? 3.0f : -3.0f;
        }
        lk_act_quantize_ref(x, p->n, group, q + at, d + at / group, sums + at / 16, &flag);
    }
    for (uint32_t e = 0; e < p->n_experts; e++) {
        const size_t at = (size_t)p->first[e] * p->n;
        const lk_act_rows rows = {q + at,
                                  d + at / group,
                                  sums + at / 16,
                                  p->n,
                                  p->n,
                                  group,
                                  p->first[e + 1] - p->first[e]};
        lk_matmul_quant_ref(p->format, p->w + e * p->matrix_bytes, lk_format_bytes(p->format, p->n),
                            0, p->n_out, &rows, p->want + (size_t)p->first[e] * p->n_out, p->n_out);
    }
    const lk_cuda_matmul_quant_args args = {
        .m = put_matrix(p),
        .q = kd_put(q, n, LK_CUDA_PADDING),
        .d = kd_put(d, n / group * sizeof *d, 0),
        .sums = kd_put(sums, n / 16 * sizeof *sums, 0),
        .y = kd_new((size_t)p->n_rows * p->n_out * sizeof(float)),
        .y_stride = p->n_out,
        .n_rows = p->n_rows,
        .flags = cu_flags(p->n_rows)};
    launch_quant(run, p->format->type, &args);
    free(x);
    free(q);
    free(d);
    free(sums);
    compare_and_free(run, p, args.y, &args.flags);
}

void cu_check_matmul(ck_run *run) {
    static const uint32_t row_counts[] = {1, 2, 5, 8, 17, 31, 33, 70};
    static const uint32_t out_counts[] = {1, 7, 16, 31, 32, 33, 65, 129};
    static const uint32_t float_sizes[] = {1, 15, 16, 33, 63, 64, 65, 100, 172, 320};
    for (size_t f = 0; f < lk_format_count(); f++) {
        const lk_format *const format = lk_format_at(f);
        for (size_t i = 0; i < (size_t)lk_test_size(2, 4, 64); i++) {
            const uint32_t step =
                format->block_elems > format->act_group ? format->block_elems : format->act_group;
            const uint32_t n = format->act_group == 0 ? float_sizes[ck_below(run, 10)]
                                                      : step * (1 + (uint32_t)ck_below(run, 5));
            product p =
                make_product(run, format, n, out_counts[(i + f) % 8], row_counts[ck_below(run, 8)]);
            ck_at(run, "matmul %s n=%u outputs=%u rows=%u experts=%u", format->name, n, p.n_out,
                  p.n_rows, p.n_experts);
            if (format->act_group == 0) {
                check_float(run, &p);
            } else {
                check_quant(run, &p);
            }
        }
    }
}
