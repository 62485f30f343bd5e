/* glm4.c - GLM-4 and GLM-Z1 of April 2025 (0414): norms before and after each block, rotary over a
 * part of the head, gate and up in one matrix, biases of query, key and value where the file has
 * them. Positions of several axes (GLM-4.1V, rope.dimension_sections) and prediction layers
 * (GLM-OCR) are refused by their keys. */
#include "model/arch/decoder.h"

static void build(lk_loader *loader, lk_graph *graph, lk_hparams *hparams) {
    lk_decoder d = lk_decoder_begin(loader, graph, hparams);
    lk_decoder_read_ffn(&d);
    d.norms = LK_DECODER_NORMS_BOTH;
    d.qkv_bias = LK_DECODER_BIAS_OPTIONAL;
    d.fused_ffn = true;
    lk_loader_expect(loader, "nextn_predict_layers", 0);
    (void)lk_decoder_add_rope(&d, LK_ROPE_NORMAL);
    lk_decoder_build(&d);
}

const lk_arch lk_arch_glm4 = {.name = "glm4", .build = build};
