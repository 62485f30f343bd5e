/* qwen2.c - Qwen 2 and 2.5: rotary pairs of the two halves, biases of query, key and value. */
#include "model/arch/decoder.h"

static void build(lk_loader *loader, lk_graph *graph, lk_hparams *hparams) {
    lk_decoder d = lk_decoder_begin(loader, graph, hparams);
    lk_decoder_read_ffn(&d);
    d.qkv_bias = LK_DECODER_BIAS_REQUIRED;
    (void)lk_decoder_add_rope(&d, LK_ROPE_NEOX);
    lk_decoder_build(&d);
}

const lk_arch lk_arch_qwen2 = {.name = "qwen2", .build = build};
