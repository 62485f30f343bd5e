/* checkkern.c - see checkkern.h: input, comparison and the clock. */
#include "checkkern.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "lk_test.h"

const size_t ck_row_sizes[] = {1,   2,   3,   4,   5,   6,   7,   8,   9,    10,   11,  12,  13,
                               14,  15,  16,  17,  18,  19,  23,  24,  25,   31,   32,  33,  37,
                               40,  47,  48,  49,  53,  60,  63,  64,  65,   70,   96,  127, 128,
                               129, 172, 173, 255, 256, 257, 512, 768, 1021, 1536, 2048};
const size_t ck_n_row_sizes = sizeof ck_row_sizes / sizeof ck_row_sizes[0];

const char *ck_kind_name(ck_kind kind) {
    static const char *const names[CK_N_KINDS] = {"normal", "wide", "subnormal", "zero",
                                                  "huge",   "ties", "threshold", "bad"};
    return names[kind];
}

uint64_t ck_random(ck_run *run) {
    return lk_test_random(&run->rng);
}

size_t ck_below(ck_run *run, size_t n) {
    return (size_t)((ck_random(run) >> 11) % n);
}

static float power_of_two(int exponent) {
    return lk_f32_from_bits((uint32_t)(exponent + 127) << 23);
}

static float any_finite(ck_run *run) {
    uint32_t bits;
    do {
        bits = (uint32_t)ck_random(run);
    } while ((bits & 0x7f800000u) == 0x7f800000u);
    return lk_f32_from_bits(bits);
}

/* About 2^exponent, within 2 %; one in 16 is the power itself. */
static float near_power(ck_run *run, int exponent) {
    const uint32_t bits = lk_f32_bits(power_of_two(exponent));
    const uint32_t steps = ck_below(run, 16) == 0 ? 0 : (uint32_t)ck_below(run, 0x28000);
    const uint32_t sign = (uint32_t)ck_random(run) & 0x80000000u;
    return lk_f32_from_bits((ck_below(run, 2) ? bits + steps : bits - steps) | sign);
}

static float one_value(ck_run *run, ck_kind kind, float scale, int threshold) {
    const uint64_t r = ck_random(run);
    const float unit = (float)(int32_t)(r >> 40) * 0x1p-23f - 1.0f; /* -1 .. 1 */
    switch (kind) {
    case CK_NORMAL:
    case CK_BAD:
        return unit * (float)(1u << (r & 3u)) * 0.5f;
    case CK_WIDE:
        return any_finite(run);
    case CK_SUBNORMAL:
        return lk_f32_from_bits((uint32_t)r & ((r >> 62) == 0 ? 0x80000000u : 0x807fffffu));
    case CK_ZERO:
        return (r & 1u) ? 0.0f : -0.0f;
    case CK_HUGE:
        return unit * ((r & 1u) ? 0x1.fffffep+127f : 1.0f);
    case CK_TIES:
        return (float)((int32_t)(r % 509u) - 254) * 0.5f * scale;
    case CK_THRESHOLD:
        return near_power(run, threshold);
    case CK_N_KINDS:
        break;
    }
    return unit;
}

void ck_fill(ck_run *run, float *x, size_t n, ck_kind kind) {
    const float scale = power_of_two((int)ck_below(run, 41) - 20);
    static const int thresholds[] = {-100, -60, 62, 64, 111, 120, 127};
    const int threshold = thresholds[ck_below(run, sizeof thresholds / sizeof thresholds[0])];
    for (size_t k = 0; k < n; k++) {
        x[k] = one_value(run, kind, scale, threshold);
    }
    if (kind == CK_TIES && n > 0) { /* a scale of exactly that power of two */
        x[ck_below(run, n)] = 127.0f * scale;
    }
    if (kind == CK_BAD && n > 0) {
        static const uint32_t bad[] = {0x7f800000u, 0xff800000u, 0x7fc00000u,
                                       0x7fffffffu, 0xffc00001u, 0xffffffffu};
        x[ck_below(run, n)] = lk_f32_from_bits(bad[ck_below(run, sizeof bad / sizeof bad[0])]);
    }
}

void ck_at(ck_run *run, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(run->where, sizeof run->where, format, args);
    va_end(args);
}

void ck_fail(ck_run *run, const char *format, ...) {
    run->n_failures++;
    if (run->is_quiet || run->n_failures > 20) {
        return;
    }
    char text[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)fprintf(stderr, "FAILED: %s, %s: %s\n", run->isa, run->where, text);
}

bool ck_wanted(const ck_run *run, const char *name) {
    return run->only == NULL || strstr(name, run->only) != NULL;
}

void ck_same_f32(ck_run *run, const char *what, const float *got, const float *want, size_t n) {
    if (memcmp(got, want, n * sizeof(float)) == 0) {
        return;
    }
    for (size_t k = 0; k < n; k++) {
        const uint32_t a = lk_f32_bits(got[k]);
        const uint32_t b = lk_f32_bits(want[k]);
        const bool both_nan = (a & 0x7fffffffu) > 0x7f800000u && (b & 0x7fffffffu) > 0x7f800000u;
        if (a != b && !both_nan) {
            ck_fail(run, "%s[%zu] of %zu is %a (%08x), the twin has %a (%08x)", what, k, n,
                    (double)got[k], a, (double)want[k], b);
            return;
        }
    }
}

void ck_same_bytes(ck_run *run, const char *what, const void *got, const void *want, size_t n) {
    if (memcmp(got, want, n) == 0) {
        return;
    }
    const uint8_t *const a = got;
    const uint8_t *const b = want;
    for (size_t k = 0; k < n; k++) {
        if (a[k] != b[k]) {
            ck_fail(run, "%s: byte %zu of %zu is %02x, the twin has %02x", what, k, n, a[k], b[k]);
            return;
        }
    }
}

bool ck_same_flags(ck_run *run, uint32_t got, uint32_t want) {
    run->n_calls++;
    if ((got != 0) != (want != 0)) {
        ck_fail(run, "the flag is %u, the twin has %u", got, want);
        return false;
    }
    return want == 0;
}

static double now_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* other programs do not count */
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

void ck_bench(const ck_run *run, const char *name, ck_bench_fn *fn, void *arg, double bytes,
              double ops) {
    if (!ck_wanted(run, name)) {
        return;
    }
    double best = 1e30;
    uint64_t repeat = 1;
    fn(arg);
    for (int round = 0; round < 3;) { /* the best of three rounds of 5 ms or more */
        const double start = now_ns();
        for (uint64_t i = 0; i < repeat; i++) {
            fn(arg);
        }
        const double ns = now_ns() - start;
        if (ns < 5e6 && repeat < (uint64_t)1 << 32) {
            repeat *= 2;
            continue;
        }
        best = ns / (double)repeat < best ? ns / (double)repeat : best;
        round++;
    }
    (void)printf("%-34s %-7s %12.0f ns %9.2f GB/s %9.2f GOP/s\n", name, run->isa, best,
                 bytes / best, ops / best);
    (void)fflush(stdout);
}
