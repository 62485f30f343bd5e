/* decoder.h - the pieces that decoder-only architectures with RMS norms and rotary attention share.
 * An architecture begins a decoder, says in its fields what is peculiar to it, and puts the pieces
 * together. Fields left zero are the plain form. */
#ifndef LK_MODEL_ARCH_DECODER_H
#define LK_MODEL_ARCH_DECODER_H

#include "model/arch.h"

/* Whether tensors such as attn_q.bias exist. */
typedef enum lk_decoder_bias {
    LK_DECODER_BIAS_NONE,
    LK_DECODER_BIAS_OPTIONAL,
    LK_DECODER_BIAS_REQUIRED
} lk_decoder_bias;

/* RMS norm of queries and keys before the rotation: of every head, or of all heads as one vector.
 */
typedef enum lk_decoder_qk_norm {
    LK_DECODER_QK_NORM_NONE,
    LK_DECODER_QK_NORM_HEADS,
    LK_DECODER_QK_NORM_VECTOR
} lk_decoder_qk_norm;

/* Where a block has its norms: on what it reads (attn_norm, ffn_norm), on what it adds
 * (post_attention_norm, post_ffw_norm), or both. */
typedef enum lk_decoder_norms {
    LK_DECODER_NORMS_BEFORE,
    LK_DECODER_NORMS_AFTER,
    LK_DECODER_NORMS_BOTH
} lk_decoder_norms;

#define LK_DECODER_NO_ROPE UINT32_MAX

typedef struct lk_decoder {
    lk_loader *loader;
    lk_graph *graph;
    lk_hparams *hparams;
    const lk_weight *embedding;
    bool is_long_rope;    /* the file has rotary factors for short and for long contexts ... */
    bool takes_long_rope; /* ... and the architecture uses them, with a magnitude */

    /* May change from layer to layer. */
    uint32_t i_rope; /* of lk_decoder_add_rope, or LK_DECODER_NO_ROPE */
    uint32_t window; /* positions that a query sees, its own included; 0: all */

    lk_decoder_norms norms;
    const char *ffn_norm; /* name of the norm before the feed-forward block, if it is another one */
    lk_decoder_qk_norm qk_norm;
    lk_decoder_bias qkv_bias;
    lk_decoder_bias output_bias;
    bool fused_qkv;           /* attn_qkv: query, key, value in one matrix; without biases */
    bool fused_ffn;           /* ffn_up: gate, then up, in one matrix */
    bool sinks;               /* attn_sinks: a logit for each head */
    lk_node_kind activation;  /* of lk_decoder_feed; LK_NODE_SILU_MUL from lk_decoder_begin */
    double attention_scale;   /* 1 / sqrt(head size) from lk_decoder_begin */
    double attention_softcap; /* 0: none */
    double embedding_scale;   /* this and the next are 1 from lk_decoder_begin */
    double residual_scale;    /* of what a block adds */
    double logit_scale;
    double logit_softcap;      /* 0: none */
    double temperature;        /* of the queries, by position; 0: none */
    uint32_t temperature_step; /* positions from one value to the next */
} lk_decoder;

/* Reads the keys that all of them have, rotary scaling included, and sets the plain form. */
lk_decoder lk_decoder_begin(lk_loader *loader, lk_graph *graph, lk_hparams *hparams);
/* Reads feed_forward_length. */
void lk_decoder_read_ffn(lk_decoder *d);
/* Adds a rotary table by hparams->rope, for this layer and the next ones; returns its index. */
uint32_t lk_decoder_add_rope(lk_decoder *d, lk_rope_order order);
/* Frequency factors f32 [n_rot / 2] from a tensor; NULL where the file has none. */
const float *lk_decoder_rope_factors(lk_decoder *d, const char *name);
/* Reads a window and how often it is absent: of `pattern` layers the last one sees all; of 0 none.
 */
typedef struct lk_decoder_windows {
    uint32_t window;
    uint32_t pattern;
} lk_decoder_windows;
lk_decoder_windows lk_decoder_read_windows(lk_decoder *d, uint32_t pattern);
/* The window of a layer, 0 where it sees all. */
uint32_t lk_decoder_window(const lk_decoder_windows *windows, uint32_t layer);

/* The embedding of the step's tokens. */
lk_value lk_decoder_embed(lk_decoder *d);
/* RMS norm of x by blk.<layer>.<name> (layer -1: <name>). */
lk_value lk_decoder_norm(lk_decoder *d, lk_value x, const char *name, int32_t layer);
/* x times blk.<layer>.<name> [n_in, n_out]. */
lk_value lk_decoder_project(lk_decoder *d, lk_value x, const char *name, uint32_t layer,
                            uint32_t n_in, uint32_t n_out);
/* x + attention(x). In the last layer only the rows that want logits go on. */
lk_value lk_decoder_attend(lk_decoder *d, lk_value x, uint32_t layer);
/* What the feed-forward block reads, and x + what it gives; between them lk_decoder_swiglu, experts
 * or both. */
lk_value lk_decoder_ffn_in(lk_decoder *d, lk_value x, uint32_t layer);
lk_value lk_decoder_ffn_out(lk_decoder *d, lk_value x, lk_value y, uint32_t layer);
/* down(activation(gate(in), up(in))); names end in `suffix`, n_ff wide inside. */
lk_value lk_decoder_gated(lk_decoder *d, lk_value in, uint32_t layer, const char *suffix,
                          uint32_t n_ff);
/* x + the feed-forward block without experts. */
lk_value lk_decoder_feed(lk_decoder *d, lk_value x, uint32_t layer);
/* Final norm and output matrix (the embedding where output.weight is absent): sets the logits. */
void lk_decoder_finish(lk_decoder *d, lk_value x);
/* Embedding, layers of lk_decoder_attend and lk_decoder_feed, and the end. */
void lk_decoder_build(lk_decoder *d);

/* Experts. */
typedef struct lk_decoder_moe {
    bool normalise;
    bool biases; /* of router and experts */
    lk_node_kind activation;
} lk_decoder_moe;
/* Reads their keys: counts, sizes, and that the router is a softmax. */
void lk_decoder_read_moe(lk_decoder *d, lk_decoder_moe *moe);
lk_value lk_decoder_experts(lk_decoder *d, lk_value in, uint32_t layer, const lk_decoder_moe *moe);

#endif
