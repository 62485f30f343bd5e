/* lk/engine.h - requests from any thread, computed together: continuous batching over one context.
 *
 * An engine owns a context and one thread that steps it. Each step takes one row of every running
 * sequence that generates and fills the rest of its rows with prompts, in order of arrival. Pages
 * of finished and running sequences are kept in a prefix cache and shared, copied on write. When
 * pages run out, the youngest sequence waits and is recomputed later. None of this moves a bit: a
 * request gets the tokens and logits that it would get alone (docs/numerics.md).
 *
 * Thread rule: every function may be called from any thread, except lk_engine_destroy, which must
 * be the last one. Events of a request come one at a time, in order, on the engine's thread; with
 * LK_ENGINE_PARALLEL_EVENTS those of tokens on any of the threads that compute, so that several
 * requests are told at once. What events of several requests share needs a lock then.
 */
#ifndef LK_ENGINE_H
#define LK_ENGINE_H

#include "lk/base.h"
#include "lk/context.h"
#include "lk/grammar.h"
#include "lk/model.h"
#include "lk/sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lk_engine lk_engine;
typedef struct lk_request lk_request;

/* Limits. */
#define LK_MAX_CHOICES 64
#define LK_MAX_TOP_LOGPROBS 20
#define LK_MAX_QUEUED 65536

enum {
    LK_ENGINE_POISON = 1,   /* as LK_CONTEXT_POISON (tests) */
    LK_ENGINE_NO_CACHE = 2, /* no prefix cache; so it always is where layers have sliding windows */
    LK_ENGINE_PARALLEL_EVENTS = 4 /* TOKEN events of several requests may come at the same time */
};

typedef struct lk_engine_params {
    size_t struct_size;
    const lk_allocator *allocator; /* NULL: the C library's; must outlive the engine's requests */
    uint32_t n_threads;            /* 0: one per processor */
    uint32_t isa_mask;             /* LK_CPU_ALL */
    int64_t kv_positions; /* KV capacity over all sequences; 0: the model's training context */
    int64_t n_ctx;        /* positions of one sequence, at most kv_positions; 0: the smaller one of
                             kv_positions and the training context */
    int32_t n_slots;      /* sequences at once; 1 .. LK_MAX_SEQUENCES */
    int32_t max_rows;     /* rows of a step; n_slots .. LK_MAX_ROWS */
    int32_t max_queued;   /* choices that wait for a slot; 1 .. LK_MAX_QUEUED */
    lk_kv_type k_type;
    lk_kv_type v_type;
    uint32_t flags;
    uint32_t page_seed; /* as in lk_context_params (tests) */
    uint32_t device;    /* as in lk_context_params */
} lk_engine_params;
/* 1 slot, 256 rows, 1024 queued, f16 keys and values. */
#define LK_ENGINE_PARAMS_INIT                                                                      \
    ((lk_engine_params){sizeof(lk_engine_params), NULL, 0, LK_CPU_ALL, 0, 0, 1, 256, 1024,         \
                        LK_KV_F16, LK_KV_F16, 0, 0, 0})

/* On success *out is owned by the caller (lk_engine_destroy). params may be NULL. The model must
 * outlive the engine. LK_E_ARG names the parameter; the statuses of lk_context_create. */
LK_API lk_status lk_engine_create(lk_model *model, const lk_engine_params *params, lk_engine **out,
                                  lk_error *err);
/* Cancels what runs or waits (the last events come before this returns) and joins the thread.
 * Requests that are not released yet stay valid until they are. Accepts NULL. Must not be called
 * from an event. */
LK_API void lk_engine_destroy(lk_engine *engine);

/* Why a choice ended. */
typedef enum lk_finish {
    LK_FINISH_END = 1,       /* the model ended it: an end token was sampled; or the embedding is
                                there */
    LK_FINISH_STOP = 2,      /* on_event returned 0 */
    LK_FINISH_LENGTH = 3,    /* max_tokens, or the sequence is full */
    LK_FINISH_CANCELLED = 4, /* lk_request_cancel, release, or the end of the engine */
    LK_FINISH_DEADLINE = 5,  /* timeout_ms */
    LK_FINISH_ERROR = 6      /* error says why */
} lk_finish;

typedef struct lk_token_logprob {
    int32_t token;
    float logprob; /* natural logarithm of the model's probability, before any sampler setting */
} lk_token_logprob;

typedef enum lk_event_kind {
    LK_EVENT_PROMPT_TOKEN = 1, /* LK_REQUEST_PROMPT_LOGPROBS: one for each token of the prompt */
    LK_EVENT_TOKEN = 2,        /* a token was sampled; an end token too */
    LK_EVENT_END = 3,          /* a choice ended */
    LK_EVENT_DONE = 4,         /* all choices ended: the last event, after it ctx is not used */
    LK_EVENT_EMBEDDING = 5     /* with `pooling`: the embedding of the prompt, before END */
} lk_event_kind;

/* What happened. Pointers are valid during the call. Fields that a kind does not have are 0. */
typedef struct lk_event {
    lk_event_kind kind;
    int32_t choice;
    int32_t token;      /* PROMPT_TOKEN, TOKEN */
    int32_t n_top;      /* entries of `top` */
    int64_t pos;        /* position of the token in its sequence */
    float logprob;      /* of the token, with LOGPROBS; 0 for the first token of a prompt */
    float probability;  /* TOKEN: as in lk_sample */
    uint8_t digest[16]; /* with DIGESTS. TOKEN: lk_logits_digest of the row that gave it; EMBEDDING:
                           the same of the embedding */
    const lk_token_logprob *top; /* [n_top] likeliest tokens, best first, ties by id */
    lk_finish finish;            /* END */
    uint32_t reserved;
    const lk_error *error;  /* END with LK_FINISH_ERROR, else NULL */
    int64_t n_prompt;       /* END, TOKEN: tokens of the prompt ... */
    int64_t n_cached;       /* ... how many of them came from the cache at the first start ... */
    int64_t n_generated;    /* ... and tokens sampled so far */
    const float *embedding; /* EMBEDDING: [n_embedding] */
    int64_t n_embedding;
} lk_event;

/* Return nonzero to go on; 0 after LK_EVENT_TOKEN ends that choice (LK_FINISH_STOP). Runs between
 * two steps and holds up every other request: it must not block. It may call anything of
 * this header but lk_request_wait, the slot functions and lk_engine_destroy. */
typedef int (*lk_event_fn)(void *ctx, const lk_event *event);

enum {
    LK_REQUEST_DIGESTS = 1,
    LK_REQUEST_LOGPROBS = 2,        /* of sampled tokens */
    LK_REQUEST_PROMPT_LOGPROBS = 4, /* of the prompt's tokens; takes nothing from the cache */
    LK_REQUEST_NO_CACHE = 8,        /* neither takes from the prefix cache nor gives to it */
    LK_REQUEST_NORMALISE = 16       /* with `pooling`: the embedding has length 1 */
};

/* Tokens of a prompt in whose place vectors stand (lk_context_decode_embeddings): the prompt's
 * tokens first .. first + n - 1. The tokens that stand there count for penalties. */
typedef struct lk_media_span {
    size_t first;
    size_t n;                /* 1 or more */
    const float *embeddings; /* [n, n_embd] */
} lk_media_span;
#define LK_MAX_MEDIA 256

typedef struct lk_request_params {
    size_t struct_size;
    const int32_t *prompt; /* [n_prompt], copied; 1 .. n_ctx tokens */
    size_t n_prompt;
    const lk_sampler_params *sampler; /* copied; NULL: the defaults. `choice` counts up from the one
                                         given */
    int64_t max_tokens; /* for each choice; 0: only the prompt; -1: until the sequence is full */
    int32_t n_choices;  /* 1 .. LK_MAX_CHOICES */
    int32_t n_top_logprobs; /* 0 .. LK_MAX_TOP_LOGPROBS; with one of the LOGPROBS flags */
    uint32_t flags;
    uint32_t timeout_ms; /* from submission to the end; 0: none */
    lk_event_fn on_event;
    void *ctx;
    const lk_grammar *grammar;  /* NULL: none. Every choice keeps to it; it ends with LK_FINISH_END
                                   when its text is complete. Both are borrowed until the request
                                   is done */
    const lk_token_trie *trie;  /* of the model's vocabulary; NULL without a grammar */
    const lk_media_span *media; /* [n_media], ascending, none overlaps; copied with the vectors */
    size_t n_media;             /* 0 .. LK_MAX_MEDIA */
    lk_pooling pooling; /* other than NONE: nothing is generated (max_tokens 0, one choice, no
                           logprobs); the hidden states of the prompt give an embedding (section 16
                           of docs/numerics.md). MEAN and FIRST take nothing from the cache */
    uint32_t reserved;  /* 0 */
} lk_request_params;
#define LK_REQUEST_PARAMS_INIT                                                                     \
    ((lk_request_params){sizeof(lk_request_params), NULL, 0, NULL, -1, 1, 0, 0, 0, NULL, NULL,     \
                         NULL, NULL, NULL, 0, LK_POOLING_NONE, 0})

/* Queues a request. On success *out is owned by the caller (lk_request_release) and ctx is used
 * until LK_EVENT_DONE, which may come before this returns. LK_E_ARG names the parameter ("token" of
 * the prompt, "media" and sampler settings included); LK_E_LIMIT with subject "prompt" (longer than
 * n_ctx) or "queue" (max_queued would be exceeded: try again later); LK_E_NOMEM; LK_E_CANCELLED
 * when the engine is being destroyed. No event comes then. */
LK_API lk_status lk_engine_submit(lk_engine *engine, const lk_request_params *params,
                                  lk_request **out, lk_error *err);
/* Ends all choices before the next step; what they held is free then. No effect on a request that
 * is done. Also from a signal handler's thread, not from the handler. */
LK_API void lk_request_cancel(lk_request *request);
/* Waits until the request is done: LK_OK, or LK_E_LIMIT when timeout_ms (0: no limit) passed. */
LK_API lk_status lk_request_wait(lk_request *request, uint32_t timeout_ms, lk_error *err);
/* Gives the handle back; cancels what is not done. Does not wait: events may come until
 * LK_EVENT_DONE. Accepts NULL. */
LK_API void lk_request_release(lk_request *request);

/* A slot, as it was at the last step. */
typedef enum lk_slot_state {
    LK_SLOT_IDLE = 0,
    LK_SLOT_PROMPT = 1,
    LK_SLOT_GENERATING = 2
} lk_slot_state;

typedef struct lk_slot_info {
    size_t struct_size;
    lk_slot_state state;
    int32_t choice;      /* of its request; likewise below, 0 when idle */
    uint64_t request_id; /* counts up from 1 in order of submission */
    int64_t n_prompt;
    int64_t n_cached;
    int64_t n_positions; /* in its KV cache, also when idle */
    int64_t n_generated;
} lk_slot_info;
#define LK_SLOT_INFO_INIT ((lk_slot_info){.struct_size = sizeof(lk_slot_info)})
LK_API lk_status lk_engine_get_slot(lk_engine *engine, int32_t slot, lk_slot_info *info,
                                    lk_error *err);

/* An idle slot keeps what its last request computed until its pages are needed. These wait for the
 * end of the step that runs; *n_tokens: positions saved, loaded or erased. LK_E_BUSY: the slot is
 * in use; LK_E_NOT_FOUND: nothing is in it to be saved; LK_E_ARG; the statuses of lk_sequence_save
 * and lk_sequence_load. What is loaded also enters the prefix cache. */
LK_API lk_status lk_engine_slot_save(lk_engine *engine, int32_t slot, const char *path,
                                     int64_t *n_tokens, lk_error *err);
LK_API lk_status lk_engine_slot_load(lk_engine *engine, int32_t slot, const char *path,
                                     int64_t *n_tokens, lk_error *err);
LK_API lk_status lk_engine_slot_erase(lk_engine *engine, int32_t slot, int64_t *n_tokens,
                                      lk_error *err);

/* Counters since creation and sizes at the last step. */
typedef struct lk_engine_stats {
    size_t struct_size;
    int64_t n_ctx;
    int64_t kv_positions;
    uint64_t n_requests;
    uint64_t n_finished[8];     /* choices, by lk_finish */
    uint64_t n_prompt_tokens;   /* of choices that were admitted */
    uint64_t n_cached_tokens;   /* of these, from the cache */
    uint64_t n_computed_tokens; /* prompt rows computed, also again after preemption */
    uint64_t n_generated_tokens;
    uint64_t n_preempted;
    uint64_t n_steps;
    uint64_t n_rows;
    uint64_t step_ns; /* time inside steps */
    uint64_t pages_total;
    uint64_t pages_free;
    uint64_t pages_cached; /* in the prefix cache */
    uint64_t pages_copied;
    int32_t n_slots;
    int32_t n_running;
    int32_t n_waiting;
    int32_t max_queued;
} lk_engine_stats;
#define LK_ENGINE_STATS_INIT ((lk_engine_stats){.struct_size = sizeof(lk_engine_stats)})
LK_API lk_status lk_engine_get_stats(lk_engine *engine, lk_engine_stats *stats, lk_error *err);

#ifdef __cplusplus
}
#endif
#endif
