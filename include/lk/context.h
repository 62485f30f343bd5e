/* lk/context.h - sequences, their KV cache, and the computation of rows.
 *
 * A row is one token (or a vector in its place) of one sequence at one position. lk_context_decode
 * computes rows of any number of sequences together; the logits of a row depend on the model, the
 * KV types and the tokens before it in its own sequence, and on nothing else, bit for bit
 * (docs/numerics.md).
 *
 * Thread rule: a context has one user at a time. A second thread that enters while one is inside
 * gets LK_E_BUSY at once and disturbs nothing. Different contexts are independent, also over one
 * model.
 */
#ifndef LK_CONTEXT_H
#define LK_CONTEXT_H

#include "lk/base.h"
#include "lk/device.h"
#include "lk/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lk_context lk_context;

typedef enum lk_kv_type { LK_KV_F32 = 0, LK_KV_F16 = 1, LK_KV_Q8_0 = 2 } lk_kv_type;

/* Instruction sets for lk_context_params.isa_mask. Those that the processor lacks are ignored; 0
 * leaves the scalar reference. The choice never changes a bit. Where the processor has AMX, the
 * first context asks Linux for the process's right to use it: signal stacks (sigaltstack) must then
 * be as large as sysconf(_SC_MINSIGSTKSZ) says. */
enum {
    LK_CPU_AVX2 = 1,
    LK_CPU_AVX512 = 2,
    LK_CPU_AMX = 4,
    LK_CPU_NEON = 8,
    LK_CPU_AVXVNNI = 16,
    LK_CPU_I8MM = 32,
    LK_CPU_ALL = 0x7fffffff
};

/* Flags of a context. */
enum {
    LK_CONTEXT_POISON = 1, /* fill freed and fresh KV pages with NaN patterns (tests) */
    LK_CONTEXT_F32_ACTIVATIONS =
        2 /* test mode: float32 activations beside every weight; slow, other bits */
};

typedef struct lk_context_params {
    size_t struct_size;
    const lk_allocator *allocator; /* NULL: the C library's */
    uint32_t n_threads;            /* 0: one per processor */
    uint32_t isa_mask;             /* LK_CPU_ALL */
    int64_t kv_positions; /* capacity over all sequences, however it is split among them (pages of
                             64 positions are added for the rounding); 0: the model's training
                             context */
    int32_t n_sequences;  /* sequence ids are 0 .. n_sequences-1; at most LK_MAX_SEQUENCES */
    int32_t max_rows;     /* rows computed at once; longer calls are cut; 1 .. LK_MAX_ROWS */
    int32_t max_logits;   /* rows of one call that may want logits; 1 .. LK_MAX_LOGITS */
    lk_kv_type k_type;
    lk_kv_type v_type;
    uint32_t flags;
    uint32_t page_seed;  /* nonzero: hand out free pages in a shuffled order (tests) */
    uint32_t max_hidden; /* rows of one call that may want their hidden state; at most
                            LK_MAX_LOGITS */
    uint32_t device;     /* LK_DEVICE_CPU (0), or one of lk/device.h; moves no bit */
    uint32_t reserved;   /* 0 */
} lk_context_params;
#define LK_MAX_SEQUENCES 4096
#define LK_MAX_ROWS 4096
#define LK_MAX_LOGITS 65536
#define LK_MAX_POSITIONS ((int64_t)1 << 28) /* of one sequence */
/* kv_positions 0, 1 sequence, 512 rows at once, 512 rows with logits, f16 keys and values, no
 * hidden states. */
#define LK_CONTEXT_PARAMS_INIT                                                                     \
    ((lk_context_params){sizeof(lk_context_params), NULL, 0, LK_CPU_ALL, 0, 1, 512, 512,           \
                         LK_KV_F16, LK_KV_F16, 0, 0, 0, 0, 0})

/* On success *out is owned by the caller (lk_context_destroy). params may be NULL. All memory that
 * decoding needs is allocated here. LK_E_ARG names the parameter that is out of range; LK_E_LIMIT
 * when the sizes asked for cannot be addressed, LK_E_NOMEM when there is no memory or thread. On a
 * device, which gets a copy of the weights and has the KV pages: the statuses of lk_device_count,
 * LK_E_NOT_FOUND for one that is not there, and LK_E_UNSUPPORTED for what it does not compute
 * (LK_CONTEXT_F32_ACTIVATIONS). isa_mask means nothing then; the threads are for what stays here.
 */
LK_API lk_status lk_context_create(lk_model *model, const lk_context_params *params,
                                   lk_context **out, lk_error *err);
LK_API void lk_context_destroy(lk_context *context); /* accepts NULL; no other call may be inside */

enum {
    LK_ROW_LOGITS = 1, /* this row's logits are wanted */
    LK_ROW_HIDDEN = 2 /* its final hidden state is wanted: after the last norm, before the logits */
};

typedef struct lk_row {
    int32_t token;
    int32_t seq;
    int64_t pos; /* must continue the sequence: its length, plus its earlier rows in this call */
    uint32_t flags;
    uint32_t reserved; /* 0 */
} lk_row;

/* What became of a row. */
typedef struct lk_row_status {
    lk_status status; /* LK_OK: committed. LK_E_NONFINITE: this row or another one of its sequence
                         in this call failed, and all of them are undone */
    int32_t layer;    /* first non-finite value: layer (-1: before or after the layers) ... */
    char op[24];      /* ... and operator; "" when the row itself is clean */
} lk_row_status;

/* Computes n_rows rows, any number. Rows of one sequence must have contiguous positions;
 * rows of different sequences may be mixed freely. row_status, when not NULL, has n_rows entries
 * and is filled when LK_OK or LK_E_ROWS is returned.
 *
 * A transaction: LK_OK commits every row. LK_E_ROWS: sequences with a failed row are as before the
 * call, all others are committed. Any other status: nothing is committed. Errors: LK_E_ARG (token,
 * sequence or position out of range: the error names the sequence, the position expected and the
 * one given), LK_E_FULL (KV pages), LK_E_LIMIT (max_logits, max_hidden), LK_E_BUSY. */
LK_API lk_status lk_context_decode(lk_context *context, const lk_row *rows, size_t n_rows,
                                   lk_row_status *row_status, lk_error *err);

/* The same with rows that are given as vectors, such as those that an encoder makes of a recording:
 * where embeddings[i] is not NULL, the n_embd floats there (lk_model_info) take the place of the
 * token's row of the embedding matrix. The token is then a name alone, kept with the position
 * (lk_sequence_tokens gives it) and in the range of the vocabulary. `embeddings` has n_rows entries
 * or is NULL; all is borrowed during the call. A value that is not finite fails its row.
 *
 * A sequence keeps a digest of each vector beside the token: forks, truncation, saved files and the
 * prefix cache tell positions of different vectors apart. */
LK_API lk_status lk_context_decode_embeddings(lk_context *context, const lk_row *rows,
                                              const float *const *embeddings, size_t n_rows,
                                              lk_row_status *row_status, lk_error *err);

/* Logits of row i_row of the last successful decode: n_vocab floats, borrowed until the next call
 * of decode. LK_E_ARG when that row did not want logits; LK_E_NONFINITE when it failed. */
LK_API lk_status lk_context_logits(lk_context *context, size_t i_row, const float **logits,
                                   lk_error *err);
/* Likewise its hidden state: n_embd floats. As the logits it depends on the model, the KV types and
 * the tokens of its own sequence up to the row, and on nothing else, bit for bit. */
LK_API lk_status lk_context_hidden(lk_context *context, size_t i_row, const float **hidden,
                                   lk_error *err);

/* Sequences. An unused sequence has length 0. All of these give LK_E_ARG, naming it, for a sequence
 * that does not exist and for a length that it does not have, and LK_E_BUSY; nothing has changed
 * then. */
LK_API lk_status lk_sequence_length(lk_context *context, int32_t seq, int64_t *length,
                                    lk_error *err);
/* The tokens of a sequence, at most `capacity`; *n_tokens its length. */
LK_API lk_status lk_sequence_tokens(lk_context *context, int32_t seq, int32_t *tokens,
                                    size_t capacity, size_t *n_tokens, lk_error *err);
/* The least length but 0 that the sequence can be truncated to or forked at; 0 when it is empty. */
LK_API lk_status lk_sequence_shortest(lk_context *context, int32_t seq, int64_t *length,
                                      lk_error *err);
LK_API lk_status lk_sequence_clear(lk_context *context, int32_t seq, lk_error *err);
/* Keeps the first `length` positions. Layers with sliding windows give back the pages that no later
 * token can reach, so a long sequence cannot go back to any length: LK_E_LIMIT names the least one
 * that is possible (0 always is, and so are the last 64 positions). The same holds for a fork. */
LK_API lk_status lk_sequence_truncate(lk_context *context, int32_t seq, int64_t length,
                                      lk_error *err);
/* dst (cleared first) becomes a copy of the first `length` positions of src (-1: all); pages are
 * shared and copied on write. src and dst must differ. */
LK_API lk_status lk_sequence_fork(lk_context *context, int32_t src, int32_t dst, int64_t length,
                                  lk_error *err);

/* Saves one sequence (tokens and KV pages with a checksum each) to a file: written beside it,
 * synced and renamed. Loading checks everything before the sequence changes: another model,
 * numerics version or KV type is LK_E_MISMATCH, damage is LK_E_FORMAT, and LK_E_FULL when there are
 * not enough free pages for the new content beside the old one (clear the sequence first); LK_E_IO,
 * LK_E_NOMEM, LK_E_BUSY; the context is then as before. A success replaces the content of the
 * sequence. */
LK_API lk_status lk_sequence_save(lk_context *context, int32_t seq, const char *path,
                                  lk_error *err);
LK_API lk_status lk_sequence_load(lk_context *context, int32_t seq, const char *path,
                                  lk_error *err);

/* Asks decode to stop: a running one stops before its next micro-batch (max_rows rows), returns
 * LK_E_CANCELLED and commits nothing. A request that comes after the last micro-batch has begun, or
 * while none is running, stops the next call of decode instead; the call that returns
 * LK_E_CANCELLED ends the request. Callable from any thread and from a signal handler. */
LK_API void lk_context_cancel(lk_context *context);

/* Counters since creation, to see that work was shared. Index of `kernel_rows`: kernel calls of the
 * matrix products with 1, 2, 3, 4, 5..16 and more than 16 rows, as planned: threads that are done
 * early take over parts of a call. `mixed_calls`: the same, counting only calls whose rows belong
 * to at least two sequences. */
typedef struct lk_context_stats {
    size_t struct_size;
    uint64_t n_steps; /* micro-batches */
    uint64_t n_rows;
    uint64_t kernel_rows[6];
    uint64_t mixed_calls[6];
    uint64_t pages_total;
    uint64_t pages_free;
    uint64_t pages_copied; /* copy on write */
    uint32_t isa;          /* instruction sets in use */
    uint32_t n_threads;
    uint64_t window_pages_total; /* of layers with sliding windows; 0 where no layer has one */
    uint64_t window_pages_free;
    uint64_t kv_bytes; /* memory of all pages */
} lk_context_stats;
#define LK_CONTEXT_STATS_INIT ((lk_context_stats){.struct_size = sizeof(lk_context_stats)})
LK_API lk_status lk_context_get_stats(lk_context *context, lk_context_stats *stats, lk_error *err);

/* Digest of a row of logits: the first 16 bytes of SHA-256 over n little-endian binary32 values. */
LK_API void lk_logits_digest(const float *logits, size_t n, uint8_t digest[16]);

#ifdef __cplusplus
}
#endif
#endif
