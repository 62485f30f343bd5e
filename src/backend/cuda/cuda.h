/* cuda.h - the CUDA backend's state, shared by its files. It computes the graphs of encoders: the
 * weights are copied to the device when it is created, a step copies rows in, launches the kernels
 * of one node after the other on its own stream, and copies out what was asked for.
 *
 * Invariants: device memory, the host's scratch memory and the kernels are all there when it is
 * created, a step allocates nothing. The driver is called inside lk_cuda_enter and lk_cuda_leave,
 * so that the caller's own context is current again afterwards. */
#ifndef LK_BACKEND_CUDA_CUDA_H
#define LK_BACKEND_CUDA_CUDA_H

#include "backend/backend.h"
#include "backend/cuda/cuda_driver.h"
#include "backend/cuda/kern/choice.h"

enum { LK_CUDA_MAX_MODULES = 32, LK_CUDA_N_MEMORIES = 4 };

/* How activations are prepared beside a weight: as they are, rounded, or quantised. */
typedef enum lk_cuda_prep {
    LK_CUDA_PREP_NONE, /* f32 weights */
    LK_CUDA_PREP_R13,  /* f16 */
    LK_CUDA_PREP_R16B, /* bf16 */
    LK_CUDA_PREP_Q32,  /* q8_0 */
    LK_CUDA_PREP_COUNT
} lk_cuda_prep;

/* Room for rows prepared in one way; `value` says whose rows they are, -1: nobody's. */
typedef struct lk_cuda_prepared {
    lk_value value;
    size_t max_width; /* 0: this way is not needed */
    lk_cuda_ptr x;    /* R13, R16B: float [max_rows, width] */
    lk_cuda_ptr q;    /* Q32: int8 [max_rows, width], float [.., width / 32], int16 [.., width / 16]
                       */
    lk_cuda_ptr d;
    lk_cuda_ptr sums;
} lk_cuda_prepared;

/* What kernels ask about the rows of a row space, on the host and on the device. */
typedef struct lk_cuda_space {
    uint32_t n_rows;
    uint32_t *step_row;        /* [max_rows] the row of the step behind a row */
    uint32_t *in_run;          /* [max_rows] its number inside its run */
    lk_cuda_run_row *run_rows; /* [max_rows] the rows of its run */
    lk_cuda_ptr at_step_row;   /* the same on the device */
    lk_cuda_ptr at_in_run;
    lk_cuda_ptr at_run_rows;
} lk_cuda_space;

/* Likewise of a node that takes rows from another space. */
typedef struct lk_cuda_node_rows {
    lk_cuda_neighbour_row *neighbours; /* NEIGHBOURS: [max_rows] */
    uint32_t *from;                    /* MEAN_OF_TWO: [max_rows] */
    lk_cuda_ptr at;
} lk_cuda_node_rows;

struct lk_backend {
    const lk_allocator *allocator;
    const lk_graph *graph;
    lk_backend_params params;

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
    lk_cuda_ptr arena; /* float [arena_floats * max_rows] */
    lk_cuda_ptr out;   /* float: the values of the graph that lie in lk_step.logits */
    lk_cuda_ptr bad;   /* uint32_t [max_rows]: the first node with a non-finite value */
    lk_cuda_ptr tables;
    lk_cuda_prepared prepared[LK_CUDA_PREP_COUNT];

    uint8_t *scratch; /* the host's, one allocation */
    size_t scratch_bytes;
    lk_cuda_ptr *weights;         /* [n_nodes][2]: lk_node.w and the bias of a layer norm */
    lk_cuda_node_rows *node_rows; /* [n_nodes] */
    uint32_t *host_tables;        /* [table_words] as on the device */
    size_t table_words;
    uint32_t *host_bad; /* [max_rows] */
    float *staging;     /* [staging_floats] values on their way between host and device */
    size_t staging_floats;
    lk_cuda_space spaces[LK_N_ROW_SPACES]; /* ALL, HALF and QUARTER have tables */

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

/* --- cuda_rows.c */

/* Fills the tables of the spaces and nodes for the step, on the host. */
void lk_cuda_fill_tables(lk_backend *b);

/* --- cuda_step.c: a step, and what the operators share */

lk_status lk_cuda_step(lk_backend *b, lk_step *step, lk_error *err);
lk_cuda_space *lk_cuda_space_of(lk_backend *b, lk_value v);
lk_cuda_ptr lk_cuda_value(const lk_backend *b, lk_value v);
lk_status lk_cuda_launch(const lk_backend *b, lk_cuda_kernel kernel, lk_cuda_shape shape,
                         const void *args, lk_error *err);

/* --- cuda_nodes.c: the operators */

/* LK_E_UNSUPPORTED for a node that the backend does not compute. */
lk_status lk_cuda_check_node(const lk_node *node, lk_error *err);
lk_cuda_prep lk_cuda_prep_of(const lk_weight *w);
lk_status lk_cuda_run_node(lk_backend *b, const lk_node *node, lk_error *err);

#endif
