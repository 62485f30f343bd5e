/* cuda.h - the CUDA backend's state, shared by its files. The weights are copied to the device when
 * it is created; a step copies its rows and tables in, launches the kernels of one node after the
 * other on its own stream, and copies out what was asked for. KV pages live on the device.
 *
 * Invariants: device memory, the host's scratch memory and the kernels are all there when it is
 * created, a step allocates nothing. The driver is called inside lk_cuda_enter and lk_cuda_leave,
 * so that the caller's own context is current again afterwards. */
#ifndef LK_BACKEND_CUDA_CUDA_H
#define LK_BACKEND_CUDA_CUDA_H

#include "backend/backend.h"
#include "backend/cuda/cuda_driver.h"
#include "backend/cuda/kern/choice.h"

enum { LK_CUDA_MAX_MODULES = 32, LK_CUDA_N_MEMORIES = 5 };

/* How activations are prepared beside a weight: as they are, rounded, or quantised. */
typedef enum lk_cuda_prep {
    LK_CUDA_PREP_NONE, /* f32 weights */
    LK_CUDA_PREP_R13,  /* f16 */
    LK_CUDA_PREP_R16B, /* bf16 */
    LK_CUDA_PREP_Q32,
    LK_CUDA_PREP_Q256,
    LK_CUDA_PREP_COUNT
} lk_cuda_prep;

/* Room for rows prepared in one way; `value` says whose rows they are, -1: nobody's. */
typedef struct lk_cuda_prepared {
    lk_value value;
    size_t max_width; /* 0: this way is not needed */
    lk_cuda_ptr x;    /* R13, R16B: float [rows, width] */
    lk_cuda_ptr q;    /* Q32, Q256: int8 [rows, width] */
    lk_cuda_ptr d;    /* float [rows, width / group] */
    lk_cuda_ptr sums; /* int16 [rows, width / 16] */
} lk_cuda_prepared;

/* A table that the host fills for a step; it lies on the device as it lies here. */
typedef struct lk_cuda_table {
    void *host;
    lk_cuda_ptr at;
} lk_cuda_table;

/* What kernels ask about the rows of a row space. [max_rows] each. */
typedef struct lk_cuda_space {
    uint32_t n_rows;
    lk_cuda_table step_row; /* uint32_t: the row of the step behind a row */
    lk_cuda_table in_run;   /* encoders: uint32_t: its number inside its run */
    lk_cuda_table run_rows; /* encoders: lk_cuda_run_row: the rows of its run */
} lk_cuda_space;

/* Text: what else is known of the rows of a step. [max_rows] each. */
typedef struct lk_cuda_rows {
    lk_cuda_table from;         /* int32_t: as in lk_cuda_embed_args */
    lk_cuda_table pos;          /* uint32_t */
    lk_cuda_table logits;       /* uint32_t: the rows of LK_ROWS_OUT behind LK_ROWS_LOGITS */
    lk_cuda_table hidden;       /* uint32_t: those whose hidden state is wanted */
    lk_cuda_table first_page;   /* uint32_t: where the pages of the row's run begin */
    lk_cuda_table pages;        /* uint32_t [page_capacity] page tables of all runs */
    lk_cuda_table window_pages; /* of the layers with windows, numbered from 0 */
    size_t page_capacity;
    size_t n_page_entries; /* of the step */
    uint32_t max_chunks;   /* that a row of the step has */
} lk_cuda_rows;

/* The weights of a node, by their place in lk_cuda_weights_of. */
enum {
    LK_CUDA_W,
    LK_CUDA_W_BIAS, /* layer norm */
    LK_CUDA_W_SINKS,
    LK_CUDA_W_GATE,
    LK_CUDA_W_UP,
    LK_CUDA_W_DOWN,
    LK_CUDA_W_GATE_BIAS,
    LK_CUDA_W_UP_BIAS,
    LK_CUDA_W_DOWN_BIAS,
    LK_CUDA_N_WEIGHTS
};

/* What the host keeps of a node. */
typedef struct lk_cuda_node {
    lk_cuda_ptr weights[LK_CUDA_N_WEIGHTS];
    lk_cuda_table rows; /* NEIGHBOURS: lk_cuda_neighbour_row, MEAN_OF_TWO: uint32_t, TEMPERATURE:
                           float [max_rows] */
} lk_cuda_node;

/* Scratch of the experts, on the device: assignments (row, expert), grouped by expert. */
typedef struct lk_cuda_moe {
    uint32_t n_used; /* most of a node; 0: there are no experts */
    size_t n_experts;
    size_t n_ff;
    size_t width;
    lk_cuda_ptr ids;
    lk_cuda_ptr weights;
    lk_cuda_ptr first;
    lk_cuda_ptr slot;
    lk_cuda_ptr row_of;
    lk_cuda_ptr step_row_of;
    lk_cuda_ptr expert_of;
    lk_cuda_ptr gathered;
    lk_cuda_ptr gate;
    lk_cuda_ptr up;
    lk_cuda_ptr down;
    lk_cuda_prepared in[LK_CUDA_PREP_COUNT];
    lk_cuda_prepared hidden[LK_CUDA_PREP_COUNT];
} lk_cuda_moe;

struct lk_backend {
    const lk_allocator *allocator;
    const lk_graph *graph;
    lk_backend_params params;
    lk_pool *pool; /* for other tasks, and for the tables of the rotary embedding */

    lk_cuda_driver driver;
    int device;
    bool has_context; /* the device's context is held */
    lk_cuda_handle context;
    lk_cuda_handle stream;
    lk_cuda_handle modules[LK_CUDA_MAX_MODULES];
    uint32_t n_modules;
    lk_cuda_handle kernels[LK_CUDA_N_KERNELS];

    lk_cuda_ptr memories[LK_CUDA_N_MEMORIES]; /* all that was allocated on the device */
    uint32_t n_memories;
    lk_cuda_ptr arena;  /* float [arena_floats * max_rows] */
    lk_cuda_ptr out;    /* float: the values of the graph that lie in lk_step.logits */
    lk_cuda_ptr hidden; /* float [max_rows, hidden width] */
    lk_cuda_ptr inputs; /* float [max_rows, n_embd]: vectors in the place of tokens */
    lk_cuda_ptr bad;    /* uint32_t [max_rows]: the first node with a non-finite value */
    lk_cuda_ptr parts;  /* float [parts_floats]: of attention */
    size_t parts_floats;
    lk_cuda_ptr tables;
    lk_cuda_prepared prepared[LK_CUDA_PREP_COUNT];
    lk_cuda_moe moe;

    size_t page_bytes;
    size_t window_page_bytes;
    lk_cuda_ptr pages;        /* [n_pages][page_bytes] */
    lk_cuda_ptr window_pages; /* [n_window_pages][window_page_bytes] */

    uint8_t *scratch; /* the host's, one allocation */
    size_t scratch_bytes;
    lk_cuda_node *nodes;  /* [n_nodes] */
    size_t *kv_offset;    /* [n_kv_layers] a layer's first block inside a page of its kind */
    lk_cuda_table *ropes; /* [n_ropes]: float [max_rows, n_rot] */
    uint8_t *host_tables; /* as on the device: those of fixed size, then the page tables */
    size_t table_bytes;   /* room for those of fixed size */
    size_t fixed_bytes;   /* what they have in this step */
    uint32_t *host_bad;   /* [max_rows] */
    uint8_t *staging;     /* values and pages on their way between host and device */
    lk_cuda_space spaces[LK_N_ROW_SPACES];
    lk_cuda_rows rows;

    lk_step *step; /* the step in progress */
    lk_backend_stats stats;
};

/* The types that kernels' arguments have for an address on the device. */
static inline void *lk_cuda_at(lk_cuda_ptr p) {
    return (void *)(uintptr_t)p;
}

/* --- cuda_backend.c */

/* Makes the backend's context current on this thread, and the one before it again. */
lk_status lk_cuda_enter(const lk_backend *b, lk_error *err);
void lk_cuda_leave(const lk_backend *b);

/* --- cuda_memory.c */

/* Allocates all memory of host and device, and copies the weights. What is there after a failure
 * lk_cuda_release_memory gives back. */
lk_status lk_cuda_allocate(lk_backend *b, lk_error *err);
void lk_cuda_release_memory(lk_backend *b);

/* --- cuda_weights.c */

/* The weights of a node, NULL where it has none. */
void lk_cuda_weights_of(const lk_node *node, const lk_weight *weights[LK_CUDA_N_WEIGHTS]);
/* Bytes that all of them take, and copying them to where there is room for that. */
lk_status lk_cuda_place_weights(lk_backend *b, lk_cuda_ptr base, size_t *n_bytes, lk_error *err);

/* --- cuda_pages.c: KV pages, as lk_backend_ops has them */

size_t lk_cuda_page_bytes(const lk_backend *b);
size_t lk_cuda_window_page_bytes(const lk_backend *b);
lk_status lk_cuda_page_copy(lk_backend *b, uint32_t dst, uint32_t src, lk_error *err);
lk_status lk_cuda_page_fill(lk_backend *b, uint32_t page, uint8_t byte, lk_error *err);
lk_status lk_cuda_page_read(lk_backend *b, uint32_t page, uint32_t n_positions, void *out,
                            lk_error *err);
lk_status lk_cuda_page_write(lk_backend *b, uint32_t page, const void *in, lk_error *err);

/* --- cuda_rows.c */

/* Where the tables of fixed size lie for so many rows; their bytes. */
size_t lk_cuda_place_tables(lk_backend *b, uint32_t n_rows);
/* Fills the tables of the spaces and nodes for the step, on the host. LK_E_LIMIT: its page tables
 * are longer than there is room for. */
lk_status lk_cuda_fill_tables(lk_backend *b, lk_error *err);

/* --- cuda_step.c: a step, and what the operators share */

lk_status lk_cuda_step(lk_backend *b, lk_step *step, lk_error *err);
lk_cuda_space *lk_cuda_space_of(lk_backend *b, lk_value v);
lk_cuda_ptr lk_cuda_value(const lk_backend *b, lk_value v);
lk_status lk_cuda_copy_in(const lk_backend *b, lk_cuda_ptr to, const void *from, size_t n_bytes,
                          lk_error *err);
lk_status lk_cuda_copy_out(const lk_backend *b, void *to, lk_cuda_ptr from, size_t n_bytes,
                           lk_error *err);
lk_status lk_cuda_wait(const lk_backend *b, lk_error *err);
lk_status lk_cuda_launch(const lk_backend *b, lk_cuda_kernel kernel, lk_cuda_shape shape,
                         const void *args, lk_error *err);

/* --- cuda_matmul.c */

lk_cuda_prep lk_cuda_prep_of(const lk_weight *w);
uint32_t lk_cuda_group_of(lk_cuda_prep prep); /* of Q32 and Q256 */
/* LK_E_UNSUPPORTED, by the tensor's name, for a format without a kernel. */
lk_status lk_cuda_check_product(const lk_weight *w, lk_error *err);
/* Rows x [n_rows, width] into `to`. */
lk_status lk_cuda_prepare(const lk_backend *b, lk_cuda_prep prep, lk_cuda_ptr x, uint32_t n_rows,
                          uint32_t width, const lk_cuda_prepared *to, lk_cuda_flags flags,
                          lk_error *err);
/* y [n_rows, n_out] of one matrix, or of one for each expert (m.first). `x`: the plain rows. */
lk_status lk_cuda_multiply(lk_backend *b, const lk_weight *w, const lk_cuda_matrix *m,
                           const lk_cuda_prepared *in, lk_cuda_ptr x, lk_cuda_ptr y,
                           uint32_t n_rows, lk_cuda_flags flags, lk_error *err);
lk_status lk_cuda_run_matmul(lk_backend *b, const lk_node *node, lk_error *err);

/* --- cuda_nodes.c: the operators */

/* LK_E_UNSUPPORTED for a node that the backend does not compute. */
lk_status lk_cuda_check_node(const lk_node *node, lk_error *err);
lk_status lk_cuda_run_node(lk_backend *b, const lk_node *node, lk_error *err);
uint32_t lk_cuda_index(const lk_backend *b, const lk_node *node);
void *lk_cuda_weight(const lk_backend *b, const lk_node *node, uint32_t which);
/* Flags for rows of the space of `v`. */
lk_cuda_flags lk_cuda_flags_of(lk_backend *b, const lk_node *node, lk_value v);

/* --- cuda_attention.c, cuda_moe.c */

lk_status lk_cuda_run_attention(lk_backend *b, const lk_node *node, lk_error *err);
lk_status lk_cuda_run_moe(lk_backend *b, const lk_node *node, lk_error *err);

#endif
