/* cpu_share.c - how the threads share the weights of a product. Each thread has a region of its own
 * and goes through it from the first strip to the last, so that what it asks for ahead is what it
 * comes to next; who is done takes over the end of the largest region that is left. While a thread
 * has nothing to do, or does what is not worth sharing, it asks for the first lines of its region
 * of the product that follows. Invariant: every unit is taken once; who computes it moves no bit.
 */
#include "backend/cpu/cpu.h"
#include "base/prefetch.h"

/* What is asked for ahead at a time and in all: a part of the second-level cache. */
enum { AHEAD_STEP = 512, AHEAD_BYTES = 128 << 10, LINE = 64 };

typedef struct share_job {
    lk_backend *b;
    lk_cpu_span_fn *fn;
    void *arg;
    uint32_t most; /* units of a span, at most */
} share_job;

static unsigned long long span_of(uint32_t begin, uint32_t end) {
    return (unsigned long long)begin << 32 | end;
}

static uint32_t n_left(unsigned long long span) {
    return (uint32_t)span - (uint32_t)(span >> 32);
}

/* Half of what is left, so that the spans get short towards the end, where threads wait. */
static uint32_t n_to_take(uint32_t left, uint32_t most) {
    const uint32_t half = left - left / 2;
    return half < most ? half : most;
}

/* Takes units from the beginning of a region or, for other threads, from its end. */
static bool take(atomic_ullong *region, bool is_own, uint32_t most, uint32_t *begin,
                 uint32_t *end) {
    unsigned long long span = atomic_load_explicit(region, memory_order_relaxed);
    while (n_left(span) > 0) {
        const uint32_t n = n_to_take(n_left(span), most);
        const uint32_t first = (uint32_t)(span >> 32);
        const uint32_t stop = (uint32_t)span;
        *begin = is_own ? first : stop - n;
        *end = is_own ? first + n : stop;
        const unsigned long long rest = is_own ? span_of(*end, stop) : span_of(first, *begin);
        if (atomic_compare_exchange_weak_explicit(region, &span, rest, memory_order_relaxed,
                                                  memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

/* The thread with the most left. */
static uint32_t find_victim(const lk_backend *b) {
    uint32_t found = 0;
    uint32_t most = 0;
    for (uint32_t i = 0; i < b->n_threads; i++) {
        const uint32_t n =
            n_left(atomic_load_explicit(&b->threads[i].region, memory_order_relaxed));
        if (n > most) {
            found = i;
            most = n;
        }
    }
    return most > 0 ? found : UINT32_MAX;
}

static void run_region(void *arg, uint32_t i_task, uint32_t i_thread) {
    (void)i_task;
    const share_job *job = arg;
    lk_cpu_thread *threads = job->b->threads;
    uint32_t begin = 0;
    uint32_t end = 0;
    while (take(&threads[i_thread].region, true, job->most, &begin, &end)) {
        job->fn(job->arg, begin, end);
    }
    for (uint32_t i = find_victim(job->b); i != UINT32_MAX; i = find_victim(job->b)) {
        if (take(&threads[i].region, false, job->most, &begin, &end)) {
            job->fn(job->arg, begin, end);
        }
    }
}

uint32_t lk_cpu_region_begin(const lk_backend *b, uint32_t n_units, uint32_t i_thread) {
    return (uint32_t)((uint64_t)n_units * i_thread / b->n_threads);
}

void lk_cpu_share(lk_backend *b, lk_cpu_span_fn *fn, void *arg, uint32_t n_units, uint32_t most) {
    share_job job = {b, fn, arg, most};
    for (uint32_t i = 0; i < b->n_threads; i++) {
        const uint32_t begin = lk_cpu_region_begin(b, n_units, i);
        const uint32_t end = lk_cpu_region_begin(b, n_units, i + 1);
        atomic_store_explicit(&b->threads[i].region, span_of(begin, end), memory_order_relaxed);
    }
    const uint32_t n_tasks = b->n_threads > 1 ? b->n_threads : 1;
    lk_pool_run_spans(b->pool, run_region, &job, n_tasks, n_units / n_tasks / (most + 1) + 1);
}

void lk_cpu_announce(lk_backend *b, uint32_t i_thread, const uint8_t *weights) {
    atomic_store_explicit(&b->threads[i_thread].next, (uintptr_t)weights, memory_order_relaxed);
}

bool lk_cpu_ask_ahead(void *backend, uint32_t i_thread) {
    lk_backend *b = backend;
    lk_cpu_thread *t = &b->threads[i_thread];
    const uintptr_t next = atomic_load_explicit(&t->next, memory_order_relaxed);
    if (next != t->ahead) {
        t->ahead = next;
        t->n_asked = 0;
    }
    if (next == 0 || t->n_asked >= AHEAD_BYTES) {
        return false;
    }
    const char *from = (const char *)next + t->n_asked;
    for (size_t i = 0; i < AHEAD_STEP; i += LINE) {
        lk_prefetch_early(from + i);
    }
    t->n_asked += AHEAD_STEP;
    return true;
}
