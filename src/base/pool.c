/* pool.c - see pool.h. The tasks of a run are handed out by one atomic word that holds both their
 * number and the next of them, so that a thread that comes late, or never, is not waited for: a run
 * ends when its tasks are done. Whoever finds nothing to do spins for a short time, then sleeps,
 * which leaves the processor to the thread that is still at work when another program holds the
 * rest.
 *
 * Invariant: fn and arg change only while no task is open, and a thread reads them only while it
 * holds a task.
 */
#if defined(__linux__)
#define _GNU_SOURCE /* sched_getcpu, sched_setaffinity */
#endif
#include "base/pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fpenv.h"

/* How long a thread spins before it sleeps. A worker waits for the next run of a step, the caller
 * for the tasks that others still hold; both are far shorter on a machine that is not shared. */
enum { WORKER_SPIN_NS = 50000, CALLER_SPIN_NS = 30000, PAUSES_PER_LOOK = 16 };

/* A worker that has kept the caller waiting for STALL_NS beyond what a task takes stands back for a
 * while, so that the caller goes on alone at the full speed of the processor that is left. One that
 * the system has put on the caller's processor asks for another one. If it was moved only just now,
 * it sleeps for a moment instead: it took nothing yet. Both pauses become longer while it happens
 * again. */
enum { STALL_NS = 200000, WELL_NS = 8000000 };
enum { FIRST_MOMENT_NS = 100000, LAST_MOMENT_NS = 4000000, MOVE_AGAIN_NS = 1000000 };
enum { FIRST_BREAK_NS = 4000000, LAST_BREAK_NS = 64000000 };

enum { TASKS_SHIFT = 32, CACHE_LINE = 64 };

typedef struct worker {
    lk_pool *pool;
    pthread_t thread;
    uint32_t i_thread;
    atomic_bool holds_task;
    atomic_bool is_late; /* set by the caller */
    int64_t break_ns;    /* how long it stood back the last time; 0: never yet */
    int64_t since;       /* when it came back */
    int64_t moved;       /* when it last asked for another processor */
} worker;

struct lk_pool {
    /* What every task looks at, in one cache line. */
    alignas(CACHE_LINE) atomic_ullong ticket; /* n_tasks << TASKS_SHIFT | next task */
    lk_pool_fn fn;
    void *arg;
    atomic_uint n_done;   /* tasks of this run that are done */
    atomic_uint n_asleep; /* workers that need a signal */
    atomic_bool caller_sleeps;
    atomic_bool stop;
    atomic_int caller_cpu;
    _Atomic(lk_pool_idle_fn) idle; /* NULL: nothing to do */
    void *idle_arg;

    const lk_allocator *allocator;
    worker *workers; /* [n_threads - 1] */
    uint32_t n_threads;
    uint32_t n_started;
    pthread_mutex_t lock;
    pthread_cond_t wake; /* a new run, or the end */
    pthread_cond_t done; /* the last task is done */
    pthread_cond_t back; /* the end, for workers that stand back */
};

static inline void spin_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

/* One look's worth of waiting. */
static inline void wait_a_little(lk_pool *pool, uint32_t i_thread) {
    const lk_pool_idle_fn idle = atomic_load_explicit(&pool->idle, memory_order_acquire);
    if (idle == NULL || !idle(pool->idle_arg, i_thread)) {
        spin_pause();
    }
}

static int64_t now_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static struct timespec time_at(int64_t ns) {
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

static bool has_tasks(unsigned long long ticket) {
    return (uint32_t)ticket < (uint32_t)(ticket >> TASKS_SHIFT);
}

static bool worker_has_news(lk_pool *pool) {
    return has_tasks(atomic_load_explicit(&pool->ticket, memory_order_seq_cst)) ||
           atomic_load_explicit(&pool->stop, memory_order_relaxed);
}

static bool run_is_done(lk_pool *pool, uint32_t n_tasks) {
    return atomic_load_explicit(&pool->n_done, memory_order_seq_cst) == n_tasks;
}

/* Takes and runs one task; false when none is left. */
static bool work_once(lk_pool *pool, uint32_t i_thread) {
    if (!has_tasks(atomic_load_explicit(&pool->ticket, memory_order_relaxed))) {
        return false;
    }
    const unsigned long long ticket =
        atomic_fetch_add_explicit(&pool->ticket, 1u, memory_order_acquire);
    if (!has_tasks(ticket)) {
        return false;
    }
    pool->fn(pool->arg, (uint32_t)ticket, i_thread);
    const uint32_t n_tasks = (uint32_t)(ticket >> TASKS_SHIFT);
    if (atomic_fetch_add_explicit(&pool->n_done, 1u, memory_order_seq_cst) + 1u == n_tasks &&
        atomic_load_explicit(&pool->caller_sleeps, memory_order_seq_cst)) {
        (void)pthread_mutex_lock(&pool->lock);
        (void)pthread_cond_signal(&pool->done);
        (void)pthread_mutex_unlock(&pool->lock);
    }
    return true;
}

static int here(void) {
#if defined(__linux__)
    return sched_getcpu();
#else
    return -1;
#endif
}

static bool is_at_caller(const worker *self) {
    const int cpu = here();
    return cpu >= 0 && cpu == atomic_load_explicit(&self->pool->caller_cpu, memory_order_relaxed);
}

/* Has the system move this thread to a processor that is not the caller's, where there is one. It
 * may go back: what it is allowed is as before. */
static bool move_away(worker *self) {
#if defined(__linux__)
    cpu_set_t allowed;
    const int cpu = here();
    const int64_t now = now_ns();
    if (now - self->moved < MOVE_AGAIN_NS || sched_getaffinity(0, sizeof allowed, &allowed) != 0 ||
        cpu < 0 || cpu >= CPU_SETSIZE || CPU_COUNT(&allowed) < 2) {
        return false;
    }
    cpu_set_t others = allowed;
    CPU_CLR((size_t)cpu, &others);
    self->moved = now;
    if (sched_setaffinity(0, sizeof others, &others) != 0) {
        return false;
    }
    (void)sched_setaffinity(0, sizeof allowed, &allowed);
    return true;
#else
    (void)self;
    return false;
#endif
}

/* Leaves the processor to others: for `first`, or twice as long as the last time if that was just
 * now, but not more than `last`. */
static void stand_back(worker *self, int64_t first, int64_t last) {
    lk_pool *pool = self->pool;
    int64_t now = now_ns();
    const bool was_well = now - self->since > WELL_NS + self->break_ns;
    self->break_ns = was_well || self->break_ns == 0 ? first : 2 * self->break_ns;
    self->break_ns = self->break_ns < first ? first : self->break_ns;
    self->break_ns = self->break_ns > last ? last : self->break_ns;
    const int64_t end = now + self->break_ns;
    const struct timespec until = time_at(end);
    (void)pthread_mutex_lock(&pool->lock);
    while (now < end && !atomic_load_explicit(&pool->stop, memory_order_relaxed)) {
        (void)pthread_cond_timedwait(&pool->back, &pool->lock, &until);
        now = now_ns();
    }
    (void)pthread_mutex_unlock(&pool->lock);
    self->since = now;
}

static void wait_for_run(lk_pool *pool, uint32_t i_thread) {
    const int64_t end = now_ns() + WORKER_SPIN_NS;
    do {
        for (int i = 0; i < PAUSES_PER_LOOK; i++) {
            if (worker_has_news(pool)) {
                return;
            }
            wait_a_little(pool, i_thread);
        }
    } while (now_ns() < end);
    (void)pthread_mutex_lock(&pool->lock);
    (void)atomic_fetch_add_explicit(&pool->n_asleep, 1u, memory_order_seq_cst);
    while (!worker_has_news(pool)) {
        (void)pthread_cond_wait(&pool->wake, &pool->lock);
    }
    (void)atomic_fetch_sub_explicit(&pool->n_asleep, 1u, memory_order_seq_cst);
    (void)pthread_mutex_unlock(&pool->lock);
}

static void *worker_main(void *arg) {
    worker *self = arg;
    lk_pool *pool = self->pool;
    (void)lk_fpenv_enter();
    for (;;) {
        wait_for_run(pool, self->i_thread);
        if (atomic_load_explicit(&pool->stop, memory_order_acquire)) {
            return NULL;
        }
        if (atomic_exchange_explicit(&self->is_late, false, memory_order_relaxed)) {
            stand_back(self, FIRST_BREAK_NS, LAST_BREAK_NS);
            continue;
        }
        if (is_at_caller(self) && !move_away(self)) {
            stand_back(self, FIRST_MOMENT_NS, LAST_MOMENT_NS);
            continue;
        }
        atomic_store_explicit(&self->holds_task, true, memory_order_relaxed);
        while (work_once(pool, self->i_thread)) {
        }
        atomic_store_explicit(&self->holds_task, false, memory_order_relaxed);
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
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&pool->done, &monotonic);
    (void)pthread_cond_init(&pool->back, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
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
    (void)pthread_cond_broadcast(&pool->back);
    (void)pthread_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < pool->n_started; i++) {
        (void)pthread_join(pool->workers[i].thread, NULL);
    }
    (void)pthread_cond_destroy(&pool->back);
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

/* Tells those that still hold a task to stand back when they are done with it. */
static void mark_late(lk_pool *pool) {
    for (uint32_t i = 0; i < pool->n_started; i++) {
        worker *w = &pool->workers[i];
        if (atomic_load_explicit(&w->holds_task, memory_order_relaxed)) {
            atomic_store_explicit(&w->is_late, true, memory_order_relaxed);
        }
    }
}

/* Waits for the tasks that workers hold; task_ns: what one takes about. */
static void wait_for_tasks(lk_pool *pool, uint32_t n_tasks, int64_t task_ns) {
    const int64_t start = now_ns();
    const int64_t end = start + CALLER_SPIN_NS;
    do {
        for (int i = 0; i < PAUSES_PER_LOOK; i++) {
            if (run_is_done(pool, n_tasks)) {
                return;
            }
            wait_a_little(pool, 0);
        }
    } while (now_ns() < end);
    (void)pthread_mutex_lock(&pool->lock);
    atomic_store_explicit(&pool->caller_sleeps, true, memory_order_seq_cst);
    const struct timespec limit = time_at(start + STALL_NS + 4 * task_ns);
    bool is_late = false;
    while (!run_is_done(pool, n_tasks)) {
        if (is_late) {
            (void)pthread_cond_wait(&pool->done, &pool->lock);
        } else if (pthread_cond_timedwait(&pool->done, &pool->lock, &limit) == ETIMEDOUT) {
            mark_late(pool);
            is_late = true;
        }
    }
    atomic_store_explicit(&pool->caller_sleeps, false, memory_order_relaxed);
    (void)pthread_mutex_unlock(&pool->lock);
}

void lk_pool_set_idle(lk_pool *pool, lk_pool_idle_fn fn, void *arg) {
    pool->idle_arg = arg;
    atomic_store_explicit(&pool->idle, fn, memory_order_release);
}

void lk_pool_run(lk_pool *pool, lk_pool_fn fn, void *arg, uint32_t n_tasks) {
    lk_pool_run_spans(pool, fn, arg, n_tasks, 1);
}

void lk_pool_run_spans(lk_pool *pool, lk_pool_fn fn, void *arg, uint32_t n_tasks,
                       uint32_t n_spans) {
    assert(n_tasks <= LK_POOL_MAX_TASKS);
    if (pool->n_threads == 1 || n_tasks <= 1) {
        for (uint32_t i = 0; i < n_tasks; i++) {
            fn(arg, i, 0);
        }
        return;
    }
    const int64_t start = now_ns();
    pool->fn = fn;
    pool->arg = arg;
    atomic_store_explicit(&pool->caller_cpu, here(), memory_order_relaxed);
    atomic_store_explicit(&pool->n_done, 0u, memory_order_relaxed);
    atomic_store_explicit(&pool->ticket, (unsigned long long)n_tasks << TASKS_SHIFT,
                          memory_order_seq_cst);
    if (atomic_load_explicit(&pool->n_asleep, memory_order_seq_cst) != 0) {
        (void)pthread_mutex_lock(&pool->lock);
        (void)pthread_cond_broadcast(&pool->wake);
        (void)pthread_mutex_unlock(&pool->lock);
    }
    uint32_t n_own = 0;
    while (work_once(pool, 0)) {
        n_own++;
    }
    if (!run_is_done(pool, n_tasks)) {
        const int64_t n_pieces = (int64_t)n_own * n_spans;
        wait_for_tasks(pool, n_tasks,
                       n_pieces == 0 ? LAST_BREAK_NS : (now_ns() - start) / n_pieces);
    }
}
