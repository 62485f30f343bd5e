/* qwen3moe.c - Qwen 3 with experts in every layer: attention as in qwen3; the router's softmax runs
 * over all experts, the weights of the chosen ones are divided by their sum. */
#include "model/arch/decoder.h"

enum { MAX_EXPERTS = 65536 };

static lk_value run_experts(lk_decoder *d, lk_value h, int32_t layer) {
    const lk_hparams *p = d->hparams;
    const lk_weight *router = lk_loader_weight(d->loader, "ffn_gate_inp.weight", layer,
                                               LK_MATRIX(p->n_embd, p->n_experts));
    const lk_weight *gate = lk_loader_weight(d->loader, "ffn_gate_exps.weight", layer,
                                             LK_EXPERTS(p->n_embd, p->n_ff_expert, p->n_experts));
    const lk_weight *up = lk_loader_weight(d->loader, "ffn_up_exps.weight", layer,
                                           LK_EXPERTS(p->n_embd, p->n_ff_expert, p->n_experts));
    const lk_weight *down = lk_loader_weight(d->loader, "ffn_down_exps.weight", layer,
                                             LK_EXPERTS(p->n_ff_expert, p->n_embd, p->n_experts));
    const lk_value logits = lk_graph_matmul(d->graph, h, router);
    return lk_graph_moe(d->graph, h, logits, gate, up, down, p->n_experts_used, true);
}

static void build(lk_loader *loader, lk_graph *graph, lk_hparams *hparams) {
    lk_decoder_read_hparams(loader, hparams);
    hparams->n_experts = lk_loader_size(loader, "expert_count", MAX_EXPERTS);
    hparams->n_experts_used = lk_loader_size(loader, "expert_used_count", MAX_EXPERTS);
    hparams->n_ff_expert = lk_loader_size(loader, "expert_feed_forward_length", INT32_MAX);
    lk_loader_ignore(loader, "feed_forward_length"); /* of dense layers: there are none */
    lk_loader_expect(loader, "expert_shared_count", 0);
    lk_loader_expect(loader, "expert_shared_feed_forward_length", 0);
    lk_loader_expect(loader, "expert_gating_func", 1); /* softmax */
    lk_loader_expect(loader, "expert_weights_norm", 1);
    lk_decoder d = {.loader = loader, .graph = graph, .hparams = hparams, .qk_norm = true};
    lk_decoder_add_rope(&d, LK_ROPE_NEOX);
    lk_value x = lk_decoder_embed(&d, hparams);
    for (uint32_t layer = 0; layer < hparams->n_layers; layer++) {
        x = lk_decoder_attend(&d, x, layer);
        const lk_value h = lk_decoder_ffn_norm(&d, x, layer);
        x = lk_graph_add(graph, x, run_experts(&d, h, (int32_t)layer));
    }
    lk_decoder_finish(&d, x);
}

const lk_arch lk_arch_qwen3moe = {.name = "qwen3moe", .build = build};
