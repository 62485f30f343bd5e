/* test_quantize.c - lk_quantize: which format each tensor gets, what is kept, that the written
 * bytes are those of the encoders whatever the number of threads, and that a refused input leaves
 * nothing behind. */
#include <math.h>

#include "gguf/gguf_writer.h"
#include "lk/quantize.h"
#include "lk_test.h"
#include "model/quantize_mix.h"
#include "quant/format.h"
#include "test_folder.h"

/* A tensor of a made-up model and the format that it gets for Q4_K_M. */
typedef struct sample {
    const char *name;
    uint64_t ne[3];
    uint32_t type;
    uint32_t q4_k_m;
} sample;

/* Eight layers: 0, 3, 6 and 7 are the sensitive ones. Rows of 96 do not divide by 256, rows of 40
 * not by 32. */
static const sample samples[] = {
    {"token_embd.weight", {256, 20, 1}, LK_FORMAT_F32, LK_FORMAT_Q4_K},
    {"output.weight", {256, 20, 1}, LK_FORMAT_F16, LK_FORMAT_Q6_K},
    {"output_norm.weight", {256, 1, 1}, LK_FORMAT_F32, LK_FORMAT_F32},
    {"blk.0.attn_v.weight", {256, 2, 1}, LK_FORMAT_F32, LK_FORMAT_Q6_K},
    {"blk.1.attn_v.weight", {256, 2, 1}, LK_FORMAT_BF16, LK_FORMAT_Q4_K},
    {"blk.1.attn_v.bias", {256, 1, 1}, LK_FORMAT_BF16, LK_FORMAT_F32},
    {"blk.2.attn_v.weight", {512, 2, 1}, LK_FORMAT_F32, LK_FORMAT_Q4_K},
    {"blk.3.attn_v.weight", {256, 2, 1}, LK_FORMAT_F32, LK_FORMAT_Q6_K},
    {"blk.3.attn_q.weight", {256, 2, 1}, LK_FORMAT_F32, LK_FORMAT_Q4_K},
    {"blk.3.attn_norm.weight", {256, 1, 1}, LK_FORMAT_F16, LK_FORMAT_F32},
    {"blk.4.ffn_down.weight", {256, 3, 1}, LK_FORMAT_F32, LK_FORMAT_Q4_K},
    {"blk.4.ffn_gate.weight", {96, 3, 1}, LK_FORMAT_F32, LK_FORMAT_Q5_0},
    {"blk.4.ffn_gate_inp.weight", {256, 4, 1}, LK_FORMAT_F32, LK_FORMAT_F32},
    {"blk.5.ffn_down_exps.weight", {256, 3, 4}, LK_FORMAT_F32, LK_FORMAT_Q4_K},
    {"blk.6.ffn_down_exps.weight", {256, 3, 4}, LK_FORMAT_F32, LK_FORMAT_Q6_K},
    {"blk.7.ffn_down.weight", {96, 3, 1}, LK_FORMAT_F32, LK_FORMAT_Q8_0},
    {"blk.7.ffn_up.weight", {40, 3, 1}, LK_FORMAT_F32, LK_FORMAT_F16},
    {"blk.7.attn_qkv.weight", {256, 3, 1}, LK_FORMAT_F32, LK_FORMAT_Q5_K},
};
enum { N_SAMPLES = sizeof samples / sizeof samples[0], MAX_VALUES = 8192 };

static size_t count_elems(const uint64_t *ne) {
    return (size_t)(ne[0] * ne[1] * ne[2]);
}

static void make_values(float *values, size_t n, uint64_t seed) {
    for (size_t i = 0; i < n; i++) {
        values[i] = (float)(int32_t)lk_test_random(&seed) * 0x1p-34f;
    }
}

/* Writes the made-up model; `poison` (may be NULL) replaces element `at` of the tensor of that
 * name.
 */
static void write_model(const char *path, const char *poison, size_t at, float value) {
    static float values[MAX_VALUES];
    static uint8_t bytes[4 * MAX_VALUES];
    lk_gguf_writer *w = NULL;
    lk_error err;
    REQUIRE_OK(lk_gguf_writer_create(path, NULL, &w, &err), err);
    REQUIRE_OK(lk_gguf_writer_string(w, "general.architecture", "llama", 5, &err), err);
    REQUIRE_OK(lk_gguf_writer_int(w, "general.file_type", LK_GGUF_U32, 0, &err), err);
    REQUIRE_OK(lk_gguf_writer_float(w, "llama.rope.freq_base", LK_GGUF_F32, 1e4, &err), err);
    static const uint8_t numbers[4] = {9, 8, 7, 6};
    REQUIRE_OK(lk_gguf_writer_array(w, "llama.numbers", LK_GGUF_U8, numbers, 4, &err), err);
    for (size_t i = 0; i < N_SAMPLES; i++) {
        const sample *s = &samples[i];
        const uint32_t n_dims = s->ne[2] > 1 ? 3 : s->ne[1] > 1 ? 2 : 1;
        REQUIRE_OK(lk_gguf_writer_tensor(w, s->name, s->type, n_dims, s->ne, &err), err);
    }
    REQUIRE_OK(lk_gguf_writer_begin(w, &err), err);
    for (size_t i = 0; i < N_SAMPLES; i++) {
        const size_t n = count_elems(samples[i].ne);
        const lk_format *format = lk_format_find(samples[i].type);
        CHECK(n <= MAX_VALUES);
        make_values(values, n, i + 1);
        if (poison != NULL && strcmp(poison, samples[i].name) == 0) {
            values[at] = value;
        }
        format->encode(values, bytes, n);
        REQUIRE_OK(lk_gguf_writer_data(w, bytes, n * format->block_bytes, &err), err);
    }
    REQUIRE_OK(lk_gguf_writer_finish(w, &err), err);
    lk_gguf_writer_destroy(w);
}

typedef struct progress_log {
    lk_quantize_tensor tensors[N_SAMPLES + 4];
    size_t n;
    uint64_t last_done;
    uint64_t cancel_at; /* 0: never */
} progress_log;

static void on_tensor(void *ctx, const lk_quantize_tensor *tensor) {
    progress_log *l = (progress_log *)ctx;
    l->tensors[l->n++] = *tensor;
}

static int on_progress(void *ctx, const char *phase, uint64_t done, uint64_t total) {
    progress_log *l = (progress_log *)ctx;
    CHECK(strcmp(phase, "quantize") == 0 && done <= total && done >= l->last_done);
    l->last_done = done;
    return l->cancel_at == 0 || done < l->cancel_at;
}

static lk_status quantize(const char *in, const char *out, uint32_t type, uint32_t n_threads,
                          progress_log *l, lk_error *err) {
    lk_quantize_params params = LK_QUANTIZE_PARAMS_INIT;
    params.type = type;
    params.n_threads = n_threads;
    params.progress = on_progress;
    params.progress_ctx = l;
    params.on_tensor = on_tensor;
    params.on_tensor_ctx = l;
    return lk_quantize(in, out, &params, err);
}

static lk_gguf *open_gguf(const char *path) {
    lk_gguf *gguf = NULL;
    lk_error err;
    REQUIRE_OK(lk_gguf_open(path, NULL, &gguf, &err), err);
    return gguf;
}

/* The bytes of tensor i in the output are those that its format's encoder makes of the input's
 * values, and the report tells the truth. */
static void check_tensor(const lk_gguf *in, const lk_gguf *out, uint64_t i,
                         const lk_quantize_tensor *report) {
    static float values[MAX_VALUES];
    static float back[MAX_VALUES];
    static uint8_t bytes[4 * MAX_VALUES];
    lk_gguf_tensor a;
    lk_gguf_tensor b;
    lk_error err;
    REQUIRE_OK(lk_gguf_tensor_at(in, i, &a, &err), err);
    REQUIRE_OK(lk_gguf_tensor_at(out, i, &b, &err), err);
    const size_t n = count_elems(a.ne);
    const lk_format *to = lk_format_find(b.type);
    CHECK(strcmp(a.name, b.name) == 0 && a.n_dims == b.n_dims && report->i_tensor == i);
    CHECK(memcmp(a.ne, b.ne, sizeof a.ne) == 0);
    lk_format_find(a.type)->decode((const uint8_t *)a.data, values, n);
    to->encode(values, bytes, n);
    CHECK(b.n_bytes == n / to->block_elems * to->block_bytes);
    CHECK_MSG(memcmp(bytes, b.data, b.n_bytes) == 0, "%s", a.name);
    to->decode(bytes, back, n);
    double square_error = 0.0;
    double square_sum = 0.0;
    for (size_t k = 0; k < n; k++) {
        const double e = (double)back[k] - (double)values[k];
        square_error += e * e;
        square_sum += (double)values[k] * (double)values[k];
    }
    CHECK(report->from == a.type && report->to == b.type && report->n_elems == n);
    CHECK(report->bytes_before == a.n_bytes && report->bytes_after == b.n_bytes);
    CHECK(fabs(report->square_error - square_error) <= 1e-9 * square_error);
    CHECK(fabs(report->square_sum - square_sum) <= 1e-9 * square_sum);
    CHECK(sqrt(square_error / square_sum) < 0.12);
}

static void check_metadata(const lk_gguf *in, const lk_gguf *out, uint32_t type) {
    lk_gguf_value value;
    lk_error err;
    REQUIRE_OK(lk_gguf_find(out, "general.file_type", &value, &err), err);
    CHECK(value.i == (int64_t)type && value.type == LK_GGUF_U32);
    REQUIRE_OK(lk_gguf_find(out, "general.quantization_version", &value, &err), err);
    CHECK(value.i == 2);
    CHECK(lk_gguf_n_meta(out) == lk_gguf_n_meta(in) + 1);
    REQUIRE_OK(lk_gguf_find(out, "general.architecture", &value, &err), err);
    CHECK(value.n == 5 && memcmp(value.str, "llama", 5) == 0);
    REQUIRE_OK(lk_gguf_find(out, "llama.rope.freq_base", &value, &err), err);
    CHECK(value.f == 1e4);
    REQUIRE_OK(lk_gguf_find(out, "llama.numbers", &value, &err), err);
    CHECK(value.n == 4 && memcmp(value.arr, "\x09\x08\x07\x06", 4) == 0);
}

LK_TEST(every_type_is_read_back) {
    test_folder_make();
    write_model(test_folder_path("in.gguf"), NULL, 0, 0.0f);
    for (uint32_t i = 0; lk_quantize_type_at(i) != NULL; i++) {
        uint32_t type = 0;
        progress_log l = {.n = 0};
        lk_error err;
        CHECK(lk_quantize_find_type(lk_quantize_type_at(i), &type));
        REQUIRE_OK(
            quantize(test_folder_path("in.gguf"), test_folder_path("out.gguf"), type, 2, &l, &err),
            err);
        lk_gguf *in = open_gguf(test_folder_path("in.gguf"));
        lk_gguf *out = open_gguf(test_folder_path("out.gguf"));
        check_metadata(in, out, type);
        CHECK(l.n == N_SAMPLES && lk_gguf_n_tensors(out) == N_SAMPLES);
        for (uint64_t k = 0; k < N_SAMPLES; k++) {
            check_tensor(in, out, k, &l.tensors[k]);
            CHECK_MSG(type != LK_QUANTIZE_Q4_K_M || l.tensors[k].to == samples[k].q4_k_m,
                      "%s is %s", samples[k].name, lk_format_name(l.tensors[k].to));
            const uint64_t block = lk_format_find(l.tensors[k].wanted)->block_elems;
            CHECK((l.tensors[k].to == l.tensors[k].wanted) == (samples[k].ne[0] % block == 0));
        }
        lk_gguf_close(in);
        lk_gguf_close(out);
    }
    static const char *const names[] = {"in.gguf", "out.gguf", NULL};
    test_folder_remove(names);
}

/* The mix is the one of files that another quantiser made. */
static void check_mix_of(const char *path) {
    lk_gguf *gguf = open_gguf(path);
    lk_quantize_mix mix;
    CHECK(lk_quantize_mix_init(&mix, gguf, LK_QUANTIZE_Q4_K_M));
    CHECK(lk_gguf_n_tensors(gguf) > 40);
    for (uint64_t i = 0; i < lk_gguf_n_tensors(gguf); i++) {
        lk_gguf_tensor tensor;
        uint32_t wanted = 0;
        CHECK(lk_gguf_tensor_at(gguf, i, &tensor, NULL) == LK_OK);
        const uint32_t format = lk_quantize_mix_format(&mix, &tensor, &wanted);
        CHECK_MSG(format == tensor.type, "%s: %s, the file has %s", tensor.name,
                  lk_format_name(format), lk_format_name(tensor.type));
    }
    lk_gguf_close(gguf);
}

LK_TEST(mix_of_other_files) {
    check_mix_of(lk_test_data("models/tiny-q4_k_m.gguf"));
    check_mix_of(LK_SOURCE_DIR "/models/small-q4_k_m.gguf");
}

/* More than one batch; the same bytes from any number of threads. */
LK_TEST(threads_change_nothing) {
    enum { WIDTH = 256, ROWS = 8300 };
    test_folder_make();
    lk_gguf_writer *w = NULL;
    lk_error err;
    const uint64_t ne[2] = {WIDTH, ROWS};
    float row[WIDTH];
    REQUIRE_OK(lk_gguf_writer_create(test_folder_path("in.gguf"), NULL, &w, &err), err);
    REQUIRE_OK(lk_gguf_writer_tensor(w, "a.weight", LK_FORMAT_F32, 2, ne, &err), err);
    REQUIRE_OK(lk_gguf_writer_begin(w, &err), err);
    for (uint64_t r = 0; r < ROWS; r++) {
        make_values(row, WIDTH, r + 1);
        REQUIRE_OK(lk_gguf_writer_data(w, row, sizeof row, &err), err);
    }
    REQUIRE_OK(lk_gguf_writer_finish(w, &err), err);
    lk_gguf_writer_destroy(w);
    progress_log one = {.n = 0};
    progress_log many = {.n = 0};
    const char *in = test_folder_path("in.gguf");
    REQUIRE_OK(quantize(in, test_folder_path("1.gguf"), LK_QUANTIZE_Q8_0, 1, &one, &err), err);
    REQUIRE_OK(quantize(in, test_folder_path("5.gguf"), LK_QUANTIZE_Q8_0, 5, &many, &err), err);
    size_t n_one = 0;
    size_t n_many = 0;
    uint8_t *a = lk_test_read(test_folder_path("1.gguf"), &n_one);
    uint8_t *b = lk_test_read(test_folder_path("5.gguf"), &n_many);
    CHECK(n_one == n_many && memcmp(a, b, n_one) == 0);
    free(a);
    free(b);
    CHECK(one.tensors[0].square_error == many.tensors[0].square_error);
    CHECK(one.last_done == (uint64_t)WIDTH * ROWS);
    lk_gguf *gguf = open_gguf(test_folder_path("5.gguf"));
    lk_gguf_tensor tensor;
    CHECK(lk_gguf_tensor_at(gguf, 0, &tensor, NULL) == LK_OK);
    for (uint64_t r = 0; r < ROWS; r++) {
        uint8_t bytes[WIDTH / 32 * 34];
        make_values(row, WIDTH, r + 1);
        lk_format_find(LK_FORMAT_Q8_0)->encode(row, bytes, WIDTH);
        CHECK(memcmp((const uint8_t *)tensor.data + r * sizeof bytes, bytes, sizeof bytes) == 0);
    }
    lk_gguf_close(gguf);
    static const char *const names[] = {"in.gguf", "1.gguf", "5.gguf", NULL};
    test_folder_remove(names);
}

static void check_refused(const char *in, uint32_t type, lk_status status, const char *part) {
    progress_log l = {.n = 0};
    lk_error err = {.status = LK_OK};
    CHECK_STATUS(status, quantize(in, test_folder_path("out.gguf"), type, 2, &l, &err));
    CHECK_MSG(strstr(err.message, part) != NULL, "'%s' does not say '%s'", err.message, part);
}

LK_TEST(refused_inputs_leave_nothing) {
    test_folder_make();
    const char *const in = "in.gguf";
    write_model(test_folder_path(in), "blk.2.attn_v.weight", 700, NAN);
    check_refused(test_folder_path(in), LK_QUANTIZE_Q4_K_M, LK_E_NONFINITE,
                  "'blk.2.attn_v.weight': element 700 is nan");
    write_model(test_folder_path(in), "output.weight", 5119, INFINITY);
    check_refused(test_folder_path(in), LK_QUANTIZE_F16, LK_E_NONFINITE,
                  "'output.weight': element 5119 is inf");
    write_model(test_folder_path(in), "blk.7.ffn_up.weight", 3, 70000.0f);
    check_refused(test_folder_path(in), LK_QUANTIZE_Q8_0, LK_E_NONFINITE,
                  "'blk.7.ffn_up.weight': element 3, 70000, is too large for F16");
    write_model(test_folder_path(in), "output_norm.weight", 7, NAN); /* F32, and stays F32 */
    check_refused(test_folder_path(in), LK_QUANTIZE_Q8_0, LK_E_NONFINITE,
                  "'output_norm.weight': element 7 is nan");
    write_model(test_folder_path(in), "token_embd.weight", 99, -1e10f);
    check_refused(test_folder_path(in), LK_QUANTIZE_Q4_K_M, LK_E_NONFINITE,
                  "is too large for Q4_K");
    check_refused(lk_test_data("models/tiny-q4_k_m.gguf"), LK_QUANTIZE_Q8_0, LK_E_UNSUPPORTED,
                  "is Q6_K already");
    check_refused(test_folder_path("absent.gguf"), LK_QUANTIZE_Q8_0, LK_E_IO, "absent.gguf");
    check_refused(test_folder_path(in), 3, LK_E_ARG, "3");
    write_model(test_folder_path(in), NULL, 0, 0.0f);
    progress_log l = {.cancel_at = 6000};
    CHECK_STATUS(LK_E_CANCELLED, quantize(test_folder_path(in), test_folder_path("out.gguf"),
                                          LK_QUANTIZE_Q8_0, 1, &l, NULL));
    CHECK(l.n == 1);
    CHECK(test_folder_count() == 1);
    test_folder_remove((const char *const[]){in, NULL});
}

LK_TEST(arguments) {
    lk_quantize_params params = LK_QUANTIZE_PARAMS_INIT;
    uint32_t type = 7;
    CHECK_STATUS(LK_E_ARG, lk_quantize("a", "b", &params, NULL)); /* no type given */
    CHECK_STATUS(LK_E_ARG, lk_quantize("a", "b", NULL, NULL));
    params.type = LK_QUANTIZE_Q8_0;
    params.struct_size--;
    CHECK_STATUS(LK_E_ARG, lk_quantize("a", "b", &params, NULL));
    CHECK(lk_quantize_find_type("q4_k_M", &type) && type == LK_QUANTIZE_Q4_K_M);
    CHECK(!lk_quantize_find_type("q4_k", &type) && type == 0);
    CHECK(!lk_quantize_find_type("", &type) && !lk_quantize_find_type(NULL, &type));
    CHECK(strcmp(lk_quantize_type_name(LK_QUANTIZE_BF16), "BF16") == 0);
    CHECK(lk_quantize_type_name(3) == NULL);
}

LK_TEST(failing_allocations) {
    test_folder_make();
    const char *const in = "in.gguf";
    write_model(test_folder_path(in), NULL, 0, 0.0f);
    uint64_t n = 1;
    for (;; n++) {
        lk_test_allocator counting;
        lk_test_allocator_init(&counting);
        counting.fail_at = n;
        lk_quantize_params params = LK_QUANTIZE_PARAMS_INIT;
        params.type = LK_QUANTIZE_Q4_K_M;
        params.n_threads = 2;
        params.allocator = &counting.base;
        lk_error err;
        const lk_status status =
            lk_quantize(test_folder_path(in), test_folder_path("out.gguf"), &params, &err);
        CHECK(counting.n_live == 0 && counting.live_bytes == 0);
        if (counting.n_failed == 0) {
            CHECK(status == LK_OK);
            break;
        }
        CHECK_MSG(status == LK_E_NOMEM, "allocation %llu: %s", (unsigned long long)n,
                  lk_status_name(status));
        CHECK(test_folder_count() == 1);
    }
    CHECK(n > 10);
    static const char *const names[] = {"in.gguf", "out.gguf", NULL};
    test_folder_remove(names);
}

LK_TEST_MAIN(LK_RUN(every_type_is_read_back), LK_RUN(mix_of_other_files),
             LK_RUN(threads_change_nothing), LK_RUN(refused_inputs_leave_nothing),
             LK_RUN(arguments), LK_RUN(failing_allocations))
