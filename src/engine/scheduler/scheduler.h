/* scheduler.h - an engine inside: choices (the sequences of requests) between the queue and the
 * slots, and the thread that steps them. include/lk/engine.h is the contract.
 *
 * Bodies: scheduler.c (life of the engine, the thread's loop), requests.c (life of a request),
 * admission.c (who gets a slot, pages and rows), results.c (from logits to events), pooling.c (from
 * hidden states to embeddings), slots.c (what others ask about slots).
 *
 * Who may touch what: `lock` guards the queue, the list of running choices, the commands and the
 * public view. The context, the cache and what a choice has computed belong to the engine's thread
 * alone, without the lock. Events are sent without the lock; with LK_ENGINE_PARALLEL_EVENTS, those
 * of tokens by tasks of the backend, one for each request: nothing else of the engine runs
 * meanwhile. */
#ifndef LK_ENGINE_SCHEDULER_H
#define LK_ENGINE_SCHEDULER_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/context.h"
#include "engine/sampler.h"
#include "engine/scheduler/prefix_cache.h"
#include "lk/engine.h"

typedef struct lk_choice {
    struct lk_request *request;
    int32_t index;
    uint64_t arrival;       /* order of the queue; unique */
    struct lk_choice *next; /* in the queue */
    int32_t slot;           /* -1: waiting */
    lk_sampler *sampler;    /* made at the first admission */
    int32_t *generated;     /* [n_generated] of [capacity] */
    size_t capacity;
    int64_t n_generated;
    int64_t n_cached;        /* at the first admission; -1: not admitted yet */
    int64_t n_prompt_events; /* LK_EVENT_PROMPT_TOKEN sent */
    double *pooled;          /* [hidden_width], NULL: nothing is pooled yet */
    int64_t n_pooled;        /* hidden states in it */
    bool is_done;
    /* One step. */
    uint32_t n_step_rows;
    uint32_t i_step_row; /* the first one */
    lk_finish ending;    /* 0: goes on */
    lk_error error;
} lk_choice;

struct lk_request {
    lk_engine *engine; /* not to be used once done */
    const lk_allocator *allocator;
    uint64_t id;
    int32_t *prompt; /* [n_prompt] */
    size_t n_prompt;
    /* With media: for each token of the prompt the vector in its place, or NULL, and its digest. */
    const float **vectors;
    lk_row_digest *digests;
    float *media; /* [n_media_floats] all vectors */
    size_t n_media_floats;
    lk_sampler_params sampler;
    const lk_grammar *grammar; /* the caller's; NULL: none */
    const lk_token_trie *trie;
    lk_logit_bias *biases;
    int64_t max_tokens; /* -1: until the sequence is full */
    int32_t n_choices;
    int32_t n_top;
    uint32_t flags;
    lk_pooling pooling;
    uint32_t hidden_width; /* elements of a hidden state; 0: the model gives none out */
    int64_t deadline_ns;   /* 0: none */
    lk_event_fn on_event;
    void *ctx;
    int32_t n_open; /* choices that have not ended; the engine's thread */
    atomic_uint n_holders;
    atomic_uint wants_cancel;
    pthread_mutex_t mutex; /* is_done alone */
    pthread_cond_t done;
    bool is_done;
    lk_choice choices[];
};

/* A token that is being sampled, on any thread of the backend, and the event that reports it. */
typedef struct lk_sampling {
    lk_choice *choice;
    const float *logits; /* [n_vocab] */
    lk_status status;    /* not LK_OK: choice->error says more */
    lk_event event;
    lk_token_logprob top[LK_MAX_TOP_LOGPROBS];
} lk_sampling;

/* What another thread asks of the engine's thread about a slot. */
typedef enum lk_slot_action { LK_SLOT_SAVE, LK_SLOT_LOAD, LK_SLOT_ERASE } lk_slot_action;
typedef struct lk_slot_command {
    lk_slot_action action;
    int32_t slot;
    const char *path;
    int64_t n_tokens;
    lk_status status;
    lk_error error;
    bool is_done;
    struct lk_slot_command *next;
} lk_slot_command;

struct lk_engine {
    const lk_allocator *allocator;
    lk_engine_params params; /* with the defaults filled in */
    const lk_tokenizer *tokenizer;
    lk_context *context;
    lk_prefix_cache cache;
    pthread_t thread;
    bool has_thread;
    bool has_lock;

    pthread_mutex_t lock;
    pthread_cond_t wake;     /* the engine's thread has something to do */
    pthread_cond_t answered; /* a command is done */
    bool wants_stop;
    uint64_t n_arrived;
    lk_choice *first_waiting; /* by arrival */
    lk_slot_command *first_command;
    lk_slot_info *view; /* [n_slots] */
    lk_engine_stats stats;

    /* The engine's thread. */
    lk_choice **running; /* [n_running] of [n_slots], by arrival */
    int32_t n_running;
    lk_choice **by_slot;  /* [n_slots] NULL: idle */
    int64_t *slot_used;   /* [n_slots] step at which a slot was last in use */
    lk_choice **stepping; /* [n_stepping] of [n_slots], the choices of the step */
    int32_t n_stepping;
    lk_row *rows;             /* [n_rows] of [max_rows] */
    const float **embeddings; /* likewise: vectors in the place of tokens, or NULL */
    lk_row_status *row_status;
    uint32_t n_rows;
    uint32_t n_logits; /* rows of the step that want logits */
    uint32_t *found;   /* [table_capacity] pages of a prefix */
    uint32_t *stamps;  /* [n_pages] for counting */
    uint32_t stamp;
    lk_token_logprob top[LK_MAX_TOP_LOGPROBS]; /* of the prompt's token that is sent */
    lk_sampling *samplings;                    /* [n_samplings] of [n_slots], of one step */
    uint32_t n_samplings;
    uint32_t *firsts; /* [n_slots] with PARALLEL_EVENTS: the first sampling of each request */
    float *pooled;    /* [hidden_width] of the event that is sent */
};

/* Logits rows of one step beyond one for each slot: for logprobs of prompts. */
enum { LK_EXTRA_LOGITS = 16 };

/* requests.c */
lk_status lk_request_create(lk_engine *engine, const lk_request_params *params, lk_request **out,
                            lk_error *err);
void lk_request_drop(lk_request *request); /* one holder less; frees it after the last one */
void lk_request_finish(lk_request *request);

static inline lk_seq *lk_choice_seq(const lk_engine *engine, const lk_choice *choice) {
    return &engine->context->seqs[choice->slot];
}
/* Tokens of the prompt and sampled ones. */
static inline int64_t lk_choice_length(const lk_choice *choice) {
    return (int64_t)choice->request->n_prompt + choice->n_generated;
}
static inline int32_t lk_choice_token(const lk_choice *choice, int64_t pos) {
    const int64_t n_prompt = (int64_t)choice->request->n_prompt;
    return pos < n_prompt ? choice->request->prompt[pos] : choice->generated[pos - n_prompt];
}
/* The vector in the place of the token, or NULL. */
static inline const float *lk_choice_embedding(const lk_choice *choice, int64_t pos) {
    const lk_request *r = choice->request;
    return r->vectors != NULL && pos < (int64_t)r->n_prompt ? r->vectors[pos] : NULL;
}
/* Tokens that are not computed yet: 1 while generating. */
static inline int64_t lk_choice_pending(const lk_engine *engine, const lk_choice *choice) {
    return lk_choice_length(choice) - lk_choice_seq(engine, choice)->length;
}

/* admission.c; called with the lock. */
void lk_queue_add(lk_engine *engine, lk_choice *choice);
void lk_admit(lk_engine *engine);
/* Chooses the rows of a step and makes room for their pages; n_rows 0: nothing to do. */
void lk_plan_step(lk_engine *engine);
/* Takes a choice out of its slot; its pages stay in the slot and, if it may, in the cache. */
void lk_vacate(lk_engine *engine, lk_choice *choice);

/* results.c; called without the lock. */
void lk_compute_step(lk_engine *engine);
/* Sends LK_EVENT_END, and LK_EVENT_DONE after the last choice. */
void lk_end_choice(lk_choice *choice, lk_finish finish, const lk_error *error);

/* pooling.c */
/* Whether the hidden state at this position of the prompt is wanted. */
bool lk_pooling_wants(const lk_choice *choice, int64_t pos);
/* Takes the hidden state of a position that was wanted. */
lk_status lk_pooling_add(lk_choice *choice, const float *hidden, lk_error *err);
/* The embedding of a prompt that is complete: [hidden_width]. */
void lk_pooling_finish(const lk_choice *choice, float *embedding);
void lk_pooling_free(lk_choice *choice);

/* slots.c */
void lk_run_commands(lk_engine *engine); /* with the lock, which it leaves meanwhile */
void lk_update_view(lk_engine *engine);  /* with the lock */
lk_status lk_ask_slot(lk_engine *engine, lk_slot_action action, int32_t slot, const char *path,
                      int64_t *n_tokens, lk_error *err);

/* scheduler.c: bodies of the public functions. source: what the context computes with. */
lk_status lk_engine_build(const lk_context_source *source, const lk_engine_params *params,
                          lk_engine **out, lk_error *err);
void lk_engine_free(lk_engine *engine);
lk_status lk_engine_enqueue(lk_engine *engine, const lk_request_params *params, lk_request **out,
                            lk_error *err);
int64_t lk_now_ns(void);

#endif
