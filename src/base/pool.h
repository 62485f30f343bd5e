/* pool.h - a fixed set of worker threads that run tasks 0 .. n_tasks-1 of one function.
 * The calling thread takes part. Tasks are taken by an atomic counter, so which thread runs a task
 * is not defined: a task must write only what belongs to its index. Keep tasks short (tens of
 * microseconds): a thread that loses its processor delays the run by the task that it holds. One
 * lk_pool_run at a time per pool. */
#ifndef LK_BASE_POOL_H
#define LK_BASE_POOL_H

#include <stdbool.h>

#include "lk/base.h"

#define LK_POOL_MAX_THREADS 256
#define LK_POOL_MAX_TASKS 0x7fffffff

typedef struct lk_pool lk_pool;

/* i_task in [0, n_tasks); i_thread in [0, n_threads) is for scratch memory only. */
typedef void (*lk_pool_fn)(void *arg, uint32_t i_task, uint32_t i_thread);

/* n_threads counts the caller; 1 starts no thread; 0 means one per online processor. */
lk_status lk_pool_create(const lk_allocator *a, uint32_t n_threads, lk_pool **out, lk_error *err);
void lk_pool_destroy(lk_pool *pool); /* accepts NULL; joins all workers */
uint32_t lk_pool_n_threads(const lk_pool *pool);
/* Runs all tasks and returns when all are done. n_tasks 0 returns at once. */
void lk_pool_run(lk_pool *pool, lk_pool_fn fn, void *arg, uint32_t n_tasks);
/* The same for tasks that share their work among themselves, about n_spans pieces of it each, so
 * that whoever is late is only waited for while it holds a piece. */
void lk_pool_run_spans(lk_pool *pool, lk_pool_fn fn, void *arg, uint32_t n_tasks, uint32_t n_spans);

/* What threads do while they wait for a task or for those of others: fn is called over and over
 * until it returns false, and again after the next run. It must be short (a microsecond), and may
 * be called at any time after this from any thread of the pool. Once, before the first run. */
typedef bool (*lk_pool_idle_fn)(void *arg, uint32_t i_thread);
void lk_pool_set_idle(lk_pool *pool, lk_pool_idle_fn fn, void *arg);

#endif
