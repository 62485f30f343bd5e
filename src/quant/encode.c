/* encode.c - see encode.h. The search (search.h) gives real scales; here they are rounded to what a
 * block holds, and the integers are rounded again under the scales that decoding will use. */
#include "quant/encode.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "quant/search.h"

enum { F16_INFINITY = 0x7c00 };

static bool is_finite16(uint16_t code) {
    return (code & 0x7c00u) != 0x7c00u;
}

/* The binary16 code of a scale. A subnormal one is rounded away from 0: the integers can make up
 * for a scale that is too large, not for one that is too small. */
static uint16_t scale_code(float scale) {
    const uint16_t code = lk_f32_to_f16(scale);
    const bool is_subnormal = (code & 0x7c00u) == 0;
    return is_subnormal && fabsf(lk_f16_to_f32(code)) < fabsf(scale) ? (uint16_t)(code + 1) : code;
}

/* Importance of a value: large ones weigh more, and all the more in a group of small ones. */
static void weigh(const float *x, float *w) {
    float squares = 0.0f;
    for (uint32_t k = 0; k < 32; k++) {
        squares += x[k] * x[k];
    }
    const float typical = sqrtf(squares / 32.0f);
    for (uint32_t k = 0; k < 32; k++) {
        w[k] = typical > 0.0f ? typical + fabsf(x[k]) : 1.0f;
    }
}

void lk_encode_scale32(const float *in, int32_t lo, int32_t hi, lk_encoded32 *out) {
    float x[32];
    float w[32] = {0};
    memset(out, 0, sizeof *out);
    const lk_search_extent extent = lk_search_prepare(in, 32, x);
    if (extent == LK_SEARCH_FIT) {
        weigh(x, w);
        out->d = scale_code(lk_search_scale(x, w, 32, lo, hi));
    }
    if (extent == LK_SEARCH_TOO_LARGE || !is_finite16(out->d)) {
        out->d = F16_INFINITY;
        return;
    }
    (void)lk_search_round(x, w, 32, lk_f16_to_f32(out->d), 0.0f, lo, hi, out->q);
}

void lk_encode_offset32(const float *in, int32_t hi, lk_encoded32 *out) {
    float x[32];
    float w[32] = {0};
    memset(out, 0, sizeof *out);
    const lk_search_extent extent = lk_search_prepare(in, 32, x);
    if (extent == LK_SEARCH_FIT) {
        float offset;
        weigh(x, w);
        out->d = scale_code(lk_search_scale_offset(x, w, 32, hi, false, &offset));
        out->offset = lk_f32_to_f16(offset);
    }
    if (extent == LK_SEARCH_TOO_LARGE || !is_finite16(out->d) || !is_finite16(out->offset)) {
        out->d = F16_INFINITY;
        out->offset = 0;
        return;
    }
    (void)lk_search_round(x, w, 32, lk_f16_to_f32(out->d), lk_f16_to_f32(out->offset), 0, hi,
                          out->q);
}

enum { N_GROUPS = 8, N_GROUP = 32, MAX_SCALE = 63 };

/* What an encoder works on: values, importance, and the integers so far. */
typedef struct k_work {
    float x[256];
    float w[256];
    float scale[N_GROUPS]; /* real scales and minima of the groups */
    float min[N_GROUPS];
    int32_t hi;
} k_work;

static int32_t nearest_in(float x, int32_t lo, int32_t hi) {
    if (!(x > (float)lo)) {
        return lo;
    }
    return x >= (float)hi ? hi : lk_search_nearest(x);
}

/* For one group the integer scale and minimum, near the real ones, that lose least under d and
 * d_min. */
static float choose_group(const k_work *work, uint32_t g, float d, float d_min, lk_encoded_k *out) {
    const float *x = work->x + (size_t)g * N_GROUP;
    const float *w = work->w + (size_t)g * N_GROUP;
    const int32_t scale = nearest_in(d > 0.0f ? work->scale[g] / d : 0.0f, 0, MAX_SCALE);
    const int32_t min = nearest_in(d_min > 0.0f ? work->min[g] / d_min : 0.0f, 0, MAX_SCALE);
    float best = -1.0f;
    for (int32_t s = scale - 1; s <= scale + 1; s++) {
        for (int32_t m = min - 1; m <= min + 1; m++) {
            if (s < 0 || s > MAX_SCALE || m < 0 || m > MAX_SCALE) {
                continue;
            }
            int8_t q[N_GROUP];
            const float loss =
                lk_search_round(x, w, N_GROUP, d * (float)s, -d_min * (float)m, 0, work->hi, q);
            if (best < 0.0f || loss < best) {
                best = loss;
                out->scale[g] = (uint8_t)s;
                out->min[g] = (uint8_t)m;
                memcpy(out->q + (size_t)g * N_GROUP, q, sizeof q);
            }
        }
    }
    return best;
}

/* All groups under d and d_min. Returns what the block loses. */
static float choose_groups(const k_work *work, float d, float d_min, lk_encoded_k *out) {
    out->d = scale_code(d);
    out->d_min = scale_code(d_min);
    if (!is_finite16(out->d) || !is_finite16(out->d_min)) {
        return INFINITY;
    }
    float loss = 0.0f;
    for (uint32_t g = 0; g < N_GROUPS; g++) {
        loss += choose_group(work, g, lk_f16_to_f32(out->d), lk_f16_to_f32(out->d_min), out);
    }
    return loss;
}

/* The best real d and d_min under the integers of the block: two normal equations over
 * u = scale * q and v = -min. In binary64: the sums cancel. */
static void solve_block(const k_work *work, const lk_encoded_k *from, float *d, float *d_min) {
    double uu = 0.0;
    double uv = 0.0;
    double vv = 0.0;
    double xu = 0.0;
    double xv = 0.0;
    for (uint32_t k = 0; k < 256; k++) {
        const double w = (double)work->w[k];
        const double x = (double)work->x[k];
        const uint32_t g = k / N_GROUP;
        const double u = (double)(from->scale[g] * from->q[k]);
        const double v = -(double)from->min[g];
        uu += w * u * u;
        uv += w * u * v;
        vv += w * v * v;
        xu += w * x * u;
        xv += w * x * v;
    }
    const double determinant = uu * vv - uv * uv;
    if (determinant > 1e-9 * uu * vv) {
        *d = (float)((xu * vv - xv * uv) / determinant);
        *d_min = (float)((xv * uu - xu * uv) / determinant);
    } else if (uu > 0.0) {
        *d = (float)(xu / uu);
    }
}

void lk_encode_k(const float *in, int32_t hi, lk_encoded_k *out) {
    k_work work = {.hi = hi};
    memset(out, 0, sizeof *out);
    const lk_search_extent extent = lk_search_prepare(in, 256, work.x);
    if (extent != LK_SEARCH_FIT) {
        out->d = extent == LK_SEARCH_ZERO ? 0 : F16_INFINITY;
        return;
    }
    float d = 0.0f;
    float d_min = 0.0f;
    for (uint32_t g = 0; g < N_GROUPS; g++) {
        float *x = work.x + (size_t)g * N_GROUP;
        float *w = work.w + (size_t)g * N_GROUP;
        float offset;
        weigh(x, w);
        work.scale[g] = lk_search_scale_offset(x, w, N_GROUP, hi, true, &offset);
        work.min[g] = -offset;
        d = work.scale[g] > d ? work.scale[g] : d;
        d_min = work.min[g] > d_min ? work.min[g] : d_min;
    }
    d /= (float)MAX_SCALE;
    d_min /= (float)MAX_SCALE;
    const float best = choose_groups(&work, d, d_min, out);
    if (!(best < INFINITY)) {
        memset(out, 0, sizeof *out);
        out->d = F16_INFINITY;
        return;
    }
    /* Once more under the scales that suit the integers found. A further round gains next to
     * nothing. */
    lk_encoded_k again;
    solve_block(&work, out, &d, &d_min);
    if (d >= 0.0f && d_min >= 0.0f && choose_groups(&work, d, d_min, &again) < best) {
        *out = again;
    }
}

enum { N_GROUPS16 = 16, N_GROUP16 = 16, LO16 = -32, HI16 = 31 };

typedef struct k16_work {
    float x[256];
    float w[256];
    float scale[N_GROUPS16];
} k16_work;

static void weigh16(const float *x, float *w) {
    for (uint32_t k = 0; k < N_GROUP16; k++) {
        w[k] = x[k] * x[k];
    }
}

/* All groups under d, with the nearest integer scales: of 8 bits, no neighbour does better. */
static float choose_groups16(const k16_work *work, float real_d, lk_encoded_k16 *out) {
    out->d = scale_code(real_d);
    if (!is_finite16(out->d)) {
        return INFINITY;
    }
    const float d = lk_f16_to_f32(out->d);
    float sum = 0.0f;
    for (uint32_t g = 0; g < N_GROUPS16; g++) {
        const size_t first = (size_t)g * N_GROUP16;
        const int32_t scale = nearest_in(d != 0.0f ? work->scale[g] / d : 0.0f, -128, 127);
        out->scale[g] = (int8_t)scale;
        sum += lk_search_round(work->x + first, work->w + first, N_GROUP16, d * (float)scale, 0.0f,
                               LO16, HI16, out->q + first);
    }
    return sum;
}

static float solve_block16(const k16_work *work, const lk_encoded_k16 *from) {
    double xu = 0.0;
    double uu = 0.0;
    for (uint32_t k = 0; k < 256; k++) {
        const uint32_t g = k / N_GROUP16;
        const double u = (double)(from->scale[g] * from->q[k]);
        xu += (double)work->w[k] * (double)work->x[k] * u;
        uu += (double)work->w[k] * u * u;
    }
    return uu > 0.0 ? (float)(xu / uu) : 0.0f;
}

void lk_encode_k16(const float *in, lk_encoded_k16 *out) {
    k16_work work;
    memset(out, 0, sizeof *out);
    const lk_search_extent extent = lk_search_prepare(in, 256, work.x);
    if (extent != LK_SEARCH_FIT) {
        out->d = extent == LK_SEARCH_ZERO ? 0 : F16_INFINITY;
        return;
    }
    float extreme = 0.0f; /* the scale that is largest in magnitude: it becomes -128 */
    for (uint32_t g = 0; g < N_GROUPS16; g++) {
        const size_t first = (size_t)g * N_GROUP16;
        weigh16(work.x + first, work.w + first);
        work.scale[g] = lk_search_scale(work.x + first, work.w + first, N_GROUP16, LO16, HI16);
        extreme = fabsf(work.scale[g]) > fabsf(extreme) ? work.scale[g] : extreme;
    }
    const float best = choose_groups16(&work, extreme / -128.0f, out);
    if (!(best < INFINITY)) {
        memset(out, 0, sizeof *out);
        out->d = F16_INFINITY;
        return;
    }
    lk_encoded_k16 again;
    if (choose_groups16(&work, solve_block16(&work, out), &again) < best) {
        *out = again;
    }
}
