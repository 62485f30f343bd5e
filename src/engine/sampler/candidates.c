/* candidates.c - candidates in order: a whole radix sort, or the best k by a heap; the best one;
 * and weights. Both ways to order give the same list, since no two candidates are equal.
 *
 * Most logits are only looked at in groups, by the largest of each: the k-th largest of these is a
 * bound that at least k logits reach, and groups below it hold none of the best k. */
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "engine/sampler.h"
#include "ops/math.h"
#include "ops/twin.h"

/* Up to this many a heap is used: for more, sorting everything is faster. */
enum { MAX_HEAP = 1024, DIGIT_BITS = 11, N_DIGITS = 1 << DIGIT_BITS };
/* Logits of a group, and lanes in which its largest one is looked for. */
enum { GROUP = 64, LANES = 16 };

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

/* The largest of n logits. In lanes, so that any processor compares many at once. */
static float largest(const float *logits, uint32_t n) {
    float most[LANES];
    uint32_t i = 0;
    for (uint32_t k = 0; k < LANES; k++) {
        most[k] = logits[k < n ? k : 0];
    }
    for (; n - i >= LANES; i += LANES) {
        for (uint32_t k = 0; k < LANES; k++) {
            most[k] = logits[i + k] > most[k] ? logits[i + k] : most[k];
        }
    }
    for (; i < n; i++) {
        most[0] = logits[i] > most[0] ? logits[i] : most[0];
    }
    for (uint32_t half = LANES / 2; half > 0; half /= 2) {
        for (uint32_t k = 0; k < half; k++) {
            most[k] = most[k + half] > most[k] ? most[k + half] : most[k];
        }
    }
    return most[0];
}

static uint32_t group_size(uint32_t n_vocab, uint32_t first) {
    return n_vocab - first < GROUP ? n_vocab - first : GROUP;
}

/* The best k so far: a heap, the worst of them on top, once there are k. */
typedef struct best {
    uint64_t *heap; /* [k] */
    uint32_t k;
    uint32_t n;
    float least; /* a logit below it is not among them */
} best;

static void offer(best *b, float logit, uint32_t id) {
    if (!(logit >= b->least) || !lk_is_finite_f32(logit)) {
        return;
    }
    const lk_candidate candidate = make_candidate(logit, id);
    if (b->n < b->k) {
        b->heap[b->n++] = candidate;
        for (uint32_t i = b->n == b->k ? b->k / 2 : 0; i-- > 0;) {
            sift_down(b->heap, b->k, i);
        }
    } else if (candidate < b->heap[0]) {
        b->heap[0] = candidate;
        sift_down(b->heap, b->k, 0);
    } else {
        return;
    }
    if (b->n == b->k) {
        const float worst = lk_candidate_logit(b->heap[0]);
        b->least = worst > b->least ? worst : b->least;
    }
}

/* Offers logits [first, first + n), of which most are too small. */
static void offer_all(best *b, const float *logits, uint32_t first, uint32_t n) {
    for (uint32_t i = 0; i < n; i += LANES) {
        const uint32_t n_here = n - i < LANES ? n - i : LANES;
        const float *here = logits + first + i;
        if (n_here == LANES) {
            uint32_t n_large = 0;
            for (uint32_t k = 0; k < LANES; k++) {
                n_large += here[k] >= b->least;
            }
            if (n_large == 0) {
                continue;
            }
        }
        for (uint32_t k = 0; k < n_here; k++) {
            offer(b, here[k], first + i + k);
        }
    }
}

/* The k smallest numbers, ascending. most [n_vocab / GROUP, rounded up] is for the groups. */
static uint32_t select_best(const float *logits, uint32_t n_vocab, uint32_t k, float *most,
                            uint64_t *heap) {
    const uint32_t n_groups = (n_vocab + GROUP - 1) / GROUP;
    best found = {heap, k, 0, -INFINITY};
    for (uint32_t g = 0; g < n_groups; g++) {
        most[g] = largest(logits + (size_t)g * GROUP, group_size(n_vocab, g * GROUP));
        offer(&found, most[g], g);
    }
    found.n = 0; /* of the groups only the bound is kept, where there are k */
    for (uint32_t g = 0; g < n_groups; g++) {
        if (most[g] >= found.least) {
            offer_all(&found, logits, g * GROUP, group_size(n_vocab, g * GROUP));
        }
    }
    for (uint32_t i = found.n < k ? found.n / 2 : 0; i-- > 0;) {
        sift_down(heap, found.n, i);
    }
    for (uint32_t end = found.n; end > 1;) {
        const uint64_t top = heap[0];
        end--;
        heap[0] = heap[end];
        heap[end] = top;
        sift_down(heap, end, 0);
    }
    return found.n;
}

uint32_t lk_sampler_best(const lk_sampler *sampler) {
    const float *logits = sampler->view;
    uint32_t first = 0;
    float most = largest(logits, group_size(sampler->n_vocab, 0));
    for (uint32_t i = GROUP; i < sampler->n_vocab; i += GROUP) {
        const float here = largest(logits + i, group_size(sampler->n_vocab, i));
        first = here > most ? i : first;
        most = here > most ? here : most;
    }
    while (logits[first] < most) {
        first++;
    }
    return first;
}

void lk_sampler_order(lk_sampler *sampler, uint32_t k) {
    if (k > 0 && k <= MAX_HEAP && k < sampler->n_vocab) {
        sampler->n =
            select_best(sampler->view, sampler->n_vocab, k, sampler->weights, sampler->candidates);
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
