/* test_sampler.c - every stage of sampling on small cases with known answers, tokens that an
 * independent implementation draws, partial selection against the whole sort, errors. */
#include <fenv.h>
#include <math.h>

#include "engine/sampler.h"
#include "lk_test.h"

static lk_sampler_params plain(void) {
    lk_sampler_params p = LK_SAMPLER_PARAMS_INIT;
    p.temperature = 1.0f;
    p.top_k = 0;
    p.top_p = 1.0f;
    p.min_p = 0.0f;
    return p;
}

static lk_sampler *make(lk_sampler_params params, int32_t n_vocab) {
    lk_error err;
    lk_sampler *s = NULL;
    REQUIRE_OK(lk_sampler_create(&params, n_vocab, &s, &err), err);
    return s;
}

static lk_sample draw(lk_sampler *s, const float *logits, int64_t pos) {
    lk_error err;
    lk_sample sample;
    REQUIRE_OK(lk_sampler_sample(s, logits, pos, &sample, &err), err);
    return sample;
}

/* One draw with a sampler of its own. */
static lk_sample draw_once(lk_sampler_params params, const float *logits, int32_t n_vocab,
                           int64_t pos) {
    lk_sampler *s = make(params, n_vocab);
    const lk_sample sample = draw(s, logits, pos);
    lk_sampler_destroy(s);
    return sample;
}

/* Logits of 0.4, 0.3, 0.2, 0.1, in other places. */
static const float four[4] = {-1.6094379f, -0.9162907f, -2.3025851f, -1.2039728f};
enum { P20, P40, P10, P30 };

/* Counts the tokens of many positions and compares their shares with `wanted` (sum 1). */
static void check_shares(lk_sampler_params params, const double wanted[4], int32_t n_candidates) {
    const int64_t n = (int64_t)lk_test_size(3000, 20000, 1000000);
    lk_sampler *s = make(params, 4);
    double counts[4] = {0};
    for (int64_t pos = 0; pos < n; pos++) {
        const lk_sample sample = draw(s, four, pos);
        CHECK(sample.n_candidates == n_candidates);
        CHECK(fabs((double)sample.probability - wanted[sample.token]) < 1e-5);
        counts[sample.token] += 1.0;
    }
    for (int i = 0; i < 4; i++) {
        const double share = counts[i] / (double)n;
        const double sigma = sqrt(wanted[i] * (1.0 - wanted[i]) / (double)n);
        CHECK_MSG(fabs(share - wanted[i]) <= 4.5 * sigma, "token %d: %g, wanted %g", i, share,
                  wanted[i]);
    }
    lk_sampler_destroy(s);
}

LK_TEST(known_distributions) {
    lk_sampler_params p = plain();
    check_shares(p, (const double[4]){0.2, 0.4, 0.1, 0.3}, 4);
    p.seed = UINT64_MAX;
    check_shares(p, (const double[4]){0.2, 0.4, 0.1, 0.3}, 4);
    p = plain();
    p.temperature = 0.5f; /* squares */
    check_shares(p, (const double[4]){4.0 / 30, 16.0 / 30, 1.0 / 30, 9.0 / 30}, 4);
    p = plain();
    p.top_k = 3;
    check_shares(p, (const double[4]){2.0 / 9, 4.0 / 9, 0, 3.0 / 9}, 3);
    p = plain();
    p.top_p = 0.65f;
    check_shares(p, (const double[4]){0, 4.0 / 7, 0, 3.0 / 7}, 2);
    p.top_p = 0.75f;
    check_shares(p, (const double[4]){2.0 / 9, 4.0 / 9, 0, 3.0 / 9}, 3);
    p = plain();
    p.min_p = 0.6f;
    check_shares(p, (const double[4]){0, 4.0 / 7, 0, 3.0 / 7}, 2);
    /* Surprises 1.61, 0.92, 2.30, 1.20, entropy 1.28: nearest first 0.3, 0.2, 0.4, 0.1. */
    p = plain();
    p.typical_p = 0.25f;
    check_shares(p, (const double[4]){0, 0, 0, 1}, 1);
    p.typical_p = 0.45f;
    check_shares(p, (const double[4]){0.4, 0, 0, 0.6}, 2);
    p.typical_p = 0.6f;
    check_shares(p, (const double[4]){2.0 / 9, 4.0 / 9, 0, 3.0 / 9}, 3);
}

LK_TEST(limits_keep_one) {
    lk_sampler_params p = plain();
    p.top_p = 0.0f;
    CHECK(draw_once(p, four, 4, 3).token == P40 && draw_once(p, four, 4, 3).n_candidates == 1);
    p = plain();
    p.min_p = 1.0f;
    CHECK(draw_once(p, four, 4, 3).token == P40);
    p = plain();
    p.typical_p = 0.0f;
    CHECK(draw_once(p, four, 4, 3).token == P30);
    p = plain();
    p.top_k = 1;
    CHECK(draw_once(p, four, 4, 3).token == P40);
    p = plain();
    p.temperature = 1e-30f;
    CHECK(draw_once(p, four, 4, 3).token == P40);
    const float one[1] = {-7.0f};
    CHECK(draw_once(plain(), one, 1, 0).token == 0);
    const float far[3] = {-3e38f, 3e38f, -3e38f};
    p = plain();
    p.typical_p = 0.5f;
    CHECK(draw_once(p, far, 3, 0).token == 1);
}

/* Tokens drawn by an implementation of its own in binary64 (sorting everything, its own Philox):
 * 300 logits, seed 0x123456789abcdef, choices 0, 1, 2 in turn, the last four positions above 2^32.
 */
LK_TEST(independent_draws) {
    enum { N = 24 };
    static const struct {
        float temperature;
        int32_t top_k;
        float typical_p, top_p, min_p;
        int32_t n_candidates;
        int32_t tokens[N];
    } cases[] = {
        {1.0f, 0, 1.0f, 1.0f, 0.0f, 300, {47,  81, 47, 192, 239, 225, 152, 152, 86, 251, 278, 179,
                                          277, 66, 99, 132, 264, 119, 199, 218, 47, 53,  165, 172}},
        {0.8f, 40, 1.0f, 0.95f, 0.05f, 37, {40,  159, 40,  7,  93,  7,   264, 264,
                                            231, 297, 139, 73, 277, 33,  66,  66,
                                            165, 264, 172, 20, 284, 231, 99,  119}},
        {1.3f, 0, 0.6f, 1.0f, 0.0f, 45, {192, 34, 192, 93,  1,   126, 7,  7,  251, 40,  291, 258,
                                         231, 20, 297, 297, 152, 7,   80, 40, 192, 218, 53,  205}},
        {0.9f, 120, 0.9f, 0.9f, 0.1f, 48, {172, 146, 172, 106, 47,  106, 297, 297,
                                           264, 86,  27,  238, 277, 33,  66,  99,
                                           198, 20,  126, 53,  172, 264, 99,  218}},
    };
    float logits[300];
    for (int32_t i = 0; i < 300; i++) {
        logits[i] = (float)((i * 7919) % 1009) * 0.01f - 4.0f;
    }
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        lk_sampler_params p = plain();
        p.seed = 0x123456789abcdefu;
        p.temperature = cases[c].temperature;
        p.top_k = cases[c].top_k;
        p.typical_p = cases[c].typical_p;
        p.top_p = cases[c].top_p;
        p.min_p = cases[c].min_p;
        for (int32_t i = 0; i < N; i++) {
            p.choice = (uint32_t)i % 3;
            const int64_t pos = i < 20 ? i : i + ((int64_t)5 << 32);
            const lk_sample sample = draw_once(p, logits, 300, pos);
            CHECK_MSG(sample.token == cases[c].tokens[i], "case %zu, draw %d: token %d", c, i,
                      sample.token);
            CHECK(sample.n_candidates == cases[c].n_candidates);
        }
    }
}

LK_TEST(ties_go_to_the_lowest_id) {
    float logits[100];
    for (int i = 0; i < 100; i++) {
        logits[i] = i % 2 ? 1.0f : -1.0f;
    }
    logits[0] = 0.0f;
    logits[2] = -0.0f; /* equal to +0 */
    lk_sampler_params p = plain();
    p.temperature = 0.0f;
    CHECK(draw_once(p, logits, 100, 0).token == 1);
    p.temperature = 1.0f;
    p.top_k = 3;
    lk_sampler *s = make(p, 100);
    (void)draw(s, logits, 0);
    CHECK(lk_candidate_id(s->candidates[0]) == 1 && lk_candidate_id(s->candidates[1]) == 3 &&
          lk_candidate_id(s->candidates[2]) == 5);
    memcpy(s->logits, logits, sizeof logits);
    for (uint32_t k = 0; k <= 52; k += 52) { /* both ways of ordering */
        lk_sampler_order(s, k);
        CHECK(lk_candidate_id(s->candidates[50]) == 0 && lk_candidate_id(s->candidates[51]) == 2);
        CHECK(lk_candidate_logit(s->candidates[51]) == 0.0f);
    }
    lk_sampler_destroy(s);
}

LK_TEST(partial_selection_equals_the_sort) {
    enum { N = 3000 };
    static const uint32_t wanted[] = {1, 2, 3, 7, 40, 100, 1000, 1023, 1024, 1025, 2999, N, N + 5};
    uint64_t rng = lk_test_seed(5);
    float *logits = malloc(N * sizeof logits[0]);
    lk_candidate *sorted = malloc(N * sizeof sorted[0]);
    lk_sampler *s = make(plain(), N);
    for (int round = 0; round < 12; round++) {
        const uint64_t n_values = round % 3 == 0 ? 5 : (round % 3 == 1 ? 500 : UINT32_MAX);
        for (int i = 0; i < N; i++) {
            logits[i] = (float)(int64_t)(lk_test_random(&rng) % n_values) - (float)(n_values / 2);
            if (lk_test_random(&rng) % 50 == 0) {
                logits[i] = -INFINITY; /* banned */
            }
        }
        memcpy(s->logits, logits, N * sizeof logits[0]);
        lk_sampler_order(s, 0);
        const uint32_t n_all = s->n;
        memcpy(sorted, s->candidates, n_all * sizeof sorted[0]);
        for (uint32_t i = 1; i < n_all; i++) {
            const float a = lk_candidate_logit(sorted[i - 1]);
            const float b = lk_candidate_logit(sorted[i]);
            CHECK(a > b || (a == b && lk_candidate_id(sorted[i - 1]) < lk_candidate_id(sorted[i])));
            CHECK(b == logits[lk_candidate_id(sorted[i])]);
        }
        for (size_t k = 0; k < sizeof wanted / sizeof wanted[0]; k++) {
            lk_sampler_order(s, wanted[k]);
            CHECK(s->n == (wanted[k] < n_all ? wanted[k] : n_all));
            CHECK(memcmp(s->candidates, sorted, s->n * sizeof sorted[0]) == 0);
        }
    }
    lk_sampler_destroy(s);
    free(logits);
    free(sorted);
}

LK_TEST(reproducible_by_position) {
    float logits[64];
    for (int i = 0; i < 64; i++) {
        logits[i] = (float)((i * 37) % 64) * 0.05f;
    }
    lk_sampler_params p = plain();
    p.seed = 77;
    lk_sampler *s = make(p, 64);
    int32_t tokens[200];
    int n_other_choice = 0;
    int n_other_seed = 0;
    for (int64_t pos = 0; pos < 200; pos++) {
        tokens[pos] = draw(s, logits, pos).token;
    }
    for (int64_t pos = 199; pos >= 0; pos--) { /* backwards: no hidden state */
        CHECK(draw(s, logits, pos).token == tokens[pos]);
    }
    lk_sampler_destroy(s);
    p.choice = 1;
    lk_sampler *other_choice = make(p, 64);
    p.choice = 0;
    p.seed = 78;
    lk_sampler *other_seed = make(p, 64);
    for (int64_t pos = 0; pos < 200; pos++) {
        n_other_choice += draw(other_choice, logits, pos).token != tokens[pos];
        n_other_seed += draw(other_seed, logits, pos).token != tokens[pos];
    }
    CHECK(n_other_choice > 150 && n_other_seed > 150);
    lk_sampler_destroy(other_choice);
    lk_sampler_destroy(other_seed);
}

/* The host's rounding mode changes nothing and is given back. */
LK_TEST(other_rounding_mode) {
    lk_sampler_params p = plain();
    p.typical_p = 0.9f;
    p.temperature = 0.7f;
    lk_sampler *s = make(p, 4);
    lk_sample first[50];
    for (int64_t pos = 0; pos < 50; pos++) {
        first[pos] = draw(s, four, pos);
    }
    (void)fesetround(FE_UPWARD);
    for (int64_t pos = 0; pos < 50; pos++) {
        const lk_sample again = draw(s, four, pos);
        CHECK(memcmp(&again, &first[pos], sizeof again) == 0);
    }
    CHECK(fegetround() == FE_UPWARD);
    (void)fesetround(FE_TONEAREST);
    lk_sampler_destroy(s);
}

static void accept(lk_sampler *s, const int32_t *tokens, size_t n) {
    lk_error err;
    for (size_t i = 0; i < n; i++) {
        REQUIRE_OK(lk_sampler_accept(s, tokens[i], &err), err);
    }
}

LK_TEST(penalties) {
    static const float logits[5] = {2.0f, -2.0f, 1.5f, 0.0f, 1.0f};
    static const int32_t past[] = {4, 0, 0, 1, 1, 1, 3};
    lk_sampler_params p = plain();
    p.temperature = 0.0f;
    p.repeat_penalty = 2.0f;
    p.frequency_penalty = 0.25f;
    p.presence_penalty = 0.125f;
    p.penalty_last_n = 6; /* the 4 is too old */
    lk_sampler *s = make(p, 5);
    accept(s, past, 7);
    CHECK(draw(s, logits, 0).token == 2);
    CHECK(s->logits[0] == 2.0f / 2.0f - 0.25f * 2.0f - 0.125f);
    CHECK(s->logits[1] == -2.0f * 2.0f - 0.25f * 3.0f - 0.125f);
    CHECK(s->logits[2] == 1.5f && s->logits[4] == 1.0f);
    CHECK(s->logits[3] == -0.25f - 0.125f);
    accept(s, (const int32_t[]){2, 2, 2, 2, 2}, 5); /* only 3 and 2 are left */
    (void)draw(s, logits, 0);
    CHECK(s->logits[0] == 2.0f && s->logits[1] == -2.0f && s->logits[3] == -0.375f);
    CHECK(s->logits[2] == 1.5f / 2.0f - 0.25f * 5.0f - 0.125f);
    lk_sampler_reset(s);
    CHECK(draw(s, logits, 0).token == 0 && memcmp(s->logits, logits, sizeof logits) == 0);
    accept(s, past, 7);
    (void)draw(s, logits, 0);
    CHECK(s->logits[1] == -2.0f * 2.0f - 0.25f * 3.0f - 0.125f);
    lk_sampler_destroy(s);

    p.penalty_last_n = -1; /* all */
    s = make(p, 5);
    for (int i = 0; i < 1000; i++) {
        accept(s, past, 1);
    }
    (void)draw(s, logits, 0);
    CHECK(s->logits[4] == 0.5f - 250.0f - 0.125f && s->logits[0] == 2.0f);
    lk_sampler_destroy(s);

    p.penalty_last_n = 0; /* none */
    s = make(p, 5);
    accept(s, past, 7);
    CHECK(draw(s, logits, 0).token == 0);
    CHECK_STATUS(LK_E_ARG, lk_sampler_accept(s, 5, NULL));
    CHECK_STATUS(LK_E_ARG, lk_sampler_accept(s, -1, NULL));
    lk_sampler_destroy(s);
}

/* The ring of the last n against a plain recount. */
LK_TEST(history_of_the_last_tokens) {
    enum { N_VOCAB = 9, LAST = 13, N = 300 };
    uint64_t rng = lk_test_seed(6);
    int32_t tokens[N];
    lk_sampler_params p = plain();
    p.repeat_penalty = 1.5f;
    p.penalty_last_n = LAST;
    lk_sampler *s = make(p, N_VOCAB);
    for (int i = 0; i < N; i++) {
        tokens[i] = (int32_t)(lk_test_random(&rng) % N_VOCAB);
        accept(s, &tokens[i], 1);
        uint32_t counts[N_VOCAB] = {0};
        uint32_t n_distinct = 0;
        for (int k = i; k >= 0 && k > i - LAST; k--) {
            n_distinct += counts[tokens[k]]++ == 0;
        }
        CHECK(memcmp(s->history.counts, counts, sizeof counts) == 0);
        CHECK(s->history.n_distinct == n_distinct);
        for (uint32_t k = 0; k < n_distinct; k++) {
            CHECK(counts[s->history.distinct[k]] > 0);
        }
    }
    lk_sampler_destroy(s);
}

LK_TEST(biases) {
    lk_error err = {0};
    lk_logit_bias list[4] = {{P40, -INFINITY}, {P10, 5.0f}, {P40, 9.0f}, {P10, 0.5f}};
    lk_sampler_params p = plain();
    p.temperature = 0.0f;
    p.n_logit_bias = 4;
    p.logit_bias = list;
    lk_sampler *s = make(p, 4);
    list[1].bias = -100.0f; /* the sampler has its own copy */
    const lk_sample sample = draw(s, four, 0);
    CHECK(sample.token == P10 && sample.n_candidates == 3);
    CHECK(s->logits[P10] == four[P10] + 5.0f + 0.5f && s->logits[P40] == -INFINITY);
    lk_sampler_destroy(s);

    for (int32_t i = 0; i < 4; i++) {
        list[i] = (lk_logit_bias){i, -INFINITY};
    }
    for (int greedy = 0; greedy < 2; greedy++) {
        lk_sample none;
        p.temperature = greedy ? 0.0f : 1.0f;
        p.top_k = greedy;
        s = make(p, 4);
        CHECK_STATUS(LK_E_ARG, lk_sampler_sample(s, four, 0, &none, &err));
        CHECK(strstr(err.message, "bans every token") != NULL);
        lk_sampler_destroy(s);
    }
    p.n_logit_bias = 3; /* one is left */
    p.temperature = 1.0f;
    CHECK(draw_once(p, four, 4, 0).token == 3);
}

LK_TEST(non_finite_logits) {
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    lk_error err = {0};
    lk_sample sample;
    for (size_t i = 0; i < 6; i++) {
        float logits[4];
        lk_sampler_params p = plain();
        p.temperature = i < 3 ? 0.0f : 1.0f;
        lk_sampler *s = make(p, 4);
        memcpy(logits, four, sizeof logits);
        logits[2] = bad[i % 3];
        CHECK_STATUS(LK_E_NONFINITE, lk_sampler_sample(s, logits, 0, &sample, &err));
        CHECK_MSG(strstr(err.message, "token 2") != NULL, "%s", err.message);
        lk_sampler_destroy(s);
    }
    const float huge[2] = {3.4e38f, -3.4e38f};
    const lk_logit_bias bias = {0, 3e38f};
    lk_sampler_params p = plain();
    p.n_logit_bias = 1;
    p.logit_bias = &bias;
    lk_sampler *s = make(p, 2);
    CHECK_STATUS(LK_E_NONFINITE, lk_sampler_sample(s, huge, 0, &sample, &err));
    CHECK(strstr(err.message, "token 0 is inf after the logit bias") != NULL);
    lk_sampler_destroy(s);
    p = plain();
    p.repeat_penalty = 2.0f;
    s = make(p, 2);
    accept(s, (const int32_t[]){1}, 1);
    CHECK_STATUS(LK_E_NONFINITE, lk_sampler_sample(s, huge, 0, &sample, &err));
    CHECK(strstr(err.message, "token 1 is -inf after the penalties") != NULL);
    lk_sampler_destroy(s);
}

static void check_refused(lk_sampler_params p, const char *name) {
    lk_error err = {0};
    lk_sampler *s = NULL;
    CHECK_STATUS(LK_E_ARG, lk_sampler_create(&p, 100, &s, &err));
    CHECK_MSG(s == NULL && strcmp(err.subject, name) == 0, "%s: %s", name, err.message);
}

LK_TEST(ends_of_the_ranges_are_taken) {
#define TAKEN(field, value)                                                                        \
    do {                                                                                           \
        lk_sampler_params p = plain();                                                             \
        p.field = (value);                                                                         \
        lk_sampler *sampler = NULL;                                                                \
        CHECK_STATUS(LK_OK, lk_sampler_create(&p, 100, &sampler, NULL));                           \
        lk_sampler_destroy(sampler);                                                               \
    } while (0)
    TAKEN(temperature, -1e6f);
    TAKEN(temperature, 1e6f);
    TAKEN(top_p, -0.0f);
    TAKEN(repeat_penalty, 0.01f); /* the nearest float is below 0.01 */
    TAKEN(repeat_penalty, 100.0f);
#undef TAKEN
}

LK_TEST(parameters_are_checked) {
    static const lk_logit_bias bad_token = {100, 1.0f};
    static const lk_logit_bias negative_token = {-1, 1.0f};
    static const lk_logit_bias bad_bias = {1, INFINITY};
    static const lk_logit_bias nan_bias = {1, NAN};
#define REFUSED(field, value, name)                                                                \
    do {                                                                                           \
        lk_sampler_params p = plain();                                                             \
        p.field = (value);                                                                         \
        check_refused(p, name);                                                                    \
    } while (0)
    REFUSED(struct_size, 1, "struct_size");
    REFUSED(temperature, NAN, "temperature");
    REFUSED(temperature, INFINITY, "temperature");
    REFUSED(top_k, -1, "top_k");
    REFUSED(top_p, -0.001f, "top_p");
    REFUSED(top_p, 1.001f, "top_p");
    REFUSED(top_p, NAN, "top_p");
    REFUSED(min_p, -0.001f, "min_p");
    REFUSED(min_p, 1.001f, "min_p");
    REFUSED(min_p, NAN, "min_p");
    REFUSED(typical_p, -0.001f, "typical_p");
    REFUSED(typical_p, 1.001f, "typical_p");
    REFUSED(typical_p, NAN, "typical_p");
    REFUSED(repeat_penalty, 0.0f, "repeat_penalty");
    REFUSED(repeat_penalty, 101.0f, "repeat_penalty");
    REFUSED(repeat_penalty, NAN, "repeat_penalty");
    REFUSED(presence_penalty, 101.0f, "presence_penalty");
    REFUSED(presence_penalty, NAN, "presence_penalty");
    REFUSED(frequency_penalty, -101.0f, "frequency_penalty");
    REFUSED(frequency_penalty, NAN, "frequency_penalty");
    REFUSED(penalty_last_n, -2, "penalty_last_n");
    REFUSED(penalty_last_n, LK_MAX_PENALTY_TOKENS + 1, "penalty_last_n");
    REFUSED(n_logit_bias, -1, "n_logit_bias");
    REFUSED(n_logit_bias, LK_MAX_LOGIT_BIAS + 1, "n_logit_bias");
    REFUSED(n_logit_bias, 1, "logit_bias"); /* NULL */
#undef REFUSED
    lk_sampler_params p = plain();
    p.n_logit_bias = 1;
    p.logit_bias = &bad_token;
    check_refused(p, "logit_bias token");
    p.logit_bias = &negative_token;
    check_refused(p, "logit_bias token");
    p.logit_bias = &bad_bias;
    check_refused(p, "logit_bias");
    p.logit_bias = &nan_bias;
    check_refused(p, "logit_bias");

    lk_error err;
    lk_sampler *s = NULL;
    lk_sample sample;
    CHECK_STATUS(LK_E_ARG, lk_sampler_create(NULL, 0, &s, &err));
    CHECK_STATUS(LK_E_ARG, lk_sampler_create(NULL, 10, NULL, &err));
    REQUIRE_OK(lk_sampler_create(NULL, 4, &s, &err), err); /* the defaults */
    CHECK_STATUS(LK_E_ARG, lk_sampler_sample(s, four, -1, &sample, &err));
    CHECK_STATUS(LK_E_ARG, lk_sampler_sample(s, NULL, 0, &sample, &err));
    CHECK_STATUS(LK_E_ARG, lk_sampler_sample(NULL, four, 0, &sample, &err));
    lk_sampler_destroy(s);
    lk_sampler_destroy(NULL);
    lk_sampler_reset(NULL);
}

LK_TEST(failing_allocations) {
    static const lk_logit_bias bias = {1, 1.0f};
    bool is_done = false;
    uint64_t n = 1;
    for (; !is_done; n++) {
        lk_test_allocator t;
        lk_sampler *s = NULL;
        lk_sampler_params p = plain();
        lk_test_allocator_init(&t);
        t.fail_at = n;
        p.allocator = &t.base;
        p.typical_p = 0.5f;
        p.repeat_penalty = 1.1f;
        p.n_logit_bias = 1;
        p.logit_bias = &bias;
        const lk_status status = lk_sampler_create(&p, 4, &s, NULL);
        is_done = t.n_failed == 0;
        CHECK_STATUS(is_done ? LK_OK : LK_E_NOMEM, status);
        if (s != NULL) {
            const uint64_t before = t.n_calls;
            accept(s, (const int32_t[]){1, 2}, 2);
            (void)draw(s, four, 0);
            lk_sampler_reset(s);
            CHECK(t.n_calls == before); /* sampling allocates nothing */
        }
        lk_sampler_destroy(s);
        CHECK(t.n_live == 0 && t.live_bytes == 0);
    }
    CHECK(n > 8);
}

LK_TEST_MAIN(LK_RUN(known_distributions), LK_RUN(limits_keep_one), LK_RUN(independent_draws),
             LK_RUN(ties_go_to_the_lowest_id), LK_RUN(partial_selection_equals_the_sort),
             LK_RUN(reproducible_by_position), LK_RUN(other_rounding_mode), LK_RUN(penalties),
             LK_RUN(history_of_the_last_tokens), LK_RUN(biases), LK_RUN(non_finite_logits),
             LK_RUN(ends_of_the_ranges_are_taken), LK_RUN(parameters_are_checked),
             LK_RUN(failing_allocations))
