/* experts.cu - the router (section 11) and the assignments sorted by expert. */
#include "backend/cuda/kern/flags.h"
#include "backend/cuda/kern/launch.h"
#include "backend/cuda/kern/s16.h"

enum { NONE = -1 };

/* Whether expert i comes before expert j in the order (logit descending, id ascending). */
LK_DEVICE bool is_better(const float *logits, int32_t i, int32_t j) {
    return j == NONE || (i != NONE && (logits[i] > logits[j] || (logits[i] == logits[j] && i < j)));
}

/* The best expert behind `last` in that order, by the lanes of a warp. */
LK_DEVICE int32_t next_best(const float *logits, uint32_t n, int32_t last) {
    int32_t best = NONE;
    for (uint32_t i = lk_thread(); i < n; i += LK_WARP) {
        if ((last == NONE || is_better(logits, last, (int32_t)i)) && (int32_t)i != last &&
            is_better(logits, (int32_t)i, best)) {
            best = (int32_t)i;
        }
    }
    for (uint32_t mask = 16; mask != 0; mask /= 2) {
        const int32_t other = (int32_t)lk_exchange((uint32_t)best, mask);
        best = is_better(logits, other, best) && other != NONE ? other : best;
    }
    return best;
}

/* Whether all logits are finite, in all lanes. */
LK_DEVICE bool all_finite(const float *logits, uint32_t n) {
    uint32_t bad = 0;
    for (uint32_t i = lk_thread(); i < n; i += LK_WARP) {
        bad |= lk_is_finite_f32(logits[i]) ? 0u : 1u;
    }
    for (uint32_t mask = 16; mask != 0; mask /= 2) {
        bad |= lk_exchange(bad, mask);
    }
    return bad == 0;
}

LK_KERNEL(route, lk_cuda_route_args) {
    LK_SHARED int32_t ids[LK_CUDA_MAX_USED];
    LK_SHARED float weights[LK_CUDA_MAX_USED];
    const float *const logits = a.logits + (size_t)lk_block_x() * a.n_experts;
    const size_t at = (size_t)lk_block_x() * a.n_used;
    const uint32_t lane = lk_thread() % LK_SUM_LANES;
    if (!all_finite(logits, a.n_experts)) {
        for (uint32_t i = lk_thread(); i < a.n_used; i += LK_WARP) {
            a.ids[at + i] = (int32_t)i;
            a.weights[at + i] = 0.0f;
        }
        lk_note(&a.flags, lk_block_x());
        return;
    }
    int32_t last = NONE;
    for (uint32_t i = 0; i < a.n_used; i++) {
        last = next_best(logits, a.n_experts, last);
        if (lk_thread() == 0) {
            ids[i] = last;
        }
    }
    lk_barrier();
    const float m = logits[ids[0]];
    float p = 0.0f;
    for (uint32_t i = lane; i < a.n_experts; i += LK_SUM_LANES) {
        p = p + lk_expf(logits[i] - m);
    }
    const float total = lk_lanes_tree(p);
    for (uint32_t i = lk_thread(); i < a.n_used; i += LK_WARP) {
        weights[i] = lk_expf(logits[ids[i]] - m) / total;
    }
    lk_barrier();
    float chosen = 0.0f;
    for (uint32_t i = lane; i < a.n_used; i += LK_SUM_LANES) {
        chosen = chosen + weights[i];
    }
    const float sum = lk_lanes_tree(chosen);
    for (uint32_t i = lk_thread(); i < a.n_used; i += LK_WARP) {
        uint32_t place = 0;
        for (uint32_t j = 0; j < a.n_used; j++) {
            place += ids[j] < ids[i] ? 1u : 0u;
        }
        a.ids[at + place] = ids[i];
        a.weights[at + place] = a.normalise != 0 ? weights[i] / sum : weights[i];
    }
}

/* A thread counts, then places, the assignments of an expert in the order of the rows. */
LK_KERNEL(group_experts, lk_cuda_group_args) {
    const uint32_t n = a.n_rows * a.n_used;
    for (uint32_t e = lk_thread(); e < a.n_experts; e += LK_CUDA_WIDE) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < n; i++) {
            count += (uint32_t)a.ids[i] == e ? 1u : 0u;
        }
        a.first[e + 1] = count;
    }
    lk_barrier();
    if (lk_thread() == 0) {
        uint32_t sum = 0;
        a.first[0] = 0;
        for (uint32_t e = 0; e < a.n_experts; e++) {
            sum += a.first[e + 1];
            a.first[e + 1] = sum;
        }
    }
    lk_barrier();
    for (uint32_t e = lk_thread(); e < a.n_experts; e += LK_CUDA_WIDE) {
        uint32_t slot = a.first[e];
        for (uint32_t i = 0; i < n && slot < a.first[e + 1]; i++) {
            if ((uint32_t)a.ids[i] == e) {
                const uint32_t row = i / a.n_used;
                a.slot[i] = slot;
                a.row_of[slot] = row;
                a.step_row_of[slot] = a.step_row != NULL ? a.step_row[row] : row;
                a.expert_of[slot] = e;
                slot++;
            }
        }
    }
}
