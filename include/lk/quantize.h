/* lk/quantize.h - makes a smaller model file of one whose tensors are F32, F16 or BF16.
 *
 * Matrices are rounded to the format of the target type; vectors (norms, biases), the routers of
 * mixtures of experts and what is not a weight become F32. Metadata is kept, except for
 * general.file_type, general.quantization_version and the keys of split files: the output is one
 * file. A matrix whose rows do not divide into the blocks of its format gets a smaller-blocked one
 * (Q4_K: Q5_0, Q5_K: Q5_1, Q6_K: Q8_0; else F16), and the report of the tensor says so.
 *
 * The output appears only when all went well: it is written beside its place, read back, synced and
 * renamed. It must not be the input. Its bytes depend on the input and the type alone, not on
 * threads. Memory is bounded, however large a tensor is.
 */
#ifndef LK_QUANTIZE_H
#define LK_QUANTIZE_H

#include "lk/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Target types, numbered as in the file's general.file_type. The _M types are mixes: part of
 * attn_v and ffn_down, and the output matrix (the token embedding where it is tied), are Q6_K. */
typedef enum lk_quantize_type {
    LK_QUANTIZE_F16 = 1,
    LK_QUANTIZE_Q4_0 = 2, /* the output matrix is Q6_K */
    LK_QUANTIZE_Q8_0 = 7,
    LK_QUANTIZE_Q4_K_M = 15,
    LK_QUANTIZE_Q5_K_M = 17,
    LK_QUANTIZE_Q6_K = 18,
    LK_QUANTIZE_BF16 = 32
} lk_quantize_type;

/* "Q4_K_M"; NULL for a number that is no target type. */
LK_API const char *lk_quantize_type_name(uint32_t type);
/* The type by its name, case ignored; false when there is none of that name. */
LK_API int lk_quantize_find_type(const char *name, uint32_t *type);
/* The types in the order of their bits per weight, for lists; NULL at the end. */
LK_API const char *lk_quantize_type_at(uint32_t i);

/* One tensor that has been written. Formats are GGUF numbers (lk_format_name). */
typedef struct lk_quantize_tensor {
    const char *name; /* valid during the call */
    uint32_t from;
    uint32_t to;
    uint32_t wanted; /* differs from `to` where the rows do not divide into its blocks */
    uint32_t i_tensor;
    uint64_t n_elems;
    uint64_t bytes_before;
    uint64_t bytes_after;
    double square_error; /* sum of squared differences to the input */
    double square_sum; /* sum of the input's squares: sqrt of the quotient is the relative error */
} lk_quantize_tensor;

typedef struct lk_quantize_params {
    size_t struct_size;
    uint32_t type;                 /* lk_quantize_type */
    uint32_t n_threads;            /* 0: one per processor */
    const lk_allocator *allocator; /* NULL: the C library's */
    lk_progress_fn progress;       /* phase "quantize", in elements; may be NULL */
    void *progress_ctx;
    /* Called after each tensor, on the calling thread, in the order of the file; may be NULL. */
    void (*on_tensor)(void *ctx, const lk_quantize_tensor *tensor);
    void *on_tensor_ctx;
} lk_quantize_params;
#define LK_QUANTIZE_PARAMS_INIT                                                                    \
    ((lk_quantize_params){sizeof(lk_quantize_params), 0, 0, NULL, NULL, NULL, NULL, NULL})

/* Reads in_path (a split file: its first part) and writes out_path. LK_E_UNSUPPORTED when a tensor
 * is quantised already (rounding twice would lose more than the type says) or of another type;
 * LK_E_NONFINITE when a weight is infinite or NaN, or too large for the format that it would get;
 * LK_E_ARG (also where out_path leads to the file of in_path), LK_E_FORMAT, LK_E_IO, LK_E_NOMEM,
 * LK_E_LIMIT, LK_E_CANCELLED. Any number of calls may run at the same time. */
LK_API lk_status lk_quantize(const char *in_path, const char *out_path,
                             const lk_quantize_params *params, lk_error *err);

#ifdef __cplusplus
}
#endif
#endif
