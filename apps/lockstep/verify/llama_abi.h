/* llama_abi.h - what of libllama's binary interface the verifier calls, declared by itself: no
 * header of that library is needed, and none was copied. It holds for version 0.4 (the npm package
 * node-llama-cpp 3.21.1 ships 0.4.0). llama_library.c checks at run time that a library is of that
 * kind before anything is done with it.
 *
 * Parameter structs are passed by value. Each is wrapped in a block that is larger than the
 * library's own struct can be, is filled by the library, and goes back to it whole: fields that a
 * later version appends keep the library's own values, and its writes stay inside. The platforms'
 * calling conventions (x86-64 System V, AArch64) hand over such structs in memory, where a longer
 * one is as good as a shorter one. */
#ifndef LK_LLAMA_ABI_H
#define LK_LLAMA_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct llama_abi_model llama_abi_model;
typedef struct llama_abi_context llama_abi_context;
typedef struct llama_abi_memory llama_abi_memory;
typedef struct llama_abi_vocab llama_abi_vocab;
typedef struct llama_abi_backend llama_abi_backend; /* a registered backend of ggml */

/* Element types of the KV cache, as ggml numbers them. */
enum { LLAMA_ABI_F32 = 0, LLAMA_ABI_F16 = 1, LLAMA_ABI_Q8_0 = 8 };
/* Kinds of devices. */
enum { LLAMA_ABI_CPU = 0 };
/* Levels of its log. */
enum { LLAMA_ABI_LOG_WARNING = 3, LLAMA_ABI_LOG_ERROR = 4, LLAMA_ABI_LOG_MORE = 5 };
/* What llama_decode returns; below -1: it gave up midway. */
enum { LLAMA_ABI_DONE = 0, LLAMA_ABI_FULL = 1, LLAMA_ABI_ABORTED = 2, LLAMA_ABI_INVALID = -1 };

typedef struct llama_abi_model_params {
    const void *devices;
    const void *buffer_overrides;
    int32_t n_gpu_layers; /* below 0: all */
    int32_t split_mode;
    int32_t load_mode;
    int32_t lazy_mode;
    int32_t main_gpu;
    const float *tensor_split;
    const void *progress;
    const void *progress_user;
    const void *kv_overrides;
    bool vocab_only;
    bool check_tensors;
    bool use_extra_buffers; /* weights may be repacked at load */
    bool no_host;
    bool no_alloc;
    bool load_mtp;
} llama_abi_model_params;

typedef struct llama_abi_context_params {
    uint32_t n_ctx;    /* positions of all sequences together */
    uint32_t n_batch;  /* rows that one call may have */
    uint32_t n_ubatch; /* rows that are computed at once */
    uint32_t n_seq_max;
    uint32_t n_snapshots;
    uint32_t n_outputs_max;
    uint32_t n_outputs_max_per_seq;
    int32_t n_threads;       /* for calls of one row */
    int32_t n_threads_batch; /* for the others */
    int32_t context_type;
    int32_t rope_scaling;
    int32_t pooling;
    int32_t attention;
    int32_t flash_attention; /* -1 its own choice, 0 without, 1 with */
    float rope_freq_base;
    float rope_freq_scale;
    float yarn_ext_factor;
    float yarn_attn_factor;
    float yarn_beta_fast;
    float yarn_beta_slow;
    uint32_t yarn_orig_ctx;
    float defrag_threshold;
    const void *eval;
    const void *eval_user;
    int32_t type_k;
    int32_t type_v;
    const void *abort;
    const void *abort_user;
    bool embeddings;
    bool offload_kqv;
    bool no_perf;
    bool op_offload;
    bool swa_full;
    bool kv_unified; /* one buffer for all sequences */
    const void *samplers;
    size_t n_samplers;
    const void *other;
} llama_abi_context_params;

/* Arrays of n_tokens; seq_id[i] has n_seq_id[i] sequence ids. */
typedef struct llama_abi_batch {
    int32_t n_tokens;
    int32_t *token;
    float *embeddings;
    int32_t *pos;
    int32_t *n_seq_id;
    int32_t **seq_id;
    int8_t *wants_logits;
} llama_abi_batch;

typedef struct llama_abi_model_block {
    llama_abi_model_params params;
    unsigned char rest[512];
} llama_abi_model_block;

typedef struct llama_abi_context_block {
    llama_abi_context_params params;
    unsigned char rest[512];
} llama_abi_context_block;

typedef void llama_abi_log(int level, const char *text, void *user);
typedef void llama_abi_give_up(const char *message);

#endif
