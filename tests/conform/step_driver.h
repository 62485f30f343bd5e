/* step_driver.h - runs sequences straight on a backend, without the engine: page tables, runs and
 * steps are made here. For tests that compare what a backend computes. Any failure ends the test
 * program. */
#ifndef LK_STEP_DRIVER_H
#define LK_STEP_DRIVER_H

#include "backend/backend.h"
#include "lk_test.h"
#include "model/model.h"

enum { LK_DRIVER_MAX_RUNS = 8, LK_DRIVER_MAX_PAGES = 64 };

typedef struct lk_driver {
    lk_model *model; /* not owned */
    const lk_graph *graph;
    const lk_backend_ops *ops;
    lk_backend *backend;
    lk_backend_params params;
    uint32_t n_vocab;
} lk_driver;

/* Usual parameters: one thread, every instruction set, f32 keys and values, 64 pages, 512 rows. */
lk_backend_params lk_driver_params(void);
void lk_driver_init(lk_driver *d, lk_model *model, const lk_backend_params *params);
/* The same over another backend than the processor's. */
void lk_driver_init_on(lk_driver *d, const lk_backend_ops *ops, lk_model *model,
                       const lk_backend_params *params);
void lk_driver_deinit(lk_driver *d);

/* One sequence as a test sees it. */
typedef struct lk_driver_seq {
    const int32_t *tokens;
    uint32_t n_tokens;
    uint32_t n_done;
    uint32_t pages[LK_DRIVER_MAX_PAGES]; /* set before the first step */
    uint32_t window_pages[LK_DRIVER_MAX_PAGES];
    float *logits;       /* [n_tokens, n_vocab], NULL: not wanted */
    int32_t bad_layer;   /* of the first bad row */
    lk_node_kind bad_op; /* LK_NODE_COUNT: no bad row so far */
    uint32_t n_bad;
} lk_driver_seq;

/* A new sequence on the pages first_page, first_page + stride, ... */
lk_driver_seq lk_driver_seq_make(const int32_t *tokens, uint32_t n_tokens, float *logits,
                                 uint32_t first_page, uint32_t stride);
/* One step: the next n_rows[i] tokens of seqs[i] (0: none), at most LK_DRIVER_MAX_RUNS sequences.
 */
void lk_driver_step(lk_driver *d, lk_driver_seq *const *seqs, const uint32_t *n_rows,
                    uint32_t n_seqs);
/* The whole sequence in steps of at most `cut` rows. */
void lk_driver_run(lk_driver *d, lk_driver_seq *seq, uint32_t cut);

#endif
