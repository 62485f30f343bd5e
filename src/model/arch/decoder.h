/* decoder.h - the pieces that decoder-only architectures with RMS norms, rotary attention and
 * SwiGLU share. An architecture puts them together and says what is peculiar to it. */
#ifndef LK_MODEL_ARCH_DECODER_H
#define LK_MODEL_ARCH_DECODER_H

#include "model/arch.h"

/* Whether tensors such as attn_q.bias exist. */
typedef enum lk_decoder_bias {
    LK_DECODER_BIAS_NONE,
    LK_DECODER_BIAS_OPTIONAL,
    LK_DECODER_BIAS_REQUIRED
} lk_decoder_bias;

typedef struct lk_decoder {
    lk_loader *loader;
    lk_graph *graph;
    const lk_hparams *hparams;
    const lk_weight *embedding;
    uint32_t i_rope;
    lk_decoder_bias qkv_bias;
    lk_decoder_bias output_bias;
    bool qk_norm; /* RMS norm of every query and key head before the rotation */
} lk_decoder;

/* The keys that all of them have, rotary scaling included; keys that describe and change nothing
 * are passed over, those that would change the result are refused. */
void lk_decoder_read_hparams(lk_loader *loader, lk_hparams *hparams);
/* The rotary table; then the embedding of the step's tokens. */
void lk_decoder_add_rope(lk_decoder *d, lk_rope_order order);
lk_value lk_decoder_embed(lk_decoder *d, lk_hparams *hparams);
/* x + attention(norm(x)). In the last layer only the rows that want logits go on. */
lk_value lk_decoder_attend(lk_decoder *d, lk_value x, uint32_t layer);
/* norm(x) by ffn_norm.weight. */
lk_value lk_decoder_ffn_norm(lk_decoder *d, lk_value x, uint32_t layer);
/* down(silu(gate(in)) * up(in)) */
lk_value lk_decoder_swiglu(lk_decoder *d, lk_value in, uint32_t layer);
/* Final norm and output matrix (the embedding where output.weight is absent): sets the logits. */
void lk_decoder_finish(lk_decoder *d, lk_value x);

#endif
