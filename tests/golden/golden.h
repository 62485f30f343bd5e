/* golden.h - what the golden tests share: a context over a model, rows of one sequence, relative
 * errors. */
#ifndef LK_GOLDEN_H
#define LK_GOLDEN_H

#include "lk/lk.h"

/* Worst-case settings a golden test varies; zero: 1 thread, every instruction set, f16 KV. */
typedef struct golden_setup {
    uint32_t n_threads;
    uint32_t isa_mask;
    lk_kv_type k_type, v_type;
    uint32_t flags;
    int32_t max_rows;
} golden_setup;

lk_model *golden_open(const char *path);
/* The same, computing from the rows of the file. */
lk_model *golden_open_mapped(const char *path);
lk_context *golden_context(lk_model *model, const golden_setup *setup, int64_t n_positions);

/* Decodes ids as sequence 0 from position 0 (clearing it first) and copies the logits of the
 * positions listed, ascending: out [n_wanted, n_vocab]. Exits the program on an error. */
void golden_logits(lk_context *context, int32_t n_vocab, const int32_t *ids, int32_t n_ids,
                   const int32_t *wanted, int32_t n_wanted, float *out);

/* |a - b| / |b| over n values, in binary64. */
double golden_relative_error(const float *a, const float *b, size_t n);

/* Greedy continuation of ids for n_new tokens. gaps (may be NULL): best minus second logit at each
 * step. */
void golden_greedy(lk_context *context, int32_t n_vocab, const int32_t *ids, int32_t n_ids,
                   int32_t n_new, int32_t *out, float *gaps);

#endif
