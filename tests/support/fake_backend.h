/* fake_backend.h - a backend for tests of the engine: no arithmetic, only proof that rows see the
 * right pages. Each position stores a word made of its token and position; the logits of a row are
 * a hash of the words of all positions up to its own, read through the page table. A wrong page, a
 * missing copy-on-write or a poisoned position gives other logits or a row that is not finite. */
#ifndef LK_FAKE_BACKEND_H
#define LK_FAKE_BACKEND_H

#include "engine/context.h"
#include "lk/engine.h"

enum {
    FAKE_VOCAB = 24,
    FAKE_EMBD = 4,       /* of a vector in the place of a token */
    FAKE_WIDTH = 3,      /* of hidden states */
    FAKE_BAD_TOKEN = 23, /* a row with this token is not finite: layer 3, operator matmul */
    FAKE_BAD_LAYER = 3
};

/* What the test wants, and what was seen; one for the whole program. */
typedef struct fake_control {
    uint64_t fail_step_at; /* the n-th step from now returns LK_E_DEVICE; 0: none */
    uint64_t fail_copy_at; /* likewise page_copy */
    void (*on_step)(void *ctx);
    void *ctx;
    uint64_t n_steps;
    uint32_t max_rows;     /* most rows in one step */
    uint64_t n_mixed;      /* steps with rows of several sequences */
    uint64_t n_violations; /* of the contract in backend.h */
} fake_control;
extern fake_control fake;

extern const lk_backend_ops fake_backend_ops;

/* A context over the fake. Parameters as for lk_context_create. */
lk_status fake_context(const lk_context_params *params, lk_context **out, lk_error *err);

/* An engine over the fake. Parameters as for lk_engine_create. */
lk_status fake_engine(const lk_engine_params *params, lk_engine **out, lk_error *err);

/* The logits that follow n tokens, n >= 1: FAKE_VOCAB finite values. */
void fake_logits(const int32_t *tokens, size_t n, float *logits);
/* The hidden state of the last of n tokens: FAKE_WIDTH finite values. */
void fake_hidden(const int32_t *tokens, size_t n, float *hidden);

/* The same where some are vectors: embeddings[i] NULL means the token; the array may be NULL. */
void fake_logits_of(const int32_t *tokens, const float *const *embeddings, size_t n, float *logits);

/* Whether pages, references, free list and page tables agree with each other. */
bool fake_is_consistent(const lk_context *context);

#endif
