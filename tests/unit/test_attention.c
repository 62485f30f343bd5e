/* test_attention.c - the scalar twin of attention against formulas written a second time: binary64
 * with an error bound, and the order of chunks worked out by hand. */
#include <math.h>

#include "lk_test.h"
#include "ops/math.h"
#include "ops/ops.h"

static float inf_f32(void) {
    return lk_f32_from_bits(0x7f800000u);
}

static float nan_f32(void) {
    return lk_f32_from_bits(0x7fc00000u);
}

/* Uniform in [-1, 1). */
static void fill(float *x, size_t n, uint64_t seed) {
    for (size_t k = 0; k < n; k++) {
        x[k] = (float)((double)(lk_test_random(&seed) >> 11) * 0x1p-52 - 1.0);
    }
}

enum { MAX_KEYS = 300, MAX_CHUNKS = (MAX_KEYS + 63) / 64 };

/* One sequence's keys and values in blocks, poisoned where no key is. */
typedef struct cache {
    uint8_t k[MAX_CHUNKS][64 * LK_MAX_HEAD_DIM * 4];
    uint8_t v[MAX_CHUNKS][64 * LK_MAX_HEAD_DIM * 4];
    const uint8_t *k_blocks[MAX_CHUNKS];
    const uint8_t *v_blocks[MAX_CHUNKS];
} cache;

static void fill_cache(cache *c, lk_kv_format k_format, lk_kv_format v_format, size_t head_dim,
                       size_t n_keys, const float *keys, const float *values) {
    memset(c->k, 0xff, sizeof c->k);
    memset(c->v, 0xff, sizeof c->v);
    uint32_t flag = 0;
    for (size_t i = 0; i < n_keys; i++) {
        lk_kv_store_ref(k_format, keys + i * head_dim, head_dim, c->k[i / 64], i % 64, &flag);
        lk_kv_store_ref(v_format, values + i * head_dim, head_dim, c->v[i / 64], i % 64, &flag);
    }
    for (size_t i = 0; i < MAX_CHUNKS; i++) {
        c->k_blocks[i] = c->k[i];
        c->v_blocks[i] = c->v[i];
    }
    CHECK(flag == 0);
}

/* softmax(q k) v in binary64. */
static void attend_f64(const float *q, const float *keys, const float *values, size_t head_dim,
                       size_t n_keys, double scale, double *out) {
    double s[MAX_KEYS];
    double m = -1e300;
    double total = 0.0;
    for (size_t i = 0; i < n_keys; i++) {
        s[i] = 0.0;
        for (size_t k = 0; k < head_dim; k++) {
            s[i] += (double)q[k] * (double)keys[i * head_dim + k];
        }
        s[i] *= scale;
        m = s[i] > m ? s[i] : m;
    }
    for (size_t k = 0; k < head_dim; k++) {
        out[k] = 0.0;
    }
    for (size_t i = 0; i < n_keys; i++) {
        const double p = exp(s[i] - m);
        total += p;
        for (size_t k = 0; k < head_dim; k++) {
            out[k] += p * (double)values[i * head_dim + k];
        }
    }
    for (size_t k = 0; k < head_dim; k++) {
        out[k] /= total;
    }
}

static void attend(const cache *c, lk_kv_format k_format, lk_kv_format v_format, size_t head_dim,
                   float scale, const float *q, size_t n_keys, float *out, uint32_t *flag) {
    const lk_attn_args args = {.k_format = k_format,
                               .v_format = v_format,
                               .head_dim = head_dim,
                               .scale = scale,
                               .k_blocks = c->k_blocks,
                               .v_blocks = c->v_blocks,
                               .n_queries = 1,
                               .q = {q},
                               .out = {out},
                               .n_keys = {n_keys},
                               .flag = {flag}};
    lk_attention_ref(&args);
}

LK_TEST(attention_bound) {
    static cache c;
    static float keys[MAX_KEYS * LK_MAX_HEAD_DIM];
    static float values[MAX_KEYS * LK_MAX_HEAD_DIM];
    static const size_t dims[] = {8, 40, 64, 96, 256};
    static const size_t counts[] = {1, 63, 64, 65, 128, 129, 300};
    static const double bounds[3] = {2e-6, 5e-4, 1e-2}; /* f32, f16, q8_0 */
    fill(keys, MAX_KEYS * LK_MAX_HEAD_DIM, 7);
    fill(values, MAX_KEYS * LK_MAX_HEAD_DIM, 8);
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
        const size_t head_dim = dims[i];
        const float scale = (float)(3.0 / sqrt((double)head_dim));
        float q[LK_MAX_HEAD_DIM];
        fill(q, head_dim, 9);
        for (int pair = 0; pair < 9; pair++) {
            const lk_kv_format k_format = (lk_kv_format)(pair / 3);
            const lk_kv_format v_format = (lk_kv_format)(pair % 3);
            for (size_t j = 0; j < sizeof counts / sizeof counts[0]; j++) {
                const size_t n_keys = counts[j];
                float out[LK_MAX_HEAD_DIM];
                double want[LK_MAX_HEAD_DIM];
                uint32_t flag = 0;
                fill_cache(&c, k_format, v_format, head_dim, n_keys, keys, values);
                attend(&c, k_format, v_format, head_dim, scale, q, n_keys, out, &flag);
                attend_f64(q, keys, values, head_dim, n_keys, (double)scale, want);
                CHECK(flag == 0);
                const double bound = bounds[k_format] + bounds[v_format];
                for (size_t k = 0; k < head_dim; k++) {
                    CHECK_MSG(fabs(want[k] - (double)out[k]) <= bound,
                              "K %d V %d head %zu keys %zu: %g, expected %g", pair / 3, pair % 3,
                              head_dim, n_keys, (double)out[k], want[k]);
                }
            }
        }
    }
}

/* Windows, soft cap and sinks against softmax over the keys that are left, in binary64; keys
 * outside the window hold NaN, blocks outside it do not exist. */
LK_TEST(attention_variants_bound) {
    static cache c;
    static float keys[MAX_KEYS * LK_MAX_HEAD_DIM];
    static float values[MAX_KEYS * LK_MAX_HEAD_DIM];
    enum { HEAD = 32 };
    fill(keys, MAX_KEYS * HEAD, 7);
    fill(values, MAX_KEYS * HEAD, 8);
    float q[HEAD];
    fill(q, HEAD, 9);
    const float scale = (float)(3.0 / sqrt((double)HEAD));
    static const size_t windows[] = {1, 16, 33, 64, 70, 128, 299, 300};
    for (size_t i = 0; i < 4 * sizeof windows / sizeof windows[0]; i++) {
        const size_t window = windows[i / 4];
        const double cap = i % 2 != 0 ? 1.5 : 0.0;
        const double sink = 0.75;
        const bool has_sink = i % 4 >= 2;
        const size_t first = MAX_KEYS - window;
        fill_cache(&c, LK_KV_FORMAT_F32, LK_KV_FORMAT_F32, HEAD, MAX_KEYS, keys, values);
        for (size_t j = 0; j < first; j++) {
            memset(c.k[j / 64] + j % 64 * HEAD * 4, 0xff, HEAD * sizeof(float));
            memset(c.v[j / 64] + j % 64 * HEAD * 4, 0xff, HEAD * sizeof(float));
            c.k_blocks[j / 64] = j / 64 < first / 64 ? NULL : c.k_blocks[j / 64];
            c.v_blocks[j / 64] = j / 64 < first / 64 ? NULL : c.v_blocks[j / 64];
        }
        double total = has_sink ? exp(sink) : 0.0;
        double want[HEAD] = {0.0};
        for (size_t j = first; j < MAX_KEYS; j++) {
            double s = 0.0;
            for (size_t k = 0; k < HEAD; k++) {
                s += (double)q[k] * (double)keys[j * HEAD + k];
            }
            s *= (double)scale;
            const double p = exp(cap != 0.0 ? cap * tanh(s / cap) : s);
            total += p;
            for (size_t k = 0; k < HEAD; k++) {
                want[k] += p * (double)values[j * HEAD + k];
            }
        }
        float out[HEAD];
        uint32_t flag = 0;
        const lk_attn_args args = {.k_format = LK_KV_FORMAT_F32,
                                   .v_format = LK_KV_FORMAT_F32,
                                   .head_dim = HEAD,
                                   .scale = scale,
                                   .k_blocks = c.k_blocks,
                                   .v_blocks = c.v_blocks,
                                   .n_queries = 1,
                                   .q = {q},
                                   .out = {out},
                                   .n_keys = {MAX_KEYS},
                                   .flag = {&flag},
                                   .first_key = {first},
                                   .soft_cap = (float)cap,
                                   .has_sinks = has_sink,
                                   .sink = {(float)sink}};
        lk_attention_ref(&args);
        CHECK(flag == 0);
        for (size_t k = 0; k < HEAD; k++) {
            CHECK_MSG(fabs(want[k] / total - (double)out[k]) <= 2e-6,
                      "window %zu cap %g sink %d: %g, expected %g", window, cap, (int)has_sink,
                      (double)out[k], want[k] / total);
        }
    }
}

/* The order of chunks: three chunks of one strong key each, put together by hand. */
LK_TEST(attention_chunks_left_to_right) {
    static cache c;
    static float keys[129 * 8];
    static float values[129 * 8];
    memset(keys, 0, sizeof keys);
    for (size_t i = 0; i < 129; i++) {
        keys[i * 8] = i == 64 ? 2.0f : i == 128 ? 1.0f : 0.0f;
        for (size_t k = 0; k < 8; k++) {
            values[i * 8 + k] = (float)(i + k) * 0.37f;
        }
    }
    fill_cache(&c, LK_KV_FORMAT_F32, LK_KV_FORMAT_F32, 8, 129, keys, values);
    static const float q[8] = {1.0f};
    float out[8];
    uint32_t flag = 0;
    attend(&c, LK_KV_FORMAT_F32, LK_KV_FORMAT_F32, 8, 1.0f, q, 129, out, &flag);
    const float e2 = lk_expf(-2.0f);
    const float e1 = lk_expf(-1.0f);
    float l1 = 0.0f; /* chunk 1: key 64 alone at 1, the 63 others at exp(-2), in 16 partials */
    float p[16] = {1.0f, e2, e2, e2, e2, e2, e2, e2, e2, e2, e2, e2, e2, e2, e2, e2};
    for (int round = 1; round < 4; round++) {
        for (int j = 0; j < 16; j++) {
            p[j] = p[j] + e2;
        }
    }
    for (int width = 8; width > 0; width /= 2) {
        for (int j = 0; j < width; j++) {
            p[j] = p[j] + p[j + width];
        }
    }
    l1 = p[0];
    float l = 64.0f;
    l = l * e2 + l1 * 1.0f;
    l = l * 1.0f + 1.0f * e1;
    for (size_t k = 0; k < 8; k++) {
        float o0 = 0.0f;
        float o1 = 0.0f;
        for (size_t i = 0; i < 64; i++) {
            o0 = o0 + 1.0f * values[i * 8 + k];
            o1 = o1 + (i == 0 ? 1.0f : e2) * values[(64 + i) * 8 + k];
        }
        float o = o0 * e2 + o1 * 1.0f;
        o = o * 1.0f + values[128 * 8 + k] * e1;
        CHECK(out[k] == o / l);
    }
    CHECK(flag == 0);
}

LK_TEST(attention_flags) {
    static cache c;
    static float keys[70 * 8];
    static float values[70 * 8];
    fill(keys, 70 * 8, 1);
    fill(values, 70 * 8, 2);
    for (int pair = 0; pair < 9; pair++) {
        const lk_kv_format k_format = (lk_kv_format)(pair / 3);
        const lk_kv_format v_format = (lk_kv_format)(pair % 3);
        fill_cache(&c, k_format, v_format, 8, 70, keys, values);
        float out[3][8];
        float q[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        const float bad[4] = {inf_f32(), nan_f32(), lk_f32_from_bits(0x7fffffffu),
                              0x1.fffffep+127f};
        for (int i = 0; i < 4; i++) {
            float broken[8] = {0, 0, 0, 0, 0, 0, 0, bad[i]};
            const float scale = i == 3 ? 0x1p+8f : 1.0f;
            uint32_t flags[3] = {0, 0, 0};
            const lk_attn_args args = {.k_format = k_format,
                                       .v_format = v_format,
                                       .head_dim = 8,
                                       .scale = scale,
                                       .k_blocks = c.k_blocks,
                                       .v_blocks = c.v_blocks,
                                       .n_queries = 3,
                                       .q = {q, broken, q},
                                       .out = {out[0], out[1], out[2]},
                                       .n_keys = {70, 70, 3},
                                       .flag = {&flags[0], &flags[1], &flags[2]}};
            lk_attention_ref(&args);
            CHECK_MSG(flags[0] == 0 && flags[1] != 0 && flags[2] == 0, "pair %d value %d", pair, i);
        }
    }
}

LK_TEST_MAIN(LK_RUN(attention_bound), LK_RUN(attention_variants_bound),
             LK_RUN(attention_chunks_left_to_right), LK_RUN(attention_flags))
