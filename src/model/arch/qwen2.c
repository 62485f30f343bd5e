/* qwen2.c - Qwen 2 and 2.5: rotary pairs of the two halves, biases of query, key and value. */
#include "model/arch/decoder.h"

static void build(lk_loader *loader, lk_graph *graph, lk_hparams *hparams) {
    lk_decoder_read_hparams(loader, hparams);
    hparams->n_ff = lk_loader_size(loader, "feed_forward_length", INT32_MAX);
    lk_decoder d = {
        .loader = loader, .graph = graph, .hparams = hparams, .qkv_bias = LK_DECODER_BIAS_REQUIRED};
    lk_decoder_add_rope(&d, LK_ROPE_NEOX);
    lk_value x = lk_decoder_embed(&d, hparams);
    for (uint32_t layer = 0; layer < hparams->n_layers; layer++) {
        x = lk_decoder_attend(&d, x, layer);
        const lk_value h = lk_decoder_ffn_norm(&d, x, layer);
        x = lk_graph_add(graph, x, lk_decoder_swiglu(&d, h, layer));
    }
    lk_decoder_finish(&d, x);
}

const lk_arch lk_arch_qwen2 = {.name = "qwen2", .build = build};
