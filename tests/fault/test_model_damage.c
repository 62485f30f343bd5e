/* test_model_damage.c - a model file with flipped bits in its directory, or cut short: opening it
 * ends in a status in bounded time, and a model that opens all the same can be computed with, since
 * every size that it holds was checked. */
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#include "lk/context.h"
#include "lk_test.h"

static char file[64];

static int write_copy(const uint8_t *data, size_t size) {
    (void)snprintf(file, sizeof file, "model_damage_test_%ld.gguf", (long)getpid());
    const int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
        perror(file);
        exit(1);
    }
    return fd;
}

/* Three rows; a status that says that the model or the context is refused is as good. */
static void compute(lk_model *model) {
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_threads = 1;
    params.max_rows = 4;
    params.max_logits = 4;
    params.kv_positions = 64;
    lk_context *context = NULL;
    lk_error err = {0};
    if (lk_context_create(model, &params, &context, &err) == LK_OK) {
        lk_row rows[3] = {{.token = 1, .flags = LK_ROW_LOGITS},
                          {.token = 2, .pos = 1},
                          {.token = 0, .pos = 2, .flags = LK_ROW_LOGITS}};
        const lk_status status = lk_context_decode(context, rows, 3, NULL, &err);
        CHECK_MSG(status == LK_OK || status == LK_E_ROWS || status == LK_E_ARG, "decode: %s (%s)",
                  lk_status_name(status), err.message);
    }
    lk_context_destroy(context);
}

/* Opens the file as it is now; true when it opened. */
static bool try_open(const char *what, size_t at) {
    lk_model *model = NULL;
    lk_error err = {0};
    const lk_status status = lk_model_open(file, NULL, &model, &err);
    CHECK_MSG((status == LK_OK) == (model != NULL), "%s %zu", what, at);
    CHECK_MSG(status == LK_OK || err.message[0] != '\0', "%s %zu: no message", what, at);
    CHECK_MSG(status == LK_OK || status == LK_E_FORMAT || status == LK_E_UNSUPPORTED ||
                  status == LK_E_LIMIT,
              "%s %zu: %s (%s)", what, at, lk_status_name(status), err.message);
    if (model != NULL) {
        compute(model);
        lk_model_close(model);
    }
    return status == LK_OK;
}

static size_t directory_bytes(const char *path) {
    lk_gguf *gguf = NULL;
    lk_gguf_tensor tensor;
    lk_error err;
    REQUIRE_OK(lk_gguf_open(path, NULL, &gguf, &err), err);
    REQUIRE_OK(lk_gguf_tensor_at(gguf, 0, &tensor, &err), err);
    lk_gguf_close(gguf);
    return (size_t)tensor.offset;
}

static void flip_bits(const char *name, size_t step, uint64_t *seed) {
    const char *path = lk_test_data(name);
    size_t size = 0;
    uint8_t *data = lk_test_read(path, &size);
    const size_t n = directory_bytes(path);
    const int fd = write_copy(data, size);
    size_t n_open = 0;
    for (size_t at = lk_test_random(seed) % step; at < n; at += step) {
        const uint8_t flipped = data[at] ^ (uint8_t)(1u << (lk_test_random(seed) % 8));
        CHECK(pwrite(fd, &flipped, 1, (off_t)at) == 1);
        n_open += try_open("byte", at) ? 1u : 0u;
        CHECK(pwrite(fd, &data[at], 1, (off_t)at) == 1);
    }
    CHECK(try_open("whole", 0));
    (void)printf("  %s: %zu bytes of directory, %zu of %zu opened all the same\n", name, n, n_open,
                 n / step);
    CHECK_MSG(n_open < n / step, "every flipped bit was accepted");
    (void)close(fd);
    free(data);
}

LK_TEST(flipped_bits) {
    uint64_t seed = lk_test_seed(11);
    const size_t step = (size_t)lk_test_size(7, 1, 1);
    flip_bits("archs/llama-yarn.gguf", step, &seed);
    flip_bits("archs/qwen3moe.gguf", step, &seed);
    (void)unlink(file);
}

LK_TEST(truncated) {
    const char *path = lk_test_data("archs/qwen2.gguf");
    size_t size = 0;
    uint8_t *data = lk_test_read(path, &size);
    const int fd = write_copy(data, size);
    const size_t n = directory_bytes(path);
    const size_t step = (size_t)lk_test_size(13, 3, 1);
    for (size_t left = size - 1; left > n; left -= (size - n) / 50) { /* shrinking */
        CHECK(ftruncate(fd, (off_t)left) == 0 && !try_open("cut at", left));
        if (left < (size - n) / 50) {
            break;
        }
    }
    for (size_t left = n; left > step; left -= step) {
        CHECK(ftruncate(fd, (off_t)left) == 0 && !try_open("cut at", left));
    }
    (void)close(fd);
    (void)unlink(file);
    free(data);
}

LK_TEST_MAIN(LK_RUN(flipped_bits), LK_RUN(truncated))
