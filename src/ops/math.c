/* math.c - the binary64 functions of math.h: logarithm, powers, sine and cosine, with the same bits
 * on every machine. They serve tables and samplers; no kernel calls them.
 *
 * Invariant: only +, -, *, / of binary64 and integer operations, one rounding each, nothing fused.
 * A `pair` is an unevaluated sum hi + lo with |lo| <= ulp(hi) / 2 or nearly so. */
#include "ops/math.h"

#include <stddef.h>

typedef struct pair {
    double hi;
    double lo;
} pair;

/* a + b exactly. */
static pair sum_exact(double a, double b) {
    const double s = a + b;
    const double t = s - a;
    const pair r = {s, (a - (s - t)) + (b - t)};
    return r;
}

/* The upper 26 bits of x. */
static double upper_half(double x) {
    const double t = x * 0x1.000002p+27; /* 2^27 + 1 */
    return t - (t - x);
}

/* a * b exactly (no overflow, no underflow). */
static pair product_exact(double a, double b) {
    const double p = a * b;
    const double ah = upper_half(a);
    const double al = a - ah;
    const double bh = upper_half(b);
    const double bl = b - bh;
    const pair r = {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
    return r;
}

static pair add(pair a, pair b) {
    const pair s = sum_exact(a.hi, b.hi);
    return sum_exact(s.hi, s.lo + (a.lo + b.lo));
}

static pair multiply(pair a, pair b) {
    const pair p = product_exact(a.hi, b.hi);
    return sum_exact(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

static pair divide(pair a, pair b) {
    const double q = a.hi / b.hi;
    const pair p = multiply((pair){q, 0.0}, b);
    const double rest = ((a.hi - p.hi) - p.lo) + a.lo;
    return sum_exact(q, rest / b.hi);
}

/* To nearest even, |x| < 2^51. */
static double round_int(double x) {
    return (x + 0x1.8p+52) - 0x1.8p+52;
}

static const pair ln2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

/* ln x for normal or subnormal x > 0: x = m * 2^k with m near 1, ln m = 2 atanh(s),
 * s = (m - 1) / (m + 1), |s| <= 0.1716. The series ends where terms fall below 2^-86. */
static pair log_pair(double x) {
    enum { TERMS = 17 };
    int64_t k = 0;
    if (x < 0x1p-1022) {
        x = x * 0x1p+54;
        k = -54;
    }
    const uint64_t bits = lk_f64_bits(x);
    k += (int64_t)(bits >> 52) - 1023;
    double m = lk_f64_from_bits((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
    if (m > 0x1.6a09e667f3bcdp+0) { /* sqrt 2 */
        m = m * 0.5;
        k += 1;
    }
    const pair s = divide((pair){m - 1.0, 0.0}, sum_exact(m, 1.0));
    const pair z = multiply(s, s);
    pair series = {0.0, 0.0};
    for (int j = TERMS - 1; j >= 0; j--) {
        const pair term = divide((pair){1.0, 0.0}, (pair){(double)(2 * j + 1), 0.0});
        series = add(multiply(series, z), term);
    }
    const pair twice = {s.hi * 2.0, s.lo * 2.0};
    return add(multiply((pair){(double)k, 0.0}, ln2), multiply(twice, series));
}

/* e^r * 2^n for |r| <= 0.35 and -1022 <= n <= 1024: 1 + (r + r^2 * (1/2! + r/3! + ... r^12/14!)).
 */
static double exp_scaled(pair r, int64_t n) {
    static const double inverse_factorial[] = {
        1.0 / 2.0,          1.0 / 6.0,        1.0 / 24.0,        1.0 / 120.0,
        1.0 / 720.0,        1.0 / 5040.0,     1.0 / 40320.0,     1.0 / 362880.0,
        1.0 / 3628800.0,    1.0 / 39916800.0, 1.0 / 479001600.0, 1.0 / 6227020800.0,
        1.0 / 87178291200.0};
    size_t i = sizeof inverse_factorial / sizeof inverse_factorial[0] - 1;
    double series = inverse_factorial[i];
    while (i > 0) {
        i--;
        series = series * r.hi + inverse_factorial[i];
    }
    const pair small = sum_exact(r.hi, (r.hi * r.hi) * series + r.lo * (1.0 + r.hi));
    const pair y = sum_exact(1.0, small.hi);
    const double result = y.hi + (y.lo + small.lo);
    if (n > 1023) { /* 2^1024 is no number of its own */
        return (result * 0x1p+1023) * 2.0;
    }
    return result * lk_f64_from_bits((uint64_t)(n + 1023) << 52);
}

double lk_log(double x) {
    const uint64_t bits = lk_f64_bits(x);
    if (bits << 1 == 0) {
        return lk_f64_from_bits(0xfff0000000000000u);
    }
    if (bits >= 0x7ff0000000000000u) { /* +inf, NaN, or below 0 */
        return bits == 0x7ff0000000000000u ? x : lk_f64_from_bits(0x7ff8000000000000u);
    }
    const pair y = log_pair(x);
    return y.hi + y.lo;
}

double lk_exp2(double x) {
    if (x < -1022.0) {
        return 0.0;
    }
    if (x >= 1024.0) {
        return lk_f64_from_bits(0x7ff0000000000000u);
    }
    if (x != x) {
        return x;
    }
    const double n = round_int(x);
    return exp_scaled(multiply((pair){x - n, 0.0}, ln2), (int64_t)n);
}

double lk_pow(double x, double y) {
    const double max = 0x1.fffffffffffffp+1023;
    if (!(x > 0.0 && x <= max && y >= -max && y <= max)) {
        return lk_f64_from_bits(0x7ff8000000000000u);
    }
    const double limit = 0x1p+900; /* |ln x| < 745 < 2^10: keeps the exact product in range */
    y = y > limit ? limit : y < -limit ? -limit : y;
    const pair z = multiply(log_pair(x), (pair){y, 0.0});
    if (z.hi < -708.3964185322641) { /* 2^-1022 */
        return 0.0;
    }
    if (z.hi >= 709.782712893384) { /* 2^1024 */
        return lk_f64_from_bits(0x7ff0000000000000u);
    }
    const double n = round_int(z.hi * 0x1.71547652b82fep+0);
    const pair back = multiply((pair){-n, 0.0}, ln2);
    return exp_scaled(add(z, back), (int64_t)n);
}

/* sin r for |r| <= 0.79: r - r^3/3! + ... + r^17/17!, and the part of r.lo. */
static double sin_reduced(pair r) {
    static const double coefficient[] = {
        -1.0 / 6.0,        1.0 / 120.0,        -1.0 / 5040.0,       1.0 / 362880.0,
        -1.0 / 39916800.0, 1.0 / 6227020800.0, -1.0 / 1307674368e3, 1.0 / 355687428096e3};
    const double z = r.hi * r.hi;
    size_t i = sizeof coefficient / sizeof coefficient[0] - 1;
    double series = coefficient[i];
    while (i > 0) {
        i--;
        series = series * z + coefficient[i];
    }
    return r.hi + ((r.hi * z) * series + r.lo * (1.0 - 0.5 * z));
}

/* cos r for |r| <= 0.79: 1 - r^2/2! + ... + r^16/16!, and the part of r.lo. */
static double cos_reduced(pair r) {
    static const double coefficient[] = {
        1.0 / 24.0,        -1.0 / 720.0,         1.0 / 40320.0,      -1.0 / 3628800.0,
        1.0 / 479001600.0, -1.0 / 87178291200.0, 1.0 / 20922789888e3};
    const double z = r.hi * r.hi;
    size_t i = sizeof coefficient / sizeof coefficient[0] - 1;
    double series = coefficient[i];
    while (i > 0) {
        i--;
        series = series * z + coefficient[i];
    }
    const pair head = sum_exact(1.0, -0.5 * z);
    return head.hi + (head.lo + ((z * z) * series - r.hi * r.lo));
}

/* pi/2 in three parts of 25 bits, whose products with |n| < 2^28 are exact, and a fourth. The first
 * difference is exact too, the next two keep their errors. */
static pair reduce(double x, double n) {
    const double first = x - n * 0x1.921fb5p+0;
    const pair second = sum_exact(first, n * -0x1.110b46p-26);
    const pair third = sum_exact(second.hi, n * -0x1.1a6263p-54);
    return sum_exact(third.hi, (second.lo + third.lo) - n * 0x1.8a2e03707344ap-81);
}

void lk_sincos(double x, double *sin_x, double *cos_x) {
    if (!(x >= -0x1p+28 && x <= 0x1p+28)) {
        *sin_x = lk_f64_from_bits(0x7ff8000000000000u);
        *cos_x = *sin_x;
        return;
    }
    const double n = round_int(x * 0x1.45f306dc9c883p-1); /* 2/pi */
    const pair r = reduce(x, n);
    const double s = sin_reduced(r);
    const double c = cos_reduced(r);
    switch ((uint64_t)(int64_t)n & 3u) {
    case 0:
        *sin_x = s;
        *cos_x = c;
        break;
    case 1:
        *sin_x = c;
        *cos_x = -s;
        break;
    case 2:
        *sin_x = -s;
        *cos_x = -c;
        break;
    default:
        *sin_x = -c;
        *cos_x = s;
        break;
    }
}
