/* test_cuda_encoder.c - the audio encoder on a device against the processor: every stage of every
 * projector, windows of all sizes, and what is not finite, by memcmp. Over the emulated driver,
 * with small random encoders; started by hand on a machine with a device, without ctest's
 * environment, the same over that one, and longer clips by the trained ones. */
#include <math.h>
#include <stdbool.h>

#include "cuda_emulated.h"
#include "lk/lk.h"
#include "lk_test.h"
#include "omni.h"
#include "test_folder.h"

enum { N_MELS = 128, WIDTH = 512, MAX_STAGES = 16, MAX_FRAMES = 1203 };

static float features[MAX_FRAMES * N_MELS];
static float vectors[2][(MAX_FRAMES / 4 + 1) * WIDTH];
static uint8_t digests[2][MAX_STAGES][16];

/* Whether a real device computes. */
static bool is_real(void) {
    emulated_driver e;
    return !emulated_open(&e);
}

static void need_device(void) {
    lk_error err;
    uint32_t n = 0;
    const lk_status status = lk_device_count(&n, &err);
    if (status != LK_OK) {
        lk_test_skip(err.message);
    }
    CHECK(n >= 1);
}

static lk_projector *open_path(const char *path) {
    lk_error err;
    lk_projector *projector = NULL;
    REQUIRE_OK(lk_projector_open(path, NULL, &projector, &err), err);
    return projector;
}

/* A small random encoder in the test's folder. */
static lk_projector *open_random(const char *format) {
    lk_error err;
    lk_random_model_params params = LK_RANDOM_MODEL_PARAMS_INIT;
    params.shape = "omni-tiny-mmproj";
    params.format = format;
    params.seed = 7;
    params.n_threads = 1;
    REQUIRE_OK(lk_random_model_write(test_folder_path("random.gguf"), &params, &err), err);
    return open_path(test_folder_path("random.gguf"));
}

static lk_encoder *make(lk_projector *projector, uint32_t device, int32_t max_windows) {
    lk_error err;
    lk_encoder *encoder = NULL;
    lk_encoder_params params = LK_ENCODER_PARAMS_INIT;
    params.n_threads = 1;
    params.device = device;
    params.max_windows = max_windows;
    REQUIRE_OK(lk_encoder_create(projector, &params, &encoder, &err), err);
    return encoder;
}

/* Between -1 and 1, as features are. */
static void draw_features(uint64_t seed, uint32_t n_frames) {
    for (uint32_t i = 0; i < n_frames * N_MELS; i++) {
        const uint64_t x = lk_test_random(&seed);
        features[i] = (float)(int32_t)(x >> 40) / 8388608.0f - 1.0f;
    }
}

static size_t n_values(const lk_projector *p, uint32_t n_frames) {
    lk_projector_info info = LK_PROJECTOR_INFO_INIT;
    (void)lk_projector_get_info(p, &info, NULL);
    CHECK(info.n_out <= WIDTH && info.n_mels == N_MELS);
    return (size_t)lk_projector_n_tokens(p, n_frames) * (size_t)info.n_out;
}

static lk_status encode(lk_encoder *encoder, const lk_projector *p, uint32_t n_frames, size_t to,
                        lk_error *err) {
    lk_encode_params params = LK_ENCODE_PARAMS_INIT;
    params.digests = digests[to];
    return lk_encoder_encode(encoder, features, n_frames, vectors[to], n_values(p, n_frames),
                             &params, err);
}

/* The first stage that differs is named. */
static void compare(const lk_projector *p, const char *name, uint32_t n_frames) {
    lk_projector_info info = LK_PROJECTOR_INFO_INIT;
    (void)lk_projector_get_info(p, &info, NULL);
    for (int32_t i = 0; i < info.n_stages; i++) {
        if (memcmp(digests[0][i], digests[1][i], 16) != 0) {
            char stage[24];
            (void)lk_projector_stage(p, i, stage, NULL);
            lk_test_fail(__FILE__, __LINE__, "%s, %u frames: %s differs", name, n_frames, stage);
            return;
        }
    }
    CHECK(memcmp(vectors[0], vectors[1], n_values(p, n_frames) * sizeof vectors[0][0]) == 0);
}

static void check_sizes(lk_projector *p, const char *name, const uint32_t *n_frames, size_t n_sizes,
                        int32_t max_windows) {
    lk_error err;
    lk_encoder *encoders[2] = {make(p, LK_DEVICE_CPU, 4), make(p, 1, max_windows)};
    for (size_t i = 0; i < n_sizes; i++) {
        draw_features(i + 1, n_frames[i]);
        for (size_t to = 0; to < 2; to++) {
            REQUIRE_OK(encode(encoders[to], p, n_frames[i], to, &err), err);
        }
        compare(p, name, n_frames[i]);
    }
    lk_encoder_destroy(encoders[1]);
    lk_encoder_destroy(encoders[0]);
}

static const uint32_t sizes[] = {3, 1, 22, 203, 130, 400, 199, 1203};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

LK_TEST(formats) {
    static const char *const formats[] = {"F32", "F16", "BF16", "Q8_0"};
    need_device();
    test_folder_make();
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        /* 203 frames, two windows, once. */
        const size_t n = is_real() ? N_SIZES : (size_t)lk_test_size(2, i == 1 ? 4 : 3, N_SIZES);
        lk_projector *p = open_random(formats[i]);
        check_sizes(p, formats[i], sizes, n, i % 2 == 0 ? 1 : LK_MAX_WINDOWS);
        lk_projector_close(p);
    }
    static const char *const files[] = {"random.gguf", NULL};
    test_folder_remove(files);
}

/* Trained weights: over the emulated driver too slow for more than a few frames. */
LK_TEST(trained) {
    static const char *const names[] = {"mmproj-tiny-omni-Q8_0.gguf", "mmproj-tiny-omni-F16.gguf"};
    need_device();
    const size_t n = is_real() ? N_SIZES : (size_t)lk_test_size(0, 1, 5);
    for (size_t i = 0; i < 2; i++) {
        const char *path = omni_file(names[i]);
        const size_t n_here = n == 1 ? 1 - i : n; /* in the bounded form the first one alone */
        if (path != NULL && n_here > 0) {
            lk_projector *p = open_path(path);
            check_sizes(p, names[i], sizes, n_here, i == 0 ? 2 : LK_MAX_WINDOWS);
            lk_projector_close(p);
        }
    }
}

/* A value that is not finite is the same frame, layer and operator everywhere. */
LK_TEST(nonfinite) {
    need_device();
    static const float values[] = {NAN, INFINITY, -INFINITY, 3e38f, 1e35f, 1e20f};
    static const char *const formats[] = {"F16", "Q8_0", "F32"};
    test_folder_make();
    const size_t n_values_tried = (size_t)lk_test_size(3, 6, 18);
    for (size_t i = 0; i < n_values_tried; i++) {
        enum { N_FRAMES = 7, I_BAD = 5 };
        lk_error errors[2];
        lk_projector *p = open_random(formats[(i + i / 6) % 3]);
        lk_encoder *encoders[2] = {make(p, LK_DEVICE_CPU, 1), make(p, 1, 1)};
        lk_status status[2];
        draw_features(7, N_FRAMES);
        features[I_BAD * N_MELS + 11] = values[i % 6];
        for (size_t to = 0; to < 2; to++) {
            status[to] = encode(encoders[to], p, N_FRAMES, to, &errors[to]);
        }
        CHECK(status[0] == status[1] && (status[0] == LK_E_NONFINITE || values[i % 6] < 1e30f));
        /* What a flagged row holds further on is open, and so is whom it reaches; that a frame came
         * in so is not. */
        if (!isfinite(values[i % 6])) {
            CHECK_MSG(strcmp(errors[0].message, errors[1].message) == 0, "\"%s\", expected \"%s\"",
                      errors[1].message, errors[0].message);
            CHECK(errors[0].pos == errors[1].pos);
        }
        /* It leaves nothing behind. */
        features[I_BAD * N_MELS + 11] = 0.5f;
        for (size_t to = 0; to < 2; to++) {
            REQUIRE_OK(encode(encoders[to], p, N_FRAMES, to, &errors[to]), errors[to]);
        }
        compare(p, "after a value that is not finite", N_FRAMES);
        lk_encoder_destroy(encoders[1]);
        lk_encoder_destroy(encoders[0]);
        lk_projector_close(p);
    }
    static const char *const files[] = {"random.gguf", NULL};
    test_folder_remove(files);
}

LK_TEST(refused) {
    need_device();
    lk_error err;
    lk_encoder *encoder = NULL;
    lk_projector *p = open_path(omni_file("mmproj-tiny-omni-Q8_0.gguf"));
    lk_encoder_params params = LK_ENCODER_PARAMS_INIT;
    params.device = 1;
    params.flags = LK_CONTEXT_F32_ACTIVATIONS;
    CHECK_STATUS(LK_E_UNSUPPORTED, lk_encoder_create(p, &params, &encoder, &err));
    CHECK(strstr(err.message, "float32-activation mode") != NULL && encoder == NULL);
    params.flags = 0;
    params.reserved = 1;
    CHECK_STATUS(LK_E_ARG, lk_encoder_create(p, &params, &encoder, &err));
    CHECK(strcmp(err.subject, "reserved") == 0);
    params.reserved = 0;
    params.device = 77;
    CHECK_STATUS(LK_E_NOT_FOUND, lk_encoder_create(p, &params, &encoder, &err));
    CHECK_MSG(strstr(err.message, "device 77") != NULL, "%s", err.message);
    lk_projector_close(p);
}

LK_TEST(devices) {
    need_device();
    lk_error err;
    uint32_t n = 0;
    lk_device_info info = LK_DEVICE_INFO_INIT;
    CHECK_STATUS(LK_E_ARG, lk_device_count(NULL, &err));
    REQUIRE_OK(lk_device_count(&n, &err), err);
    REQUIRE_OK(lk_device_get_info(1, &info, &err), err);
    CHECK(strcmp(info.backend, "cuda") == 0 && info.name[0] != '\0' && info.memory_bytes > 0);
    CHECK(strstr(info.kind, "compute capability") != NULL);
    CHECK_STATUS(LK_E_NOT_FOUND, lk_device_get_info(n + 1, &info, &err));
    CHECK_STATUS(LK_E_ARG, lk_device_get_info(0, &info, &err));
    CHECK_STATUS(LK_E_ARG, lk_device_get_info(1, NULL, &err));
    info.struct_size = 8;
    CHECK_STATUS(LK_E_ARG, lk_device_get_info(1, &info, &err));
}

LK_TEST_MAIN(LK_RUN(formats), LK_RUN(trained), LK_RUN(nonfinite), LK_RUN(refused), LK_RUN(devices))
