/* candidates.c - candidates in order: a whole radix sort, or the best k by a heap; and their
 * weights. Both ways give the same list, since no two candidates are equal. */
#include <string.h>

#include "base/bytes.h"
#include "engine/sampler.h"
#include "ops/math.h"
#include "ops/twin.h"

/* Up to this many a heap is used: for more, sorting everything is faster. */
enum { MAX_HEAP = 1024, DIGIT_BITS = 11, N_DIGITS = 1 << DIGIT_BITS };
/* Logits that are looked at together: mostly none of them is among the best. */
enum { SCAN = 32 };

/* Larger logits give smaller numbers. */
static lk_candidate make_candidate(float logit, uint32_t id) {
    uint32_t bits = lk_f32_bits(logit);
    if (bits == 0x80000000u) {
        bits = 0;
    }
    const uint32_t ascending = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
    return ((uint64_t)~ascending << 32) | id;
}

float lk_candidate_logit(lk_candidate candidate) {
    const uint32_t ascending = ~(uint32_t)(candidate >> 32);
    return lk_f32_from_bits((ascending & 0x80000000u) != 0 ? ascending & 0x7fffffffu : ~ascending);
}

/* One pass of the radix sort: by the digit at `shift`. False when all digits are equal. */
static bool sort_digit(const uint64_t *in, uint64_t *out, uint32_t n, unsigned shift) {
    uint32_t starts[N_DIGITS] = {0};
    for (uint32_t i = 0; i < n; i++) {
        starts[(in[i] >> shift) & (N_DIGITS - 1)]++;
    }
    if (starts[(in[0] >> shift) & (N_DIGITS - 1)] == n) {
        return false;
    }
    uint32_t sum = 0;
    for (uint32_t d = 0; d < N_DIGITS; d++) {
        const uint32_t count = starts[d];
        starts[d] = sum;
        sum += count;
    }
    for (uint32_t i = 0; i < n; i++) {
        out[starts[(in[i] >> shift) & (N_DIGITS - 1)]++] = in[i];
    }
    return true;
}

void lk_sampler_sort(uint64_t *keys, uint64_t *spare, uint32_t n) {
    uint64_t *in = keys;
    uint64_t *out = spare;
    for (unsigned shift = 32; shift < 64 && n > 1; shift += DIGIT_BITS) {
        if (sort_digit(in, out, n, shift)) {
            uint64_t *was_in = in;
            in = out;
            out = was_in;
        }
    }
    if (in != keys) {
        memcpy(keys, in, n * sizeof keys[0]);
    }
}

/* Restores the heap (largest number on top) below position i. */
static void sift_down(uint64_t *heap, uint32_t n, uint32_t i) {
    const uint64_t moving = heap[i];
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= n) {
            break;
        }
        if (child + 1 < n && heap[child + 1] > heap[child]) {
            child++;
        }
        if (heap[child] <= moving) {
            break;
        }
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moving;
}

static bool has_above(const float *logits, float bound) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < SCAN; i++) {
        found |= logits[i] > bound ? 1u : 0u;
    }
    return found != 0;
}

/* The k smallest numbers, ascending: a heap of the best so far, the worst of them on top. */
static uint32_t select_best(const float *logits, uint32_t n_vocab, uint32_t k, uint64_t *heap) {
    uint32_t n = 0;
    uint32_t id = 0;
    for (; id < n_vocab && n < k; id++) {
        if (lk_is_finite_f32(logits[id])) {
            heap[n++] = make_candidate(logits[id], id);
        }
    }
    for (uint32_t i = n / 2; i-- > 0;) {
        sift_down(heap, n, i);
    }
    /* A later id with an equal logit comes behind, so only larger logits get in. */
    float worst = n > 0 ? lk_candidate_logit(heap[0]) : 0.0f;
    for (; id < n_vocab; id++) {
        while (n_vocab - id > SCAN && !has_above(logits + id, worst)) {
            id += SCAN;
        }
        if (logits[id] > worst) {
            heap[0] = make_candidate(logits[id], id);
            sift_down(heap, n, 0);
            worst = lk_candidate_logit(heap[0]);
        }
    }
    for (uint32_t end = n; end > 1;) {
        const uint64_t top = heap[0];
        end--;
        heap[0] = heap[end];
        heap[end] = top;
        sift_down(heap, end, 0);
    }
    return n;
}

void lk_sampler_order(lk_sampler *sampler, uint32_t k) {
    if (k > 0 && k <= MAX_HEAP && k < sampler->n_vocab) {
        sampler->n = select_best(sampler->view, sampler->n_vocab, k, sampler->candidates);
        return;
    }
    uint32_t n = 0;
    for (uint32_t id = 0; id < sampler->n_vocab; id++) {
        if (lk_is_finite_f32(sampler->view[id])) {
            sampler->candidates[n++] = make_candidate(sampler->view[id], id);
        }
    }
    lk_sampler_sort(sampler->candidates, sampler->spare, n);
    sampler->n = k > 0 && k < n ? k : n;
}

float lk_sampler_weigh(lk_sampler *sampler, float divisor) {
    const float max = lk_candidate_logit(sampler->candidates[0]);
    float partial[LK_SUM_LANES] = {0.0f};
    for (uint32_t i = 0; i < sampler->n; i++) {
        const float distance = lk_candidate_logit(sampler->candidates[i]) - max;
        sampler->weights[i] = lk_expf(distance / divisor);
        partial[i % LK_SUM_LANES] = partial[i % LK_SUM_LANES] + sampler->weights[i];
    }
    return lk_sum16_tree(partial);
}
