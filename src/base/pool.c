/* pool.c - see pool.h. Workers spin for a short time, then sleep on a condition variable.
 * Invariant: when lk_pool_run returns, no worker touches fn, arg or the task counter of that run.
 */
#include "base/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fpenv.h"

enum { SPINS = 4000 };

typedef struct worker {
    lk_pool *pool;
    pthread_t thread;
    uint32_t i_thread;
} worker;

struct lk_pool {
    const lk_allocator *allocator;
    worker *workers; /* [n_threads - 1] */
    uint32_t n_threads;
    uint32_t n_started;
    pthread_mutex_t lock;
    pthread_cond_t wake; /* a new run, or the end */
    pthread_cond_t done; /* all workers left the run */
    lk_pool_fn fn;
    void *arg;
    uint32_t n_tasks;
    atomic_uint next_task;
    atomic_uint generation; /* number of runs begun */
    atomic_uint n_inside;   /* workers that have not left the current run */
    atomic_bool stop;
    bool caller_sleeps; /* guarded by lock */
};

static inline void spin_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void work(lk_pool *pool, uint32_t i_thread) {
    for (;;) {
        const uint32_t i_task =
            atomic_fetch_add_explicit(&pool->next_task, 1u, memory_order_relaxed);
        if (i_task >= pool->n_tasks) {
            return;
        }
        pool->fn(pool->arg, i_task, i_thread);
    }
}

static void wait_for_run(lk_pool *pool, uint32_t seen) {
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&pool->generation, memory_order_acquire) != seen ||
            atomic_load_explicit(&pool->stop, memory_order_relaxed)) {
            return;
        }
        spin_pause();
    }
    (void)pthread_mutex_lock(&pool->lock);
    while (atomic_load_explicit(&pool->generation, memory_order_acquire) == seen &&
           !atomic_load_explicit(&pool->stop, memory_order_relaxed)) {
        (void)pthread_cond_wait(&pool->wake, &pool->lock);
    }
    (void)pthread_mutex_unlock(&pool->lock);
}

static void *worker_main(void *arg) {
    const worker *self = arg;
    lk_pool *pool = self->pool;
    (void)lk_fpenv_enter();
    uint32_t seen = 0;
    for (;;) {
        wait_for_run(pool, seen);
        if (atomic_load_explicit(&pool->stop, memory_order_acquire)) {
            return NULL;
        }
        seen++;
        work(pool, self->i_thread);
        if (atomic_fetch_sub_explicit(&pool->n_inside, 1u, memory_order_acq_rel) == 1u) {
            (void)pthread_mutex_lock(&pool->lock);
            if (pool->caller_sleeps) {
                (void)pthread_cond_signal(&pool->done);
            }
            (void)pthread_mutex_unlock(&pool->lock);
        }
    }
}

lk_status lk_pool_create(const lk_allocator *a, uint32_t n_threads, lk_pool **out, lk_error *err) {
    *out = NULL;
    a = lk_allocator_or_default(a);
    if (n_threads == 0) {
        const long n = sysconf(_SC_NPROCESSORS_ONLN);
        n_threads = n < 1 ? 1u : n > LK_POOL_MAX_THREADS ? LK_POOL_MAX_THREADS : (uint32_t)n;
    }
    if (n_threads > LK_POOL_MAX_THREADS) {
        return lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT("n_threads"),
                       "%u threads asked for, the limit is %d", n_threads, LK_POOL_MAX_THREADS);
    }
    lk_pool *pool = lk_alloc_zero(a, sizeof *pool);
    if (pool == NULL) {
        return lk_fail_nomem(err, "the thread pool", sizeof *pool);
    }
    pool->allocator = a;
    pool->n_threads = n_threads;
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->wake, NULL);
    (void)pthread_cond_init(&pool->done, NULL);
    pool->workers = lk_alloc_array_zero(a, n_threads, sizeof *pool->workers);
    if (pool->workers == NULL) {
        lk_pool_destroy(pool);
        return lk_fail_nomem(err, "the thread pool", n_threads * sizeof *pool->workers);
    }
    for (uint32_t i = 0; i + 1 < n_threads; i++) {
        worker *w = &pool->workers[i];
        w->pool = pool;
        w->i_thread = i + 1;
        if (pthread_create(&w->thread, NULL, worker_main, w) != 0) {
            lk_pool_destroy(pool);
            return lk_fail(err, LK_E_NOMEM, LK_AT_SUBJECT("n_threads"),
                           "cannot start thread %u of %u", i + 2, n_threads);
        }
        pool->n_started++;
    }
    *out = pool;
    return LK_OK;
}

void lk_pool_destroy(lk_pool *pool) {
    if (pool == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&pool->lock);
    atomic_store_explicit(&pool->stop, true, memory_order_release);
    (void)pthread_cond_broadcast(&pool->wake);
    (void)pthread_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < pool->n_started; i++) {
        (void)pthread_join(pool->workers[i].thread, NULL);
    }
    (void)pthread_cond_destroy(&pool->done);
    (void)pthread_cond_destroy(&pool->wake);
    (void)pthread_mutex_destroy(&pool->lock);
    const lk_allocator *a = pool->allocator;
    lk_free_array(a, pool->workers, pool->n_threads, sizeof *pool->workers);
    lk_free(a, pool, sizeof *pool);
}

uint32_t lk_pool_n_threads(const lk_pool *pool) {
    return pool->n_threads;
}

void lk_pool_run(lk_pool *pool, lk_pool_fn fn, void *arg, uint32_t n_tasks) {
    if (pool->n_threads == 1 || n_tasks <= 1) {
        for (uint32_t i = 0; i < n_tasks; i++) {
            fn(arg, i, 0);
        }
        return;
    }
    pool->fn = fn;
    pool->arg = arg;
    pool->n_tasks = n_tasks;
    atomic_store_explicit(&pool->next_task, 0u, memory_order_relaxed);
    atomic_store_explicit(&pool->n_inside, pool->n_threads - 1, memory_order_relaxed);
    (void)pthread_mutex_lock(&pool->lock);
    atomic_fetch_add_explicit(&pool->generation, 1u, memory_order_release);
    (void)pthread_cond_broadcast(&pool->wake);
    (void)pthread_mutex_unlock(&pool->lock);
    work(pool, 0);
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&pool->n_inside, memory_order_acquire) == 0) {
            return;
        }
        spin_pause();
    }
    (void)pthread_mutex_lock(&pool->lock);
    pool->caller_sleeps = true;
    while (atomic_load_explicit(&pool->n_inside, memory_order_acquire) != 0) {
        (void)pthread_cond_wait(&pool->done, &pool->lock);
    }
    pool->caller_sleeps = false;
    (void)pthread_mutex_unlock(&pool->lock);
}
