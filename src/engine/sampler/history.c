/* history.c - the tokens that the penalties look at: the last n, or all, counted as they come; and
 * the grammar, which moves on with them. */
#include <string.h>

#include "base/error.h"
#include "engine/sampler.h"

static void add(lk_sampler_history *h, int32_t token) {
    if (h->counts[token]++ == 0) {
        h->place_of[token] = h->n_distinct;
        h->distinct[h->n_distinct++] = token;
    }
}

static void drop(lk_sampler_history *h, int32_t token) {
    if (--h->counts[token] == 0) {
        const int32_t last = h->distinct[--h->n_distinct];
        h->distinct[h->place_of[token]] = last;
        h->place_of[last] = h->place_of[token];
    }
}

lk_status lk_sampler_note(lk_sampler *sampler, int32_t token, lk_error *err) {
    lk_sampler_history *h = &sampler->history;
    if (token < 0 || (uint32_t)token >= sampler->n_vocab) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("token"), "token %d, expected 0 .. %u", token,
                       sampler->n_vocab - 1);
    }
    if (sampler->matcher != NULL) {
        const lk_status status = lk_matcher_token(sampler->matcher, (uint32_t)token, err);
        if (status != LK_OK) {
            return status;
        }
    }
    if (h->counts == NULL) {
        return LK_OK; /* no penalty is on */
    }
    if (h->ring != NULL) {
        if (h->n_filled == h->n_ring) {
            drop(h, h->ring[h->i_next]);
        } else {
            h->n_filled++;
        }
        h->ring[h->i_next] = token;
        h->i_next = h->i_next + 1 == h->n_ring ? 0 : h->i_next + 1;
    }
    add(h, token);
    return LK_OK;
}

void lk_sampler_forget(lk_sampler *sampler) {
    lk_sampler_history *h = &sampler->history;
    for (uint32_t i = 0; i < h->n_distinct; i++) {
        h->counts[h->distinct[i]] = 0;
    }
    h->n_distinct = 0;
    h->n_filled = 0;
    h->i_next = 0;
    if (sampler->matcher != NULL) {
        lk_matcher_rewind(sampler->matcher);
    }
}
