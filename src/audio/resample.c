/* resample.c - see resample.h.
 *
 * Output i stands at the input position i * rate / 16000. Input k has the weight c * T(u), where c
 * is the cutoff as a part of the input's Nyquist frequency and u the distance of the two in zero
 * crossings of the sinc, c * |k - i * rate / 16000|. T is tabled and interpolated by cubics, so a
 * weight depends on the distance alone, an exact integer over 16000: those of equal phases are
 * computed once where there is room, and have the same bits where there is none. */
#include "audio/resample.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "lk/audio.h"
#include "ops/math.h"

enum {
    CROSSINGS = 64, /* zero crossings of the sinc on each side */
    STEPS = 256,    /* table entries for each */
    N_TABLE = CROSSINGS * STEPS,
    PAD = 3, /* zeros behind the table, for the cubics */
    PARTIALS = 8,
    MAX_CACHED = 1 << 20 /* weights that are kept */
};
static const double cutoff = 0.955;
static const double beta = 8.96; /* of the Kaiser window: 90 dB */

typedef struct resampler {
    const double *table; /* T at j / STEPS, N_TABLE + PAD entries, T(0) = 1 */
    const float *in;     /* with n_taps zeros on each side of the samples */
    int64_t rate;
    double gain;    /* c */
    double scale;   /* table entries per 1 / 16000 of an input sample */
    int64_t n_taps; /* weights of an output, a multiple of PARTIALS */
    int64_t half;   /* the first weight is of the input floor(position) - half + 1 */
    int64_t n_phases;
    double *weights; /* [n_phases or 1, n_taps] */
    bool is_cached;
} resampler;

static int64_t common_divisor(int64_t a, int64_t b) {
    while (b != 0) {
        const int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* The Bessel function I0 by its series. */
static double bessel_i0(double x) {
    enum { TERMS = 32 };
    const double q = x * x * 0.25;
    double term = 1.0;
    double total = 1.0;
    for (int j = 1; j < TERMS; j++) {
        term = term * q / (double)(j * j);
        total = total + term;
    }
    return total;
}

static void build_table(double *table) {
    const double pi = 0x1.921fb54442d18p+1;
    const double scale = 1.0 / bessel_i0(beta);
    double sines[STEPS];
    for (int j = 0; j < STEPS; j++) {
        double unused;
        lk_sincos((double)j * pi / (double)STEPS, &sines[j], &unused);
    }
    table[0] = 1.0;
    for (int j = 1; j < N_TABLE; j++) {
        const double sine = (j / STEPS) % 2 == 0 ? sines[j % STEPS] : -sines[j % STEPS];
        const double x = (double)j / (double)N_TABLE;
        const double window = bessel_i0(beta * sqrt(1.0 - x * x)) * scale;
        table[j] = sine / ((double)j * pi / (double)STEPS) * window;
    }
    for (int j = 0; j < PAD; j++) {
        table[N_TABLE + j] = 0.0;
    }
}

/* T at u >= 0, in table entries, by the cubic through the two entries on each side. */
static double table_at(const double *table, double u) {
    if (u >= (double)N_TABLE) {
        return 0.0;
    }
    const int64_t j = (int64_t)u;
    const double f = u - (double)j;
    const double before = table[j == 0 ? 1 : j - 1]; /* T is even */
    const double y0 = table[j];
    const double y1 = table[j + 1];
    const double y2 = table[j + 2];
    const double c1 = (y1 - before * (1.0 / 3.0)) - (y0 * 0.5 + y2 * (1.0 / 6.0));
    const double c2 = (before + y1) * 0.5 - y0;
    const double c3 = (y2 - before) * (1.0 / 6.0) + (y0 - y1) * 0.5;
    return ((c3 * f + c2) * f + c1) * f + y0;
}

/* The weights of the outputs with this remainder of i * rate by 16000. */
static void fill_weights(const resampler *r, int64_t remainder, double *weights) {
    for (int64_t t = 0; t < r->n_taps; t++) {
        const int64_t d = LK_AUDIO_RATE * (t - r->half + 1) - remainder;
        const double u = (double)(d < 0 ? -d : d) * r->scale;
        weights[t] = table_at(r->table, u) * r->gain;
    }
}

static float output_at(const resampler *r, int64_t i) {
    const int64_t position = i * r->rate / LK_AUDIO_RATE;
    const double *weights = r->weights;
    if (r->is_cached) {
        weights += i % r->n_phases * r->n_taps;
    } else {
        fill_weights(r, i * r->rate % LK_AUDIO_RATE, r->weights);
    }
    const float *x = r->in + r->n_taps + position - r->half + 1;
    double p[PARTIALS] = {0.0};
    for (int64_t t = 0; t < r->n_taps; t += PARTIALS) {
        for (int j = 0; j < PARTIALS; j++) {
            p[j] = p[j] + (double)x[t + j] * weights[t + j];
        }
    }
    for (int n = PARTIALS / 2; n > 0; n /= 2) {
        for (int j = 0; j < n; j++) {
            p[j] = p[j] + p[j + n];
        }
    }
    return (float)p[0];
}

uint64_t lk_resampled_length(uint64_t n, uint32_t rate) {
    return (n * LK_AUDIO_RATE + rate - 1) / rate;
}

lk_status lk_resample(const float *in, uint64_t n, uint32_t rate, float *out, const lk_allocator *a,
                      lk_error *err) {
    resampler r = {.rate = rate};
    r.gain = rate > LK_AUDIO_RATE ? cutoff * (double)LK_AUDIO_RATE / (double)rate : cutoff;
    r.scale = r.gain * (double)STEPS / (double)LK_AUDIO_RATE;
    r.half = (int64_t)((double)CROSSINGS / r.gain) + 1;
    r.n_taps = (2 * r.half + PARTIALS - 1) / PARTIALS * PARTIALS;
    r.n_phases = LK_AUDIO_RATE / common_divisor(LK_AUDIO_RATE, rate);
    r.is_cached = r.n_phases * r.n_taps <= MAX_CACHED;
    const size_t n_weights = (size_t)((r.is_cached ? r.n_phases : 1) * r.n_taps);
    const size_t n_in = (size_t)n + 3 * (size_t)r.n_taps;
    double *table = lk_alloc_array(a, N_TABLE + PAD, sizeof *table);
    float *padded = lk_alloc_array_zero(a, n_in, sizeof *padded);
    r.weights = lk_alloc_array(a, n_weights, sizeof *r.weights);
    lk_status status = LK_OK;
    if (table == NULL || padded == NULL || r.weights == NULL) {
        status = lk_fail_nomem(err, "the resampler",
                               n_in * sizeof *padded + n_weights * sizeof *r.weights);
    } else {
        build_table(table);
        memcpy(padded + r.n_taps, in, (size_t)n * sizeof *in);
        r.table = table;
        r.in = padded;
        for (int64_t i = 0; r.is_cached && i < r.n_phases; i++) {
            fill_weights(&r, i * r.rate % LK_AUDIO_RATE, r.weights + i * r.n_taps);
        }
        const int64_t n_out = (int64_t)lk_resampled_length(n, rate);
        for (int64_t i = 0; i < n_out; i++) {
            out[i] = output_at(&r, i);
        }
    }
    lk_free_array(a, r.weights, n_weights, sizeof *r.weights);
    lk_free_array(a, padded, n_in, sizeof *padded);
    lk_free_array(a, table, N_TABLE + PAD, sizeof *table);
    return status;
}
