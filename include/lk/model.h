/* lk/model.h - a language model loaded from a GGUF file.
 *
 * A model is immutable after lk_model_open: any number of threads and contexts may share it.
 * Weights are mapped from the file, which must not change while the model is open; the matrices are
 * rearranged once into memory of the same size, and their pages of the file given back. A model
 * must outlive its contexts. Supported architectures: see the README; an unknown one is
 * LK_E_UNSUPPORTED and named. A tensor that is missing or has the wrong shape or format is an error
 * that names it with the shape found and expected.
 */
#ifndef LK_MODEL_H
#define LK_MODEL_H

#include "lk/base.h"
#include "lk/gguf.h"
#include "lk/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lk_model lk_model;

typedef struct lk_model_params {
    size_t struct_size;
    const lk_allocator *allocator; /* NULL: the C library's; must outlive the model */
    lk_progress_fn progress;       /* may be NULL */
    void *progress_ctx;
    uint32_t n_threads; /* that load; 0: one per processor. Not those of a context */
    uint32_t flags;
} lk_model_params;
#define LK_MODEL_PARAMS_INIT ((lk_model_params){sizeof(lk_model_params), NULL, NULL, NULL, 0, 0})

/* Flags of lk_model_open. */
enum {
    LK_MODEL_NO_REPACK = 1 /* compute from the mapped file: several processes then share its pages,
                              and loading takes no time; slower, the bits are the same */
};

/* On success *out is owned by the caller (lk_model_close). params may be NULL. The statuses of
 * lk_gguf_open and of lk_tokenizer_open (a file without a tokenizer is no error); LK_E_FORMAT for a
 * key or tensor that is missing or not as the architecture needs it, LK_E_UNSUPPORTED for one that
 * this build does not know and that could change the result, LK_E_CANCELLED. */
LK_API lk_status lk_model_open(const char *path, const lk_model_params *params, lk_model **out,
                               lk_error *err);
LK_API void lk_model_close(lk_model *model); /* accepts NULL */

/* Whether this build can load models of an architecture, named as in "general.architecture". */
LK_API int lk_arch_is_supported(const char *arch);

/* What keeps a file from being run. Texts live until the callback returns. */
typedef struct lk_model_problem {
    size_t struct_size;
    lk_status status;    /* what lk_model_open would return for it */
    const char *kind;    /* "architecture", "format", "model" (a key or tensor) or "tokenizer" */
    const char *subject; /* the key or tensor */
    const char *message; /* what was found, where, what was expected */
} lk_model_problem;
typedef void lk_model_problem_fn(void *ctx, const lk_model_problem *problem);
/* Whether lk_model_open would take this file: calls fn for each thing that is missing or unknown,
 * not at all for a file that can be run. Reads metadata and the directory, no weights. Of keys and
 * tensors only the first one is reported, and only where architecture and formats are known. LK_OK
 * when the check was made, whatever it found; LK_E_NOMEM. The file is left as it is. */
LK_API lk_status lk_model_check(lk_gguf *gguf, lk_model_problem_fn *fn, void *ctx, lk_error *err);

/* How the hidden states of a text become one embedding. */
typedef enum lk_pooling {
    LK_POOLING_NONE = 0,
    LK_POOLING_MEAN = 1, /* of all tokens */
    LK_POOLING_FIRST = 2,
    LK_POOLING_LAST = 3
} lk_pooling;

typedef struct lk_model_info {
    size_t struct_size;
    char arch[32];
    char name[128];
    int32_t n_vocab;
    int32_t n_layers;
    int32_t n_embd;
    int32_t n_heads;
    int32_t n_kv_heads;
    int32_t head_dim;
    int32_t n_experts; /* 0: dense */
    int32_t n_experts_used;
    int64_t n_ctx_train;
    uint64_t n_params;
    uint64_t n_bytes;   /* of the files */
    lk_pooling pooling; /* that the file asks for; LK_POOLING_NONE: it says nothing */
    uint32_t reserved;
} lk_model_info;
#define LK_MODEL_INFO_INIT ((lk_model_info){.struct_size = sizeof(lk_model_info)})
LK_API lk_status lk_model_get_info(const lk_model *model, lk_model_info *info, lk_error *err);

/* Borrowed; live as long as the model. The tokenizer is NULL when the file has none. */
LK_API const lk_tokenizer *lk_model_tokenizer(const lk_model *model);
LK_API const lk_gguf *lk_model_gguf(const lk_model *model);

/* The model digest (lk_gguf_digest), computed at the first call. Thread-safe. */
LK_API lk_status lk_model_digest(lk_model *model, uint32_t n_threads, lk_progress_fn progress,
                                 void *progress_ctx, uint8_t digest[32], lk_error *err);

#ifdef __cplusplus
}
#endif
#endif
