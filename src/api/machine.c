/* machine.c - lk_machine_measure: arguments, a pool of its own, and back. */
#include "lk/machine.h"

#include "backend/cpu/cpu_peak.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/params.h"

LK_NO_TAIL_PADDING(lk_machine_speed, float_ops_per_s);

lk_status lk_machine_measure(uint32_t n_threads, uint32_t isa_mask, const lk_allocator *allocator,
                             lk_machine_speed *speed, lk_error *err) {
    if (speed == NULL || speed->struct_size != sizeof *speed) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("speed"),
                       "speed must be LK_MACHINE_SPEED_INIT at first");
    }
    *speed = LK_MACHINE_SPEED_INIT;
    lk_pool *pool = NULL;
    const lk_allocator *used = lk_allocator_or_default(allocator);
    lk_status status = lk_pool_create(used, n_threads, &pool, err);
    if (status == LK_OK) {
        status = lk_cpu_peak_measure(pool, isa_mask, used, speed, err);
    }
    lk_pool_destroy(pool);
    return status;
}
