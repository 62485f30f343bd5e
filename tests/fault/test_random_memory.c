/* test_random_memory.c - lk_random_model_write while the n-th allocation fails, for all n: a clean
 * status, nothing leaks, no file is left; and lk_machine_measure likewise.
 * labels: threads */
#include <stdbool.h>

#include "lk/lk.h"
#include "lk_test.h"
#include "test_folder.h"

LK_TEST(writing) {
    test_folder_make();
    const char *path = test_folder_path("random.gguf");
    uint64_t n = 1;
    for (bool is_done = false; !is_done; n++) {
        lk_test_allocator t;
        lk_error err = {0};
        lk_test_allocator_init(&t);
        t.fail_at = n;
        lk_random_model_params params = LK_RANDOM_MODEL_PARAMS_INIT;
        params.shape = "llama3-tiny";
        params.format = "Q4_0";
        params.n_layers = 1;
        params.n_threads = 2;
        params.allocator = &t.base;
        const lk_status status = lk_random_model_write(path, &params, &err);
        is_done = t.n_failed == 0;
        CHECK_STATUS(is_done ? LK_OK : LK_E_NOMEM, status);
        CHECK(t.n_live == 0 && t.live_bytes == 0);
        CHECK(test_folder_count() == (is_done ? 1 : 0));
    }
    CHECK(n > 10);
    test_folder_remove((const char *const[]){"random.gguf", NULL});
}

LK_TEST(measuring) {
    for (uint64_t n = 1; n <= 2; n++) { /* the pool, its workers; the memory comes later */
        lk_test_allocator t;
        lk_error err = {0};
        lk_test_allocator_init(&t);
        t.fail_at = n;
        lk_machine_speed speed = LK_MACHINE_SPEED_INIT;
        CHECK_STATUS(LK_E_NOMEM, lk_machine_measure(2, LK_CPU_ALL, &t.base, &speed, &err));
        CHECK(t.n_live == 0 && t.live_bytes == 0 && speed.n_threads == 0);
    }
    lk_machine_speed old = {.struct_size = sizeof old - 1};
    CHECK_STATUS(LK_E_ARG, lk_machine_measure(1, LK_CPU_ALL, NULL, &old, NULL));
    CHECK_STATUS(LK_E_ARG, lk_machine_measure(1, LK_CPU_ALL, NULL, NULL, NULL));
}

LK_TEST_MAIN(LK_RUN(writing), LK_RUN(measuring))
