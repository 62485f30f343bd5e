/* log_mel.c - see log_mel.h. */
#include "audio/log_mel.h"

#include "audio/dft400.h"
#include "base/bytes.h"
#include "base/error.h"
#include "ops/math.h"

/* What a call computes once. A filter is a triangle: its weights that are not 0 stand together. */
typedef struct mel_tables {
    lk_dft400 dft;
    double window[LK_MEL_FFT];
    int first[LK_MEL_MAX]; /* bin of the first weight of a filter */
    int n[LK_MEL_MAX];
    int start[LK_MEL_MAX];           /* where its weights begin */
    double weights[2 * LK_MEL_BINS]; /* no bin is in more than two filters */
} mel_tables;

double lk_log10(double x) {
    /* x = m * 2^k with m near 1; ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| <= 0.1716; the next
     * term of the series is below 2^-61 of the first. */
    enum { TERMS = 11 };
    const uint64_t bits = lk_f64_bits(x);
    int k = (int)(bits >> 52) - 1023;
    double m = lk_f64_from_bits((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
    if (m > 0x1.6a09e667f3bcdp+0) { /* sqrt 2 */
        m = m * 0.5;
        k++;
    }
    const double s = (m - 1.0) / (m + 1.0);
    const double z = s * s;
    double series = 1.0 / (double)(2 * TERMS + 1);
    for (int j = TERMS - 1; j > 0; j--) {
        series = series * z + 1.0 / (double)(2 * j + 1);
    }
    const double log_m = s + s * (z * series); /* half of ln m */
    return (double)k * 0x1.34413509f79ffp-2    /* log10 2 */
           + log_m * 0x1.bcb7b1526e50ep-1;     /* 2 / ln 10 */
}

/* Slaney's scale: 200 / 3 Hz a mel up to 1000 Hz, then a factor of 6.4 in 27 mels. */
static double mel_to_hz(double mel) {
    if (mel < 15.0) {
        return mel * 200.0 / 3.0;
    }
    return 1000.0 * lk_pow(6.4, (mel - 15.0) / 27.0);
}

void lk_mel_filters(uint32_t n_mels, double *weights) {
    const double mel_max = 15.0 + 27.0 * lk_log(8.0) / lk_log(6.4); /* of 8000 Hz */
    const double step = mel_max / (double)(n_mels + 1);
    for (uint32_t i = 0; i < n_mels; i++) {
        const double low = mel_to_hz(step * (double)i);
        const double centre = mel_to_hz(step * (double)(i + 1));
        const double high = i + 1 == n_mels ? 8000.0 : mel_to_hz(step * (double)(i + 2));
        const double area = 2.0 / (high - low); /* every filter has the same area */
        for (int k = 0; k < LK_MEL_BINS; k++) {
            const double hz = (double)k * 40.0;
            const double up = (hz - low) / (centre - low);
            const double down = (high - hz) / (high - centre);
            const double height = up < down ? up : down;
            weights[(size_t)i * LK_MEL_BINS + (size_t)k] = height > 0.0 ? height * area : 0.0;
        }
    }
}

static lk_status build_tables(uint32_t n_mels, mel_tables *t, const lk_allocator *a,
                              lk_error *err) {
    lk_dft400_init(&t->dft);
    for (int n = 0; n < LK_MEL_FFT; n++) {
        t->window[n] = 0.5 - 0.5 * t->dft.c[n];
    }
    const size_t n_weights = (size_t)n_mels * LK_MEL_BINS;
    double *all = lk_alloc_array(a, n_weights, sizeof *all);
    if (all == NULL) {
        return lk_fail_nomem(err, "the mel filters", n_weights * sizeof *all);
    }
    lk_mel_filters(n_mels, all);
    int n_used = 0;
    for (uint32_t i = 0; i < n_mels; i++) {
        t->first[i] = 0;
        t->n[i] = 0;
        t->start[i] = n_used;
        for (int k = 0; k < LK_MEL_BINS; k++) {
            const double w = all[(size_t)i * LK_MEL_BINS + (size_t)k];
            if (w > 0.0 && n_used < 2 * LK_MEL_BINS) {
                t->first[i] = t->n[i] == 0 ? k : t->first[i];
                t->weights[n_used++] = w;
                t->n[i]++;
            }
        }
    }
    lk_free_array(a, all, n_weights, sizeof *all);
    return LK_OK;
}

/* Element i of the padded signal: mirrored at both ends, zero behind the clip. */
static double padded(const float *samples, int64_t n, int64_t i) {
    i = i < 0 ? -i : i;
    i = i >= LK_MEL_PADDED ? 2 * (int64_t)(LK_MEL_PADDED - 1) - i : i;
    return i < n ? (double)samples[i] : 0.0;
}

/* log10 of the mel energies of the frame, rounded to binary32. */
static void mel_frame(const mel_tables *t, const float *samples, int64_t n, int64_t frame,
                      uint32_t n_mels, float *out) {
    double x[LK_MEL_FFT];
    double power[LK_MEL_BINS];
    const int64_t first = frame * LK_MEL_HOP - LK_MEL_FFT / 2;
    for (int i = 0; i < LK_MEL_FFT; i++) {
        x[i] = padded(samples, n, first + i) * t->window[i];
    }
    lk_dft400_power(&t->dft, x, power);
    for (uint32_t m = 0; m < n_mels; m++) {
        const double *w = t->weights + t->start[m];
        double energy = 0.0;
        for (int k = 0; k < t->n[m]; k++) {
            energy = energy + power[t->first[m] + k] * w[k];
        }
        out[m] = (float)lk_log10(energy > 1e-10 ? energy : 1e-10);
    }
}

static float largest(const float *values, size_t n, float so_far) {
    for (size_t i = 0; i < n; i++) {
        so_far = values[i] > so_far ? values[i] : so_far;
    }
    return so_far;
}

lk_status lk_log_mel(const float *samples, uint64_t n, uint32_t n_mels, float *features,
                     const lk_allocator *a, lk_error *err) {
    mel_tables *t = lk_alloc(a, sizeof *t);
    if (t == NULL) {
        return lk_fail_nomem(err, "the tables of the features", sizeof *t);
    }
    const lk_status status = build_tables(n_mels, t, a, err);
    if (status != LK_OK) {
        lk_free(a, t, sizeof *t);
        return status;
    }
    const int64_t n_frames = (int64_t)((n + LK_MEL_HOP - 1) / LK_MEL_HOP);
    float max = -10.0f; /* of the zeros behind the clip, and the least that there is */
    for (int64_t f = 0; f < n_frames; f++) {
        float *out = features + f * (int64_t)n_mels;
        mel_frame(t, samples, (int64_t)n, f, n_mels, out);
        max = largest(out, n_mels, max);
    }
    /* Two frames behind the last one still touch the clip; they count for the maximum. */
    for (int64_t f = n_frames; f < n_frames + 2 && f < LK_MEL_PADDED / LK_MEL_HOP; f++) {
        float out[LK_MEL_MAX];
        mel_frame(t, samples, (int64_t)n, f, n_mels, out);
        max = largest(out, n_mels, max);
    }
    const float floor = max - 8.0f;
    for (int64_t i = 0; i < n_frames * (int64_t)n_mels; i++) {
        const float y = features[i] > floor ? features[i] : floor;
        features[i] = (y + 4.0f) * 0.25f;
    }
    lk_free(a, t, sizeof *t);
    return LK_OK;
}
