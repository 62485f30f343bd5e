/* lk/random_model.h - writes a GGUF model with random weights in the exact shape of a known model,
 * directly in a format, so that speed and memory can be measured anywhere without a download.
 *
 * Its text means nothing, but everything else is as in a real file: names, shapes, formats of the
 * tensors, metadata, and a byte-level tokenizer with as many tokens that reads any text. Values
 * have the size that trained weights have: activations stay finite and rows of logits differ.
 * The file appears only when all went well. Its bytes depend on shape, format, layers and seed
 * alone. */
#ifndef LK_RANDOM_MODEL_H
#define LK_RANDOM_MODEL_H

#include "lk/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Names of the shapes ("qwen3-1.7b"), for lists; NULL at the end. */
LK_API const char *lk_random_model_shape_at(uint32_t i);

typedef struct lk_random_model_params {
    size_t struct_size;
    const char *shape; /* case ignored */
    /* A type of lk_quantize_find_type ("Q4_K_M": each tensor gets the format that lk_quantize
     * would give it), or a tensor format ("Q5_0"), which all matrices get. Case ignored. */
    const char *format;
    uint64_t seed;
    uint32_t n_layers;             /* 0: the shape's; else 1 .. the shape's */
    uint32_t n_threads;            /* 0: one per processor */
    const lk_allocator *allocator; /* NULL: the C library's */
    lk_progress_fn progress;       /* phase "random weights", in bytes; may be NULL */
    void *progress_ctx;
} lk_random_model_params;
#define LK_RANDOM_MODEL_PARAMS_INIT                                                                \
    ((lk_random_model_params){sizeof(lk_random_model_params), NULL, NULL, 0, 0, 0, NULL, NULL,     \
                              NULL})

/* LK_E_NOT_FOUND for a shape or format of another name, LK_E_ARG, LK_E_IO, LK_E_NOMEM,
 * LK_E_CANCELLED. Any number of calls may run at the same time. */
LK_API lk_status lk_random_model_write(const char *path, const lk_random_model_params *params,
                                       lk_error *err);

#ifdef __cplusplus
}
#endif
#endif
