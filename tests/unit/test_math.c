/* test_math.c - error bounds of the elementary functions of src/ops/math.h. The C library's
 * binary64 functions serve as independent values here, and only here. */
#include <math.h>

#include "lk_test.h"
#include "ops/math.h"

/* Distance of `got` from the true value in units of its last binary32 place. */
static double ulps_f32(float got, double want) {
    int e;
    (void)frexp(want, &e);
    const double ulp = ldexp(1.0, e - 24);
    return fabs((double)got - want) / ulp;
}

/* Every `step`-th binary32 number of [-87, 88.37]; every one in the full run. */
LK_TEST(expf_error) {
    const uint32_t step = (uint32_t)lk_test_size(9973, 307, 1);
    const uint32_t last[2] = {lk_f32_bits(LK_EXPF_MAX), lk_f32_bits(-LK_EXPF_MIN)};
    double worst = 0.0;
    float worst_x = 0.0f;
    uint64_t n = 0;
    for (uint32_t sign = 0; sign < 2; sign++) {
        for (uint64_t a = 0; a <= last[sign]; a += step, n++) {
            const float x = lk_f32_from_bits((uint32_t)a | sign << 31);
            const double error = ulps_f32(lk_expf(x), exp((double)x));
            if (!(error <= worst)) {
                worst = error;
                worst_x = x;
            }
        }
    }
    (void)printf("expf: %.4f ulp at %a, %llu arguments\n", worst, (double)worst_x,
                 (unsigned long long)n);
    CHECK_MSG(worst <= 1.0, "%.4f ulp at %a", worst, (double)worst_x);
}

LK_TEST(expf_edges) {
    const float inf = lk_f32_from_bits(0x7f800000u);
    CHECK(lk_f32_bits(lk_expf(0.0f)) == 0x3f800000u);
    CHECK(lk_f32_bits(lk_expf(-0.0f)) == 0x3f800000u);
    CHECK(lk_f32_bits(lk_expf(nextafterf(-87.0f, -100.0f))) == 0);
    CHECK(lk_f32_bits(lk_expf(-inf)) == 0);
    CHECK(lk_expf(-87.0f) >= 0x1p-126f);
    CHECK(lk_expf(88.37f) < inf);
    CHECK(lk_f32_bits(lk_expf(nextafterf(88.37f, 100.0f))) == 0x7f800000u);
    CHECK(lk_f32_bits(lk_expf(inf)) == 0x7f800000u);
    for (uint32_t payload = 1; payload < 0x400000u; payload = payload * 3 + 1) {
        const float y = lk_expf(lk_f32_from_bits(0x7fc00000u | payload));
        CHECK((lk_f32_bits(y) & 0x7fffffffu) > 0x7f800000u);
    }
}

LK_TEST_MAIN(LK_RUN(expf_error), LK_RUN(expf_edges))
