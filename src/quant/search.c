/* search.c - see search.h. Loops make terms first and add them afterwards, so that compilers
 * find vectors in them without changing the order of a sum. */
#include "quant/search.h"

enum { N_REFINE = 4 };

/* The terms' sum, in four partial sums. */
static float sum_of(const float *terms, uint32_t n) {
    float p[4] = {0};
    for (uint32_t k = 0; k < n; k += 4) {
        p[0] += terms[k];
        p[1] += terms[k + 1];
        p[2] += terms[k + 2];
        p[3] += terms[k + 3];
    }
    return (p[0] + p[2]) + (p[1] + p[3]);
}

static float clamped(float x, float lo, float hi) {
    const float above = x < lo ? lo : x;
    return above > hi ? hi : above;
}

/* Integers as floats: q = nearest(x * inverse + shift) in lo .. hi. */
static void round_all(const float *x, uint32_t n, float inverse, float shift, float lo, float hi,
                      float *restrict q) {
    for (uint32_t k = 0; k < n; k++) {
        q[k] = (clamped(x[k] * inverse + shift, lo, hi) + 12582912.0f) - 12582912.0f;
    }
}

static float loss_of(const float *x, const float *w, uint32_t n, float scale, float offset,
                     const float *q) {
    float t[LK_SEARCH_MAX_ELEMS] = {0};
    for (uint32_t k = 0; k < n; k++) {
        const float e = scale * q[k] + offset - x[k];
        t[k] = w[k] * e * e;
    }
    return sum_of(t, n);
}

lk_search_extent lk_search_prepare(const float *in, uint32_t n, float *x) {
    lk_search_extent extent = LK_SEARCH_ZERO;
    for (uint32_t k = 0; k < n; k++) {
        const float magnitude = in[k] < 0.0f ? -in[k] : in[k];
        if (!(magnitude < 0x1p30f)) {
            return LK_SEARCH_TOO_LARGE;
        }
        x[k] = magnitude < 0x1p-40f ? 0.0f : in[k];
        extent = x[k] == 0.0f ? extent : LK_SEARCH_FIT;
    }
    return extent;
}

float lk_search_round(const float *x, const float *w, uint32_t n, float scale, float offset,
                      int32_t lo, int32_t hi, int8_t *q) {
    float integers[LK_SEARCH_MAX_ELEMS];
    const float inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
    round_all(x, n, inverse, -offset * inverse, (float)lo, (float)hi, integers);
    for (uint32_t k = 0; k < n; k++) {
        q[k] = (int8_t)integers[k];
    }
    return loss_of(x, w, n, scale, offset, integers);
}

/* The best scale for given integers, and how much it gains over all zero: sum(w x q)^2 / sum(w q
 * q).
 */
static float solve_scale(const float *x, const float *w, uint32_t n, const float *q, float *gain) {
    float xq[LK_SEARCH_MAX_ELEMS] = {0};
    float qq[LK_SEARCH_MAX_ELEMS] = {0};
    for (uint32_t k = 0; k < n; k++) {
        const float wq = w[k] * q[k];
        xq[k] = wq * x[k];
        qq[k] = wq * q[k];
    }
    const float sum_xq = sum_of(xq, n);
    const float sum_qq = sum_of(qq, n);
    if (!(sum_qq > 0.0f)) {
        *gain = 0.0f;
        return 0.0f;
    }
    const float scale = sum_xq / sum_qq;
    *gain = scale * sum_xq;
    return scale;
}

float lk_search_scale(const float *x, const float *w, uint32_t n, int32_t lo, int32_t hi) {
    float extreme = 0.0f; /* the x that is largest in magnitude */
    for (uint32_t k = 0; k < n; k++) {
        const float bound = extreme < 0.0f ? -extreme : extreme;
        if (x[k] > bound || x[k] < -bound) {
            extreme = x[k];
        }
    }
    if (extreme == 0.0f) {
        return 0.0f;
    }
    float q[LK_SEARCH_MAX_ELEMS];
    float best_scale = 0.0f;
    float best_gain = 0.0f;
    /* The extreme may land on either end of the range, which reach unequally far. */
    for (int end = 0; end < 2; end++) {
        const float reach = (float)(end == 0 ? lo : hi);
        for (int step = -10; step <= 10; step++) {
            const float target = end == 0 ? reach - 0.1f * (float)step : reach + 0.1f * (float)step;
            float gain;
            round_all(x, n, target / extreme, 0.0f, (float)lo, (float)hi, q);
            const float scale = solve_scale(x, w, n, q, &gain);
            if (gain > best_gain) {
                best_gain = gain;
                best_scale = scale;
            }
        }
    }
    for (int i = 0; i < N_REFINE && best_scale != 0.0f; i++) {
        float gain;
        round_all(x, n, 1.0f / best_scale, 0.0f, (float)lo, (float)hi, q);
        const float scale = solve_scale(x, w, n, q, &gain);
        if (!(gain > best_gain)) {
            break;
        }
        best_gain = gain;
        best_scale = scale;
    }
    return best_scale;
}

typedef struct line {
    float scale;
    float offset;
} line;

/* The best scale and offset for given integers (weighted regression of x on q). The integers are
 * taken from their mean, so that nothing cancels. */
static line solve_line(const float *x, const float *w, uint32_t n, const float *q,
                       bool offset_below) {
    float wx[LK_SEARCH_MAX_ELEMS] = {0};
    float wq[LK_SEARCH_MAX_ELEMS] = {0};
    for (uint32_t k = 0; k < n; k++) {
        wx[k] = w[k] * x[k];
        wq[k] = w[k] * q[k];
    }
    const float sum_w = sum_of(w, n);
    const float mean_x = sum_w > 0.0f ? sum_of(wx, n) / sum_w : 0.0f;
    const float mean_q = sum_w > 0.0f ? sum_of(wq, n) / sum_w : 0.0f;
    float xq[LK_SEARCH_MAX_ELEMS] = {0};
    float qq[LK_SEARCH_MAX_ELEMS] = {0};
    for (uint32_t k = 0; k < n; k++) {
        const float dq = q[k] - mean_q;
        xq[k] = w[k] * dq * (x[k] - mean_x);
        qq[k] = w[k] * dq * dq;
    }
    const float sum_qq = sum_of(qq, n);
    line best = {sum_qq > 0.0f ? sum_of(xq, n) / sum_qq : 0.0f, 0.0f};
    best.offset = mean_x - best.scale * mean_q;
    if (offset_below && best.offset > 0.0f) {
        float gain;
        best.scale = solve_scale(x, w, n, q, &gain);
        best.offset = 0.0f;
    }
    if (best.scale < 0.0f) {
        best.scale = 0.0f;
        best.offset = offset_below && mean_x > 0.0f ? 0.0f : mean_x;
    }
    return best;
}

float lk_search_scale_offset(const float *x, const float *w, uint32_t n, int32_t hi,
                             bool offset_below, float *offset) {
    float least = x[0];
    float most = x[0];
    for (uint32_t k = 1; k < n; k++) {
        least = x[k] < least ? x[k] : least;
        most = x[k] > most ? x[k] : most;
    }
    if (offset_below && least > 0.0f) {
        least = 0.0f;
    }
    *offset = least;
    if (!(most > least)) { /* all equal, and not above 0 where the offset must not be */
        return 0.0f;
    }
    const float top = (float)hi;
    float q[LK_SEARCH_MAX_ELEMS];
    line best = {(most - least) / top, least};
    round_all(x, n, 1.0f / best.scale, -least / best.scale, 0.0f, top, q);
    float best_loss = loss_of(x, w, n, best.scale, best.offset, q);
    for (int step = -10; step <= 10; step++) {
        const float inverse = (top + 0.1f * (float)step) / (most - least);
        round_all(x, n, inverse, -least * inverse, 0.0f, top, q);
        const line found = solve_line(x, w, n, q, offset_below);
        const float loss = loss_of(x, w, n, found.scale, found.offset, q);
        if (loss < best_loss) {
            best_loss = loss;
            best = found;
        }
    }
    for (int i = 0; i < N_REFINE && best.scale > 0.0f; i++) {
        round_all(x, n, 1.0f / best.scale, -best.offset / best.scale, 0.0f, top, q);
        const line found = solve_line(x, w, n, q, offset_below);
        const float loss = loss_of(x, w, n, found.scale, found.offset, q);
        if (!(loss < best_loss)) {
            break;
        }
        best_loss = loss;
        best = found;
    }
    *offset = best.offset;
    return best.scale;
}
