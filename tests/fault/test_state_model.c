/* test_state_model.c - state files, failing allocations and two threads with a real model: a
 * restored sequence goes on bit for bit, the others keep their bits, a refused file changes
 * nothing. labels: threads */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "lk_test.h"
#include "real_context.h"

enum { N_VOCAB = 128 };

static const lk_kv_type kv_types[] = {LK_KV_F32, LK_KV_F16, LK_KV_Q8_0};

static const char *model_path(void) {
    return lk_test_data("archs/llama.gguf");
}

LK_TEST(restored_for_every_kv_pair) {
    lk_error err;
    lk_model *model = open_model(model_path());
    const char *path = scratch_path("pair.lkstate");
    for (size_t i = 0; i < 9; i++) {
        lk_context_params params = real_params();
        params.k_type = kv_types[i / 3];
        params.v_type = kv_types[i % 3];
        lk_context *a = make_real(model, &params);
        params.page_seed = 5;
        lk_context *b = make_real(model, &params);
        uint8_t wanted[2][16];
        uint8_t found[16];
        extend_real(a, 2, 1, 90);
        REQUIRE_OK(lk_sequence_save(a, 2, path, &err), err);
        extend_real(a, 2, 1, 30);
        digest_of_row(a, 29, N_VOCAB, wanted[0]);

        extend_real(b, 0, 4, 70);
        extend_real(b, 3, 5, 10);
        digest_of_next(b, 0, N_VOCAB, wanted[1]);
        REQUIRE_OK(lk_sequence_load(b, 3, path, &err), err);
        digest_of_next(b, 0, N_VOCAB, found);
        CHECK(memcmp(found, wanted[1], sizeof found) == 0);
        extend_real(b, 3, 1, 30);
        digest_of_row(b, 29, N_VOCAB, found);
        CHECK_MSG(memcmp(found, wanted[0], sizeof found) == 0, "KV pair %zu", i);
        lk_context_destroy(a);
        lk_context_destroy(b);
    }
    lk_model_close(model);
    (void)unlink(path);
}

/* Seeded single-bit changes and cuts all over a larger file. */
LK_TEST(damaged_samples) {
    lk_error err = {0};
    lk_model *model = open_model(model_path());
    lk_context_params params = real_params();
    params.k_type = LK_KV_Q8_0;
    lk_context *c = make_real(model, &params);
    const char *path = scratch_path("damaged.lkstate");
    uint8_t wanted[2][16];
    uint8_t found[16];
    size_t size = 0;
    extend_real(c, 0, 1, 150);
    REQUIRE_OK(lk_sequence_save(c, 0, path, &err), err);
    uint8_t *bytes = lk_test_read(path, &size);
    REQUIRE_OK(lk_sequence_truncate(c, 0, 20, &err), err);
    extend_real(c, 1, 2, 70);
    digest_of_next(c, 0, N_VOCAB, wanted[0]);
    digest_of_next(c, 1, N_VOCAB, wanted[1]);
    uint64_t rng = lk_test_seed(8);
    const uint64_t n = lk_test_size(40, 150, 3000);
    for (uint64_t i = 0; i < n; i++) {
        const size_t at = (size_t)(lk_test_random(&rng) % size);
        const uint8_t changed = (uint8_t)(bytes[at] ^ (1u << (lk_test_random(&rng) % 8)));
        const bool is_cut = i % 4 == 3;
        const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        CHECK(fd >= 0 && write(fd, bytes, is_cut ? at : size) == (ssize_t)(is_cut ? at : size));
        CHECK(is_cut || pwrite(fd, &changed, 1, (off_t)at) == 1);
        (void)close(fd);
        const lk_status status = lk_sequence_load(c, 0, path, &err);
        CHECK_MSG(status == LK_E_FORMAT, "byte %zu: %s", at, lk_status_name(status));
    }
    digest_of_next(c, 0, N_VOCAB, found);
    CHECK(memcmp(found, wanted[0], sizeof found) == 0);
    digest_of_next(c, 1, N_VOCAB, found);
    CHECK(memcmp(found, wanted[1], sizeof found) == 0);
    free(bytes);
    lk_context_destroy(c);
    lk_model_close(model);
    (void)unlink(path);
}

LK_TEST(foreign_model) {
    lk_error err = {0};
    lk_model *model = open_model(model_path());
    lk_model *other = open_model(lk_test_data("archs/llama-yarn.gguf")); /* the same shape */
    lk_context *a = make_real(model, NULL);
    lk_context *b = make_real(other, NULL);
    const char *path = scratch_path("foreign.lkstate");
    extend_real(a, 0, 1, 10);
    REQUIRE_OK(lk_sequence_save(a, 0, path, &err), err);
    CHECK_STATUS(LK_E_MISMATCH, lk_sequence_load(b, 0, path, &err));
    CHECK(strstr(err.message, "the model differs") != NULL);
    lk_context_destroy(a);
    lk_context_destroy(b);
    lk_model_close(model);
    lk_model_close(other);
    (void)unlink(path);
}

/* The n-th allocation fails while a context is created over a real backend; decoding allocates
 * nothing. */
LK_TEST(failing_allocations) {
    lk_error err;
    lk_model *model = open_model(model_path());
    uint64_t n = 1;
    for (bool is_done = false; !is_done; n++) {
        lk_test_allocator t;
        lk_context *c = NULL;
        lk_context_params params = real_params();
        lk_test_allocator_init(&t);
        t.fail_at = n;
        params.allocator = &t.base;
        params.n_threads = 2;
        const lk_status status = lk_context_create(model, &params, &c, &err);
        is_done = t.n_failed == 0;
        CHECK_STATUS(is_done ? LK_OK : LK_E_NOMEM, status);
        if (c != NULL) {
            const uint64_t before = t.n_calls;
            extend_real(c, 0, 1, 100);
            REQUIRE_OK(lk_sequence_fork(c, 0, 1, 90, &err), err);
            extend_real(c, 1, 2, 5);
            CHECK(t.n_calls == before);
        }
        lk_context_destroy(c);
        CHECK(t.n_live == 0 && t.live_bytes == 0);
    }
    (void)printf("%llu allocations\n", (unsigned long long)(n - 2));
    CHECK(n > 15);
    lk_model_close(model);
}

LK_TEST_MAIN(LK_RUN(restored_for_every_kv_pair), LK_RUN(damaged_samples), LK_RUN(foreign_model),
             LK_RUN(failing_allocations))
