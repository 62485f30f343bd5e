/* experiment_isa.c - older instruction sets, down to the scalar reference; weights as they are in
 * the file, not rearranged. */
#include <string.h>

#include "verify.h"

void verify_experiment_isa(verify *v) {
    static const struct {
        int64_t mask;
        const char *name;
    } sets[] = {{LK_CPU_AVX2 | LK_CPU_AVX512, "AVX-512, no matrix units"},
                {LK_CPU_AVX2, "AVX2"},
                {LK_CPU_NEON, "NEON"},
                {0, "scalar"}};
    const bool is_arm = strstr(v->machine, "aarch64") != NULL;
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        verify_point p = v->base;
        if (sets[i].mask != 0 && (sets[i].mask == LK_CPU_NEON) != is_arm) {
            continue; /* of another kind of processor */
        }
        p.value[VERIFY_ISA] = sets[i].mask;
        if (sets[i].mask == 0 && !verify_is_full(v)) {
            p.value[VERIFY_N] = p.value[VERIFY_N] < 4 ? p.value[VERIFY_N] : 4; /* it is slow */
        }
        verify_case(v, &p, VERIFY_BIT(VERIFY_ISA), 0, sets[i].name);
    }
    verify_point p = v->base;
    p.value[VERIFY_REPACK] = 0;
    verify_case(v, &p, VERIFY_BIT(VERIFY_REPACK), 0, "weights as in the file");
}
