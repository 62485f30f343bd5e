/* experiment_places.c - which slot a sequence has, and where its KV pages lie. */
#include "verify.h"

void verify_experiment_slots(verify *v) {
    static const int64_t slots[] = {1, 3, 7};
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        verify_point p = v->base;
        char label[VERIFY_LABEL];
        p.value[VERIFY_SLOT] = slots[i];
        p.value[VERIFY_NEIGHBOURS] = i == 1 ? 3 : 0;
        (void)snprintf(label, sizeof label, "sequence id %lld%s", (long long)slots[i],
                       i == 1 ? ", three lower ones in use" : "");
        verify_case(v, &p, VERIFY_BIT(VERIFY_SLOT) | VERIFY_BIT(VERIFY_NEIGHBOURS), 0, label);
    }
}

void verify_experiment_pages(verify *v) {
    const int64_t n = verify_is_full(v) ? 8 : 2;
    for (int64_t i = 0; i < n; i++) {
        verify_point p = v->base;
        char label[VERIFY_LABEL];
        p.value[VERIFY_PAGES] = 1 + (int64_t)(v->options->seed % 1000000) + i;
        p.value[VERIFY_NEIGHBOURS] = 2;
        p.value[VERIFY_PROMPT] = 3;
        (void)snprintf(label, sizeof label, "pages in the order of seed %lld",
                       (long long)p.value[VERIFY_PAGES]);
        verify_case(v, &p, VERIFY_BIT(VERIFY_PAGES) | VERIFY_BIT(VERIFY_NEIGHBOURS), 0, label);
    }
}
