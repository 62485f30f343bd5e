/* test_ops.c - the scalar twins of src/ops against formulas written a second time: examples worked
 * out by hand, and binary64 with an error bound. Whether kernels equal the twins is the business of
 * tests/checkkern; attention has a file of its own, test_attention.c. */
#include <math.h>

#include "lk_test.h"
#include "ops/math.h"
#include "ops/ops.h"
#include "ops/twin.h"

static float inf_f32(void) {
    return lk_f32_from_bits(0x7f800000u);
}

static float nan_f32(void) {
    return lk_f32_from_bits(0x7fc00000u);
}

/* Uniform in [-1, 1). */
static float uniform(uint64_t *state) {
    return (float)((double)(lk_test_random(state) >> 11) * 0x1p-52 - 1.0);
}

static void fill(float *x, size_t n, uint64_t seed) {
    for (size_t k = 0; k < n; k++) {
        x[k] = uniform(&seed);
    }
}

/* ---- sums and rounding ---- */

/* S16 as a recursion over lanes: another shape of the same tree. */
static float lanes(const float *t, size_t n, size_t lane, size_t width) {
    if (width == 16) {
        float sum = 0.0f;
        for (size_t k = lane; k < n; k += 16) {
            sum += t[k];
        }
        return sum;
    }
    return lanes(t, n, lane, width * 2) + lanes(t, n, lane + width, width * 2);
}

LK_TEST(sum16_by_hand) {
    float t[48] = {0};
    float ones[48];
    for (int k = 0; k < 48; k++) {
        ones[k] = 1.0f;
    }
    t[0] = 0x1p+24f;
    t[16] = 1.0f; /* the same partial: 2^24 + 1 is a tie and stays 2^24 */
    t[8] = 1.0f;  /* joins it in the first round of the tree: another tie */
    CHECK(lk_sum16_dot(t, ones, 48) == 0x1p+24f);
    t[16] = 0.0f;
    t[24] = 1.0f; /* beside t[8]: 2 joins 2^24 and is kept */
    CHECK(lk_sum16_dot(t, ones, 48) == 0x1p+24f + 2.0f);
    t[24] = 0.0f;
    t[4] = 1.0f; /* p[0] + p[8] is a tie first, then + p[4] another */
    CHECK(lk_sum16_dot(t, ones, 48) == 0x1p+24f);
    t[8] = 0.0f;
    t[12] = 1.0f; /* p[4] + p[12] = 2 */
    CHECK(lk_sum16_dot(t, ones, 48) == 0x1p+24f + 2.0f);
    CHECK(lk_f32_bits(lk_sum16_dot(t, ones, 0)) == 0);
}

LK_TEST(sum16_order) {
    float t[100];
    float ones[100];
    for (size_t n = 0; n <= 100; n++) {
        fill(t, 100, n);
        for (size_t k = 0; k < 100; k++) {
            t[k] *= ldexpf(1.0f, (int)(k * 7 % 40));
            ones[k] = 1.0f;
        }
        CHECK(lk_sum16_dot(t, ones, n) == lanes(t, n, 0, 1));
    }
}

/* x rounded to `bits` significant bits, in binary64, ties to even. */
static double round_significand(float x, int bits) {
    int e;
    const double m = frexp((double)x, &e);
    return ldexp(nearbyint(ldexp(m, bits)), e - bits);
}

LK_TEST(round_short) {
    CHECK(lk_round13(1.0f + 0x1p-13f) == 1.0f);
    CHECK(lk_round13(1.0f + 0x1.8p-12f) == 1.0f + 0x1p-11f);
    CHECK(lk_round16(-(1.0f + 0x1.02p-16f)) == -(1.0f + 0x1p-15f));
    CHECK(lk_f32_bits(lk_round13(-0x1.fp-101f)) == 0);
    CHECK(lk_round13(0x1.ffffp-101f) == 0x1p-100f); /* rounds first, then compares */
    CHECK(lk_f32_bits(lk_round16b(-0x1.ffp-61f)) == 0);
    CHECK(lk_round16b(-0x1.ffffp-61f) == -0x1p-60f);
    uint64_t seed = 5;
    for (int i = 0; i < 100000; i++) {
        const float x = lk_f32_from_bits((uint32_t)lk_test_random(&seed));
        const float a = fabsf(x);
        if (!(a >= 0x1p-60f && a < 0x1p+127f)) {
            continue;
        }
        CHECK((double)lk_round13(x) == round_significand(x, 13));
        CHECK((double)lk_round16(x) == round_significand(x, 16));
        CHECK((double)lk_round16b(x) == round_significand(x, 16));
    }
}

static uint32_t round_flag(float x, lk_round_mode mode) {
    uint32_t flag = 0;
    lk_act_round_ref(&x, 1, mode, &x, &flag);
    return flag;
}

LK_TEST(act_round_flags) {
    CHECK(round_flag(0x1p+111f, LK_ROUND_13) != 0);
    CHECK(round_flag(-0x1p+111f, LK_ROUND_13) != 0);
    CHECK(round_flag(-0x1.fffffep+110f, LK_ROUND_13) == 0);
    CHECK(round_flag(0x1p+120f, LK_ROUND_16) != 0);
    CHECK(round_flag(0x1.fffffep+119f, LK_ROUND_16) == 0);
    CHECK(round_flag(0x1p+62f, LK_ROUND_16B) != 0);
    CHECK(round_flag(-0x1p+62f, LK_ROUND_16B) != 0);
    CHECK(round_flag(-0x1.fp+61f, LK_ROUND_16B) == 0);
    const lk_round_mode modes[3] = {LK_ROUND_13, LK_ROUND_16, LK_ROUND_16B};
    for (int i = 0; i < 3; i++) {
        CHECK(round_flag(inf_f32(), modes[i]) != 0);
        CHECK(round_flag(-inf_f32(), modes[i]) != 0);
        CHECK(round_flag(lk_f32_from_bits(0x7fffffffu), modes[i]) != 0);
        CHECK(round_flag(lk_f32_from_bits(0xff800001u), modes[i]) != 0);
        CHECK(round_flag(-0.0f, modes[i]) == 0);
    }
}

/* ---- the activation quantiser ---- */

LK_TEST(act_quantize_by_hand) {
    float x[64] = {127.0f, 63.5f, -0.5f, 1.5f, 2.5f, -2.5f, -126.5f};
    x[31] = -127.0f;
    x[32] = -0x1.fp-101f; /* the second group is too small to matter */
    int8_t q[64];
    float d[2];
    int16_t sums[4];
    uint32_t flag = 0;
    lk_act_quantize_ref(x, 64, 32, q, d, sums, &flag);
    static const int8_t want[7] = {127, 64, 0, 2, 2, -2, -126};
    CHECK(memcmp(q, want, sizeof want) == 0 && q[31] == -127 && q[32] == 0);
    CHECK(d[0] == 1.0f && d[1] == 0.0f && flag == 0);
    CHECK(sums[0] == 67 && sums[1] == -127 && sums[2] == 0 && sums[3] == 0);
    x[40] = 0x1p-100f;
    lk_act_quantize_ref(x, 64, 32, q, d, sums, &flag);
    CHECK(d[1] == 0x1p-100f / 127.0f && q[40] == 127 && flag == 0);
    for (int i = 0; i < 3; i++) {
        const float bad[3] = {inf_f32(), -inf_f32(), nan_f32()};
        x[5] = bad[i];
        flag = 0;
        lk_act_quantize_ref(x, 64, 32, q, d, sums, &flag);
        CHECK(flag != 0 && d[0] == 0.0f && q[0] == 0 && sums[0] == 0 && q[40] == 127);
    }
}

LK_TEST(act_quantize_bound) {
    static float x[1024];
    static int8_t q[1024];
    static float d[32];
    static int16_t sums[64];
    for (int i = 0; i < 200; i++) {
        fill(x, 1024, (uint64_t)i);
        for (size_t k = 0; k < 1024; k++) {
            x[k] = ldexpf(x[k], i - 100 + (int)(k % 13));
        }
        const uint32_t group = i % 2 == 0 ? 32 : 256;
        uint32_t flag = 0;
        lk_act_quantize_ref(x, 1024, group, q, d, sums, &flag);
        CHECK(flag == 0);
        for (size_t k = 0; k < 1024; k++) {
            const double scale = (double)d[k / group];
            CHECK(fabs((double)x[k] - scale * q[k]) <= scale * 0.50002);
            CHECK(q[k] >= -127);
        }
        for (size_t g = 0; g < 64; g++) {
            int sum = 0;
            for (size_t k = 0; k < 16; k++) {
                sum += q[g * 16 + k];
            }
            CHECK(sum == sums[g]);
        }
    }
}

/* ---- matrix products ---- */

/* A format made for these tests: 4 weights a block, scale and minimum in half steps, so that every
 * result here can be written down. */
static void half_step_unpack(const uint8_t *block, lk_unpacked *out) {
    out->d = (float)block[0] * 0.5f;
    out->d_min = (float)block[1] * 0.5f;
    out->scale[0] = 1;
    out->min[0] = 1;
    memcpy(out->q, block + 2, 4);
}

LK_TEST(matmul_quant_by_hand) {
    lk_format format = {.name = "half-step",
                        .block_elems = 4,
                        .block_bytes = 6,
                        .group_elems = 4,
                        .act_group = 4,
                        .has_min = true,
                        .unpack = half_step_unpack};
    static const uint8_t w[2][12] = {{2, 4, 1, 2, 3, 0x80, 1, 0, 1, 1, 1, 1},
                                     {0, 1, 9, 9, 9, 9, 3, 2, 1, 0, 0, 0xff}};
    static const int8_t q[2][8] = {{1, -1, 2, 1, 5, 5, 5, 5}, {0, 0, 0, 127, 1, 2, 3, 4}};
    static const float d[2][2] = {{1.0f, 2.0f}, {0.5f, 1.0f}};
    const lk_act_rows x = {q[0], d[0], NULL, 8, 8, 4, 2};
    float y[2][3] = {{0}};
    lk_matmul_quant_ref(&format, w[0], 12, 0, 2, &x, y[0], 3);
    /* row 0, weights 0: I = 1 - 2 + 6 - 128 = -123, M = 3: -123 - 2 * 3; then I = 20: + 20 */
    CHECK(y[0][0] == -109.0f);
    /* weights 1: -0.5 * 3; I = 0, scale 3: 0; minimum 1 * 2 * 20 */
    CHECK(y[0][1] == -1.5f + 0.0f - 40.0f);
    CHECK(y[1][0] == 0.5f * -16256.0f - 2.0f * 0.5f * 127.0f + 0.5f * 10.0f);
    CHECK(y[1][1] == -0.5f * 0.5f * 127.0f + 1.5f * -3.0f - 10.0f);
    CHECK(y[0][2] == 0.0f && y[1][2] == 0.0f);
    format.has_min = false;
    lk_matmul_quant_ref(&format, w[0], 12, 1, 2, &x, y[0], 3);
    CHECK(y[0][0] == -109.0f && y[0][1] == 0.0f);
}

/* Every supported format: the product against decoded weights in binary64. */
LK_TEST(matmul_formats_bound) {
    enum { N = 512, ROWS = 3, OUT = 5 };
    static float x[ROWS][N];
    static float y[ROWS][OUT];
    static int8_t q[ROWS][N];
    static float d[ROWS * (N / 32)];
    static int16_t sums[ROWS][N / 16];
    static float source[N];
    static float decoded[N];
    static uint8_t w[OUT * N * 4];
    fill(x[0], (size_t)ROWS * N, 11);
    for (size_t i = 0; i < lk_format_count(); i++) {
        const lk_format *format = lk_format_at(i);
        if (format->encode == NULL) {
            continue;
        }
        const size_t row_bytes = N / format->block_elems * format->block_bytes;
        for (size_t o = 0; o < OUT; o++) {
            fill(source, N, 100 + o);
            format->encode(source, w + o * row_bytes, N);
        }
        memset(y, 0x55, sizeof y);
        double factor = 1e-6; /* how far rounding of the activations may carry */
        uint32_t flag = 0;
        if (format->act_group != 0) {
            for (size_t r = 0; r < ROWS; r++) {
                lk_act_quantize_ref(x[r], N, format->act_group, q[r],
                                    d + r * (N / format->act_group), sums[r], &flag);
            }
            const lk_act_rows rows = {q[0], d, sums[0], N, N, format->act_group, ROWS};
            lk_matmul_quant_ref(format, w, row_bytes, 1, OUT, &rows, y[0], OUT);
            factor = 0.5 / 127;
        } else {
            static float rounded[ROWS][N];
            memcpy(rounded, x, sizeof x);
            lk_matmul_float_fn *matmul = lk_matmul_f32_ref;
            if (format->type == LK_FORMAT_F16) {
                matmul = lk_matmul_f16_ref;
                lk_act_round_ref(x[0], (size_t)ROWS * N, LK_ROUND_13, rounded[0], &flag);
                factor = 0x1p-13;
            } else if (format->type == LK_FORMAT_BF16) {
                matmul = lk_matmul_bf16_ref;
                lk_act_round_ref(x[0], (size_t)ROWS * N, LK_ROUND_16B, rounded[0], &flag);
                factor = 0x1p-16;
            }
            matmul(w, row_bytes, N, 1, OUT, rounded[0], N, ROWS, y[0], OUT);
        }
        CHECK(flag == 0);
        for (size_t o = 1; o < OUT; o++) {
            format->decode(w + o * row_bytes, decoded, N);
            for (size_t r = 0; r < ROWS; r++) {
                double sum = 0.0;
                double size = 0.0;
                for (size_t k = 0; k < N; k++) {
                    sum += (double)decoded[k] * (double)x[r][k];
                    size += fabs((double)decoded[k]);
                }
                CHECK_MSG(fabs(sum - (double)y[r][o]) <= size * factor * 1.01,
                          "%s: %g, expected %g", format->name, (double)y[r][o], sum);
                float exact[OUT];
                lk_matmul_f32act_ref(format, w, row_bytes, N, o, o + 1, x[r], N, 1, exact, 0);
                CHECK_MSG(fabs(sum - (double)exact[o]) <= size * 1e-6, "%s: %g, expected %g",
                          format->name, (double)exact[o], sum);
            }
        }
        for (size_t r = 0; r < ROWS; r++) {
            CHECK(lk_f32_bits(y[r][0]) == 0x55555555u);
        }
    }
}

/* Section 5 word by word: block after block, by the exact block dot of the format. */
static float blocks_in_order(const lk_format *format, const uint8_t *w, const int8_t *q,
                             const float *d, size_t n) {
    float acc = 0.0f;
    for (size_t k = 0; k < n; k += format->block_elems, w += format->block_bytes) {
        const lk_block_dot dot = format->block_dot(w, q + k);
        const float d_a = d[k / format->act_group];
        acc = acc + (dot.d * d_a) * (float)dot.i;
        if (format->has_min) {
            acc = acc - (dot.d_min * d_a) * (float)dot.m;
        }
    }
    return acc;
}

LK_TEST(matmul_quant_is_block_dots) {
    enum { N = 768, ROWS = 3, OUT = 4 };
    static float x[ROWS][N];
    static int8_t q[ROWS][N];
    static float d[ROWS * (N / 32)];
    static int16_t sums[ROWS][N / 16];
    static uint8_t w[OUT * N * 2];
    uint64_t seed = 21;
    fill(x[0], (size_t)ROWS * N, 22);
    for (size_t i = 0; i < lk_format_count(); i++) {
        const lk_format *format = lk_format_at(i);
        if (format->block_dot == NULL) {
            continue;
        }
        const size_t n_groups = N / format->act_group;
        const size_t row_bytes = N / format->block_elems * format->block_bytes;
        uint32_t flag = 0;
        for (size_t r = 0; r < ROWS; r++) {
            lk_act_quantize_ref(x[r], N, format->act_group, q[r], d + r * n_groups, sums[r], &flag);
        }
        for (size_t k = 0; k < OUT * row_bytes; k++) {
            w[k] = (uint8_t)(lk_test_random(&seed) >> 32);
        }
        const lk_act_rows rows = {q[0], d, sums[0], N, N, format->act_group, ROWS};
        float y[ROWS][OUT];
        lk_matmul_quant_ref(format, w, row_bytes, 0, OUT, &rows, y[0], OUT);
        for (size_t r = 0; r < ROWS; r++) {
            for (size_t o = 0; o < OUT; o++) {
                const float want =
                    blocks_in_order(format, w + o * row_bytes, q[r], d + r * n_groups, N);
                CHECK_MSG(y[r][o] == want || (isnan(y[r][o]) && isnan(want)), "%s: %a, expected %a",
                          format->name, (double)y[r][o], (double)want);
            }
        }
    }
}

LK_TEST(matmul_float_order) {
    enum { N = 83, ROWS = 19 };
    static float x[ROWS][N];
    static float w[2][N];
    static float y[ROWS][2];
    static float z[ROWS][2];
    static float t[N];
    fill(x[0], (size_t)ROWS * N, 1);
    fill(w[0], (size_t)2 * N, 2);
    const lk_format *f32 = lk_format_find(LK_FORMAT_F32);
    lk_matmul_f32_ref((const uint8_t *)w, sizeof w[0], N, 0, 2, x[0], N, ROWS, y[0], 2);
    lk_matmul_f32act_ref(f32, (const uint8_t *)w, sizeof w[0], N, 0, 2, x[0], N, ROWS, z[0], 2);
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t o = 0; o < 2; o++) {
            for (size_t k = 0; k < N; k++) {
                t[k] = w[o][k] * x[r][k];
            }
            CHECK(y[r][o] == lanes(t, N, 0, 1) && z[r][o] == y[r][o]);
        }
    }
}

LK_TEST(matmul_bf16_extreme_weights) {
    const uint16_t w[3] = {0x2180u, 0x217fu, 0x3f80u}; /* 2^-60, below it, 1 */
    const float x[3] = {0x1p+20f, 0x1p+61f, 3.0f};
    float y = 0.0f;
    lk_matmul_bf16_ref((const uint8_t *)w, sizeof w, 3, 0, 1, x, 3, 1, &y, 1);
    CHECK(y == 3.0f + 0x1p-40f);
    lk_matmul_bf16_ref((const uint8_t *)w, sizeof w, 2, 0, 1, x, 3, 1, &y, 1);
    CHECK(y == 0x1p-40f);
    const uint16_t large[2] = {0xdf80u, 0x5f7fu}; /* -2^64, below 2^64 */
    const float small[2] = {0x1p-60f, 0x1p-60f};
    lk_matmul_bf16_ref((const uint8_t *)large, sizeof large, 2, 0, 1, small, 2, 1, &y, 1);
    CHECK(y == -inf_f32());
    lk_matmul_bf16_ref((const uint8_t *)(large + 1), 2, 1, 0, 1, small, 1, 1, &y, 1);
    CHECK(y == 0x1.fep+3f);
}

/* ---- norm, rotation, element-wise ---- */

LK_TEST(rms_norm_bound) {
    static float x[300];
    static float w[300];
    static float y[300];
    fill(x, 300, 3);
    fill(w, 300, 4);
    for (size_t n = 1; n <= 300; n++) {
        double sum = 0.0;
        for (size_t k = 0; k < n; k++) {
            sum += (double)x[k] * (double)x[k];
        }
        const double c = 1.0 / sqrt(sum / (double)n + 1e-6);
        uint32_t flag = 0;
        lk_rms_norm_ref(x, w, 1e-6f, n, y, &flag);
        for (size_t k = 0; k < n; k++) {
            CHECK(fabs((double)x[k] * c * (double)w[k] - (double)y[k]) <= 1e-6);
        }
        CHECK(flag == 0);
    }
    uint32_t flag = 0;
    x[7] = 0x1p+64f; /* its square is infinite */
    lk_rms_norm_ref(x, w, 1e-6f, 8, y, &flag);
    CHECK(flag != 0);
    flag = 0;
    x[7] = nan_f32();
    lk_rms_norm_ref(x, w, 1e-6f, 8, y, &flag);
    CHECK(flag != 0);
    float zero[4] = {0};
    flag = 0;
    lk_rms_norm_ref(zero, w, 1e-6f, 4, zero, &flag);
    CHECK(flag == 0 && zero[0] == 0.0f);
}

LK_TEST(rope_pairs) {
    static const float cos_sin[4] = {0.0f, 1.0f, 0.5f, -0.25f};
    float normal[6] = {1, 2, 3, 4, 5, 6};
    float neox[6] = {1, 2, 3, 4, 5, 6};
    static const float want_normal[6] = {-2, 1, 2.5f, 1.25f, 5, 6};
    static const float want_neox[6] = {-3, 2, 1, 1.5f, 5, 6};
    lk_rope_ref(normal, 4, LK_ROPE_NORMAL, cos_sin);
    lk_rope_ref(neox, 4, LK_ROPE_NEOX, cos_sin);
    CHECK(memcmp(normal, want_normal, sizeof normal) == 0);
    CHECK(memcmp(neox, want_neox, sizeof neox) == 0);
}

LK_TEST(elementwise) {
    static float g[1000];
    static float u[1000];
    static float y[1000];
    fill(g, 1000, 5);
    fill(u, 1000, 6);
    for (size_t k = 0; k < 1000; k++) {
        g[k] *= 20.0f;
    }
    lk_silu_mul_ref(g, u, 1000, y);
    for (size_t k = 0; k < 1000; k++) {
        const double want = (double)g[k] / (1.0 + exp(-(double)g[k])) * (double)u[k];
        CHECK(fabs(want - (double)y[k]) <= 4e-7 * fabs(want));
    }
    float extreme[4] = {-1000.0f, 1000.0f, nan_f32(), -0.0f};
    const float one[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    lk_silu_mul_ref(extreme, one, 4, extreme);
    CHECK(extreme[0] == 0.0f && extreme[1] == 1000.0f && isnan(extreme[2]) && extreme[3] == 0.0f);
    lk_add_ref(g, u, 1000, y);
    CHECK(y[999] == g[999] + u[999] && y[0] == g[0] + u[0]);
    y[0] = 1.0f;
    lk_scale_add_ref(one, 0x1p-24f, 1, y);
    CHECK(y[0] == 1.0f);
    const float x = 1.0f + 0x1p-23f; /* the product rounds before the sum: unfused */
    float acc = -1.0f;
    lk_scale_add_ref(&x, 1.0f - 0x1p-23f, 1, &acc);
    CHECK(acc == 0.0f);
}

LK_TEST(gated_variants) {
    static float g[2000];
    static float u[2000];
    static float y[2000];
    fill(g, 2000, 15);
    fill(u, 2000, 16);
    for (size_t k = 0; k < 2000; k++) {
        g[k] *= 10.0f;
        u[k] *= 10.0f;
    }
    lk_gelu_mul_ref(g, u, 2000, y);
    for (size_t k = 0; k < 2000; k++) {
        const double x = (double)g[k];
        const double inner = sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
        const double want = x * 0.5 * (1.0 + tanh(inner)) * (double)u[k];
        const double error = fabs(want - (double)y[k]);
        CHECK_MSG(error <= 6e-6 * fabs(want) + 1e-12, "gelu of %g: %g, expected %g", x,
                  (double)y[k], want);
    }
    lk_clamped_silu_mul_ref(g, u, 2000, y);
    for (size_t k = 0; k < 2000; k++) {
        const double x = fmin((double)g[k], 7.0);
        const double other = fmax(-7.0, fmin((double)u[k], 7.0)) + 1.0;
        const double want = x / (1.0 + exp(-1.702 * x)) * other;
        CHECK_MSG(fabs(want - (double)y[k]) <= 3e-6 * fabs(want) + 1e-12,
                  "clamped silu of %g: %g, expected %g", x, (double)y[k], want);
    }
    float extreme[4] = {-1e30f, 1e30f, nan_f32(), -0.0f};
    const float one[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    lk_gelu_mul_ref(extreme, one, 4, y);
    CHECK(y[0] == 0.0f && y[1] == 1e30f && isnan(y[2]) && y[3] == 0.0f);
    lk_clamped_silu_mul_ref(extreme, one, 4, y);
    CHECK(y[0] == 0.0f && fabs((double)y[1] - 14.0) < 2e-4 && isnan(y[2]) && y[3] == 0.0f);
}

LK_TEST(gelu_by_the_error_function) {
    const uint32_t step = (uint32_t)lk_test_size(1000003, 20011, 101);
    double worst = 0.0;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += step) {
        float y;
        const float x = lk_f32_from_bits((uint32_t)bits);
        if (!(x >= -13.0f && x <= 1e30f)) {
            continue;
        }
        lk_gelu_erf_ref(&x, 1, &y);
        const double want = 0.5 * (double)x * erfc(-(double)x / sqrt(2.0));
        const double error = fabs((double)y - want) / fmax(fabs(want), 1e-37);
        worst = error > worst ? error : worst;
    }
    (void)printf("gelu_erf: relative error %.3g\n", worst);
    CHECK_MSG(worst <= 1.2e-5, "%g", worst);
    const float edges[] = {0.0f, -0.0f, -14.0f, 1e38f, nan_f32(), -1e38f};
    float y[6];
    lk_gelu_erf_ref(edges, 6, y);
    CHECK(lk_f32_bits(y[0]) == 0 && lk_f32_bits(y[1]) == 0x80000000u);
    CHECK(y[2] == 0.0f && y[3] == 1e38f && isnan(y[4]) && y[5] == 0.0f);
}

LK_TEST(layer_norm) {
    static float x[700];
    static float w[700];
    static float b[700];
    static float y[700];
    for (size_t n = 1; n <= 700; n += 233) {
        uint32_t flag = 0;
        fill(x, n, n);
        fill(w, n, n + 1);
        fill(b, n, n + 2);
        double mean = 0.0;
        double square = 0.0;
        for (size_t k = 0; k < n; k++) {
            x[k] += 3.0f;
            mean += (double)x[k] / (double)n;
        }
        for (size_t k = 0; k < n; k++) {
            square += ((double)x[k] - mean) * ((double)x[k] - mean) / (double)n;
        }
        lk_layer_norm_ref(x, w, b, 1e-5f, n, y, &flag);
        CHECK(flag == 0);
        for (size_t k = 0; k < n; k++) {
            const double want =
                ((double)x[k] - mean) / sqrt(square + 1e-5) * (double)w[k] + (double)b[k];
            CHECK_MSG(fabs((double)y[k] - want) <= 4e-6, "n %zu: %g, expected %g", n, (double)y[k],
                      want);
        }
        lk_layer_norm_ref(x, w, b, 1e-5f, n, x, &flag); /* in place */
        CHECK(memcmp(x, y, n * sizeof x[0]) == 0);
        x[n / 2] = nan_f32();
        lk_layer_norm_ref(x, w, b, 1e-5f, n, y, &flag);
        CHECK(flag != 0);
    }
}

LK_TEST(scale_and_softcap) {
    static float x[1000];
    static float y[1000];
    fill(x, 1000, 17);
    lk_scale_ref(x, 0.22f, 1000, y);
    CHECK(y[0] == x[0] * 0.22f && y[999] == x[999] * 0.22f);
    for (size_t k = 0; k < 1000; k++) {
        x[k] *= 40.0f;
    }
    lk_softcap_ref(x, 30.0f, 1000, y);
    for (size_t k = 0; k < 1000; k++) {
        const double want = 30.0 * tanh((double)x[k] / 30.0);
        CHECK_MSG(fabs(want - (double)y[k]) <= 5e-7 * fabs(want), "soft cap of %g: %g, expected %g",
                  (double)x[k], (double)y[k], want);
    }
    const float extreme[3] = {1e38f, -1e38f, 0.0f};
    lk_softcap_ref(extreme, 30.0f, 3, y);
    CHECK(y[0] == 30.0f && y[1] == -30.0f && y[2] == 0.0f);
}

LK_TEST(check_finite) {
    float x[33] = {0};
    x[3] = 0x1.fffffep+127f;
    CHECK(lk_check_finite_ref(x, 33) == 0);
    x[32] = -inf_f32();
    CHECK(lk_check_finite_ref(x, 33) != 0 && lk_check_finite_ref(x, 32) == 0);
    x[0] = lk_f32_from_bits(0xff800001u);
    CHECK(lk_check_finite_ref(x, 1) != 0 && lk_check_finite_ref(x, 0) == 0);
}

/* ---- KV cache ---- */

LK_TEST(kv_block_layout) {
    CHECK(lk_kv_block_bytes(LK_KV_FORMAT_F32, 40) == 64u * 40 * 4);
    CHECK(lk_kv_block_bytes(LK_KV_FORMAT_F16, 40) == 64u * 40 * 2);
    CHECK(lk_kv_block_bytes(LK_KV_FORMAT_Q8_0, 40) == 64u * 40 + 64u * 2 * 4);
    CHECK(lk_kv_block_bytes(LK_KV_FORMAT_Q8_0, 8) == 64u * 8 + 64u * 4);
    static uint8_t block[64 * (40 + 8)];
    float x[40];
    for (int k = 0; k < 40; k++) {
        x[k] = k < 32 ? (float)k : 0.25f * (float)(k - 35);
    }
    uint32_t flag = 0;
    lk_kv_store_ref(LK_KV_FORMAT_Q8_0, x, 40, block, 63, &flag);
    float d[2];
    memcpy(d, block + 64 * 40 + 63 * 8, 8);
    CHECK(d[0] == 31.0f / 127.0f && d[1] == 1.0f / 127.0f && flag == 0);
    CHECK((int8_t)block[63 * 40 + 31] == 127 && (int8_t)block[63 * 40 + 39] == 127);
    CHECK((int8_t)block[63 * 40 + 32] == -95 && block[62 * 40] == 0);
}

static uint32_t store_flag(lk_kv_format format, float value) {
    static uint8_t block[64 * 8 * 4];
    float x[8] = {0, 0, 0, 0, 0, 0, 0, value};
    uint32_t flag = 0;
    lk_kv_store_ref(format, x, 8, block, 1, &flag);
    return flag;
}

LK_TEST(kv_store_flags) {
    CHECK(store_flag(LK_KV_FORMAT_F32, inf_f32()) && store_flag(LK_KV_FORMAT_F32, nan_f32()));
    CHECK(store_flag(LK_KV_FORMAT_F16, nan_f32()) && store_flag(LK_KV_FORMAT_F16, 65520.0f));
    CHECK(!store_flag(LK_KV_FORMAT_F16, -65519.0f) && !store_flag(LK_KV_FORMAT_F32, 1e38f));
    CHECK(store_flag(LK_KV_FORMAT_Q8_0, -inf_f32()) && store_flag(LK_KV_FORMAT_Q8_0, nan_f32()));
    CHECK(!store_flag(LK_KV_FORMAT_Q8_0, 0x1.fffffep+126f));
    CHECK(store_flag(LK_KV_FORMAT_Q8_0, -0x1p+127f));
}

/* ---- experts ---- */

LK_TEST(route_by_hand) {
    const float logits[6] = {1.0f, 3.0f, 2.0f, 3.0f, -1.0f, 2.0f};
    int32_t ids[4];
    float weights[4];
    uint32_t flag = 0;
    lk_route_ref(logits, 6, 3, 0, ids, weights, &flag);
    CHECK(ids[0] == 1 && ids[1] == 2 && ids[2] == 3 && flag == 0);
    double total = 0.0;
    for (int i = 0; i < 6; i++) {
        total += exp((double)logits[i] - 3.0);
    }
    for (int i = 0; i < 3; i++) {
        CHECK(fabs(exp((double)logits[ids[i]] - 3.0) / total - (double)weights[i]) < 1e-7);
    }
    lk_route_ref(logits, 6, 4, 1, ids, weights, &flag);
    CHECK(ids[0] == 1 && ids[1] == 2 && ids[2] == 3 && ids[3] == 5 && flag == 0);
    CHECK(fabs((double)(weights[0] + weights[1] + weights[2] + weights[3]) - 1.0) < 1e-6);
    CHECK(weights[0] == weights[2] && weights[1] == weights[3]);
    lk_route_ref(logits, 4, 4, 1, ids, weights, &flag);
    CHECK(ids[0] == 0 && ids[3] == 3);
    const float bad[6] = {1.0f, nan_f32(), 2.0f, inf_f32(), 0.0f, 0.0f};
    lk_route_ref(bad, 6, 2, 1, ids, weights, &flag);
    CHECK(flag != 0 && ids[0] == 0 && ids[1] == 1 && weights[0] == 0.0f);
}

LK_TEST_MAIN(LK_RUN(sum16_by_hand), LK_RUN(sum16_order), LK_RUN(round_short),
             LK_RUN(act_round_flags), LK_RUN(act_quantize_by_hand), LK_RUN(act_quantize_bound),
             LK_RUN(matmul_quant_by_hand), LK_RUN(matmul_formats_bound),
             LK_RUN(matmul_quant_is_block_dots), LK_RUN(matmul_float_order),
             LK_RUN(matmul_bf16_extreme_weights), LK_RUN(rms_norm_bound), LK_RUN(rope_pairs),
             LK_RUN(elementwise), LK_RUN(gated_variants), LK_RUN(gelu_by_the_error_function),
             LK_RUN(layer_norm), LK_RUN(scale_and_softcap), LK_RUN(check_finite),
             LK_RUN(kv_block_layout), LK_RUN(kv_store_flags), LK_RUN(route_by_hand))
