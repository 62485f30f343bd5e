/* qwen2moe.c - Qwen 1.5 and 2 with experts: attention as in qwen2; the weights of the chosen
 * experts are not divided by their sum; beside them an expert that every token uses, with a gate of
 * its own.
 */
#include "model/arch/decoder.h"

static void build(lk_loader *loader, lk_graph *graph, lk_hparams *hparams) {
    lk_decoder d = lk_decoder_begin(loader, graph, hparams);
    lk_decoder_moe moe = {.normalise = false, .activation = LK_NODE_SILU_MUL};
    lk_decoder_read_moe(&d, &moe);
    lk_loader_ignore(loader, "expert_shared_count"); /* one, however wide */
    const uint32_t n_ff_shared =
        lk_loader_size(loader, "expert_shared_feed_forward_length", INT32_MAX);
    d.qkv_bias = LK_DECODER_BIAS_REQUIRED;
    (void)lk_decoder_add_rope(&d, LK_ROPE_NEOX);
    lk_value x = lk_decoder_embed(&d);
    for (uint32_t layer = 0; layer < hparams->n_layers; layer++) {
        x = lk_decoder_attend(&d, x, layer);
        const lk_value in = lk_decoder_ffn_in(&d, x, layer);
        const lk_value gate =
            lk_decoder_project(&d, in, "ffn_gate_inp_shexp.weight", layer, hparams->n_embd, 1);
        lk_value shared = lk_decoder_gated(&d, in, layer, "_shexp", n_ff_shared);
        shared = lk_graph_row_gate(graph, shared, gate);
        const lk_value chosen = lk_decoder_experts(&d, in, layer, &moe);
        x = lk_decoder_ffn_out(&d, x, lk_graph_add(graph, chosen, shared), layer);
    }
    lk_decoder_finish(&d, x);
}

const lk_arch lk_arch_qwen2moe = {.name = "qwen2moe", .build = build};
