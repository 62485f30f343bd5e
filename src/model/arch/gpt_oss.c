/* gpt_oss.c - gpt-oss: biases everywhere, a sink for each head, sliding windows in every other
 * layer, experts with a clamped activation whose weights are a softmax over the chosen ones. */
#include "model/arch/decoder.h"

static void build(lk_loader *loader, lk_graph *graph, lk_hparams *hparams) {
    lk_decoder d = lk_decoder_begin(loader, graph, hparams);
    lk_decoder_moe moe = {
        .normalise = true, .biases = true, .activation = LK_NODE_CLAMPED_SILU_MUL};
    lk_decoder_read_moe(&d, &moe);
    d.ffn_norm = "post_attention_norm.weight";
    d.qkv_bias = LK_DECODER_BIAS_REQUIRED;
    d.output_bias = LK_DECODER_BIAS_REQUIRED;
    d.sinks = true;
    const lk_decoder_windows windows = lk_decoder_read_windows(&d, 2);
    (void)lk_decoder_add_rope(&d, LK_ROPE_NEOX);
    lk_value x = lk_decoder_embed(&d);
    for (uint32_t layer = 0; layer < hparams->n_layers; layer++) {
        d.window = lk_decoder_window(&windows, layer);
        x = lk_decoder_attend(&d, x, layer);
        const lk_value in = lk_decoder_ffn_in(&d, x, layer);
        x = lk_decoder_ffn_out(&d, x, lk_decoder_experts(&d, in, layer, &moe), layer);
    }
    lk_decoder_finish(&d, x);
}

const lk_arch lk_arch_gpt_oss = {.name = "gpt-oss", .build = build};
