/* test_math.c - error bounds of the elementary functions of src/ops/math.h, and their bits. The C
 * library's functions in the next wider format serve as independent values here, and only here. */
#include <math.h>

#include "base/sha256.h"
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

LK_TEST(tanhf_error) {
    const uint32_t step = (uint32_t)lk_test_size(100003, 211, 1);
    const float inf = lk_f32_from_bits(0x7f800000u);
    double worst = 0.0;
    float worst_x = 0.0f;
    for (uint64_t a = 1; a <= 0x41a00000u; a += step) { /* up to 20 */
        const float x = lk_f32_from_bits((uint32_t)a);
        const double error = ulps_f32(lk_tanhf(x), tanh((double)x));
        if (!(error <= worst)) {
            worst = error;
            worst_x = x;
        }
        CHECK(lk_f32_bits(lk_tanhf(-x)) == (lk_f32_bits(lk_tanhf(x)) | 0x80000000u));
    }
    (void)printf("tanhf: %.4f ulp at %a\n", worst, (double)worst_x);
    CHECK_MSG(worst <= 3.0, "%.4f ulp at %a", worst, (double)worst_x);
    CHECK(lk_tanhf(inf) == 1.0f && lk_tanhf(-inf) == -1.0f && lk_tanhf(1e30f) == 1.0f);
    CHECK(lk_f32_bits(lk_tanhf(0.0f)) == 0 && lk_f32_bits(lk_tanhf(-0.0f)) == 0x80000000u);
    CHECK(isnan(lk_tanhf(lk_f32_from_bits(0x7fc00000u))));
}

/* ---- binary64 ---- */

static double not_a_number(void) {
    return lk_f64_from_bits(0x7ff8000000000000u);
}

static double ulps_f64(double got, long double want) {
    int e;
    (void)frexpl(want, &e);
    return (double)(fabsl((long double)got - want) / ldexpl(1.0L, e - 53));
}

/* Uniform in [low, high). */
static double uniform(uint64_t *state, double low, double high) {
    return low + (high - low) * (double)(lk_test_random(state) >> 11) * 0x1p-53;
}

static void report(const char *name, double worst, double bound) {
    (void)printf("%s: %.4f ulp\n", name, worst);
    CHECK_MSG(worst <= bound, "%s: %.4f ulp", name, worst);
}

static double worse(double worst, double error) {
    return error <= worst ? worst : error; /* NaN wins */
}

LK_TEST(log_error) {
    uint64_t state = 1;
    const uint64_t n = lk_test_size(2000, 100000, 10000000);
    double worst = 0.0;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t bits = lk_test_random(&state) % 0x7ff0000000000000u;
        const double wide = lk_f64_from_bits(bits == 0 ? 1 : bits);
        const double near = uniform(&state, 0.5, 2.0);
        const double nearest = 1.0 + uniform(&state, -1.0, 1.0) * ldexp(1.0, -(int)(i % 50));
        worst = worse(worst, ulps_f64(lk_log(wide), logl((long double)wide)));
        worst = worse(worst, ulps_f64(lk_log(near), logl((long double)near)));
        if (nearest > 0.0 && nearest != 1.0) {
            worst = worse(worst, ulps_f64(lk_log(nearest), logl((long double)nearest)));
        }
    }
    report("log", worst, 0.51);
    CHECK(lk_f64_bits(lk_log(1.0)) == 0);
    CHECK(lk_log(0.0) == -HUGE_VAL && lk_log(-0.0) == -HUGE_VAL);
    CHECK(isnan(lk_log(-1.0)) && isnan(lk_log(not_a_number())) && isnan(lk_log(-HUGE_VAL)));
    CHECK(lk_log(HUGE_VAL) == HUGE_VAL);
}

LK_TEST(exp2_error) {
    uint64_t state = 2;
    const uint64_t n = lk_test_size(2000, 100000, 10000000);
    double worst = 0.0;
    for (uint64_t i = 0; i < n; i++) {
        const double wide = uniform(&state, -1022.0, 1024.0);
        const double near = uniform(&state, -1.0, 1.0) * ldexp(1.0, -(int)(i % 60));
        worst = worse(worst, ulps_f64(lk_exp2(wide), exp2l((long double)wide)));
        worst = worse(worst, ulps_f64(lk_exp2(near), exp2l((long double)near)));
    }
    report("exp2", worst, 0.65);
    for (int e = -1022; e < 1024; e++) {
        CHECK(lk_exp2(e) == ldexp(1.0, e));
    }
    CHECK(lk_exp2(nextafter(1024.0, 0.0)) < HUGE_VAL && lk_exp2(1023.75) > 0x1p+1023);
    CHECK(lk_exp2(1024.0) == HUGE_VAL && lk_exp2(HUGE_VAL) == HUGE_VAL);
    CHECK(lk_f64_bits(lk_exp2(-1022.5)) == 0 && lk_f64_bits(lk_exp2(-HUGE_VAL)) == 0);
    CHECK(isnan(lk_exp2(not_a_number())));
}

LK_TEST(pow_error) {
    uint64_t state = 3;
    const uint64_t n = lk_test_size(2000, 100000, 10000000);
    double worst = 0.0;
    for (uint64_t i = 0; i < n; i++) {
        const double x = exp2(uniform(&state, -40.0, 40.0));
        const double y = uniform(&state, -25.0, 25.0);
        const long double want = powl((long double)x, (long double)y);
        if (want >= 0x1p-1020L && want <= 0x1p+1020L) {
            worst = worse(worst, ulps_f64(lk_pow(x, y), want));
        }
        const double base = uniform(&state, 2.0, 1e7);
        const double z = uniform(&state, -1.0, 0.0);
        worst = worse(worst, ulps_f64(lk_pow(base, z), powl((long double)base, (long double)z)));
    }
    report("pow", worst, 0.65);
    CHECK(lk_pow(10000.0, 0.0) == 1.0 && lk_pow(10000.0, -0.5) == 0.01 && lk_pow(3.0, 4.0) == 81.0);
    CHECK(lk_pow(2.0, 1e300) == HUGE_VAL && lk_f64_bits(lk_pow(2.0, -1e300)) == 0);
    CHECK(lk_pow(2.0, 1023.5) > 0x1p+1023 && lk_pow(2.0, 1024.0) == HUGE_VAL);
    CHECK(lk_pow(1.0, 1e308) == 1.0 && lk_pow(0x1p-1074, 0.5) == 0x1p-537);
    CHECK(isnan(lk_pow(-1.0, 2.0)) && isnan(lk_pow(0.0, 2.0)) &&
          isnan(lk_pow(not_a_number(), 2.0)));
    CHECK(isnan(lk_pow(2.0, not_a_number())) && isnan(lk_pow(2.0, HUGE_VAL)) &&
          isnan(lk_pow(HUGE_VAL, 1.0)));
}

LK_TEST(sincos_error) {
    uint64_t state = 4;
    const uint64_t n = lk_test_size(2000, 100000, 10000000);
    double worst = 0.0;
    double worst_absolute = 0.0;
    for (uint64_t i = 0; i < n; i++) {
        double x = uniform(&state, -1.0, 1.0) * ldexp(1.0, 28 - (int)(i % 40));
        if (i % 3 == 0) { /* the double next to a multiple of pi/2: the hardest of all */
            x = floor(x) * 0x1.921fb54442d18p+0;
        }
        if (!(fabs(x) <= 0x1p+28)) {
            continue;
        }
        double s;
        double c;
        lk_sincos(x, &s, &c);
        const long double want_s = sinl((long double)x);
        const long double want_c = cosl((long double)x);
        worst = worse(worst, x == 0.0 ? 0.0 : ulps_f64(s, want_s));
        worst = worse(worst, ulps_f64(c, want_c));
        worst_absolute = worse(worst_absolute, (double)fabsl((long double)s - want_s));
        worst_absolute = worse(worst_absolute, (double)fabsl((long double)c - want_c));
    }
    (void)printf("sin, cos: %.3g absolute\n", worst_absolute);
    CHECK(worst_absolute <= 1.2e-16);
    report("sin, cos", worst, 0.8);
    double s;
    double c;
    lk_sincos(0.0, &s, &c);
    CHECK(lk_f64_bits(s) == 0 && c == 1.0);
    lk_sincos(nextafter(0x1p+28, 1e9), &s, &c);
    CHECK(isnan(s) && isnan(c));
    lk_sincos(not_a_number(), &s, &c);
    CHECK(isnan(s) && isnan(c));
}

/* The bits of every function over fixed arguments, on every compiler and processor. */
LK_TEST(bits_stand_still) {
    lk_sha256 sha;
    lk_sha256_init(&sha);
    uint64_t state = 5;
    for (int i = 0; i < 4000; i++) {
        double v[6];
        const double x = uniform(&state, -1.0, 1.0) * ldexp(1.0, i % 38 - 10);
        const double exponent = uniform(&state, -700.0, 700.0);
        v[0] = lk_log(fabs(x) + 0x1p-1030);
        v[1] = lk_exp2(exponent);
        v[2] = lk_pow(fabs(x) + 0.5, exponent * 0.01);
        lk_sincos(x, &v[3], &v[4]);
        v[5] = (double)lk_expf((float)(exponent * 0.125));
        for (int j = 0; j < 6; j++) {
            uint8_t bytes[8];
            lk_store_u64(bytes, lk_f64_bits(v[j]));
            lk_sha256_update(&sha, bytes, sizeof bytes);
        }
    }
    uint8_t digest[32];
    lk_sha256_final(&sha, digest);
    static const uint8_t want[8] = {0x88, 0x31, 0x3f, 0xe0, 0x13, 0x18, 0x56, 0x1b};
    CHECK_MSG(memcmp(digest, want, sizeof want) == 0, "digest %02x%02x%02x%02x%02x%02x%02x%02x",
              digest[0], digest[1], digest[2], digest[3], digest[4], digest[5], digest[6],
              digest[7]);
}

LK_TEST_MAIN(LK_RUN(expf_error), LK_RUN(expf_edges), LK_RUN(tanhf_error), LK_RUN(log_error),
             LK_RUN(exp2_error), LK_RUN(pow_error), LK_RUN(sincos_error), LK_RUN(bits_stand_still))
