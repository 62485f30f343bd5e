/* experiment_reuse.c - what a slot, a cache or a file kept from before: another sequence that was
 * cleared, a prefix, a fork, a step back, a restart. */
#include "verify.h"

static void run(verify *v, verify_factor factor, int64_t value, bool crowded, const char *label) {
    verify_point p = v->base;
    p.value[VERIFY_PROMPT] = 3;
    p.value[factor] = value;
    p.value[VERIFY_NEIGHBOURS] = crowded ? 2 : 0;
    verify_case(v, &p, VERIFY_BIT(factor) | VERIFY_BIT(VERIFY_NEIGHBOURS), 0, label);
}

void verify_experiment_reuse(verify *v) {
    run(v, VERIFY_BEFORE, 1, false, "another sequence, cleared");
    run(v, VERIFY_BEFORE, 1, true, "the same among others");
    run(v, VERIFY_BEFORE, 2, false, "itself, cleared");
    run(v, VERIFY_FORK, 1, false, "forked from a longer one");
    run(v, VERIFY_FORK, 1, true, "the same among others");
    run(v, VERIFY_BACK, 1, false, "one row back and again");
    run(v, VERIFY_BACK, 15, true, "15 rows back, in one call again");
    run(v, VERIFY_RESTART, 1, true, "saved, restarted, restored");
}

/* Requests to the engine, which schedules them itself. */
void verify_experiment_requests(verify *v) {
    const verify_factors subject = VERIFY_BIT(VERIFY_ENGINE) | VERIFY_BIT(VERIFY_CACHE) |
                                   VERIFY_BIT(VERIFY_NEIGHBOURS) | VERIFY_BIT(VERIFY_JOIN) |
                                   VERIFY_BIT(VERIFY_BEFORE) | VERIFY_BIT(VERIFY_EQUAL) |
                                   VERIFY_BIT(VERIFY_CANCEL);
    verify_point p = v->base;
    p.value[VERIFY_ENGINE] = (v->target->factors & VERIFY_BIT(VERIFY_ENGINE)) != 0;
    p.value[VERIFY_PROMPT] = 3;
    p.value[VERIFY_BEFORE] = 1;
    verify_case(v, &p, subject, 0, "after another request");
    p.value[VERIFY_CACHE] = (v->target->factors & VERIFY_BIT(VERIFY_CACHE)) != 0;
    p.value[VERIFY_BEFORE] = 2;
    verify_case(v, &p, subject, 0, "its prompt was asked before");
    p.value[VERIFY_NEIGHBOURS] = 3;
    p.value[VERIFY_JOIN] = 4;
    verify_case(v, &p, subject, 0, "the same while others run");
    p.value[VERIFY_NEIGHBOURS] = 7;
    p.value[VERIFY_JOIN] = 0;
    p.value[VERIFY_EQUAL] = 1;
    p.value[VERIFY_BEFORE] = 0;
    verify_case(v, &p, subject, 0, "8 equal requests at once");
    p.value[VERIFY_NEIGHBOURS] = 3;
    p.value[VERIFY_EQUAL] = 0;
    p.value[VERIFY_CANCEL] = 1;
    verify_case(v, &p, subject, 0, "others are cancelled");
}
