/* test_device_memory.c - an encoder on a device whose driver fails: every call of it in turn, the
 * n-th allocation of the host, and no driver at all. Each time a clean status with a reason,
 * nothing left on the device or here, and, where the encoder lives on, the bits that it gave
 * before. Over the emulated driver. */
#include <stdbool.h>

#include "cuda_emulated.h"
#include "lk/lk.h"
#include "lk_test.h"
#include "test_folder.h"

enum { N_MELS = 128, N_FRAMES = 203, WIDTH = 64, N_VALUES = 51 * WIDTH, DRIVER_ERROR = 719 };

static const char *const files[] = {"random.gguf", NULL};
static float features[N_FRAMES * N_MELS];
static float expected[N_VALUES];
static emulated_driver driver;

static lk_projector *begin(const char *format) {
    lk_error err;
    uint32_t n = 0;
    if (!emulated_open(&driver)) {
        lk_test_skip("the emulated driver is not there");
    }
    if (lk_device_count(&n, &err) != LK_OK) {
        lk_test_skip(err.message);
    }
    uint64_t seed = 3;
    for (size_t i = 0; i < N_FRAMES * N_MELS; i++) {
        features[i] = (float)(int32_t)(lk_test_random(&seed) >> 40) / 8388608.0f - 1.0f;
    }
    test_folder_make();
    lk_random_model_params params = LK_RANDOM_MODEL_PARAMS_INIT;
    params.shape = "omni-tiny-mmproj";
    params.format = format;
    params.n_threads = 1;
    REQUIRE_OK(lk_random_model_write(test_folder_path(files[0]), &params, &err), err);
    lk_projector *p = NULL;
    REQUIRE_OK(lk_projector_open(test_folder_path(files[0]), NULL, &p, &err), err);
    return p;
}

static void end(lk_projector *p) {
    lk_projector_close(p);
    test_folder_remove(files);
}

static lk_status make(lk_projector *p, uint32_t device, const lk_allocator *allocator,
                      lk_encoder **out, lk_error *err) {
    lk_encoder_params params = LK_ENCODER_PARAMS_INIT;
    params.allocator = allocator;
    params.n_threads = 1;
    params.device = device;
    params.max_windows = 1;
    return lk_encoder_create(p, &params, out, err);
}

static lk_status encode(lk_encoder *e, uint32_t n_frames, float *out, lk_error *err) {
    return lk_encoder_encode(e, features, n_frames, out, n_frames == 7 ? 2 * WIDTH : N_VALUES, NULL,
                             err);
}

static uint64_t n_calls(void) {
    emulated_counts counts;
    driver.counts(&counts);
    return counts.n_calls;
}

static uint64_t n_live(void) {
    emulated_counts counts;
    driver.counts(&counts);
    return counts.n_live;
}

static void check_reason(lk_status status, const lk_error *err) {
    CHECK_MSG(status == LK_E_DEVICE || status == LK_E_NOMEM || status == LK_E_NOT_FOUND, "%s: %s",
              lk_status_name(status), err->message);
    CHECK_MSG(strstr(err->message, "device") != NULL, "no reason: \"%s\"", err->message);
}

/* The n-th call of the driver fails while the encoder is made: with an error, for lack of memory,
 * and with all later calls. */
LK_TEST(creation) {
    lk_projector *p = begin("F16");
    static const int errors[] = {DRIVER_ERROR, 2, -DRIVER_ERROR};
    const uint64_t step = lk_test_size(5, 1, 1);
    lk_error err;
    lk_encoder *e = NULL;
    const uint64_t before = n_calls();
    REQUIRE_OK(make(p, 1, NULL, &e, &err), err);
    const uint64_t n_all = n_calls() - before;
    lk_encoder_destroy(e);
    CHECK_MSG(n_all > 30, "only %llu calls", (unsigned long long)n_all);
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        for (uint64_t n = 1; n <= n_all; n += step) {
            driver.fail(NULL, n, errors[i]);
            const lk_status status = make(p, 1, NULL, &e, &err);
            driver.fail(NULL, 0, 0);
            CHECK_MSG(status != LK_OK, "call %llu failed, and nobody said so",
                      (unsigned long long)n);
            check_reason(status, &err);
            CHECK(e == NULL && n_live() == 0);
            lk_encoder_destroy(e);
        }
    }
    end(p);
}

LK_TEST(host_memory) {
    lk_projector *p = begin("Q8_0");
    lk_status status = LK_E_NOMEM;
    for (uint64_t n = 1; status != LK_OK && n < 1000; n++) {
        lk_test_allocator a;
        lk_error err;
        lk_encoder *e = NULL;
        lk_test_allocator_init(&a);
        a.fail_at = n;
        status = make(p, 1, &a.base, &e, &err);
        CHECK(status == LK_E_NOMEM || (status == LK_OK && a.n_failed == 0));
        lk_encoder_destroy(e);
        CHECK(a.n_live == 0 && a.live_bytes == 0 && n_live() == 0);
    }
    end(p);
}

/* The n-th call fails during a step: the call fails, the next one gives the bits. */
LK_TEST(steps) {
    static const char *const formats[] = {"F16", "Q8_0"};
    for (size_t i = 0; i < 2; i++) {
        lk_projector *p = begin(formats[i]);
        float out[2 * WIDTH];
        float again[2 * WIDTH];
        lk_error err;
        lk_encoder *e = NULL;
        REQUIRE_OK(make(p, 1, NULL, &e, &err), err);
        REQUIRE_OK(encode(e, 7, out, &err), err);
        const uint64_t before = n_calls();
        REQUIRE_OK(encode(e, 7, again, &err), err);
        const uint64_t n_all = n_calls() - before;
        CHECK_MSG(n_all > 30, "only %llu calls", (unsigned long long)n_all);
        for (uint64_t n = 1; n <= n_all; n += lk_test_size(9, 3, 1)) {
            driver.fail(NULL, n, DRIVER_ERROR);
            const lk_status status = encode(e, 7, again, &err);
            driver.fail(NULL, 0, 0);
            CHECK_MSG(status == LK_E_DEVICE, "call %llu failed: %s", (unsigned long long)n,
                      lk_status_name(status));
            check_reason(status, &err);
            if (n % 10 == 1) { /* the encoder is unharmed */
                memset(again, 0, sizeof again);
                REQUIRE_OK(encode(e, 7, again, &err), err);
                CHECK(memcmp(out, again, sizeof out) == 0);
            }
        }
        /* A device that is lost for good: nothing hangs, and all is given back. */
        driver.fail("cuLaunchKernel", 5, -DRIVER_ERROR);
        CHECK_STATUS(LK_E_DEVICE, encode(e, 7, again, &err));
        CHECK_STATUS(LK_E_DEVICE, encode(e, 7, again, &err));
        CHECK(strstr(err.message, "launching lk_cuda_") != NULL);
        lk_encoder_destroy(e);
        driver.fail(NULL, 0, 0);
        CHECK(n_live() == 0);
        end(p);
    }
}

/* Devices that are none: a driver without any, one that is too old. */
LK_TEST(no_device) {
    lk_projector *p = begin("F32");
    lk_error err;
    lk_encoder *e = NULL;
    uint32_t n = 7;
    (void)setenv("LK_EMULATED_DEVICES", "0", 1);
    CHECK_STATUS(LK_E_NOT_FOUND, lk_device_count(&n, &err));
    CHECK(n == 0 && strstr(err.message, "finds no device") != NULL);
    CHECK_STATUS(LK_E_NOT_FOUND, make(p, 1, NULL, &e, &err));
    (void)setenv("LK_EMULATED_DEVICES", "2", 1);
    CHECK_STATUS(LK_OK, lk_device_count(&n, &err));
    CHECK(n == 2);
    CHECK_STATUS(LK_E_UNSUPPORTED, make(p, 2, NULL, &e, &err));
    CHECK_MSG(strstr(err.message, "compute capability 6.1") != NULL, "%s", err.message);
    CHECK_STATUS(LK_E_NOT_FOUND, make(p, 3, NULL, &e, &err));
    (void)unsetenv("LK_EMULATED_DEVICES");
    driver.fail("cuInit", 1, 999);
    CHECK_STATUS(LK_E_DEVICE, lk_device_count(&n, &err));
    CHECK_MSG(n == 0 && strstr(err.message, "error 999") != NULL, "%s", err.message);
    CHECK(e == NULL && n_live() == 0);
    end(p);
}

/* Two encoders of one projector on two threads, and one on the processor. */
static void *encode_often(void *arg) {
    lk_encoder *e = arg;
    static _Thread_local float out[N_VALUES];
    lk_error err;
    for (uint64_t i = 0; i < lk_test_size(1, 2, 10); i++) {
        REQUIRE_OK(encode(e, N_FRAMES, out, &err), err);
        CHECK(memcmp(out, expected, sizeof out) == 0);
    }
    return NULL;
}

LK_TEST(threads) {
    lk_projector *p = begin("Q8_0");
    lk_encoder *encoders[3] = {NULL, NULL, NULL};
    pthread_t threads[3];
    lk_error err;
    for (size_t i = 0; i < 3; i++) {
        REQUIRE_OK(make(p, i == 2 ? LK_DEVICE_CPU : 1, NULL, &encoders[i], &err), err);
    }
    REQUIRE_OK(encode(encoders[2], N_FRAMES, expected, &err), err);
    for (size_t i = 0; i < 3; i++) {
        CHECK(pthread_create(&threads[i], NULL, encode_often, encoders[i]) == 0);
    }
    for (size_t i = 0; i < 3; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        lk_encoder_destroy(encoders[i]);
    }
    CHECK(n_live() == 0);
    end(p);
}

/* ---- a text model ---- */

enum { N_TOKENS = 5, N_VOCAB = 128 };

static lk_status decode(lk_context *context, float *logits, lk_error *err) {
    static const int32_t ids[N_TOKENS] = {3, 14, 15, 9, 26};
    lk_row rows[N_TOKENS];
    const float *values = NULL;
    for (int32_t i = 0; i < N_TOKENS; i++) {
        rows[i] = (lk_row){ids[i], 0, i, i + 1 == N_TOKENS ? LK_ROW_LOGITS : 0, 0};
    }
    lk_status status = lk_context_decode(context, rows, N_TOKENS, NULL, err);
    if (status == LK_OK) {
        status = lk_context_logits(context, N_TOKENS - 1, &values, err);
    }
    if (status == LK_OK) {
        memcpy(logits, values, N_VOCAB * sizeof logits[0]);
    }
    return status;
}

/* Each failing call of the driver: a context that cannot be made leaves nothing, a decode commits
 * nothing, and the next one gives the processor's logits. */
LK_TEST(text) {
    lk_projector *p = begin("F32"); /* for the driver */
    end(p);
    lk_error err;
    lk_model *model = NULL;
    lk_model_params model_params = LK_MODEL_PARAMS_INIT;
    model_params.n_threads = 1;
    REQUIRE_OK(lk_model_open(lk_test_data("archs/qwen3moe.gguf"), &model_params, &model, &err),
               err);
    lk_model_info info = LK_MODEL_INFO_INIT;
    REQUIRE_OK(lk_model_get_info(model, &info, &err), err);
    CHECK(info.n_vocab == N_VOCAB);
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_threads = 1;
    params.kv_positions = 64;
    params.max_rows = params.max_logits = N_TOKENS;
    float wanted[N_VOCAB];
    float logits[N_VOCAB];
    lk_context *context = NULL;
    REQUIRE_OK(lk_context_create(model, &params, &context, &err), err);
    REQUIRE_OK(decode(context, wanted, &err), err);
    lk_context_destroy(context);
    params.device = 1;
    const uint64_t before = n_calls();
    REQUIRE_OK(lk_context_create(model, &params, &context, &err), err);
    const uint64_t n_making = n_calls() - before;
    REQUIRE_OK(decode(context, logits, &err), err);
    const uint64_t n_decoding = n_calls() - before - n_making;
    CHECK(memcmp(wanted, logits, sizeof wanted) == 0 && n_making > 30 && n_decoding > 30);
    lk_context_destroy(context);
    for (uint64_t n = 1; n <= n_making; n += lk_test_size(9, 3, 1)) {
        driver.fail(NULL, n, n % 2 == 0 ? 2 : DRIVER_ERROR);
        const lk_status status = lk_context_create(model, &params, &context, &err);
        driver.fail(NULL, 0, 0);
        CHECK(status == LK_E_DEVICE || status == LK_E_NOMEM);
        CHECK(context == NULL && n_live() == 0);
    }
    REQUIRE_OK(lk_context_create(model, &params, &context, &err), err);
    for (uint64_t n = 1; n <= n_decoding; n += lk_test_size(29, 7, 1)) {
        driver.fail(NULL, n, DRIVER_ERROR);
        CHECK_STATUS(LK_E_DEVICE, decode(context, logits, &err));
        driver.fail(NULL, 0, 0);
        int64_t length = -1;
        REQUIRE_OK(lk_sequence_length(context, 0, &length, &err), err);
        CHECK(length == 0);
    }
    REQUIRE_OK(decode(context, logits, &err), err);
    CHECK(memcmp(wanted, logits, sizeof wanted) == 0);
    lk_context_destroy(context);
    CHECK(n_live() == 0);
    lk_model_close(model);
}

LK_TEST_MAIN(LK_RUN(creation), LK_RUN(host_memory), LK_RUN(steps), LK_RUN(no_device),
             LK_RUN(threads), LK_RUN(text))
