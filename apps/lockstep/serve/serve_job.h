/* serve_job.h - what one HTTP request asks of the engine, and what has come of it so far: for each
 * choice its text, tokens, logprobs, digests and end. The engine's threads write, that of the
 * connection reads; `lock` is between them. Nothing waits for a client: results stay here until
 * they are fetched or dropped.
 *
 * A job is held by its connection and by each of its requests that is not done. */
#ifndef LK_SERVE_JOB_H
#define LK_SERVE_JOB_H

#include <pthread.h>

#include "lk/engine.h"
#include "lk/grammar.h"
#include "lk/model.h"
#include "recording/audio_input.h"
#include "serve_answer.h"
#include "serve_decode.h"
#include "serve_media.h"
#include "shared/text_stream.h"

typedef struct serve_token {
    int32_t id;
    int32_t n_top;
    size_t i_top; /* into the choice's `tops` */
    float logprob;
    uint8_t digest[16];
} serve_token;

/* Tokens that grow. */
typedef struct serve_tokens {
    serve_token *items;
    size_t n;
    size_t capacity;
    lk_token_logprob *tops;
    size_t n_tops;
    size_t tops_capacity;
} serve_tokens;

typedef struct serve_choice {
    lk_text_stream stream;
    lk_buffer text;      /* what is certain: whole characters, no stop text */
    serve_answer answer; /* of a chat: what comes, taken apart; its text is also in `text` */
    serve_tokens tokens;
    lk_finish finish; /* 0: goes on */
    lk_error error;
    int64_t n_cached;
    float *embedding; /* [n_embedding]; NULL: none */
    size_t n_embedding;
    /* What the connection has sent. */
    size_t n_sent;
    size_t n_sent_tokens;
    bool has_begun;
    bool has_ended;
} serve_choice;

typedef struct serve_prompt {
    struct serve_job *job;
    size_t i_first; /* its first choice */
    int32_t *ids;   /* [n_ids] */
    size_t n_ids;
    lk_request *request;
    serve_tokens echoed; /* the prompt's tokens with logprobs, where they are asked for */
} serve_prompt;

typedef struct serve_job {
    pthread_mutex_t lock;
    uint32_t n_holders;
    struct serve_counters *counters;
    const lk_tokenizer *tokenizer;
    const char *call_syntax; /* "": calls are text; borrowed */
    serve_settings settings;
    lk_grammar *grammar; /* owned; NULL: none */
    const lk_token_trie *trie;
    lk_sampler_params sampler; /* as it was used: with the seed, and what is banned */
    lk_logit_bias *biases;
    char id[40];
    int64_t created;                           /* seconds since 1970 */
    serve_prompt *prompts;                     /* [settings.n_prompts] */
    serve_choice *choices;                     /* [n_choices] */
    lk_audio_vectors vectors[SERVE_MAX_CLIPS]; /* [n_clips] recordings of the first prompt ... */
    lk_media_span spans[SERVE_MAX_CLIPS];      /* ... and where they stand in it */
    size_t n_clips;
    double clip_seconds; /* of all */
    double clip_work_s;  /* what decoding and encoding them took */
    size_t n_choices;
    size_t n_open;      /* requests that are not done */
    size_t n_submitted; /* prompts */
    lk_engine *engine;
    uint32_t timeout_ms; /* 0: none */
    bool is_cancelled;
    serve_problem problem; /* status 0: none; else a later prompt could not be submitted */
    bool has_ended;        /* of a stream: its last event is rendered */
    lk_buffer event_head;  /* likewise: what all its events begin with */
    /* Called with the lock when there is news: any if wants_all, else only that all is done. */
    void (*wake)(void *ctx);
    void *wake_ctx; /* NULL: nobody listens */
    bool wants_all;
    double start_s;
    double first_s; /* first token; 0: none yet */
    double last_s;
} serve_job;

/* Takes the settings over, which must be filled in, also when it fails. ids of the prompts are
 * added by serve_job_prompt. NULL when memory is short. */
serve_job *serve_job_create(serve_settings *settings, const lk_tokenizer *tokenizer,
                            struct serve_counters *counters);
/* Compiles the grammar that the settings ask for, if any. That of tool calls needs the tree that
 * has marks, the others the one without. */
bool serve_job_constrain(serve_job *job, const lk_token_trie *trie, serve_problem *problem);
/* Submits all prompts; of embeddings n_at_once, and another one whenever one is done. When one is
 * refused the others are cancelled. timeout_ms 0: none. */
bool serve_job_start(serve_job *job, lk_engine *engine, uint32_t timeout_ms, size_t n_at_once,
                     serve_problem *problem);
void serve_job_cancel(serve_job *job);
/* Whether all that it asks for has been computed. */
bool serve_job_is_done(serve_job *job);
void serve_job_hold(serve_job *job);
void serve_job_drop(serve_job *job); /* one holder less; accepts NULL */

/* A failure of the library as a client sees it. */
bool serve_fail_status(serve_problem *problem, const lk_error *err);

#endif
