/* grammar_mask.c - a sampler under a grammar: what is not allowed is out before anything else
 * looks at the logits. */
#include <math.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/sampler.h"
#include "grammar/matcher.h"

lk_status lk_sampler_constrain(lk_sampler *s, const lk_grammar *grammar, const lk_token_trie *trie,
                               lk_error *err) {
    lk_matcher *m = NULL;
    if (grammar != NULL) {
        if (trie->n_vocab > s->n_vocab) {
            return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("trie"),
                           "the vocabulary has %u tokens, the sampler %u", trie->n_vocab,
                           s->n_vocab);
        }
        m = lk_alloc_zero(s->allocator, sizeof *m);
        if (m == NULL) {
            return lk_fail_nomem(err, "the state of a grammar", sizeof *m);
        }
        const lk_status status = lk_matcher_init(m, grammar, trie, s->allocator, err);
        if (status != LK_OK) {
            lk_free(s->allocator, m, sizeof *m);
            return status;
        }
    }
    lk_sampler_unconstrain(s);
    s->matcher = m;
    return LK_OK;
}

void lk_sampler_unconstrain(lk_sampler *s) {
    if (s->matcher != NULL) {
        lk_matcher_deinit(s->matcher);
        lk_free(s->allocator, s->matcher, sizeof *s->matcher);
        s->matcher = NULL;
    }
}

lk_status lk_sampler_mask(lk_sampler *s, lk_error *err) {
    const uint32_t *words = NULL;
    lk_matcher *m = s->matcher;
    const lk_status status = lk_matcher_mask(m, &words, err);
    if (status != LK_OK) {
        return status;
    }
    uint32_t any = 0;
    for (size_t w = 0; w < m->n_words; w++) {
        any |= words[w];
        for (uint32_t id = (uint32_t)w * 32;
             words[w] != UINT32_MAX && id < (w + 1) * 32 && id < s->n_vocab; id++) {
            if ((words[w] >> (id % 32) & 1u) == 0) {
                s->logits[id] = -INFINITY;
            }
        }
    }
    for (size_t id = m->n_words * 32; id < s->n_vocab; id++) {
        s->logits[id] = -INFINITY;
    }
    return any != 0 ? LK_OK
                    : lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT("grammar"),
                              lk_matcher_progress(m) == LK_GRAMMAR_COMPLETE
                                  ? "the text is complete, and the vocabulary has no end token"
                                  : "no token of the vocabulary can go on as the grammar wants");
}
