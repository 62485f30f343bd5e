/* route_ref.c - the router of experts (section 11): the definition. The k best are found one after
 * the other, so that nothing is stored but the result. */
#include "ops/math.h"
#include "ops/ops.h"
#include "ops/twin.h"

/* The best expert after (logit, id) `last` in the order (logit descending, id ascending); the best
 * of all for last = -1. */
static int32_t next_best(const float *logits, size_t n_experts, int32_t last) {
    int32_t best = -1;
    for (int32_t i = 0; i < (int32_t)n_experts; i++) {
        const bool is_after =
            last < 0 || logits[i] < logits[last] || (logits[i] == logits[last] && i > last);
        if (is_after && (best < 0 || logits[i] > logits[best])) {
            best = i;
        }
    }
    return best;
}

static void sort_by_id(int32_t *ids, float *weights, size_t n) {
    for (size_t i = 1; i < n; i++) {
        const int32_t id = ids[i];
        const float weight = weights[i];
        size_t j = i;
        for (; j > 0 && ids[j - 1] > id; j--) {
            ids[j] = ids[j - 1];
            weights[j] = weights[j - 1];
        }
        ids[j] = id;
        weights[j] = weight;
    }
}

void lk_route_ref(const float *logits, size_t n_experts, size_t n_used, int normalise, int32_t *ids,
                  float *weights, uint32_t *flag) {
    if (lk_check_finite_ref(logits, n_experts) != 0) {
        *flag = 1; /* no order then: any distinct experts do, with weight 0 */
        for (size_t i = 0; i < n_used; i++) {
            ids[i] = (int32_t)i;
            weights[i] = 0.0f;
        }
        return;
    }
    int32_t last = -1;
    for (size_t i = 0; i < n_used; i++) {
        last = next_best(logits, n_experts, last);
        ids[i] = last;
    }
    const float m = logits[ids[0]];
    float p[LK_SUM_LANES] = {0.0f};
    for (size_t i = 0; i < n_experts; i++) {
        p[i % LK_SUM_LANES] = p[i % LK_SUM_LANES] + lk_expf(logits[i] - m);
    }
    const float total = lk_sum16_tree(p);
    float chosen[LK_SUM_LANES] = {0.0f};
    for (size_t i = 0; i < n_used; i++) {
        weights[i] = lk_expf(logits[ids[i]] - m) / total;
        chosen[i % LK_SUM_LANES] = chosen[i % LK_SUM_LANES] + weights[i];
    }
    if (normalise) {
        const float sum = lk_sum16_tree(chosen);
        for (size_t i = 0; i < n_used; i++) {
            weights[i] = weights[i] / sum;
        }
    }
    sort_by_id(ids, weights, n_used);
}
