/* test_base.c - unit tests of src/base: 16-bit floats, checked sizes, SHA-256, Philox, pool, fp
 * mode. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/fpenv.h"
#include "base/philox.h"
#include "base/pool.h"
#include "base/sha256.h"
#include "lk_test.h"

#include <stdatomic.h>
#include <time.h>

LK_TEST(status_names) {
    CHECK(strcmp(lk_status_name(LK_E_BUSY), "LK_E_BUSY") == 0);
    CHECK(strcmp(lk_status_name((lk_status)999), "LK_E_?") == 0);
    lk_error err;
    CHECK(lk_fail(&err, LK_E_FORMAT, LK_AT_OFFSET(7, "key"), "found %d", 3) == LK_E_FORMAT);
    CHECK(err.offset == 7 && strcmp(err.subject, "key") == 0 &&
          strcmp(err.message, "found 3") == 0);
}

/* Texts of damaged files must not reach a terminal as they are. */
LK_TEST(messages_are_printable) {
    static const char *const cases[][2] = {
        {"key \x1b[2J\n\r\t\x7f.", "key ?[2J????."},
        {"\xff\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "?\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xc2\x9b\x33 \xc0\x80 \xed\xa0\x80.", "??3 ?? ???."}, /* C1, overlong, surrogate */
        {"\xf4\x90\x80\x80 \x80", "???? ?"},
        {"cut \xe2\x82", "cut "},
    };
    lk_error err;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)lk_fail(&err, LK_E_FORMAT, LK_AT_SUBJECT(cases[i][0]), "%s", cases[i][0]);
        CHECK_MSG(strcmp(err.message, cases[i][1]) == 0, "case %zu: \"%s\"", i, err.message);
        CHECK(strcmp(err.subject, cases[i][1]) == 0);
    }
    char text[601];
    for (size_t i = 0; i < 600; i += 2) {
        memcpy(text + i, "\xc3\xa4", 2);
    }
    text[600] = '\0';
    (void)lk_fail(&err, LK_E_FORMAT, LK_NOWHERE, "%s", text);
    CHECK(strlen(err.message) == sizeof err.message - 2 && memcmp(err.message, text, 382) == 0);
}

LK_TEST(half_round_trip) {
    for (uint32_t h = 0; h < 0x10000u; h++) {
        const float x = lk_f16_to_f32((uint16_t)h);
        if ((h & 0x7fffu) > 0x7c00u) {
            CHECK((lk_f32_to_f16(x) & 0x7fffu) > 0x7c00u);
        } else {
            CHECK(lk_f32_to_f16(x) == h);
        }
    }
    CHECK(lk_f32_to_f16(65519.996f) == 0x7bffu);
    CHECK(lk_f32_to_f16(65520.0f) == 0x7c00u);
    CHECK(lk_f32_to_bf16(1.00390625f) == 0x3f80u); /* tie to even */
}

LK_TEST(sha256_vectors) {
    uint8_t d[32];
    lk_sha256_of("abc", 3, d);
    static const uint8_t abc[4] = {0xba, 0x78, 0x16, 0xbf};
    CHECK(memcmp(d, abc, 4) == 0);
    lk_sha256 s;
    lk_sha256_init(&s);
    for (int i = 0; i < 1000000; i++) {
        lk_sha256_update(&s, "a", 1);
    }
    lk_sha256_final(&s, d);
    static const uint8_t million[8] = {0xcd, 0xc7, 0x6e, 0x5c, 0x99, 0x14, 0xfb, 0x92};
    CHECK(memcmp(d, million, 8) == 0);
}

/* Known answers published with the Random123 library. */
LK_TEST(philox_vectors) {
    const uint32_t zero[4] = {0, 0, 0, 0};
    uint32_t out[4];
    lk_philox4x32(0, zero, out);
    CHECK(out[0] == 0x6627e8d5u && out[1] == 0xe169c58du && out[2] == 0xbc57ac4cu &&
          out[3] == 0x9b00dbd8u);
    const uint32_t ones[4] = {~0u, ~0u, ~0u, ~0u};
    lk_philox4x32(~0ull, ones, out);
    CHECK(out[0] == 0x408f276du && out[1] == 0x41c83b0eu && out[2] == 0xa20bc7c6u &&
          out[3] == 0x6d5451fdu);
}

static void add_task(void *arg, uint32_t i_task, uint32_t i_thread) {
    (void)i_thread;
    ((uint32_t *)arg)[i_task] += i_task + 1;
}

LK_TEST(pool_runs_every_task_once) {
    for (uint32_t n_threads = 1; n_threads <= 8; n_threads++) {
        lk_pool *pool = NULL;
        lk_error err;
        REQUIRE_OK(lk_pool_create(NULL, n_threads, &pool, &err), err);
        uint32_t sums[97] = {0};
        for (int run = 0; run < 200; run++) {
            lk_pool_run(pool, add_task, sums, 97);
        }
        for (uint32_t i = 0; i < 97; i++) {
            CHECK(sums[i] == 200 * (i + 1));
        }
        lk_pool_destroy(pool);
    }
    lk_pool *pool = NULL;
    CHECK_STATUS(LK_E_LIMIT, lk_pool_create(NULL, 100000, &pool, NULL));
    CHECK(pool == NULL);
}

typedef struct late_job {
    uint32_t sums[16];
    bool is_slow; /* every thread but the caller takes 1 ms for a task */
} late_job;

static void late_task(void *arg, uint32_t i_task, uint32_t i_thread) {
    late_job *job = arg;
    job->sums[i_task] += i_task + 1;
    if (job->is_slow && i_thread != 0) {
        const struct timespec pause = {.tv_nsec = 1000000};
        (void)nanosleep(&pause, NULL);
    }
}

/* Tasks that take pieces of one heap, and threads that do something else while they wait. */
typedef struct heap_job {
    atomic_uint next;
    atomic_uint n_idle;
    uint32_t sums[64];
} heap_job;

static void heap_task(void *arg, uint32_t i_task, uint32_t i_thread) {
    (void)i_task;
    (void)i_thread;
    heap_job *job = arg;
    for (uint32_t i = atomic_fetch_add(&job->next, 1u); i < 64;
         i = atomic_fetch_add(&job->next, 1u)) {
        job->sums[i] += i + 1;
    }
}

static bool idle_task(void *arg, uint32_t i_thread) {
    heap_job *job = arg;
    return i_thread < 8 && atomic_fetch_add(&job->n_idle, 1u) % 3 != 0;
}

LK_TEST(pool_runs_spans_and_idles) {
    for (uint32_t n_threads = 1; n_threads <= 4; n_threads++) {
        lk_pool *pool = NULL;
        lk_error err;
        REQUIRE_OK(lk_pool_create(NULL, n_threads, &pool, &err), err);
        heap_job job = {.sums = {0}};
        lk_pool_set_idle(pool, idle_task, &job);
        for (int run = 0; run < 200; run++) {
            atomic_store(&job.next, 0u);
            lk_pool_run_spans(pool, heap_task, &job, n_threads, 64 / n_threads);
        }
        for (uint32_t i = 0; i < 64; i++) {
            CHECK(job.sums[i] == 200 * (i + 1));
        }
        lk_pool_destroy(pool);
    }
}

/* Workers that keep the caller waiting, stand back, come back, sleep between runs, and are told to
 * end meanwhile. */
LK_TEST(pool_waits_for_late_workers) {
    const int n_runs = (int)lk_test_size(40, 100, 1000);
    for (uint32_t n_threads = 2; n_threads <= 5; n_threads++) {
        lk_pool *pool = NULL;
        lk_error err;
        REQUIRE_OK(lk_pool_create(NULL, n_threads, &pool, &err), err);
        late_job job = {.is_slow = false};
        for (int run = 0; run < n_runs; run++) {
            job.is_slow = run % 8 == 0;
            if (run % 10 == 9) {
                const struct timespec pause = {.tv_nsec = 200000};
                (void)nanosleep(&pause, NULL);
            }
            lk_pool_run(pool, late_task, &job, 16);
        }
        for (uint32_t i = 0; i < 16; i++) {
            CHECK(job.sums[i] == (uint32_t)n_runs * (i + 1));
        }
        lk_pool_destroy(pool);
    }
}

LK_TEST(checked_sizes) {
    size_t out = 5;
    CHECK(!lk_mul_size(SIZE_MAX, 2, &out) && out == 5);
    CHECK(lk_mul_size(3, 4, &out) && out == 12);
    CHECK(!lk_add_size(SIZE_MAX, 1, &out));
    CHECK(lk_alloc_array(&lk_allocator_default, SIZE_MAX / 2, 4) == NULL);
}

LK_TEST(fp_mode_is_restored) {
    const lk_fpenv outer = lk_fpenv_enter();
    volatile float tiny = 1e-40f;
    CHECK(tiny * 0.5f != 0.0f);
    lk_fpenv_leave(outer);
}

LK_TEST_MAIN(LK_RUN(status_names), LK_RUN(messages_are_printable), LK_RUN(half_round_trip),
             LK_RUN(sha256_vectors), LK_RUN(philox_vectors), LK_RUN(pool_runs_every_task_once),
             LK_RUN(pool_runs_spans_and_idles), LK_RUN(pool_waits_for_late_workers),
             LK_RUN(checked_sizes), LK_RUN(fp_mode_is_restored))
