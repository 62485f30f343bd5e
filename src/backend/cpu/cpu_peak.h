/* cpu_peak.h - measures the ceilings of the processor for lk_machine_measure. */
#ifndef LK_BACKEND_CPU_CPU_PEAK_H
#define LK_BACKEND_CPU_CPU_PEAK_H

#include "base/pool.h"
#include "lk/machine.h"

/* Fills all but struct_size. */
lk_status lk_cpu_peak_measure(lk_pool *pool, uint32_t isa_mask, const lk_allocator *allocator,
                              lk_machine_speed *speed, lk_error *err);

#endif
