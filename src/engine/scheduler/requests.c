/* requests.c - the life of a request: checked and copied at submission, held by the caller and by
 * the engine, freed by whoever lets go last. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/scheduler/scheduler.h"
#include "ops/twin.h"

static lk_status check_prompt(const lk_engine *engine, const lk_request_params *p, lk_error *err) {
    const uint32_t n_vocab = engine->context->graph->n_vocab;
    if (p->prompt == NULL || p->n_prompt == 0) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("prompt"), "the prompt has no token");
    }
    if (p->n_prompt > (size_t)engine->params.n_ctx) {
        return lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT("prompt"),
                       "the prompt has %zu tokens, a sequence has room for %lld", p->n_prompt,
                       (long long)engine->params.n_ctx);
    }
    for (size_t i = 0; i < p->n_prompt; i++) {
        if (p->prompt[i] < 0 || (uint32_t)p->prompt[i] >= n_vocab) {
            return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("prompt"),
                           "token %d at position %zu of the prompt, expected 0 .. %u", p->prompt[i],
                           i, n_vocab - 1);
        }
    }
    return LK_OK;
}

/* Spans inside the prompt, one after the other, of finite values. */
static lk_status check_media(const lk_engine *engine, const lk_request_params *p, lk_error *err) {
    const size_t n_embd = engine->context->graph->n_embd;
    size_t end = 0;
    if (p->n_media > LK_MAX_MEDIA || (p->n_media != 0 && p->media == NULL)) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("media"),
                       "%zu media spans%s, at most %d are possible", p->n_media,
                       p->media == NULL ? " at NULL" : "", LK_MAX_MEDIA);
    }
    for (size_t i = 0; i < p->n_media; i++) {
        const lk_media_span *span = &p->media[i];
        if (span->n == 0 || span->first < end || span->first > p->n_prompt ||
            span->n > p->n_prompt - span->first || span->embeddings == NULL) {
            return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("media"),
                           "media span %zu has %zu vectors from token %zu on, expected 1 or more "
                           "between token %zu and the end of the prompt at %zu",
                           i, span->n, span->first, end, p->n_prompt);
        }
        end = span->first + span->n;
        for (size_t k = 0; k < span->n * n_embd; k++) {
            if (!lk_is_finite_f32(span->embeddings[k])) {
                return lk_fail(err, LK_E_NONFINITE, LK_AT_SUBJECT("media"),
                               "media span %zu: value %zu of vector %zu is not finite", i,
                               k % n_embd, k / n_embd);
            }
        }
    }
    return LK_OK;
}

/* The sampler is made later, when there is a slot; here its settings are tried. */
static lk_status check_sampler(const lk_engine *engine, const lk_request *r, lk_error *err) {
    lk_sampler *sampler = NULL;
    const int32_t n_vocab = (int32_t)engine->context->graph->n_vocab;
    lk_status status = lk_sampler_build(&r->sampler, n_vocab, &sampler, err);
    if (status == LK_OK && r->grammar != NULL) {
        status = lk_sampler_constrain(sampler, r->grammar, r->trie, err);
    }
    lk_sampler_free(sampler);
    return status;
}

static lk_status check_pooling(const lk_engine *engine, const lk_request_params *p, lk_error *err) {
    const uint32_t excluded = LK_REQUEST_LOGPROBS | LK_REQUEST_PROMPT_LOGPROBS;
    lk_status status =
        lk_check_range("pooling", (int64_t)p->pooling, LK_POOLING_NONE, LK_POOLING_LAST, err);
    if (status == LK_OK) {
        status = lk_check_range("reserved", p->reserved, 0, 0, err);
    }
    if (status != LK_OK || p->pooling == LK_POOLING_NONE) {
        return status;
    }
    if (engine->context->graph->hidden < 0) {
        return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT("pooling"),
                       "this model gives out no hidden states");
    }
    if (p->max_tokens != 0 || p->n_choices != 1 || (p->flags & excluded) != 0 ||
        p->grammar != NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("pooling"),
                       "an embedding needs max_tokens 0, one choice, no logprobs and no grammar");
    }
    return LK_OK;
}

static lk_status check_params(const lk_engine *engine, const lk_request_params *p, lk_error *err) {
    const uint32_t known = LK_REQUEST_DIGESTS | LK_REQUEST_LOGPROBS | LK_REQUEST_PROMPT_LOGPROBS |
                           LK_REQUEST_NO_CACHE | LK_REQUEST_NORMALISE;
    lk_status status = lk_check_struct_size("lk_request_params", p->struct_size, sizeof *p, err);
    if (status == LK_OK) {
        status = check_prompt(engine, p, err);
    }
    if (status == LK_OK) {
        status = check_media(engine, p, err);
    }
    if (status == LK_OK) {
        status = lk_check_range("max_tokens", p->max_tokens, -1, INT64_MAX, err);
    }
    if (status == LK_OK) {
        status = lk_check_range("n_choices", p->n_choices, 1, LK_MAX_CHOICES, err);
    }
    if (status == LK_OK) {
        status = lk_check_range("n_top_logprobs", p->n_top_logprobs, 0, LK_MAX_TOP_LOGPROBS, err);
    }
    if (status == LK_OK && (p->flags & ~known) != 0) {
        status = lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("flags"), "flags 0x%x have unknown bits",
                         p->flags);
    }
    if (status == LK_OK && (p->grammar == NULL) != (p->trie == NULL)) {
        status = lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("grammar"),
                         "a grammar needs the trie of the vocabulary, and a trie a grammar");
    }
    if (status == LK_OK) {
        status = check_pooling(engine, p, err);
    }
    if (status == LK_OK && p->on_event == NULL) {
        status = lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("on_event"), "on_event is NULL");
    }
    return status;
}

static size_t size_of(int32_t n_choices) {
    return sizeof(lk_request) + (size_t)n_choices * sizeof(lk_choice);
}

static void request_free(lk_request *r) {
    const lk_allocator *a = r->allocator;
    for (int32_t i = 0; i < r->n_choices; i++) {
        lk_sampler_free(r->choices[i].sampler);
        lk_free_array(a, r->choices[i].generated, r->choices[i].capacity, sizeof(int32_t));
        lk_pooling_free(&r->choices[i]);
    }
    (void)pthread_cond_destroy(&r->done);
    (void)pthread_mutex_destroy(&r->mutex);
    lk_free_array(a, r->biases, (size_t)r->sampler.n_logit_bias, sizeof r->biases[0]);
    lk_free_array(a, r->media, r->n_media_floats, sizeof r->media[0]);
    lk_free_array(a, r->digests, r->n_prompt, sizeof r->digests[0]);
    lk_free_array(a, r->vectors, r->n_prompt, sizeof(const float *));
    lk_free_array(a, r->prompt, r->n_prompt, sizeof r->prompt[0]);
    lk_free(a, r, size_of(r->n_choices));
}

/* The condition waits by the clock that only goes forward. */
static bool init_sync(lk_request *r) {
    pthread_condattr_t attributes;
    if (pthread_mutex_init(&r->mutex, NULL) != 0) {
        return false;
    }
    bool ok = pthread_condattr_init(&attributes) == 0;
    if (ok) {
        ok = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
             pthread_cond_init(&r->done, &attributes) == 0;
        (void)pthread_condattr_destroy(&attributes);
    }
    if (!ok) {
        (void)pthread_mutex_destroy(&r->mutex);
    }
    return ok;
}

static lk_status copy_arrays(lk_request *r, const lk_request_params *p, lk_error *err) {
    const size_t n_biases = (size_t)r->sampler.n_logit_bias;
    r->prompt = lk_alloc_array(r->allocator, p->n_prompt, sizeof r->prompt[0]);
    if (r->prompt != NULL) {
        memcpy(r->prompt, p->prompt, p->n_prompt * sizeof r->prompt[0]);
    }
    if (n_biases > 0) {
        r->biases = lk_alloc_array(r->allocator, n_biases, sizeof r->biases[0]);
        if (r->biases != NULL) {
            memcpy(r->biases, r->sampler.logit_bias, n_biases * sizeof r->biases[0]);
        }
        r->sampler.logit_bias = r->biases;
    }
    return r->prompt != NULL && (n_biases == 0 || r->biases != NULL)
               ? LK_OK
               : lk_fail_nomem(err, "a request", p->n_prompt * sizeof r->prompt[0]);
}

/* The vectors and their digests, by token of the prompt. */
static lk_status copy_media(lk_request *r, const lk_request_params *p, size_t n_embd,
                            lk_error *err) {
    if (p->n_media == 0) {
        return LK_OK;
    }
    size_t n_rows = 0;
    for (size_t i = 0; i < p->n_media; i++) {
        n_rows += p->media[i].n; /* at most n_prompt */
    }
    r->vectors = lk_alloc_array_zero(r->allocator, r->n_prompt, sizeof(const float *));
    r->digests = lk_alloc_array_zero(r->allocator, r->n_prompt, sizeof r->digests[0]);
    r->media = lk_alloc_array(r->allocator, n_rows, n_embd * sizeof r->media[0]);
    if (r->vectors == NULL || r->digests == NULL || r->media == NULL) {
        lk_free_array(r->allocator, r->media, n_rows, n_embd * sizeof r->media[0]);
        r->media = NULL;
        return lk_fail_nomem(err, "the media of a request", n_rows * n_embd * sizeof r->media[0]);
    }
    r->n_media_floats = n_rows * n_embd;
    float *row = r->media;
    for (size_t i = 0; i < p->n_media; i++) {
        const lk_media_span *span = &p->media[i];
        memcpy(row, span->embeddings, span->n * n_embd * sizeof row[0]);
        for (size_t k = 0; k < span->n; k++, row += n_embd) {
            r->vectors[span->first + k] = row;
            lk_logits_digest(row, n_embd, r->digests[span->first + k].bytes);
        }
    }
    return LK_OK;
}

static void fill(lk_request *r, lk_engine *engine, const lk_request_params *p) {
    const lk_sampler_params defaults = LK_SAMPLER_PARAMS_INIT;
    r->engine = engine;
    r->n_prompt = p->n_prompt;
    r->sampler = p->sampler != NULL ? *p->sampler : defaults;
    r->sampler.allocator = r->allocator;
    r->grammar = p->grammar;
    r->trie = p->trie;
    r->max_tokens = p->max_tokens;
    r->n_top = p->n_top_logprobs;
    r->flags = p->flags;
    r->pooling = p->pooling;
    r->hidden_width = lk_graph_hidden_width(engine->context->graph);
    r->deadline_ns = p->timeout_ms > 0 ? lk_now_ns() + (int64_t)p->timeout_ms * 1000000 : 0;
    r->on_event = p->on_event;
    r->ctx = p->ctx;
    r->n_choices = p->n_choices;
    r->n_open = p->n_choices;
    atomic_init(&r->n_holders, 2); /* the caller and the engine */
    atomic_init(&r->wants_cancel, 0);
    for (int32_t i = 0; i < r->n_choices; i++) {
        r->choices[i] = (lk_choice){.request = r, .index = i, .slot = -1, .n_cached = -1};
    }
}

lk_status lk_request_create(lk_engine *engine, const lk_request_params *params, lk_request **out,
                            lk_error *err) {
    *out = NULL;
    lk_status status = check_params(engine, params, err);
    if (status != LK_OK) {
        return status;
    }
    lk_request *r = lk_alloc_zero(engine->allocator, size_of(params->n_choices));
    if (r == NULL) {
        return lk_fail_nomem(err, "a request", size_of(params->n_choices));
    }
    r->allocator = engine->allocator;
    if (!init_sync(r)) {
        lk_free(engine->allocator, r, size_of(params->n_choices));
        return lk_fail_nomem(err, "a request's lock", sizeof(pthread_mutex_t));
    }
    fill(r, engine, params);
    status = check_sampler(engine, r, err);
    if (status == LK_OK) {
        status = copy_arrays(r, params, err);
        if (status == LK_OK) {
            status = copy_media(r, params, engine->context->graph->n_embd, err);
        }
    } else {
        r->sampler.n_logit_bias = 0; /* nothing was copied, nothing is freed */
    }
    if (status != LK_OK) {
        request_free(r);
        return status;
    }
    *out = r;
    return LK_OK;
}

void lk_request_drop(lk_request *request) {
    if (atomic_fetch_sub(&request->n_holders, 1) == 1) {
        request_free(request);
    }
}

void lk_request_finish(lk_request *request) {
    (void)pthread_mutex_lock(&request->mutex);
    request->is_done = true;
    (void)pthread_cond_broadcast(&request->done);
    (void)pthread_mutex_unlock(&request->mutex);
    lk_request_drop(request);
}
