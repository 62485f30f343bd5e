/* pooling.c - from the hidden states of a prompt to its embedding (section 16 of docs/numerics.md).
 * Invariant: a position is added once, in order, also where a choice was preempted and its rows are
 * computed again. */
#include <math.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/scheduler/scheduler.h"

bool lk_pooling_wants(const lk_choice *choice, int64_t pos) {
    switch (choice->request->pooling) {
    case LK_POOLING_MEAN:
        return pos >= choice->n_pooled;
    case LK_POOLING_FIRST:
        return pos == 0 && choice->n_pooled == 0;
    case LK_POOLING_LAST:
        return pos + 1 == (int64_t)choice->request->n_prompt;
    default:
        return false;
    }
}

lk_status lk_pooling_add(lk_choice *choice, const float *hidden, lk_error *err) {
    const lk_request *r = choice->request;
    if (choice->pooled == NULL) {
        choice->pooled =
            lk_alloc_array_zero(r->allocator, r->hidden_width, sizeof choice->pooled[0]);
        if (choice->pooled == NULL) {
            return lk_fail_nomem(err, "an embedding", r->hidden_width * sizeof choice->pooled[0]);
        }
    }
    for (uint32_t i = 0; i < r->hidden_width; i++) {
        choice->pooled[i] += (double)hidden[i];
    }
    choice->n_pooled++;
    return LK_OK;
}

void lk_pooling_finish(const lk_choice *choice, float *embedding) {
    const lk_request *r = choice->request;
    const double *sum = choice->pooled;
    double divisor = (double)choice->n_pooled;
    if ((r->flags & LK_REQUEST_NORMALISE) != 0) {
        double squares = 0;
        for (uint32_t i = 0; i < r->hidden_width; i++) {
            squares += sum[i] * sum[i];
        }
        divisor = squares > 0 ? sqrt(squares) : 1.0;
    }
    for (uint32_t i = 0; i < r->hidden_width; i++) {
        embedding[i] = (float)(sum[i] / divisor);
    }
}

void lk_pooling_free(lk_choice *choice) {
    const lk_request *r = choice->request;
    lk_free_array(r->allocator, choice->pooled, r->hidden_width, sizeof choice->pooled[0]);
}
