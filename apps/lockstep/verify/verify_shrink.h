/* verify_shrink.h - random schedules, and the shortest one that still fails. */
#ifndef LK_VERIFY_SHRINK_H
#define LK_VERIFY_SHRINK_H

#include "verify.h"

/* Schedule number i of a seed, over random ids: joins, cuts, leaves, forks, steps back, restarts,
 * cancels, as far as the target can. Its point has random TARGET factors. The streams' ids live
 * until verify_random_free. False: no memory. */
typedef struct verify_random {
    verify_schedule schedule;
    verify_point point;
    int32_t *ids; /* of all streams */
} verify_random;
bool verify_random_draw(const verify *v, uint64_t seed, uint64_t i, verify_random *r);
/* The streams alone, for a schedule that was given as text: stream k of number i. */
bool verify_random_streams(const verify *v, uint64_t seed, uint64_t i, verify_random *r);
void verify_random_free(verify_random *r);

/* Removes operations and rows as long as the schedule still differs in one run. */
void verify_shrink(verify *v, verify_schedule *s, const verify_point *p, verify_factors subject);

#endif
