/* granite.c - Granite 3, dense: factors on the embedding, on what each block adds, on the scores
 * and on the logits; else as llama. */
#include "model/arch/decoder.h"

static void build(lk_loader *loader, lk_graph *graph, lk_hparams *hparams) {
    lk_decoder d = lk_decoder_begin(loader, graph, hparams);
    lk_decoder_read_ffn(&d);
    d.embedding_scale = lk_loader_float_or(loader, "embedding_scale", 1.0);
    d.residual_scale = lk_loader_float_or(loader, "residual_scale", 1.0);
    d.attention_scale = lk_loader_float_or(loader, "attention.scale", d.attention_scale);
    d.logit_scale = 1.0 / lk_loader_float_or(loader, "logit_scale", 1.0);
    d.qkv_bias = LK_DECODER_BIAS_OPTIONAL;
    d.output_bias = LK_DECODER_BIAS_OPTIONAL;
    (void)lk_decoder_add_rope(&d, LK_ROPE_NORMAL);
    lk_decoder_build(&d);
}

const lk_arch lk_arch_granite = {.name = "granite", .build = build};
