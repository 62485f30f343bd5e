/* runner.h - runs a schedule on a context and holds every row of logits and every hidden state
 * against the digest of the same row computed alone: in a fresh process, scalar, one thread, uncut.
 */
#ifndef LK_RUNNER_H
#define LK_RUNNER_H

#include "lk/lk.h"
#include "schedule.h"

/* What a row is compared by. */
typedef struct row_digests {
    uint8_t logits[16];
    uint8_t hidden[16];
} row_digests;

typedef struct reference_set {
    const char *program; /* this test's own binary, started again for every reference */
    const char *model_path;
    int32_t n_vocab;
    int32_t n_embd;
    int32_t n_streams;                     /* streams in use: others are folded into them */
    row_digests *digests[3][3][N_STREAMS]; /* [rows] row_digests; NULL: not computed yet */
} reference_set;

/* What the schedules exercised, summed: index as in lk_context_stats, per instruction set (scalar,
 * AVX2, AVX-512, AVX-VNNI). */
typedef struct coverage {
    uint64_t mixed_calls[4][6];
    uint64_t rows_compared;
    uint64_t hidden_compared;
    uint64_t rows_computed;
    uint64_t forks, truncations, bad_steps, cancelled, saves, full;
    uint64_t pages_copied;
    uint64_t unreachable;  /* truncations and forks refused, behind a window */
    uint64_t window_pages; /* that the contexts had */
} coverage;

typedef struct failure {
    int32_t i_op; /* -1: none */
    char text[512];
} failure;

/* Computes the references that a schedule needs and does not have. Exits the program on an error.
 */
void reference_prepare(reference_set *set, const schedule *s);
/* The child's side: computes one stream alone and writes its digests to a file. Exit status. */
int reference_compute(const char *model_path, int k_type, int v_type, int stream,
                      const char *out_path);
void reference_free(reference_set *set);

/* Nonzero when every row agreed. */
int schedule_run(lk_model *model, const reference_set *set, const schedule *s, coverage *seen,
                 failure *failed);
/* Removes operations and simplifies settings as long as the schedule still fails. */
void schedule_shrink(lk_model *model, const reference_set *set, schedule *s);

#endif
