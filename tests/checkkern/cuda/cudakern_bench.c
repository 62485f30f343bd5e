/* cudakern_bench.c - times of the main kernels on a card: `cudakern_card *.ptx bench`. What the
 * memory holds plays no part in the times. */
#include <stdio.h>
#include <string.h>

#include "cudakern.h"

static void report(const char *name, double seconds, double bytes, double ops) {
    (void)printf("%-44s %10.1f us %8.0f GB/s %8.2f TOPS\n", name, seconds * 1e6,
                 bytes / seconds * 1e-9, ops / seconds * 1e-12);
    (void)fflush(stdout);
    kd_free_all();
}

static void bench_quant(const char *format_name, uint32_t n, uint32_t n_out, uint32_t n_rows,
                        uint32_t n_times) {
    const lk_format *format = NULL;
    for (size_t i = 0; i < lk_format_count(); i++) {
        format = strcmp(lk_format_at(i)->name, format_name) == 0 ? lk_format_at(i) : format;
    }
    const size_t row_bytes = lk_format_bytes(format, n);
    const size_t n_x = (size_t)n_rows * n;
    const lk_cuda_matmul_quant_args args = {.m = {.w = kd_new(row_bytes * n_out + LK_CUDA_PADDING),
                                                  .row_bytes = row_bytes,
                                                  .n_matrices = 1,
                                                  .n = n,
                                                  .n_out = n_out},
                                            .q = kd_new(n_x),
                                            .d = kd_new(n_x / format->act_group * 4),
                                            .sums = kd_new(n_x / 16 * 2),
                                            .y = kd_new((size_t)n_rows * n_out * 4),
                                            .y_stride = n_out,
                                            .n_rows = n_rows,
                                            .flags = cu_flags(n_rows)};
    const lk_cuda_choice choice = lk_cuda_choose_quant(format->type, &args);
    char name[96];
    (void)snprintf(name, sizeof name, "matmul %s %u x %u, %u rows", format_name, n, n_out, n_rows);
    report(name, kd_time(choice.kernel, &args, sizeof args, choice.shape, n_times),
           (double)row_bytes * n_out, 2.0 * n * n_out * n_rows);
}

static void bench_float(uint32_t type, uint32_t n, uint32_t n_out, uint32_t n_rows) {
    const uint32_t elem = type == LK_FORMAT_F32 ? 4 : 2;
    const lk_cuda_matmul_args args = {.m = {.w = kd_new((size_t)n * n_out * elem + LK_CUDA_PADDING),
                                            .row_bytes = (uint64_t)n * elem,
                                            .n_matrices = 1,
                                            .n = n,
                                            .n_out = n_out},
                                      .x = kd_new((size_t)n_rows * n * 4),
                                      .y = kd_new((size_t)n_rows * n_out * 4),
                                      .y_stride = n_out,
                                      .n_rows = n_rows,
                                      .flags = cu_flags(n_rows)};
    const lk_cuda_choice choice = lk_cuda_choose_float(type, &args);
    char name[96];
    (void)snprintf(name, sizeof name, "matmul %s %u x %u, %u rows",
                   type == LK_FORMAT_F32 ? "F32" : "F16", n, n_out, n_rows);
    report(name, kd_time(choice.kernel, &args, sizeof args, choice.shape, 20),
           (double)n * n_out * elem, 2.0 * n * n_out * n_rows);
}

static void bench_rows(uint32_t n_rows, uint32_t width) {
    const size_t n = (size_t)n_rows * width;
    const lk_cuda_norm_args norm = {.x = kd_new(n * 4),
                                    .w = kd_new(width * 4),
                                    .b = kd_new(width * 4),
                                    .y = kd_new(n * 4),
                                    .eps = 1e-5f,
                                    .n_rows = n_rows,
                                    .width = width,
                                    .group = width,
                                    .flags = cu_flags(n_rows)};
    char name[96];
    (void)snprintf(name, sizeof name, "layer_norm %u rows of %u", n_rows, width);
    const double layer = KD_TIME(layer_norm, &norm, 100);
    const double rms = KD_TIME(rms_norm, &norm, 100);
    const lk_cuda_quantize_args quantize = {.x = norm.x,
                                            .q = kd_new(n),
                                            .d = kd_new(n / 32 * 4),
                                            .sums = kd_new(n / 16 * 2),
                                            .n_rows = n_rows,
                                            .width = width,
                                            .group = 32,
                                            .flags = norm.flags};
    const double q32 = KD_TIME(act_quantize, &quantize, 100);
    report(name, layer, (double)n * 8, 0.0);
    (void)snprintf(name, sizeof name, "rms_norm %u rows of %u", n_rows, width);
    report(name, rms, (double)n * 8, 0.0);
    (void)snprintf(name, sizeof name, "act_quantize 32, %u rows of %u", n_rows, width);
    report(name, q32, (double)n * 5, 0.0);
}

/* Windows of 100 rows, 20 heads of 64, as audio encoders have. */
static void bench_run_attention(void) {
    enum { ROWS = 1500, HEADS = 20, DIM = 64 };
    const size_t bytes = (size_t)ROWS * HEADS * DIM * 4;
    static lk_cuda_run_row rows[ROWS];
    for (uint32_t r = 0; r < ROWS; r++) {
        rows[r] = (lk_cuda_run_row){r / 100 * 100, r / 100 * 100 + 100};
    }
    const lk_cuda_run_attention_args args = {.q = kd_new(bytes),
                                             .k = kd_new(bytes),
                                             .v = kd_new(bytes),
                                             .y = kd_new(bytes),
                                             .rows = kd_put(rows, sizeof rows, 0),
                                             .n_rows = ROWS,
                                             .n_heads = HEADS,
                                             .n_kv_heads = HEADS,
                                             .head_dim = DIM,
                                             .scale = 0.125f,
                                             .flags = cu_flags(ROWS)};
    report("run_attention 1500 rows, runs of 100, 20 x 64", KD_TIME(run_attention, &args, 50),
           (double)bytes * 4, 4.0 * ROWS * HEADS * DIM * 100);
}

/* n_rows last rows of a sequence, 32 heads of 128 with 8 of keys. */
static void bench_attention(lk_kv_format format, uint32_t context, uint32_t n_rows, bool in_parts) {
    enum { HEADS = 32, KV_HEADS = 8, DIM = 128, MAX_ROWS = 512, MAX_CHUNKS = 512 };
    const size_t block_bytes = lk_kv_block_bytes(format, DIM);
    const uint32_t n_chunks = (context + LK_CHUNK - 1) / LK_CHUNK;
    const size_t n = (size_t)n_rows * HEADS * DIM;
    static uint32_t table[MAX_CHUNKS];
    static uint32_t first[MAX_ROWS];
    static uint32_t pos[MAX_ROWS];
    for (uint32_t i = 0; i < n_chunks; i++) {
        table[i] = i;
    }
    for (uint32_t r = 0; r < n_rows; r++) {
        pos[r] = context - n_rows + r;
    }
    lk_cuda_attention_args args = {.kv = {.pages = kd_new(n_chunks * 2 * KV_HEADS * block_bytes),
                                          .page_bytes = 2 * KV_HEADS * block_bytes,
                                          .table = kd_put(table, sizeof table, 0),
                                          .first = kd_put(first, sizeof first, 0),
                                          .pos = kd_put(pos, sizeof pos, 0),
                                          .k_format = format,
                                          .v_format = format,
                                          .n_kv_heads = KV_HEADS,
                                          .head_dim = DIM},
                                   .q = kd_new(n * 4),
                                   .y = kd_new(n * 4),
                                   .n_rows = n_rows,
                                   .n_heads = HEADS,
                                   .scale = 0.1f,
                                   .max_chunks = n_chunks,
                                   .flags = cu_flags(n_rows)};
    double seconds = 0.0;
    if (in_parts) {
        args.parts = kd_new((size_t)n_rows * HEADS * n_chunks * lk_attn_part_floats(DIM) * 4);
        seconds = KD_TIME(attention_parts, &args, 10) + KD_TIME(attention_join, &args, 10);
    } else {
        seconds = KD_TIME(attention, &args, 3);
    }
    char name[96];
    (void)snprintf(name, sizeof name, "attention %s context %u, %u rows%s",
                   format == LK_KV_FORMAT_F16 ? "f16" : "q8_0", context, n_rows,
                   in_parts ? ", parts" : "");
    report(name, seconds, (double)n_chunks * 2 * KV_HEADS * (double)block_bytes,
           4.0 * HEADS * DIM * context * n_rows);
}

void cu_bench(void) {
    static const char *const formats[] = {"Q8_0", "Q4_0", "Q4_K", "Q6_K", "MXFP4"};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        bench_quant(formats[i], 4096, 131072, 1, 10);
        bench_quant(formats[i], 4096, 4096, 1, 50);
        bench_quant(formats[i], 4096, 4096, 4, 50);
        bench_quant(formats[i], 4096, 16384, 512, 5);
    }
    bench_quant("Q8_0", 1280, 5120, 1500, 10);
    bench_float(LK_FORMAT_F16, 1280, 5120, 1500);
    bench_float(LK_FORMAT_F16, 4096, 4096, 1);
    bench_float(LK_FORMAT_F16, 4096, 32768, 1);
    bench_float(LK_FORMAT_F32, 4096, 128, 512);
    bench_rows(1500, 1280);
    bench_rows(1, 4096);
    bench_run_attention();
    bench_attention(LK_KV_FORMAT_F16, 8192, 1, true);
    bench_attention(LK_KV_FORMAT_Q8_0, 8192, 1, true);
    bench_attention(LK_KV_FORMAT_F16, 2048, 512, false);
    bench_attention(LK_KV_FORMAT_Q8_0, 2048, 512, false);
}
