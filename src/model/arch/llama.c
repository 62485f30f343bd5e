/* llama.c - Llama 1 to 3, Mistral, SmolLM, TinyLlama and others of the family: rotary pairs of
 * neighbours, optional biases of the attention, optional frequency factors (Llama 3.1). With
 * experts (Mixtral) it is refused. */
#include "model/arch/decoder.h"

static void build(lk_loader *loader, lk_graph *graph, lk_hparams *hparams) {
    lk_decoder d = lk_decoder_begin(loader, graph, hparams);
    lk_decoder_read_ffn(&d);
    lk_loader_expect(loader, "expert_count", 0);
    lk_loader_expect(loader, "expert_used_count", 0);
    hparams->rope.factors = lk_decoder_rope_factors(&d, "rope_freqs.weight");
    d.qkv_bias = LK_DECODER_BIAS_OPTIONAL;
    d.output_bias = LK_DECODER_BIAS_OPTIONAL;
    (void)lk_decoder_add_rope(&d, LK_ROPE_NORMAL);
    lk_decoder_build(&d);
    for (uint32_t layer = 0; layer < hparams->n_layers; layer++) {
        /* Inverse frequencies that old converters stored; they follow from the keys. */
        lk_loader_ignore_tensor(loader, "attn_rot_embd", (int32_t)layer);
    }
}

const lk_arch lk_arch_llama = {.name = "llama", .build = build};
