/* qwen3moe.c - Qwen 3 with experts in every layer: attention as in qwen3; the router's softmax runs
 * over all experts, the weights of the chosen ones are divided by their sum. */
#include "model/arch/decoder.h"

static void build(lk_loader *loader, lk_graph *graph, lk_hparams *hparams) {
    lk_decoder d = lk_decoder_begin(loader, graph, hparams);
    lk_decoder_moe moe = {.normalise = true, .activation = LK_NODE_SILU_MUL};
    lk_decoder_read_moe(&d, &moe);
    lk_loader_expect(loader, "expert_shared_count", 0);
    lk_loader_expect(loader, "expert_shared_feed_forward_length", 0);
    d.qk_norm = LK_DECODER_QK_NORM_HEADS;
    (void)lk_decoder_add_rope(&d, LK_ROPE_NEOX);
    lk_value x = lk_decoder_embed(&d);
    for (uint32_t layer = 0; layer < hparams->n_layers; layer++) {
        x = lk_decoder_attend(&d, x, layer);
        const lk_value in = lk_decoder_ffn_in(&d, x, layer);
        x = lk_decoder_ffn_out(&d, x, lk_decoder_experts(&d, in, layer, &moe), layer);
    }
    lk_decoder_finish(&d, x);
}

const lk_arch lk_arch_qwen3moe = {.name = "qwen3moe", .build = build};
