/* dft400.c - see dft400.h. The passes are Stockham's: in pass p of radix R the array holds, for
 * each residue r, the transforms of length l of every (200 / l)-th element; the pass joins R of
 * them into transforms of length l * R. The order comes out right by itself.
 *
 * Every operation is one of binary64, rounded once, in the order written here. */
#include "audio/dft400.h"

#include "ops/math.h"

typedef struct complex64 {
    double re;
    double im;
} complex64;

void lk_dft400_init(lk_dft400 *t) {
    const double two_pi = 0x1.921fb54442d18p+2;
    for (int k = 0; k < LK_DFT; k++) {
        lk_sincos((double)k * two_pi / (double)LK_DFT, &t->s[k], &t->c[k]);
    }
    /* What is known exactly. */
    t->c[LK_DFT / 4] = t->c[3 * LK_DFT / 4] = 0.0;
    t->s[0] = t->s[LK_DFT / 2] = 0.0;
    t->s[3 * LK_DFT / 4] = t->c[LK_DFT / 2] = -1.0;
    t->c[0] = t->s[LK_DFT / 4] = 1.0;
}

/* a * e^(-2 pi i k / 400). */
static complex64 turned(complex64 a, const lk_dft400 *t, int k) {
    const double c = t->c[k];
    const double s = t->s[k];
    return (complex64){a.re * c + a.im * s, a.im * c - a.re * s};
}

static complex64 sum(complex64 a, complex64 b) {
    return (complex64){a.re + b.re, a.im + b.im};
}

static complex64 difference(complex64 a, complex64 b) {
    return (complex64){a.re - b.re, a.im - b.im};
}

/* a - i b and a + i b. */
static complex64 minus_i(complex64 a, complex64 b) {
    return (complex64){a.re + b.im, a.im - b.re};
}

static complex64 plus_i(complex64 a, complex64 b) {
    return (complex64){a.re - b.im, a.im + b.re};
}

static complex64 weighted(double x, complex64 a, double y, complex64 b) {
    return (complex64){x * a.re + y * b.re, x * a.im + y * b.im};
}

/* The transforms of 2, 4 and 5 points, in place. */
static void join2(complex64 *z) {
    const complex64 a = z[0];
    z[0] = sum(a, z[1]);
    z[1] = difference(a, z[1]);
}

static void join4(complex64 *z) {
    const complex64 a = sum(z[0], z[2]);
    const complex64 b = sum(z[1], z[3]);
    const complex64 c = difference(z[0], z[2]);
    const complex64 d = difference(z[1], z[3]);
    z[0] = sum(a, b);
    z[1] = minus_i(c, d);
    z[2] = difference(a, b);
    z[3] = plus_i(c, d);
}

static void join5(const lk_dft400 *t, complex64 *z) {
    const double c1 = t->c[80];
    const double c2 = t->c[160];
    const double s1 = t->s[80];
    const double s2 = t->s[160];
    const complex64 a = sum(z[1], z[4]);
    const complex64 b = sum(z[2], z[3]);
    const complex64 c = difference(z[1], z[4]);
    const complex64 d = difference(z[2], z[3]);
    const complex64 m1 = sum(z[0], weighted(c1, a, c2, b));
    const complex64 m2 = sum(z[0], weighted(c2, a, c1, b));
    const complex64 n1 = weighted(s1, c, s2, d);
    const complex64 n2 = weighted(s2, c, -s1, d);
    z[0] = sum(z[0], sum(a, b));
    z[1] = minus_i(m1, n1);
    z[2] = minus_i(m2, n2);
    z[3] = plus_i(m2, n2);
    z[4] = plus_i(m1, n1);
}

/* One pass: transforms of length l become ones of length l * radix. */
static void pass(const lk_dft400 *t, int l, int radix, const complex64 *from, complex64 *to) {
    const int m = LK_DFT_HALF / (l * radix);
    for (int u = 0; u < l; u++) {
        for (int r = 0; r < m; r++) {
            complex64 z[5] = {{0.0, 0.0}};
            z[0] = from[u * m * radix + r];
            for (int q = 1; q < radix; q++) {
                z[q] = turned(from[u * m * radix + r + m * q], t, 2 * q * u * m);
            }
            if (radix == 2) {
                join2(z);
            } else if (radix == 4) {
                join4(z);
            } else {
                join5(t, z);
            }
            for (int v = 0; v < radix; v++) {
                to[(u + l * v) * m + r] = z[v];
            }
        }
    }
}

void lk_dft400_power(const lk_dft400 *t, const double x[LK_DFT], double power[LK_DFT_HALF + 1]) {
    complex64 a[LK_DFT_HALF];
    complex64 b[LK_DFT_HALF];
    for (int n = 0; n < LK_DFT_HALF; n++) {
        a[n] = (complex64){x[2 * n], x[2 * n + 1]};
    }
    pass(t, 1, 4, a, b);
    pass(t, 4, 5, b, a);
    pass(t, 20, 5, a, b);
    pass(t, 100, 2, b, a);
    for (int k = 0; k <= LK_DFT_HALF; k++) {
        /* E = Z[k] + conj Z[200 - k] is twice the transform of the even elements, and
         * O = -i (Z[k] - conj Z[200 - k]) twice that of the odd ones. */
        const complex64 p = a[k % LK_DFT_HALF];
        const complex64 q = a[(LK_DFT_HALF - k) % LK_DFT_HALF];
        const complex64 even = {p.re + q.re, p.im - q.im};
        const complex64 odd = {p.im + q.im, q.re - p.re};
        const complex64 y = sum(even, turned(odd, t, k));
        power[k] = (y.re * y.re + y.im * y.im) * 0.25;
    }
}
