/* qwen3.c - Qwen 3, dense: rotary pairs of the two halves, an RMS norm of every query and key head,
 * no biases. */
#include "model/arch/decoder.h"

static void build(lk_loader *loader, lk_graph *graph, lk_hparams *hparams) {
    lk_decoder d = lk_decoder_begin(loader, graph, hparams);
    lk_decoder_read_ffn(&d);
    d.qk_norm = LK_DECODER_QK_NORM_HEADS;
    (void)lk_decoder_add_rope(&d, LK_ROPE_NEOX);
    lk_decoder_build(&d);
}

const lk_arch lk_arch_qwen3 = {.name = "qwen3", .build = build};
