/* llama.c - Llama 1 to 3, Mistral, SmolLM, TinyLlama and others of the family: rotary pairs of
 * neighbours, optional biases of the attention, optional frequency factors (Llama 3.1). With
 * experts (Mixtral) it is refused. */
#include "model/arch/decoder.h"

static void read_factors(lk_loader *loader, lk_hparams *hparams) {
    const lk_weight *w =
        lk_loader_weight_or_null(loader, "rope_freqs.weight", -1, LK_VECTOR(hparams->n_rot / 2));
    if (w == NULL) {
        return;
    }
    if (w->format->type != LK_FORMAT_F32) {
        lk_loader_fail(loader, LK_E_UNSUPPORTED, w->name, "tensor %s has format %s, expected F32",
                       w->name, w->format->name);
        return;
    }
    hparams->rope.factors = (const float *)(const void *)w->data;
}

static void build(lk_loader *loader, lk_graph *graph, lk_hparams *hparams) {
    lk_decoder_read_hparams(loader, hparams);
    hparams->n_ff = lk_loader_size(loader, "feed_forward_length", INT32_MAX);
    lk_loader_expect(loader, "expert_count", 0);
    lk_loader_expect(loader, "expert_used_count", 0);
    read_factors(loader, hparams);
    lk_decoder d = {.loader = loader,
                    .graph = graph,
                    .hparams = hparams,
                    .qkv_bias = LK_DECODER_BIAS_OPTIONAL,
                    .output_bias = LK_DECODER_BIAS_OPTIONAL};
    lk_decoder_add_rope(&d, LK_ROPE_NORMAL);
    lk_value x = lk_decoder_embed(&d, hparams);
    for (uint32_t layer = 0; layer < hparams->n_layers; layer++) {
        x = lk_decoder_attend(&d, x, layer);
        const lk_value h = lk_decoder_ffn_norm(&d, x, layer);
        x = lk_graph_add(graph, x, lk_decoder_swiglu(&d, h, layer));
        /* Inverse frequencies that old converters stored; they follow from the keys. */
        lk_loader_ignore_tensor(loader, "attn_rot_embd", (int32_t)layer);
    }
    lk_decoder_finish(&d, x);
}

const lk_arch lk_arch_llama = {.name = "llama", .build = build};
