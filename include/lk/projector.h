/* lk/projector.h - the encoder of a multimodal model, from its own file ("mmproj"): features of a
 * recording in, vectors out that take the place of tokens (lk_context_decode_embeddings, `media` of
 * lk/engine.h).
 *
 *     lk_projector_open(path, NULL, &projector, &err);
 *     lk_encoder_create(projector, NULL, &encoder, &err);
 *     n_tokens = lk_projector_n_tokens(projector, lk_audio_n_frames(audio));
 *     lk_encoder_encode(encoder, features, n_frames, embeddings, n_tokens * width, NULL, &err);
 *
 * Known are audio projectors of the type "qwen2.5o" (Qwen2.5-Omni), as the model's own code
 * computes them: windows of two seconds, each with its own positions and attention, 25 tokens a
 * second. A window's vectors depend on its own frames and the file, and on nothing else: not on the
 * windows beside it, threads or instruction sets, bit for bit (docs/numerics.md).
 *
 * Thread rule: a projector is immutable, any number of encoders and threads may share it. An
 * encoder has one user at a time: a second thread gets LK_E_BUSY.
 */
#ifndef LK_PROJECTOR_H
#define LK_PROJECTOR_H

#include "lk/base.h"
#include "lk/device.h"
#include "lk/gguf.h"
#include "lk/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lk_projector lk_projector;
typedef struct lk_encoder lk_encoder;

/* As lk_model_open, with its parameters and statuses. LK_E_UNSUPPORTED for a file that is no
 * projector ("general.architecture" is not "clip"), has no audio encoder, or is of another type. A
 * vision encoder in the same file is left alone. *out is owned by the caller (lk_projector_close).
 */
LK_API lk_status lk_projector_open(const char *path, const lk_model_params *params,
                                   lk_projector **out, lk_error *err);
LK_API void lk_projector_close(lk_projector *projector); /* accepts NULL; after its encoders */

typedef struct lk_projector_info {
    size_t struct_size;
    char type[32];
    char name[128];
    int32_t n_mels; /* values of a frame of features */
    int32_t n_layers;
    int32_t n_embd;        /* inside the encoder */
    int32_t n_out;         /* values of a vector: must be n_embd of the model that it is for */
    int32_t window_frames; /* frames of a window */
    int32_t n_stages;      /* of lk_projector_stage */
    uint64_t n_params;
    uint64_t n_bytes;
} lk_projector_info;
#define LK_PROJECTOR_INFO_INIT ((lk_projector_info){.struct_size = sizeof(lk_projector_info)})
LK_API lk_status lk_projector_get_info(const lk_projector *projector, lk_projector_info *info,
                                       lk_error *err);
/* Vectors that so many frames give; 0 for fewer than 3. */
LK_API uint64_t lk_projector_n_tokens(const lk_projector *projector, uint64_t n_frames);
/* The name of stage i of n_stages: "features", "stem", "layer 0" .., "embeddings". */
LK_API lk_status lk_projector_stage(const lk_projector *projector, int32_t i, char name[24],
                                    lk_error *err);
LK_API const lk_gguf *lk_projector_gguf(const lk_projector *projector); /* borrowed */

typedef struct lk_encoder_params {
    size_t struct_size;
    const lk_allocator *allocator; /* NULL: the C library's */
    uint32_t n_threads;            /* 0: one per processor */
    uint32_t isa_mask;             /* LK_CPU_ALL (lk/context.h) */
    int32_t max_windows;           /* computed at once, 1 .. 16; moves no bit */
    uint32_t flags;                /* 0, or LK_CONTEXT_F32_ACTIVATIONS */
    uint32_t device;               /* LK_DEVICE_CPU (0), or one of lk/device.h; moves no bit */
    uint32_t reserved;             /* 0 */
} lk_encoder_params;
#define LK_MAX_WINDOWS 16
/* 4 windows at once, on the processor. */
#define LK_ENCODER_PARAMS_INIT                                                                     \
    ((lk_encoder_params){sizeof(lk_encoder_params), NULL, 0, 0x7fffffff, 4, 0, 0, 0})

/* On success *out is owned by the caller (lk_encoder_destroy). params may be NULL. All memory that
 * encoding needs is allocated here. LK_E_ARG names the parameter; LK_E_NOMEM. On a device, which
 * gets its own copy of the weights, n_threads and isa_mask mean nothing; besides the statuses of
 * lk_device_count, LK_E_NOT_FOUND for a device that is not there, and LK_E_UNSUPPORTED for what it
 * does not compute: LK_CONTEXT_F32_ACTIVATIONS, matrices other than F32, F16, BF16 and Q8_0. */
LK_API lk_status lk_encoder_create(lk_projector *projector, const lk_encoder_params *params,
                                   lk_encoder **out, lk_error *err);
LK_API void lk_encoder_destroy(lk_encoder *encoder); /* accepts NULL; no other call may be inside */

typedef struct lk_encode_params {
    size_t struct_size;
    uint8_t (*digests)[16]; /* [n_stages] of the values of each stage (as lk_logits_digest does over
                               all rows), to find the first one where two runs differ; NULL: none */
    lk_progress_fn progress; /* phase "encode", in windows; may be NULL */
    void *progress_ctx;
} lk_encode_params;
#define LK_ENCODE_PARAMS_INIT ((lk_encode_params){sizeof(lk_encode_params), NULL, NULL, NULL})

/* Features [n_frames, n_mels] (lk_audio_features) to vectors [n_tokens, n_out] in the caller's
 * memory. params may be NULL. LK_E_ARG when there are no frames or n_floats is not n_tokens *
 * n_out; LK_E_NONFINITE names frame, layer and operator; LK_E_BUSY; LK_E_CANCELLED; LK_E_DEVICE
 * with the driver's reason. The vectors mean nothing after a failure. */
LK_API lk_status lk_encoder_encode(lk_encoder *encoder, const float *features, uint64_t n_frames,
                                   float *embeddings, size_t n_floats,
                                   const lk_encode_params *params, lk_error *err);

#ifdef __cplusplus
}
#endif
#endif
