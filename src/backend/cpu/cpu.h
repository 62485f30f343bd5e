/* cpu.h - the CPU backend's state, shared by its files. A step walks the nodes of the graph in
 * order; the work of a node is cut by index into tasks for the thread pool, so which thread takes
 * which task, and how many threads there are, cannot change a bit.
 *
 * Invariant: a task writes only what belongs to its index: its rows, its output columns or its
 * query heads. The one exception is `bad`, which is atomic and only ever set. */
#ifndef LK_BACKEND_CPU_CPU_H
#define LK_BACKEND_CPU_CPU_H

#include <stdalign.h>
#include <stdatomic.h>

#include "backend/backend.h"
#include "backend/cpu/kernels.h"
#include "base/pool.h"

/* How activations are prepared beside a weight: as they are, rounded, or quantised. */
typedef enum lk_cpu_prep {
    LK_CPU_PREP_NONE, /* f32 weights; every weight in the float32-activation mode */
    LK_CPU_PREP_R13,  /* f16 */
    LK_CPU_PREP_R16B, /* bf16 */
    LK_CPU_PREP_Q32,
    LK_CPU_PREP_Q256,
    LK_CPU_PREP_COUNT
} lk_cpu_prep;

/* Activation rows as one kind of matrix product takes them. */
typedef struct lk_cpu_operand {
    lk_cpu_prep prep;
    size_t width;
    const float *x; /* NONE, R13, R16B: rows x_stride floats apart */
    size_t x_stride;
    const int8_t *q; /* Q32, Q256: as in lk_act_rows */
    const float *d;
    const int16_t *sums;
} lk_cpu_operand;

/* Room for prepared rows of one kind; `value` says whose rows they are, -1: nobody's. */
typedef struct lk_cpu_prepared {
    lk_value value;
    size_t max_width; /* 0: this kind is not needed */
    float *x;
    int8_t *q;
    float *d;
    int16_t *sums;
} lk_cpu_prepared;

/* Scratch of the experts: assignments (row, expert), grouped by expert. */
typedef struct lk_cpu_moe {
    int32_t *ids;        /* [max_rows, n_used] chosen experts per row, ascending */
    float *weights;      /* [max_rows, n_used] */
    uint32_t *slot;      /* [max_rows, n_used] where the assignment lies in the grouped order */
    uint32_t *row_of;    /* [assignments] */
    uint32_t *expert_of; /* [assignments] */
    uint32_t *first;     /* [n_experts + 1] first assignment of each expert */
    uint32_t *active;    /* [n_experts] experts that have rows */
    float *gate;         /* [assignments, n_ff] */
    float *up;           /* [assignments, n_ff] */
    float *down;         /* [assignments, width] */
    float *gathered;     /* [assignments, width], float32 rows */
    lk_cpu_prepared in[LK_CPU_PREP_COUNT];     /* [assignments, width] */
    lk_cpu_prepared hidden[LK_CPU_PREP_COUNT]; /* [assignments, n_ff] */
} lk_cpu_moe;

/* What a thread has to do in a product (cpu_share.c), in cache lines of its own. */
typedef struct lk_cpu_thread {
    alignas(64) atomic_ullong region;  /* units begin << 32 | end that nobody has taken */
    alignas(64) atomic_uintptr_t next; /* first weights of its region of the product to come, 0 */
    uintptr_t ahead;                   /* `next` as the thread saw it last ... */
    size_t n_asked;                    /* ... and the bytes from there on that it has asked for */
} lk_cpu_thread;

enum { LK_CPU_UNITS_PER_THREAD = 16 };

struct lk_backend {
    const lk_allocator *allocator;
    const lk_graph *graph;
    lk_backend_params params;
    lk_cpu_kernels kernels;
    lk_pool *pool;
    uint32_t n_threads;
    lk_cpu_thread *threads; /* [n_threads] */

    size_t page_bytes;
    size_t window_page_bytes;
    uint8_t *pages;        /* [n_pages][page_bytes] */
    uint8_t *window_pages; /* [n_window_pages][window_page_bytes] */
    size_t *kv_offset;     /* [n_kv_layers] a layer's first K block inside a page of its kind */
    uint8_t *scratch;      /* all the rest, one allocation */
    size_t scratch_bytes;

    float *arena; /* [arena_floats * max_rows] the graph's values */
    lk_cpu_prepared prepared[LK_CPU_PREP_COUNT];
    lk_cpu_moe moe;
    float **rope; /* [n_ropes] -> [max_rows, n_rot / 2] pairs of the step's positions */
    /* [max_rows] each: the row of the step behind a row of LK_ROWS_OUT, and the rows of that space
     * behind those of LK_ROWS_LOGITS and of the hidden states that are wanted. */
    uint32_t *out_rows;
    uint32_t *logits_rows;
    uint32_t *hidden_rows;
    uint32_t n_rows[LK_N_ROW_SPACES]; /* of the step in progress */
    /* An encoder's: the first row of each run in LK_ROWS_HALF and QUARTER [max_rows + 1], and for
     * each thread a run's keys and values of one head, in blocks as those of a page. */
    uint32_t *half_first;
    uint32_t *quarter_first;
    uint8_t *run_blocks; /* [n_threads][2][run_chunks][run_block_bytes] */
    size_t run_block_bytes;
    uint32_t run_chunks;
    uint32_t *first_unit; /* [max_rows + 1] attention: first unit of each run */
    /* Attention that is cut into ranges of keys: at most n_threads * LK_CPU_UNITS_PER_THREAD units,
     * of each how many ranges are done, and room for parts. */
    atomic_uint *n_ranges_done;
    float *parts; /* [parts_floats] */
    size_t parts_floats;
    const uint8_t **blocks; /* [n_threads][2][n_pages] attention: K and V blocks by chunk */
    atomic_uint *bad;       /* [max_rows] rows in which a task met a non-finite value */
    atomic_uint any_bad;

    lk_step *step;               /* the step in progress */
    bool mixed[LK_N_ROW_SPACES]; /* its rows belong to at least two runs */
    lk_backend_stats stats;
};

/* --- cpu_backend.c */

/* The memory of a KV page, by its id. */
uint8_t *lk_cpu_page(const lk_backend *b, uint32_t page);

/* --- cpu_step.c: what the operators share */

/* Rows of a row space in this step, and the row of the step behind row r of it. */
uint32_t lk_cpu_n_rows(const lk_backend *b, lk_row_space space);
uint32_t lk_cpu_step_row(const lk_backend *b, lk_row_space space, uint32_t r);
/* The run that row r of a space other than LK_ROWS_OUT belongs to, and the first row of a run there
 * (of run n_runs: the end). */
uint32_t lk_cpu_run_of(const lk_backend *b, lk_row_space space, uint32_t r);
uint32_t lk_cpu_run_first(const lk_backend *b, lk_row_space space, uint32_t i_run);
/* First float of a value, and of one of its rows. */
float *lk_cpu_value(const lk_backend *b, lk_value v);
float *lk_cpu_row(const lk_backend *b, lk_value v, uint32_t r);
/* Remembers the first non-finite value of a step's row. Only from the task that owns the row. */
void lk_cpu_record(lk_backend *b, uint32_t step_row, const lk_node *node);
/* From tasks that share a row: marks it; lk_cpu_collect, after the run, records the marked rows. */
void lk_cpu_mark(lk_backend *b, uint32_t step_row);
void lk_cpu_collect(lk_backend *b, const lk_node *node);

/* Runs fn over blocks of rows [begin, end): at once on the calling thread when the whole is not
 * worth waking the pool (cost: rough count of elements per row), else on all threads. */
typedef void lk_cpu_rows_fn(void *arg, uint32_t begin, uint32_t end);
void lk_cpu_for_rows(lk_backend *b, lk_cpu_rows_fn *fn, void *arg, uint32_t n_rows, size_t cost);
bool lk_cpu_is_worth_sharing(size_t cost);
/* Runs n_tasks tasks, likewise (cost: of all together). */
void lk_cpu_for_tasks(lk_backend *b, lk_pool_fn fn, void *arg, uint32_t n_tasks, size_t cost);

/* --- cpu_share.c */

/* Runs fn for units 0 .. n_units-1 of one kind, in spans of `most` at most, on all threads. */
typedef void lk_cpu_span_fn(void *arg, uint32_t begin, uint32_t end);
void lk_cpu_share(lk_backend *b, lk_cpu_span_fn *fn, void *arg, uint32_t n_units, uint32_t most);
/* Where the units of a thread begin. */
uint32_t lk_cpu_region_begin(const lk_backend *b, uint32_t n_units, uint32_t i_thread);
/* Says what a thread will read in the next product (NULL: nothing is known). */
void lk_cpu_announce(lk_backend *b, uint32_t i_thread, const uint8_t *weights);
/* Asks for a little of that; false when enough is under way. An lk_pool_idle_fn, and called by the
 * thread that runs the step between what it does alone. */
bool lk_cpu_ask_ahead(void *backend, uint32_t i_thread);

/* --- cpu_matmul.c */

lk_cpu_prep lk_cpu_prep_of(const lk_backend *b, const lk_weight *w);
/* Bytes from one row of quantised activations to the next. */
size_t lk_cpu_q_stride(size_t n);
/* Prepares one row of n floats into row r of `to`. */
void lk_cpu_prepare_row(const lk_backend *b, lk_cpu_prep prep, const float *x, size_t n,
                        const lk_cpu_prepared *to, size_t r, uint32_t *flag);
/* The rows [first, ...) of prepared rows (or, for NONE, of plain rows x) as an operand. */
lk_cpu_operand lk_cpu_operand_of(lk_cpu_prep prep, const lk_cpu_prepared *prepared, const float *x,
                                 size_t width, size_t first);

/* One matrix product: outputs [0, n_out) of `w` over n_rows rows. */
typedef struct lk_cpu_product {
    const lk_weight *w;
    const uint8_t *data;   /* the matrix: w->data, or one expert of it */
    const uint8_t *strips; /* the same as strips, or NULL */
    uint32_t n_out;
    lk_cpu_operand in;
    uint32_t n_rows;
    float *y;
    size_t y_stride;
    lk_row_space space;     /* rows are those of this space ... */
    const uint32_t *row_of; /* ... or, when not NULL, these rows of the space */
} lk_cpu_product;
/* Outputs of one task of n_rows rows; a multiple of 16. n_out: of all products that run together.
 */
uint32_t lk_cpu_tile(const lk_backend *b, size_t n_out, uint32_t n_rows);
/* Outputs [begin, end). Marks rows whose outputs are not finite. */
void lk_cpu_multiply(lk_backend *b, const lk_cpu_product *product, uint32_t begin, uint32_t end);
/* Counts n_calls kernel calls of a product. */
void lk_cpu_count(lk_backend *b, uint32_t n_rows, bool mixed, uint32_t n_calls);
/* The matrix products of nodes [begin, end), which read the same value. */
void lk_cpu_run_matmul(lk_backend *b, const lk_node *begin, const lk_node *end);
/* Announces the weights of such nodes. */
void lk_cpu_announce_matmul(lk_backend *b, const lk_node *begin, const lk_node *end);

/* --- the other operators */

/* The kernel of a gated activation (LK_NODE_SILU_MUL and its like). */
lk_gated_fn *lk_cpu_gated(const lk_backend *b, lk_node_kind activation);
void lk_cpu_run_row_wise(lk_backend *b, const lk_node *begin, const lk_node *end);
void lk_cpu_run_select(lk_backend *b, const lk_node *node);
void lk_cpu_run_select_logits(lk_backend *b, const lk_node *node);
void lk_cpu_run_attention(lk_backend *b, const lk_node *node);
void lk_cpu_run_moe(lk_backend *b, const lk_node *node);
void lk_cpu_run_neighbours(lk_backend *b, const lk_node *node);
void lk_cpu_run_run_attention(lk_backend *b, const lk_node *node);
void lk_cpu_run_mean_of_two(lk_backend *b, const lk_node *node);

lk_status lk_cpu_step(lk_backend *b, lk_step *step, lk_error *err);

#endif
