/* experiment_alone.c - the same sequence again and again, alone: if that does not repeat, nothing
 * else can be judged. */
#include "verify.h"

void verify_experiment_alone(verify *v) {
    verify_point p = v->base;
    verify_case(v, &p, 0, verify_is_full(v) ? 5 : 2, "greedy, again");
    if ((v->target->can & VERIFY_CAN_SAMPLE) != 0) {
        p.value[VERIFY_SAMPLED] = 1;
        verify_case(v, &p, 0, verify_is_full(v) ? 5 : 2, "drawn with a seed, again");
    }
}
