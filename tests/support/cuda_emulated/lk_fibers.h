/* lk_fibers.h - device code on the host: the blocks of a launch run one after the other on the
 * calling thread, the threads of a block as fibers of it. A thread runs until it ends or comes to a
 * barrier or an exchange inside its warp; then the next one has its turn, in the order of their
 * numbers. Kernels without barriers never switch. Deterministic: a data race inside a block shows
 * itself, if at all, always in the same way.
 *
 * All threads of a block have to come to a barrier, and all of a warp to an exchange, or to have
 * ended; anything else aborts. */
#ifndef LK_FIBERS_H
#define LK_FIBERS_H

#include <stdint.h>

#include "backend/cuda/kern/fibers.h"

enum { LK_FIBERS_MAX_THREADS = 1024 };

/* Calls fn(arg), the body of a kernel, for every thread of the grid. n_threads: of a block, a
 * multiple of 32. */
typedef void lk_fiber_fn(const void *arg);
void lk_fibers_run(lk_fiber_fn *fn, const void *arg, const uint32_t grid[3], uint32_t n_threads);

/* Launches a kernel of kernels.def by its number in the list, with its arguments. */
void lk_cuda_emulate(uint32_t i_kernel, const void *args, const uint32_t grid[3],
                     uint32_t n_threads);

#endif
