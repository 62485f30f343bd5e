/* lk_fibers.c - see lk_fibers.h. A fiber is a stack that threads of the block run on: it takes one
 * that has not begun, runs it to its end and takes the next, so that a block without barriers needs
 * one fiber and no switch. A thread that waits keeps its fiber, and another fiber goes on.
 *
 * A fiber is entered by makecontext once; later switches are jumps, which cost no system call. The
 * stacks are kept for the next launch. */
#include "lk_fibers.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#define LK_FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LK_FIBER_ASAN 1
#endif
#endif
/* What leaves a stack for another one without returning keeps no marks of AddressSanitizer on it.
 */
#if defined(LK_FIBER_ASAN)
#include <sanitizer/common_interface_defs.h>
#define UNMARKED __attribute__((no_sanitize("address")))
#else
#define UNMARKED
#endif

enum { STACK_BYTES = 64 * 1024, WARP = 32 };

typedef enum fiber_state {
    FIBER_IDLE,
    FIBER_READY,
    FIBER_AT_BARRIER,
    FIBER_AT_EXCHANGE
} fiber_state;

typedef struct fiber {
    jmp_buf place;
    unsigned char *stack;
    uint32_t thread;
    fiber_state state;
    bool was_entered;
    void *fake_stack;
} fiber;

/* The launch in progress on this thread. */
typedef struct launch {
    lk_fiber_fn *fn;
    const void *arg;
    uint32_t n_threads;
    uint32_t next_thread; /* the first one that has not begun */
    uint32_t n_alive;
    uint32_t n_at_barrier;
    uint32_t n_of_warp[LK_FIBERS_MAX_THREADS / WARP]; /* alive */
    uint32_t n_at_exchange[LK_FIBERS_MAX_THREADS / WARP];
    uint32_t n_fibers;
    uint32_t current;
    uint32_t next;
    fiber fibers[LK_FIBERS_MAX_THREADS];
    uint32_t n_exchanges[LK_FIBERS_MAX_THREADS];
    uint32_t slots[2][LK_FIBERS_MAX_THREADS];
    jmp_buf home;
    bool leaves_home;
    void *home_fake_stack;
    const void *home_stack;
    size_t home_stack_bytes;
} launch;

_Thread_local lk_fiber_position lk_fiber_place;
static _Thread_local launch now;

_Noreturn static void fail(const char *what) {
    fprintf(stderr, "fibers: %s\n", what);
    abort();
}

/* What AddressSanitizer wants to know of a change of stacks; nothing without it. */
static void before_switch(void **fake_stack, const void *stack, size_t bytes) {
#if defined(LK_FIBER_ASAN)
    __sanitizer_start_switch_fiber(fake_stack, stack, bytes);
#else
    (void)fake_stack;
    (void)stack;
    (void)bytes;
#endif
}
static void after_switch(void *fake_stack) {
#if defined(LK_FIBER_ASAN)
    const void *stack;
    size_t bytes;
    __sanitizer_finish_switch_fiber(fake_stack, &stack, &bytes);
    if (now.leaves_home) {
        now.home_stack = stack;
        now.home_stack_bytes = bytes;
    }
#else
    (void)fake_stack;
#endif
    now.leaves_home = false;
}

static void go_on(void);

/* The life of a fiber: threads of this block, then those of later blocks. */
UNMARKED static void live(void) {
    after_switch(NULL);
    for (;;) {
        while (now.next_thread < now.n_threads) {
            fiber *const f = &now.fibers[now.current];
            f->thread = now.next_thread++;
            lk_fiber_place.thread = f->thread;
            now.fn(now.arg);
            now.n_alive--;
            now.n_of_warp[now.fibers[now.current].thread / WARP]--;
        }
        now.fibers[now.current].state = FIBER_IDLE;
        go_on();
    }
}

static void release(fiber_state state, uint32_t first, uint32_t end) {
    for (uint32_t i = 0; i < now.n_fibers; i++) {
        fiber *const f = &now.fibers[i];
        if (f->state == state && f->thread >= first && f->thread < end) {
            f->state = FIBER_READY;
        }
    }
}

static void release_those_complete(void) {
    if (now.n_at_barrier != 0 && now.n_at_barrier == now.n_alive) {
        now.n_at_barrier = 0;
        release(FIBER_AT_BARRIER, 0, now.n_threads);
    }
    for (uint32_t w = 0; w < now.n_threads / WARP; w++) {
        if (now.n_at_exchange[w] != 0 && now.n_at_exchange[w] == now.n_of_warp[w]) {
            now.n_at_exchange[w] = 0;
            release(FIBER_AT_EXCHANGE, w * WARP, (w + 1) * WARP);
        }
    }
}

/* A fiber that has something to do, or n_fibers. */
static uint32_t find_ready(void) {
    for (uint32_t step = 1; step <= now.n_fibers; step++) {
        const uint32_t i = (now.current + step) % now.n_fibers;
        if (now.fibers[i].state == FIBER_READY) {
            return i;
        }
    }
    return now.n_fibers;
}

/* A fiber for the threads that have not begun. */
static uint32_t find_idle(void) {
    for (uint32_t i = 0; i < now.n_fibers; i++) {
        if (now.fibers[i].state == FIBER_IDLE) {
            return i;
        }
    }
    if (now.n_fibers == LK_FIBERS_MAX_THREADS) {
        fail("more threads than fibers");
    }
    fiber *const f = &now.fibers[now.n_fibers];
    if (f->stack == NULL) {
        f->stack = malloc(STACK_BYTES);
        if (f->stack == NULL) {
            fail("no memory for a stack");
        }
    }
    return now.n_fibers++;
}

UNMARKED static void enter(uint32_t i) {
    fiber *const f = &now.fibers[i];
    now.current = i;
    f->state = FIBER_READY;
    if (f->was_entered) {
        longjmp(f->place, 1);
    }
    f->was_entered = true;
    ucontext_t context;
    if (getcontext(&context) != 0) {
        fail("no context");
    }
    context.uc_stack.ss_sp = f->stack;
    context.uc_stack.ss_size = STACK_BYTES;
    context.uc_link = NULL;
    makecontext(&context, live, 0);
    setcontext(&context);
    fail("a context could not be entered");
}

/* Who goes on: a fiber, or n_fibers for the one that launched. */
static uint32_t choose_next(void) {
    if (now.n_alive != 0) {
        release_those_complete();
    }
    const uint32_t ready = find_ready();
    if (ready < now.n_fibers) {
        return ready;
    }
    if (now.next_thread < now.n_threads) {
        return find_idle();
    }
    if (now.n_alive != 0) {
        fail("threads wait for some that never come");
    }
    return now.n_fibers;
}

/* Leaves the current fiber, which comes back from here when it has its turn again. */
UNMARKED static void go_on(void) {
    now.next = choose_next();
    if (now.next == now.current) { /* a barrier of one thread, or an idle fiber with new work */
        now.fibers[now.current].state = FIBER_READY;
        return;
    }
    if (setjmp(now.fibers[now.current].place) == 0) {
        fiber *const me = &now.fibers[now.current];
        if (now.next == now.n_fibers) {
            before_switch(&me->fake_stack, now.home_stack, now.home_stack_bytes);
            longjmp(now.home, 1);
        }
        before_switch(&me->fake_stack, now.fibers[now.next].stack, STACK_BYTES);
        enter(now.next);
    }
    after_switch(now.fibers[now.current].fake_stack);
    lk_fiber_place.thread = now.fibers[now.current].thread;
}

void lk_fiber_barrier(void) {
    now.fibers[now.current].state = FIBER_AT_BARRIER;
    now.n_at_barrier++;
    go_on();
}

uint32_t lk_fiber_exchange(uint32_t x, uint32_t mask) {
    const uint32_t thread = lk_fiber_place.thread;
    const uint32_t side = now.n_exchanges[thread]++ % 2;
    now.slots[side][thread] = x;
    now.fibers[now.current].state = FIBER_AT_EXCHANGE;
    now.n_at_exchange[thread / WARP]++;
    go_on();
    return now.slots[side][thread ^ mask];
}

UNMARKED static void run_block(void) {
    now.next_thread = 0;
    now.n_alive = now.n_threads;
    now.n_at_barrier = 0;
    now.current = 0;
    for (uint32_t w = 0; w < now.n_threads / WARP; w++) {
        now.n_of_warp[w] = WARP;
        now.n_at_exchange[w] = 0;
    }
    for (uint32_t t = 0; t < now.n_threads; t++) {
        now.n_exchanges[t] = 0;
    }
    now.next = find_idle();
    if (setjmp(now.home) == 0) {
        now.leaves_home = true;
        before_switch(&now.home_fake_stack, now.fibers[now.next].stack, STACK_BYTES);
        enter(now.next);
    }
    after_switch(now.home_fake_stack);
}

void lk_fibers_run(lk_fiber_fn *fn, const void *arg, const uint32_t grid[3], uint32_t n_threads) {
    if (n_threads == 0 || n_threads > LK_FIBERS_MAX_THREADS || n_threads % WARP != 0) {
        fail("a block of an impossible size");
    }
    now.fn = fn;
    now.arg = arg;
    now.n_threads = n_threads;
    lk_fiber_place.n_threads = n_threads;
    for (uint32_t z = 0; z < grid[2]; z++) {
        for (uint32_t y = 0; y < grid[1]; y++) {
            for (uint32_t x = 0; x < grid[0]; x++) {
                lk_fiber_place.block[0] = x;
                lk_fiber_place.block[1] = y;
                lk_fiber_place.block[2] = z;
                run_block();
            }
        }
    }
}
