/* verify_steps.h - follows a schedule on an engine whose calls take rows. The engine gives its
 * primitive calls; which rows a call holds, what the next token is, what is recorded: that is here,
 * once for all engines of this kind. */
#ifndef LK_VERIFY_STEPS_H
#define LK_VERIFY_STEPS_H

#include "verify_target.h"

/* One row of a call. */
typedef struct verify_step_row {
    int32_t token;
    int32_t slot;
    int64_t pos;
    bool wants_logits;
    const float *vector; /* [n_vector] in the place of the token's own, or NULL */
    size_t n_vector;
} verify_step_row;

/* A recording as the engine's encoder gave it. */
typedef struct verify_heard {
    float *vectors; /* [n, width] malloc'd */
    size_t n;
    size_t width;
    verify_stage *stages; /* [n_stages] malloc'd */
    int32_t n_stages;
} verify_heard;
void verify_heard_deinit(verify_heard *heard); /* of zeros too */

/* What a call came to. */
typedef enum verify_step_status {
    VERIFY_STEP_DONE,      /* all rows are committed */
    VERIFY_STEP_CANCELLED, /* none is; the call was cancelled */
    VERIFY_STEP_REFUSED,   /* none is; the arguments were refused */
    VERIFY_STEP_FULL,      /* none is; there is no room */
    VERIFY_STEP_NONFINITE, /* the engine found values that are not finite: rows of `bad_slots` are
                              not committed, the others are */
    VERIFY_STEP_BUSY,      /* none is; another thread is inside */
    VERIFY_STEP_FAILED     /* anything else */
} verify_step_status;

typedef struct verify_step_report {
    uint32_t bad_slots; /* NONFINITE: bit i for slot i ... */
    int32_t layer;      /* ... where the first of them arose; -1: not in a layer, or not known */
    char op[64];
    char why[VERIFY_WHY];
} verify_step_report;

/* An engine's primitive calls. Those that a capability stands for may be NULL without it. */
typedef struct verify_engine_ops {
    /* A fresh context at a point's TARGET factors, for so many slots, positions over all slots and
     * rows of a call. *context is closed by end. VERIFY_NOT_POSSIBLE with the reason for a value
     * that there is none of. */
    verify_status (*begin)(void *engine, const verify_point *p, int32_t n_slots,
                           int64_t n_positions, int32_t max_rows, void **context,
                           char why[VERIFY_WHY]);
    void (*end)(void *engine, void *context);
    /* Computes rows; of one slot they continue it without a gap. */
    verify_step_status (*decode)(void *engine, void *context, const verify_step_row *rows,
                                 size_t n_rows, verify_step_report *report);
    /* Logits of row i of the last call, n_vocab floats, valid until the next one; NULL with the
     * reason when there are none. */
    const float *(*logits)(void *engine, void *context, size_t i_row, char why[VERIFY_WHY]);
    bool (*clear)(void *engine, void *context, int32_t slot, char why[VERIFY_WHY]);
    bool (*truncate)(void *engine, void *context, int32_t slot, int64_t length,
                     char why[VERIFY_WHY]);
    bool (*fork)(void *engine, void *context, int32_t src, int32_t dst, int64_t length,
                 char why[VERIFY_WHY]);
    /* The least length but 0 that the slot can go back to or be forked at (sliding windows). NULL:
     * any. */
    int64_t (*shortest)(void *engine, void *context, int32_t slot);
    bool (*save)(void *engine, void *context, int32_t slot, const char *path, char why[VERIFY_WHY]);
    bool (*load)(void *engine, void *context, int32_t slot, const char *path, char why[VERIFY_WHY]);
    void (*cancel)(void *engine, void *context); /* from another thread */
    /* Draws the token that follows position `pos`. Greedy needs no call: the largest logit, the
     * lowest id on a tie. NULL without VERIFY_CAN_SAMPLE. */
    bool (*sample)(void *engine, void *context, const verify_stream *stream, const float *logits,
                   int64_t pos, int32_t *token, char why[VERIFY_WHY]);
    /* Encodes a recording, clip->n_tokens vectors, at a point's settings; deinit on success. NULL
     * without VERIFY_CAN_HEAR. */
    verify_status (*hear)(void *engine, const verify_point *p, const verify_clip *clip,
                          verify_heard *heard, char why[VERIFY_WHY]);
} verify_engine_ops;

/* Has the engine hear the recording of a stream: its vectors into heard, which is zeros before, the
 * digests of its stages into the stream's output. */
verify_status verify_hear(const verify_engine_ops *ops, void *engine, const verify_point *p,
                          const verify_clip *clip, verify_heard *heard, verify_output *output,
                          char why[VERIFY_WHY]);

/* A verify_target_ops.run over these. The result's rows hold lk_logits_digest of each row that
 * wanted logits; logits with Inf or NaN are noted in nonfinite. `target` says n_vocab (> 0) and
 * whether log probabilities are wanted (VERIFY_CAN_LOGPROBS). */
verify_status verify_steps_run(const verify_engine_ops *ops, void *engine,
                               const verify_target *target, const verify_schedule *s,
                               const verify_point *p, verify_result *result, char why[VERIFY_WHY]);

#endif
